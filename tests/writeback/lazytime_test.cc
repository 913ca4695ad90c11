// Lazytime: what is dirty in its timestamps alone waits on a ring of its own, and no timestamp is lost there.
// Every design has the ring; random lives with it: dirty_list_life_test.cc, races: dirty_list_races_test.cc.
#include <set>

#include "base/rng.h"
#include "engine_rig.h"
#include "list_rig.h"
#include "owner_rig.h"
#include "writeback/lazy_ring.h"

namespace tidewheel {
namespace {

using TakeOut = DirtyList::TakeOut;

constexpr Duration kTwelveHours = seconds(12LL * 3600);

class Lazytime : public ::testing::TestWithParam<std::string> {};

TEST(LazyRing, IsExactToASixtyFourthOfTheMaximumAge) {
  for (const std::int64_t expire_s : {1LL, 10LL, 3600LL, 43'200LL}) {
    const WheelOptions options = lazy_wheel_options(seconds(expire_s));
    EXPECT_LE(options.slot.ns * 64, seconds(expire_s).ns);
    EXPECT_GT(options.slot.ns * 129, seconds(expire_s).ns) << "much finer than needed";
  }
  EXPECT_EQ(lazy_wheel_options(milliseconds(1)).slot.ns, 1LL << 20);
  EXPECT_EQ(lazy_wheel_options({INT64_MAX}).slot.ns, 1LL << 40);
  EXPECT_EQ(lazy_wheel_options({0}).slot.ns, 1LL << 40) << "never";
}

TEST_P(Lazytime, TimestampsAloneAreWrittenAtTheirMaximumAge) {
  ListRig rig(GetParam(), 1, lazytime_options());
  EXPECT_TRUE(rig.mark(0, kDirtyTimestamps));
  EXPECT_EQ(rig[0].state().phase(), DirtyPhase::kLazy);
  EXPECT_EQ(rig.list->oldest(), Instant::max()) << "no age to keep";
  EXPECT_FALSE(rig.list->any_listed(0, 1)) << "no tick to arm";
  EXPECT_TRUE(rig.list->any_lazy());
  const Instant due = rig.list->next_lazy();
  EXPECT_GE(due, rig.now + kTwelveHours);
  EXPECT_LE(due, rig.now + kTwelveHours + lazy_wheel_options(kTwelveHours).slot);
  rig.pass(kTwelveHours - nanoseconds(1));
  EXPECT_TRUE(rig.work(WorkKind::kPeriodic).empty());
  rig.now = due;
  EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 1U);
  EXPECT_TRUE(rig[0].state().clean());
  EXPECT_EQ(rig.list->next_lazy(), Instant::max());
}

TEST_P(Lazytime, OffItIsDirtAsAllOther) {
  ListRig rig(GetParam(), 1);
  EXPECT_TRUE(rig.mark(0, kDirtyTimestamps));
  EXPECT_EQ(rig[0].state().phase(), DirtyPhase::kListed);
  for (int i = 0; i < 40 && !rig[0].state().clean(); ++i) {  // syncer-slots turns by being asked
    rig.pass(seconds(1));
    rig.work(WorkKind::kPeriodic);
  }
  EXPECT_TRUE(rig[0].state().clean());
}

// The other dirt has an age of its own, and takes the timestamps along.
TEST_P(Lazytime, AnotherClassTakesTheTimestampsAlong) {
  ListRig rig(GetParam(), 1, lazytime_options());
  rig.mark(0, kDirtyTimestamps);
  rig.pass(seconds(3600));
  EXPECT_EQ(rig.list->mark(rig[0], kDirtyMetadata, rig.now), DirtyList::Marked::kPromoted);
  EXPECT_EQ(rig[0].state().phase(), DirtyPhase::kListed);
  EXPECT_EQ(rig[0].dirtied_when(), rig.now) << "or it would be written at the next tick";
  EXPECT_FALSE(rig.list->any_lazy());
  EXPECT_EQ(rig.list->stats().promoted, 1U);
  if (GetParam() != "syncer-slots") {
    rig.pass(seconds(29));
    EXPECT_TRUE(rig.work(WorkKind::kPeriodic).empty());
  }
  rig.pass(seconds(31));
  auto selection = rig.select(GetParam() != "syncer-slots" ? WorkKind::kPeriodic : WorkKind::kBackground);
  std::vector<WriteSlot> slots = rig.begin(*selection, 1);
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0].classes, kDirtyTimestamps | kDirtyMetadata);
  rig.end(slots[0], WriteOutcome::kWritten);
}

