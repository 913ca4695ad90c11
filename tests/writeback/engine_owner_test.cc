// Owners: thresholds of their own, re-filing, retirement, sync of one and of all.
#include <optional>

#include "owner_rig.h"
#include "sim_options.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kEach = 4096 + 1024;  // one object of 4 KiB with its overhead

ContextOptions limits(std::uint64_t background, std::uint64_t dirty) {
  ContextOptions o;
  o.background_bytes = background;
  o.dirty_bytes = dirty;
  return o;
}

// ---- thresholds ----

TEST(OwnerLimit, BackgroundStopsExactlyAtTheOwnersThreshold) {
  OwnerRig rig(small_options(), 2, limits(200 << 10, ContextOptions::kNone));
  VirtualDevice device(*rig.driver, milliseconds(1), 100 << 20);
  rig.target.device = &device;
  for (int i = 0; i < 100; ++i) rig.make_dirty(0);  // 500 KiB, half of the engine's threshold
  for (int i = 0; i < 20; ++i) rig.make_dirty(1);   // 100 KiB: below its own
  rig.driver->run_for(seconds(2));
  const std::uint64_t left = rig.owner[0]->counts().dirty();
  EXPECT_LE(left, 200U << 10);
  EXPECT_GT(left + kEach, 200U << 10) << "one object more than needed was written";
  EXPECT_EQ(rig.objects_of(1), 20U);
}

TEST(OwnerLimit, BothThresholdsStopExactlyWhereBothArePassed) {
  // The owner is 300 KiB over its own; the engine, with the other's, 150 KiB over its.
  EngineOptions o = small_options();
  o.background_bytes = 900 << 10;
  OwnerRig rig(o, 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(200 << 10, ContextOptions::kNone));
  VirtualDevice device(*rig.driver, milliseconds(1), 100 << 20);
  rig.target.device = &device;
  for (int i = 0; i < 100; ++i) rig.make_dirty(0);  // 500 KiB
  for (int i = 0; i < 110; ++i) rig.make_dirty(1);  // 550 KiB, no threshold of its own
  rig.driver->run_for(seconds(2));
  EXPECT_LE(rig.owner[0]->counts().dirty(), 200U << 10);
  EXPECT_GT(rig.owner[0]->counts().dirty() + kEach, 200U << 10);
  EXPECT_LE(rig.engine->dirty_bytes(), 900U << 10);
  // While the first one's own excess brings the sum down, the second's flusher may have begun.
  EXPECT_GT(rig.owner[1]->counts().dirty(), (550U << 10) - (160U << 10));
}

TEST(OwnerLimit, TheLowerLimitHolds) {
  EngineOptions o = small_options();
  OwnerRig rig(o, 1, limits(100 << 10, 400 << 10));
  VirtualDevice device(*rig.driver, milliseconds(1), 10 << 20);
  rig.target.device = &device;
  std::uint64_t most = 0;
  for (int i = 0; i < 600; ++i) {  // 3 MB through 400 KiB
    rig.make_dirty(0);
    most = std::max(most, rig.owner[0]->counts().total());
    ASSERT_LE(rig.owner[0]->counts().total(), 400U << 10);
  }
  EXPECT_GT(most, 350U << 10);
  EXPECT_LT(rig.engine->dirty_and_writeback_bytes(), o.background_bytes);
}

TEST(OwnerLimit, WhoWaitsAtHisOwnersLimitHoldsUpNobodyElse) {
  OwnerRig rig(small_options(), 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(20 << 10, 40 << 10));
  VirtualDevice device(*rig.driver, milliseconds(1));
  device.stalled = true;
  rig.target.device = &device;
  for (int i = 0; i < 7; ++i) rig.make_dirty(0);
  ThrottleWaiter first;
  ThrottleWaiter behind;
  int woken = 0;
  first.owner = behind.owner = &woken;
  first.wake = behind.wake = [](ThrottleWaiter& waiter) { ++*static_cast<int*>(waiter.owner); };
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 12 << 10, first));
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 1, behind)) << "a small request overtakes";
  for (int i = 0; i < 50; ++i) rig.make_dirty(1);  // would wait for good behind them
  rig.driver->run_for(seconds(1));
  EXPECT_EQ(woken, 0);
  device.resume();
  rig.driver->run_for(seconds(1));
  EXPECT_EQ(woken, 2);
  for (ThrottleWaiter* waiter : {&first, &behind}) {
    EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], *waiter).has_value());
  }
}

