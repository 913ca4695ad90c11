// bench/json_report.h: the JSON of a run, as a string, so that json.hpp stays in one .cc file.
// Threads:   pure functions.
#pragma once
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/run_result.h"

namespace tidewheel::bench {

std::string fsmark_json(const RunResult& result, const std::vector<std::string>& command);

// What compare reads out of a child's JSON.
struct RunFigures {
  std::string design;
  std::uint32_t threads = 0, round = 0;
  double files_per_s = 0, cpu_us_per_file = 0, wall_s = 0;
  std::uint64_t files = 0;
  struct Point {
    double files_per_s = 0, write_iops = 0, write_mb_per_s = 0, seconds = 0;
  };
  std::optional<Point> below_background, below_foreground, sustained;
  double contended_per_million = 0;  // of the dirty list's locks
  double lock_wait_ms = 0;           // of the dirty list's locks, all threads
  std::uint64_t max_elements_per_hold = 0;
  double write_amplification = 0;
  bool disturbed = false, interrupted = false;
  std::vector<std::string> errors;
};
// nullopt: the text is not such a JSON.
std::optional<RunFigures> read_figures(const std::string& json);

struct SummaryRow {
  std::string design;
  std::uint32_t threads = 0;
  double median = 0, low = 0, high = 0;  // files per second over the whole create phase
};
struct CompareDocument {
  std::vector<std::string> runs;  // the JSON of each
  std::vector<SummaryRow> summary;
  std::vector<std::string> command;
  std::uint64_t seed = 0;
  std::string started;
  std::uint64_t device_bandwidth = 0;
  double calibrated_files_per_s = 0;  // 0: not calibrated
  bool interrupted = false;
};
std::string compare_json(const CompareDocument& document);

}  // namespace tidewheel::bench
