// bench/compare.h: the subcommand: the same workload over designs and thread counts, side by side.
// Threads:   the parent runs one thread only, so that it may fork: each run is a child process, whose
//            memory, lock and CPU figures are its own.
// Errors:    one line on standard error; a run that failed is named, and fails the comparison at its end.
#pragma once
#include "bench/options.h"

namespace tidewheel::bench {

int run_compare(const CompareOptions& options);

}  // namespace tidewheel::bench