// Others dirty, give back and are cleaned without the lock of those who wait; its own writers take it.
TEST(OwnerLimit, WhoWaitsAtHisOwnersLimitCostsOthersNoLock) {
  OwnerRig rig(small_options(), 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(20 << 10, 40 << 10));
  VirtualDevice device(*rig.driver, milliseconds(1));
  device.stalled = true;
  rig.target.device = &device;
  for (int i = 0; i < 7; ++i) rig.make_dirty(0);
  ThrottleWaiter waiter;
  waiter.wake = [](ThrottleWaiter&) {};
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 12 << 10, waiter));
  const std::uint64_t before = acquisitions_of("throttle");
  ASSERT_GT(before, 0U);
  for (int i = 0; i < 100; ++i) {
    FakeObject& object = rig.make_dirty(1);
    Result<DirtyGrant> unused = rig.engine->balance_dirty_pages(*rig.owner[1], 4096);
    ASSERT_TRUE(unused.has_value());
    cancel_owned(*rig.engine, rig.target, object);
  }
  EXPECT_EQ(acquisitions_of("throttle"), before) << "by 100 writes, grants and cancels of the other owner";
  // What gives back in its own context looks for it.
  EXPECT_EQ(waiter.state, ThrottleWaiter::State::kWaiting);
  cancel_owned(*rig.engine, rig.target, *rig.objects[1]);
  EXPECT_GT(acquisitions_of("throttle"), before);
  device.resume();
  rig.driver->run_for(seconds(1));
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], waiter).has_value());
}

// Who waits at his owner's limit, and then, when there is room, at the engine's, is told of room in both.
TEST(OwnerLimit, FromTheOwnersLimitToTheEnginesNothingIsMissed) {
  EngineOptions o = small_options();
  o.dirty_bytes = 200 << 10;
  o.background_bytes = 100 << 10;
  o.interval = {0};
  OwnerRig rig(o, 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(20 << 10, 40 << 10));
  std::vector<FakeObject*> mine;
  for (int i = 0; i < 7; ++i) mine.push_back(&rig.make_dirty(0));
  ThrottleWaiter waiter;
  waiter.wake = [](ThrottleWaiter&) {};
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 15 << 10, waiter));
  // The other owner takes the rest of the engine's, and at once what the first one gives back.
  std::vector<FakeObject*> others;
  const auto fill = [&] {
    while (rig.engine->charged_bytes() + (5 << 10) <= o.dirty_bytes) others.push_back(&rig.make_dirty(1));
  };
  fill();
  for (int i = 0; i < 3; ++i) {
    cancel_owned(*rig.engine, rig.target, *mine[static_cast<std::size_t>(i)]);
    if (i < 2) fill();
  }
  ASSERT_EQ(waiter.state, ThrottleWaiter::State::kWaiting) << "room of the owner's, none of the engine's";
  for (std::size_t i = 0; i < 3; ++i) cancel_owned(*rig.engine, rig.target, *others[i]);
  ASSERT_EQ(waiter.state, ThrottleWaiter::State::kGranted);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], waiter).has_value());
  // And nobody is counted as waiting any more.
  const std::uint64_t before = acquisitions_of("throttle");
  rig.make_dirty(1);
  EXPECT_EQ(acquisitions_of("throttle"), before);
}

// Dirt that comes from another owner passes the threshold as well as what is dirtied; nothing is periodic.
TEST(OwnerLimit, WhatASwitchBringsStartsTheBackground) {
  EngineOptions o = small_options();
  o.interval = {0};
  OwnerRig rig(o, 2);
  rig.owner[1] = rig.engine->add_context(rig.target, limits(20 << 10, 200 << 10));
  rig.make_dirty(1);
  rig.dirty(rig.make(1), 0, kDirtyTimestamps);  // neither a first listing nor a first timestamp will wake it
  std::vector<FakeObject*> coming;
  for (int i = 0; i < 10; ++i) coming.push_back(&rig.make_dirty(0));
  rig.driver->run_for(seconds(10));  // not expired: that alone wakes who gets it
  EXPECT_EQ(rig.engine->stats().objects, 0U);
  for (FakeObject* object : coming) rig.engine->switch_owner(*object, *rig.owner[1]);
  rig.driver->run_for(seconds(1));
  EXPECT_LE(rig.owner[1]->counts().dirty(), 20U << 10);
}

