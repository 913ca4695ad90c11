// bench/file_names.h: the names of a run's files, computed again whenever they are needed.
// Owns:      nothing: no table of names, so that 10^8 files cost no memory.
// Threads:   a FileNames is constant once made; make() writes into the caller's buffer.
// Invariant: two files of a run never have one name: the random part ends in the file's number in base
//            36 (validated to fit), what is left of it is random by seed.
#pragma once
#include <cstdint>

#include "bench/options.h"

namespace tidewheel::bench {

class FileNames {
 public:
  static constexpr std::uint32_t kBufferBytes = kMaxNameBytes + 16;

  // `stamp` is the time of the run's start, in hexadecimal at the names' beginning; where -s and -r leave it
  // less room, its low digits. Two runs that share it and the seed make the same names.
  FileNames(const WorkloadOptions& workload, std::uint64_t stamp);

  // "name", or "1f/name" in a subdirectory; NUL-terminated. False: the number has outgrown -r.
  bool make(std::uint32_t thread, std::uint32_t loop, std::uint64_t number, char (&into)[kBufferBytes]) const;
  std::uint32_t subdirectory_of(std::uint32_t thread, std::uint32_t loop, std::uint64_t number) const;

 private:
  const std::uint32_t name_bytes_, random_bytes_;
  const std::uint32_t subdirectories_;
  const std::uint64_t files_per_subdirectory_;
  const std::uint64_t files_per_thread_, threads_;
  const std::uint64_t seed_, stamp_;
};

}  // namespace tidewheel::bench
