#include "bench/crash_json.h"

#include <nlohmann/json.hpp>

#include "bench/machine.h"

namespace tidewheel::bench {

using nlohmann::ordered_json;

std::string crash_json(const CrashOptions& options, const std::vector<CrashReport>& reports,
                       const std::string& started, double seconds, bool interrupted) {
  const MachineDescription machine = describe_machine();
  ordered_json out = {{"schema", "tidewheel.crash/1"},
                      {"version", program_version()},
                      {"machine",
                       {{"cpus", machine.cpus},
                        {"model", machine.model},
                        {"memory_bytes", machine.memory_bytes},
                        {"kernel", machine.kernel}}},
                      {"command", options.command},
                      {"seed", options.seed},
                      {"started", started}};
  ordered_json names = ordered_json::array(), details = ordered_json::array();
  ordered_json failures = ordered_json::array(), errors = ordered_json::array();
  std::uint64_t states = 0;
  for (const CrashReport& report : reports) {
    const Exploration& found = report.found;
    names.push_back(report.workload);
    states += found.states;
    details.push_back({{"workload", report.workload},
                       {"runs", found.runs},
                       {"cuts", found.cuts},
                       {"states", found.states},
                       {"nested", found.nested},
                       {"rechecks", found.rechecks},
                       {"duplicates", found.duplicates},
                       {"second_recoveries", found.second_recoveries},
                       {"seconds", found.seconds},
                       {"states_per_s", found.states_per_s()}});
    for (const CrashFailure& failure : found.failures) {
      failures.push_back({{"workload", failure.workload},
                          {"state", failure.state},
                          {"oracle", failure.oracle},
                          {"detail", failure.detail},
                          {"replay", failure.replay},
                          {"states_before", failure.states_before}});
    }
    if (!found.broken.empty()) errors.push_back(report.workload + ": " + found.broken);
  }
  out["workloads"] = std::move(names);
  out["states"] = states;
  out["seconds"] = seconds;
  out["states_per_s"] = seconds > 0 ? static_cast<double>(states) / seconds : 0.0;
  out["failures"] = std::move(failures);
  out["details"] = std::move(details);
  out["recovered"] = options.recover;
  out["interrupted"] = interrupted;
  out["errors"] = std::move(errors);
  return out.dump(2) + "\n";
}

}  // namespace tidewheel::bench
