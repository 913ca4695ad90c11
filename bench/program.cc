#include "bench/program.h"

#include "bench/command_line.h"
#include "bench/compare.h"
#include "bench/crash.h"
#include "bench/fsmark.h"
#include "bench/image_tools.h"
#include "bench/outputs.h"

namespace tidewheel::bench {

namespace {

int usage(const std::string& line) {
  print_error(line);
  return 2;
}

}  // namespace

int run_program(std::vector<std::string> words) {
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (!rest.empty()) {
    if (const std::string line = not_available_line(rest.front()); !line.empty()) return usage(line);
  }
  const ParseResult parsed = parse_arguments(subcommand_specs(), program_version(), rest);
  if (parsed.kind == ParseResult::Kind::kText) {
    const std::string why = write_text("-", parsed.text);
    if (!why.empty()) print_error(why);
    return why.empty() ? 0 : 1;
  }
  if (parsed.kind == ParseResult::Kind::kUsage) return usage(parsed.text);
  if (parsed.arguments.subcommand == "fsmark") {
    const auto options = fsmark_options(parsed.arguments, std::move(words));
    if (const auto* error = std::get_if<UsageError>(&options)) return usage(error->line);
    return run_fsmark(std::get<FsmarkOptions>(options));
  }
  if (parsed.arguments.subcommand == "mkfs") {
    const auto options = mkfs_options(parsed.arguments, std::move(words));
    if (const auto* error = std::get_if<UsageError>(&options)) return usage(error->line);
    return run_mkfs(std::get<MkfsOptions>(options));
  }
  if (parsed.arguments.subcommand == "dump") {
    const auto options = dump_options(parsed.arguments);
    if (const auto* error = std::get_if<UsageError>(&options)) return usage(error->line);
    return run_dump(std::get<DumpOptions>(options));
  }
  if (parsed.arguments.subcommand == "crash") {
    const auto options = crash_options(parsed.arguments, std::move(words));
    if (const auto* error = std::get_if<UsageError>(&options)) return usage(error->line);
    return run_crash(std::get<CrashOptions>(options));
  }
  const auto options = compare_options(parsed.arguments, std::move(words));
  if (const auto* error = std::get_if<UsageError>(&options)) return usage(error->line);
  return run_compare(std::get<CompareOptions>(options));
}

}  // namespace tidewheel::bench
