#include "fs/crash/state_worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fs/crash/enumerate.h"

namespace tidewheel {

namespace {

constexpr std::uint64_t kSecondRecovery = 8;  // one state in so many is recovered twice
constexpr std::uint32_t kDraws = 4;  // at one cut of a recovery, for a state that was not tried before

// What each worker is busy with, as text, for a handler of fatal signals: written before each state, read
// only when the program dies.
struct alignas(128) UnderWay {
  char text[1024];
};
constexpr std::uint32_t kUnderWaySlots = 64;
UnderWay g_under_way[kUnderWaySlots];

void note_under_way(std::uint32_t worker, const std::string& name) {
  if (worker >= kUnderWaySlots) return;
  char* text = g_under_way[worker].text;
  const std::size_t n = std::min(name.size(), sizeof(UnderWay::text) - 2);
  std::memcpy(text, name.data(), n);
  if (n != 0) text[n] = '\n';
  text[n == 0 ? 0 : n + 1] = '\0';
}

std::string words_of(const IoTrace& trace, const Cut& cut, const StateSpec& spec) {
  std::string text = "at the end";
  if (cut.event != trace.events.size()) {
    const IoTrace::Event& event = trace.events[cut.event];
    text = event.kind == IoTrace::EventKind::kSubmitted ? "before " : "before the completion of ";
    text += trace.describe(event.index);
  }
  std::string lost;
  std::size_t n = 0;
  for (std::uint32_t i = 0; i < cut.candidates.size(); ++i) {
    if (!spec.is_lost(i)) continue;
    if (++n <= 8) lost += (lost.empty() ? "" : ", ") + trace.describe(cut.candidates[i].op);
  }
  const std::size_t writes = cut.candidates.size();
  text += ", " + std::to_string(writes) + (writes == 1 ? " write" : " writes") + " not durable";
  if (n != 0) text += ", lost " + lost + (n > 8 ? " and " + std::to_string(n - 8) + " more" : "");
  for (const Tear& tear : spec.torn) {
    text += ", torn " + trace.describe(cut.candidates[tear.candidate].op);
    if (tear.form == Tear::Form::kPrefix) text += " after " + std::to_string(tear.value) + " bytes";
  }
  return text;
}

}  // namespace

void write_states_under_way(int descriptor) {
  for (const UnderWay& slot : g_under_way) {
    const std::size_t n = ::strnlen(slot.text, sizeof slot.text);
    // Nobody is left to hear of a failure.
    if (n != 0 && ::write(descriptor, slot.text, n) < 0) return;
  }
}

StateWorker::~StateWorker() { note_under_way(index_, {}); }

void StateWorker::begin(const ExploreOptions& options, const Recording& run, std::uint64_t seed,
                        const KeySet& known) {
  options_ = &options;
  run_ = &run;
  known_ = &known;
  name_ = {options.workload, seed, run.trace_hash, {}};
}

StateWorker::Level& StateWorker::level(std::size_t depth) {
  while (levels_.size() <= depth) levels_.push_back(std::make_unique<Level>());
  return *levels_[depth];
}

std::string StateWorker::words() const {
  std::string text;
  for (const Step& step : path_) {
    if (!text.empty()) text += "; in the recovery of that ";
    text += words_of(*step.trace, *step.cut, *step.spec);
  }
  return text;
}

void StateWorker::fail(StateResult& result, std::string oracle, std::string detail) const {
  result.failures.push_back(
      {options_->workload, words(), std::move(oracle), std::move(detail), to_string(name_), 0});
}

std::uint64_t StateWorker::enter(const Step& step) {
  Level& here = level(path_.size());
  path_.push_back(step);
  name_.levels.push_back({step.cut->event, *step.spec});
  note_under_way(index_, to_string(name_));
  here.recorder.clear();
  here.image.set_operation_limit(options_->requests);
  return here.image.reset(run_->base, *step.cut, *step.spec);
}

void StateWorker::leave() {
  path_.pop_back();
  name_.levels.pop_back();
}

void StateWorker::explore(const Cut& cut, const StateSpec& spec, StateResult& result) {
  tried_.clear();
  notes_ = cut.notes;
  const std::uint64_t hash = enter({&run_->trace(), &cut, &spec});
  recover_and_check(mix_hash(hash, name_.seed) % kSecondRecovery == 0, result);
  if (options_->recover && options_->nested_depth != 0) explore_nested(hash, result);
  leave();
}

bool StateWorker::recover(BlockDevice& device, const char* oracle, StateResult& result) {
  const Result<void> recovered = run_->workload->recover(device);
  if (level(path_.size() - 1).image.is_exhausted()) {
    fail(result, oracle, "it does not end: " + std::to_string(options_->requests) +
                             " requests were not enough");
    return false;
  }
  if (!recovered) {
    fail(result, oracle, std::string(recovered.error().sentence()));
    return false;
  }
  return true;
}

void StateWorker::recover_and_check(bool twice, StateResult& result) {
  Level& here = level(path_.size() - 1);
  if (options_->recover) {
    if (!recover(here.recorder, "recovery", result)) return;
    if (twice) {
      ++result.second_recoveries;
      const std::uint64_t once = here.image.content_hash();
      // Not recorded: the trace of the first is still to be cut.
      if (!recover(here.image, "second recovery", result)) return;
      if (run_->workload->recovers_to_same_bytes() && here.image.content_hash() != once) {
        return fail(result, "second recovery", "it changed bytes of an image that was recovered");
      }
    }
  }
  const Acks acks(run_->trace().notes.data(), notes_);
  if (CheckResult wrong = run_->workload->check(here.image, acks); wrong) {
    fail(result, std::move(wrong->oracle), std::move(wrong->detail));
  }
}

BlockMap StateWorker::beneath_recovery() {
  Level& here = level(path_.size() - 1);
  const Step& step = path_.back();
  here.over.clear();
  here.arena.reset();
  apply(run_->base, *step.cut, *step.spec, here.over, here.arena);
  BlockMap beneath = step.cut->durable;
  for (const BlockMap::Entry& entry : here.over.entries()) beneath.set(entry.block, entry.ref);
  return beneath;
}

void StateWorker::explore_nested(std::uint64_t hash, StateResult& result) {
  const IoTrace& trace = level(path_.size() - 1).recorder.trace();
  if (options_->nested == 0 || path_.size() > options_->nested_depth) return;
  if (std::none_of(trace.ops.begin(), trace.ops.end(),
                   [](const IoTrace::Op& op) { return op.op == IoOp::kWrite; })) {
    return;
  }
  const BlockMap beneath = beneath_recovery();
  std::uint64_t cuts = 0;
  for (CutWalker walker(trace, run_->base, beneath, hash); walker.next() != nullptr;) ++cuts;
  // The first cut is the state itself. One nested state in each recovery further in.
  Rng rng(mix_hash(hash, name_.seed));
  std::vector<std::uint64_t> chosen(path_.size() == 1 ? options_->nested : 1);
  for (std::uint64_t& cut : chosen) cut = 1 + rng.below(cuts - 1);
  std::sort(chosen.begin(), chosen.end());
  CutWalker walker(trace, run_->base, beneath, hash);
  const Cut* cut = walker.next();
  std::uint64_t at = 0;
  for (const std::uint64_t wanted : chosen) {
    for (; at < wanted; ++at) cut = walker.next();
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
      const StateSpec spec = draw_state(*cut, rng);
      const std::uint64_t nested_hash = enter({&trace, cut, &spec});
      const std::uint64_t key = key_of_state(nested_hash, notes_);
      const bool known = nested_hash == hash || known_->contains(key) ||
                         std::find(tried_.begin(), tried_.end(), key) != tried_.end();
      if (!known) {
        tried_.push_back(key);
        result.nested.push_back({nested_hash, key});
        recover_and_check(mix_hash(nested_hash, name_.seed) % kSecondRecovery == 0, result);
        explore_nested(nested_hash, result);
      }
      leave();
      if (!known) break;
    }
  }
}