TEST_P(Lazytime, ASyncCoversWhatIsThereAndNothingYounger) {
  ListRig rig(GetParam(), 100, lazytime_options());
  for (std::size_t i = 0; i < 99; ++i) rig.mark(i, i % 2 == 0 ? kDirtyTimestamps : kDirtyData);
  rig.pass(seconds(1));
  auto selection = rig.select(WorkKind::kSync);
  rig.pass(seconds(1));
  rig.mark(99, kDirtyTimestamps);
  std::set<DirtyObject*> written;
  for (std::vector<WriteSlot> slots = rig.begin(*selection, 7); !slots.empty();
       slots = rig.begin(*selection, 7)) {
    for (WriteSlot& slot : slots) {
      written.insert(slot.object);
      rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
    }
  }
  EXPECT_EQ(written.size(), 99U);
  EXPECT_EQ(rig[99].state().phase(), DirtyPhase::kLazy);
}

// It must not slip out of the sync by being dirtied otherwise.
TEST_P(Lazytime, ASyncFindsWhatLeavesTheRingUnderIt) {
  ListRig rig(GetParam(), 3, lazytime_options());
  for (std::size_t i = 0; i < 3; ++i) rig.mark(i, kDirtyTimestamps);
  rig.pass(seconds(3600));
  auto selection = rig.select(WorkKind::kSync);
  rig.pass(seconds(1));
  rig.mark(1, kDirtyData);
  EXPECT_EQ(rig.list->claim_one(rig[2]), TakeOut::kTaken);
  std::vector<WriteSlot> slots = rig.begin(*selection, 3);
  ASSERT_EQ(slots.size(), 2U);
  for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
  rig.list->unclaim(rig[2], rig.now);
  slots = rig.begin(*selection, 3);
  ASSERT_EQ(slots.size(), 1U) << "what comes back from a batch";
  rig.end(slots[0], WriteOutcome::kWritten, WorkKind::kSync);
}

// Timestamps set again while it is written under a sync: before it began (the sync's), and after (nobody's
// before its age).
TEST_P(Lazytime, WhatIsTouchedAgainInAWriteIsTheSyncsIfItWasBeforeIt) {
  for (const bool before : {true, false}) {
    ListRig rig(GetParam(), 1, lazytime_options());
    rig.mark(0);
    std::vector<WriteSlot> slots;
    {
      auto background = rig.select(WorkKind::kBackground);
      slots = rig.begin(*background, 1);
    }
    std::unique_ptr<Selection> selection;
    for (const bool touch : {before, !before}) {
      rig.pass(seconds(1));
      touch ? static_cast<void>(rig.mark(0, kDirtyTimestamps))
            : static_cast<void>(selection = rig.select(WorkKind::kSync));
    }
    const auto ended = rig.end(slots.at(0), WriteOutcome::kWritten);
    EXPECT_EQ(ended.lazy, !before);
    EXPECT_EQ(rig.begin(*selection, 1).size(), before ? 1U : 0U);
    if (!before) continue;
    WriteSlot again = slots[0];
    again.classes = kDirtyTimestamps;
    rig.end(again, WriteOutcome::kWritten, WorkKind::kSync);
  }
}

