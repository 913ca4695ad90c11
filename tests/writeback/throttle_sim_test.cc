// Throttles under many schedules: policies swapped while writers pause and wait, pauses against stop and
// interrupt, tasks that end.
#include "base/sim.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "sim_options.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

LockClass sim_test_class("throttle-sim-test", LockRank::kDevice);

EngineOptions throttled_options(const char* throttle) {
  EngineOptions o = unperiodic_options();
  o.throttle = throttle;
  o.dirty_bytes = 64 << 10;
  return o;
}

// Completes each batch on a thread of its own, some time later.
class LaterDevice final : public FakeDevice {
 public:
  explicit LaterDevice(Duration takes) : takes_(takes) {}
  void start(Batch& batch) override {
    MutexLock guard(lock_);
    threads_.emplace_back("io", [this, &batch] {
      sleep_for(takes_);
      batch.complete();
    });
  }
  ~LaterDevice() override {
    for (Thread& thread : threads_) thread.join();
  }

 private:
  const Duration takes_;
  Mutex lock_{sim_test_class};
  std::vector<Thread> threads_ TW_GUARDED_BY(lock_);
};

struct SimRig {
  explicit SimRig(const EngineOptions& o, Duration device_takes = milliseconds(20)) : device(device_takes) {
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
    target.device = &device;
  }
  ~SimRig() { engine->stop(); }
  Result<void> dirty(FakeObject& object, std::uint64_t bytes, TaskThrottle* task) {
    Result<DirtyGrant> grant = engine->balance_dirty_pages(*context, bytes, task);
    if (!grant) return Unexpected(grant.error());
    SIM_CHECK(engine->charged_bytes() <= engine->options().dirty_bytes);
    engine->account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyData, engine->clock().now(), &*grant);
    return {};
  }
  void cancel(FakeObject& object) {
    engine->cancel(object);
    engine->account_cancelled(*context, object.dirty_bytes.exchange(0, std::memory_order_seq_cst));
  }
  LaterDevice device;
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

struct Objects {
  explicit Objects(SimRig& rig) {
    for (FakeObject& object : all) object.set_context(rig.context->id());
  }
  FakeObject all[12];
};

SIM_TEST_WITH(ThrottleSim, PoliciesAreSwappedWhileWritersPause, (sim::Options{.schedules = 120})) {
  SimRig rig(throttled_options("linux"));
  Objects objects(rig);
  std::vector<Thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back("writer", [&, w] {
      TaskThrottle task = rig.engine->make_task();
      for (int i = 0; i < 6; ++i) {
        FakeObject& object = objects.all[w * 4 + i % 4];
        SIM_CHECK(rig.dirty(object, 8000, w == 0 ? nullptr : &task).has_value());
      }
    });
  }
  for (const char* policy : {"delay-curve", "hard-limit", "linux", "delay-curve"}) {
    sleep_for(milliseconds(15));
    SIM_CHECK(rig.engine->set_throttle(policy).has_value());
    SIM_CHECK(rig.engine->throttle() == policy);
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(rig.engine->throttled_threads() == 0);
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.context->counts().all_zero());
}

// A policy whose pauses outlast any test: only a swap, a stop or an interrupt ends them.
class SleepyThrottle final : public Throttle {
 public:
  std::string_view name() const override { return "sim-sleepy"; }
  std::uint64_t free_run_bytes(const ThrottleLimits&) const override { return 0; }
  Duration longest_pause() const override { return seconds(100'000); }
  ThrottleDecision decide(const ThrottleInputs& in) const override {
    ThrottleDecision decision;
    decision.task = in.task;
    decision.pause = seconds(100'000);
    return decision;
  }
};
void register_sleepy() {
  const auto make = []() -> std::unique_ptr<Throttle> { return std::make_unique<SleepyThrottle>(); };
  (void)register_throttle_policy({"sim-sleepy", "pauses for more than a day", make});
}

enum class EndsBy { kSwap, kStop, kInterrupt };
void end_pauses(EndsBy by) {
  register_sleepy();
  SimRig rig(throttled_options("sim-sleepy"));
  Objects objects(rig);
  const Instant began = rig.engine->clock().now();
  std::vector<Thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back("writer", [&, w] {
      TaskThrottle task = rig.engine->make_task();
      const Result<void> done = rig.dirty(objects.all[w], 1000, w == 0 ? nullptr : &task);
      if (by == EndsBy::kSwap) SIM_CHECK(done.has_value());
      if (by == EndsBy::kStop) SIM_CHECK(done.error().code == Reason::kShutDown);
      if (by == EndsBy::kInterrupt) SIM_CHECK(done.error().code == Reason::kInterrupted);
    });
  }
  // Some pause already, some are about to.
  while (rig.engine->throttled_threads() == 0) sleep_for(microseconds(1));
  switch (by) {
    case EndsBy::kSwap: SIM_CHECK(rig.engine->set_throttle("hard-limit").has_value()); break;
    case EndsBy::kStop: rig.engine->stop(); break;
    case EndsBy::kInterrupt: rig.engine->interrupt_waiters(); break;
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(rig.engine->clock().now() - began < seconds(10));
  SIM_CHECK(rig.engine->throttled_threads() == 0);
  SIM_CHECK(rig.engine->stats().throttle_pauses >= 1);
  for (FakeObject& object : objects.all) rig.cancel(object);
  SIM_CHECK(rig.context->counts().all_zero());
}
SIM_TEST(ThrottleSim, ASwapEndsPauses) { end_pauses(EndsBy::kSwap); }
SIM_TEST(ThrottleSim, StopEndsPauses) { end_pauses(EndsBy::kStop); }
SIM_TEST(ThrottleSim, AnInterruptEndsPauses) { end_pauses(EndsBy::kInterrupt); }

SIM_TEST_WITH(ThrottleSim, DebtsOfTasksThatEndAreKept, (sim::Options{.schedules = 100})) {
  DebtPool pool;
  Atomic<std::int64_t> taken{0};
  std::vector<Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back("task", [&, t] {
      for (int i = 1; i <= 3; ++i) {
        pool.add(100 * i + t);
        taken.fetch_add(pool.take(150), std::memory_order_relaxed);
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  const std::int64_t owed = 3 * (100 + 200 + 300) + 3 * (0 + 1 + 2);
  SIM_CHECK(taken.load(std::memory_order_relaxed) + pool.bytes() == owed);
  SIM_CHECK(pool.take(INT64_MAX) + taken.load(std::memory_order_relaxed) == owed);
  SIM_CHECK(pool.bytes() == 0);
}

// The delay curve's places: no two writers are let go by one delay.
SIM_TEST_WITH(ThrottleSim, DelaysOfSeveralWritersQueue, (sim::Options{.schedules = 100})) {
  EngineOptions o = throttled_options("delay-curve");
  o.background_bytes = 32 << 10;
  SimRig rig(o, seconds(50));  // nothing is cleaned meanwhile
  Objects objects(rig);
  for (int i = 0; i < 6; ++i) SIM_CHECK(rig.dirty(objects.all[i], 8000, nullptr).has_value());
  // Six times 8,256 of 65,536: 76%, min_time is 0.3 ms and more.
  const Instant began = rig.engine->clock().now();
  std::vector<Thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back("writer", [&, w] {
      SIM_CHECK(rig.dirty(objects.all[6 + w], 100, nullptr).has_value());
    });
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(rig.engine->clock().now() - began >= microseconds(3 * 300));
  rig.engine->stop();
  for (FakeObject& object : objects.all) rig.cancel(object);
}

}  // namespace
}  // namespace tidewheel
