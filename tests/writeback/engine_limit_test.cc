// The hard limit: never passed, by real threads against slow, stalling and failing targets; and writers that
// wait are woken.
#include "base/rng.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

LockClass device_class("test-device", LockRank::kDevice);

// Completes batches on a thread of its own, one after the other.
class ThreadDevice final : public FakeDevice {
 public:
  ThreadDevice() : lock_(device_class), thread_("device", [this] { run(); }) {}
  ~ThreadDevice() override {
    {
      MutexLock guard(lock_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  void start(Batch& batch) override {
    MutexLock guard(lock_);
    queue_.push_back(&batch);
    changed_.notify_all();
  }
  void stall(bool on) {
    MutexLock guard(lock_);
    stalled_ = on;
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      Batch* batch = nullptr;
      {
        MutexLock guard(lock_);
        while ((queue_.empty() || stalled_) && !ended_) changed_.wait(lock_, CondVar::For::kWork);
        if (queue_.empty()) return;
        batch = queue_.front();
        queue_.pop_front();
      }
      batch->complete();
    }
  }
  Mutex lock_;
  CondVar changed_;
  std::deque<Batch*> queue_ TW_GUARDED_BY(lock_);
  bool stalled_ TW_GUARDED_BY(lock_) = false;
  bool ended_ TW_GUARDED_BY(lock_) = false;
  Thread thread_;
};

struct ThreadRig {
  explicit ThreadRig(EngineOptions o) {
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
    target.device = &device;
  }
  ~ThreadRig() { engine->stop(); }
  // False: shut down.
  bool dirty(FakeObject& object, std::uint64_t bytes) {
    Result<DirtyGrant> grant = engine->balance_dirty_pages(*context, bytes);
    if (!grant) return false;
    engine->account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyData, engine->clock().now(), &*grant);
    return true;
  }
  void cancel(FakeObject& object) {
    engine->cancel(object);
    engine->account_cancelled(*context, object.dirty_bytes.exchange(0, std::memory_order_seq_cst));
  }
  ThreadDevice device;
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

void run_writers_against_the_limit(const char* design, std::uint64_t limit, bool failing) {
  EngineOptions o;
  o.design = design;
  o.dirty_bytes = limit;
  o.background_bytes = limit / 4;
  o.object_overhead_bytes = 512;
  o.batch_bytes = 64 << 10;
  o.interval = {0};
  o.expire = seconds(3600);
  o.retry_first = milliseconds(1);
  o.retry_longest = milliseconds(4);
  ThreadRig rig(o);
  Atomic<std::uint64_t> turns{0};
  Atomic<bool> device_fails{true};
  if (failing) {
    rig.target.decide = [&](FakeObject&, WriteSlot&) {
      const bool fifth = turns.fetch_add(1, std::memory_order_relaxed) % 5 == 0;
      return fifth && device_fails.load(std::memory_order_relaxed) ? WriteOutcome::kFailed
                                                                   : WriteOutcome::kWritten;
    };
  }
  constexpr int kWriters = 16;
  constexpr int kObjects = 40;
  constexpr int kRounds = 400;
  std::vector<std::vector<std::unique_ptr<FakeObject>>> objects(kWriters);
  Atomic<std::uint64_t> worst{0};
  std::vector<Thread> threads;
  rig.device.stall(true);
  for (int w = 0; w < kWriters; ++w) {
    for (int i = 0; i < kObjects; ++i) {
      objects[w].push_back(std::make_unique<FakeObject>());
      objects[w].back()->set_context(rig.context->id());
      objects[w].back()->set_hash(static_cast<std::uint8_t>(w * kObjects + i));
    }
    threads.emplace_back("writer", [&, w] {
      Rng rng(static_cast<std::uint64_t>(w) + 1);
      for (int i = 0; i < kRounds; ++i) {
        ASSERT_TRUE(rig.dirty(*objects[w][rng.below(kObjects)], 1 + rng.below(8192)));
        const std::uint64_t now = rig.engine->charged_bytes();
        std::uint64_t most = worst.load(std::memory_order_relaxed);
        while (most < now && !worst.compare_exchange(most, now, std::memory_order_relaxed)) {
        }
      }
    });
  }
  // Nothing is written yet and each writer has more to dirty than the limit, so all of them end up waiting,
  // however they are scheduled.
  while (rig.engine->throttled_threads() < kWriters) yield_thread();
  rig.device.stall(false);
  for (int i = 0; i < 5; ++i) {
    rig.device.stall(true);
    for (int j = 0; j < 200; ++j) yield_thread();
    rig.device.stall(false);
    for (int j = 0; j < 200; ++j) yield_thread();
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_LE(worst.load(std::memory_order_relaxed), limit);
  EXPECT_GT(worst.load(std::memory_order_relaxed), limit / 2) << "most of the limit was never used";
  EXPECT_EQ(rig.engine->throttled_threads(), 0U);
  EXPECT_GT(rig.engine->stats().throttle_pauses, 0U) << "the test never reached the limit";
  device_fails.store(false, std::memory_order_relaxed);
  // What was on its way may still fail, and this says so; it is dirty, and the next one writes it.
  (void)rig.engine->sync(*rig.context);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  for (auto& mine : objects) {
    for (auto& object : mine) EXPECT_TRUE(object->state().clean());
  }
  EXPECT_TRUE(rig.context->counts().all_zero());
  EXPECT_LE(rig.engine->charged_bytes(), limit / 16) << "only the shards' credit may be left";
}

class EngineLimit : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Designs, EngineLimit, ::testing::ValuesIn(kAllDesigns), [](const auto& each) {
  std::string name = each.param;
  std::erase(name, '-');
  return name;
});

TEST_P(EngineLimit, HoldsAgainstAStallingDevice) {
  run_writers_against_the_limit(GetParam(), 512 << 10, false);
}
TEST_P(EngineLimit, HoldsAgainstAFailingDevice) {
  run_writers_against_the_limit(GetParam(), 512 << 10, true);
}
TEST_P(EngineLimit, TinyLimitsWork) { run_writers_against_the_limit(GetParam(), 20 << 10, false); }

TEST(EngineLimitExact, AllowanceNeverExceedsItsLimit) {
  constexpr std::int64_t kLimit = 100'000;
  DirtyAllowance allowance(kLimit, 700);
  // Each thread counts what it holds right after it has it and right before it gives it back: the sum of
  // these is at most what is out.
  Atomic<std::int64_t> held{0};
  Atomic<std::int64_t> worst{0};
  Atomic<std::uint64_t> refused{0};
  std::vector<Thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back("taker", [&, t] {
      Rng rng(static_cast<std::uint64_t>(t) + 3);
      std::vector<std::uint64_t> mine;
      const auto give_last_back = [&] {
        held.fetch_sub(static_cast<std::int64_t>(mine.back()), std::memory_order_seq_cst);
        allowance.give_back(mine.back());
        mine.pop_back();
      };
      for (int i = 0; i < 20'000; ++i) {
        // It takes twice as often as it gives: unless something is refused, any thread ends with a hundred
        // times the limit, however the threads are scheduled.
        if (rng.chance(3)) {
          if (!mine.empty()) give_last_back();
          continue;
        }
        const std::uint64_t n = 1 + rng.below(12'000);
        const bool took = rng.chance(3) ? allowance.take_thoroughly(n) : allowance.take(n);
        if (!took) {
          refused.fetch_add(1, std::memory_order_relaxed);
          yield_thread();
          continue;
        }
        mine.push_back(n);
        const auto size = static_cast<std::int64_t>(n);
        const std::int64_t now = held.fetch_add(size, std::memory_order_seq_cst) + size;
        std::int64_t most = worst.load(std::memory_order_relaxed);
        while (most < now && !worst.compare_exchange(most, now, std::memory_order_relaxed)) {
        }
        if (rng.chance(2)) yield_thread();
      }
      while (!mine.empty()) give_last_back();
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_LE(worst.load(std::memory_order_relaxed), kLimit);
  EXPECT_GT(refused.load(std::memory_order_relaxed), 0U);
  EXPECT_EQ(allowance.in_use(), 0U);
  EXPECT_TRUE(allowance.take_thoroughly(kLimit)) << "credit is stranded in the shards";
}

TEST(EngineLimitExact, StopWakesWritersThatWait) {
  EngineOptions o;
  o.dirty_bytes = 64 << 10;
  o.background_bytes = 16 << 10;
  o.writer_recheck = Duration::max();
  ThreadRig rig(o);
  rig.device.stall(true);
  std::vector<std::unique_ptr<FakeObject>> objects;
  std::vector<Thread> threads;
  Atomic<int> shut_down{0};
  for (int t = 0; t < 8; ++t) {
    objects.push_back(std::make_unique<FakeObject>());
    objects.back()->set_context(rig.context->id());
  }
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back("writer", [&, t] {
      while (rig.dirty(*objects[t], 4096)) {
      }
      shut_down.fetch_add(1, std::memory_order_relaxed);
    });
  }
  while (rig.engine->throttled_threads() < 8) yield_thread();
  Thread stopper("stopper", [&] { rig.engine->stop(); });
  while (!rig.engine->stopping()) yield_thread();
  rig.device.stall(false);  // stop waits for what is in flight
  stopper.join();
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(shut_down.load(std::memory_order_relaxed), 8);
  for (auto& object : objects) rig.cancel(*object);
  EXPECT_TRUE(rig.context->counts().all_zero());
}

TEST(EngineLimitExact, AnInterruptEndsWritersThatWaitAndNothingElse) {
  EngineOptions o;
  o.dirty_bytes = 64 << 10;
  o.background_bytes = 16 << 10;
  o.writer_recheck = Duration::max();
  ThreadRig rig(o);
  rig.device.stall(true);
  std::vector<std::unique_ptr<FakeObject>> objects;
  for (int t = 0; t < 8; ++t) {
    objects.push_back(std::make_unique<FakeObject>());
    objects.back()->set_context(rig.context->id());
  }
  Atomic<int> interrupted{0};
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back("writer", [&, t] {
      for (;;) {
        Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*rig.context, 4096);
        if (!grant) {
          EXPECT_EQ(grant.error().code, Reason::kInterrupted);
          interrupted.fetch_add(1, std::memory_order_relaxed);
          return;
        }
        rig.engine->account_dirtied(*grant, 4096);
        objects[t]->dirty_bytes.fetch_add(4096, std::memory_order_seq_cst);
        rig.engine->mark_dirty(*objects[t], kDirtyData, rig.engine->clock().now(), &*grant);
      }
    });
  }
  while (rig.engine->throttled_threads() < 8) yield_thread();
  rig.engine->interrupt_waiters();
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(interrupted.load(std::memory_order_relaxed), 8);
  EXPECT_EQ(rig.engine->throttled_threads(), 0U);
  // Nobody waits from here on: there is no moment at which an interrupt comes too early.
  EXPECT_EQ(rig.engine->balance_dirty_pages(*rig.context, 32 << 10).error().code, Reason::kInterrupted);
  rig.device.stall(false);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_TRUE(rig.engine->balance_dirty_pages(*rig.context, 4096).has_value())
      << "who needn't wait is granted";
  rig.engine->end_interrupt();
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(rig.dirty(*objects[0], 4096)) << "waits as before";
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
}

TEST(EngineLimitExact, WritersAreServedInTurnAndLargeRequestsAreNotStarved) {
  EngineOptions o = small_options();
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1), 10 << 20);
  device.stalled = true;
  rig.target.device = &device;
  while (rig.engine->dirty_and_writeback_bytes() + 8192 < o.dirty_bytes) rig.dirty(rig.make(), 4096);
  std::vector<int> order;
  struct Virtual : ThrottleWaiter {
    int number = 0;
    std::vector<int>* order = nullptr;
  };
  Virtual waiters[3];
  const std::uint64_t wants[3] = {1 << 20, 4096, 4096};
  for (int i = 0; i < 3; ++i) {
    waiters[i].number = i;
    waiters[i].order = &order;
    waiters[i].wake = [](ThrottleWaiter& waiter) {
      auto& mine = static_cast<Virtual&>(waiter);
      mine.order->push_back(mine.number);
    };
    EXPECT_FALSE(rig.engine->begin_balance(*rig.context, wants[i], waiters[i]));
  }
  EXPECT_EQ(rig.engine->throttled_threads(), 3U);
  device.resume();
  rig.driver->run_for(seconds(2));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  for (Virtual& waiter : waiters) {
    const Result<DirtyGrant> grant = rig.engine->finish_balance(*rig.context, waiter);
    ASSERT_TRUE(grant.has_value());
    EXPECT_EQ(grant->bytes(), wants[waiter.number]);
  }
  EXPECT_EQ(rig.engine->throttled_threads(), 0U);
}

