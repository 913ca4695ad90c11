// bench/crash_json.h: the JSON of `tidewheel crash`, schema tidewheel.crash/1.
// Threads:   pure functions.
#pragma once
#include <string>
#include <vector>

#include "bench/crash.h"

namespace tidewheel::bench {

// One workload's exploration. Of a replay: one state.
struct CrashReport {
  std::string workload;
  Exploration found;
};
std::string crash_json(const CrashOptions& options, const std::vector<CrashReport>& reports,
                       const std::string& started, double seconds, bool interrupted);

}  // namespace tidewheel::bench