TEST_P(Lazytime, AYoungerSyncFindsWhatAnOlderOneHasLeft) {
  for (const bool younger_has_looked : {false, true}) {
    ListRig rig(GetParam(), 40, lazytime_options());
    for (std::size_t i = 0; i < 40; ++i) rig.mark(i, kDirtyTimestamps);
    auto older = rig.select(WorkKind::kSync);
    rig.pass(seconds(1));
    auto younger = rig.select(WorkKind::kSync);
    std::size_t written = 0;
    if (younger_has_looked) {
      for (WriteSlot& slot : rig.begin(*younger, 4)) {
        rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
        ++written;
      }
      EXPECT_EQ(written, 4U) << "it waits for the older one's as well";
    }
    older.reset();
    rig.list->check_invariants();
    for (std::vector<WriteSlot> slots = rig.begin(*younger, 8); !slots.empty();
         slots = rig.begin(*younger, 8)) {
      for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
      written += slots.size();
    }
    EXPECT_EQ(written, 40U);
  }
}

TEST_P(Lazytime, WhatASyncHasLeftWaitsAsBefore) {
  ListRig rig(GetParam(), 4, lazytime_options());
  for (std::size_t i = 0; i < 4; ++i) rig.mark(i, kDirtyTimestamps);
  const Instant due = rig.list->next_lazy();
  rig.pass(seconds(1));
  {
    auto selection = rig.select(WorkKind::kSync);
    for (WriteSlot& slot : rig.begin(*selection, 1)) rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
  }
  EXPECT_TRUE(rig.work(WorkKind::kPeriodic).empty());
  EXPECT_EQ(rig.list->next_lazy(), due);
  rig.now = due;
  EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 3U);
}

TEST_P(Lazytime, BackgroundComesToTimestampsWhenNothingElseIsLeft) {
  ListRig rig(GetParam(), 20, lazytime_options());
  for (std::size_t i = 0; i < 20; ++i) {
    rig.mark(i, i % 2 == 0 ? kDirtyTimestamps : kDirtyData);
    rig.pass(seconds(10));
  }
  const std::vector<DirtyObject*> order = rig.work(WorkKind::kBackground, {}, 4);
  ASSERT_EQ(order.size(), 20U);
  for (std::size_t k = 0; k < 10; ++k) EXPECT_EQ(rig.index_of(order[k]) % 2, 1U) << k;
  // Oldest first, to a slot.
  EXPECT_EQ(std::set<DirtyObject*>(order.begin(), order.end()).size(), 20U);
}

TEST_P(Lazytime, ReclaimTakesTurnsBetweenTimestampsAndTheRest) {
  ListRig rig(GetParam(), 64, lazytime_options());
  for (std::size_t i = 0; i < 64; ++i) rig.mark(i, i % 2 == 0 ? kDirtyTimestamps : kDirtyData);
  const std::vector<DirtyObject*> order = rig.work(WorkKind::kReclaim, {}, 4, 16);
  std::size_t timestamps = 0;
  for (std::size_t k = 0; k < 16; ++k) timestamps += rig.index_of(order[k]) % 2 == 0 ? 1 : 0;
  EXPECT_EQ(timestamps, 8U);
}

TEST_P(Lazytime, CancelAndFsyncTakeItFromTheRing) {
  ListRig rig(GetParam(), 3, lazytime_options());
  for (std::size_t i = 0; i < 3; ++i) rig.mark(i, kDirtyTimestamps);
  EXPECT_EQ(rig.list->stats().lazy, 3U);
  EXPECT_EQ(rig.cancel(rig[0]), TakeOut::kTaken);
  EXPECT_TRUE(rig[0].state().clean());
  EXPECT_EQ(rig.list->claim_one(rig[1]), TakeOut::kTaken);
  WriteSlot slot;
  slot.object = &rig[1];
  ASSERT_TRUE(rig.list->begin_write(slot));
  EXPECT_EQ(slot.classes, kDirtyTimestamps);
  EXPECT_TRUE(rig.end(slot, WriteOutcome::kWritten, WorkKind::kFsync).clean);
  EXPECT_EQ(rig.list->listed(), 1U);
  EXPECT_EQ(rig.list->stats().lazy, 1U);
}

TEST_P(Lazytime, AFailedWriteOfTimestampsGoesTheWayOfAllFailures) {
  ListRig rig(GetParam(), 1, lazytime_options());
  rig.mark(0, kDirtyTimestamps);
  rig.pass(seconds(1));
  EXPECT_EQ(rig.work(WorkKind::kSync, [](DirtyObject&) { return WriteOutcome::kFailed; }, 8, 1).size(), 1U);
  EXPECT_EQ(rig[0].state().classes(), kDirtyTimestamps);
  EXPECT_FALSE(rig.list->any_lazy());
  rig.pass(seconds(2));
  EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 1U) << "tried again after its back-off";
}

