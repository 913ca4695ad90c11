// bench/load_points.h: cuts a run's samples into the three load points of the seeds.
// Threads:   a pure function.
// Units:     Instants of one clock; totals count from the start of the run and never fall.
// Invariant: the seconds, files and I/Os of the three points add up to those of all counted samples.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"

namespace tidewheel::bench {

// Totals at one moment. The stretch from the sample before it belongs to the run when `counted`.
struct LoadSample {
  Instant at;
  std::uint64_t files = 0;
  std::uint64_t write_ios = 0;
  std::uint64_t write_bytes = 0;
  bool counted = true;
};

struct LoadPoint {
  std::uint64_t files = 0;
  double seconds = 0;
  double files_per_s = 0;
  double write_iops = 0;
  double write_mb_per_s = 0;  // of 10^6 bytes
};

struct LoadPoints {
  std::optional<LoadPoint> below_background, below_foreground, sustained;
};

// below_background until dirty + writeback bytes first passed the background threshold, sustained from
// the first throttled writer on, below_foreground between the two. A stretch in which a boundary lies is
// cut there and its totals shared out by time, but for I/O at the background threshold: until there it
// goes on as in the stretch before, the rest comes after. A point of no length was not reached.
LoadPoints cut_load_points(std::span<const LoadSample> samples, std::optional<Instant> background_passed,
                           std::optional<Instant> first_throttled);

}  // namespace tidewheel::bench
