// The schedule alone: pure decisions, no engine.
#include "writeback/work.h"

#include <gtest/gtest.h>

namespace tidewheel {
namespace {

constexpr Instant kStart{1'000'000'000'000};

WorkSignals at(Instant now) {
  WorkSignals s;
  s.now = now;
  return s;
}

TEST(WorkSchedule, ExplicitComesBeforePeriodicBeforeBackground) {
  WorkSchedule schedule(seconds(30), seconds(5), 1 << 20);
  schedule.arm(kStart - seconds(5));
  WorkSignals s = at(kStart);
  s.background_excess_bytes = 1 << 20;
  s.reclaim_bytes = 1;
  s.sync_ready = true;
  EXPECT_EQ(schedule.next_work(s).kind, WorkKind::kSync);
  s.sync_ready = false;
  EXPECT_EQ(schedule.next_work(s).kind, WorkKind::kReclaim);
  s.reclaim_bytes = 0;
  EXPECT_EQ(schedule.next_work(s).kind, WorkKind::kPeriodic);
  schedule.began_periodic(kStart);
  schedule.ended_periodic(kStart, true);
  EXPECT_EQ(schedule.next_work(s).kind, WorkKind::kBackground);
  s.background_excess_bytes = 0;
  EXPECT_FALSE(schedule.next_work(s).work);
  EXPECT_EQ(schedule.next_work(s).wake_at, kStart + seconds(5));
}

TEST(WorkSchedule, AnInterruptedTickIsDueAtOnce) {
  WorkSchedule schedule(seconds(30), seconds(5), 1 << 20);
  schedule.arm(kStart - seconds(5));
  EXPECT_EQ(schedule.next_work(at(kStart)).kind, WorkKind::kPeriodic);
  schedule.began_periodic(kStart);
  WorkSignals s = at(kStart + milliseconds(1));
  s.sync_ready = true;
  EXPECT_EQ(schedule.next_work(s).kind, WorkKind::kSync);
  const WorkDecision after = schedule.next_work(at(kStart + milliseconds(2)));
  EXPECT_TRUE(after.work);
  EXPECT_EQ(after.kind, WorkKind::kPeriodic);
  schedule.ended_periodic(kStart + milliseconds(3), false);
  EXPECT_EQ(schedule.next_work(at(kStart + milliseconds(4))).wake_at, kStart + seconds(5));
}

TEST(WorkSchedule, ArmingNeverPostponesATick) {
  WorkSchedule schedule(seconds(30), seconds(5), 1 << 20);
  EXPECT_EQ(schedule.next_work(at(kStart)).wake_at, Instant::max());
  schedule.arm(kStart);
  for (int i = 1; i < 5; ++i) schedule.arm(kStart + seconds(i));
  EXPECT_EQ(schedule.next_work(at(kStart + seconds(4))).wake_at, kStart + seconds(5));
}

TEST(WorkSchedule, IntervalZeroIsOff) {
  WorkSchedule schedule(seconds(30), {0}, 1 << 20);
  schedule.arm(kStart);
  EXPECT_FALSE(schedule.armed());
  EXPECT_EQ(schedule.next_work(at(kStart + seconds(86'400))).wake_at, Instant::max());
  EXPECT_EQ(schedule.dirtied_before(kStart), Instant::min()) << "a retry must not take the young with it";
  WorkSignals s = at(kStart);
  s.next_retry = kStart;  // retries go on
  EXPECT_EQ(schedule.next_work(s).kind, WorkKind::kPeriodic);
}

TEST(WorkSchedule, ASmallExcessWaitsForMoreButNotForLong) {
  WorkSchedule schedule(seconds(30), {0}, 1 << 20);
  WorkSignals s = at(kStart);
  s.background_excess_bytes = 1;
  EXPECT_FALSE(schedule.next_work(s).work);
  EXPECT_EQ(schedule.next_work(s).wake_at, kStart + WorkSchedule::kPlug);
  s.writers_wait = true;
  EXPECT_TRUE(schedule.next_work(s).work);
  s.writers_wait = false;
  s.background_excess_bytes = 1 << 20;
  EXPECT_TRUE(schedule.next_work(s).work);
  s.background_excess_bytes = 1;
  s.now = kStart + WorkSchedule::kPlug;
  EXPECT_TRUE(schedule.next_work(s).work);
}

TEST(WorkSchedule, ARetryThatWasGoneIsNotLookedForAtOnce) {
  WorkSchedule schedule(seconds(30), {0}, 1 << 20);
  WorkSignals s = at(kStart);
  s.next_retry = kStart - seconds(1);
  EXPECT_TRUE(schedule.next_work(s).work);
  schedule.began_periodic(kStart);
  schedule.ended_periodic(kStart, true);
  EXPECT_FALSE(schedule.next_work(s).work);
  EXPECT_EQ(schedule.next_work(s).wake_at, kStart + WorkSchedule::kRetryPause);
}

TEST(WorkSchedule, AClockThatStepsBackDoesNotPutTheTickOff) {
  WorkSchedule schedule(seconds(30), seconds(5), 1 << 20);
  schedule.arm(kStart);
  EXPECT_EQ(schedule.next_work(at(kStart - seconds(3600))).wake_at, kStart - seconds(3595));
}

// Each of the moments that work waits for lay as far ahead as the step, else.
TEST(WorkSchedule, AClockThatStepsBackPutsNothingOff) {
  const Instant earlier = kStart - seconds(3600);
  WorkSchedule pause(seconds(30), {0}, 1 << 20);
  pause.met_only_busy(kStart);
  WorkSignals reclaim = at(earlier);
  reclaim.reclaim_bytes = 1;
  EXPECT_TRUE(pause.next_work(reclaim).work) << "work that had met only busy objects";

  WorkSchedule retry(seconds(30), {0}, 1 << 20);
  retry.ended_periodic(kStart, true);
  WorkSignals due = at(earlier);
  due.next_retry = earlier;
  EXPECT_TRUE(retry.next_work(due).work) << "a retry after one that was gone";

  WorkSchedule plugged(seconds(30), {0}, 1 << 20);
  WorkSignals excess = at(kStart);
  excess.background_excess_bytes = 1;
  EXPECT_FALSE(plugged.next_work(excess).work);
  excess.now = earlier;
  EXPECT_EQ(plugged.next_work(excess).wake_at, earlier + WorkSchedule::kPlug) << "a small excess";
}

TEST(WorkSchedule, ExtremeLengthsDoNotOverflow) {
  WorkSchedule schedule(Duration::max(), Duration::max(), 1);
  schedule.arm(kStart);
  EXPECT_FALSE(schedule.next_work(at(kStart)).work);
  EXPECT_LT(schedule.dirtied_before(kStart), kStart);
  EXPECT_EQ(WorkSchedule(Duration::max(), seconds(1), 1).dirtied_before(Instant{INT64_MIN + 5}),
            Instant::min());
}

}  // namespace
}  // namespace tidewheel