TEST_P(Lazytime, SyncsAndPromotionsTouchOnlyTheirOwn) {
  ListRig rig(GetParam(), 20'000, lazytime_options());
  for (std::size_t i = 0; i < 20'000; ++i) rig.mark(i, kDirtyTimestamps);
  const DirtyListStats before = rig.list->stats();
  { auto nothing_claimed = rig.select(WorkKind::kSync); }
  for (std::size_t i = 0; i < 100; ++i) rig.mark(i * 7, kDirtyData);
  const DirtyListStats after = rig.list->stats();
  // tagged-list tags what it finds listed; nothing is, when the sync begins.
  EXPECT_LE(after.elements_under_lock - before.elements_under_lock, 400U);
  EXPECT_LE(after.max_elements_per_hold, 32U);
}

INSTANTIATE_TEST_SUITE_P(Designs, Lazytime, ::testing::ValuesIn(all_designs()),
                         [](const auto& test) { return design_test_name(test.param); });

TEST(LazytimeClock, SetBackItMakesThemDue) {
  ListRig rig("timer-wheel", 2, lazytime_options());
  rig.pass(seconds(7200));
  rig.mark(0, kDirtyTimestamps);
  rig.pass(seconds(-3600));
  EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 1U) << "an hour back: else 13 hours to wait";
  rig.mark(1, kDirtyTimestamps);
  EXPECT_EQ(rig[1].dirtied_when(), rig.now);
}

// What is on the ring was stamped in what is the future now: beyond the sync's moment, and still the sync's.
TEST(LazytimeClock, SetBackItHidesNothingFromASync) {
  ListRig rig("timer-wheel", 3, lazytime_options());
  rig.pass(seconds(7200));
  rig.mark(0, kDirtyTimestamps);
  rig.pass(seconds(-7000));
  rig.mark(1);  // the list has noticed
  rig.pass(seconds(1));
  auto selection = rig.select(WorkKind::kSync);
  EXPECT_LT(selection->moment(), rig[0].dirtied_when());
  rig.pass(seconds(1));
  rig.mark(0, kDirtyData);
  rig.mark(2, kDirtyTimestamps);
  rig.mark(2, kDirtyData);
  std::vector<WriteSlot> slots = rig.begin(*selection, 3);
  EXPECT_EQ(slots.size(), 2U) << "and not what came after it began";
  for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
  EXPECT_TRUE(rig[0].state().clean());
}

// ---- the engine ----

EngineOptions lazy_options() {
  EngineOptions o = small_options();
  o.lazytime = true;
  return o;
}

TEST(EngineLazytime, AnAccessTimeAloneWakesNobodyForTwelveHours) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = lazy_options();
    o.design = design;
    VirtualRig rig(o);
    FakeObject& object = rig.make();
    const Instant set_at = rig.clock.now();
    Instant written_at = Instant::max();
    rig.target.on_write = [&](FakeObject&, const WriteSlot& slot, WorkKind kind) {
      written_at = rig.clock.now();
      EXPECT_EQ(slot.classes, kDirtyTimestamps);
      EXPECT_EQ(kind, WorkKind::kPeriodic);
    };
    rig.dirty(object, 0, kDirtyTimestamps);
    rig.driver->run_for(seconds(1));
    const std::uint64_t wakeups = rig.wakeups();
    rig.driver->run_until(set_at + kTwelveHours - seconds(1));
    EXPECT_EQ(rig.wakeups(), wakeups) << design;
    EXPECT_EQ(written_at, Instant::max()) << design;
    rig.driver->run_for(lazy_wheel_options(kTwelveHours).slot + seconds(2));
    ASSERT_NE(written_at, Instant::max()) << design;
    EXPECT_GE(written_at, set_at + kTwelveHours) << design;
    EXPECT_TRUE(object.state().clean());
    EXPECT_EQ(rig.engine->stats().oldest_age_max.ns, 0) << "not an age that was promised";
    const std::uint64_t after = rig.wakeups();
    EXPECT_LE(after, wakeups + 6) << design << ": it looked again and again before the slot had ended";
    rig.driver->run_for(seconds(48 * 3600));
    EXPECT_LE(rig.wakeups(), after + 2) << design;
  }
}

