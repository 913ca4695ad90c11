#include "bench/fsmark.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "bench/flat_target.h"
#include "bench/fsmark_text.h"
#include "bench/interrupt.h"
#include "bench/json_report.h"
#include "bench/outputs.h"
#include "bench/posix_target.h"
#include "bench/trace_export.h"
#include "bench/workload.h"

namespace tidewheel::bench {

namespace {

// The same text to standard output and to the log file, as far as it goes.
class Transcript {
 public:
  Transcript(bool to_stdout, std::FILE* log) : to_stdout_(to_stdout), log_(log) {}
  ~Transcript() {
    if (log_ != nullptr) std::fclose(log_);
  }
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  void print(const std::string& text) {
    if (to_stdout_ && output_failure_.empty()) output_failure_ = write_text("-", text);
    if (log_ != nullptr && (std::fputs(text.c_str(), log_) < 0 || std::fflush(log_) != 0)) log_failed_ = true;
  }
  bool log_failed() const { return log_failed_; }
  // Why standard output did not take all of it; or empty.
  const std::string& output_failure() const { return output_failure_; }

 private:
  const bool to_stdout_;
  std::FILE* const log_;
  bool log_failed_ = false;
  std::string output_failure_;
};

std::string ctime_now() {
  const std::time_t now = std::time(nullptr);
  char text[64] = {};
  ctime_r(&now, text);
  text[std::strcspn(text, "\n")] = '\0';
  return text;
}

constexpr std::size_t kTraceEventsPerThread = 32'768;

// False: said already.
bool begin_trace(const std::string& path) {
  if (path.empty()) return true;
  if (const std::string why = path == "-" ? "" : check_output(path); !why.empty()) {
    print_error("--trace " + why);
    return false;
  }
  set_trace_ring_events(kTraceEventsPerThread);
  clear_trace();
  set_tracing(true);
  return true;
}

bool end_trace(const std::string& path) {
  if (path.empty()) return true;
  set_tracing(false);
  const TraceSnapshot trace = snapshot_trace();
  const std::string why = write_text(path, path.ends_with(".json") ? trace_json(trace) : trace_lines(trace));
  if (!why.empty()) print_error("--trace " + why);
  if (trace.dropped != 0) {
    std::fprintf(stderr, "--trace: %llu events, before them %llu that were overwritten\n",
                 static_cast<unsigned long long>(trace.events.size()),
                 static_cast<unsigned long long>(trace.dropped));
  }
  return why.empty();
}

}  // namespace

void print_error(const std::string& line) { std::fprintf(stderr, "tidewheel: %s\n", line.c_str()); }

int run_fsmark(const FsmarkOptions& options) {
  const WorkloadOptions& workload = options.workload;
  // Every output is opened before the work, so that an hour's run is not lost to a misspelt path.
  std::FILE* log = nullptr;
  if (!workload.log_file.empty()) {
    log = std::fopen(workload.log_file.c_str(), "ae");
    if (log == nullptr) {
      const std::string why = workload.log_file + ": " + std::strerror(errno);
      if (workload.log_given) {
        print_error("-l " + why);
        return 1;
      }
      // Nobody asked for it.
      print_error(why + ": this run keeps no log");
    }
  }
  Transcript transcript(options.json_path != "-", log);
  std::FILE* csv = nullptr;
  if (!options.interval_csv_path.empty()) {
    csv = std::fopen(options.interval_csv_path.c_str(), "we");
    if (csv == nullptr) {
      print_error("--interval-csv " + options.interval_csv_path + ": " + std::strerror(errno));
      return 1;
    }
  }
  if (!options.json_path.empty() && options.json_path != "-") {
    if (const std::string why = check_output(options.json_path); !why.empty()) {
      print_error("--json " + why);
      if (csv != nullptr) std::fclose(csv);
      return 1;
    }
  }
  if (!begin_trace(options.trace_path)) {
    if (csv != nullptr) std::fclose(csv);
    return 1;
  }
  // A signal while the device is opened and looked through ends the program as usual: nothing is written yet.
  auto made = make_target(options);
  if (const std::string* why = std::get_if<std::string>(&made)) {
    print_error(*why);
    if (csv != nullptr) std::fclose(csv);
    return 1;
  }
  catch_interrupts();
  WorkloadTarget& target = *std::get<0>(made);
  transcript.print(fsmark_header(options, ctime_now(), target.description()));
  RunWatch watch;
  watch.on_loop = [&](const LoopResult& loop, std::uint64_t count) {
    transcript.print(fsmark_row(workload, loop, count));
  };
  watch.interval_csv = csv;
  watch.progress = isatty(STDERR_FILENO) == 1;
  RunResult result = run_workload(options, target, watch);
  const Result<void> ended = target.shut_down();
  if (!ended) {
    result.errors.push_back("shut down: " + std::string(ended.error().sentence()));
  }
  const bool traced = end_trace(options.trace_path);
  transcript.print(fsmark_footer(result.loops));
  transcript.print(fsmark_owners(result));
  if (result.full) transcript.print("# full after " + std::to_string(result.files) + " files\n");
  if (result.verified_files) {
    transcript.print("# verified: every byte of " + std::to_string(*result.verified_files) + " files\n");
  }
  if (result.interrupted) transcript.print("# interrupted: figures are of what was done until then\n");
  if (result.disturbed()) {
    transcript.print(
        "# other programs or the hypervisor took more than 5% of the CPU used during this run\n");
  }
  bool failed = !result.errors.empty() || !traced;
  if (!options.json_path.empty()) {
    if (const std::string why = write_text(options.json_path, fsmark_json(result, options.command));
        !why.empty()) {
      print_error("--json " + why);
      failed = true;
    }
  }
  if (!transcript.output_failure().empty()) {
    print_error(transcript.output_failure());
    failed = true;
  }
  if (transcript.log_failed()) {
    print_error((workload.log_given ? "-l " : "") + workload.log_file + ": it could not be written");
    failed = true;
  }
  if (!result.errors.empty()) print_error(result.errors.front());
  return failed ? 1 : 0;
}

std::variant<std::unique_ptr<WorkloadTarget>, std::string> make_target(const FsmarkOptions& options) {
  if (options.target == TargetKind::kPosix) return make_posix_target(options.workload.directories);
  return make_flat_target(options);
}

}  // namespace tidewheel::bench
