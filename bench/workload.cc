#include "bench/workload.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <vector>

#include "bench/interrupt.h"
#include "bench/sampler.h"
#include "bench/worker.h"

namespace tidewheel::bench {

namespace {

// A leaf: the sampler takes it with its own lock held.
LockClass g_progress_lock("bench_progress", LockRank::kStatistics);

// The seconds, as in fs_mark's names, and beneath them the nanoseconds: a run of the same seed that starts
// within the same second makes other names.
std::uint64_t stamp_of_now() {
  std::timespec now{};
  (void)std::timespec_get(&now, TIME_UTC);
  return static_cast<std::uint64_t>(now.tv_sec) << 32 | static_cast<std::uint64_t>(now.tv_nsec);
}

class Conductor {
 public:
  Conductor(const FsmarkOptions& options, WorkloadTarget& target, const RunWatch& watch)
      : options_(options),
        workload_(options.workload),
        target_(target),
        watch_(watch),
        names_(workload_, stamp_of_now()),
        shared_(workload_, target, names_, ticks_) {}

  RunResult run();

 private:
  using Job = void (Worker::*)();

  bool prepare();
  void create();
  LoopResult one_loop(std::uint32_t loop);
  void final_sync();
  void timed_phase(Phase phase, Job job);
  void verify();
  void each(const std::function<void(Worker&)>& job) {
    crew_->run([&](std::uint32_t i) { job(*workers_[i]); });
  }
  bool failed() const { return !result_.errors.empty(); }
  // What threads make is compared from the loop's start, and anew from when the first writer is held back:
  // before that the one that has the CPU runs on alone.
  void begin_progress(bool throttled);
  ThreadsFiles progress_so_far();
  void collect_errors();
  void collect_figures();
  std::uint64_t acknowledged() const;
  void note_owners(std::uint32_t loop);
  double span_s() const;  // first worker's start to last worker's end

  const FsmarkOptions& options_;
  const WorkloadOptions& workload_;
  WorkloadTarget& target_;
  const RunWatch& watch_;
  const Ticks ticks_;
  const FileNames names_;
  WorkerShared shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Crew> crew_;
  Mutex progress_lock_{g_progress_lock};
  std::vector<std::uint64_t> progress_from_ TW_GUARDED_BY(progress_lock_);
  bool progress_throttled_ TW_GUARDED_BY(progress_lock_) = false;
  std::unique_ptr<Sampler> sampler_;  // its thread asks for the progress: ends before that
  RunResult result_;
};

void Conductor::begin_progress(bool throttled) {
  MutexLock hold(progress_lock_);
  if (throttled && progress_throttled_) return;
  progress_throttled_ = throttled;
  progress_from_.clear();
  for (const auto& worker : workers_) progress_from_.push_back(worker->acknowledged());
}

ThreadsFiles Conductor::progress_so_far() {
  MutexLock hold(progress_lock_);
  ThreadsFiles progress;
  progress.slowest = UINT64_MAX;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::uint64_t made = workers_[i]->acknowledged() - progress_from_[i];
    progress.slowest = std::min(progress.slowest, made);
    progress.fastest = std::max(progress.fastest, made);
  }
  return progress;
}

std::uint64_t Conductor::acknowledged() const {
  std::uint64_t files = 0;
  for (const auto& worker : workers_) files += worker->acknowledged();
  return files;
}

double Conductor::span_s() const {
  Instant first = Instant::max();
  Instant last = Instant::min();
  for (const auto& worker : workers_) {
    first = std::min(first, worker->started());
    last = std::max(last, worker->ended());
  }
  return (last - first).seconds();
}

void Conductor::note_owners(std::uint32_t loop) {
  const std::uint32_t owners = options_.writeback.owners;
  if (owners == 1) return;
  result_.owners.resize(owners);
  for (std::uint32_t owner = 0; owner < owners; ++owner) {
    OwnerResult& own = result_.owners[owner];
    Instant first = Instant::max();
    Instant last = Instant::min();
    own.threads = 0;
    for (std::size_t thread = owner; thread < workers_.size(); thread += owners) {
      const Worker& worker = *workers_[thread];
      ++own.threads;
      own.files += worker.made(loop);
      first = std::min(first, worker.started());
      last = std::max(last, worker.ended());
    }
    own.seconds += (last - first).seconds();
  }
}

void Conductor::collect_errors() {
  for (const auto& worker : workers_) {
    const std::string& line = worker->error();
    if (line.empty()) continue;
    if (std::find(result_.errors.begin(), result_.errors.end(), line) == result_.errors.end()) {
      result_.errors.push_back(line);
    }
  }
}

bool Conductor::prepare() {
  result_.configuration = options_;
  result_.target = target_.name();
  result_.target_description = target_.description();
  result_.design = options_.target == TargetKind::kFlat ? options_.writeback.design : "";
  result_.threads = workload_.threads;
  result_.round = options_.round;
  result_.file_bytes = workload_.file_bytes;
  result_.seed = workload_.seed;
  result_.started = utc_now();
  if (const Result<void> made = target_.make_directories(workload_.subdirectories); !made) {
    result_.errors.push_back("-D: the subdirectories cannot be made: " +
                             std::string(made.error().sentence()));
    return false;
  }
  for (std::uint32_t i = 0; i < workload_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(shared_, i));
  }
  sampler_ = std::make_unique<Sampler>(
      target_,
      [this] {
        const auto moments = target_.moments();
        if (moments && moments->first_throttled) begin_progress(true);
        return acknowledged();
      },
      Sampler::Options{
          .csv = watch_.interval_csv, .progress = watch_.progress, .label = watch_.progress_label});
  crew_ = std::make_unique<Crew>();
  Result<void> started = sampler_->start();
  if (started) started = crew_->start(workload_.threads);
  if (!started) result_.errors.push_back(kNoThreadLine);
  return started.has_value();
}