TEST(EngineLazytime, DataTakesThemAlongByItsOwnAge) {
  VirtualRig rig(lazy_options());
  FakeObject& object = rig.make();
  std::uint32_t classes = 0;
  Instant written_at = Instant::max();
  rig.target.on_write = [&](FakeObject&, const WriteSlot& slot, WorkKind) {
    classes |= slot.classes;
    written_at = std::min(written_at, rig.clock.now());
  };
  rig.dirty(object, 0, kDirtyTimestamps);
  rig.driver->run_for(seconds(3600));
  EXPECT_EQ(classes, 0U);
  const Instant dirtied = rig.clock.now();
  rig.dirty(object, 4096, kDirtyData);
  EXPECT_EQ(rig.dirty_objects(), 1U) << "it is one object still";
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(classes, kDirtyTimestamps | kDirtyData);
  EXPECT_GE(written_at, dirtied + seconds(30));
  EXPECT_LE(written_at, dirtied + seconds(36));
}

TEST(EngineLazytime, SyncFsyncFreezeAndTheEndWriteThem) {
  VirtualRig rig(lazy_options());
  FakeObject& synced = rig.make();
  rig.dirty(synced, 0, kDirtyTimestamps);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(synced.writes, 1U);
  FakeObject& fsynced = rig.make();
  FakeObject& other = rig.make();
  rig.dirty(fsynced, 0, kDirtyTimestamps);
  rig.dirty(other, 0, kDirtyTimestamps);
  EXPECT_TRUE(rig.engine->fsync(fsynced).has_value());
  EXPECT_EQ(fsynced.writes, 1U);
  EXPECT_EQ(other.writes, 0U);
  EXPECT_TRUE(rig.engine->freeze().has_value());
  EXPECT_EQ(other.writes, 1U);
  rig.engine->thaw();
  FakeTarget second;
  WritebackContext* context = rig.engine->add_context(second);
  FakeObject last;
  last.set_context(context->id());
  rig.engine->mark_dirty(last, kDirtyTimestamps, rig.clock.now());
  EXPECT_TRUE(rig.engine->remove_context(*context).has_value());
  EXPECT_EQ(last.writes, 1U) << "unmounted";
}

// Neither interval nor expire has to do with them; 0 for their own: never, and nobody spins.
TEST(EngineLazytime, ZeroTurnsEachIntervalOffByItself) {
  for (const bool never : {false, true}) {
    EngineOptions o = lazy_options();
    o.interval = {0};
    o.expire = {0};
    o.writer_recheck = Duration::max();
    o.lazytime_expire = never ? Duration{0} : seconds(3600);
    VirtualRig rig(o);
    FakeObject& object = rig.make();
    FakeObject& data = rig.make();
    rig.dirty(object, 0, kDirtyTimestamps);
    rig.dirty(data, 4096);
    const Instant end = rig.clock.now() + seconds(3600 * 1000);
    std::uint64_t turns = 0;
    while (turns < 200 && rig.driver->run_one(end)) ++turns;
    EXPECT_LT(turns, 12U) << "it spins";
    EXPECT_EQ(object.writes, never ? 0U : 1U);
    EXPECT_EQ(data.writes, 0U);
  }
}

