#include "bench/file_names.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/rng.h"

namespace tidewheel::bench {

namespace {

constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

}  // namespace

FileNames::FileNames(const WorkloadOptions& workload, std::uint64_t stamp)
    : name_bytes_(workload.name_bytes),
      random_bytes_(workload.random_bytes),
      subdirectories_(workload.subdirectories),
      files_per_subdirectory_(workload.files_per_subdirectory),
      files_per_thread_(workload.files_per_thread),
      threads_(workload.threads),
      seed_(workload.seed),
      stamp_(stamp) {}

std::uint32_t FileNames::subdirectory_of(std::uint32_t thread, std::uint32_t loop,
                                         std::uint64_t number) const {
  // Where a loop starts moves on with the loop, and where threads start differs, as the time of day makes
  // it in the original; here it follows from the numbers, so that a name can be computed again.
  const std::uint64_t start = stamp_ + loop + thread;
  const std::uint64_t step = files_per_subdirectory_ == 0 ? 0 : number / files_per_subdirectory_;
  return static_cast<std::uint32_t>((start + step) % subdirectories_);
}

bool FileNames::make(std::uint32_t thread, std::uint32_t loop, std::uint64_t number,
                     char (&into)[kBufferBytes]) const {
  char* out = into;
  if (subdirectories_ != 0) {
    out += std::snprintf(out, 16, "%02x/", subdirectory_of(thread, loop, number));
  }
  const std::uint32_t stamp_bytes = name_bytes_ - random_bytes_;
  if (stamp_bytes != 0) {
    std::memset(out, '~', stamp_bytes);
    char hex[17];
    const auto digits = static_cast<std::uint32_t>(std::snprintf(hex, sizeof hex, "%llx",
                                                                 static_cast<unsigned long long>(stamp_)));
    // Too short for the whole stamp: its low digits, which differ between runs.
    const std::uint32_t kept = std::min(digits, stamp_bytes);
    std::memcpy(out, hex + (digits - kept), kept);
  }
  char* const random = out + stamp_bytes;
  std::uint64_t unique = (static_cast<std::uint64_t>(loop) * threads_ + thread) * files_per_thread_ + number;
  Rng rng(seed_ ^ (unique * 0x9E3779B97F4A7C15ULL));
  std::uint64_t bits = rng.next();
  std::uint32_t left = random_bytes_;
  // Thirteen digits hold any 64-bit number.
  const std::uint32_t number_digits = std::min(random_bytes_, 13U);
  for (std::uint32_t i = 0; i < number_digits; ++i) {
    random[--left] = kDigits[unique % 36];
    unique /= 36;
  }
  if (unique != 0) return false;
  std::uint32_t drawn = 0;
  while (left > 0) {
    if (drawn == 12) {  // 36^12 < 2^63: a word is good for twelve
      bits = rng.next();
      drawn = 0;
    }
    random[--left] = kDigits[bits % 36];
    bits /= 36;
    ++drawn;
  }
  random[random_bytes_] = '\0';
  return true;
}

}  // namespace tidewheel::bench
