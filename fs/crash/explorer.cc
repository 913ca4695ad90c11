// The order of an exploration: states are generated and told apart on one thread, recovered and checked on
// all, a batch at a time; so that what comes out does not depend on the threads.
#include "fs/crash/explorer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"
#include "fs/crash/enumerate.h"
#include "fs/crash/state_pool.h"
#include "fs/crash/state_worker.h"

namespace tidewheel {

namespace {

constexpr std::size_t kBatch = 1024;         // states between two looks at clock and limits
constexpr std::uint64_t kIdleRuns = 20;      // so many in a row without a new state end an open exploration

struct Task {
  std::shared_ptr<const Cut> cut;
  StateSpec spec;
  std::uint64_t hash = 0;
};

class Exploring {
 public:
  explicit Exploring(const ExploreOptions& options)
      : options_(options),
        threads_(options.threads != 0 ? options.threads : cpu_count()),
        pool_(threads_),
        start_(SteadyClock::instance().now()) {
    for (std::uint32_t i = 0; i < threads_; ++i) workers_.push_back(std::make_unique<StateWorker>(i));
  }

  Exploration go();

 private:
  // One recorded run; false when the exploration is over.
  bool explore_run(std::uint64_t seed);
  // What of a run fits its share of the states: so many at each cut, at so many of the cuts.
  struct Plan {
    std::uint64_t states_per_cut = 1;
    std::uint64_t cuts = 0, cuts_tried = 0;
  };
  Plan plan(const Recording& run, std::uint64_t share) const;
  bool run_batch();
  void count(std::uint64_t hash, std::uint64_t key);
  bool is_over();
  std::uint64_t share() const;

