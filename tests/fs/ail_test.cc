// The AIL's order, tail, cursors and pusher, one step at a time.
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "tests/fs/ail_rig.h"

namespace tidewheel {
namespace {

// ---- order and tail ----

TEST_F(AilTest, KeepsTheOrderOfLsnsAndOfArrivalAmongEquals) {
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 20));
  MockItem& d = add(Lsn::make(1, 40));
  MockItem& c = add(Lsn::make(1, 20));
  EXPECT_EQ(order(), (std::vector<const LogItem*>{&a, &b, &c, &d}));
  ail.check_invariants();
}

TEST_F(AilTest, ComparesAcrossTheWrapByCycle) {
  MockItem& first = add(Lsn::make(1, 900));
  MockItem& late = add(Lsn::make(2, 1));
  MockItem& early = add(Lsn::make(1, 1023));
  EXPECT_EQ(order(), (std::vector<const LogItem*>{&first, &early, &late}));
  EXPECT_EQ(log_distance_bytes(Lsn::make(1, 1023), Lsn::make(2, 1), kLogSectors), 2U * kLogSectorBytes);
  EXPECT_EQ(log_advance(Lsn::make(1, 1023), 2, kLogSectors), Lsn::make(2, 1));
}

TEST_F(AilTest, MovesAnItemOnlyForward) {
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 20));
  insert(b, Lsn::make(1, 15));
  EXPECT_EQ(ail.lsn_of(b), Lsn::make(1, 20));
  insert(a, Lsn::make(1, 30));
  EXPECT_EQ(ail.lsn_of(a), Lsn::make(1, 30));
  EXPECT_EQ(order(), (std::vector<const LogItem*>{&b, &a}));
  EXPECT_EQ(ail.stats().moves, 1U);
}

TEST_F(AilTest, TailIsTheFirstItemElseTheNewestCheckpoint) {
  EXPECT_TRUE(ail.tail_lsn().none());
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 20));
  EXPECT_EQ(ail.tail_lsn(), Lsn::make(1, 10));
  ail.checkpoint_stable(Lsn::make(1, 50));
  EXPECT_EQ(ail.tail_lsn(), Lsn::make(1, 10));
  remove(a);
  EXPECT_EQ(ail.tail_lsn(), Lsn::make(1, 20));
  remove(b);
  EXPECT_EQ(ail.tail_lsn(), Lsn::make(1, 50));
  EXPECT_TRUE(ail.empty());
}

TEST_F(AilTest, TellsOnlyWhenTheTailHasMoved) {
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 20));
  MockItem& c = add(Lsn::make(1, 20));
  const std::uint32_t before = log.tail_moves;
  remove(c);
  EXPECT_EQ(log.tail_moves, before);
  remove(a);
  EXPECT_EQ(log.tail_moves, before + 1);
  remove(a);
  EXPECT_EQ(log.tail_moves, before + 1) << "removing twice is passed over";
  insert(b, Lsn::make(1, 25));
  EXPECT_EQ(log.tail_moves, before + 2) << "a relogged first item moves the tail as well";
}

// The newest checkpoint's own space can be had now, although the tail is its start as before.
TEST_F(AilTest, TellsWhenItIsEmptiedThoughTheTailStays) {
  MockItem& a = add(Lsn::make(1, 10));
  const std::uint32_t before = log.tail_moves;
  remove(a);
  EXPECT_EQ(ail.tail_lsn(), Lsn::make(1, 10));
  EXPECT_EQ(log.tail_moves, before + 1);
}

TEST_F(AilTest, LeavesAnItemThatWasReloggedDuringItsWrite) {
  MockItem& a = add(Lsn::make(1, 10));
  insert(a, Lsn::make(1, 30));
  EXPECT_FALSE(ail.remove_if_unchanged(a, Lsn::make(1, 10)));
  EXPECT_EQ(ail.lsn_of(a), Lsn::make(1, 30));
  EXPECT_TRUE(ail.remove_if_unchanged(a, Lsn::make(1, 30)));
  EXPECT_TRUE(ail.empty());
}

