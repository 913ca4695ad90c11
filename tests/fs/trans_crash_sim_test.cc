// Crashes of runs that took place in the simulator: threads, pusher and log at once, on a disk that completes
// out of order. The simulation gives the trace; its states are explored as those of any other run.
#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "base/rng.h"
#include "base/sim.h"
#include "fs/block/sim_device.h"
#include "fs/crash/explorer.h"
#include "fs/crash/recording.h"
#include "fs/mock/trans_machine.h"
#include "tests/fs/crash_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kThreads = 3;
constexpr std::uint64_t kOwn = 5;                   // blocks of each thread: its transactions have one order
constexpr std::uint64_t kShared = kThreads * kOwn;  // a block that all of them change, a chunk each
constexpr std::uint32_t kTransactions = 9;

// Room for two chains: the third thread waits.
const MockLayout kLayout{.objects = kShared + 1, .log_blocks = 28};

// What one thread's transactions leave.
struct Left {
  std::array<std::uint64_t, kOwn> content{};  // hashes; 0: free
  std::uint32_t shared = 0;                   // its chunk of the shared block
};

// One thread's part of a run.
class Worker {
 public:
  Worker(TransMachine& machine, RecordedDevice& device, std::uint64_t thread, std::uint64_t seed,
         std::vector<Left>& after)
      : machine_(machine), device_(device), thread_(thread), rng_(seed * 64 + thread), after_(after) {
    note();
  }

  void work() {
    for (std::uint32_t i = 0; i < kTransactions; ++i) {
      if (!(rng_.chance(3) ? chain() : one())) return;
      if (!rng_.chance(3)) continue;
      const std::size_t issued = after_.size() - 1;
      if (!machine_.journal().log().force(sequence_)) return;
      device_.note(thread_, issued);
      for (bool& freed : freed_) freed = false;
    }
  }

 private:
  std::uint64_t number(std::uint64_t i) const { return thread_ * kOwn + i; }
  // Before the commit: it may be stable, with another's force, before that has returned.
  void note() {
    Left left;
    alignas(4096) std::array<std::byte, kFsBlockBytes> bytes;
    for (std::uint64_t i = 0; i < kOwn; ++i) {
      if (free_[i]) continue;
      states_[i].fill(bytes, kLayout, number(i));
      left.content[i] = hash_of_content(bytes);
    }
    left.shared = shared_;
    after_.push_back(left);
  }
  bool change_some(Transaction& transaction, std::uint64_t but) {
    for (std::uint64_t left = 1 + rng_.below(2); left != 0; --left) {
      const std::uint64_t i = rng_.below(kOwn);
      if (i == but) continue;
      if (free_[i]) {
        if (freed_[i]) continue;  // that is not stable yet
        free_[i] = false;
        states_[i] = BlockState{.version = ++value_};
        const bool ordered = rng_.chance(2);
        if (!(ordered ? machine_.make_ordered(transaction, number(i), value_)
                      : machine_.make(transaction, number(i), states_[i]))) {
          return false;
        }
      } else if (rng_.chance(6)) {
        free_[i] = freed_[i] = true;
        if (!machine_.free(transaction, number(i))) return false;
      } else {
        const auto chunk = static_cast<std::uint32_t>(1 + rng_.below(BlockState::kChunks - 1));
        states_[i].chunks[chunk] = ++value_;
        if (!machine_.change(transaction, number(i), chunk, value_)) return false;
      }
    }
    if (rng_.chance(2)) return true;
    shared_ = ++value_;
    const auto chunk = 1 + static_cast<std::uint32_t>(thread_);
    return machine_.change(transaction, kShared, chunk, shared_).has_value();
  }
  bool commit(Transaction& transaction) {
    note();
    const auto sequence = transaction.commit();
    if (!sequence) return false;
    if (*sequence != 0) sequence_ = *sequence;
    return true;
  }
  bool one() {
    auto transaction = machine_.begin();
    return transaction && change_some(*transaction, kOwn) && commit(*transaction);
  }
  bool chain() {
    const std::uint64_t target = rng_.below(kOwn);
    if (free_[target]) return one();
    auto transaction = machine_.begin(2);
    if (!transaction || !change_some(*transaction, target)) return false;
    const std::uint32_t value = ++value_;
    ++states_[target].applied;
    states_[target].chunks[TransMachine::chunk_of(value)] = value;
    IntentItem& intent = machine_.log_intent(*transaction, value * kThreads + thread_, number(target), value);
    note();
    const auto rolled = transaction->roll();
    if (!rolled || !machine_.finish(*transaction, intent, number(target), value)) {
      intent.forsake();
      return false;
    }
    return commit(*transaction);
  }

