// bench/run_result.h: everything one run measured, as plain values; text and JSON are made from it.
// Units:     seconds and bytes as named.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sync.h"
#include "bench/latency.h"
#include "bench/load_points.h"
#include "bench/machine.h"
#include "bench/options.h"
#include "bench/target.h"
#include "bench/time_series.h"

namespace tidewheel::bench {

// The calls whose time is taken. kSync is the whole-target sync of -S 2, 4 and 6.
enum class Call : std::uint8_t { kCreate, kWrite, kFsync, kSync, kClose, kStat, kRead, kUnlink };
inline constexpr std::size_t kCalls = 8;

using CallSummaries = std::array<CallSummary, kCalls>;

// What each thread had made when the first of them was through with a loop: the least and the most.
struct ThreadsFiles {
  std::uint64_t slowest = 0, fastest = 0;
  double ratio() const {
    return fastest == 0 ? 1 : static_cast<double>(slowest) / static_cast<double>(fastest);
  }
};

struct LoopResult {
  ThreadsFiles progress;
  std::uint64_t files = 0;
  double seconds = 0;             // wall clock, first thread's start to last thread's end
  double sum_of_threads_per_s = 0;  // each thread's files over its own time, added up
  std::uint64_t app_overhead_us = 0;
  std::uint32_t used_percent = 0;
  CallSummaries calls;

  double files_per_s() const { return seconds > 0 ? static_cast<double>(files) / seconds : 0; }
};

struct PhaseResult {
  std::string name;
  std::uint64_t ops = 0;
  double seconds = 0;
  double cpu_s = 0;  // of the process, user and system
};

// The run over time, from the first loop to the end of the final sync.
struct RunSeries {
  std::vector<SeriesPoint> points;  // the first is where time counts from
  std::optional<Instant> background_passed, first_throttled, final_sync_from;
};

// What the threads of one owner made, and in what time: from the start of the first to the end of the last.
struct OwnerResult {
  std::uint32_t threads = 0;
  std::uint64_t files = 0;
  double seconds = 0;
  double files_per_s() const { return seconds > 0 ? static_cast<double>(files) / seconds : 0; }
};

struct RunResult {
  std::optional<FsmarkOptions> configuration;  // nullopt: the run never began
  std::string design, target, target_description;
  std::uint32_t threads = 0, round = 0;
  std::uint64_t files = 0, file_bytes = 0, seed = 0;
  std::string started;
  // From the first loop's start to the end of the final sync.
  double wall_s = 0;
  CpuUse cpu;
  double create_s = 0;  // the loops alone
  double final_sync_s = 0;
  double sum_of_threads_per_s = 0;
  std::vector<OwnerResult> owners;  // empty: there is one
  ThreadsFiles threads_files;  // of the loop that was least fair
  std::vector<LoopResult> loops;
  std::vector<PhaseResult> phases;
  bool load_points_known = false;
  LoadPoints load_points;
  RunSeries series;
  std::array<LatencyHistogram, kCalls> latencies;
  CallSummaries calls;
  std::vector<LockClassStats> locks;
  TargetFigures figures;
  std::uint64_t resident_peak = 0;
  std::uint64_t workload_bytes = 0;  // what write calls took
  std::optional<std::uint64_t> verified_files;
  bool full = false;         // -F came to its end
  bool interrupted = false;
  std::vector<std::string> errors;

  double files_per_s() const { return create_s > 0 ? static_cast<double>(files) / create_s : 0; }
  double other_cpu_s() const { return cpu.machine_s > cpu.process_s() ? cpu.machine_s - cpu.process_s() : 0; }
  // More than 5% of the CPU in use was somebody else's, or was stolen; two ticks are never enough to say so.
  bool disturbed() const {
    const double foreign = other_cpu_s() + cpu.steal_s;
    return foreign > 0.02 && foreign > 0.05 * (cpu.machine_s + cpu.steal_s);
  }
};

}  // namespace tidewheel::bench
