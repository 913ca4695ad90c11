// bench/command_line.h: the subcommands and their options, and what each value may be.
// Threads:   pure functions.
// Errors:    one line "WHAT: WHY" that names the option and what it accepts; exit status 2.
#pragma once
#include <span>
#include <string>
#include <variant>

#include "bench/arguments.h"
#include "bench/options.h"

namespace tidewheel::bench {

std::span<const SubcommandSpec> subcommand_specs();
std::string_view program_version();

struct UsageError {
  std::string line;
};

// `command` is the whole command line, kept for the JSON.
std::variant<FsmarkOptions, UsageError> fsmark_options(const Arguments& arguments,
                                                       std::vector<std::string> command);
std::variant<CompareOptions, UsageError> compare_options(const Arguments& arguments,
                                                         std::vector<std::string> command);
// The line for a subcommand that this version knows but cannot do yet; empty for the others.
std::string not_available_line(std::string_view subcommand);

}  // namespace tidewheel::bench
