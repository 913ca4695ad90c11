#include "bench/compare.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <variant>

#include "base/clock.h"
#include "bench/compare_table.h"
#include "bench/default_image.h"
#include "bench/fsmark.h"
#include "bench/html_page.h"
#include "bench/interrupt.h"
#include "bench/json_report.h"
#include "bench/numbers.h"
#include "bench/outputs.h"
#include "bench/workload.h"

namespace tidewheel::bench {

namespace {

constexpr double kSustainedSeconds = 1.5;
constexpr int kCalibrationRuns = 5;
// What all rounds together may take when neither -n nor --rounds says otherwise.
constexpr double kBudgetSeconds = 150;

struct ChildRun {
  std::string json;
  std::string failure;  // empty: json is whole
};

[[noreturn]] void run_as_child(const FsmarkOptions& options, const std::string& label, int out,
                               pid_t parent) {
  // A terminal's Ctrl-C goes to the parent alone, which passes it on: once.
  setpgid(0, 0);
  // Whoever ends the parent at once means this process too, which would go on with a sync for any time.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // In a group of its own it is in the background, and may write its progress all the same (stty tostop).
  signal(SIGTTOU, SIG_IGN);
  std::string text;
  auto made = make_target(options);
  if (const std::string* why = std::get_if<std::string>(&made)) {
    RunResult none;
    none.errors.push_back(*why);
    text = fsmark_json(none, options.command);
  } else {
    WorkloadTarget& target = *std::get<0>(made);
    RunWatch watch;
    watch.progress = isatty(STDERR_FILENO) == 1;
    watch.progress_label = label;
    RunResult result = run_workload(options, target, watch);
    if (const Result<void> ended = target.shut_down(); !ended) {
      result.errors.push_back("shut down: " + std::string(ended.error().sentence()));
    }
    text = fsmark_json(result, options.command);
  }
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(out, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    done += static_cast<std::size_t>(n);
  }
  // Not exit(): the parent's buffers and handlers are not this process's to run.
  _exit(0);
}

ChildRun run_in_child(const FsmarkOptions& options, const std::string& label) {
  int ends[2];
  if (pipe(ends) != 0) return {.json = {}, .failure = std::string("pipe: ") + std::strerror(errno)};
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {.json = {}, .failure = std::string("fork: ") + std::strerror(errno)};
  }
  if (child == 0) {
    close(ends[0]);
    run_as_child(options, label, ends[1], parent);
  }
  close(ends[1]);
  ChildRun run;
  bool passed_on = false;
  for (;;) {
    if (interrupted() && !passed_on) {
      kill(child, SIGINT);
      passed_on = true;
    }
    pollfd waiting{.fd = ends[0], .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, 100) <= 0) continue;
    char chunk[65536];
    const ssize_t n = ::read(ends[0], chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    run.json.append(chunk, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    run.failure = std::string("its process was ended by signal ") + std::to_string(WTERMSIG(status)) + " (" +
                  strsignal(WTERMSIG(status)) + ")";
  } else if (WEXITSTATUS(status) != 0 || run.json.empty()) {
    run.failure = "its process ended with status " + std::to_string(WEXITSTATUS(status)) + " and no figures";
  }
  return run;
}

// Files of all loops that the device has room for, with some to spare.
std::uint64_t files_that_fit(const FsmarkOptions& options) {
  const DeviceOptions& device = options.device;
  std::uint64_t bytes = device.kind == DeviceKind::kRam ? device.ram_bytes
                                                        : device.image_bytes.value_or(kDefaultImageBytes);
  struct stat st;
  if (device.kind == DeviceKind::kImage && !device.image_is_default && !device.image_bytes &&
      ::stat(device.image_path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
    bytes = static_cast<std::uint64_t>(st.st_size);
  }
  const std::uint64_t pages = (options.workload.file_bytes + kPageBytes - 1) / kPageBytes;
  constexpr std::uint64_t kIndexBytes = 64;  // a file's part of the saved index, rounded up
  return bytes / 10 * 9 / (pages * kPageBytes + kIndexBytes);
}

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options) : options_(options) {}
  int run();