// All that is dirty lies below the background threshold, and the request is the largest there is.
TEST(EngineLimitExact, TheLargestRequestIsAdmittedThoughNothingIsPeriodic) {
  EngineOptions o = small_options();
  o.dirty_bytes = 1 << 20;
  o.background_bytes = 512 << 10;
  o.interval = {0};
  o.writer_recheck = Duration::max();
  VirtualRig rig(o);
  while (rig.engine->dirty_bytes() + 5120 <= o.background_bytes) rig.dirty(rig.make(), 4096);
  FakeObject& large = rig.make();
  rig.dirty(large, (512 << 10) - 1024);
  FakeObject& another = rig.make();
  rig.dirty(another, (512 << 10) - 1024);
  EXPECT_LE(rig.engine->dirty_and_writeback_bytes(), o.dirty_bytes);
}

TEST(EngineContexts, NothingIsLeftOfThoseThatWereRemoved) {
  ThreadRig rig({});
  auto& driver = static_cast<ThreadDriver&>(rig.engine->driver());
  ASSERT_EQ(driver.flushers(), 1U);
  for (int i = 0; i < 20; ++i) {
    FakeTarget target;
    WritebackContext* context = rig.engine->add_context(target);
    ASSERT_NE(context, nullptr);
    EXPECT_EQ(driver.flushers(), 2U);
    EXPECT_TRUE(rig.engine->remove_context(*context).has_value());
  }
  EXPECT_EQ(driver.flushers(), 1U);
}

TEST(EngineOptionsCheck, NonsenseIsRefused) {
  const auto accepted = [](auto change) {
    EngineOptions o;
    change(o);
    VirtualClock clock;
    return WritebackEngine::make(o, std::make_unique<VirtualDriver>(clock)).has_value();
  };
  EXPECT_TRUE(accepted([](EngineOptions&) {}));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.design = "no-such"; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.throttle = ""; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.dirty_bytes = 0; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.flushers = 0; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.batch_objects = 0; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.batch_objects = 70'000; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.batches_in_flight = 0; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.shards = 3; }));
  EXPECT_FALSE(accepted([](EngineOptions& o) { o.interval = {-1}; }));
}

}  // namespace
}  // namespace tidewheel