  TransMachine& machine_;
  RecordedDevice& device_;
  const std::uint64_t thread_;
  Rng rng_;
  std::vector<Left>& after_;
  std::array<BlockState, kOwn> states_{};
  std::array<bool, kOwn> free_{}, freed_{};
  std::uint32_t shared_ = 0, value_ = 0;
  std::uint64_t sequence_ = 0;
};

class SimulatedRun final : public CrashWorkload {
 public:
  explicit SimulatedRun(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t image_bytes() const override { return kLayout.bytes(); }
  Result<void> format(BlockDevice& device) override {
    return format_blocks(device, kLayout, kLayout.objects);
  }
  const IoTrace* own_trace() const override { return &trace_; }

  Result<void> run(BlockDevice& device, AckLog&) override {
    std::vector<std::byte> image(kLayout.bytes());
    TW_TRY(device.read(0, image));
    const auto body = [&] {
      for (auto& after : after_) after.clear();
      SimDevice disk({.size_bytes = kLayout.bytes(), .seed = seed_});
      disk.preload(0, image);
      RecordedDevice recorded(disk);
      {
        auto machine = TransMachine::mount(recorded, {.layout = kLayout});
        SIM_CHECK(machine.has_value());
        std::vector<Thread> threads;
        for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
          threads.emplace_back("worker", [&, thread] {
            Worker(**machine, recorded, thread, seed_, after_[thread]).work();
          });
        }
        for (Thread& thread : threads) thread.join();
        waits = (*machine)->journal().log().stats().waits_for_space;
        if (seed_ % 2 == 0) SIM_CHECK((*machine)->unmount().has_value());
      }
      keep(recorded.trace());
    };
    const sim::Outcome outcome = sim::explore({.schedules = 1, .first_seed = seed_}, body);
    if (outcome.failed) {
      std::printf("%s: %s\n", sim::name_of(outcome.kind), outcome.message.c_str());
      return TW_FAIL(kCorrupt);
    }
    return {};
  }

  Result<void> recover(BlockDevice& device) const override {
    auto machine = TransMachine::mount(device, {.layout = kLayout, .pusher = false, .idle = true});
    if (!machine) return Unexpected(machine.error());
    return (*machine)->unmount();
  }

