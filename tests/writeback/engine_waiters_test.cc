// Writers that wait: who holds up whom, who is sent away when, what a pause that ends early leaves behind.
#include <optional>

#include "engine_rig.h"
#include "owner_rig.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kKiB = 1024;

ThrottleWaiter idle_waiter() {
  ThrottleWaiter waiter;
  waiter.wake = [](ThrottleWaiter&) {};
  return waiter;
}

using State = ThrottleWaiter::State;

// ---- the queue ----

EngineOptions two_limits() {
  EngineOptions o = small_options();
  o.dirty_bytes = 200 * kKiB;
  o.background_bytes = 100 * kKiB;
  o.interval = {0};
  return o;
}

// The owner's limit, and all but 40 KiB of the engine's.
struct TwoLimits : OwnerRig {
  TwoLimits() : OwnerRig(two_limits(), 2) {
    owner[0] = engine->add_context(target, {.background_bytes = 40 * kKiB, .dirty_bytes = 80 * kKiB});
  }
};

TEST(EngineWaiters, WhoWaitsAtHisOwnersLimitHoldsUpThoseBehindHimInIt) {
  TwoLimits rig;
  std::vector<FakeObject*> mine;
  for (int i = 0; i < 15; ++i) mine.push_back(&rig.make_dirty(0));  // 75 KiB
  ThrottleWaiter large = idle_waiter();
  ThrottleWaiter small = idle_waiter();
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 15 * kKiB, large));
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 2 * kKiB, small)) << "though there is room for it";
  cancel_owned(*rig.engine, rig.target, *mine[0]);
  EXPECT_EQ(small.state, State::kWaiting);
  cancel_owned(*rig.engine, rig.target, *mine[1]);
  EXPECT_EQ(large.state, State::kWaiting);
  cancel_owned(*rig.engine, rig.target, *mine[2]);
  ASSERT_EQ(large.state, State::kGranted);
  ASSERT_EQ(small.state, State::kGranted);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], large).has_value());
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], small).has_value());
}

// The other way round of OwnerLimit.FromTheOwnersLimitToTheEnginesNothingIsMissed.
TEST(EngineWaiters, FromTheEnginesLimitToHisOwnersHeHoldsUpNobodyElse) {
  TwoLimits rig;
  std::vector<FakeObject*> others;
  while (rig.engine->charged_bytes() + 5 * kKiB <= 200 * kKiB) others.push_back(&rig.make_dirty(1));
  ThrottleWaiter waiter = idle_waiter();
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 15 * kKiB, waiter)) << "the engine's";
  // Dirt that nobody could refuse fills his owner's limit; then there is room in the engine's.
  rig.engine->account_dirtied(*rig.owner[0], 75 * kKiB);
  for (int i = 0; i < 25; ++i) cancel_owned(*rig.engine, rig.target, *others[static_cast<std::size_t>(i)]);
  ASSERT_EQ(waiter.state, State::kWaiting);
  ThrottleWaiter other = idle_waiter();
  EXPECT_TRUE(rig.engine->begin_balance(*rig.owner[1], 4 * kKiB, other));
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[1], other).has_value());
  const std::uint64_t before = acquisitions_of("throttle");
  rig.make_dirty(1);
  EXPECT_EQ(acquisitions_of("throttle"), before) << "nor is a lock taken for him";
  rig.engine->account_cancelled(*rig.owner[0], 75 * kKiB);
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], waiter).has_value());
}

// ---- a device that fails ----

struct FailingRig : VirtualRig {
  explicit FailingRig(const EngineOptions& o = small_options())
      : VirtualRig(o), device(*driver, milliseconds(2)) {
    target.device = &device;
    target.decide = [](FakeObject&, WriteSlot& slot) {
      slot.error.code = Reason::kNoSpace;
      return WriteOutcome::kFailed;
    };
  }
  VirtualDevice device;
};

TEST(EngineWaiters, WhoStoodBehindOneThatIsRefusedIsServedAtOnce) {
  FailingRig rig;
  for (int i = 0; i < 10; ++i) rig.dirty(rig.make(), 250 * kKiB);
  {
    const Result<DirtyGrant> held = rig.engine->balance_dirty_pages(*rig.context, 1200 * kKiB);
    ASSERT_TRUE(held.has_value());
    struct Told : ThrottleWaiter {
      Instant at = Instant::max();
      const VirtualClock* clock = nullptr;
    };
    Told large;
    Told small;
    for (Told* each : {&large, &small}) {
      each->clock = &rig.clock;
      each->wake = [](ThrottleWaiter& waiter) {
        auto& told = static_cast<Told&>(waiter);
        told.at = told.clock->now();
      };
    }
    ASSERT_FALSE(rig.engine->begin_balance(*rig.context, 1900 * kKiB, large));
    ASSERT_FALSE(rig.engine->begin_balance(*rig.context, 64 * kKiB, small));
    rig.driver->run_for(seconds(60));
    ASSERT_EQ(large.state, State::kRefused);
    ASSERT_EQ(small.state, State::kGranted);
    EXPECT_EQ(small.at, large.at) << "and not when the next batch ends";
    EXPECT_EQ(rig.engine->finish_balance(*rig.context, large).error().code, Reason::kNoSpace);
    EXPECT_TRUE(rig.engine->finish_balance(*rig.context, small).has_value());
  }
}

