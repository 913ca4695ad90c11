#include "fs/crash/recording.h"

#include <utility>

namespace tidewheel {

namespace {

std::string failed(const char* what, std::uint64_t seed, const Error& error) {
  return std::string(what) + " of the run with seed " + std::to_string(seed) +
         " failed: " + std::string(error.sentence());
}

}  // namespace

std::string record(const WorkloadFactory& make, std::uint64_t seed, Recording& run) {
  run.workload = make(seed);
  BaseImage blank;
  blank.size_bytes = run.workload->image_bytes();
  if (blank.size_bytes == 0 || blank.size_bytes % kCrashBlockBytes != 0) {
    return "the image has " + std::to_string(blank.size_bytes) + " bytes, which is no multiple of 4096";
  }
  blank.blocks.resize(blank.size_bytes / kCrashBlockBytes);
  {
    CrashImage image;
    image.reset(blank);
    if (const auto made = run.workload->format(image); !made) return failed("format", seed, made.error());
    if (const auto read = read_base(image, run.base); !read) return failed("format", seed, read.error());
  }
  if (auto sim = run.workload->make_device(); sim != nullptr) {
    if (sim->size_bytes() != run.base.size_bytes) return "the device is not as large as the image";
    for (std::uint64_t block = 0; block < run.base.blocks.size(); ++block) {
      const std::byte* bytes = run.base.blocks[block].bytes;
      if (bytes != nullptr) sim->preload(block * kCrashBlockBytes, {bytes, kCrashBlockBytes});
    }
    run.device = std::move(sim);
  } else {
    auto image = std::make_unique<CrashImage>();
    image->reset(run.base);
    run.device = std::move(image);
  }
  run.recorded = std::make_unique<RecordedDevice>(*run.device);
  AckLog acks(*run.recorded);
  if (const auto ran = run.workload->run(*run.recorded, acks); !ran) return failed("run", seed, ran.error());
  if (run.trace().events.size() >= IoTrace::kNever) return "a run of more than 2^32 events";
  run.trace_hash = hash_of_trace(run.trace());
  return {};
}

}  // namespace tidewheel