// The limit is used up by what is dirtied again while it is written (nothing of that can be claimed) and by
// timestamps that came after background work had found nothing: a writer that waits is served by these,
// though the write never ends.
TEST(EngineLazytime, TheyAreFoundThoughBackgroundHadFoundNothing) {
  for (const Duration expire : {Duration{0}, seconds(3600)}) {
    EngineOptions o = lazy_options();
    o.lazytime_expire = expire;
    o.interval = {0};
    o.writer_recheck = Duration::max();
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    FakeObject& stuck = rig.make();
    rig.dirty(stuck, 64 << 10);
    device.stalled = true;
    rig.engine->reclaim(*rig.context, 1);
    rig.driver->run_for(seconds(1));
    ASSERT_EQ(device.in_flight, 1U);
    device.stalled = false;
    rig.dirty(rig.make(), 0, kDirtyTimestamps);  // so that flushers have been told of timestamps before
    rig.driver->run_for(seconds(1));
    rig.dirty(stuck, 1500 << 10);
    rig.driver->run_for(seconds(1));
    ASSERT_EQ(rig.context->list().listed(), 0U);
    ASSERT_GT(rig.engine->background_excess_bytes(), 0U);
    for (int i = 0; i < 3000; ++i) {
      rig.engine->mark_dirty(rig.make(static_cast<std::uint64_t>(i)), kDirtyTimestamps, rig.clock.now());
    }
    ThrottleWaiter waiter;
    bool served = false;
    waiter.owner = &served;
    waiter.wake = [](ThrottleWaiter& woken) { *static_cast<bool*>(woken.owner) = true; };
    ASSERT_FALSE(rig.engine->begin_balance(*rig.context, 64 << 10, waiter)) << "there is room";
    rig.driver->run_for(seconds(10));
    EXPECT_TRUE(served) << "the timestamps are not written";
    if (!served) rig.engine->interrupt_waiters();
    EXPECT_EQ(rig.engine->finish_balance(*rig.context, waiter).has_value(), served);
    device.resume();
    rig.driver->run_for(seconds(1));
  }
}

// Due, and in the set of a sync that waits for the device: not to be had, and not looked for without a pause.
TEST(EngineLazytime, WhatASyncHasTakenIsNotLookedForAgainAndAgain) {
  EngineOptions o = lazy_options();
  o.flushers = 2;
  o.batch_objects = 4;
  o.object_overhead_bytes = 64;
  o.lazytime_expire = seconds(10);
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(2));
  rig.target.device = &device;
  for (int i = 0; i < 100; ++i) rig.dirty(rig.make(), 0, kDirtyTimestamps);
  rig.driver->run_for(seconds(5));
  device.stalled = true;
  EXPECT_EQ(rig.engine->sync(*rig.context, nullptr, rig.clock.now() + seconds(1)).error().code,
            Reason::kTimedOut);
  const Instant end = rig.clock.now() + seconds(20);
  std::uint64_t turns = 0;
  while (turns < 20'000 && rig.driver->run_one(end)) ++turns;
  EXPECT_LT(turns, 8000U) << "it spins";
  device.resume();
  rig.driver->run_for(seconds(1));
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

// The same, of flushers whose background work finds nothing to claim: with three of them, one has the sync
// and the two others must not wake each other for ever.
TEST(EngineLazytime, StarvedFlushersDoNotWakeEachOtherForWhatASyncHasTaken) {
  for (const std::uint32_t classes : {kDirtyTimestamps, kDirtyMetadata}) {
    EngineOptions o = lazy_options();
    o.flushers = 3;
    o.batch_objects = 4;
    o.background_bytes = 4096;
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    device.stalled = true;
    for (int i = 0; i < 100; ++i) rig.engine->mark_dirty(rig.make(), classes, rig.clock.now());
    EXPECT_EQ(rig.engine->sync(*rig.context, nullptr, rig.clock.now()).error().code, Reason::kTimedOut);
    const Instant end = rig.clock.now() + seconds(1);
    std::uint64_t turns = 0;
    while (turns < 50'000 && rig.driver->run_one(end)) ++turns;
    EXPECT_LT(turns, 20'000U) << "they spin: classes " << classes;
    device.resume();
    rig.driver->run_for(seconds(1));
    EXPECT_EQ(rig.dirty_objects(), 0U);
  }
}

// Each holds some of the limit: over the threshold they are written, and a writer is never held up by them
// for good.
TEST(EngineLazytime, AFloodOfThemMakesRoomForAWriter) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = lazy_options();
    o.design = design;
    o.writer_recheck = Duration::max();
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    for (int i = 0; i < 8000; ++i) {
      rig.engine->mark_dirty(rig.make(static_cast<std::uint64_t>(i)), kDirtyTimestamps, rig.clock.now());
    }
    EXPECT_GT(rig.engine->dirty_bytes(), rig.engine->options().dirty_bytes);
    rig.dirty(rig.make(), 64 << 10);
    EXPECT_LE(rig.engine->dirty_and_writeback_bytes(), rig.engine->options().dirty_bytes) << design;
    rig.driver->run_for(seconds(1));
    EXPECT_LE(rig.engine->dirty_bytes(), rig.engine->options().background_bytes) << design;
    EXPECT_GE(rig.context->list().stats().lazy, 500U) << design << ": no more than that is written";
  }
}

TEST(EngineLazytime, AnObjectKeepsItsStampWhenItChangesOwner) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = lazy_options();
    o.design = design;
    OwnerRig rig(o, 2);
    FakeObject object;
    object.set_context(rig.owner[0]->id());
    const Instant set_at = rig.clock.now();
    rig.engine->mark_dirty(object, kDirtyTimestamps, set_at);
    rig.driver->run_for(seconds(11 * 3600));
    EXPECT_EQ(rig.engine->switch_owner(object, *rig.owner[1]), WritebackEngine::Switched::kDone);
    EXPECT_EQ(object.state().phase(), DirtyPhase::kLazy);
    EXPECT_EQ(object.dirtied_when(), set_at) << design;
    rig.driver->run_until(set_at + kTwelveHours - seconds(1));
    EXPECT_EQ(object.writes, 0U) << design;
    rig.driver->run_for(seconds(600));
    EXPECT_EQ(object.writes, 1U) << design;
  }
}