  CheckResult check(BlockDevice& device, Acks acks) const override {
    std::array<std::size_t, kThreads> acknowledged{};
    for (const auto& ack : acks) {
      acknowledged[ack.what] = std::max<std::size_t>(acknowledged[ack.what], ack.value);
    }
    const disk::Geometry geometry = kLayout.geometry();
    std::array<std::uint64_t, kShared> found{};
    std::array<std::uint32_t, kThreads> shared{};
    alignas(4096) std::array<std::byte, kFsBlockBytes> block;
    for (std::uint64_t number = 0; number <= kShared; ++number) {
      const DeviceAddress address = kLayout.home(number);
      if (!device.read(address.bytes(), block)) return CheckFailure{"home", "it cannot be read"};
      const disk::VerifyContext context{
          .geometry = &geometry, .address = address, .owner = number, .newest = disk::kNewestLsn};
      const bool good = disk::verify_read(disk::BlockType::kMock, block, context).good();
      if (number < kShared) {
        found[number] = good ? hash_of_content(block) : 1;
        continue;
      }
      if (!good) return CheckFailure{"home", "the shared block is not whole"};
      BlockState state;
      for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
        const std::size_t at = (1 + std::size_t{thread}) * disk::kDirtyChunkBytes;
        state.chunks[1 + thread] = shared[thread] =
            disk::view<disk::Le32>(std::span<const std::byte>(block), at);
      }
      alignas(4096) std::array<std::byte, kFsBlockBytes> expected;
      state.fill(expected, kLayout, kShared);
      if (hash_of_content(expected) != hash_of_content(block)) {
        return CheckFailure{"home", "the shared block holds what nobody wrote"};
      }
    }
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
      bool matches = false;
      for (std::size_t k = acknowledged[thread]; k < after_[thread].size() && !matches; ++k) {
        const Left& left = after_[thread][k];
        matches = left.shared == shared[thread];
        for (std::uint64_t i = 0; i < kOwn && matches; ++i) {
          matches = left.content[i] == 0 || left.content[i] == found[thread * kOwn + i];
        }
      }
      if (!matches) {
        return CheckFailure{"torn", "no number of transactions of thread " + std::to_string(thread) +
                                        " from the acknowledged on leaves what is there"};
      }
    }
    if (!asks_whether_clean(found.front() ^ found.back())) return {};
    if (!is_log_clean(device, kLayout.log())) return CheckFailure{"log", "it does not say that it is clean"};
    return {};
  }

  std::uint64_t waits = 0;  // for log space

 private:
  // Out of the simulation: its devices end with it.
  void keep(const IoTrace& trace) {
    trace_ = trace;
    content_.clear();
    for (IoTrace::Op& op : trace_.ops) {
      if (op.content == nullptr) continue;
      content_.emplace_back(op.content, op.content + op.len_bytes);
      op.content = content_.back().data();
    }
  }

  const std::uint64_t seed_;
  std::array<std::vector<Left>, kThreads> after_;
  IoTrace trace_;
  std::deque<std::vector<std::byte>> content_;
};

ExploreOptions options(std::uint64_t seed, std::uint64_t states) {
  return crash_rig::options_of<SimulatedRun>("simulated", seed, states, 1'000);
}

TEST(TransCrashInSimulation, SurvivesCrashesOfManySchedules) {
  crash_rig::expect_survives(options(1, loop_length(30'000)));
}

// The same seed gives the same trace, and other seeds other ones; writes overlap, and threads wait for space.
TEST(TransCrashInSimulation, RunsRepeatThemselves) {
  std::uint64_t waits = 0;
  std::size_t most_in_flight = 0;
  std::uint32_t last_hash = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Recording first, second;
    ASSERT_EQ(record(options(1, 1).make, seed, first), "");
    ASSERT_EQ(record(options(1, 1).make, seed, second), "");
    EXPECT_EQ(first.trace_hash, second.trace_hash) << seed;
    EXPECT_NE(first.trace_hash, last_hash);
    last_hash = first.trace_hash;
    waits += dynamic_cast<SimulatedRun&>(*first.workload).waits;
    std::size_t in_flight = 0;
    for (const IoTrace::Event& event : first.trace().events) {
      if (event.kind == IoTrace::EventKind::kSubmitted) ++in_flight;
      most_in_flight = std::max(most_in_flight, in_flight);
      if (event.kind == IoTrace::EventKind::kCompleted) --in_flight;
    }
  }
  EXPECT_GT(waits, 0U);
  EXPECT_GE(most_in_flight, 4U);
}

TEST(TransCrashInSimulation, IsBrokenWithoutRecovery) {
  crash_rig::expect_broken_without_recovery(options(1, 500));
}

}  // namespace
}  // namespace tidewheel
