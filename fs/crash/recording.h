// fs/crash/recording.h: a workload formatted, run and recorded: what all states of the run are made from.
// Owns:      the workload, the trace and the image beneath it.
// Threads:   made by one; then read by many.
#pragma once
#include <memory>
#include <string>

#include "fs/crash/crash_image.h"
#include "fs/crash/workload.h"

namespace tidewheel {

struct Recording {
  std::unique_ptr<CrashWorkload> workload;
  BaseImage base;                       // what format() left
  std::unique_ptr<BlockDevice> device;  // of the run
  std::unique_ptr<RecordedDevice> recorded;
  std::uint32_t trace_hash = 0;

  const IoTrace& trace() const {
    const IoTrace* const own = workload->own_trace();
    return own != nullptr ? *own : recorded->trace();
  }
};

// Why not, or empty.
std::string record(const WorkloadFactory& make, std::uint64_t seed, Recording& run);

}  // namespace tidewheel
