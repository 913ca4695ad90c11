// bench/crash.h: the subcommand: workloads, every crash of their runs, what their recoveries left.
// Errors:    one line on standard error; the exit status is the return value: 1 when a state failed.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bench/arguments.h"
#include "bench/command_line.h"
#include "fs/crash/explorer.h"

namespace tidewheel::bench {

struct CrashOptions {
  std::vector<std::string> workloads;  // in the order of the table
  std::uint64_t seed = 1;
  std::uint64_t runs = 0;              // of each; 0: as many as `states` asks for
  std::uint64_t states = 100'000;      // of each
  Duration time = Duration::max();     // of all
  std::uint32_t threads = 0;           // 0: one per CPU
  bool recover = true;
  std::string replay;                  // one state instead; empty: none
  std::string json_path;               // empty: none; "-": standard output
  std::vector<std::string> command;
};

std::variant<CrashOptions, UsageError> crash_options(const Arguments& arguments,
                                                     std::vector<std::string> command);
int run_crash(const CrashOptions& options);

}  // namespace tidewheel::bench