// What an owner has set aside and the engine then refuses goes back, however often it is tried.
TEST(OwnerLimit, ATryThatTheEngineRefusesCostsTheOwnerNothing) {
  EngineOptions o = small_options();
  o.dirty_bytes = 200 << 10;
  o.background_bytes = 100 << 10;
  o.interval = {0};
  OwnerRig rig(o, 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(ContextOptions::kNone, 64 << 10));
  std::vector<FakeObject*> others;
  while (rig.engine->charged_bytes() + (5 << 10) <= o.dirty_bytes) others.push_back(&rig.make_dirty(1));
  ThrottleWaiter waiter;
  waiter.wake = [](ThrottleWaiter&) {};
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 30 << 10, waiter));
  std::size_t freed = 0;
  while (freed < 7) {
    ASSERT_EQ(waiter.state, ThrottleWaiter::State::kWaiting) << freed;
    cancel_owned(*rig.engine, rig.target, *others[freed++]);
  }
  ASSERT_EQ(waiter.state, ThrottleWaiter::State::kGranted);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], waiter).has_value());
}

// Between the look that finds the engine's limit in the way and the moment that he is counted there, somebody
// of another owner may give back: he who counts looks again.
SIM_TEST_WITH(OwnerLimitSim, WhoComesToTheEnginesLimitIsCountedBeforeHeLooks,
              (sim::Options{.schedules = 3000})) {
  EngineOptions o = small_options();
  o.dirty_bytes = 24 << 10;
  o.object_overhead_bytes = 0;
  o.interval = {0};
  o.writer_recheck = Duration::max();
  auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
  SIM_CHECK(made.has_value());
  WritebackEngine& engine = **made;
  OwnerTarget target;
  WritebackContext* mine = engine.add_context(target, limits(ContextOptions::kNone, 8 << 10));
  WritebackContext* other = engine.add_context(target, {});
  {
    std::optional<DirtyGrant> owners = *engine.balance_dirty_pages(*mine, 4 << 10);
    std::optional<DirtyGrant> owners_rest = *engine.balance_dirty_pages(*mine, 4 << 10);
    std::optional<DirtyGrant> rest = *engine.balance_dirty_pages(*other, 12 << 10);
    std::optional<DirtyGrant> last = *engine.balance_dirty_pages(*other, 4 << 10);
    Thread waits("waits", [&] { SIM_CHECK(engine.balance_dirty_pages(*mine, 4 << 10).has_value()); });
    Thread others("others", [&] { SIM_CHECK(engine.balance_dirty_pages(*other, 4 << 10).has_value()); });
    while (engine.throttled_threads() == 0) yield_thread();
    owners.reset();
    waits.join();
    others.join();
  }
  SIM_CHECK(engine.charged_bytes() == 0);
  engine.stop();
}

// Fault 14: a writer is held up by what lies in another owner's context. Nothing is periodic; his own context
// has nothing to write.
TEST(OwnerLimit, WhoIsHeldUpByAnotherOwnersPagesHasThemWritten) {
  EngineOptions o = small_options();
  o.interval = {0};
  o.writer_recheck = Duration::max();
  o.background_bytes = o.dirty_bytes / 2;
  OwnerRig rig(o, 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(ContextOptions::kNone, 40 << 10));
  VirtualDevice device(*rig.driver, milliseconds(1));
  rig.target.device = &device;
  FakeObject& shared = rig.make(0);  // the first owner's; a task of the second writes into it
  for (int i = 0; i < 50; ++i) rig.dirty(shared, 4096);
  EXPECT_EQ(rig.objects_of(1), 0U);
  EXPECT_GT(shared.writes, 3U);
}

TEST(OwnerLimit, AFailingOwnerRefusesItsOwnWritersOnly) {
  OwnerRig rig(small_options(), 2);
  rig.owner[0] = rig.engine->add_context(rig.target, limits(20 << 10, 40 << 10));
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    if (object.context() != rig.owner[0]->id()) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  for (int i = 0; i < 7; ++i) rig.make_dirty(0);
  Result<DirtyGrant> refused = rig.engine->balance_dirty_pages(*rig.owner[0], 16 << 10);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Reason::kIo);
  for (int i = 0; i < 50; ++i) rig.make_dirty(1);
}

TEST(OwnerLimit, TheNumberOfContextsIsCapped) {
  EngineOptions o = small_options();
  o.max_contexts = 3;
  OwnerRig rig(o, 3);
  Error why;
  EXPECT_EQ(rig.engine->add_context(rig.target, {}, &why), nullptr);
  EXPECT_EQ(why.code, Reason::kBusy);
  EXPECT_EQ(rig.engine->add_context(rig.target, limits(0, 4096), &why), nullptr);
  EXPECT_EQ(why.code, Reason::kInvalidArgument) << "a limit of nothing";
  ASSERT_TRUE(rig.engine->remove_context(*rig.owner.back()).has_value());
  rig.owner.pop_back();
  EXPECT_NE(rig.engine->add_context(rig.target), nullptr);
}

