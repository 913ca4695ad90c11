// bench/html_over_time.h: the page's charts of runs over time, a figure per design.
// Threads:   pure functions.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/run_figures.h"

namespace tidewheel::bench {

struct DesignRuns {
  std::string design;
  std::size_t colour = 0;
  std::vector<const RunFigures*> runs;  // one per round
};
std::string over_time_charts(const std::vector<DesignRuns>& designs, const std::string& threads,
                             std::uint64_t background_bytes, std::uint64_t dirty_bytes,
                             const std::function<std::string()>& next_id);

// The run over time in stretches of at least `least_s`, so that rates are not those of single samples.
struct Stretch {
  double to_s = 0, files_per_s = 0, mb_per_s = 0;
  double dirty_bytes = 0, writeback_bytes = 0;  // at its moment with the most of both
  double throttled_threads = 0;                 // the most
};
std::vector<Stretch> stretches_of(const RunFigures::Series& series, double least_s);

}  // namespace tidewheel::bench
