// bench/scaling_model.h: what a design's list locks would allow on more CPUs than this machine has, by the
// simplest model there is. It has been calibrated against no machine, and every output of it says so.
// Threads:   pure functions.
// Units:     nanoseconds, files per second.
// Source:    per file: CPU time C, list-lock acquisitions A, mean hold H (of the holds that were timed: one
//            in 64), S locks of which each is shared by k of N CPUs. A lock's line comes from another CPU
//            with probability 1 - 1/k, so it costs m = kLineMoveNs (1 - 1/k).
//            Ceiling = min(N / (C + A m), S / (A (H + m))).
// Note:      left out: memory bandwidth, other locks, preempted holders, sockets, the device. H is from the
//            runs with the fewest threads, where the fewest holders are preempted; a long hold that comes a
//            few times in a run is rarely timed, so H says nothing of walks: worst_stall_ns() does.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/run_figures.h"

namespace tidewheel::bench {

inline constexpr std::array<std::uint32_t, 8> kModelCpus = {1, 2, 4, 8, 16, 32, 64, 128};
// A modified line from another core of the same socket: 40 to 120 ns on current machines.
inline constexpr double kLineMoveNs = 100;
inline constexpr const char* kModelNote =
    "a simple model, uncalibrated: CPU time and mean list-lock hold per file of the runs with the fewest "
    "threads, and 100 ns for each lock line that comes from another CPU; not a measurement";

// How the number of locks goes with the number of CPUs.
enum class LockRule : std::uint8_t {
  kFixed,       // as many as there were, every CPU uses each
  kPerFlusher,  // parallel-lists: one per flusher, and default_flushers() of them
  kPerCpu,      // timer-wheel: picked by CPU, default_wheel_shards(CPUs) of them
  kPerCpuFixed  // timer-wheel with --shards
};

struct ScalingModel {
  std::string design;
  std::uint32_t threads = 0;  // of the runs it is made from
  std::uint32_t rounds = 0;
  double cpu_ns_per_file = 0;
  double acquisitions_per_file = 0;
  double hold_ns_mean = 0;
  double elements_per_file = 0;
  std::uint32_t locks = 1;
  LockRule rule = LockRule::kFixed;
  std::uint64_t max_elements_per_hold = 0;  // of every run of this design

  std::uint32_t locks_on(std::uint32_t cpus) const;
  // Mean time under a list lock for each element handled there.
  double element_ns() const;
  double worst_stall_ns() const { return static_cast<double>(max_elements_per_hold) * element_ns(); }
};

// One for each design that has a complete run with a dirty list. `shards_given`, `flushers_given`: they were
// asked for, and would be the same on any machine.
std::vector<ScalingModel> scaling_models(const std::vector<RunFigures>& runs,
                                         const std::vector<std::string>& designs, bool shards_given,
                                         bool flushers_given);

struct Ceiling {
  double files_per_s = 0;
  bool by_lock = false;  // false: by CPU time
};
Ceiling ceiling_of(const ScalingModel& model, std::uint32_t cpus);

// For the terminal.
std::string model_table(const std::vector<ScalingModel>& models);

}  // namespace tidewheel::bench
