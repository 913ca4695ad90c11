// Rules of the AIL that nothing else would miss: when it forces, when it pauses, how far it pushes.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/sim.h"
#include "base/thread.h"
#include "base/thread_state.h"
#include "fs/ail/pusher.h"
#include "tests/fs/ail_rig.h"

namespace tidewheel {
namespace {

using FaultAil = AilTest;

// Of two images with one LSN there is nothing to move for.
TEST_F(FaultAil, AnItemThatComesAgainWithItsLsnStaysInItsPlace) {
  MockItem& first = add(Lsn::make(1, 10));
  MockItem& second = add(Lsn::make(1, 10));
  insert(first, Lsn::make(1, 10));
  EXPECT_EQ(order(), (std::vector<const LogItem*>{&first, &second}));
  EXPECT_EQ(ail.stats().moves, 0U);
}

// A sleeper that needed more than there was is gone: what comes later is not pushed for it.
TEST_F(FaultAil, NeedsThatAreOverReachNoFurtherThanWhatWasThere) {
  MockItem& old = add(Lsn::make(1, 10));
  ail.set_needed_tail(Lsn::make(1, 100));
  ail.walk();
  EXPECT_EQ(old.pushes, 1U);
  ail.set_needed_tail(kNoLsn);
  MockItem& later = add(Lsn::make(1, 50));
  ail.walk();
  EXPECT_EQ(later.pushes, 0U);
}

class FaultAilForce : public AilTest, public testing::WithParamInterface<AilForce> {
 protected:
  FaultAilForce() : AilTest(GetParam()) {}
};

// What was forced for is not forced for again once it is not pinned any more.
TEST_P(FaultAilForce, ComesOnceForWhatWasMetPinned) {
  MockItem& item = add(Lsn::make(1, 10), PushResult::kPinned);
  ail.push_all();
  ail.walk();
  item.answer = PushResult::kLocked;
  for (int i = 0; i < 4; ++i) ail.walk();
  EXPECT_EQ(log.forces.size(), 1U);
}
INSTANTIATE_TEST_SUITE_P(Variants, FaultAilForce,
                         testing::Values(AilForce::kEachWalk, AilForce::kEachWalkWait, AilForce::kEachPass));

// Its last buffer turned out pinned, and went in another way before the queue had said so.
TEST_F(FaultAil, AnEmptyAilRemembersNoPins) {
  MockItem& item = add(Lsn::make(1, 10));
  log.on_submit = [&] {
    remove(item);
    return 1U;
  };
  ail.push_all();
  ail.walk();
  log.on_submit = nullptr;
  add(Lsn::make(1, 20));
  ail.push_all();
  ail.walk();
  EXPECT_TRUE(log.forces.empty());
}

TEST_F(FaultAil, AShutdownEndsAPassWhereItIs) {
  MockItem& first = add(Lsn::make(1, 10));
  MockItem& second = add(Lsn::make(1, 20));
  first.on_push = [this](MockItem&, PushScope& scope) {
    scope.drop_list_lock();
    ail.shut_down();
    return PushResult::kPushed;
  };
  ail.push_all();
  EXPECT_EQ(ail.walk(), Duration::max()) << "there is nothing to come back for";
  EXPECT_EQ(second.pushes, 0U);
}

TEST_F(FaultAil, BacksOffWhereEverythingIsOnItsWay) {
  for (std::uint32_t i = 0; i < 2 * Ail::kItemsPerPass; ++i) {
    add(Lsn::make(1, 10 + i / 500)).set(LogItem::kFlushing);
  }
  ail.push_all();
  EXPECT_EQ(ail.walk(), Ail::kStuckPause);
  EXPECT_EQ(ail.stats().flushing, Ail::kItemsPerPass);
}

// Log space is what reservations wait for: the thread that frees it is marked, and may not wait for it.
TEST_F(FaultAil, ItsPusherIsMarkedAsAThreadThatFreesLogSpace) {
  Atomic<bool> marked{false}, pushed{false};
  MockItem& item = add(Lsn::make(1, 10));
  item.on_push = [&](MockItem&, PushScope&) {
    marked.store(this_thread_state().frees_log_space, std::memory_order_relaxed);
    pushed.store(true, std::memory_order_release);
    return PushResult::kLocked;
  };
  AilPusher pusher(ail);
  ail.push_all();
  while (!pushed.load(std::memory_order_acquire)) yield_thread();
  pusher.stop();
  EXPECT_TRUE(marked.load(std::memory_order_relaxed));
}

struct SimulatedAil {
  explicit SimulatedAil(PushResult answer) : item(answer) {
    ail.checkpoint_stable(Lsn::make(1, 10));
    LogItem* const one[] = {&item};
    ail.insert(one, Lsn::make(1, 10));
  }
  ~SimulatedAil() {
    LogItem* const one[] = {&item};
    ail.remove(one);
  }
  MockLog log;
  Ail ail{{.log_sectors = 1024}, log, log, log};
  MockItem item;
};

// With items left that nobody will push, the pusher sleeps until it is stopped.
SIM_TEST_WITH(FaultAilSim, ThePusherSleepsAfterAShutdown, (sim::Options{.schedules = 50})) {
  SimulatedAil one(PushResult::kLocked);
  AilPusher pusher(one.ail);
  one.ail.push_all();
  one.ail.shut_down();
  sleep_for(seconds(10));
  const std::uint64_t pushes = one.item.pushes;
  SIM_CHECK(one.ail.stats().passes <= 2);
  sleep_for(seconds(10));
  SIM_CHECK(one.item.pushes == pushes);
  pusher.stop();
}

SIM_TEST_WITH(FaultAilSim, StoppingThePusherDoesNotWaitOutItsPause, (sim::Options{.schedules = 50})) {
  SimulatedAil one(PushResult::kLocked);
  AilPusher pusher(one.ail);
  one.ail.push_all();
  sleep_for(milliseconds(1));  // it has pushed, and pauses
  const Instant before = SteadyClock::instance().now();
  pusher.stop();
  SIM_CHECK(SteadyClock::instance().now() - before < milliseconds(1));
}

}  // namespace
}  // namespace tidewheel
