// bench/posix_target.h: real directories through system calls: any mounted file system, as a baseline.
// Owns:      a descriptor per directory.
// Threads:   as WorkloadTarget says; TargetThreads share the directories' descriptors, nothing else.
// Errors:    errno comes in here and becomes a Reason. sync() is syncfs(2) on each file system that the
//            directories lie on, never sync(2).
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "bench/target.h"

namespace tidewheel::bench {

// Or the line that says which directory could not be made or opened, and why.
std::variant<std::unique_ptr<WorkloadTarget>, std::string> make_posix_target(
    const std::vector<std::string>& directories);

}  // namespace tidewheel::bench
