#include "bench/file_data.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace tidewheel::bench {

namespace {

std::uint64_t mix(std::uint64_t z) { return Rng(z).next(); }

std::uint64_t file_key(std::uint64_t seed, const FileRef& file) {
  const std::uint64_t place = (static_cast<std::uint64_t>(file.loop) << 32) | file.thread;
  return mix(mix(seed ^ mix(place)) + file.number);
}

// The 8 bytes at word `index` of the file: one multiplication and an addition, so that filling a page
// costs less than copying it does, and no two places of any two files hold the same word by plan.
std::uint64_t word_at(std::uint64_t key, std::uint64_t index) { return (key + index) * 0x9E3779B97F4A7C15ULL; }

}  // namespace

FileData::FileData(const WorkloadOptions& workload)
    : zero_(workload.zero),
      seed_(workload.seed),
      buffer_(std::max<std::uint64_t>(std::min(workload.write_bytes, workload.file_bytes), 1)) {}

std::span<const std::byte> FileData::fill(const FileRef& file, std::uint64_t offset, std::uint64_t len) {
  if (zero_ || len == 0) return {buffer_.data(), len};
  const std::uint64_t key = file_key(seed_, file);
  std::uint64_t done = 0;
  std::uint64_t index = offset / 8;
  if (const std::uint64_t inside = offset % 8; inside != 0) {
    const std::uint64_t word = word_at(key, index++);
    done = std::min(8 - inside, len);
    std::memcpy(buffer_.data(), reinterpret_cast<const std::byte*>(&word) + inside, done);
  }
  std::uint64_t word = word_at(key, index);
  for (; done + 8 <= len; done += 8, word += 0x9E3779B97F4A7C15ULL) {
    std::memcpy(buffer_.data() + done, &word, 8);
  }
  if (done < len) std::memcpy(buffer_.data() + done, &word, len - done);
  return {buffer_.data(), len};
}

std::optional<std::uint64_t> FileData::first_difference(const FileRef& file, std::uint64_t offset,
                                                        std::span<const std::byte> found) {
  const std::span<const std::byte> wanted = fill(file, offset, found.size());
  if (std::memcmp(wanted.data(), found.data(), found.size()) == 0) return std::nullopt;
  const auto at = std::mismatch(wanted.begin(), wanted.end(), found.begin());
  return offset + static_cast<std::uint64_t>(at.first - wanted.begin());
}

}  // namespace tidewheel::bench
