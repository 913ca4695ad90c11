// bench/file_data.h: what a file of the workload contains: a pattern that follows from seed, file and
// offset, or zeros.
// Owns:      one buffer of write_bytes.
// Threads:   one owner each.
// Units:     bytes; offsets are where in the file.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/options.h"
#include "bench/target.h"

namespace tidewheel::bench {

class FileData {
 public:
  explicit FileData(const WorkloadOptions& workload);

  // The file's bytes [offset, offset + len), len at most write_bytes; good until the next call.
  std::span<const std::byte> fill(const FileRef& file, std::uint64_t offset, std::uint64_t len);
  // Where in the file the first wrong byte is.
  std::optional<std::uint64_t> first_difference(const FileRef& file, std::uint64_t offset,
                                                std::span<const std::byte> found) const;

 private:
  const bool zero_;
  const std::uint64_t seed_;
  std::vector<std::byte> buffer_;
};

}  // namespace tidewheel::bench
