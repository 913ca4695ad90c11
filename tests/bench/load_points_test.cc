#include "bench/load_points.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tidewheel::bench {
namespace {

constexpr Instant at_ms(std::int64_t ms) { return Instant{ms * 1'000'000}; }

LoadSample sample(std::int64_t ms, std::uint64_t files, std::uint64_t ios, std::uint64_t bytes,
                  bool counted = true) {
  return {.at = at_ms(ms), .files = files, .write_ios = ios, .write_bytes = bytes, .counted = counted};
}

TEST(LoadPoints, WithoutABoundaryEverythingIsBelowBackground) {
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 100, 0, 0), sample(100, 200, 0, 0)};
  const LoadPoints points = cut_load_points(samples, std::nullopt, std::nullopt);
  ASSERT_TRUE(points.below_background);
  EXPECT_EQ(points.below_background->files, 200U);
  EXPECT_DOUBLE_EQ(points.below_background->seconds, 0.1);
  EXPECT_DOUBLE_EQ(points.below_background->files_per_s, 2000);
  EXPECT_FALSE(points.below_foreground) << "not reached is null, not 0";
  EXPECT_FALSE(points.sustained);
}

TEST(LoadPoints, ASampleIsCutWhereABoundaryIsPassed) {
  // 100 files and 10 I/Os in 50 ms; the boundary 10 ms in.
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 100, 10, 50'000'000)};
  const LoadPoints points = cut_load_points(samples, at_ms(10), std::nullopt);
  ASSERT_TRUE(points.below_background);
  ASSERT_TRUE(points.below_foreground);
  EXPECT_EQ(points.below_background->files, 20U);
  EXPECT_EQ(points.below_foreground->files, 80U);
  EXPECT_DOUBLE_EQ(points.below_foreground->seconds, 0.04);
  // Nothing was written before the threshold, so all of it was after.
  EXPECT_DOUBLE_EQ(points.below_background->write_iops, 0);
  EXPECT_DOUBLE_EQ(points.below_foreground->write_iops, 250);
  EXPECT_DOUBLE_EQ(points.below_foreground->write_mb_per_s, 1250);
}

TEST(LoadPoints, WritingThatWasGoingOnGoesOnUntilTheThreshold) {
  // 100 I/Os a second (what is old is written), then many more.
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 100, 5, 5'000),
                                sample(100, 200, 55, 1'000'000)};
  const LoadPoints points = cut_load_points(samples, at_ms(80), std::nullopt);
  ASSERT_TRUE(points.below_background && points.below_foreground);
  EXPECT_NEAR(points.below_background->write_iops, 100, 1e-6);
  EXPECT_NEAR(points.below_foreground->write_iops * points.below_foreground->seconds, 47, 1e-6);
}

TEST(LoadPoints, AtTheThrottleIoIsSharedOutByTime) {
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 100, 10, 50'000'000)};
  const LoadPoints points = cut_load_points(samples, at_ms(0), at_ms(40));
  ASSERT_TRUE(points.below_foreground && points.sustained);
  EXPECT_DOUBLE_EQ(points.below_foreground->write_iops, 200);
  EXPECT_DOUBLE_EQ(points.sustained->write_iops, 200);
}

TEST(LoadPoints, AllThreePointsFitInOneSample) {
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 500, 0, 0)};
  const LoadPoints points = cut_load_points(samples, at_ms(20), at_ms(30));
  ASSERT_TRUE(points.below_background && points.below_foreground && points.sustained);
  EXPECT_EQ(points.below_background->files, 200U);
  EXPECT_EQ(points.below_foreground->files, 100U);
  EXPECT_EQ(points.sustained->files, 200U);
}

TEST(LoadPoints, APointThatLastedNoTimeWasNotReached) {
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 500, 0, 0)};
  const LoadPoints points = cut_load_points(samples, at_ms(20), at_ms(20));
  EXPECT_TRUE(points.below_background);
  EXPECT_FALSE(points.below_foreground);
  EXPECT_TRUE(points.sustained);
  EXPECT_FALSE(cut_load_points(samples, at_ms(50), std::nullopt).below_foreground)
      << "a boundary at the very end";
  EXPECT_FALSE(cut_load_points(samples, at_ms(0), std::nullopt).below_background)
      << "a boundary at the very start";
}

TEST(LoadPoints, ThrottledBeforeBackgroundCountsAsSustained) {
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 500, 0, 0), sample(100, 600, 0, 0)};
  const LoadPoints points = cut_load_points(samples, at_ms(80), at_ms(50));
  ASSERT_TRUE(points.below_background && points.sustained);
  EXPECT_EQ(points.below_background->files, 500U);
  EXPECT_EQ(points.sustained->files, 100U);
  EXPECT_FALSE(points.below_foreground);
}

TEST(LoadPoints, WhatLiesBetweenLoopsIsNotCounted) {
  const LoadSample samples[] = {sample(0, 0, 0, 0, false), sample(50, 100, 0, 0),
                                sample(90, 100, 7, 0, false), sample(100, 150, 7, 0)};
  const LoadPoints points = cut_load_points(samples, std::nullopt, std::nullopt);
  ASSERT_TRUE(points.below_background);
  EXPECT_EQ(points.below_background->files, 150U);
  EXPECT_DOUBLE_EQ(points.below_background->seconds, 0.06);
  EXPECT_DOUBLE_EQ(points.below_background->write_iops, 0);
  // A boundary passed in the gap belongs to what follows.
  const LoadPoints cut = cut_load_points(samples, at_ms(70), std::nullopt);
  EXPECT_EQ(cut.below_background->files, 100U);
  EXPECT_EQ(cut.below_foreground->files, 50U);
}

TEST(LoadPoints, NothingIsLostNorCountedTwice) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<LoadSample> samples = {sample(0, 0, 0, 0, false)};
    double counted_s = 0;
    double counted_files = 0;
    for (int i = 0; i < 20; ++i) {
      LoadSample next = samples.back();
      const auto step_ms = static_cast<std::int64_t>(rng.below(50));
      next.at = next.at + milliseconds(step_ms);
      // A stretch without length holds nothing.
      const std::uint64_t files = step_ms == 0 ? 0 : rng.below(1000);
      next.files += files;
      next.counted = !rng.chance(4);
      if (next.counted) {
        counted_s += static_cast<double>(step_ms) * 1e-3;
        counted_files += static_cast<double>(files);
      }
      samples.push_back(next);
    }
    const auto moment = [&]() -> std::optional<Instant> {
      if (rng.chance(4)) return std::nullopt;
      return at_ms(static_cast<std::int64_t>(rng.below(600)));
    };
    const auto background = moment();
    const auto throttled = moment();
    const LoadPoints points = cut_load_points(samples, background, throttled);
    double sum_s = 0;
    double sum_files = 0;
    for (const auto& point : {points.below_background, points.below_foreground, points.sustained}) {
      if (!point) continue;
      EXPECT_GT(point->seconds, 0);
      sum_s += point->seconds;
      sum_files += point->files_per_s * point->seconds;
    }
    EXPECT_NEAR(sum_s, counted_s, 1e-9) << "seed 7, round " << round;
    EXPECT_NEAR(sum_files, counted_files, 1e-6 * (counted_files + 1)) << "seed 7, round " << round;
  }
}

}  // namespace
}  // namespace tidewheel::bench