std::string StateWorker::replay(const ReplayName& name, std::string& words, StateResult& result) {
  CutWalker walker(run_->trace(), run_->base);
  return replay_level(walker, run_->trace(), name, words, result);
}

std::string StateWorker::replay_level(CutWalker& walker, const IoTrace& trace, const ReplayName& name,
                                      std::string& words, StateResult& result) {
  const std::size_t depth = path_.size();
  const StateLevel& wanted = name.levels[depth];
  const Cut* cut = walker.next();
  while (cut != nullptr && cut->event < wanted.cut) cut = walker.next();
  if (cut == nullptr || cut->event != wanted.cut) {
    return "cut=" + std::to_string(wanted.cut) + " is none of the cuts of this " +
           (depth == 0 ? "run" : "recovery") + ", which lie from 0 to " + std::to_string(trace.events.size());
  }
  if (const std::string why = misfit(*cut, wanted.spec); !why.empty()) return why;
  if (depth == 0) notes_ = cut->notes;
  const std::uint64_t hash = enter({&trace, cut, &wanted.spec});
  std::string refused;
  if (depth + 1 == name.levels.size()) {
    words = this->words();
    recover_and_check(true, result);
  } else {
    // Only to see what it writes.
    Level& here = level(depth);
    (void)run_->workload->recover(here.recorder);
    CutWalker inner(here.recorder.trace(), run_->base, beneath_recovery(), hash);
    refused = replay_level(inner, here.recorder.trace(), name, words, result);
  }
  leave();
  return refused;
}

}  // namespace tidewheel