TEST_F(AilTest, HandlesManyItemsOfOneLsnABatchAtATimeWithoutSearching) {
  std::vector<LogItem*> all;
  for (int i = 0; i < 100'000; ++i) all.push_back(&items.emplace_back());
  newest = Lsn::make(1, 10);
  ail.checkpoint_stable(newest);
  ail.insert(all, newest);
  ail.remove(all);
  EXPECT_EQ(ail.stats().inserts, 100'000U);
  EXPECT_EQ(ail.stats().insert_steps, 0U);
  EXPECT_EQ(ail.stats().max_per_hold, Ail::kItemsPerHold);
}

TEST_F(AilTest, AgreesWithAMultimapOverRandomOperations) {
  const std::uint64_t seed = 7;
  Rng rng(seed);
  SCOPED_TRACE(seed);
  std::multimap<Lsn, const MockItem*> model;
  std::vector<MockItem*> all;
  for (int i = 0; i < 200; ++i) all.push_back(&items.emplace_back());
  const auto find = [&](const MockItem* item) {
    return std::find_if(model.begin(), model.end(), [&](const auto& entry) { return entry.second == item; });
  };
  Lsn now = Lsn::make(1, 1);
  for (int step = 0; step < 20'000; ++step) {
    MockItem& item = *all[rng.below(all.size())];
    if (rng.below(3) != 0) {
      // Mostly at the young end; now and then what committed() kept, which is not before the tail.
      if (rng.below(4) == 0) now = log_advance(now, 1 + rng.below(40), kLogSectors);
      Lsn lsn = now;
      if (rng.below(5) == 0 && !model.empty()) {
        lsn = std::next(model.begin(), static_cast<std::ptrdiff_t>(rng.below(model.size())))->first;
      }
      const auto old = find(&item);
      insert(item, lsn);
      if (old != model.end() && old->first >= lsn) continue;
      if (old != model.end()) model.erase(old);
      model.emplace(lsn, &item);
    } else {
      remove(item);
      if (const auto old = find(&item); old != model.end()) model.erase(old);
    }
    ASSERT_EQ(ail.tail_lsn(), model.empty() ? newest : model.begin()->first);
  }
  ail.check_invariants();
  std::vector<const LogItem*> expected;
  for (const auto& [lsn, item] : model) expected.push_back(item);
  EXPECT_EQ(order(), expected);
}

TEST_F(AilTest, CursorGoesOnWhenItsItemLeavesOrMoves) {
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 20));
  MockItem& c = add(Lsn::make(1, 30));
  Ail::Cursor cursor(ail);
  std::vector<const LogItem*> seen;
  const auto see = [&](LogItem& item) { seen.push_back(&item); };
  ASSERT_TRUE(ail.visit_next(cursor, see));
  remove(b);            // where the cursor stands
  insert(c, Lsn::make(1, 40));   // where it stands now
  ASSERT_FALSE(ail.visit_next(cursor, see)) << "c stood last, and moved while the cursor was on it";
  EXPECT_EQ(seen, (std::vector<const LogItem*>{&a}));
  Ail::Cursor again(ail);
  MockItem& d = add(Lsn::make(1, 50));
  while (ail.visit_next(again, see)) {
  }
  EXPECT_EQ(seen, (std::vector<const LogItem*>{&a, &a, &c, &d}));
}

TEST_F(AilTest, RefusesToMoveTheTailBack) {
  add(Lsn::make(1, 20));
  MockItem& item = items.emplace_back();
  LogItem* const one[] = {&item};
  EXPECT_DEATH(ail.insert(one, Lsn::make(1, 10)), "tail moves back");
}

TEST_F(AilTest, RefusesItemsOfACheckpointThatIsNotStable) {
  MockItem& item = items.emplace_back();
  LogItem* const one[] = {&item};
  EXPECT_DEATH(ail.insert(one, Lsn::make(1, 10)), "before their checkpoint is stable");
}

