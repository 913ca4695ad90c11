// fs/crash/explorer.h: runs a workload, cuts its run everywhere, and recovers and checks what is left.
// Owns:      traces, images and the sets of what has been seen, while an exploration runs.
// Threads:   explore() and replay() from one thread; recover() and check() of the workload run on the threads
//            of a TBB arena. on_progress runs on the caller's thread.
// Errors:    a workload that cannot format or run is Exploration::broken; failed states are `failures`.
// Invariant: the same options give the same states and the same failures in the same order, for any number
//            of threads, unless a time limit or a stop ends the exploration (at the end of a batch).
//
// One run: format, record, walk the cuts (fs/crash/cut_walker.h). At each cut, of n writes that may be lost:
//   n <= 10   every subset of them, each whole
//   n > 10    none, all, each alone, all but each, every prefix (what came in order), and subsets by seed
//   torn      the newest write after each of its sectors (up to 16), the others there and not; and, by seed,
//             one to three torn writes among any subset
// less where a run has more of these than its share of `states`: then by seed, spread over all its cuts.
// A state that was there before, by content and by what had been acknowledged, is passed over. Recovery of a
// state is itself recorded and cut in the same way, `nested` states of it, to a depth of `nested_depth`; and
// in one of eight states a second recovery must leave the bytes as they are.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/time.h"
#include "fs/crash/crash_state.h"
#include "fs/crash/workload.h"

namespace tidewheel {

struct ExploreProgress {
  std::uint64_t runs = 0, states = 0, failures = 0;
  double seconds = 0;
};

struct ExploreOptions {
  std::string workload;            // its name, for replay strings
  WorkloadFactory make;
  std::uint64_t seed = 1;          // of the first run; the next ones count on from it
  std::uint64_t runs = 1;          // 0: as many as the other limits allow
  std::uint64_t states_of_run = 20'000;  // the most that one run gives when the number of runs is open
  std::uint64_t states = 100'000;  // distinct by content; ends with the batch that reaches it
  Duration time = Duration::max();
  std::uint32_t threads = 0;       // 0: one per CPU
  std::uint32_t nested = 2;        // states of each recovery that are recovered again
  std::uint32_t nested_depth = 2;  // crashes inside one another, beyond the first
  std::uint32_t max_failures = 10;
  std::uint64_t requests = 1'000'000;  // that one recovery may make: more of them never end
  bool recover = true;             // false: check() alone, which shows that it can fail
  std::function<void(const ExploreProgress&)> on_progress;  // after each batch; may be empty
  std::function<bool()> stop;                               // asked before each batch; may be empty
};

struct CrashFailure {
  std::string workload;
  std::string state;   // in words
  std::string oracle;
  std::string detail;
  std::string replay;
  std::uint64_t states_before = 0;  // how many had been counted when it was
};

struct Exploration {
  std::uint64_t runs = 0;
  std::uint64_t cuts = 0;
  std::uint64_t states = 0;     // distinct by content, recovered and checked
  std::uint64_t rechecks = 0;   // recovered and checked once more, since more had been acknowledged
  std::uint64_t duplicates = 0; // generated and passed over: content and acknowledgements seen before
  std::uint64_t nested = 0;     // of states + rechecks: those inside a recovery
  std::uint64_t second_recoveries = 0;
  double seconds = 0;
  bool timed_out = false, stopped = false;
  std::vector<CrashFailure> failures;
  std::string broken;  // the workload could not be run: which and why; empty: it could

  double states_per_s() const { return seconds > 0 ? static_cast<double>(states) / seconds : 0; }
};

Exploration explore(const ExploreOptions& options);

// One state again, with a second recovery. `options` as for explore(): make and recover count.
struct Replay {
  std::string refused;  // why the name names no state of this workload; empty: it does
  std::string state;    // in words
  std::vector<CrashFailure> failures;
};
Replay replay(const ExploreOptions& options, const ReplayName& name);

// What each thread of an exploration is busy with, as replay strings, for a program that dies in a
// recovery: async-signal-safe. Writes lines to the descriptor.
void write_states_under_way(int descriptor);

}  // namespace tidewheel
