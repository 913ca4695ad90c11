#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sim.h"
#include "base/thread.h"
#include "tests/trace_recording.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

TEST(MemoryBudget, ChargesUpToTheLimitAndNoFurther) {
  MemoryBudget budget(kMiB, 64 * 1024);
  std::uint64_t charged = 0;
  while (budget.try_charge(MemoryKind::kPages, 4096)) charged += 4096;
  EXPECT_EQ(charged, kMiB - 64 * 1024) << "all but the reserve, to the byte";
  EXPECT_FALSE(budget.try_charge(MemoryKind::kInodes, 1));
  std::uint64_t reserve = 0;
  while (budget.try_charge(MemoryKind::kPages, 4096, ChargeBy::kWriteback)) reserve += 4096;
  EXPECT_EQ(reserve, 64U * 1024);
  EXPECT_EQ(budget.charged_bytes(), kMiB);
  EXPECT_EQ(budget.stats().refused, 3U);
  budget.uncharge(MemoryKind::kPages, charged + reserve);
  EXPECT_EQ(budget.charged_bytes(), 0U);
  EXPECT_EQ(budget.stats().reserve_used, 0U);
}

TEST(MemoryBudget, FillsTheReserveUpFirst) {
  MemoryBudget budget(8192, 4096);
  ASSERT_TRUE(budget.try_charge(MemoryKind::kPages, 4096));
  ASSERT_TRUE(budget.try_charge(MemoryKind::kPages, 4096, ChargeBy::kWriteback));
  budget.uncharge(MemoryKind::kPages, 4096);
  EXPECT_FALSE(budget.try_charge(MemoryKind::kPages, 1)) << "what came back belongs to the reserve";
  budget.uncharge(MemoryKind::kPages, 4096);
  EXPECT_TRUE(budget.try_charge(MemoryKind::kPages, 4096));
  budget.uncharge(MemoryKind::kPages, 4096);
}

TEST(MemoryBudget, CountsByKindWithPeaks) {
  MemoryBudget budget(64 * kMiB, 0);
  ASSERT_TRUE(budget.try_charge(MemoryKind::kPages, 10 * kMiB));
  ASSERT_TRUE(budget.try_charge(MemoryKind::kIndex, kMiB));
  budget.uncharge(MemoryKind::kPages, 9 * kMiB);
  const MemoryStats stats = budget.stats();
  EXPECT_EQ(stats.used[static_cast<std::size_t>(MemoryKind::kPages)], kMiB);
  EXPECT_EQ(stats.used_peak[static_cast<std::size_t>(MemoryKind::kPages)], 10 * kMiB);
  EXPECT_EQ(stats.used_peak[static_cast<std::size_t>(MemoryKind::kInodes)], 0U);
  EXPECT_EQ(stats.charged, 2 * kMiB);
  EXPECT_GE(stats.peak, 11 * kMiB);
  EXPECT_LE(stats.peak, 11 * kMiB + budget.credit_bound());
  budget.uncharge(MemoryKind::kPages, kMiB);
  budget.uncharge(MemoryKind::kIndex, kMiB);
}

TEST(MemoryBudget, RefusesAtOnceWhatCanNeverFit) {
  MemoryBudget budget(kMiB, 4096);
  const auto result = budget.charge(MemoryKind::kLog, kMiB, ChargeBy::kAnyone, Duration::max());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Reason::kNoMemory);
}

class GivesBack final : public Shrinker {
 public:
  explicit GivesBack(MemoryBudget& budget) : budget_(budget) {}
  const char* name() const override { return "gives-back"; }
  std::uint64_t shrink(std::uint64_t bytes) override {
    asked_ = bytes;
    const std::uint64_t given = std::min(bytes, held_);
    held_ -= given;
    budget_.uncharge(MemoryKind::kPages, given);
    return given;
  }
  std::uint64_t held_ = 0;
  std::uint64_t asked_ = 0;

 private:
  MemoryBudget& budget_;
};

TEST(MemoryBudget, AsksShrinkersForWhatIsMissing) {
  MemoryBudget budget(kMiB, 0);
  GivesBack first(budget);
  GivesBack second(budget);
  budget.add_shrinker(first);
  budget.add_shrinker(second);
  ASSERT_TRUE(budget.try_charge(MemoryKind::kPages, kMiB));
  first.held_ = 4096;
  second.held_ = kMiB - 4096;
  EXPECT_TRUE(budget.charge(MemoryKind::kInodes, 8192, ChargeBy::kAnyone, Duration{}));
  EXPECT_EQ(first.held_, 0U);
  EXPECT_EQ(second.asked_, 4096U);
  EXPECT_EQ(second.held_, kMiB - 8192);
  EXPECT_EQ(budget.stats().shrunk_bytes, 8192U);
  budget.remove_shrinker(first);
  budget.remove_shrinker(second);
  EXPECT_EQ(budget.shrink(4096), 0U);
  budget.uncharge(MemoryKind::kInodes, 8192);
  budget.uncharge(MemoryKind::kPages, kMiB - 8192);
}