LoopResult Conductor::one_loop(std::uint32_t loop) {
  LoopResult one;
  ThreadsFiles progress;
  begin_progress(false);
  shared_.note_progress = [&] { progress = progress_so_far(); };
  shared_.one_is_through.store(false, std::memory_order_relaxed);
  sampler_->begin();
  each([loop](Worker& worker) { worker.create_loop(loop); });
  sampler_->end();
  one.seconds = span_s();
  for (const auto& worker : workers_) {
    one.files += worker->made(loop);
    const double own_s = (worker->ended() - worker->started()).seconds();
    if (own_s > 0) one.sum_of_threads_per_s += static_cast<double>(worker->made(loop)) / own_s;
    one.app_overhead_us += worker->app_overhead_ns() / 1000;
    const CallSummaries calls = worker->take_calls();
    for (std::size_t c = 0; c < kCalls; ++c) one.calls[c].merge(calls[c]);
  }
  note_owners(loop);
  one.used_percent = target_.used_percent();
  one.progress = progress;
  shared_.note_progress = nullptr;
  return one;
}

void Conductor::create() {
  const std::uint64_t per_loop = workload_.files_per_thread * workload_.threads;
  sampler_->phase("create", workload_.until_full ? 0 : per_loop * workload_.loops);
  const std::uint32_t loops = workload_.until_full ? UINT32_MAX : workload_.loops;
  for (std::uint32_t loop = 0; loop < loops; ++loop) {
    LoopResult one = one_loop(loop);
    collect_errors();
    result_.files += one.files;
    result_.create_s += one.seconds;
    result_.sum_of_threads_per_s += one.sum_of_threads_per_s;
    if (result_.loops.empty() || one.progress.ratio() < result_.threads_files.ratio()) {
      result_.threads_files = one.progress;
    }
    result_.loops.push_back(one);
    // Without -k there is one loop, and its line comes after its unlink, whose times it shows.
    if (workload_.keep && watch_.on_loop) watch_.on_loop(result_.loops.back(), result_.files);
    result_.full = shared_.full.load(std::memory_order_relaxed);
    if (failed() || result_.full || interrupted()) break;
  }
  if (!result_.loops.empty()) {
    result_.sum_of_threads_per_s /= static_cast<double>(result_.loops.size());
  }
}

void Conductor::final_sync() {
  sampler_->phase("final sync", 0, true);
  const Instant start = SteadyClock::instance().now();
  result_.series.final_sync_from = start;
  const Result<void> synced = target_.sync();
  result_.final_sync_s = (SteadyClock::instance().now() - start).seconds();
  if (!synced) result_.errors.push_back("final sync: " + std::string(synced.error().sentence()));
}

void Conductor::timed_phase(Phase phase, Job job) {
  sampler_->phase(std::string(phase_name(phase)), 0);
  const CpuUse before = read_cpu_use();
  each([job](Worker& worker) { (worker.*job)(); });
  const CpuUse used = read_cpu_use().since(before);
  PhaseResult one{
      .name = std::string(phase_name(phase)), .ops = 0, .seconds = span_s(), .cpu_s = used.process_s()};
  for (const auto& worker : workers_) one.ops += worker->operations();
  result_.phases.push_back(one);
  collect_errors();
}