// Reclaim without end that the rest alone could serve comes to them too.
TEST(EngineLazytime, ReclaimReachesThemBesideEndlessDirt) {
  VirtualRig rig(lazy_options());
  VirtualDevice device(*rig.driver, milliseconds(2));
  rig.target.device = &device;
  FakeObject& lazy = rig.make();
  rig.engine->mark_dirty(lazy, kDirtyTimestamps, rig.clock.now());
  std::vector<FakeObject*> objects;
  for (int i = 0; i < 64; ++i) objects.push_back(&rig.make());
  for (int round = 0; round < 40 && lazy.writes == 0; ++round) {
    for (FakeObject* object : objects) {
      if (object->state().clean()) rig.dirty(*object, 4096);
    }
    rig.engine->reclaim(*rig.context, 32 << 10);
    rig.driver->run_for(milliseconds(10));
  }
  EXPECT_EQ(lazy.writes, 1U);
}

// ---- no timestamp is lost, and none is late: random lives in virtual time ----

struct Touched : FakeObject {
  std::uint64_t version = 0;         // of its timestamps
  std::uint64_t version_begun = 0;   // that a write has begun with
  std::uint64_t version_written = 0;
  Instant since = Instant::max();    // first timestamp that no write has begun with
  bool failed = false;
};

class LazyRun {
 public:
  LazyRun(const char* design, std::uint64_t seed)
      : rng_(seed), rig_(options(design), kOwners), device_(*rig_.driver, milliseconds(3), 20 << 20) {
    rig_.target.device = &device_;
    rig_.target.decide = [this](FakeObject& object, WriteSlot& slot) {
      auto& touched = static_cast<Touched&>(object);
      slot.error.code = Reason::kIo;
      const bool fails = fail_some_ && rng_.below(40) == 0;
      if ((slot.classes & kDirtyTimestamps) != 0) {
        if (!touched.failed) oldest_ = std::max(oldest_, rig_.clock.now() - touched.since);
        touched.version_begun = touched.version;
        touched.since = fails ? touched.since : Instant::max();
        touched.failed = fails;
      }
      return fails ? WriteOutcome::kFailed : WriteOutcome::kWritten;
    };
    rig_.target.on_ended = [](FakeObject& object) {
      auto& touched = static_cast<Touched&>(object);
      touched.version_written = touched.version_begun;
    };
    for (std::uint32_t i = 0; i < kObjects; ++i) {
      auto object = std::make_unique<Touched>();
      object->set_context(rig_.owner[i % kOwners]->id());
      objects_.push_back(object.get());
      rig_.objects.push_back(std::move(object));
    }
  }

