#include "base/sync.h"

#include <gtest/gtest.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/sim.h"
#include "base/thread.h"
#include "tests/base/no_threads.h"

namespace tidewheel {
namespace {

LockClass counted{"sync-test-counted", LockRank::kNone};
LockClass many{"sync-test-many", LockRank::kNone, LockCounting::kClassOnly};
LockClass waited{"sync-test-waited", LockRank::kNone};
LockClass plain{"sync-test", LockRank::kNone};
LockClass outer_class{"sync-test-outer", LockRank::kContext};
LockClass inner_class{"sync-test-inner", LockRank::kListShard};

LockClassStats figures_of(const char* name) {
  for (const LockClassStats& stats : lock_statistics()) {
    if (std::string_view(stats.name) == name) return stats;
  }
  return {};
}

TEST(LockStatistics, CountEveryAcquisition) {
  reset_lock_statistics();
  {
    Mutex first{counted};
    Mutex second{counted};
    for (int i = 0; i < 100; ++i) MutexLock lock(first);
    for (int i = 0; i < 29; ++i) MutexLock lock(second);
    ASSERT_TRUE(second.try_lock());
    second.unlock();
    EXPECT_EQ(figures_of("sync-test-counted").acquisitions, 130U);
    EXPECT_EQ(figures_of("sync-test-counted").hold_samples, 1U) << "the 64th of the first lock";
  }
  EXPECT_EQ(figures_of("sync-test-counted").acquisitions, 130U) << "also when the locks are gone";
  reset_lock_statistics();
  EXPECT_EQ(figures_of("sync-test-counted").acquisitions, 0U);
  EXPECT_EQ(figures_of("sync-test-counted").hold_samples, 0U);
  EXPECT_EQ(figures_of("sync-test-counted").contended, 0U);
}

TEST(LockStatistics, OfAClassWithManyLocksAreExactWhenTheyEnd) {
  reset_lock_statistics();
  {
    std::vector<std::unique_ptr<Mutex>> locks;
    for (int i = 0; i < 50; ++i) locks.push_back(std::make_unique<Mutex>(many));
    for (std::size_t i = 0; i < locks.size(); ++i) {
      for (std::size_t n = 0; n < 3 * i; ++n) MutexLock lock(*locks[i]);
    }
  }
  EXPECT_EQ(figures_of("sync-test-many").acquisitions, 3U * (49U * 50U / 2));
}

TEST(LockStatistics, TimeContendedWaitsAndSampledHolds) {
  // Whether the lock is still held when the other thread asks is the machine's choice: tried until it was.
  LockClassStats stats;
  Duration asked_for{0};
  for (int attempt = 0; attempt < 1'000 && stats.contended == 0; ++attempt) {
    reset_lock_statistics();
    Mutex mutex{waited};
    Atomic<bool> held{false};    // release here pairs with acquire in the loop below
    Atomic<bool> asking{false};  // likewise
    Thread holder("holder", [&] {
      for (int i = 1; i < 64; ++i) MutexLock lock(mutex);
      MutexLock lock(mutex);  // the sampled one
      held.store(true, std::memory_order_release);
      while (!asking.load(std::memory_order_acquire)) yield_thread();
      const Instant start = SteadyClock::instance().now();
      while (SteadyClock::instance().now() - start < milliseconds(5)) yield_thread();
    });
    while (!held.load(std::memory_order_acquire)) yield_thread();
    asking.store(true, std::memory_order_release);
    const Instant before = SteadyClock::instance().now();
    { MutexLock lock(mutex); }
    asked_for = SteadyClock::instance().now() - before;
    holder.join();
    stats = figures_of("sync-test-waited");
  }
  EXPECT_EQ(stats.acquisitions, 65U);
  EXPECT_EQ(stats.contended, 1U);
  EXPECT_GT(stats.wait_ns_total, 0U);
  EXPECT_LE(stats.wait_ns_total, 2 * static_cast<std::uint64_t>(asked_for.ns));
  EXPECT_EQ(stats.hold_samples, 1U);
  EXPECT_GE(stats.hold_ns_p99, 4'900'000U);
  EXPECT_GE(stats.hold_ns_total, 4'900'000U);
}

TEST(LockStatistics, CountInsideASimulation) {
  reset_lock_statistics();
  const sim::Outcome outcome = sim::explore({.schedules = 20}, [] {
    Mutex mutex{counted};
    Thread other("other", [&] {
      for (int i = 0; i < 5; ++i) MutexLock lock(mutex);
    });
    for (int i = 0; i < 5; ++i) MutexLock lock(mutex);
    other.join();
  });
  EXPECT_FALSE(outcome.failed) << outcome.message;
  const LockClassStats stats = figures_of("sync-test-counted");
  EXPECT_EQ(stats.acquisitions, 200U);
  EXPECT_GT(stats.contended, 0U);
}

TEST(Mutex, KeepsThreadsApartAndWakesSleepers) {
  Mutex mutex{plain};
  std::uint64_t count = 0;
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back("adder", [&] {
      for (int i = 0; i < 20'000; ++i) {
        MutexLock lock(mutex);
        ++count;
        if (i % 1'000 == 0) yield_thread();  // with the lock held: others fall asleep
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(count, 160'000U);
}

TEST(Mutex, TryLockFailsWhileItIsHeld) {
  Mutex mutex{plain};
  MutexLock lock(mutex);
  Thread other("other", [&] {
    const bool taken = mutex.try_lock();
    if (taken) mutex.unlock();
    EXPECT_FALSE(taken);
  });
  other.join();
}

TEST(SharedMutex, LetsReadersInTogetherAndWritersAlone) {
  SharedMutex mutex{plain};
  std::uint64_t value = 0;
  Atomic<std::uint32_t> inside{0};  // seq_cst: readers inside at once
  std::vector<Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back("reader", [&] {
      ReaderLock lock(mutex);
      inside.fetch_add(1, std::memory_order_seq_cst);
      while (inside.load(std::memory_order_seq_cst) < 3) yield_thread();  // hangs unless all three are in
      EXPECT_EQ(value % 2, 0U);
    });
  }
  for (Thread& thread : threads) thread.join();
  threads.clear();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("writer", [&] {
      for (int i = 0; i < 2'000; ++i) {
        WriterLock lock(mutex);
        ++value;
        ++value;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(value, 16'000U);
}

TEST(CondVar, HandsABatonToAndFro) {
  Mutex mutex{plain};
  CondVar cond;
  int turn = 0;
  Thread other("other", [&] {
    for (int i = 0; i < 2'000; ++i) {
      MutexLock lock(mutex);
      cond.wait(mutex, [&] { return turn == 1; });
      turn = 0;
      cond.notify_one();
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    MutexLock lock(mutex);
    cond.wait(mutex, [&] { return turn == 0; });
    turn = 1;
    cond.notify_one();
  }
  other.join();
  EXPECT_EQ(turn, 0);
}

TEST(CondVar, ATimedWaitEndsAtItsDeadline) {
  Mutex mutex{plain};
  CondVar cond;
  MutexLock lock(mutex);
  const Instant start = SteadyClock::instance().now();
  EXPECT_FALSE(cond.wait_for(mutex, milliseconds(3), [] { return false; }));
  EXPECT_GE(SteadyClock::instance().now() - start, milliseconds(3));
  EXPECT_FALSE(cond.wait_for(mutex, Duration{}, [] { return false; }));
  EXPECT_TRUE(cond.wait_for(mutex, Duration::max(), [] { return true; }));
}

#if defined(TW_DASSERT_ON)
using LockOrderDeathTest = ::testing::Test;

// Each faulty order fails as an assertion inside a simulation, too; here on real threads.
TEST(LockOrderDeathTest, RanksMustRise) {
  Mutex outer{outer_class};
  Mutex inner{inner_class};
  {
    MutexLock a(outer);
    MutexLock b(inner);
  }
  EXPECT_DEATH(
      {
        MutexLock b(inner);
        MutexLock a(outer);
      },
      "lock 'sync-test-outer' \\(rank [0-9]+\\) is taken while 'sync-test-inner'");
}

TEST(LockOrderDeathTest, TwoLocksOfOneRankNeedAnOrderedPair) {
  Mutex first{inner_class};
  Mutex second{inner_class};
  { MutexPairLock both(first, second); }
  { MutexPairLock same(first, first); }
  EXPECT_DEATH(
      {
        MutexLock a(first);
        MutexLock b(second);
      },
      "is taken while");
}

TEST(LockOrderDeathTest, ATryLockMayGoAgainstTheRanks) {
  Mutex outer{outer_class};
  Mutex inner{inner_class};
  inner.lock();
  ASSERT_TRUE(outer.try_lock());
  inner.unlock();  // in any order
  outer.unlock();
}

TEST(LockOrderDeathTest, NobodySleepsWithAShortLock) {
  Mutex list{inner_class};
  Mutex own{plain};
  CondVar cond;
  {
    MutexLock lock(list);  // its own mutex is no hindrance
    EXPECT_FALSE(cond.wait_for(list, Duration{}, [] { return false; }));
  }
  EXPECT_DEATH(
      {
        MutexLock lock(list);
        sleep_for(milliseconds(1));
      },
      "sleeps while it holds the short lock 'sync-test-inner'");
  EXPECT_DEATH(
      {
        MutexLock lock(list);
        MutexLock other(own);
        cond.wait_for(own, milliseconds(1));
      },
      "sleeps while it holds the short lock");
}

TEST(LockOrderDeathTest, ALockBelongsToWhoHoldsIt) {
  Mutex mutex{plain};
  EXPECT_DEATH(mutex.unlock(), "released by a thread that does not hold it");
  EXPECT_DEATH(mutex.assert_held(), "is not held");
  EXPECT_DEATH(
      {
        mutex.lock();
        mutex.lock();
      },
      "taken twice");
}
#endif

TEST(Thread, NumbersAreUsedAgain) {
  const std::uint32_t own = thread_number();
  std::uint32_t highest = 0;
  for (int i = 0; i < 50; ++i) {
    Thread thread("number", [&] {
      EXPECT_NE(thread_number(), own);
      highest = std::max(highest, thread_number());
    });
    thread.join();
  }
  EXPECT_LE(highest, 4U) << "at most a few threads live at once here";
}

TEST(Thread, ARefusedOneIsAnError) {
  const NoThreads none;
  const auto thread = Thread::start("refused", [] { ADD_FAILURE() << "it ran"; });
  ASSERT_FALSE(thread.has_value());
  EXPECT_EQ(thread.error().code, Reason::kNoThread);
}

TEST(Thread, KnowsItsCpu) { EXPECT_LT(current_cpu(), 4'096U); }

TEST(Clock, TheVirtualOneMovesOnlyWhenTold) {
  VirtualClock clock(Instant{100});
  EXPECT_EQ(clock.now(), Instant{100});
  clock.advance(seconds(1));
  EXPECT_EQ(clock.now(), Instant{1'000'000'100});
  clock.set(Instant{7});
  EXPECT_EQ(clock.now(), Instant{7});
}

// Each bound holds wherever the thread loses its CPU: one compares with a stretch inside, one with one
// around.
TEST(Clock, TheCycleCounterRunsAtItsMeasuredRate) {
  const auto now_ns = [] { return static_cast<double>(SteadyClock::instance().now().ns); };
  const double ticks_per_ns = tsc_ticks_per_ns();
  const double outer_start = now_ns();
  const std::uint64_t ticks = read_tsc();
  const double inner_start = now_ns();
  double inner_end = inner_start;
  while (inner_end - inner_start < 5e6) inner_end = now_ns();
  const double by_ticks = static_cast<double>(read_tsc() - ticks) / ticks_per_ns;
  const double outer_end = now_ns();
  EXPECT_GT(by_ticks, (inner_end - inner_start) * 0.9);
  EXPECT_LT(by_ticks, (outer_end - outer_start) * 1.1);
}

TEST(Counters, SumWhatEveryThreadAdded) {
  ShardedCounter exact;
  BatchedCounter batched(64);
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back("adder", [&] {
      for (int i = 0; i < 10'000; ++i) {
        exact.add(3);
        exact.add(-1);
        batched.add(1);
        const std::int64_t n = batched.read();
        if (n < -batched.error_bound() || n > 80'000) ADD_FAILURE() << n;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(exact.sum(), 160'000);
  EXPECT_EQ(batched.sum(), 80'000);
  EXPECT_LE(std::abs(batched.read() - 80'000), batched.error_bound());
}

}  // namespace
}  // namespace tidewheel
