#include "bench/time_series.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tidewheel::bench {
namespace {

SeriesPoint sample(std::int64_t at, std::uint64_t dirty, std::uint64_t writeback = 0) {
  return {.at = Instant{at},
          .files = static_cast<std::uint64_t>(at) * 3,
          .device_write_bytes = static_cast<std::uint64_t>(at) * 7,
          .dirty_bytes = dirty,
          .writeback_bytes = writeback,
          .throttled_threads = static_cast<std::uint32_t>(at % 17)};
}

TEST(TimeSeries, KeepsEverySampleWhileTheyAreFew) {
  TimeSeries series;
  EXPECT_TRUE(series.points().empty());
  for (std::int64_t at = 0; at < 100; ++at) series.add(sample(at, 5));
  const std::vector<SeriesPoint> points = series.points();
  ASSERT_EQ(points.size(), 100U);
  EXPECT_EQ(points[42].at.ns, 42);
  EXPECT_EQ(points[42].files, 126U);
}

TEST(TimeSeries, StaysBoundedAndKeepsEndsTotalsAndPeaks) {
  for (const std::int64_t count : {159, 160, 161, 317, 318, 319, 320, 1000, 99'999}) {
    TimeSeries series;
    const std::int64_t peak = count / 3;
    for (std::int64_t at = 0; at < count; ++at) {
      series.add(at == peak ? sample(at, 1000, 500) : sample(at, 10, 2));
      ASSERT_LE(series.points().size(), TimeSeries::kMostPoints);
    }
    const std::vector<SeriesPoint> points = series.points();
    EXPECT_GE(points.size(), std::min<std::size_t>(static_cast<std::size_t>(count), 79)) << count;
    EXPECT_EQ(points.front().at.ns, 0) << count;
    EXPECT_EQ(points.back().at.ns, count - 1) << count;
    EXPECT_EQ(points.back().files, static_cast<std::uint64_t>(count - 1) * 3);
    bool peak_seen = false;
    std::uint32_t throttled = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(points[i - 1].at, points[i].at);
        EXPECT_LE(points[i - 1].files, points[i].files);
      }
      peak_seen = peak_seen || (points[i].dirty_bytes == 1000 && points[i].writeback_bytes == 500);
      throttled = std::max(throttled, points[i].throttled_threads);
    }
    EXPECT_TRUE(peak_seen) << count;
    EXPECT_EQ(throttled, 16U);
  }
}

// The level that is kept is the greatest sum at one moment, not the sum of two maxima.
TEST(TimeSeries, NeverAddsUpLevelsOfDifferentMoments) {
  SeriesPoint stretch = sample(1, 100, 0);
  stretch.merge(sample(2, 0, 90));
  EXPECT_EQ(stretch.dirty_bytes + stretch.writeback_bytes, 100U);
  stretch.merge(sample(3, 60, 60));
  EXPECT_EQ(stretch.dirty_bytes, 60U);
  EXPECT_EQ(stretch.writeback_bytes, 60U);
}

}  // namespace
}  // namespace tidewheel::bench