// ---- the target ----

TEST_F(AilTest, IsIdleWhileAQuarterOfTheLogIsFree) {
  MockItem& a = add(Lsn::make(1, 0));
  add(Lsn::make(1, 768));  // 768 of 1,024 blocks in use: just a quarter free
  EXPECT_EQ(ail.walk(), Duration::max());
  EXPECT_EQ(a.pushes, 0U);
  add(Lsn::make(1, 769));
  EXPECT_EQ(ail.walk(), Ail::kTargetReachedPause);
  EXPECT_EQ(a.pushes, 1U);
}

TEST_F(AilTest, PushesTheItemThatLiesAtTheTarget) {
  MockItem& first = add(Lsn::make(1, 0));
  MockItem& at = add(Lsn::make(1, 10));
  MockItem& after = add(Lsn::make(1, 11));
  add(Lsn::make(1, 778));  // 778 in use, 246 free: 10 blocks more are to be had
  ail.walk();
  EXPECT_EQ(first.pushes, 1U);
  EXPECT_EQ(at.pushes, 1U);
  EXPECT_EQ(after.pushes, 0U);
}

TEST_F(AilTest, NeverLowersItsTarget) {
  add(Lsn::make(1, 0));
  MockItem& b = add(Lsn::make(1, 100));
  add(Lsn::make(1, 800));
  MockItem& young = add(Lsn::make(1, 900));
  ail.walk();  // 132 sectors are to be freed: the target is sector 132
  EXPECT_EQ(b.pushes, 1U);
  remove(young);  // 32 would do now, yet what was aimed at stays aimed at
  ail.walk();
  EXPECT_EQ(b.pushes, 2U);
}

TEST_F(AilTest, PushesAllOnceWhenAsked) {
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 20));
  ail.push_all();
  MockItem& later = add(Lsn::make(1, 30));
  EXPECT_EQ(ail.walk(), Ail::kTargetReachedPause);
  EXPECT_EQ(a.pushes + b.pushes, 2U);
  EXPECT_EQ(later.pushes, 0U);
}

TEST_F(AilTest, PushesUpToTheTailThatSleepersNeed) {
  MockItem& a = add(Lsn::make(1, 0));
  MockItem& b = add(Lsn::make(1, 100));
  MockItem& c = add(Lsn::make(1, 400));
  EXPECT_EQ(ail.walk(), Duration::max());
  ail.set_needed_tail(Lsn::make(1, 399));
  ail.walk();
  EXPECT_EQ(a.pushes + b.pushes, 2U);
  EXPECT_EQ(c.pushes, 0U);
}

TEST_F(AilTest, NeedBeyondEverythingIsEverything) {
  MockItem& a = add(Lsn::make(1, 0));
  MockItem& b = add(Lsn::make(1, 100));
  ail.set_needed_tail(kNeverLsn);
  ail.walk();
  EXPECT_EQ(a.pushes + b.pushes, 2U);
}

// ---- a pass ----

TEST_F(AilTest, PassesWhatIsBeingWrittenWithoutACall) {
  MockItem& a = add(Lsn::make(1, 10));
  a.set(LogItem::kFlushing);
  ail.push_all();
  ail.walk();
  EXPECT_EQ(a.pushes, 0U);
  EXPECT_EQ(ail.stats().flushing, 1U);
  a.clear(LogItem::kFlushing);
  ail.walk();
  EXPECT_EQ(a.pushes, 1U);
}

TEST_F(AilTest, BacksOffToTheHeadWhenMostAreStuck) {
  for (int i = 0; i < 300; ++i) add(Lsn::make(1, 10), PushResult::kLocked);
  ail.push_all();
  EXPECT_EQ(ail.walk(), Ail::kStuckPause);
  EXPECT_EQ(ail.stats().locked, Ail::kStuckLimit + 1U) << "a pass ends when so many are stuck";
  EXPECT_EQ(ail.walk(), Ail::kStuckPause);
  EXPECT_EQ(items.front().pushes, 2U) << "the next walk begins at the head";
  EXPECT_EQ(items.back().pushes, 0U);
}

