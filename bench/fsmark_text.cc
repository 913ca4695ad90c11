#include "bench/fsmark_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <functional>

namespace tidewheel::bench {

namespace {

__attribute__((format(printf, 2, 3))) void append(std::string& to, const char* format, ...) {
  va_list values;
  va_start(values, format);
  char* text = nullptr;
  if (vasprintf(&text, format, values) >= 0) {
    to += text;
    std::free(text);
  }
  va_end(values);
}

unsigned long long wide(std::uint64_t n) { return n; }

const char* sync_method_text(std::uint32_t method) {
  switch (method) {
    case 0: return "NO SYNC: Test does not issue sync() or fsync() calls.";
    case 1: return "INBAND FSYNC: fsync() per file in write loop.";
    case 2:
      return "SYSTEM SYNC/SINGLE FSYNC: Issue sync() after main write loop and 1 file fsync() per "
             "subdirectory.";
    case 3: return "POST REVERSE: Reopen and fsync() each file in reverse order after main write loop.";
    case 4:
      return "SYNC POST REVERSE: Issue sync() and then reopen and fsync() each file in reverse order after "
             "main "
             "write loop.";
    case 5: return "POST: Reopen and fsync() each file in order after main write loop.";
    default:
      return "SYNC POST: Issue sync() and then reopen and fsync() each file in order after main write loop.";
  }
}

// In the order of the -v columns.
constexpr std::pair<const char*, Call> kColumns[] = {{"CREAT", Call::kCreate}, {"WRITE", Call::kWrite},
                                                     {"FSYNC", Call::kFsync},  {"SYNC", Call::kSync},
                                                     {"CLOSE", Call::kClose},  {"UNLINK", Call::kUnlink}};

}  // namespace

std::string fsmark_header(const FsmarkOptions& options, const std::string& started,
                          const std::string& target) {
  const WorkloadOptions& workload = options.workload;
  std::string text = "\n# ";
  for (const std::string& word : options.command) text += " " + word + " ";
  append(text, "\n#\tVersion 3.3, %u thread(s) starting at %s\n", workload.threads, started.c_str());
  append(text, "#\tSync method: %s\n", sync_method_text(workload.sync_method));
  if (workload.subdirectories == 0) {
    text += "#\tDirectories:  no subdirectories used\n";
  } else if (workload.files_per_subdirectory != 0) {
    append(text,
           "#\tDirectories:  Round Robin between directories across %u subdirectories with %llu files per "
           "subdirectory.\n",
           workload.subdirectories, wide(workload.files_per_subdirectory));
  } else {
    append(
        text,
        "#\tDirectories:  Time based hash between directories across %u subdirectories with 180 seconds per "
        "subdirectory.\n",
        workload.subdirectories);
  }
  append(
      text,
      "#\tFile names: %u bytes long, (%u initial bytes of time stamp with %u random bytes at end of name)\n",
      workload.name_bytes, workload.name_bytes - workload.random_bytes, workload.random_bytes);
  append(text, "#\tFiles info: size %llu bytes, written with an IO size of %llu bytes per write\n",
         wide(workload.file_bytes), wide(workload.write_bytes));
  text +=
      "#\tApp overhead is time in microseconds spent in the test not doing file writing related system "
      "calls.\n";
  if (workload.verbose) text += "#\tAll system call times are reported in microseconds.\n";
  append(text, "#\tTarget: %s\n\n", target.c_str());
  append(text, "%6s %12s %12s %12s %16s", "FSUse%", "Count", "Size", "Files/sec", "App Overhead");
  if (workload.verbose) {
    for (const auto& [name, call] : kColumns) {
      append(text, " %26s", (std::string(name) + " (Min/Avg/Max)").c_str());
    }
  }
  text += "\n";
  return text;
}

std::string fsmark_row(const WorkloadOptions& workload, const LoopResult& loop, std::uint64_t count) {
  std::string text;
  append(text, "%6u %12llu %12llu %12.1f %16llu", loop.used_percent, wide(count), wide(workload.file_bytes),
         loop.files_per_s(), wide(loop.app_overhead_us));
  if (workload.verbose) {
    for (const auto& [name, call] : kColumns) {
      const CallSummary& calls = loop.calls[static_cast<std::size_t>(call)];
      const std::uint64_t min_ns = calls.count == 0 ? 0 : calls.min_ns;
      const std::uint64_t avg_ns = calls.count == 0 ? 0 : calls.total_ns / calls.count;
      append(text, " %8llu %8llu %8llu", wide(min_ns / 1000), wide(avg_ns / 1000), wide(calls.max_ns / 1000));
    }
  }
  text += "\n";
  return text;
}

std::string fsmark_footer(const std::vector<LoopResult>& loops) {
  if (loops.empty()) return {};
  std::vector<std::uint64_t> rates;
  double total = 0, sum_of_threads = 0;
  for (const LoopResult& loop : loops) {
    rates.push_back(static_cast<std::uint64_t>(loop.files_per_s()));
    total += loop.files_per_s();
    sum_of_threads += loop.sum_of_threads_per_s;
  }
  const auto n = static_cast<double>(loops.size());
  std::sort(rates.begin(), rates.end(), std::greater<>());
  // From high to low: 99% of the loops were at least as fast as p99 says.
  const auto at = [&](std::size_t percent) {
    return wide(rates[std::min(rates.size() - 1, rates.size() * percent / 100)]);
  };
  std::string text;
  append(text, "Average Files/sec: %12.1f\n", static_cast<double>(static_cast<std::uint64_t>(total / n)));
  append(text, "sum of threads   : %12.1f\n", sum_of_threads / n);
  append(text, "p50 Files/sec: %llu\np90 Files/sec: %llu\np99 Files/sec: %llu\n", at(50), at(90), at(99));
  return text;
}

std::string fsmark_owners(const RunResult& result) {
  std::string text;
  for (std::size_t i = 0; i < result.owners.size(); ++i) {
    const OwnerResult& own = result.owners[i];
    append(text, "owner %zu: %u thread%s, %llu files, %.1f files/s", i, own.threads,
           own.threads == 1 ? "" : "s", wide(own.files), own.files_per_s());
    if (i < result.figures.owners.size()) {
      const WritebackFigures& writeback = result.figures.owners[i].writeback;
      append(text, "; written: %llu objects, %llu pages in %llu batches", wide(writeback.objects),
             wide(writeback.pages), wide(writeback.batches));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tidewheel::bench
