// Syncs beside each other, moments, and stamps of before a clock was set back: the list without an engine.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "tests/writeback/list_rig.h"

namespace tidewheel {
namespace {

class DirtyListSync : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Designs, DirtyListSync, ::testing::ValuesIn(all_designs_and_orders()),
                         [](const auto& each) { return design_test_name(each.param); });

std::size_t claim_all(ListRig& rig, Selection& selection) {
  std::size_t total = 0;
  for (;;) {
    std::vector<WriteSlot> slots = rig.begin(selection, 8);
    if (slots.empty()) return total;
    for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
    total += slots.size();
  }
}

TEST_P(DirtyListSync, AYoungerOneFindsWhatAnOlderOneHas) {
  ListRig rig(GetParam(), 40);
  for (std::size_t i = 0; i < 40; ++i) rig.mark(i);
  const auto older = rig.select(WorkKind::kSync);
  const auto younger = rig.select(WorkKind::kSync);
  EXPECT_EQ(claim_all(rig, *younger), 40U);
  EXPECT_EQ(claim_all(rig, *older), 0U);
}

TEST_P(DirtyListSync, AYoungerOneFindsWhatAnOlderOneLeaves) {
  ListRig rig(GetParam(), 70);
  for (std::size_t i = 0; i < 70; ++i) rig.mark(i);
  auto older = rig.select(WorkKind::kSync);
  const auto younger = rig.select(WorkKind::kSync);
  older.reset();
  EXPECT_EQ(claim_all(rig, *younger), 70U);
}

// Another thread's reading may be later than the caller's: what it stamped is dirty at the call.
TEST_P(DirtyListSync, ItsMomentCoversEveryStampThatWasGivenOut) {
  ListRig rig(GetParam(), 2);
  rig.list->mark_dirty(rig[0], kDirtyData, rig.now + milliseconds(5));
  const auto sync = rig.select(WorkKind::kSync);
  EXPECT_GE(sync->moment(), rig.now + milliseconds(5));
  EXPECT_EQ(claim_all(rig, *sync), 1U);
}

// What was written in part since it failed has a first failure again.
TEST_P(DirtyListSync, AWriteInPartEndsTheBackOff) {
  if (GetParam() == "syncer-slots") GTEST_SKIP() << "no back-off";
  ListRig rig(GetParam(), 1);
  rig.mark(0);
  const auto attempt = [&](WriteOutcome outcome) {
    const auto sync = rig.select(WorkKind::kSync);
    std::vector<WriteSlot> slots = rig.begin(*sync, 1);
    ASSERT_EQ(slots.size(), 1U);
    rig.end(slots[0], outcome, WorkKind::kSync);
  };
  for (int i = 0; i < 3; ++i) attempt(WriteOutcome::kFailed);
  EXPECT_GE(rig.list->next_retry(), rig.now + seconds(4));
  attempt(WriteOutcome::kPartial);
  attempt(WriteOutcome::kFailed);
  EXPECT_LT(rig.list->next_retry(), rig.now + seconds(2));
}

// The lock-free hint of a shard says "empty" while an older sync's end carries what is there to the younger.
void end_beside_a_younger(const char* design) {
  ListRig rig(design, 3);
  for (std::size_t i = 0; i < 3; ++i) rig.mark(i);
  auto older = rig.select(WorkKind::kSync);
  const auto younger = rig.select(WorkKind::kSync);
  Thread ends("ends", [&] { older.reset(); });
  const std::size_t found = claim_all(rig, *younger);
  ends.join();
  SIM_CHECK(found == 3);
}
SIM_TEST_WITH(DirtyListSyncSim, OneEndsBesideAYoungerTimerWheel, (sim::Options{.schedules = 500})) {
  end_beside_a_younger("timer-wheel");
}
SIM_TEST_WITH(DirtyListSyncSim, OneEndsBesideAYoungerTaggedList, (sim::Options{.schedules = 200})) {
  end_beside_a_younger("tagged-list");
}
SIM_TEST_WITH(DirtyListSyncSim, OneEndsBesideAYoungerSingleList, (sim::Options{.schedules = 200})) {
  end_beside_a_younger("single-list");
}

// ---- a clock that is set back, in the wheel ----

// As old as expire by its own time, and it looks young: what comes back from a batch is due at once.
TEST(WheelClock, WhatComesBackFromBeforeTheStepIsDueAtOnce) {
  // Its stamp lies in the past of the new time, and in its future.
  for (const std::int64_t back_s : {20, 100}) {
    ListRig rig("timer-wheel", 1);
    rig.mark(0);
    const auto work = rig.select(WorkKind::kBackground);
    DirtyObject* claimed = nullptr;
    ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
    rig.pass(seconds(30));
    rig.now = rig.now - seconds(back_s);
    rig.list->clock_set_back(rig.now);
    rig.pass(seconds(1));
    rig.list->unclaim(*claimed, rig.now);
    EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 1U) << back_s;
  }
}

// And what comes from another context's list.
TEST(WheelClock, WhatIsAdoptedFromBeforeTheStepIsDueAtOnce) {
  for (const std::int64_t back_s : {20, 100}) {
    ListRig rig("timer-wheel", 1);
    rig.mark(0);
    const auto work = rig.select(WorkKind::kBackground);
    DirtyObject* claimed = nullptr;
    ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
    rig.pass(seconds(30));
    rig.now = rig.now - seconds(back_s);
    rig.list->clock_set_back(rig.now);
    rig.pass(seconds(1));
    rig.list->adopt(*claimed, rig.now);
    EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 1U) << back_s;
  }
}

// Without anybody who tells it: who looks for what has expired finds stamps of the future.
TEST(WheelClock, APeriodicWorkNoticesByItself) {
  ListRig rig("timer-wheel", 1);
  rig.mark(0);
  rig.now = rig.now - seconds(100);
  EXPECT_EQ(rig.work(WorkKind::kPeriodic).size(), 1U);
}

}  // namespace
}  // namespace tidewheel
