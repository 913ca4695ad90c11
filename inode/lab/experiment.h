// inode/lab/experiment.h: the page cache, its reclaim and the writeback engine, all real, under an access
// pattern, in virtual time, on a modelled device. The timeline says what was dirty, under writeback, hit and
// paused, and is the same for the same input, whatever the machine does meanwhile.
// Owns:      everything while run_experiment() runs; nothing afterwards.
// Threads:   one per run; runs may go side by side.
// Units:     bytes, pages of kPageBytes, Durations since the beginning.
// Errors:    a sentence in Experiment::error; the timeline until then is kept.
// Model:     one program does one access after the other: a miss, a pause or a wait for a page under
//            writeback delays all that follows. CPU time is nothing. The device does one transfer after the
//            other at bytes_per_s, each complete `latency` after its last byte, reads and writes in one
//            queue. Files are as long as the pattern reaches and hold zeros; nothing is lost, nothing fails.
// Invariant: in each row (1) dirtied = dirty + writeback + cleaned; (2) hits + misses = pages accessed;
//            (3) what counts against the limit is not above it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "inode/lab/access.h"

namespace tidewheel::lab {

struct ExperimentOptions {
  std::string design = "timer-wheel";    // of the dirty list: a registered name
  std::string throttle = "hard-limit";   // a registered name
  std::string reclaim = "two-list";      // a registered name
  std::uint64_t memory_bytes = 16 << 20;     // pages, tree nodes and inodes; at least 4 MiB
  std::uint64_t background_bytes = 2 << 20;
  std::uint64_t dirty_bytes = 4 << 20;       // at most half of the memory: what is clean can be reclaimed
  std::uint64_t batch_bytes = 0;             // of one transfer; 0: a 64th of dirty_bytes, at least 64 KiB
  Duration expire = seconds(30), interval = seconds(5);
  Duration device_latency = microseconds(100);
  std::uint64_t device_bytes_per_s = 100 << 20;
  Duration sample = milliseconds(100);       // between two rows
};

// Everything but `at`, dirty, writeback and cached is a sum since the beginning.
struct TimelineRow {
  Duration at;
  std::uint64_t dirty_bytes = 0, writeback_bytes = 0, cached_bytes = 0;
  std::uint64_t accesses = 0;  // pages
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t pauses = 0;    // writes that the throttle held back ...
  Duration paused;             // ... and for how long in all
  std::uint64_t dirtied_bytes = 0, cleaned_bytes = 0;
  std::uint64_t device_reads = 0, device_writes = 0;
  std::uint64_t charged_bytes = 0;  // dirty, writeback and overhead, as the limit counts
};

struct Experiment {
  std::string error;  // empty: it ran to its end
  std::vector<TimelineRow> timeline;  // the last row: everything written, at rest
  double hit_ratio() const;
  std::string to_csv() const;
};

Experiment run_experiment(const ExperimentOptions& options, const std::vector<Access>& accesses);
// What could not be read or made is the experiment's error.
Experiment run_experiment(const ExperimentOptions& options, const Accesses& accesses);

}  // namespace tidewheel::lab
