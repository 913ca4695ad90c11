// bench/latency.h: how long calls took: a histogram, and the minimum and total that a histogram loses.
// Threads:   one owner each; merged when the owners rest.
// Units:     nanoseconds.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace tidewheel::bench {

// Log-linear: 32 steps to each power of two, so a percentile is at most 1/32 (3%) too high.
class LatencyHistogram {
 public:
  static constexpr std::uint32_t kStepBits = 5;
  static constexpr std::uint32_t kSteps = 1U << kStepBits;
  static constexpr std::uint32_t kBuckets = (64 - kStepBits + 1) * kSteps;

  void record(std::uint64_t ns) { ++buckets_[bucket_of(ns)]; }
  void merge(const LatencyHistogram& other) {
    for (std::uint32_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  }
  std::uint64_t count() const {
    std::uint64_t n = 0;
    for (const std::uint64_t b : buckets_) n += b;
    return n;
  }
  // The upper edge of the bucket that the given part (0 to 1) of all values lies in or below.
  std::uint64_t percentile(double part) const {
    const std::uint64_t all = count();
    std::uint64_t wanted = static_cast<std::uint64_t>(part * static_cast<double>(all));
    if (wanted >= all && all > 0) wanted = all - 1;
    std::uint64_t seen = 0;
    for (std::uint32_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen > wanted) return upper_edge(i);
    }
    return 0;
  }

  static constexpr std::uint32_t bucket_of(std::uint64_t ns) {
    if (ns < kSteps) return static_cast<std::uint32_t>(ns);
    const auto shift = static_cast<std::uint32_t>(std::bit_width(ns)) - 1 - kStepBits;
    return (shift << kStepBits) + static_cast<std::uint32_t>(ns >> shift);
  }
  static constexpr std::uint64_t upper_edge(std::uint32_t bucket) {
    if (bucket < 2 * kSteps) return bucket;
    const std::uint32_t shift = (bucket >> kStepBits) - 1;
    const std::uint64_t step = kSteps + (bucket & (kSteps - 1));
    return ((step + 1) << shift) - 1;
  }

 private:
  std::array<std::uint64_t, kBuckets> buckets_{};
};
static_assert(LatencyHistogram::bucket_of(std::numeric_limits<std::uint64_t>::max()) < LatencyHistogram::kBuckets);

struct CallSummary {
  std::uint64_t count = 0, total_ns = 0, min_ns = std::numeric_limits<std::uint64_t>::max(), max_ns = 0;

  void record(std::uint64_t ns) {
    ++count;
    total_ns += ns;
    if (ns < min_ns) min_ns = ns;
    if (ns > max_ns) max_ns = ns;
  }
  void merge(const CallSummary& other) {
    count += other.count;
    total_ns += other.total_ns;
    if (other.min_ns < min_ns) min_ns = other.min_ns;
    if (other.max_ns > max_ns) max_ns = other.max_ns;
  }
};

}  // namespace tidewheel::bench