TEST(EngineWaiters, WhereAllIsKnownToFailNobodyWaitsForTheNextRetry) {
  FailingRig rig;
  for (int i = 0; i < 15; ++i) rig.dirty(rig.make(), 250 * kKiB);
  rig.driver->run_for(seconds(20));
  ThrottleWaiter waiter = idle_waiter();
  EXPECT_FALSE(rig.engine->begin_balance(*rig.context, 500 * kKiB, waiter));
  ASSERT_EQ(waiter.state, State::kRefused);
  EXPECT_EQ(rig.engine->finish_balance(*rig.context, waiter).error().code, Reason::kNoSpace);
}

// Timestamps alone that nobody has tried to write may make room yet.
TEST(EngineWaiters, WhatWaitsOnTheRingOfTimestampsIsTriedBeforeAnybodyIsRefused) {
  FailingRig rig;
  rig.target.decide = [](FakeObject&, WriteSlot& slot) {
    if (slot.classes == kDirtyTimestamps) return WriteOutcome::kWritten;
    slot.error.code = Reason::kNoSpace;
    return WriteOutcome::kFailed;
  };
  for (int i = 0; i < 6; ++i) rig.dirty(rig.make(), 250 * kKiB);
  rig.driver->run_for(seconds(20));
  for (int i = 0; i < 2300; ++i) rig.engine->mark_dirty(rig.make(), kDirtyTimestamps, rig.clock.now());
  ThrottleWaiter waiter = idle_waiter();
  ASSERT_FALSE(rig.engine->begin_balance(*rig.context, 500 * kKiB, waiter));
  ASSERT_EQ(waiter.state, State::kWaiting);
  rig.driver->run_for(seconds(1));
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.context, waiter).has_value());
}

// ---- pauses ----

// Holds everybody up for ever, or for one pause, and takes nothing for paid.
class HoldsUp final : public Throttle {
 public:
  static constexpr Duration kPause = milliseconds(50);
  static inline bool again = true;
  std::string_view name() const override { return "holds-up"; }
  std::uint64_t free_run_bytes(const ThrottleLimits&) const override { return 0; }
  ThrottleDecision decide(const ThrottleInputs& in) const override {
    ThrottleDecision decision;
    decision.pause = kPause;
    decision.again = again;
    decision.task = in.task;
    decision.task.pause_after_bytes = 0;
    return decision;
  }
};

EngineOptions held_up(bool again) {
  static const bool registered = register_throttle_policy(
      {"holds-up", "a pause for every request", [] { return std::unique_ptr<Throttle>(new HoldsUp); }});
  TW_ASSERT(registered, "the name is taken");
  HoldsUp::again = again;
  EngineOptions o = small_options();
  o.throttle = "holds-up";
  return o;
}

TEST(EngineWaiters, APauseThatASwapEndsIsFollowedByTheNewPolicysAnswer) {
  VirtualRig rig(held_up(false));
  ThrottlePause pause;
  rig.engine->begin_pause(*rig.context, 4096, pause);
  EXPECT_EQ(pause.length, HoldsUp::kPause);
  ASSERT_TRUE(rig.engine->set_throttle("hard-limit").has_value());
  EXPECT_TRUE(rig.engine->pause_is_over(pause));
  rig.engine->end_pause(pause);
  EXPECT_TRUE(pause.again);
  rig.engine->begin_pause(*rig.context, 4096, pause);
  EXPECT_EQ(pause.length.ns, 0);
}

TEST(EngineWaiters, WhereADeviceFailsPausesEndAtTheQueueThatKnows) {
  FailingRig rig(held_up(true));
  FakeObject& object = rig.make();
  rig.engine->mark_dirty(object, kDirtyMetadata, rig.clock.now());
  ThrottlePause pause;
  rig.engine->begin_pause(*rig.context, 4096, pause);
  rig.engine->end_pause(pause);
  EXPECT_TRUE(pause.again) << "it is held up for ever";
  rig.driver->run_for(seconds(60));
  rig.engine->begin_pause(*rig.context, 4096, pause);
  rig.engine->end_pause(pause);
  EXPECT_FALSE(pause.again);
}