  const ExploreOptions& options_;
  const std::uint32_t threads_;
  StatePool pool_;
  std::vector<std::unique_ptr<StateWorker>> workers_;
  const Instant start_;
  KeySet seen_;   // contents, of all runs
  KeySet known_;  // content and acknowledgements, of one run
  std::vector<Task> batch_;
  Exploration result_;
};

Exploration Exploring::go() {
  std::uint64_t idle = 0;
  for (std::uint64_t i = 0; options_.runs == 0 || i < options_.runs; ++i) {
    const std::uint64_t before = result_.states;
    if (!explore_run(options_.seed + i)) break;
    idle = result_.states == before ? idle + 1 : 0;
    if (options_.runs == 0 && idle == kIdleRuns) break;
  }
  result_.seconds = (SteadyClock::instance().now() - start_).seconds();
  return std::move(result_);
}

std::uint64_t Exploring::share() const {
  // Each state brings those of its recovery with it.
  const std::uint64_t with_nested = options_.recover && options_.nested_depth != 0 ? 1 + options_.nested : 1;
  const std::uint64_t of_run =
      options_.runs == 0 ? std::min(options_.states, options_.states_of_run)
                         : options_.states / options_.runs;
  return std::max<std::uint64_t>(of_run / with_nested, 1);
}

Exploring::Plan Exploring::plan(const Recording& run, std::uint64_t share) const {
  std::vector<std::uint64_t> counts;
  CutWalker walker(run.trace(), run.base);
  while (const Cut* cut = walker.next()) counts.push_back(count_states(*cut));
  std::uint64_t low = 1, high = kSampledSubsets * 2;
  while (low < high) {
    const std::uint64_t limit = (low + high + 1) / 2;
    std::uint64_t sum = 0;
    for (const std::uint64_t n : counts) sum += std::min(n, limit);
    if (sum <= share) {
      low = limit;
    } else {
      high = limit - 1;
    }
  }
  return {low, counts.size(), std::min<std::uint64_t>(counts.size(), share)};
}

bool Exploring::explore_run(std::uint64_t seed) {
  if (is_over()) return false;
  Recording run;
  result_.broken = record(options_.make, seed, run);
  if (!result_.broken.empty()) return false;
  ++result_.runs;
  known_.clear();
  for (auto& worker : workers_) worker->begin(options_, run, seed, known_);
  const Plan plan = this->plan(run, share());
  CutWalker walker(run.trace(), run.base);
  BlockMap over;
  BlockArena arena;
  while (const Cut* next = walker.next()) {
    const std::uint64_t cut_seed = mix_hash(seed, next->event);
    if (Rng(cut_seed).below(plan.cuts) >= plan.cuts_tried) continue;
    ++result_.cuts;
    const auto cut = std::make_shared<const Cut>(*next);
    for (StateSpec& spec : enumerate(*cut, cut_seed, plan.states_per_cut)) {
      over.clear();
      arena.reset();
      const std::uint64_t hash = apply(run.base, *cut, spec, over, arena);
      if (!known_.insert(key_of_state(hash, cut->notes))) {
        ++result_.duplicates;
        continue;
      }
      batch_.push_back({cut, std::move(spec), hash});
      if (batch_.size() == kBatch && !run_batch()) return false;
    }
  }
  return run_batch();
}

void Exploring::count(std::uint64_t hash, std::uint64_t key) {
  known_.insert(key);
  if (seen_.insert(hash)) {
    ++result_.states;
  } else {
    ++result_.rechecks;
  }
}

bool Exploring::run_batch() {
  std::vector<StateResult> results(batch_.size());
  pool_.run(batch_.size(), [&](std::uint32_t worker, std::size_t i) {
    workers_[worker]->explore(*batch_[i].cut, batch_[i].spec, results[i]);
  });
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const std::uint64_t before = result_.states;
    count(batch_[i].hash, key_of_state(batch_[i].hash, batch_[i].cut->notes));
    for (const NestedState& nested : results[i].nested) {
      ++result_.nested;
      count(nested.hash, nested.key);
    }
    result_.second_recoveries += results[i].second_recoveries;
    for (CrashFailure& failure : results[i].failures) {
      failure.states_before = before;
      if (result_.failures.size() < options_.max_failures) result_.failures.push_back(std::move(failure));
    }
  }
  batch_.clear();
  if (options_.on_progress) {
    options_.on_progress({.runs = result_.runs,
                          .states = result_.states,
                          .failures = result_.failures.size(),
                          .seconds = (SteadyClock::instance().now() - start_).seconds()});
  }
  return !is_over();
}

bool Exploring::is_over() {
  if (result_.states >= options_.states || result_.failures.size() >= options_.max_failures) return true;
  if (options_.stop && options_.stop()) {
    result_.stopped = true;
    return true;
  }
  // Not start_ + time: the longest time is all of time.
  if (SteadyClock::instance().now() - start_ >= options_.time) {
    result_.timed_out = true;
    return true;
  }
  return false;
}

}  // namespace

Exploration explore(const ExploreOptions& options) {
  TW_ASSERT(options.make != nullptr, "an exploration needs a workload");
  return Exploring(options).go();
}

// A log has threads of its own: a seed has one usual run, and seldom, on a busy machine, one with another
// number of tail records.
constexpr int kReplayTries = 10;

Replay replay(const ExploreOptions& options, const ReplayName& name) {
  Replay replay;
  std::unique_ptr<Recording> run;
  for (int tries = 0; tries < kReplayTries && (run == nullptr || run->trace_hash != name.trace); ++tries) {
    run = std::make_unique<Recording>();
    replay.refused = record(options.make, name.seed, *run);
    if (!replay.refused.empty()) return replay;
  }
  if (run->trace_hash != name.trace) {
    replay.refused = "the run with this seed has another trace than the one the string was made from: the "
                     "workload has changed, or does not repeat itself";
    return replay;
  }
  const KeySet nothing;
  StateWorker worker(0);
  worker.begin(options, *run, name.seed, nothing);
  StateResult result;
  replay.refused = worker.replay(name, replay.state, result);
  replay.failures = std::move(result.failures);
  return replay;
}

}  // namespace tidewheel