// ---- re-filing ----

TEST(OwnerSwitchTest, AnOldObjectAmongYoungOnesIsWrittenByItsOwnAge) {
  OwnerRig rig(small_options(), 2);
  FakeObject& old = rig.make_dirty(0);
  rig.driver->run_for(seconds(25));
  for (int i = 0; i < 50; ++i) rig.make_dirty(1);
  ASSERT_EQ(rig.engine->switch_owner(old, *rig.owner[1]), WritebackEngine::Switched::kDone);
  EXPECT_EQ(old.dirtied_when(), VirtualRig::seconds_at(1000));
  EXPECT_EQ(old.context(), rig.owner[1]->id());
  EXPECT_EQ(rig.objects_of(0), 0U);
  EXPECT_EQ(rig.owner[1]->counts().dirty(), 51 * kEach);
  rig.driver->run_for(milliseconds(10'200));  // 30 s, a tick, a slot
  EXPECT_EQ(old.writes, 1U);
  EXPECT_EQ(rig.objects_of(1), 50U) << "the young ones were disturbed";
}

TEST(OwnerSwitchTest, FollowsTheObjectInEveryState) {
  OwnerRig rig(small_options(), 2);
  VirtualDevice device(*rig.driver, milliseconds(5));
  FakeObject& object = rig.make(0);
  using Switched = WritebackEngine::Switched;
  // clean
  EXPECT_EQ(rig.engine->switch_owner(object, *rig.owner[1]), Switched::kDone);
  EXPECT_EQ(rig.engine->switch_owner(object, *rig.owner[1]), Switched::kAlready);
  rig.dirty(object);
  EXPECT_EQ(rig.objects_of(1), 1U);
  // on the retry ladder
  bool fails = true;
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return fails ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  EXPECT_FALSE(rig.engine->fsync(object).has_value());
  ASSERT_EQ(object.state().phase(), DirtyPhase::kRetry);
  EXPECT_EQ(rig.engine->switch_owner(object, *rig.owner[0]), Switched::kDone);
  EXPECT_EQ(object.state().phase(), DirtyPhase::kListed);
  EXPECT_EQ(object.retry_step, 1U);
  // being written: not now
  fails = false;
  rig.target.device = &device;
  rig.engine->reclaim(*rig.owner[0], 4096);
  rig.driver->run_for(milliseconds(1));
  ASSERT_EQ(object.state().phase(), DirtyPhase::kWriting);
  EXPECT_EQ(rig.engine->switch_owner(object, *rig.owner[1]), Switched::kBusy);
  rig.driver->run_for(milliseconds(10));
  EXPECT_TRUE(object.state().clean());
  EXPECT_EQ(object.context(), rig.owner[0]->id());
}

// A target's wish at the end of a write: clean, and dirtied meanwhile.
TEST(OwnerSwitchTest, WhatWasWrittenMovesAtTheEndOfItsWrite) {
  struct Wishing : OwnerTarget {
    std::uint16_t to = kNoContext;
    void end_batch(Batch& batch) override {
      OwnerTarget::end_batch(batch);
      for (WriteSlot& slot : batch.slots()) slot.move_to = to;
    }
  };
  VirtualClock clock(VirtualRig::seconds_at(1000));
  EngineOptions o = small_options();
  o.clock = &clock;
  auto driver = std::make_unique<VirtualDriver>(clock);
  VirtualDriver& virtual_driver = *driver;
  Wishing target;
  auto engine = std::move(*WritebackEngine::make(o, std::move(driver)));
  WritebackContext* a = engine->add_context(target);
  WritebackContext* b = engine->add_context(target);
  target.to = b->id();
  VirtualDevice device(virtual_driver, milliseconds(5));
  target.device = &device;
  FakeObject clean;
  FakeObject redirtied;
  for (FakeObject* object : {&clean, &redirtied}) {
    object->set_context(a->id());
    ASSERT_TRUE(dirty_owned(*engine, target, *object, 4096));
  }
  engine->reclaim(*a, 1 << 20);
  virtual_driver.run_for(milliseconds(1));
  ASSERT_EQ(redirtied.state().phase(), DirtyPhase::kWriting);
  ASSERT_TRUE(dirty_owned(*engine, target, redirtied, 4096));
  const Instant stamp = clock.now();
  virtual_driver.run_for(milliseconds(10));
  EXPECT_EQ(clean.context(), b->id());
  EXPECT_TRUE(clean.state().clean());
  EXPECT_EQ(redirtied.context(), b->id());
  EXPECT_EQ(redirtied.state().phase(), DirtyPhase::kListed);
  EXPECT_EQ(redirtied.dirtied_when(), stamp);
  EXPECT_TRUE(a->counts().all_zero());
  EXPECT_EQ(b->counts().total(), kEach);
  target.to = kNoContext;
  ASSERT_TRUE(engine->sync(*b).has_value());
  EXPECT_TRUE(b->counts().all_zero());
  engine->stop();
}

// A million objects, in steps whose cost is counted.
TEST(OwnerSwitchTest, ManyMoveInBoundedStepsAndKeepTheirStamps) {
  EngineOptions o = small_options();
  o.dirty_bytes = 8ULL << 30;
  o.background_bytes = 4ULL << 30;
  o.interval = {0};
  OwnerRig rig(o, 2);
  const std::uint64_t objects = loop_length(100'000);
  std::vector<Instant> stamps;
  for (std::uint64_t i = 0; i < objects; ++i) {
    FakeObject& object = rig.make(0);
    rig.dirty(object, 0, kDirtyMetadata);
    stamps.push_back(object.dirtied_when());
    if (i % 16 == 0) rig.clock.advance(milliseconds(7));
  }
  const DirtyListStats from_before = rig.owner[0]->list().stats();
  OwnerSwitch all(*rig.owner[0], *rig.owner[1]);
  std::uint64_t steps = 0;
  std::uint64_t moved = 0;
  while (all.step()) {
    ++steps;
    ASSERT_LE(all.moved() - moved, OwnerSwitch::kStep);
    moved = all.moved();
  }
  EXPECT_EQ(all.moved(), objects);
  EXPECT_LE(steps, objects / OwnerSwitch::kStep + rig.owner[0]->list().stats().detached_buckets + 64);
  const DirtyListStats from = rig.owner[0]->list().stats();
  const DirtyListStats to = rig.owner[1]->list().stats();
  EXPECT_EQ(from.elements_under_lock - from_before.elements_under_lock + to.elements_under_lock, 2 * objects)
      << "two steps per object";
  EXPECT_LE(from.max_elements_per_hold, 32U);
  EXPECT_LE(to.max_elements_per_hold, 1U);
  for (std::uint64_t i = 0; i < objects; ++i) ASSERT_EQ(rig.objects[i]->dirtied_when(), stamps[i]) << i;
  EXPECT_EQ(rig.objects_of(1), objects);
  rig.owner[1]->list().check_invariants();
}

// Nothing is periodic, and the new owner's flusher sleeps beside other dirt: it is woken for their age.
TEST(OwnerSwitchTest, TimestampsAloneHaveTheirAgeWithTheNewOwner) {
  EngineOptions o = small_options();
  o.interval = {0};
  OwnerRig rig(o, 2);
  FakeObject& other = rig.make_dirty(1);
  FakeObject& touched = rig.make(0);
  rig.dirty(touched, 0, kDirtyTimestamps);
  rig.driver->run_for(seconds(3600));
  EXPECT_EQ(rig.engine->switch_owner(touched, *rig.owner[1]), WritebackEngine::Switched::kDone);
  rig.driver->run_for(seconds(12LL * 3600));
  EXPECT_EQ(touched.writes, 1U);
  EXPECT_FALSE(other.state().clean());
}

TEST(OwnerSwitchTest, EveryDesignTakesThemOver) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    OwnerRig rig(o, 2);
    for (int i = 0; i < 100; ++i) rig.make_dirty(0);
    OwnerSwitch all(*rig.owner[0], *rig.owner[1]);
    while (all.step()) {
    }
    EXPECT_EQ(rig.objects_of(0), 0U) << design;
    EXPECT_EQ(rig.objects_of(1), 100U) << design;
    rig.owner[1]->list().check_invariants();
    rig.driver->run_for(seconds(80));
    EXPECT_EQ(rig.objects_of(1), 0U) << design;
  }
}

// ---- sync ----

TEST(OwnerSync, CostsItsOwnDirtyObjectsOnly) {
  EngineOptions o = small_options();
  o.dirty_bytes = 64 << 20;
  o.background_bytes = 32 << 20;
  OwnerRig rig(o, 20);
  for (std::uint32_t of = 1; of < 20; ++of) {
    for (int i = 0; i < 200; ++i) rig.make_dirty(of);
  }
  std::vector<std::unique_ptr<FakeObject>> clean;
  for (int i = 0; i < 1000; ++i) rig.make(0);
  for (int i = 0; i < 10; ++i) rig.make_dirty(0);
  std::vector<std::uint64_t> before;
  for (WritebackContext* each : rig.owner) before.push_back(each->list().stats().elements_under_lock);
  ASSERT_TRUE(rig.engine->sync(*rig.owner[0]).has_value());
  EXPECT_EQ(rig.owner[0]->list().stats().elements_under_lock - before[0], 10U) << "each visited once";
  for (std::uint32_t of = 1; of < 20; ++of) {
    EXPECT_EQ(rig.owner[of]->list().stats().elements_under_lock, before[of]) << of;
    EXPECT_EQ(rig.objects_of(of), 200U);
  }
}

TEST(OwnerSync, WhatASyncCoversDoesNotLeaveBeforeItIsWritten) {
  EngineOptions o = small_options();
  o.batch_objects = 1;
  o.batches_in_flight = 1;
  OwnerRig rig(o, 2);
  VirtualDevice device(*rig.driver, milliseconds(5));
  rig.target.device = &device;
  for (int i = 0; i < 10; ++i) rig.make_dirty(0);
  rig.clock.advance(milliseconds(1));
  struct Disturber {
    OwnerRig& rig;
    std::uint64_t put_back = 0;
    std::uint64_t moved = 0;
    FakeObject* young = nullptr;
    WritebackEngine::Switched young_went = WritebackEngine::Switched::kBusy;
  } disturber{rig};
  rig.driver->post(
      rig.clock.now() + milliseconds(12),
      [](void* owner, std::uint64_t) {
        auto& d = *static_cast<Disturber*>(owner);
        d.young = &d.rig.make_dirty(0);  // after the sync's moment: free to go
        d.young_went = d.rig.engine->switch_owner(*d.young, *d.rig.owner[1]);
        OwnerSwitch all(*d.rig.owner[0], *d.rig.owner[1]);
        while (all.step()) {
        }
        d.put_back = all.put_back();
        d.moved = all.moved();
      },
      &disturber);
  ASSERT_TRUE(rig.engine->sync(*rig.owner[0]).has_value());
  EXPECT_GT(disturber.put_back, 0U);
  EXPECT_EQ(disturber.moved, 0U);
  EXPECT_EQ(disturber.young_went, WritebackEngine::Switched::kDone);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rig.objects[static_cast<std::size_t>(i)]->state().clean()) << i;
  EXPECT_FALSE(disturber.young->state().clean()) << "a sync of one owner wrote another's";
}

