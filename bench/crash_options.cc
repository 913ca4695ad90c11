// What each value of `tidewheel crash` may be.
#include <algorithm>

#include "bench/crash.h"
#include "bench/crash_workloads.h"
#include "bench/numbers.h"

namespace tidewheel::bench {

namespace {

UsageError not_accepted(const char* option, const std::string& given, const std::string& accepts) {
  std::string line = std::string(option) + ": '" + given + "' is not accepted: " + accepts;
  // What was given may hold anything; the message stays one line.
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, '?');
  return {std::move(line)};
}

// False: `error` says why.
template <class T>
bool read_count(const Arguments& arguments, const char* name, T& into, std::uint64_t low, std::uint64_t high,
                UsageError& error) {
  const std::string* given = arguments.value(name);
  if (given == nullptr) return true;
  const auto value = parse_count(*given);
  if (!value || *value < low || *value > high) {
    error = not_accepted(("--" + std::string(name)).c_str(), *given,
                         "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return false;
  }
  into = static_cast<T>(*value);
  return true;
}

// In the table's order, each once.
bool read_workloads(const Arguments& arguments, CrashOptions& options, UsageError& error) {
  const std::string* given = arguments.value("workload");
  std::string list = given == nullptr ? "all" : *given;
  const std::string accepts = "a list of " + crash_workload_names() + ", each once; or all";
  std::vector<std::string> wanted;
  for (std::size_t at = 0; list != "all" && at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    wanted.push_back(list.substr(at, end - at));
    at = end + 1;
    const bool twice = std::count(wanted.begin(), wanted.end(), wanted.back()) > 1;
    if (twice || find_crash_workload(wanted.back()) == nullptr) {
      error = not_accepted("--workload", *given, accepts);
      return false;
    }
  }
  for (const CrashWorkloadEntry& entry : crash_workloads()) {
    const bool named = std::find(wanted.begin(), wanted.end(), entry.name) != wanted.end();
    if (list == "all" || named) options.workloads.emplace_back(entry.name);
  }
  return true;
}

}  // namespace

std::variant<CrashOptions, UsageError> crash_options(const Arguments& arguments,
                                                     std::vector<std::string> command) {
  CrashOptions options;
  UsageError error;
  options.command = std::move(command);
  if (!read_workloads(arguments, options, error) ||
      !read_count(arguments, "seed", options.seed, 0, INT64_MAX, error) ||
      !read_count(arguments, "runs", options.runs, 1, 1'000'000'000, error) ||
      !read_count(arguments, "states", options.states, 1, 1'000'000'000, error) ||
      !read_count(arguments, "threads", options.threads, 1, 1024, error)) {
    return error;
  }
  options.recover = !arguments.has("without-recovery");
  if (const std::string* given = arguments.value("time"); given != nullptr) {
    const auto time = parse_duration(*given);
    if (!time || time->ns <= 0) {
      return not_accepted("--time", *given, "a length of time above 0, as 500ms or 2m");
    }
    options.time = *time;
    // The time is the limit then, unless another was named.
    if (!arguments.has("states") && !arguments.has("runs")) options.states = UINT64_MAX;
  }
  if (const std::string* given = arguments.value("json"); given != nullptr) {
    if (given->empty()) return not_accepted("--json", *given, "the name of a file");
    options.json_path = *given;
  }
  if (const std::string* given = arguments.value("replay"); given != nullptr) {
    for (const char* other : {"workload", "seed", "runs", "states", "time"}) {
      if (arguments.has(other)) {
        return UsageError{"--" + std::string(other) +
                          ": not together with --replay, whose string says it all"};
      }
    }
    const auto name = parse_replay(*given);
    if (const auto* why = std::get_if<std::string>(&name)) return not_accepted("--replay", *given, *why);
    const ReplayName& replay = std::get<ReplayName>(name);
    if (find_crash_workload(replay.workload) == nullptr) {
      return not_accepted("--replay", *given, "the workloads are " + crash_workload_names());
    }
    options.replay = *given;
    options.workloads = {replay.workload};
    options.seed = replay.seed;
  }
  return options;
}

}  // namespace tidewheel::bench
