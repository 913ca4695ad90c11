// The age promise at the length of a usual run; tests/long/age_promise.cc makes it a thousand million events.
#include <algorithm>
#include <cstdio>

#include "age_run.h"
#include "base/sim.h"
#include "sim_options.h"
#include "tests/length.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

TEST(EngineAge, HoldsBesideSyncsSwitchesErrorsReclaimAndClockSteps) {
  const EngineOptions defaults;
  std::uint64_t dirtied = 0;
  std::uint64_t clock_steps = 0;
  Duration passed{0};
  Duration oldest{0};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    AgeRun run(AgeRun::setup_of(seed));
    for (std::uint64_t i = 0, n = loop_length(30'000); i < n; ++i) {
      run.step();
      ASSERT_TRUE(run.kept()) << "after " << i << " steps: " << run.oldest_write().seconds() << " s of "
                              << run.promise().seconds();
    }
    oldest = std::max(oldest, run.oldest_write());
    EXPECT_GT(run.failed_writes, 0U);
    dirtied += run.dirtied;
    clock_steps += run.clock_steps;
    passed = passed + run.passed();
    std::printf("[          ] seed %llu: oldest at its write %.3f s of %.3f\n",
                static_cast<unsigned long long>(seed), run.oldest_write().seconds(), run.promise().seconds());
  }
  EXPECT_GE(oldest.ns, defaults.expire.ns) << "nothing has waited for its age";
  EXPECT_GT(clock_steps, 3U);
  std::printf("[          ] %llu dirtyings in %.0f s, %llu clock steps\n",
              static_cast<unsigned long long>(dirtied), passed.seconds(),
              static_cast<unsigned long long>(clock_steps));
}

TEST(EngineAge, TheMetricIsExactToASlot) {
  AgeRun run({.seed = 5, .clock_steps = false});
  for (std::uint64_t i = 0, n = std::max<std::uint64_t>(loop_length(30'000), 30'000); i < n; ++i) run.step();
  EXPECT_GT(run.metric_checks, 3U);
}

// ---- clock steps, one by one ----

// Dirt of every age is there when the clock is set back: each is written as if it had gone on.
TEST(EngineAge, AClockThatIsSetBackDelaysNothingByMoreThanItHides) {
  const EngineOptions defaults;
  for (const Duration by : {milliseconds(500), seconds(3), seconds(6), seconds(20), seconds(3600)}) {
    SCOPED_TRACE(by.seconds());
    VirtualRig rig;
    Duration stepped{0};
    std::map<FakeObject*, Instant> since;
    Duration oldest{0};
    rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
      oldest = std::max(oldest, rig.clock.now() - stepped - since[&object]);
    };
    const auto dirty_one = [&] {
      FakeObject& object = rig.make();
      since[&object] = rig.clock.now() - stepped;
      rig.dirty(object, 4096);
    };
    for (int i = 0; i < 28; ++i) {
      dirty_one();
      rig.driver->run_for(seconds(1));
    }
    rig.driver->step_clock(by * -1);
    stepped += by * -1;
    dirty_one();
    rig.driver->run_for(seconds(60));
    EXPECT_EQ(rig.dirty_objects(), 0U);
    const Duration hidden = std::min(by, defaults.interval + seconds(1));
    EXPECT_LE(oldest.ns, (defaults.expire + defaults.interval + hidden + milliseconds(200)).ns);
  }
}

// Nobody dirties anything after it, and the step is shorter than the dirt is old: no stamp lies in the
// future.
TEST(EngineAge, AClockStepIsNoticedWithoutAWriter) {
  const EngineOptions defaults;
  VirtualRig rig;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(20));
  rig.driver->step_clock(seconds(-15));
  rig.driver->run_for(defaults.expire + defaults.interval + milliseconds(200) - seconds(20));
  EXPECT_TRUE(object.state().clean());
}

// It was dirtied again while it was written, and is still being written when the step is noticed: its stamp
// is one of the old time, which lies in the future of the new one, or in its past.
TEST(EngineAge, WhatComesBackAfterAClockStepKeepsItsAge) {
  const EngineOptions defaults;
  for (const Duration until : {seconds(10), seconds(18)}) {
    SCOPED_TRACE(until.seconds());
    VirtualRig rig;
    VirtualDevice device(*rig.driver, milliseconds(1));
    rig.target.device = &device;
    device.stalled = true;
    FakeObject& object = rig.make();
    rig.dirty(object, 4096);
    rig.engine->reclaim(*rig.context, 1);
    rig.driver->run_for(milliseconds(1));
    ASSERT_EQ(object.writes, 1U);
    const Instant since = rig.clock.now();
    rig.dirty(object, 4096);
    device.stalled = false;
    rig.dirty(rig.make(), 4096);  // keeps the flusher ticking
    rig.driver->run_for(seconds(2));
    rig.driver->step_clock(seconds(-16));
    rig.driver->run_for(until - seconds(2));
    device.resume();
    Duration age{0};
    rig.target.on_write = [&](FakeObject& written, const WriteSlot&, WorkKind) {
      if (&written == &object) age = rig.clock.now() + seconds(16) - since;
    };
    rig.driver->run_for(seconds(60));
    EXPECT_GT(age.ns, 0);
    EXPECT_LE(age.ns, (defaults.expire + defaults.interval + milliseconds(200)).ns);
  }
}

TEST(EngineAge, ARetryIsNotPutOffByAClockThatIsSetBack) {
  const EngineOptions defaults;
  VirtualRig rig;
  bool fails = true;
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return fails ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  EXPECT_FALSE(rig.engine->sync(*rig.context));
  // Nothing else is dirty: no tick is armed, and only the back-off tells when to look.
  rig.driver->run_for(milliseconds(20));
  fails = false;
  rig.driver->step_clock(seconds(-3600));
  rig.driver->run_for(seconds(3));
  EXPECT_TRUE(object.state().clean());
}

// A program's own clock, which can be set.
class SettableClock final : public Clock {
 public:
  Instant now() const override {
    return SteadyClock::instance().now() + Duration{ahead_ns.load(std::memory_order_relaxed)};
  }
  Atomic<std::int64_t> ahead_ns{INT64_C(1) << 50};
};

// Its flusher sleeps until the tick while the clock is set back by an hour.
SIM_TEST(EngineAgeSim, AThreadThatSleepsUntilItsTickIsNotMadeToSleepByTheClock) {
  SettableClock clock;
  FakeTarget target;
  EngineOptions o = small_options();
  o.clock = &clock;
  o.expire = milliseconds(100);
  o.interval = milliseconds(100);
  auto engine = std::move(*WritebackEngine::make(o, std::make_unique<ThreadDriver>(clock)));
  WritebackContext* context = engine->add_context(target);
  target.context = context;
  FakeObject object;
  object.set_context(context->id());
  engine->mark_dirty(object, kDirtyMetadata, clock.now());
  sleep_for(milliseconds(50));
  clock.ahead_ns.fetch_sub(3'600'000'000'000, std::memory_order_relaxed);
  sleep_for(milliseconds(500));
  SIM_CHECK(object.state().clean());
  engine->cancel(object);
  engine->stop();
}

}  // namespace
}  // namespace tidewheel
