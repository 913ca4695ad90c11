#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/thread.h"

namespace tidewheel {
namespace {

TEST(LogLinear, BoundsEveryValueWithinItsStep) {
  using Buckets = LogLinear<5>;
  std::size_t last = 0;
  for (unsigned shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t delta : {0ULL, 1ULL, 2ULL, 3ULL}) {
      for (const std::uint64_t value : {(1ULL << shift) + delta, (1ULL << shift) - delta}) {
        const std::size_t i = Buckets::index(value);
        ASSERT_LT(i, Buckets::kBuckets);
        ASSERT_LE(Buckets::lower(i), value);
        ASSERT_GE(Buckets::upper(i), value);
        ASSERT_LE(Buckets::upper(i) - Buckets::lower(i), value / 32);
      }
    }
    ASSERT_GE(Buckets::index(1ULL << shift), last);
    last = Buckets::index(1ULL << shift);
  }
  for (std::size_t i = 1; i < Buckets::kBuckets; ++i) {
    ASSERT_EQ(Buckets::lower(i), Buckets::upper(i - 1) + 1) << "no gap and no overlap before bucket " << i;
  }
  EXPECT_EQ(Buckets::index(UINT64_MAX), Buckets::kBuckets - 1);
}

TEST(LatencyHistogram, AnswersPercentilesWithinOneStep) {
  Rng rng(11);
  LatencyHistogram histogram;
  std::vector<std::uint64_t> exact;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t ns = rng.next() >> (24 + rng.below(40));
    histogram.record(ns);
    exact.push_back(ns);
  }
  std::sort(exact.begin(), exact.end());
  for (const std::uint32_t per_mille : {1U, 500U, 900U, 990U, 999U, 1000U}) {
    const std::uint64_t truth = exact[(exact.size() * per_mille + 999) / 1000 - 1];
    const std::uint64_t answer = histogram.percentile_ns(per_mille);
    EXPECT_GE(answer, truth) << per_mille;
    EXPECT_LE(answer, truth + truth / 32) << per_mille;
  }
  EXPECT_EQ(histogram.summary().max, exact.back());
  EXPECT_EQ(histogram.count(), exact.size());
}

TEST(LatencyHistogram, RoundsRanksUp) {
  LatencyHistogram histogram;
  for (std::uint64_t ns = 1; ns <= 10; ++ns) histogram.record(ns);
  EXPECT_EQ(histogram.percentile_ns(500), 5U);
  EXPECT_EQ(histogram.percentile_ns(900), 9U);
  EXPECT_EQ(histogram.percentile_ns(990), 10U) << "99% of ten are all ten";
  EXPECT_EQ(histogram.percentile_ns(1), 1U);
}

TEST(LatencyHistogram, HandlesTheExtremes) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile_ns(999), 0U);
  histogram.record(0);
  EXPECT_EQ(histogram.percentile_ns(500), 0U);
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.percentile_ns(1000), UINT64_MAX);
  EXPECT_EQ(histogram.max_ns(), UINT64_MAX);
}

TEST(LatencyHistogram, MergesIntoWhatOneWouldHaveRecorded) {
  LatencyHistogram a, b, both;
  for (std::uint64_t ns = 1; ns < 100'000; ns += 37) {
    (ns % 2 == 0 ? a : b).record(ns);
    both.record(ns);
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.sum_ns(), both.sum_ns());
  for (std::uint32_t p = 0; p <= 1000; p += 10) ASSERT_EQ(a.percentile_ns(p), both.percentile_ns(p));
}

TEST(SharedLatencyHistogram, CountsEveryRecordOfEveryThread) {
  SharedLatencyHistogram histogram;
  std::vector<Thread> threads;
  for (std::uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back("recorder", [&histogram, t] {
      for (std::uint64_t i = 0; i < 10'000; ++i) histogram.record(t * 1'000);
    });
  }
  for (Thread& thread : threads) thread.join();
  const LatencySummary summary = histogram.summary();
  EXPECT_EQ(summary.count, 40'000U);
  EXPECT_EQ(summary.max, 4'000U);
  EXPECT_GE(summary.p50, 2'000U);
  EXPECT_LE(summary.p50, 2'000U + 2'000U / 32);
}

}  // namespace
}  // namespace tidewheel
