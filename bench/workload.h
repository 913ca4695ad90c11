// bench/workload.h: conducts one run: loops of creates, final sync, further phases, verification, unlink.
// Owns:      the crew, the workers and the sampler of the run; the target is the caller's and stays open.
// Threads:   called from one thread; starts options.workload.threads workers once, and a sampler.
// Errors:    in RunResult::errors, as lines; what was measured until then is in the result.
#pragma once
#include <cstdio>
#include <functional>
#include <string>

#include "bench/options.h"
#include "bench/run_result.h"
#include "bench/target.h"

namespace tidewheel::bench {

struct RunWatch {
  // After each loop (and after its files are unlinked, when they are not kept): the loop and the count of
  // files so far.
  std::function<void(const LoopResult& loop, std::uint64_t count)> on_loop;
  std::FILE* interval_csv = nullptr;  // taken over
  bool progress = false;
  std::string progress_label;
};

RunResult run_workload(const FsmarkOptions& options, WorkloadTarget& target, const RunWatch& watch);

}  // namespace tidewheel::bench