TEST(MemoryBudget, TracesEachCallOfAShrinker) {
  MemoryBudget budget(kMiB, 0);
  GivesBack first(budget);
  GivesBack second(budget);
  budget.add_shrinker(first);
  budget.add_shrinker(second);
  ASSERT_TRUE(budget.try_charge(MemoryKind::kPages, kMiB));
  first.held_ = 4096;
  second.held_ = kMiB - 4096;
  {
    const TraceRecording recording;
    budget.shrink(8192);
    const auto started = recording.events(TracePoint::mm_shrink_slab_start);
    const auto ended = recording.events(TracePoint::mm_shrink_slab_end);
    ASSERT_EQ(started.size(), 2U);
    ASSERT_EQ(ended.size(), 2U);
    EXPECT_NE(started[0].arguments[0], started[1].arguments[0]) << "which shrinker";
    EXPECT_EQ(started[0].arguments[1], 8192U);
    EXPECT_EQ(started[0].arguments[2], kMiB);
    EXPECT_EQ(ended[0].arguments[0], started[0].arguments[0]);
    EXPECT_EQ(ended[0].arguments[2], 4096U);
    EXPECT_EQ(started[1].arguments[1], 4096U);
    EXPECT_EQ(ended[1].arguments[2], 4096U);
  }
  budget.remove_shrinker(first);
  budget.remove_shrinker(second);
  budget.uncharge(MemoryKind::kPages, kMiB - 8192);
}

TEST(MemoryBudget, NeverExceedsTheLimitWithManyThreads) {
  constexpr std::uint64_t kLimit = 600 * 4096;
  MemoryBudget budget(kLimit, 40 * 4096);
  Atomic<std::int64_t> in_use{0};  // seq_cst: raised after a charge, lowered before the uncharge
  Atomic<std::int64_t> highest{0};
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back("charger", [&, t] {
      Rng rng(t);
      std::vector<std::uint64_t> mine;
      for (int i = 0; i < 20'000; ++i) {
        // Twice as many charges as uncharges: unless something is refused, any thread ends with ten times
        // the limit, however the threads are scheduled.
        if (rng.below(3) != 0) {
          const std::uint64_t bytes = 1 + rng.below(3 * 4096);
          const ChargeBy by = rng.below(8) == 0 ? ChargeBy::kWriteback : ChargeBy::kAnyone;
          if (!budget.try_charge(MemoryKind::kPages, bytes, by)) continue;
          mine.push_back(bytes);
          const auto n = static_cast<std::int64_t>(bytes);
          const std::int64_t now = in_use.fetch_add(n, std::memory_order_seq_cst) + n;
          std::int64_t old = highest.load(std::memory_order_seq_cst);
          while (old < now && !highest.compare_exchange(old, now, std::memory_order_seq_cst)) {
          }
        } else if (!mine.empty()) {
          in_use.fetch_sub(static_cast<std::int64_t>(mine.back()), std::memory_order_seq_cst);
          budget.uncharge(MemoryKind::kPages, mine.back());
          mine.pop_back();
        }
      }
      for (const std::uint64_t bytes : mine) {
        in_use.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_seq_cst);
        budget.uncharge(MemoryKind::kPages, bytes);
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_LE(highest.load(std::memory_order_seq_cst), static_cast<std::int64_t>(kLimit));
  EXPECT_GT(budget.stats().refused, 0U) << "the test never reached the limit";
  EXPECT_EQ(budget.charged_bytes(), 0U);
}

// Waiters and givers without any period: a lost wake-up is a deadlock here.
SIM_TEST_WITH(MemoryBudgetSim, WakesWhoeverWaitsForMemory, (sim::Options{.schedules = 400})) {
  MemoryBudget budget(4 * 4096, 4096);
  std::vector<Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back("charger", [&] {
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(budget.charge(MemoryKind::kPages, 2 * 4096, ChargeBy::kAnyone, Duration::max()));
        EXPECT_LE(budget.charged_bytes(), budget.limit_bytes());
        budget.uncharge(MemoryKind::kPages, 2 * 4096);
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(budget.charged_bytes(), 0U);
}

SIM_TEST_WITH(MemoryBudgetSim, RemovesAShrinkerOnlyWhenItsCallsHaveEnded, (sim::Options{.schedules = 200})) {
  struct Slow final : Shrinker {
    const char* name() const override { return "slow"; }
    std::uint64_t shrink(std::uint64_t) override {
      inside.fetch_add(1, std::memory_order_seq_cst);
      sleep_for(milliseconds(1));
      inside.fetch_sub(1, std::memory_order_seq_cst);
      return 0;
    }
    Atomic<int> inside{0};
  };
  MemoryBudget budget(4096, 0);
  Slow slow;
  budget.add_shrinker(slow);
  Thread asker("asker", [&] { budget.shrink(1); });
  budget.remove_shrinker(slow);
  EXPECT_EQ(slow.inside.load(std::memory_order_seq_cst), 0);
  asker.join();
}

}  // namespace
}  // namespace tidewheel