// What is to leave at the end of its write has been dirtied meanwhile, before the sync: it stays for that.
TEST(OwnerSync, WhatWasDirtiedInAWriteDoesNotLeaveAtItsEndUnderASync) {
  OwnerRig rig(small_options(), 2);
  VirtualDevice device(*rig.driver, milliseconds(1));
  rig.target.device = &device;
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    if (object.writes == 0) slot.move_to = rig.owner[1]->id();
    return WriteOutcome::kWritten;
  };
  FakeObject& object = rig.make_dirty(0);
  device.stalled = true;
  rig.engine->reclaim(*rig.owner[0], 1);
  rig.driver->run_for(milliseconds(10));
  rig.dirty(object);
  rig.driver->post(rig.clock.now() + seconds(1),
                   [](void* it, std::uint64_t) { static_cast<VirtualDevice*>(it)->resume(); }, &device);
  ASSERT_TRUE(rig.engine->sync(*rig.owner[0]).has_value());
  EXPECT_EQ(object.writes, 2U);
  EXPECT_TRUE(object.state().clean());
  EXPECT_EQ(rig.objects_of(1), 0U);
}

TEST(OwnerSync, OfAllFlushesTheTargetOnce) {
  OwnerRig rig(small_options(), 8);
  for (std::uint32_t of = 0; of < 8; ++of) rig.make_dirty(of);
  ASSERT_TRUE(rig.engine->sync_all(rig.target).has_value());
  for (const auto& object : rig.objects) EXPECT_TRUE(object->state().clean());
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 1U);
}

