// The policies' formulas at their published values.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "writeback/backing_device.h"
#include "writeback/bandwidth_estimate.h"
#include "writeback/completion_shares.h"
#include "writeback/throttle.h"
#include "writeback/throttles/delay_curve.h"
#include "writeback/throttles/linux_control.h"

namespace tidewheel {
namespace {

using namespace linux_control;

constexpr std::uint64_t kMega = 1'000'000;
constexpr std::uint64_t kPage = kPageBytes;

// Free run 150, set-point 175, limit 200.
Position position_at(std::uint64_t dirty, std::uint64_t bandwidth = 10 * kMega) {
  Position p;
  p.dirty_bytes = dirty;
  p.threshold_bytes = p.limit_bytes = 200 * kMega;
  p.background_bytes = 100 * kMega;
  p.device = {dirty, 200 * kMega, 100 * kMega, bandwidth, false};
  return p;
}

TEST(ThrottleFormula, FreeRunIsHalfWayBetweenTheThresholds) {
  EXPECT_EQ(free_run_ceiling(200, 100), 150U);
  EXPECT_EQ(free_run_ceiling(3, 1), 2U);
  EXPECT_EQ(free_run_ceiling(3, 2), 2U);
  EXPECT_EQ(free_run_ceiling(UINT64_MAX, UINT64_MAX), UINT64_MAX);
}

TEST(ThrottleFormula, PositionIsTwoAtFreeRunOneAtTheSetpointZeroAtTheLimit) {
  const auto at = [](std::uint64_t dirty) { return position_curve(175 * kMega, dirty, 200 * kMega); };
  EXPECT_EQ(at(150 * kMega), 2 * kOne);
  EXPECT_EQ(at(175 * kMega), kOne);
  EXPECT_EQ(at(200 * kMega), 0);
  EXPECT_EQ(at(162'500'000), kOne + kOne / 8);  // half-way: the cube of a half
  EXPECT_EQ(at(187'500'000), kOne - kOne / 8);
  EXPECT_EQ(at(0), 2 * kOne);
  EXPECT_EQ(at(500 * kMega), 0);
  std::int64_t last = 2 * kOne;
  for (std::uint64_t dirty = 0; dirty <= 210 * kMega; dirty += 10'007) {
    EXPECT_LE(at(dirty), last) << dirty;
    last = at(dirty);
  }
  // The largest limit an engine takes, and the smallest.
  EXPECT_EQ(position_curve(3ULL << 58, 1ULL << 59, 1ULL << 60), 2 * kOne);
  EXPECT_EQ(position_curve(1, 1, 2), kOne);
  EXPECT_EQ(position_curve(2, 1, 2), 2 * kOne);
}

TEST(ThrottleFormula, DeviceLineGoesThroughTheSetpointAndEndsAtAQuarter) {
  // Span: 8 s of 10 MB/s = 80 MB. Fixed point and the span's + 1 lose up to 2 of 1024.
  EXPECT_NEAR(device_line(kOne, position_at(175 * kMega)), kOne, 2);
  EXPECT_NEAR(device_line(kOne, position_at(135 * kMega)), kOne * 3 / 2, 3);  // half a span below
  EXPECT_NEAR(device_line(kOne, position_at(215 * kMega)), kOne / 2, 2);      // and above
  EXPECT_EQ(device_line(kOne, position_at(235 * kMega)), kOne / 4);           // three quarters, and beyond
  EXPECT_EQ(device_line(kOne, position_at(900 * kMega)), kOne / 4);
  std::int64_t last = INT64_MAX;
  for (std::uint64_t dirty = 0; dirty <= 300 * kMega; dirty += 10'007) {
    const std::int64_t now = device_line(kOne, position_at(dirty));
    EXPECT_LE(now, last) << dirty;
    last = now;
  }
}

// One of many: the span goes from 8 s of writing to the share itself.
TEST(ThrottleFormula, DeviceLineBlendsToTheShare) {
  Position p = position_at(190 * kMega, 0);
  p.device.dirty_limit_bytes = 20 * kMega;
  // Part 0.1; set-point 17.5 MB; span 0.1 * (200 - 20) = 18 MB.
  p.device.dirty_bytes = 17'500'000;
  EXPECT_NEAR(device_line(kOne, p), kOne, 2);
  p.device.dirty_bytes = 26'500'000;
  EXPECT_NEAR(device_line(kOne, p), kOne / 2, 2);
  p.device.dirty_bytes = 31'500'000;
  EXPECT_EQ(device_line(kOne, p), kOne / 4);
}

TEST(ThrottleFormula, ADeviceThatBeginsHasAnEighthOfWhatIsFree) {
  Position p = position_at(120 * kMega);
  p.device.dirty_limit_bytes = 0;
  EXPECT_EQ(device_share(p), 10 * kMega);
  p.dirty_bytes = 300 * kMega;
  EXPECT_EQ(device_share(p), 0U);
  p.device.dirty_limit_bytes = 500 * kMega;
  EXPECT_EQ(device_share(p), 200 * kMega) << "at most the threshold";
}

TEST(ThrottleFormula, ReserveBoostsUpToEightTimes) {
  Position p = position_at(190 * kMega, 1'000'000 * kMega);  // so fast that its line is flat: 1 all along
  const auto at = [&](std::uint64_t dirty) {
    p.device.dirty_bytes = dirty;
    return device_line(kOne, p);
  };
  EXPECT_NEAR(at(100 * kMega), kOne, 2);
  EXPECT_NEAR(at(50 * kMega), 2 * kOne, 3);
  EXPECT_NEAR(at(25 * kMega), 4 * kOne, 6);
  EXPECT_NEAR(at(12'500'000), 8 * kOne, 10);
  EXPECT_NEAR(at(1 * kMega), 8 * kOne, 10);
  EXPECT_NEAR(at(0), 8 * kOne, 10);
}

TEST(ThrottleFormula, AStrictDeviceIsHeldToItsShareBelowTheGlobalFreeRun) {
  Position p = position_at(10 * kMega);
  p.device = {0, 2 * kMega, 1 * kMega, 10 * kMega, true};
  const auto at = [&](std::uint64_t dirty) {
    p.device.dirty_bytes = dirty;
    return position_ratio(p);
  };
  EXPECT_EQ(at(8 * kPage - 1), 2 * kOne) << "a few pages are always free";
  EXPECT_EQ(at(1'500'000), kOne) << "its own free run is the set-point of its curve";
  EXPECT_EQ(at(2 * kMega), 0);
  EXPECT_EQ(at(3 * kMega), 0);
  EXPECT_EQ(at(1'750'000), kOne - kOne / 8);
  p.dirty_bytes = 199 * kMega;  // and the lower of the two positions wins
  EXPECT_LT(at(1'500'000), kOne);
  // A share of nothing: nothing may be dirtied, and nothing is divided by 0.
  p.device = {100 * kPage, 0, 0, 0, true};
  EXPECT_EQ(position_ratio(p), 0);
}

TEST(ThrottleFormula, TinyLimitsKeepTheCurve) {
  // Two pages; background one. Free run 6144, set-point 7168.
  Position p;
  p.threshold_bytes = p.limit_bytes = 2 * kPage;
  p.background_bytes = kPage;
  p.device = {0, 2 * kPage, kPage, 100 * kMega, false};
  for (std::uint64_t dirty = 0; dirty <= 3 * kPage; ++dirty) {
    p.dirty_bytes = p.device.dirty_bytes = dirty;
    const std::int64_t ratio = position_ratio(p);
    EXPECT_GE(ratio, 0);
    EXPECT_LE(ratio, 16 * kOne);
    if (dirty <= 6144) {
      EXPECT_GE(ratio, 2 * kOne - 4) << dirty;
    }
    if (dirty >= 2 * kPage) {
      EXPECT_EQ(ratio, 0) << dirty;
    }
  }
}

TEST(ThrottleFormula, LimitFollowsUpAtOnceAndDownByAThirtySecond) {
  EXPECT_EQ(follow_dirty_limit(100, 200, 0), 200U);
  EXPECT_EQ(follow_dirty_limit(200, 200, 0), 200U);
  EXPECT_EQ(follow_dirty_limit(3300, 100, 0), 3200U);
  EXPECT_EQ(follow_dirty_limit(3300, 100, 3300), 3300U) << "never below what is dirty";
  EXPECT_EQ(follow_dirty_limit(3300, 100, 5000), 3300U);
  EXPECT_EQ(follow_dirty_limit(3300, 100, 3236), 3298U);
  std::uint64_t limit = 1'000'000;
  int steps = 0;
  while (limit > 500'000 && ++steps < 2000) limit = follow_dirty_limit(limit, 500'000, 0);
  EXPECT_EQ(limit, 500'000U) << "it arrives";
  EXPECT_GT(steps, 100);
}

TEST(ThrottleFormula, BandwidthIsAveragedOverItsWindow) {
  BandwidthEstimate e;
  EXPECT_EQ(e.write_bandwidth, 100 * kMega);
  const Duration half{BandwidthEstimate::kWindow.ns / 2};
  const auto bytes_at = [](std::uint64_t rate, Duration time) {
    return static_cast<std::uint64_t>(static_cast<double>(rate) * time.seconds());
  };
  // Half a window at 200 MB/s: half of the way. The average waits for a trend.
  e = update_bandwidth(e, {half, 0, bytes_at(200 * kMega, half)});
  EXPECT_NEAR(static_cast<double>(e.write_bandwidth), 150e6, 2);
  EXPECT_EQ(e.average_write_bandwidth, 100 * kMega);
  // Up again: an eighth of the way to where it was before.
  e = update_bandwidth(e, {half, 0, bytes_at(200 * kMega, half)});
  EXPECT_NEAR(static_cast<double>(e.write_bandwidth), 175e6, 2);
  EXPECT_NEAR(static_cast<double>(e.average_write_bandwidth), 106.25e6, 2);
  // Down: the average is below it and does not move.
  const std::uint64_t average = e.average_write_bandwidth;
  e = update_bandwidth(e, {half, 0, bytes_at(100 * kMega, half)});
  EXPECT_NEAR(static_cast<double>(e.write_bandwidth), 137.5e6, 2);
  EXPECT_EQ(e.average_write_bandwidth, average);
  // A sample longer than the window is all there is.
  e = update_bandwidth(e, {seconds(10), 0, 70 * kMega});
  EXPECT_EQ(e.write_bandwidth, 7 * kMega);
  EXPECT_EQ(e.average_write_bandwidth, 7 * kMega);
  // Nothing written: it sinks, never to 0.
  for (int i = 0; i < 1000; ++i) e = update_bandwidth(e, {seconds(3), 0, 0});
  EXPECT_GE(e.average_write_bandwidth, 1U);
  e = update_bandwidth(e, {seconds(100), 0, 0});
  EXPECT_EQ(e.average_write_bandwidth, 1U);
  EXPECT_EQ(update_bandwidth(e, {Duration{0}, 5, 5}), e);
  EXPECT_EQ(update_bandwidth(e, {Duration{-1}, 5, 5}), e);
}

TEST(ThrottleFormula, BaseRateMovesOnlyWhenBothSignalsAgree) {
  const DirtyRates rates{10 * kMega, 10 * kMega};
  const auto sample = [](std::uint64_t dirtied) { return RateSample{milliseconds(200), dirtied, 0}; };
  // Ten writers at 10 MB/s on a device that writes 50: the balanced rate is 5.
  DirtyRates next = next_rates(rates, sample(20 * kMega), kOne, 50 * kMega, 190, 175);
  EXPECT_NEAR(static_cast<double>(next.balanced_dirty_ratelimit), 5e6, 5000);
  EXPECT_EQ(next.dirty_ratelimit, 10 * kMega) << "the balanced rate before did not say so yet";
  next = next_rates(next, sample(20 * kMega), kOne / 2, 50 * kMega, 190, 175);
  EXPECT_LT(next.dirty_ratelimit, 10 * kMega);
  EXPECT_GT(next.dirty_ratelimit, 9 * kMega) << "an eighth of the step at most";
  // Too fast, but little is dirty: it stays.
  next = next_rates({10 * kMega, 5 * kMega}, sample(20 * kMega), kOne / 2, 50 * kMega, 160, 175);
  EXPECT_EQ(next.dirty_ratelimit, 10 * kMega);
  // Too slow and little is dirty: it rises; much is dirty: it stays.
  const DirtyRates slow{kMega, 4 * kMega};
  EXPECT_GT(next_rates(slow, sample(kMega), 2 * kOne, 50 * kMega, 160, 175).dirty_ratelimit, kMega);
  EXPECT_EQ(next_rates(slow, sample(kMega), 2 * kOne, 50 * kMega, 190, 175).dirty_ratelimit, kMega);
  // Never above what the device writes, as the balanced rate says; never 0.
  next = next_rates(rates, sample(1), 2 * kOne, 50 * kMega, 0, 175);
  EXPECT_EQ(next.balanced_dirty_ratelimit, 50 * kMega);
  DirtyRates stuck{kPage, kPage};
  for (int i = 0; i < 100; ++i) stuck = next_rates(stuck, sample(100 * kMega), 0, 1, 300, 175);
  EXPECT_EQ(stuck.dirty_ratelimit, kPage);
  EXPECT_EQ(next_rates(rates, {Duration{0}, 1, 1}, kOne, 1, 0, 1), rates);
}

TEST(ThrottleFormula, PausesAreBoundedByWhatTheDeviceHas) {
  EXPECT_EQ(longest_pause(100 * kMega, 10 * kMega), milliseconds(200));  // 10 s of writing
  EXPECT_EQ(longest_pause(8 * kMega, 10 * kMega), milliseconds(100));    // an eighth of 800 ms
  EXPECT_EQ(longest_pause(2 * kPage, 100 * kMega), milliseconds(1));
  EXPECT_EQ(longest_pause(0, 100 * kMega), milliseconds(1));
  EXPECT_EQ(longest_pause(1, 0), milliseconds(200));
}

TEST(ThrottleFormula, MoreWritersPauseLonger) {
  const auto target = [](std::uint64_t rate, Duration longest = milliseconds(200)) {
    BandwidthEstimate e;
    e.average_write_bandwidth = 1 << 27;
    e.rates.dirty_ratelimit = rate;
    return pause_length(e, rate, longest, kMega << 20);
  };
  EXPECT_EQ(target(1 << 27).target, milliseconds(10));
  EXPECT_EQ(target(1 << 26).target, milliseconds(20));
  EXPECT_EQ(target(1 << 24).target, milliseconds(40));
  EXPECT_EQ(target(1 << 28).target, milliseconds(10));
  EXPECT_EQ(target(1 << 24, milliseconds(50)).target, milliseconds(25)) << "half of the longest";
  EXPECT_EQ(target(1 << 24).least, milliseconds(20));
  EXPECT_EQ(target(1 << 24).pause_after_bytes, (std::uint64_t{1} << 24) / 25);
  // 1 MiB/s: 60 ms would be 15 pages; 32 take 125 ms.
  EXPECT_EQ(target(1 << 20).pause_after_bytes, 32 * kPage);
  EXPECT_EQ(target(1 << 20).target, milliseconds(125));
  EXPECT_EQ(target(1 << 20).least, milliseconds(125) / 2);
  // 64 KiB/s: as long as it may be.
  EXPECT_EQ(target(1 << 16).target, milliseconds(200));
  EXPECT_EQ(target(1 << 16).pause_after_bytes, 13107U);
  EXPECT_EQ(target(1).pause_after_bytes, kPage);
}

TEST(ThrottleFormula, TheLessRoomIsLeftTheOftenerATaskIsLookedAt) {
  EXPECT_EQ(poll_interval_bytes(0), kPage);
  EXPECT_EQ(poll_interval_bytes(kPage), kPage);
  EXPECT_EQ(poll_interval_bytes(4 * kPage), 2 * kPage);
  EXPECT_EQ(poll_interval_bytes(6400 * kPage), 64 * kPage);
  EXPECT_EQ(poll_interval_bytes(1ULL << 60), kPage << 24);
  BandwidthEstimate e;
  e.average_write_bandwidth = e.rates.dirty_ratelimit = 1 << 27;
  const PauseLength length = pause_length(e, 1 << 27, milliseconds(200), 1 << 17);
  EXPECT_EQ(length.pause_after_bytes, 1U << 17);
  EXPECT_EQ(length.least.ns, 488'281) << "as long as it takes to pay for half of that";
}

TEST(ThrottleFormula, ThinkTimeIsCreditUpToASecond) {
  const Instant now = Instant{0} + seconds(1000);
  const PauseLength length{milliseconds(20), milliseconds(10), 200'000};
  const auto pay_after = [&](Duration thought, std::int64_t dirtied = 200'000) {
    TaskRates task;
    task.dirtied_bytes = dirtied;
    task.paused_when = now - thought;
    return pay(task, now, 10 * kMega, milliseconds(200), length);  // 200,000 bytes are worth 20 ms
  };
  EXPECT_EQ(pay_after({0}).pause, milliseconds(20));
  EXPECT_EQ(pay_after({0}).task.paused_when, now + milliseconds(20));
  EXPECT_EQ(pay_after(milliseconds(5)).pause, milliseconds(15));
  // Too little to sleep: it is remembered.
  EXPECT_EQ(pay_after(milliseconds(15)).pause, Duration{0});
  EXPECT_EQ(pay_after(milliseconds(15)).task.paused_when, now + milliseconds(5));
  EXPECT_EQ(pay_after(milliseconds(500)).task.paused_when, now - milliseconds(480));
  // More than a second of it is forgotten.
  EXPECT_EQ(pay_after(milliseconds(1021)).task.paused_when, now);
  // Too much for one pause: up to one more is carried over.
  EXPECT_EQ(pay_after({0}, 2'500'000).pause, milliseconds(200));
  EXPECT_EQ(pay_after({0}, 2'500'000).task.paused_when, now + milliseconds(250));
  EXPECT_EQ(pay_after({0}, 25'000'000).task.paused_when, now + milliseconds(400));
  EXPECT_EQ(pay_after({0}, 25'000'000).task.dirtied_bytes, 0);
  // Who keeps no time keeps the rest as debt.
  TaskRates task;
  task.nobody_keeps = true;
  task.dirtied_bytes = 50'000;
  EXPECT_EQ(pay(task, now, 10 * kMega, milliseconds(200), length).task.dirtied_bytes, 50'000);
  task.dirtied_bytes = 2'500'000;
  EXPECT_EQ(pay(task, now, 10 * kMega, milliseconds(200), length).task.dirtied_bytes, 500'000);
  // A clock that was set back by an hour holds nobody up for it.
  EXPECT_EQ(pay_after(seconds(-3600)).pause, milliseconds(20));
  // A rate of nothing: as long as allowed, and again.
  const ThrottleDecision none = pay(task, now, 0, milliseconds(150), length);
  EXPECT_TRUE(none.again);
  EXPECT_EQ(none.pause, milliseconds(150));
  EXPECT_EQ(none.task.dirtied_bytes, 2'500'000) << "still to be paid";
}

ThrottleInputs inputs_at(std::uint64_t dirty) {
  ThrottleInputs in;
  in.now = Instant{0} + seconds(100);
  in.limits = {100 * kMega, 200 * kMega};
  in.control_limit_bytes = 200 * kMega;
  in.dirty_bytes = dirty;
  in.device.dirty_bytes = dirty;
  in.device.dirty_limit_bytes = 200 * kMega;
  in.device.background_bytes = 100 * kMega;
  in.task.dirtied_bytes = 10 * static_cast<std::int64_t>(kMega);
  return in;
}

TEST(ThrottlePolicyLinux, NobodyPaysBelowFreeRun) {
  const auto policy = find_throttle_policy("linux")->make();
  EXPECT_EQ(policy->free_run_bytes({100, 200}), 150U);
  EXPECT_EQ(policy->decide(inputs_at(150 * kMega)).pause.ns, 0);
  EXPECT_EQ(policy->decide(inputs_at(150 * kMega)).task.dirtied_bytes, 0);
  EXPECT_GT(policy->decide(inputs_at(150 * kMega + 1)).pause.ns, 0);
  ThrottleInputs strict = inputs_at(20 * kMega);
  strict.device.dirty_limit_bytes = 4 * kMega;
  strict.device.background_bytes = 2 * kMega;
  EXPECT_EQ(policy->decide(strict).pause.ns, 0);
  strict.device.strict_limit = true;
  EXPECT_GT(policy->decide(strict).pause.ns, 0);
}

TEST(ThrottlePolicyLinux, TheLowerOfTwoPositionsWins) {
  const auto policy = find_throttle_policy("linux")->make();
  ThrottleInputs in = inputs_at(20 * kMega);
  in.owner.limits = {5 * kMega, 10 * kMega};
  in.owner.dirty_bytes = 7 * kMega;
  EXPECT_EQ(policy->decide(in).pause.ns, 0);
  in.owner.dirty_bytes = 9 * kMega;
  const Duration near = policy->decide(in).pause;
  EXPECT_GT(near.ns, 0);
  in.owner.dirty_bytes = 10 * kMega;
  EXPECT_TRUE(policy->decide(in).again);
}

TEST(ThrottlePolicyLinux, ADeviceWithNextToNothingDirtyIsNotStoppedByOthers) {
  const auto policy = find_throttle_policy("linux")->make();
  ThrottleInputs in = inputs_at(200 * kMega);
  EXPECT_TRUE(policy->decide(in).again);
  in.device.dirty_bytes = 8 * kPage;
  EXPECT_FALSE(policy->decide(in).again);
}

TEST(ThrottlePolicyLinux, ADeviceOverItsShareIsLookedAtEveryEightPages) {
  const auto policy = find_throttle_policy("linux")->make();
  ThrottleInputs in = inputs_at(190 * kMega);
  EXPECT_GT(policy->decide(in).task.pause_after_bytes, 8 * kPage);
  in.device.dirty_limit_bytes = 100 * kMega;
  EXPECT_EQ(policy->decide(in).task.pause_after_bytes, 8 * kPage);
}

TEST(ThrottlePolicyDelayCurve, DelayIsHyperbolicFromSixtyPercent) {
  using delay_curve::min_time;
  EXPECT_EQ(min_time(0, 1000), Duration{0});
  EXPECT_EQ(min_time(600, 1000), Duration{0});
  EXPECT_EQ(min_time(800, 1000), microseconds(500));   // half-way: the scale
  EXPECT_EQ(min_time(700, 1000).ns, 500'000 / 3);      // 100 / 300
  EXPECT_EQ(min_time(900, 1000), microseconds(1500));  // 300 / 100
  EXPECT_EQ(min_time(998, 1000), milliseconds(99) + microseconds(500));  // 398 / 2
  EXPECT_EQ(min_time(999, 1000), milliseconds(100));   // 199.5 ms: cut
  EXPECT_EQ(min_time(1000, 1000), milliseconds(100));
  EXPECT_EQ(min_time(5000, 1000), milliseconds(100));
  EXPECT_EQ(min_time(1ULL << 60, 1ULL << 60), milliseconds(100));
  Duration last;
  for (std::uint64_t dirty = 0; dirty < 100'000; dirty += 7) {
    EXPECT_GE(min_time(dirty, 100'000), last);
    last = min_time(dirty, 100'000);
  }
}

TEST(ThrottlePolicyDelayCurve, OneIsLetGoPerDelayHoweverManyAsk) {
  const auto policy = find_throttle_policy("delay-curve")->make();
  ThrottleInputs in = inputs_at(160 * kMega);  // half-way: 500 us
  EXPECT_EQ(policy->free_run_bytes(in.limits), 120 * kMega);
  for (int i = 1; i <= 100; ++i) {
    const ThrottleDecision decision = policy->decide(in);
    EXPECT_EQ(decision.pause, microseconds(500) * i);
    in.last_wakeup = decision.last_wakeup;
  }
  // One that comes when all have gone pays its own delay and no more.
  in.now = in.last_wakeup + seconds(1);
  EXPECT_EQ(policy->decide(in).pause, microseconds(500));
  // After a clock that was set back by an hour.
  in.last_wakeup = in.now + seconds(3600);
  EXPECT_EQ(policy->decide(in).pause, microseconds(500));
  // The queue's end.
  in.last_wakeup = in.now + delay_curve::kLongestQueue;
  EXPECT_EQ(policy->decide(in).pause, delay_curve::kLongestQueue);
}

TEST(ThrottlePolicyHardLimit, NeverPauses) {
  const auto policy = find_throttle_policy("hard-limit")->make();
  EXPECT_EQ(policy->free_run_bytes({100, 200}), 200U);
  for (const std::uint64_t dirty : {0UL, 150 * kMega, 200 * kMega}) {
    EXPECT_EQ(policy->decide(inputs_at(dirty)).pause.ns, 0);
  }
}

TEST(ThrottlePolicies, AreRegistered) {
  for (const char* name : {"hard-limit", "linux", "delay-curve"}) {
    const ThrottlePolicy* policy = find_throttle_policy(name);
    ASSERT_NE(policy, nullptr) << name;
    EXPECT_EQ(policy->make()->name(), name);
  }
  EXPECT_EQ(find_throttle_policy("no-such"), nullptr);
}

// ---- shares ----

TEST(CompletionShares, HalveEveryThreeSeconds) {
  CompletionShares shares;
  CompletionShares::Part a;
  CompletionShares::Part b;
  shares.join(a);
  shares.join(b);
  Instant now = Instant{0} + seconds(100);
  constexpr std::uint64_t kWhole = CompletionShares::kWhole;
  EXPECT_EQ(shares.share(a, now), kWhole / 2) << "nothing written yet: equal";
  shares.add(a, 3000, now);
  EXPECT_EQ(shares.share(a, now), kWhole);
  EXPECT_EQ(shares.share(b, now), 0U);
  shares.add(b, 1000, now);
  EXPECT_EQ(shares.share(a, now), kWhole * 3 / 4);
  // A period later 3000 counts for 1500 and 1000 for 500; 2000 more for b: 1500 to 2500.
  now = now + seconds(3);
  shares.add(b, 2000, now);
  EXPECT_EQ(shares.share(a, now), kWhole * 1500 / 4000);
  // An idle night changes nothing.
  const std::uint64_t before = shares.share(b, now);
  now = now + seconds(8 * 3600);
  EXPECT_NEAR(static_cast<double>(shares.share(b, now)), static_cast<double>(before), 50);
  // b alone from here on: a's part is halved each period.
  double last = static_cast<double>(shares.share(a, now));
  for (int i = 0; i < 5; ++i) {
    now = now + seconds(3);
    shares.add(b, 1'000'000, now);
    EXPECT_LT(static_cast<double>(shares.share(a, now)), last);
    last = static_cast<double>(shares.share(a, now));
  }
  EXPECT_LT(last, 10.0);
  shares.leave(b);
  shares.add(a, 1000, now);
  EXPECT_GT(shares.share(a, now), kWhole * 9 / 10);
}

TEST(DeviceShare, LiesBetweenItsLeastAndMostParts) {
  constexpr std::uint64_t kWhole = CompletionShares::kWhole;
  BackingDeviceOptions o;
  EXPECT_EQ(share_of_threshold(1000, kWhole, o, 0), 1000U);
  EXPECT_EQ(share_of_threshold(1000, kWhole / 4, o, 0), 250U);
  o.most_part = 10'000;  // 1%
  EXPECT_EQ(share_of_threshold(1000, kWhole, o, 0), 10U);
  o = {};
  o.least_part = 200'000;
  EXPECT_EQ(share_of_threshold(1000, 0, o, 200'000), 200U);
  // 20% its own, 10% another's: a quarter of the 70% left.
  EXPECT_EQ(share_of_threshold(1000, kWhole / 4, o, 300'000), 200U + 175U);
  EXPECT_EQ(share_of_threshold(1ULL << 60, kWhole, {}, 0), 1ULL << 60);
}

}  // namespace
}  // namespace tidewheel
