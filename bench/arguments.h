// bench/arguments.h: splits a command line into named values; what they mean is bench/validate.h's.
// Owns:      nothing. The one file that includes CLI11 is arguments.cc (it costs 7 s to compile).
// Threads:   pure functions.
// Errors:    a ParseResult that is not kRun: the text to print and the exit status.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidewheel::bench {

// kPositional: a word without dashes, in the order of the table; its name is its key.
enum class ValueKind : std::uint8_t { kFlag, kValue, kRepeated, kPositional };

struct OptionSpec {
  const char* names;       // "-t,--threads"
  ValueKind kind;
  const char* value_name;  // "N"
  const char* help;
  const char* group;
};

struct SubcommandSpec {
  const char* name;
  const char* summary;
  std::span<const OptionSpec> options;
  const char* footer;
};

// Values by the option's first name, without dashes; a flag that was given has one empty value. Of a
// kValue that was given more than once the last one counts, as with getopt.
class Arguments {
 public:
  std::string subcommand;
  std::map<std::string, std::vector<std::string>, std::less<>> values;

  bool has(std::string_view name) const { return values.find(name) != values.end(); }
  const std::string* value(std::string_view name) const {
    const auto found = values.find(name);
    return found == values.end() || found->second.empty() ? nullptr : &found->second.back();
  }
};

struct ParseResult {
  enum class Kind { kRun, kText, kUsage };
  Kind kind = Kind::kRun;
  Arguments arguments;
  std::string text;  // kText: for standard output; kUsage: "WHAT: WHY", one line
};

// `words` without the program's name.
ParseResult parse_arguments(std::span<const SubcommandSpec> subcommands, std::string_view version,
                            const std::vector<std::string>& words);

}  // namespace tidewheel::bench
