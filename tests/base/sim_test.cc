// The simulator on planted faults: each is found within 1,000 schedules, gone with its guard in place, and
// found again by the schedule that was printed.
#include "base/sim.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <new>
#include <stdexcept>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/sync.h"
#include "base/thread.h"

namespace tidewheel {
namespace {

LockClass test_locks{"sim-test", LockRank::kNone};
LockClass other_locks{"sim-test-other", LockRank::kNone};

// Explores the broken variant, replays its failure by the printed text, and explores the guarded one.
void expect_found(sim::Failure kind, const std::function<void(bool guarded)>& body,
                  sim::Options options = {}) {
  options.schedules = 1'000;
  const sim::Outcome broken = sim::explore(options, [&] { body(false); });
  ASSERT_TRUE(broken.failed) << "not found in " << broken.runs << " schedules";
  EXPECT_EQ(broken.kind, kind) << broken.message;
  ::testing::Test::RecordProperty("found_in_run", static_cast<int>(broken.runs));

  sim::Schedule schedule;
  ASSERT_TRUE(sim::parse_schedule(sim::to_string(broken.schedule), schedule));
  const sim::Outcome again = sim::replay(options, schedule, [&] { body(false); });
  EXPECT_EQ(again.kind, kind) << "not replayed: " << sim::to_string(schedule);

  const sim::Outcome guarded = sim::explore(options, [&] { body(true); });
  EXPECT_FALSE(guarded.failed) << sim::name_of(guarded.kind) << ": " << guarded.message << "\n"
                               << sim::to_string(guarded.schedule);
  EXPECT_EQ(guarded.runs, 1'000U);
  EXPECT_GT(guarded.distinct, 1U);
}

TEST(SimulatorFinds, ALostWakeUpThatLeavesNobodyRunning) {
  expect_found(sim::Failure::kDeadlock, [](bool guarded) {
    Mutex mutex{test_locks};
    CondVar cond;
    bool ready = false;
    Thread waiter("waiter", [&] {
      if (guarded) {
        MutexLock lock(mutex);
        cond.wait(mutex, [&] { return ready; });
        return;
      }
      mutex.lock();
      const bool must_wait = !ready;
      mutex.unlock();
      // The notification comes here.
      mutex.lock();
      if (must_wait) cond.wait(mutex);
      mutex.unlock();
    });
    mutex.lock();
    ready = true;
    mutex.unlock();
    cond.notify_one();
    waiter.join();
  }, {.spurious_wakeups = false});
}

// Coherence also binds a reader that knows of another's read: what that one saw, it sees, or something newer.
TEST(SimulatorMemory, AReadThatHappenedBeforeBoundsTheNextOne) {
  const sim::Outcome outcome = sim::explore({.schedules = 1'000}, [] {
    Mutex mutex{test_locks};
    Atomic<std::uint32_t> word{0};
    bool was_seen = false;
    Thread writer("writer", [&] { word.store(1, std::memory_order_relaxed); });
    Thread first("first", [&] {
      if (word.load(std::memory_order_relaxed) == 0) return;
      MutexLock lock(mutex);
      was_seen = true;
    });
    Thread second("second", [&] {
      MutexLock lock(mutex);
      if (was_seen) SIM_CHECK(word.load(std::memory_order_relaxed) == 1);
    });
    for (Thread* thread : {&writer, &first, &second}) thread->join();
  });
  EXPECT_FALSE(outcome.failed) << outcome.message << sim::to_string(outcome.schedule);
}

TEST(SimulatorFinds, ALostWakeUpThatAPeriodRescues) {
  expect_found(sim::Failure::kLostWakeup, [](bool guarded) {
    Mutex mutex{test_locks};
    CondVar cond;
    bool ready = false;
    Thread waiter("waiter", [&] {
      MutexLock lock(mutex);
      while (!cond.wait_for(mutex, seconds(5), [&] { return ready; })) {
      }
    });
    mutex.lock();
    ready = true;
    mutex.unlock();
    if (guarded) cond.notify_all();
    waiter.join();
  });
}

TEST(SimulatorFinds, DirtLostByARelaxedLoad) {
  expect_found(sim::Failure::kCheck, [](bool guarded) {
    const auto order = guarded ? std::memory_order_seq_cst : std::memory_order_relaxed;
    Atomic<std::uint32_t> tags{0};
    Atomic<std::uint32_t> state{1};  // 1: marked dirty already
    bool listed_again = false;
    bool flusher_saw_it = false;
    Thread writer("writer", [&] {
      tags.fetch_or(1, std::memory_order_seq_cst);
      listed_again = state.load(order) == 0;
    });
    Thread flusher("flusher", [&] {
      state.exchange(0, std::memory_order_seq_cst);
      flusher_saw_it = tags.load(std::memory_order_seq_cst) == 1;
    });
    writer.join();
    flusher.join();
    SIM_CHECK(listed_again || flusher_saw_it);
  });
}

TEST(SimulatorFinds, DirtLostByARelaxedStore) {
  expect_found(sim::Failure::kCheck, [](bool guarded) {
    Atomic<std::uint32_t> tags{0};
    Atomic<std::uint32_t> state{1};
    bool listed_again = false;
    bool flusher_saw_it = false;
    Thread writer("writer", [&] {
      if (guarded) {
        tags.store(1, std::memory_order_seq_cst);
      } else {
        tags.store(1, std::memory_order_release);
      }
      listed_again = state.load(std::memory_order_seq_cst) == 0;
    });
    Thread flusher("flusher", [&] {
      state.exchange(0, std::memory_order_seq_cst);
      flusher_saw_it = tags.load(std::memory_order_seq_cst) == 1;
    });
    writer.join();
    flusher.join();
    SIM_CHECK(listed_again || flusher_saw_it);
  });
}

TEST(SimulatorFinds, APublicationWithoutRelease) {
  expect_found(sim::Failure::kCheck, [](bool guarded) {
    Atomic<std::uint32_t> data{0};
    Atomic<std::uint32_t> ready{0};
    Thread writer("writer", [&] {
      data.store(42, std::memory_order_relaxed);
      ready.store(1, guarded ? std::memory_order_release : std::memory_order_relaxed);
    });
    if (ready.load(std::memory_order_acquire) == 1) SIM_CHECK(data.load(std::memory_order_relaxed) == 42);
    writer.join();
  });
}

TEST(SimulatorFinds, ALockInversion) {
  expect_found(sim::Failure::kLockCycle, [](bool guarded) {
    Mutex a{test_locks};
    Mutex b{other_locks};
    Thread one("one", [&] {
      MutexLock first(a);
      MutexLock second(b);
    });
    Thread two("two", [&] {
      MutexLock first(guarded ? a : b);
      MutexLock second(guarded ? b : a);
    });
    one.join();
    two.join();
  });
}

TEST(SimulatorFinds, AnInversionAgainstReaders) {
  expect_found(sim::Failure::kLockCycle, [](bool guarded) {
    SharedMutex table{test_locks};
    Mutex entry{other_locks};
    Thread reader("reader", [&] {
      ReaderLock first(table);
      MutexLock second(entry);
    });
    Thread writer("writer", [&] {
      if (guarded) {
        WriterLock first(table);
        MutexLock second(entry);
      } else {
        MutexLock first(entry);
        WriterLock second(table);
      }
    });
    reader.join();
    writer.join();
  });
}

TEST(SimulatorFinds, CheckThenAct) {
  expect_found(sim::Failure::kCheck, [](bool guarded) {
    Mutex mutex{test_locks};
    int seats = 1;
    int sold = 0;
    const auto sell = [&] {
      mutex.lock();
      bool free = seats > 0;
      if (!guarded) {
        mutex.unlock();
        mutex.lock();
      }
      if (free) {
        --seats;
        ++sold;
      }
      mutex.unlock();
    };
    Thread one("one", sell);
    Thread two("two", sell);
    one.join();
    two.join();
    SIM_CHECK(sold == 1);
  });
}

// An element that its list's owner removes and frees while a walker, which let go of the lock, still looks
// at it. Freed memory is modelled: the element goes back to a pool, which moves its generation.
TEST(SimulatorFinds, UseAfterFreeOnRemoval) {
  expect_found(sim::Failure::kCheck, [](bool guarded) {
    struct Element {
      Atomic<std::uint32_t> generation{0};  // relaxed: the model's, not the program's
      std::uint32_t holds = 0;
    };
    Mutex mutex{test_locks};
    CondVar released;
    Element pool_element;
    Element* listed = &pool_element;
    Thread walker("walker", [&] {
      mutex.lock();
      Element* const element = listed;
      if (element == nullptr) return mutex.unlock();
      const std::uint32_t generation = element->generation.load(std::memory_order_relaxed);
      ++element->holds;
      mutex.unlock();
      SIM_CHECK(element->generation.load(std::memory_order_relaxed) ==
                generation);  // no other thread has freed it
      mutex.lock();
      --element->holds;
      released.notify_all();
      mutex.unlock();
    });
    mutex.lock();
    Element* const element = listed;
    listed = nullptr;
    if (guarded) released.wait(mutex, [&] { return element->holds == 0; });
    mutex.unlock();
    element->generation.fetch_add(1, std::memory_order_relaxed);  // freed
    walker.join();
  });
}

TEST(SimulatorFinds, ATimedWaiterThatNobodyAnswersFor120Seconds) {
  const sim::Outcome outcome = sim::explore({.schedules = 10}, [] {
    Mutex mutex{test_locks};
    CondVar cond;
    Atomic<bool> stop{false};
    Thread periodic("periodic", [&] {
      while (!stop.load(std::memory_order_seq_cst)) sleep_for(seconds(5));
    });
    Thread forgotten("forgotten", [&] {
      MutexLock lock(mutex);
      cond.wait(mutex);
      stop.store(true, std::memory_order_seq_cst);
    });
    forgotten.join();
    periodic.join();
  });
  EXPECT_EQ(outcome.kind, sim::Failure::kNoProgress) << outcome.message;
}

TEST(SimulatorFinds, AThreadThatIsLeftBehind) {
  const sim::Outcome outcome = sim::explore({.schedules = 10}, [] {
    // Never joined and never destroyed: the fault. Static, so that what it owns stays reachable.
    alignas(Thread) static std::byte place[sizeof(Thread)];
    ::new (place) Thread("left", [] { sleep_for(seconds(1)); });
  });
  EXPECT_EQ(outcome.kind, sim::Failure::kLeak) << outcome.message;
}

TEST(SimulatorFinds, ALockThatIsNeverReleased) {
  const sim::Outcome outcome = sim::explore({.schedules = 10}, [] {
    Mutex mutex{test_locks};
    Thread thread("holder", [&] { mutex.lock(); });
    thread.join();
  });
  EXPECT_EQ(outcome.kind, sim::Failure::kLeak) << outcome.message;
}

TEST(SimulatorFinds, ALoopThatNeverEnds) {
  const sim::Outcome outcome = sim::explore({.schedules = 1, .max_steps = 10'000}, [] {
    for (;;) yield_thread();
  });
  EXPECT_EQ(outcome.kind, sim::Failure::kEndless);
}

TEST(SimulatorFinds, AnExceptionThatLeavesAThread) {
  const sim::Outcome outcome = sim::explore({.schedules = 1}, [] {
    Thread thread("thrower", [] { throw std::runtime_error("planted"); });
    thread.join();
  });
  EXPECT_EQ(outcome.kind, sim::Failure::kException);
  EXPECT_NE(outcome.message.find("planted"), std::string::npos);
}

TEST(SimulatorFinds, AFailedAssertion) {
  const sim::Outcome outcome = sim::explore({.schedules = 1}, [] { TW_ASSERT(false, "planted"); });
  EXPECT_EQ(outcome.kind, sim::Failure::kAssertion);
}

TEST(SimulatorIsQuiet, WhenANotificationComesAtTheDeadline) {
  const sim::Outcome outcome = sim::explore({.schedules = 2'000}, [] {
    Mutex mutex{test_locks};
    CondVar cond;
    bool ready = false;
    Thread notifier("notifier", [&] {
      sleep_for(seconds(5));
      mutex.lock();
      ready = true;
      mutex.unlock();
      cond.notify_one();
    });
    mutex.lock();
    while (!cond.wait_for(mutex, seconds(5), [&] { return ready; })) {
    }
    mutex.unlock();
    notifier.join();
  });
  EXPECT_FALSE(outcome.failed) << outcome.message;
}

TEST(Simulator, PassesVirtualTimeInNoTime) {
  const sim::Outcome outcome = sim::explore({.schedules = 4}, [] {
    const Instant start = SteadyClock::instance().now();
    sleep_for(seconds(86'400));
    const Duration slept = SteadyClock::instance().now() - start;
    SIM_CHECK(slept >= seconds(86'400));
    SIM_CHECK(slept < seconds(86'400) + microseconds(10));
  });
  EXPECT_FALSE(outcome.failed) << outcome.message;
}

TEST(Simulator, RunsOneSeedInOneWay) {
  const auto body = [] {
    Atomic<int> sum{0};
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("adder", [&] {
        for (int i = 0; i < 20; ++i) sum.fetch_add(1, std::memory_order_relaxed);
      });
    }
    for (Thread& thread : threads) thread.join();
    SIM_CHECK(sum.load(std::memory_order_relaxed) == 80);
  };
  const sim::Outcome all = sim::explore({.schedules = 100}, body);
  EXPECT_FALSE(all.failed) << all.message;
  EXPECT_GT(all.distinct, 95U);
  const sim::Outcome a = sim::replay({}, {.seed = 7}, body);
  const sim::Outcome b = sim::replay({}, {.seed = 7}, body);
  EXPECT_EQ(a.steps, b.steps);
}

SIM_TEST(SimulatorTest, RunsABodyAsATest) {
  Mutex mutex{test_locks};
  int count = 0;
  Thread other("other", [&] {
    MutexLock lock(mutex);
    ++count;
  });
  {
    MutexLock lock(mutex);
    ++count;
  }
  other.join();
  EXPECT_EQ(count, 2);
  EXPECT_TRUE(sim::active());
  EXPECT_LT(current_cpu(), cpu_count());
}

TEST(Simulator, LeavesRealThreadsAloneOutside) {
  EXPECT_FALSE(sim::active());
  Mutex mutex{test_locks};
  int count = 0;
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("real", [&] {
      for (int i = 0; i < 1'000; ++i) {
        MutexLock lock(mutex);
        ++count;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4'000);
}

}  // namespace
}  // namespace tidewheel
