// bench/crash_workloads.h: the workloads that `tidewheel crash` knows. A new one is a line in the table.
// Threads:   constant.
#pragma once
#include <span>
#include <string_view>

#include "fs/crash/workload.h"

namespace tidewheel::bench {

struct CrashWorkloadEntry {
  const char* name;
  const char* summary;
  std::unique_ptr<CrashWorkload> (*make)(std::uint64_t seed);
};

std::span<const CrashWorkloadEntry> crash_workloads();
const CrashWorkloadEntry* find_crash_workload(std::string_view name);  // null: none of that name
std::string crash_workload_names();                                    // "toy, mock, trans"

}  // namespace tidewheel::bench
