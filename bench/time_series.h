// bench/time_series.h: a run over time in a bounded number of points, for the JSON and the page.
// Owns:      the points.
// Threads:   none of its own; the sampler's lock.
// Units:     bytes; totals count from the start of the run, levels are of one moment.
// Invariant: at most kMostPoints; totals are those of the last sample of a stretch, levels those of its
//            moment with the most dirty + writeback bytes, so that a peak is never averaged away.
#pragma once
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace tidewheel::bench {

struct SeriesPoint {
  Instant at;
  std::uint64_t files = 0;
  std::uint64_t device_write_bytes = 0;
  std::uint64_t dirty_bytes = 0;
  std::uint64_t writeback_bytes = 0;
  std::uint32_t throttled_threads = 0;  // the most in the stretch

  // The stretch of this point and of `next`, which follows it.
  void merge(const SeriesPoint& next);
};

class TimeSeries {
 public:
  static constexpr std::size_t kMostPoints = 160;

  // Samples come in order of time. When there are too many points, each two become one, and every later
  // point stands for twice as many samples.
  void add(const SeriesPoint& sample);
  std::vector<SeriesPoint> points() const;

 private:
  std::vector<SeriesPoint> points_;
  std::uint64_t samples_per_point_ = 1;
  SeriesPoint open_;  // the stretch being gathered
  std::uint64_t open_samples_ = 0;
};

}  // namespace tidewheel::bench
