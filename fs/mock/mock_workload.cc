#include "fs/mock/mock_workload.h"

#include <algorithm>
#include <array>

#include "base/rng.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kForced = 1;      // Ack::what; its value: transactions that are stable
constexpr std::size_t kMostOpen = 2;      // chains
constexpr std::uint32_t kMostUnforced = 4;  // transactions: what they reserve must fit beside what is in use

}  // namespace

Result<void> MockWorkload::format(BlockDevice& device) { return format_mock(device, layout_); }

// One run, a step after the other.
class MockWorkload::Run {
 public:
  Run(MockWorkload& its, MockMachine& machine, AckLog& acks)
      : its_(its), machine_(machine), acks_(acks), rng_(its.seed_), now_(its.layout_.objects) {
    its_.after_.clear();
    note();
  }
  ~Run() {
    for (Open& one : open_) machine_.abandon(one.chain);  // the run ended early
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Result<void> go() {
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const std::uint64_t kind = rng_.below(10);
      if (kind >= 8 && open_.size() < kMostOpen) {
        TW_TRY(begin());
      } else if (kind >= 6 && !open_.empty()) {
        TW_TRY(finish(rng_.below(open_.size())));
      } else {
        TW_TRY(change());
      }
      if (unforced_ >= kMostUnforced || rng_.chance(3)) TW_TRY(force());
      if (unforced_ == 0 && rng_.chance(4)) TW_TRY(machine_.push_home());
      // The tail moves only past intents that are finished.
      if (machine_.log_used_bytes() * 5 > machine_.log().size_bytes() * 2) TW_TRY(free_log());
    }
    its_.rounds_ = machine_.log().head().cycle();
    while (!open_.empty()) TW_TRY(finish(0));
    return rng_.chance(2) ? machine_.unmount() : Result<void>();
  }

 private:
  struct Open {
    MockMachine::Chain chain;
    std::uint64_t target = 0, version = 0;
  };

  bool is_target(std::uint64_t object) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Open& one) { return one.target == object; });
  }
  // One that no open chain is about to change.
  std::uint64_t some_object() {
    for (;;) {
      const std::uint64_t object = rng_.below(now_.size());
      if (!is_target(object)) return object;
    }
  }
  void committed(std::uint64_t sequence) {
    sequence_ = sequence;
    ++unforced_;
    note();
  }
  void note() {
    States states = now_;
    for (const Open& one : open_) {
      states[one.target].version = one.version;
      ++states[one.target].applied;
    }
    its_.after_.push_back(std::move(states));
  }

  Result<void> change() {
    std::vector<std::uint64_t> objects;
    for (std::uint64_t wanted = 1 + rng_.below(4); wanted != 0; --wanted) objects.push_back(some_object());
    std::sort(objects.begin(), objects.end());
    objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
    ++version_;
    const auto sequence = machine_.change(objects, version_);
    if (!sequence) return Unexpected(sequence.error());
    for (const std::uint64_t object : objects) now_[object].version = version_;
    committed(*sequence);
    return {};
  }
  Result<void> begin() {
    const std::uint64_t object = some_object();
    std::uint64_t target = some_object();
    while (target == object) target = some_object();
    version_ += 2;
    auto chain = machine_.begin_intent(object, version_ - 1, target, version_);
    if (!chain) return Unexpected(chain.error());
    now_[object].version = version_ - 1;
    open_.push_back({*chain, target, version_});
    committed(chain->sequence);
    return {};
  }
  Result<void> finish(std::size_t which) {
    Open one = open_[which];
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    const auto sequence = machine_.finish_intent(one.chain);
    if (!sequence) return Unexpected(sequence.error());
    now_[one.target].version = one.version;
    ++now_[one.target].applied;
    committed(*sequence);
    return {};
  }
  Result<void> force() {
    TW_TRY(machine_.force(sequence_));
    acks_.add(kForced, its_.after_.size() - 1);
    unforced_ = 0;
    return {};
  }
  Result<void> free_log() {
    while (!open_.empty()) TW_TRY(finish(0));
    TW_TRY(force());
    TW_TRY(machine_.push_home());
    // The next commit record says where the tail is.
    TW_TRY(change());
    return force();
  }

  MockWorkload& its_;
  MockMachine& machine_;
  AckLog& acks_;
  Rng rng_;
  States now_;
  std::vector<Open> open_;
  std::uint64_t version_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint32_t unforced_ = 0;
};

Result<void> MockWorkload::run(BlockDevice& device, AckLog& acks) {
  after_.emplace_back(layout_.objects);
  MockMount mount{.layout = layout_, .pusher = false};
  mount.log.soft_bytes = layout_.log_blocks * std::uint64_t{kFsBlockBytes};  // forces alone close checkpoints
  auto machine = MockMachine::mount(device, mount);
  if (!machine) return Unexpected(machine.error());
  return Run(*this, **machine, acks).go();
}

Result<void> MockWorkload::recover(BlockDevice& device) const {
  auto machine = MockMachine::mount(device, {.layout = layout_, .pusher = false, .idle = true});
  if (!machine) return Unexpected(machine.error());
  return (*machine)->unmount();
}

CheckResult MockWorkload::check(BlockDevice& device, Acks acks) const {
  std::size_t acknowledged = 0;
  for (const Ack& ack : acks) acknowledged = std::max<std::size_t>(acknowledged, ack.value);

  const disk::Geometry geometry = layout_.geometry();
  States found(layout_.objects);
  for (std::uint64_t object = 0; object < layout_.objects; ++object) {
    alignas(4096) std::array<std::byte, kFsBlockBytes> block;
    const DeviceAddress address = layout_.home(object);
    if (!device.read(address.bytes(), block)) return CheckFailure{"home", "it cannot be read"};
    const disk::VerifyContext context{
        .geometry = &geometry, .address = address, .owner = object, .newest = disk::kNewestLsn};
    const disk::Verdict verdict = disk::verify_read(disk::BlockType::kMock, block, context);
    const std::string name = "object " + std::to_string(object);
    if (!verdict.good()) return CheckFailure{"home", name + ": " + verdict.what};
    if (!read_mock_state(block, found[object]))
      return CheckFailure{"home", name + " holds another's content"};
  }
  // The newest first: most often it is the last that was acknowledged, or soon after.
  for (std::size_t k = after_.size(); k-- > acknowledged;) {
    if (after_[k] != found) continue;
    std::uint64_t content = k;
    for (const MockState& state : found) content += state.version;
    if (!asks_whether_clean(content)) return {};
    if (!is_log_clean(device, layout_.log())) return CheckFailure{"log", "it does not say that it is clean"};
    return {};
  }
  for (std::size_t k = acknowledged; k-- > 0;) {
    if (after_[k] != found) continue;
    return CheckFailure{"lost", "what " + std::to_string(k) + " transactions leave, after " +
                                    std::to_string(acknowledged) + " were acknowledged"};
  }
  return CheckFailure{"torn", "no number of whole transactions leaves what is there"};
}

}  // namespace tidewheel