// A device fails once it has failed for three seconds: what it failed with before it last wrote is over.
TEST(EngineWaiters, AFailureOfBeforeTheLastSuccessDoesNotCount) {
  VirtualRig rig(held_up(true));
  bool fails = true;
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    if (!fails) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  FakeObject& object = rig.make();
  const auto fail_once = [&] {
    fails = true;
    rig.engine->mark_dirty(object, kDirtyMetadata, rig.clock.now());
    EXPECT_FALSE(rig.engine->fsync(object).has_value());
  };
  const auto fails_for_good = [&] {
    ThrottlePause pause;
    rig.engine->begin_pause(*rig.context, 4096, pause);
    rig.engine->end_pause(pause);
    return !pause.again;
  };
  fail_once();
  fails = false;
  rig.driver->run_for(seconds(100));
  ASSERT_TRUE(object.state().clean());
  fail_once();
  rig.driver->run_for(milliseconds(1500));
  EXPECT_EQ(rig.engine->stats().failed_writes, 3U);
  EXPECT_FALSE(fails_for_good());
  rig.driver->run_for(seconds(3));
  EXPECT_TRUE(fails_for_good());
}

TEST(EngineWaiters, AContextThatFailedAndIsRemovedIsForgotten) {
  VirtualRig rig(held_up(true));
  FakeTarget broken;
  broken.decide = [](FakeObject&, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  WritebackContext* const other = rig.engine->add_context(broken);
  FakeObject object;
  object.set_context(other->id());
  rig.engine->mark_dirty(object, kDirtyMetadata, rig.clock.now());
  rig.driver->run_for(seconds(60));
  ThrottlePause pause;
  const auto held_for_good = [&] {
    rig.engine->begin_pause(*rig.context, 4096, pause);
    rig.engine->end_pause(pause);
    return pause.again;
  };
  EXPECT_FALSE(held_for_good()) << "it fails";
  EXPECT_TRUE(rig.engine->cancel(object));
  ASSERT_TRUE(rig.engine->remove_context(*other).has_value());
  EXPECT_TRUE(held_for_good());
}

// What a task was charged for a request that came to nothing it need not pay for.
TEST(EngineWaiters, ARequestThatIsRefusedCostsNothing) {
  VirtualRig rig(held_up(false));
  TaskThrottle task = rig.engine->make_task();
  rig.driver->post(rig.clock.now() + milliseconds(5),
                   [](void* engine, std::uint64_t) {
                     static_cast<WritebackEngine*>(engine)->interrupt_waiters();
                   },
                   rig.engine.get());
  const Result<DirtyGrant> interrupted = rig.engine->balance_dirty_pages(*rig.context, 4096, &task);
  ASSERT_FALSE(interrupted.has_value());
  EXPECT_EQ(interrupted.error().code, Reason::kInterrupted);
  EXPECT_EQ(task.rates().dirtied_bytes, 0) << "sent away from its pause";

  rig.engine->end_interrupt();
  {
    ASSERT_TRUE(rig.engine->set_throttle("hard-limit").has_value());
    const Result<DirtyGrant> half = rig.engine->balance_dirty_pages(*rig.context, UINT64_MAX);
    const Result<DirtyGrant> rest = rig.engine->balance_dirty_pages(*rig.context, UINT64_MAX);
    ASSERT_TRUE(half.has_value());
    ASSERT_TRUE(rest.has_value());
    ASSERT_TRUE(rig.engine->set_throttle("holds-up").has_value());
    ThrottlePause pause;
    rig.engine->begin_pause(*rig.context, 4096, pause, &task);
    rig.engine->end_pause(pause);
    ThrottleWaiter waiter = idle_waiter();
    ASSERT_FALSE(rig.engine->begin_balance(*rig.context, 4096, waiter, &pause));
    rig.engine->interrupt_waiters();
    EXPECT_EQ(rig.engine->finish_balance(*rig.context, waiter).error().code, Reason::kInterrupted);
    EXPECT_EQ(task.rates().dirtied_bytes, 0) << "sent away from the queue";
  }
  rig.engine->end_interrupt();
}

// ---- a freeze that fails ----

TEST(EngineWaiters, WhoWaitedForAFreezeThatFailsIsServed) {
  VirtualRig rig(small_options());
  ThrottleWaiter waiter = idle_waiter();
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    if (waiter.state == State::kIdle) {
      EXPECT_FALSE(rig.engine->begin_balance(*rig.context, 4096, waiter)) << "nobody is admitted meanwhile";
    }
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  rig.dirty(rig.make(), 4096);
  EXPECT_EQ(rig.engine->freeze().error().code, Reason::kIo);
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.context, waiter).has_value());
}

}  // namespace
}  // namespace tidewheel