  void step() {
    Touched& object = *objects_[rng_.below(kObjects)];
    WritebackContext& owner = *rig_.owner[rng_.below(kOwners)];
    const std::uint64_t what = rng_.below(1000);
    if (what < 600) {
      ++object.version;
      if (object.since == Instant::max()) object.since = rig_.clock.now();
      rig_.engine->mark_dirty(object, kDirtyTimestamps, rig_.clock.now());
      ++touches;
    } else if (what < 700) {
      TW_ASSERT(dirty_owned(*rig_.engine, rig_.target, object, 512), "the rig's writer");
    } else if (what < 740) {
      rig_.engine->switch_owner(object, owner);
    } else if (what < 745) {
      (void)rig_.engine->fsync(object);
    } else if (what < 747) {
      (void)rig_.engine->sync(owner);
    } else if (what < 749) {
      rig_.engine->reclaim(owner, rng_.below(16 << 10));
    }
    const std::uint64_t pause_ns = rng_.below(static_cast<std::uint64_t>(2 * pace.ns));
    rig_.driver->run_for(Duration{static_cast<std::int64_t>(pause_ns)});
  }

  void end() {
    fail_some_ = false;
    EXPECT_TRUE(rig_.engine->sync_all(rig_.target).has_value());
    for (const Touched* object : objects_) {
      EXPECT_EQ(object->version_written, object->version) << "a timestamp is lost";
      EXPECT_TRUE(object->state().clean());
    }
  }

  static constexpr Duration kExpire = seconds(600);
  Duration oldest() const { return oldest_; }
  Duration passed() const { return rig_.clock.now() - VirtualRig::seconds_at(1000); }
  Duration pace = seconds(1);
  std::uint64_t touches = 0;

 private:
  static constexpr std::uint32_t kOwners = 3;
  static constexpr std::uint32_t kObjects = 2000;
  static EngineOptions options(const char* design) {
    EngineOptions o = lazy_options();
    o.design = design;
    o.lazytime_expire = kExpire;
    o.dirty_bytes = 8 << 20;
    o.background_bytes = 4 << 20;
    return o;
  }

  Rng rng_;
  OwnerRig rig_;
  VirtualDevice device_;
  std::vector<Touched*> objects_;
  Duration oldest_{0};
  bool fail_some_ = true;
};

// Written for its age on the ring; or, when other dirt has taken it off just before, by that dirt's.
TEST(EngineLazytime, NoTimestampIsLostOrLate) {
  const EngineOptions defaults;
  const Duration slot{1LL << 27};
  const Duration promise = LazyRun::kExpire + lazy_wheel_options(LazyRun::kExpire).slot + defaults.expire +
                           defaults.interval + slot + milliseconds(1500);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    LazyRun run("timer-wheel", seed);
    run.pace = seed % 2 == 0 ? seconds(1) : milliseconds(50);
    for (std::uint64_t i = 0, n = loop_length(20'000); i < n; ++i) {
      run.step();
      ASSERT_LE(run.oldest().ns, promise.ns) << "after " << i << " steps";
    }
    run.end();
    if (seed % 2 == 0) {
      EXPECT_GE(run.oldest().ns, LazyRun::kExpire.ns) << "nothing has waited for its age";
    }
    std::printf("[          ] %llu timestamps in %lld s: oldest at its write %.1f s of %.1f\n",
                static_cast<unsigned long long>(run.touches),
                static_cast<long long>(run.passed().ns / 1'000'000'000),
                static_cast<double>(run.oldest().ns) / 1e9, static_cast<double>(promise.ns) / 1e9);
  }
}

TEST(EngineLazytime, NoDesignLosesATimestamp) {
  for (const char* design : kAllDesigns) {
    SCOPED_TRACE(design);
    LazyRun run(design, 7);
    run.pace = milliseconds(200);
    for (std::uint64_t i = 0, n = loop_length(8000); i < n; ++i) run.step();
    run.end();
  }
}

}  // namespace
}  // namespace tidewheel