 private:
  bool calibrate();
  std::string share_text(double rate) const;
  double time_left_s() const;
  // `again`: it did not reach the sustained point, and may once more with twice the files.
  bool run_one(std::uint32_t round, std::uint32_t threads, const std::string& design, bool again);
  bool missed_sustained(const RunFigures& figures) const;
  FsmarkOptions options_of(std::uint32_t threads, const std::string& design) const;
  void say(const std::string& text);
  int finish();
  bool append_markdown() const;
  bool quiet() const { return options_.base.json_path == "-" || options_.html_path == "-"; }
  bool outputs_can_be_written() const;

  const CompareOptions& options_;
  std::uint64_t bandwidth_ = 0;
  std::uint64_t files_ = 0;  // of all threads; 0: as given
  CompareDocument document_;
  std::vector<RunFigures> figures_;
  const Instant started_ = SteadyClock::instance().now();
  std::string error_;
  std::string output_failure_;  // of standard output
  std::optional<DefaultImage> image_;
  bool image_used_ = false;  // by a run of ours that made its store in it
  std::FILE* log_ = nullptr;
};

void Comparison::say(const std::string& text) {
  if (!quiet() && output_failure_.empty()) output_failure_ = write_text("-", text);
  if (log_ != nullptr) {
    std::fputs(text.c_str(), log_);
    std::fflush(log_);
  }
}

FsmarkOptions Comparison::options_of(std::uint32_t threads, const std::string& design) const {
  FsmarkOptions one = options_.base;
  one.writeback.design = design;
  one.device.image_is_locked = image_.has_value();
  one.workload.threads = threads;
  if (threads < one.workload.directories.size()) one.workload.directories.resize(threads);
  one.device.bandwidth = bandwidth_;
  if (files_ != 0) {
    one.workload.files_per_thread = std::max<std::uint64_t>(1, (files_ + threads - 1) / threads);
  }
  return one;
}

std::string Comparison::share_text(double rate) const {
  const double bytes = rate * static_cast<double>(options_.base.workload.file_bytes);
  const double percent = 100.0 * static_cast<double>(bandwidth_) / bytes;
  return " (" + std::to_string(static_cast<int>(percent + 0.5)) + "% of that)";
}

// How fast timer-wheel creates with the fewest threads while nothing is written yet.
bool Comparison::calibrate() {
  bandwidth_ = options_.base.device.bandwidth;
  const WorkloadOptions& workload = options_.base.workload;
  if (options_.files_given && options_.bandwidth_given) return true;
  if (workload.file_bytes == 0) {
    // Empty files put no load on a device of any bandwidth.
    if (!options_.files_given) files_ = 200'000;
    return true;
  }
  const std::uint32_t threads = *std::min_element(options_.threads.begin(), options_.threads.end());
  std::vector<double> rates;
  for (int i = 0; i < kCalibrationRuns && !interrupted(); ++i) {
    FsmarkOptions one = options_of(threads, "timer-wheel");
    one.device.bandwidth = options_.base.device.bandwidth;
    one.workload.loops = 1;
    one.workload.until_full = false;
    one.workload.phases = {Phase::kCreate};
    one.workload.verify = false;
    one.workload.sync_method = 0;
    // Below the background threshold, on half of the device at most, and no more than were asked for.
    const std::uint64_t fitting = std::min(one.writeback.background_bytes * 3 / 4 / workload.file_bytes,
                                           files_that_fit(options_.base) / 2);
    std::uint64_t each = std::clamp<std::uint64_t>(fitting / threads, 1, 1'000'000);
    if (options_.files_given) each = std::min(each, workload.files_per_thread);
    one.workload.files_per_thread = each;
    const ChildRun child = run_in_child(one, "calibration, ");
    const auto figures = child.failure.empty() ? read_figures(child.json) : std::nullopt;
    if (!figures || !figures->errors.empty()) {
      error_ = "calibration: " + (!child.failure.empty()                   ? child.failure
                                  : figures && !figures->errors.empty() ? figures->errors.front()
                                                                        : std::string("no figures"));
      return false;
    }
    image_used_ = true;
    rates.push_back(figures->files_per_s);
  }
  // The best: a try is a fraction of a second, and whatever else runs meanwhile only makes it slower.
  const double rate = spread_of(rates).high;
  if (rate <= 0) return true;
  document_.calibrated_files_per_s = rate;
  if (!options_.bandwidth_given) {
    const auto runs =
        static_cast<double>(options_.designs.size() * options_.threads.size() * options_.rounds);
    // A third of a run's share of the time goes to the sync at its end.
    bandwidth_ = options_.time_is_bounded()
                     ? bandwidth_in_time(rate, workload.file_bytes, options_.base.writeback.dirty_bytes,
                                         kBudgetSeconds / runs / 3)
                     : bandwidth_for(rate, workload.file_bytes);
  }
  if (!options_.files_given) {
    files_ = files_for(rate, bandwidth_, options_.base, kSustainedSeconds) / std::max(1U, workload.loops);
    files_ = std::max<std::uint64_t>(
        1, std::min(files_, files_that_fit(options_.base) / std::max(1U, workload.loops)));
  }
  say("calibrated: timer-wheel creates " + short_number(rate) + " files/s with " + std::to_string(threads) +
      (threads == 1 ? " thread" : " threads") + "; device bandwidth for all: " + format_size(bandwidth_) +
      "/s" + (options_.bandwidth_given ? " (given)" : share_text(rate)) +
      (files_ != 0 ? "; " + std::to_string(files_) + " files a loop" : std::string()) + "\n");
  return true;
}

bool Comparison::run_one(std::uint32_t round, std::uint32_t threads, const std::string& design,
                         bool again) {
  FsmarkOptions one = options_of(threads, design);
  one.round = round;
  if (again) one.workload.files_per_thread *= 2;
  const std::string label = "round " + std::to_string(round) + " of " + std::to_string(options_.rounds) +
                            ", " + design + ", " + std::to_string(threads) +
                            (threads == 1 ? " thread, " : " threads, ");
  const ChildRun child = run_in_child(one, label);
  const auto figures = child.failure.empty() ? read_figures(child.json) : std::nullopt;
  if (!figures) {
    error_ = label + "failed: " + (child.failure.empty() ? "its figures cannot be read" : child.failure);
    return false;
  }
  image_used_ = image_used_ || figures->files != 0;
  if (!figures->errors.empty()) {
    error_ = label + "failed: " + figures->errors.front();
    document_.runs.push_back(child.json);
    return false;
  }
  // Where no terminal shows the progress, a line for each run says that there is some.
  if (!quiet() && isatty(STDERR_FILENO) == 0 && !figures->interrupted) {
    std::fprintf(stderr, "%s%s files/s, %.1f s\n", label.c_str(), short_number(figures->files_per_s).c_str(),
                 figures->wall_s);
  }
  if (!again && missed_sustained(*figures) && !interrupted()) return run_one(round, threads, design, true);
  document_.runs.push_back(child.json);
  // Cut short, it would stand among the medians as if it were whole.
  if (!figures->interrupted) figures_.push_back(*figures);
  return true;
}

// The files were chosen here, for a rate that this run did not have.
bool Comparison::missed_sustained(const RunFigures& figures) const {
  const WorkloadOptions& workload = options_.base.workload;
  if (files_ == 0 || workload.file_bytes == 0 || figures.sustained || figures.interrupted) return false;
  return 2 * files_ <= files_that_fit(options_.base) / std::max(1U, workload.loops) && time_left_s() > 0;
}

double Comparison::time_left_s() const {
  return kBudgetSeconds - (SteadyClock::instance().now() - started_).seconds();
}

int Comparison::finish() {
  document_.interrupted = interrupted();
  document_.summary = summarize(figures_, options_.designs, options_.threads);
  if (!figures_.empty()) say("\n" + compare_table(figures_, options_.designs, options_.threads));
  const WritebackOptions& writeback = options_.base.writeback;
  document_.model =
      scaling_models(figures_, options_.designs, writeback.shards != 0, writeback.flushers != 0);
  if (!document_.model.empty()) say("\n" + model_table(document_.model));
  if (interrupted()) say("interrupted: the table holds the runs that were complete\n");
  bool failed = !error_.empty();
  if (failed) print_error(error_);
  if (!options_.base.json_path.empty()) {
    if (const std::string why = write_text(options_.base.json_path, compare_json(document_)); !why.empty()) {
      print_error("--json " + why);
      failed = true;
    } else if (!quiet()) {
      say("JSON: " + options_.base.json_path + "\n");
    }
  }
  if (!options_.html_path.empty()) {
    const std::string page = compare_page({.options = options_, .document = document_, .runs = figures_,
                                           .machine = describe_machine(), .error = error_});
    if (const std::string why = write_text(options_.html_path, page); !why.empty()) {
      print_error("--html " + why);
      failed = true;
    } else if (!quiet()) {
      say("HTML: " + options_.html_path + "\n");
    }
  }
  if (!options_.markdown_path.empty() && !append_markdown()) failed = true;
  if (log_ != nullptr && std::fclose(log_) != 0) {
    print_error("-l " + options_.base.workload.log_file + ": " + std::strerror(errno));
    failed = true;
  }
  if (!output_failure_.empty()) {
    print_error(output_failure_);
    failed = true;
  }
  // Of use to these runs alone, and gigabytes.
  if (image_ && image_used_) image_->remove();
  return failed ? 1 : 0;
}

bool Comparison::append_markdown() const {
  std::FILE* file = std::fopen(options_.markdown_path.c_str(), "ae");
  bool written = file != nullptr;
  if (written) {
    (void)std::fseek(file, 0, SEEK_END);
    std::string rows = std::ftell(file) == 0 ? kMarkdownHead : "";
    rows += markdown_rows(figures_, options_.designs, options_.threads, options_.base.writeback.throttle);
    written = std::fputs(rows.c_str(), file) >= 0;
    written = std::fclose(file) == 0 && written;
  }
  if (!written) print_error("--markdown " + options_.markdown_path + ": " + std::strerror(errno));
  return written;
}

// Said before the work, not after it.
bool Comparison::outputs_can_be_written() const {
  const std::pair<const char*, const std::string*> outputs[] = {{"--json ", &options_.base.json_path},
                                                                {"--html ", &options_.html_path},
                                                                {"--markdown ", &options_.markdown_path}};
  for (const auto& [option, path] : outputs) {
    if (path->empty() || *path == "-") continue;
    if (const std::string why = check_output(*path); !why.empty()) {
      print_error(option + why);
      return false;
    }
  }
  return true;
}

int Comparison::run() {
  const std::string& log_path = options_.base.workload.log_file;
  if (!log_path.empty()) {
    log_ = std::fopen(log_path.c_str(), "ae");
    if (log_ == nullptr) {
      print_error("-l " + log_path + ": " + std::strerror(errno));
      return 1;
    }
  }
  if (!outputs_can_be_written()) {
    if (log_ != nullptr) std::fclose(log_);
    return 1;
  }
  const DeviceOptions& device = options_.base.device;
  if (device.kind == DeviceKind::kImage && device.image_is_default) {
    auto locked = DefaultImage::lock(device.image_path);
    if (const std::string* why = std::get_if<std::string>(&locked)) {
      print_error(*why);
      if (log_ != nullptr) std::fclose(log_);
      return 1;
    }
    image_.emplace(std::get<0>(std::move(locked)));
  }
  catch_interrupts();
  document_.command = options_.base.command;
  document_.seed = options_.base.workload.seed;
  document_.started = utc_now();
  if (!calibrate()) return finish();
  document_.device_bandwidth = bandwidth_;
  const std::size_t designs = options_.designs.size();
  std::uint32_t rounds = options_.rounds;
  const Instant first = SteadyClock::instance().now();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (const std::uint32_t threads : options_.threads) {
      for (std::size_t i = 0; i < designs; ++i) {
        if (interrupted()) return finish();
        // Each round begins with another design, so that a drift of the machine meets all of them.
        if (!run_one(round + 1, threads, options_.designs[(i + round) % designs], false)) return finish();
      }
    }
    if (!options_.time_is_bounded()) continue;
    const std::uint32_t fitting =
        rounds_in_time(rounds, round + 1, (SteadyClock::instance().now() - first).seconds(), kBudgetSeconds);
    if (fitting < rounds) {
      say("the machine is slow: " + std::to_string(fitting) + " of " + std::to_string(rounds) +
          " rounds fit into " + std::to_string(static_cast<int>(kBudgetSeconds)) +
          " s (--rounds N does N)\n");
      rounds = fitting;
    }
  }
  return finish();
}

}  // namespace

int run_compare(const CompareOptions& options) { return Comparison(options).run(); }

}  // namespace tidewheel::bench
