// bench/flat_target.h: the flat store over the writeback engine, on a file, memory or nothing.
// Owns:      device, budget, engine and store, ended in the reverse order.
// Threads:   as WorkloadTarget says.
// Errors:    a line that names the option: what is on the device is neither blank nor a flat store, the
//            size is not to be had, and the like.
// Note:      each run makes the store anew: it has no names that a second run's could be told from.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "bench/options.h"
#include "bench/target.h"

namespace tidewheel::bench {

std::variant<std::unique_ptr<WorkloadTarget>, std::string> make_flat_target(const FsmarkOptions& options);

}  // namespace tidewheel::bench