// ---- the end of an owner ----

TEST(OwnerRetire, LeavesWhatIsDirtyToItsHeir) {
  OwnerRig rig(small_options(), 3);
  VirtualDevice device(*rig.driver, milliseconds(5));
  rig.target.device = &device;
  FakeObject& clean = rig.make(0);
  FakeObject& failed = rig.make_dirty(0);
  FakeObject& writing = rig.make_dirty(0);
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return &object == &failed && failed.writes < 1 ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  EXPECT_FALSE(rig.engine->fsync(failed).has_value());
  const Instant listed_at = rig.clock.now();
  FakeObject& listed = rig.make_dirty(0);
  rig.engine->reclaim(*rig.owner[0], 4096);
  rig.driver->run_for(milliseconds(1));
  ASSERT_EQ(writing.state().phase(), DirtyPhase::kWriting);
  rig.dirty(writing);  // dirtied while it is written
  ASSERT_TRUE(rig.engine->retire_context(*rig.owner[0], *rig.owner[1]).has_value());
  EXPECT_TRUE(rig.owner[0]->counts().all_zero());
  EXPECT_EQ(rig.objects_of(1), 3U);
  for (FakeObject* object : {&failed, &writing, &listed}) {
    EXPECT_EQ(object->context(), rig.owner[1]->id());
    EXPECT_FALSE(object->state().clean());
  }
  EXPECT_EQ(listed.dirtied_when(), listed_at);
  // Who names it is led to the heir, and to the heir's heir.
  EXPECT_EQ(rig.engine->context(rig.owner[0]->id()), rig.owner[1]);
  ASSERT_TRUE(rig.engine->retire_context(*rig.owner[1], *rig.owner[2]).has_value());
  rig.dirty(clean);
  EXPECT_EQ(clean.context(), rig.owner[2]->id());
  EXPECT_EQ(rig.objects_of(2), 4U);
  ASSERT_TRUE(rig.engine->sync(*rig.owner[0]).has_value()) << "a sync of the retired is its heir's";
  EXPECT_EQ(rig.objects_of(2), 0U);
  EXPECT_EQ(rig.engine->remove_context(*rig.owner[2]).error().code, Reason::kBusy);
  rig.engine->forget_context(*rig.owner[0]);
  rig.engine->forget_context(*rig.owner[1]);
  rig.owner.erase(rig.owner.begin(), rig.owner.begin() + 2);
}