void Conductor::verify() {
  sampler_->phase("verify", 0);
  each([](Worker& worker) { worker.leave_target(); });
  const Result<bool> remounted = target_.remount();
  if (!remounted) {
    result_.errors.push_back("remount: " + std::string(remounted.error().sentence()));
    return;
  }
  each([](Worker& worker) { worker.enter_target(); });
  each([](Worker& worker) { worker.verify_files(); });
  collect_errors();
  std::uint64_t verified = 0;
  for (const auto& worker : workers_) verified += worker->operations();
  if (!failed()) result_.verified_files = verified;
}

void Conductor::collect_figures() {
  result_.locks = lock_statistics();
  std::erase_if(result_.locks, [](const LockClassStats& one) {
    return one.acquisitions == 0 || std::string_view(one.name).starts_with("bench_");
  });
  result_.figures = target_.figures();
  result_.resident_peak = resident_peak_bytes();
  for (const auto& worker : workers_) result_.workload_bytes += worker->written_bytes();
}

RunResult Conductor::run() {
  if (!prepare()) {
    if (watch_.interval_csv != nullptr && sampler_ == nullptr) std::fclose(watch_.interval_csv);
    return std::move(result_);
  }
  reset_lock_statistics();
  reset_resident_peak();
  target_.start_observation();
  const CpuUse cpu_start = read_cpu_use();
  const Instant start = SteadyClock::instance().now();
  create();
  final_sync();
  sampler_->end_series();
  result_.wall_s = (SteadyClock::instance().now() - start).seconds();
  result_.cpu = read_cpu_use().since(cpu_start);
  result_.phases.push_back(PhaseResult{
      .name = "create", .ops = result_.files, .seconds = result_.create_s, .cpu_s = result_.cpu.process_s()});
  collect_figures();
  const auto moments = target_.moments();

  if (!failed() && !interrupted() && workload_.has_phase(Phase::kStat)) {
    timed_phase(Phase::kStat, &Worker::stat_files);
  }
  if (!failed() && !interrupted() && workload_.has_phase(Phase::kRead)) {
    timed_phase(Phase::kRead, &Worker::read_files);
  }
  if (!failed() && !interrupted() && workload_.verify) verify();
  const bool unlink_phase = workload_.has_phase(Phase::kUnlink) && !interrupted();
  if (!failed() && unlink_phase) {
    timed_phase(Phase::kUnlink, &Worker::unlink_files);
  } else if (!workload_.keep && result_.target == "posix") {
    // Also after an error or Ctrl-C: these are somebody's directories.
    sampler_->phase("unlink", 0);
    each([](Worker& worker) { worker.unlink_files(); });
    collect_errors();
  } else if (!workload_.keep && !failed() && !interrupted()) {
    sampler_->phase("unlink", 0);
    each([](Worker& worker) { worker.unlink_files(); });
    collect_errors();
  }
  // What the calls after the loops took belongs to the last loop's line.
  for (const auto& worker : workers_) {
    const CallSummaries calls = worker->take_calls();
    for (std::size_t c = 0; c < kCalls; ++c) {
      if (!result_.loops.empty()) result_.loops.back().calls[c].merge(calls[c]);
      result_.latencies[c].merge(worker->latencies()[c]);
    }
  }
  for (const LoopResult& loop : result_.loops) {
    for (std::size_t c = 0; c < kCalls; ++c) result_.calls[c].merge(loop.calls[c]);
  }
  if (!workload_.keep && watch_.on_loop && !result_.loops.empty()) {
    watch_.on_loop(result_.loops.back(), result_.files);
  }
  sampler_->finish();
  if (sampler_->csv_failed()) result_.errors.push_back("--interval-csv: the file could not be written");
  result_.series.points = sampler_->series();
  if (moments) {
    result_.series.background_passed = moments->background_passed;
    result_.series.first_throttled = moments->first_throttled;
    result_.load_points_known = true;
    result_.load_points =
        cut_load_points(sampler_->samples(), moments->background_passed, moments->first_throttled);
  }
  result_.interrupted = interrupted();
  for (const std::string& line : result_.figures.errors) result_.errors.push_back(line);
  return std::move(result_);
}

}  // namespace

RunResult run_workload(const FsmarkOptions& options, WorkloadTarget& target, const RunWatch& watch) {
  Conductor conductor(options, target, watch);
  return conductor.run();
}

}  // namespace tidewheel::bench
