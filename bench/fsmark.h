// bench/fsmark.h: the subcommand: one run, its text, log and JSON.
// Errors:    one line on standard error; the exit status is the return value.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "bench/options.h"
#include "bench/target.h"

namespace tidewheel::bench {

int run_fsmark(const FsmarkOptions& options);

// The target that the options name, ready for work; or the line that says why not.
std::variant<std::unique_ptr<WorkloadTarget>, std::string> make_target(const FsmarkOptions& options);

// "tidewheel: LINE" on standard error.
void print_error(const std::string& line);

}  // namespace tidewheel::bench