// ---- beside each other ----

struct SimOwners {
  explicit SimOwners(EngineOptions o) {
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    for (WritebackContext*& each : owner) each = engine->add_context(target);
  }
  ~SimOwners() { engine->stop(); }
  OwnerTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* owner[2];
};

EngineOptions sim_options() {
  EngineOptions o = unperiodic_options();
  o.dirty_bytes = 64 << 10;
  o.background_bytes = 2 << 10;
  o.counter_chunk_bytes = 0;
  o.batch_objects = 2;
  return o;
}

struct Versioned : FakeObject {
  Atomic<std::uint64_t> version{0}, durable{0};
};

// Re-filed all the time, beside writers and flushers; syncs of all miss nothing that was dirty before them,
// and nothing is left in any count.
SIM_TEST_WITH(OwnerSim, SyncOfAllMissesNothingThatChangesItsOwner, (sim::Options{.schedules = 300})) {
  SimOwners rig(sim_options());
  Versioned objects[3];
  for (Versioned& object : objects) object.set_context(rig.owner[0]->id());
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    auto& versioned = static_cast<Versioned&>(object);
    versioned.durable.store(versioned.version.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
    return WriteOutcome::kWritten;
  };
  Thread switcher("switcher", [&] {
    for (int i = 0; i < 6; ++i) {
      rig.engine->switch_owner(objects[i % 3], *rig.owner[(i + 1) % 2]);
      if (i == 3) {
        OwnerSwitch all(*rig.owner[0], *rig.owner[1]);
        while (all.step()) {
        }
      }
    }
  });
  Thread writer("writer", [&] {
    for (int i = 0; i < 4; ++i) SIM_CHECK(dirty_owned(*rig.engine, rig.target, objects[i % 3], 100));
  });
  for (int round = 0; round < 2; ++round) {
    Versioned& mine = objects[round];
    const std::uint64_t version = mine.version.fetch_add(1, std::memory_order_seq_cst) + 1;
    SIM_CHECK(dirty_owned(*rig.engine, rig.target, mine, 100));
    SIM_CHECK(rig.engine->sync_all(rig.target).has_value());
    SIM_CHECK(mine.durable.load(std::memory_order_seq_cst) >= version);
  }
  switcher.join();
  writer.join();
  SIM_CHECK(rig.engine->sync_all(rig.target).has_value());
  for (Versioned& object : objects) {
    SIM_CHECK(object.state().clean());
    SIM_CHECK(object.dirty_bytes.load(std::memory_order_seq_cst) == 0);
  }
  for (WritebackContext* each : rig.owner) {
    SIM_CHECK(each->counts().all_zero());
    each->list().check_invariants();
  }
}

