#include "bench/file_data.h"

#include <algorithm>

#include "base/pattern.h"
#include "base/rng.h"

namespace tidewheel::bench {

namespace {

// Thread, loop and number in one 64-bit word; mixed, since the three together may need more bits.
Pattern pattern_of(std::uint64_t seed, const FileRef& file) {
  const std::uint64_t place = (static_cast<std::uint64_t>(file.loop) << 32) | file.thread;
  return {.seed = seed, .file = Rng(place).next() + file.number};
}

}  // namespace

FileData::FileData(const WorkloadOptions& workload)
    : zero_(workload.zero),
      seed_(workload.seed),
      buffer_(std::max<std::uint64_t>(std::min(workload.write_bytes, workload.file_bytes), 1)) {}

std::span<const std::byte> FileData::fill(const FileRef& file, std::uint64_t offset, std::uint64_t len) {
  const std::span<std::byte> data{buffer_.data(), len};
  if (!zero_) pattern_of(seed_, file).fill(offset, data);
  return data;
}

std::optional<std::uint64_t> FileData::first_difference(const FileRef& file, std::uint64_t offset,
                                                        std::span<const std::byte> found) const {
  if (!zero_) return pattern_of(seed_, file).first_difference(offset, found);
  const auto wrong = std::find_if(found.begin(), found.end(), [](std::byte b) { return b != std::byte{0}; });
  if (wrong == found.end()) return std::nullopt;
  return offset + static_cast<std::uint64_t>(wrong - found.begin());
}

}  // namespace tidewheel::bench