TEST_F(AilTest, GoesOnWhereItWasWhenSomeAreStuck) {
  for (int i = 0; i < 2000; ++i) {
    const auto block = static_cast<std::uint32_t>(10 + i / 100);
    add(Lsn::make(1, block), i % 5 == 0 ? PushResult::kLocked : PushResult::kPushed);
  }
  ail.push_all();
  EXPECT_EQ(ail.walk(), Duration{0});
  EXPECT_EQ(ail.walk(), Duration{0});
  EXPECT_EQ(ail.stats().walks, 1U);
  EXPECT_EQ(ail.stats().passes, 2U);
  for (const MockItem& item : items) EXPECT_LE(item.pushes, 1U);
}

TEST_F(AilTest, EndsALongPassWhereTheLsnChanges) {
  for (int i = 0; i < 1500; ++i) add(Lsn::make(1, 10));
  for (int i = 0; i < 500; ++i) add(Lsn::make(1, 11));
  for (int i = 0; i < 500; ++i) add(Lsn::make(1, 12));
  ail.push_all();
  EXPECT_EQ(ail.walk(), Duration{0});
  EXPECT_EQ(ail.stats().pushed, 1500U);
  EXPECT_EQ(ail.walk(), Ail::kTargetReachedPause);
  EXPECT_EQ(ail.stats().pushed, 2500U);
}

TEST_F(AilTest, DoesNotTouchAnItemThatPushLetGo) {
  auto* doomed = new MockItem;
  insert(*doomed, Lsn::make(1, 10));
  MockItem& next = add(Lsn::make(1, 10));
  doomed->on_push = [this](MockItem& self, PushScope& scope) {
    scope.drop_list_lock();
    remove(self);
    delete &self;  // as its completion could
    return PushResult::kPushed;
  };
  ail.push_all();
  ail.walk();
  EXPECT_EQ(next.pushes, 1U);
  EXPECT_EQ(ail.stats().pushed, 2U);
}

TEST_F(AilTest, GoesOnWhenPushRemovesTheNextItem) {
  MockItem& a = add(Lsn::make(1, 10));
  MockItem& b = add(Lsn::make(1, 10));
  MockItem& c = add(Lsn::make(1, 11));
  a.on_push = [&](MockItem&, PushScope& scope) {
    scope.drop_list_lock();
    remove(b);
    return PushResult::kPushed;
  };
  ail.push_all();
  ail.walk();
  EXPECT_EQ(b.pushes, 0U);
  EXPECT_EQ(c.pushes, 1U);
}

TEST_F(AilTest, PushesNothingAfterAShutdown) {
  MockItem& a = add(Lsn::make(1, 10));
  ail.push_all();
  ail.shut_down();
  EXPECT_EQ(ail.walk(), Duration::max());
  EXPECT_EQ(a.pushes, 0U);
  const Result<void> empty = ail.wait_empty();
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, Reason::kShutDown);
}

// ---- forces (seed 4) ----

TEST_F(AilTest, ForcesTheLogOnceBeforeTheNextWalkFromTheHead) {
  for (int i = 0; i < 50; ++i) add(Lsn::make(1, 10), PushResult::kPinned);
  ail.push_all();
  ail.walk();
  EXPECT_TRUE(log.forces.empty()) << "pinned items are not looked at again before the next walk";
  ail.walk();
  EXPECT_EQ(log.forces, std::vector<ForceMode>{ForceMode::kStart});
}

TEST_F(AilTest, ForcesWithoutItsLock) {
  MockItem& a = add(Lsn::make(1, 10), PushResult::kPinned);
  log.on_force = [&] { insert(a, Lsn::make(1, 20)); };  // a log that completes at once comes back here
  ail.push_all();
  ail.walk();
  ail.walk();
  EXPECT_EQ(log.forces.size(), 1U);
}

