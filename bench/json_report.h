// bench/json_report.h: the JSON of a run, as a string, so that json.hpp stays in one .cc file.
// Threads:   pure functions.
#pragma once
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/run_figures.h"
#include "bench/run_result.h"
#include "bench/scaling_model.h"

namespace tidewheel::bench {

std::string fsmark_json(const RunResult& result, const std::vector<std::string>& command);

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
  std::vector<ScalingModel> model;
};
struct MkfsFigures {
  std::uint64_t size = 0;
  std::uint32_t ag_count = 0, ag_blocks = 0;
  std::uint64_t log_bytes = 0;
  std::string uuid;
  std::uint64_t image_bytes_used = 0;  // of the host's disk; 0 for a disk
  double seconds = 0;
};
std::string mkfs_json(const MkfsFigures& figures, const std::vector<std::string>& command,
                      const std::string& started);

std::string compare_json(const CompareDocument& document);

}  // namespace tidewheel::bench
