// writeback/bandwidth_estimate.h: how fast a device writes back, and how fast its writers dirty: pure
// functions from one estimate to the next.
// Owns:      nothing.
// Threads:   values.
// Units:     bytes and bytes per second as the thresholds count them: data, and the overhead of each object.
//            So a device that writes 100 MB/s of 4 KiB files with 1 KiB overhead each counts as 125.
// Source:    published descriptions of Linux's dirty throttling (writeback bandwidth estimation);
//            docs/throttling.md.
#pragma once
#include <cstdint>

#include "base/time.h"

namespace tidewheel {

// How fast tasks may dirty on a device: a policy's own (Throttle::next_rates).
struct DirtyRates {
  std::uint64_t dirty_ratelimit = 100'000'000;           // the base rate of each task
  std::uint64_t balanced_dirty_ratelimit = 100'000'000;  // what the last sample alone says it should be

  friend bool operator==(const DirtyRates&, const DirtyRates&) = default;
};

// One sampling period: what was dirtied and written in it.
struct RateSample {
  Duration elapsed;
  std::uint64_t dirtied_bytes = 0;
  std::uint64_t written_bytes = 0;
};

struct BandwidthEstimate {
  static constexpr std::uint64_t kInitialBytesPerS = 100'000'000;
  static constexpr Duration kSampling = milliseconds(200);
  // The average goes over 3 s, rounded up to a power of two of the clock's unit: 4.29 s.
  static constexpr Duration kWindow{1LL << 32};
  // A device that had nothing to write for longer than this is measured from when it has again.
  static constexpr Duration kIdle = seconds(1);

  std::uint64_t write_bandwidth = kInitialBytesPerS;  // over the last window
  std::uint64_t average_write_bandwidth = kInitialBytesPerS;  // the same, smoothed: what policies use
  DirtyRates rates;

  friend bool operator==(const BandwidthEstimate&, const BandwidthEstimate&) = default;
};

// The estimate after `sample`. The sample counts for elapsed / kWindow of write_bandwidth, or for all of it
// when it is longer. The average moves by an eighth of the difference, and only when it lies beyond the old
// estimate on the side to which that has just moved: what rises and falls around it leaves it alone.
BandwidthEstimate update_bandwidth(BandwidthEstimate now, const RateSample& sample);

// The limit that control goes by: follows `threshold` up at once, and down by 1/32 of the way each 200 ms,
// never below what is dirty.
inline constexpr std::uint64_t kDirtyLimitStep = 32;
std::uint64_t follow_dirty_limit(std::uint64_t limit, std::uint64_t threshold, std::uint64_t dirty);

}  // namespace tidewheel
