#include "bench/crash.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "bench/crash_json.h"
#include "bench/crash_workloads.h"
#include "bench/fsmark.h"
#include "bench/interrupt.h"
#include "bench/machine.h"
#include "bench/outputs.h"

namespace tidewheel::bench {

namespace {

constexpr std::uint32_t kMostFailures = 10;

// A recovery that dies takes the program with it: what was being recovered is said first. SA_RESETHAND: the
// signal then does what it usually does.
extern "C" void tell_states(int signal) {
  constexpr char kLine[] =
      "tidewheel: crash: died with these states under way, one a thread; --replay STRING repeats one:\n";
  if (::write(STDERR_FILENO, kLine, sizeof kLine - 1) > 0) write_states_under_way(STDERR_FILENO);
  ::raise(signal);
}

void tell_states_when_dying() {
  struct sigaction action = {};
  action.sa_handler = tell_states;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

ExploreOptions explore_options(const CrashOptions& options, const std::string& workload) {
  ExploreOptions out;
  out.workload = workload;
  out.make = find_crash_workload(workload)->make;
  out.seed = options.seed;
  out.runs = options.runs;
  out.states = options.states;
  out.threads = options.threads;
  out.recover = options.recover;
  out.max_failures = kMostFailures;
  out.stop = interrupted;
  return out;
}

std::string progress_line(const CrashOptions& options, const std::string& workload,
                          const ExploreProgress& progress, Duration time_left) {
  const double rate = progress.seconds > 0 ? static_cast<double>(progress.states) / progress.seconds : 0;
  double left = time_left == Duration::max() ? 1e18 : time_left.seconds();
  if (rate > 0 && options.states != UINT64_MAX && progress.states < options.states) {
    left = std::min(left, static_cast<double>(options.states - progress.states) / rate);
  }
  char text[160];
  std::snprintf(text, sizeof text, "\r%s: %llu states, %.0f/s, %llu runs, %llu failures", workload.c_str(),
                static_cast<unsigned long long>(progress.states), rate,
                static_cast<unsigned long long>(progress.runs),
                static_cast<unsigned long long>(progress.failures));
  std::string line = text;
  if (left < 1e9) {
    std::snprintf(text, sizeof text, ", %.0f s left", left);
    line += text;
  }
  return line + "\033[K";
}

std::string failures_text(const CrashOptions& options, const Exploration& found) {
  const std::string repeat =
      options.recover ? "tidewheel crash --replay " : "tidewheel crash --without-recovery --replay ";
  std::string text;
  for (const CrashFailure& failure : found.failures) {
    text += "FAILED " + failure.workload + ": " + failure.oracle + ": " + failure.detail + "\n  " +
            failure.state + "\n  " + repeat + failure.replay + "\n";
  }
  return text;
}

std::string summary_row(const CrashReport& report) {
  const Exploration& found = report.found;
  char text[200];
  std::snprintf(text, sizeof text, "%-10s %10llu %10llu %8llu %8llu %10.1f %10.0f %9zu\n",
                report.workload.c_str(), static_cast<unsigned long long>(found.states),
                static_cast<unsigned long long>(found.nested), static_cast<unsigned long long>(found.runs),
                static_cast<unsigned long long>(found.cuts), found.seconds, found.states_per_s(),
                found.failures.size());
  return text;
}

class Output {
 public:
  explicit Output(bool quiet) : quiet_(quiet) {}
  void print(const std::string& text) {
    if (!quiet_ && failure_.empty()) failure_ = write_text("-", text);
  }
  const std::string& failure() const { return failure_; }

 private:
  const bool quiet_;
  std::string failure_;
};

int finish(const CrashOptions& options, const std::vector<CrashReport>& reports, const std::string& started,
           double seconds, Output& output) {
  bool failed = !output.failure().empty();
  if (failed) print_error(output.failure());
  if (!options.json_path.empty()) {
    const std::string json = crash_json(options, reports, started, seconds, interrupted());
    if (const std::string why = write_text(options.json_path, json); !why.empty()) {
      print_error("--json " + why);
      failed = true;
    }
  }
  for (const CrashReport& report : reports) {
    if (!report.found.broken.empty()) print_error("crash: " + report.workload + ": " + report.found.broken);
    failed |= !report.found.broken.empty() || !report.found.failures.empty();
  }
  return failed ? 1 : 0;
}

int run_replay(const CrashOptions& options, const std::string& started) {
  Output output(options.json_path == "-");
  const Instant start = SteadyClock::instance().now();
  const ReplayName name = std::get<ReplayName>(parse_replay(options.replay));
  const Replay replayed = replay(explore_options(options, name.workload), name);
  CrashReport report{name.workload, {}};
  report.found.seconds = (SteadyClock::instance().now() - start).seconds();
  report.found.failures = replayed.failures;
  if (!replayed.refused.empty()) {
    report.found.broken = replayed.refused;
  } else {
    report.found.runs = report.found.states = 1;
    output.print(replayed.state + "\n");
    output.print(replayed.failures.empty() ? "this state passes every check\n"
                                           : failures_text(options, report.found));
  }
  const double seconds = report.found.seconds;
  return finish(options, {std::move(report)}, started, seconds, output);
}

}  // namespace

int run_crash(const CrashOptions& options) {
  const std::string started = utc_now();
  if (!options.json_path.empty() && options.json_path != "-") {
    if (const std::string why = check_output(options.json_path); !why.empty()) {
      print_error("--json " + why);
      return 1;
    }
  }
  tell_states_when_dying();
  if (!options.replay.empty()) return run_replay(options, started);
  catch_interrupts();
  Output output(options.json_path == "-");
  const bool progress = isatty(STDERR_FILENO) == 1;
  std::vector<CrashReport> reports;
  const Instant start = SteadyClock::instance().now();
  output.print("workload       states  in rec'ry     runs     cuts    seconds   states/s  failures\n");
  for (const std::string& workload : options.workloads) {
    ExploreOptions explored = explore_options(options, workload);
    const auto time_left = [&] {
      return options.time == Duration::max() ? options.time
                                             : options.time - (SteadyClock::instance().now() - start);
    };
    // What is left of the time is shared out among the workloads that are left.
    const auto workloads_left = static_cast<std::int64_t>(options.workloads.size() - reports.size());
    explored.time = options.time == Duration::max() ? options.time : time_left() / workloads_left;
    if (progress) {
      explored.on_progress = [&](const ExploreProgress& p) {
        const std::string line = progress_line(options, workload, p, time_left());
        std::fputs(line.c_str(), stderr);
      };
    }
    reports.push_back({workload, explore(explored)});
    if (progress) std::fputs("\r\033[K", stderr);
    output.print(summary_row(reports.back()) + failures_text(options, reports.back().found));
    if (interrupted()) {
      output.print("# interrupted: these are the states explored until then\n");
      break;
    }
  }
  return finish(options, reports, started, (SteadyClock::instance().now() - start).seconds(), output);
}

}  // namespace tidewheel::bench
