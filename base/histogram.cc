#include "base/histogram.h"

#include <algorithm>

namespace tidewheel {

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::uint64_t LatencyHistogram::percentile_ns(std::uint32_t per_mille) const {
  if (count_ == 0) return 0;
  // The rank, rounded up: with 10 values p90 is the 9th, p99 the 10th.
  const auto wide = static_cast<unsigned __int128>(count_) * std::min(per_mille, 1000U);
  const std::uint64_t rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>((wide + 999) / 1000));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= rank) return i + 1 == kBuckets ? max_ : std::min(Buckets::upper(i), max_);
  }
  return max_;
}

LatencySummary LatencyHistogram::summary() const {
  return LatencySummary{.count = count_,
                        .p50 = percentile_ns(500),
                        .p90 = percentile_ns(900),
                        .p99 = percentile_ns(990),
                        .p999 = percentile_ns(999),
                        .max = max_};
}

std::unique_ptr<LatencyHistogram> SharedLatencyHistogram::snapshot() const {
  auto all = std::make_unique<LatencyHistogram>();
  for (const Shard& shard : *shards_) {
    for (std::size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
      const std::uint64_t n = shard.counts[i].load(std::memory_order_relaxed);
      all->counts_[i] += n;
      all->count_ += n;
    }
    all->sum_ += shard.sum.load(std::memory_order_relaxed);
    all->max_ = std::max(all->max_, shard.max.load(std::memory_order_relaxed));
  }
  return all;
}

}  // namespace tidewheel