// It moves from the context that is told last to the one that is told first: that one must not have begun.
SIM_TEST_WITH(OwnerSim, SyncOfAllBeginsNowhereBeforeAllAreTold, (sim::Options{.schedules = 1500})) {
  EngineOptions o = sim_options();
  o.background_bytes = o.dirty_bytes / 2;
  o.shards = 1;
  SimOwners rig(o);
  FakeObject object;
  object.set_context(rig.owner[1]->id());
  SIM_CHECK(dirty_owned(*rig.engine, rig.target, object, 100));
  Thread switcher("switcher", [&] { rig.engine->switch_owner(object, *rig.owner[0]); });
  SIM_CHECK(rig.engine->sync_all(rig.target).has_value());
  SIM_CHECK(object.writes == 1);
  switcher.join();
  SIM_CHECK(object.state().clean());
}

// The sync of one owner, called while an object is being re-filed: it has it, or it is the other's.
SIM_TEST_WITH(OwnerSim, SyncOfOneFindsWhatIsItsWhenItIsCalled, (sim::Options{.schedules = 300})) {
  EngineOptions o = sim_options();
  o.background_bytes = o.dirty_bytes / 2;
  SimOwners rig(o);
  Versioned objects[4];
  for (Versioned& object : objects) object.set_context(rig.owner[0]->id());
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    static_cast<Versioned&>(object).durable.store(1, std::memory_order_seq_cst);
    return WriteOutcome::kWritten;
  };
  for (Versioned& object : objects) SIM_CHECK(dirty_owned(*rig.engine, rig.target, object, 100));
  Thread switcher("switcher", [&] {
    OwnerSwitch all(*rig.owner[0], *rig.owner[1]);
    while (all.step()) {
    }
  });
  bool was_mine[4];
  SIM_CHECK(rig.engine->sync(*rig.owner[0]).has_value());
  for (int i = 0; i < 4; ++i) {
    // Written by the sync, or it has moved: nothing is left behind dirty.
    was_mine[i] = objects[i].context() == rig.owner[0]->id();
    SIM_CHECK(!was_mine[i] || objects[i].state().clean());
  }
  switcher.join();
  SIM_CHECK(rig.engine->sync(*rig.owner[1]).has_value());
  for (Versioned& object : objects) SIM_CHECK(object.state().clean());
  for (WritebackContext* each : rig.owner) SIM_CHECK(each->counts().all_zero());
}

// Cancel and free, and fsync, meet an object whose owner changes.
SIM_TEST_WITH(OwnerSim, CancelAndFsyncFollowAnObjectThatMoves, (sim::Options{.schedules = 300})) {
  SimOwners rig(sim_options());
  auto gone = std::make_unique<Versioned>();
  Versioned kept;
  for (Versioned* object : {gone.get(), &kept}) {
    object->set_context(rig.owner[0]->id());
    SIM_CHECK(dirty_owned(*rig.engine, rig.target, *object, 100));
  }
  Thread switcher("switcher", [&] {
    for (int i = 0; i < 2; ++i) {
      OwnerSwitch all(*rig.owner[i], *rig.owner[1 - i]);
      while (all.step()) {
      }
    }
  });
  SIM_CHECK(rig.engine->fsync(kept).has_value());
  SIM_CHECK(kept.writes > 0);
  cancel_owned(*rig.engine, rig.target, *gone);
  gone.reset();
  switcher.join();
  for (WritebackContext* each : rig.owner) {
    SIM_CHECK(each->counts().all_zero());
    each->list().check_invariants();
  }
}

// An owner ends beside a writer who goes on: what he dirties is the heir's.
SIM_TEST_WITH(OwnerSim, AnOwnerEndsBesideWriters, (sim::Options{.schedules = 300})) {
  SimOwners rig(sim_options());
  Versioned objects[3];
  for (Versioned& object : objects) object.set_context(rig.owner[0]->id());
  Thread writer("writer", [&] {
    for (int i = 0; i < 6; ++i) SIM_CHECK(dirty_owned(*rig.engine, rig.target, objects[i % 3], 100));
  });
  SIM_CHECK(rig.engine->retire_context(*rig.owner[0], *rig.owner[1]).has_value());
  writer.join();
  SIM_CHECK(rig.owner[0]->counts().objects() == 0);
  SIM_CHECK(rig.engine->sync(*rig.owner[0]).has_value());
  for (Versioned& object : objects) SIM_CHECK(object.state().clean());
  rig.engine->forget_context(*rig.owner[0]);
  SIM_CHECK(rig.owner[1]->counts().all_zero());
}

}  // namespace
}  // namespace tidewheel