TEST_F(AilTest, ForgetsPinnedItemsOnceTheAilIsEmpty) {
  MockItem& a = add(Lsn::make(1, 10), PushResult::kPinned);
  ail.push_all();
  ail.walk();
  remove(a);
  add(Lsn::make(1, 20));
  ail.push_all();
  ail.walk();
  EXPECT_TRUE(log.forces.empty());
}

TEST_F(AilTest, ForgetsPinnedItemsOnceNothingIsLeftToPush) {
  MockItem& a = add(Lsn::make(1, 10), PushResult::kPinned);
  ail.push_all();
  ail.walk();
  insert(a, Lsn::make(1, 20));  // relogged beyond the target
  EXPECT_EQ(ail.walk(), Duration::max());
  ail.push_all();
  ail.walk();
  EXPECT_TRUE(log.forces.empty());
}

TEST_F(AilTest, CountsBuffersThatTurnedOutPinned) {
  add(Lsn::make(1, 10));
  log.on_submit = [] { return 1U; };
  ail.push_all();
  ail.walk();
  ail.walk();
  EXPECT_EQ(log.forces.size(), 1U);
}

TEST_F(AilTest, AsksForTheForceWhenEverythingIsStuckOnPins) {
  for (int i = 0; i < 500; ++i) add(Lsn::make(1, 10), PushResult::kPinned);
  for (int i = 0; i < 500; ++i) add(Lsn::make(1, 20), PushResult::kPinned);
  ail.push_all();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ail.walk(), Ail::kStuckPause);
  EXPECT_EQ(ail.stats().forces, 3U) << "each of these walks began at the head and could force";
}

class AilForceTest : public AilTest, public testing::WithParamInterface<AilForce> {
 protected:
  AilForceTest() : AilTest(GetParam()) {}
};

// Ten walks of five passes each, with a few pinned items in every pass.
TEST_P(AilForceTest, ForcesPerWalkOrPerPass) {
  for (std::uint32_t i = 0; i < 5000; ++i) {
    add(Lsn::make(1, 10 + i / 1000), i % 100 == 0 ? PushResult::kPinned : PushResult::kPushed);
  }
  ail.push_all();
  for (int pass = 0; pass < 50; ++pass) ail.walk();
  EXPECT_EQ(ail.stats().walks, 10U);
  EXPECT_EQ(ail.stats().passes, 50U);
  EXPECT_EQ(log.forces.size(), ail.stats().forces);
  switch (GetParam()) {
    case AilForce::kEachWalk:
      EXPECT_EQ(log.forces, std::vector<ForceMode>(9, ForceMode::kStart));
      break;
    case AilForce::kEachWalkWait:
      EXPECT_EQ(log.forces, std::vector<ForceMode>(9, ForceMode::kWait));
      break;
    case AilForce::kEachPass:
      EXPECT_EQ(log.forces, std::vector<ForceMode>(50, ForceMode::kStart));
      break;
  }
}
INSTANTIATE_TEST_SUITE_P(Variants, AilForceTest,
                         testing::Values(AilForce::kEachWalk, AilForce::kEachWalkWait, AilForce::kEachPass));

TEST(AilForceOption, KnowsItsNames) {
  AilForce force = AilForce::kEachWalk;
  EXPECT_TRUE(parse_ail_force("walk-sync", force));
  EXPECT_EQ(force, AilForce::kEachWalkWait);
  EXPECT_TRUE(parse_ail_force("pass", force));
  EXPECT_EQ(force, AilForce::kEachPass);
  EXPECT_TRUE(parse_ail_force("walk-async", force));
  EXPECT_EQ(force, AilForce::kEachWalk);
  EXPECT_FALSE(parse_ail_force("walk", force));
}

}  // namespace
}  // namespace tidewheel
