// base/histogram.h: how long things took: counts in log-linear buckets, percentiles within 1/32.
// Owns:      its buckets (about 9 KiB); record() allocates nothing.
// Threads:   LatencyHistogram belongs to one thread and is merged when that is done.
//            SharedLatencyHistogram takes record() from any thread (16 shards, relaxed counters).
// Units:     nanoseconds. Values above 2^40 (18 minutes) count in the last bucket; max() stays exact.
// Invariant: percentile(p) >= the exact percentile, and at most 1/32 above it.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/config.h"
#include "base/log_linear.h"
#include "base/thread.h"

namespace tidewheel {

struct LatencySummary {
  std::uint64_t count = 0;
  std::uint64_t p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

class LatencyHistogram {
 public:
  using Buckets = LogLinear<5>;
  static constexpr std::uint64_t kLongestNs = 1ULL << 40;
  static constexpr std::size_t kBuckets = Buckets::index(kLongestNs) + 1;
  static constexpr std::size_t bucket_of(std::uint64_t ns) {
    return Buckets::index(ns < kLongestNs ? ns : kLongestNs);
  }

  void record(std::uint64_t ns) {
    ++counts_[bucket_of(ns)];
    ++count_;
    sum_ += ns;
    if (ns > max_) max_ = ns;
  }
  void merge(const LatencyHistogram& other);
  void reset() { *this = LatencyHistogram{}; }

  std::uint64_t count() const { return count_; }
  std::uint64_t sum_ns() const { return sum_; }
  std::uint64_t max_ns() const { return max_; }
  // per_mille of the values are at or below the answer (500: the median; 999: p999); 0 when it is empty.
  std::uint64_t percentile_ns(std::uint32_t per_mille) const;
  LatencySummary summary() const;

 private:
  friend class SharedLatencyHistogram;
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

class SharedLatencyHistogram {
 public:
  SharedLatencyHistogram() : shards_(std::make_unique<std::array<Shard, kShards>>()) {}
  void record(std::uint64_t ns) {
    Shard& shard = (*shards_)[thread_number() % kShards];
    shard.counts[LatencyHistogram::bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
    shard.sum.fetch_add(ns, std::memory_order_relaxed);
    std::uint64_t max = shard.max.load(std::memory_order_relaxed);
    while (ns > max && !shard.max.compare_exchange_weak(max, ns, std::memory_order_relaxed)) {
    }
  }
  // A copy of what has been recorded; records that run beside it may be in it or not.
  std::unique_ptr<LatencyHistogram> snapshot() const;
  LatencySummary summary() const { return snapshot()->summary(); }

 private:
  static constexpr std::uint32_t kShards = 16;
  struct alignas(kCacheLine) Shard {
    std::array<std::atomic<std::uint64_t>, LatencyHistogram::kBuckets> counts{};
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::uint64_t> max{0};
  };
  std::unique_ptr<std::array<Shard, kShards>> shards_;
};

}  // namespace tidewheel
