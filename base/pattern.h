// base/pattern.h: repeatable file content: byte `offset` of file `file` under `seed` is always the same,
// and differs from what any other file, offset or seed has there (but for one chance in 2^64 per word).
// Threads:   stateless; thread-safe.
// Units:     bytes; any range, any alignment.
// Note:      content is made in blocks of 4 KiB: a window of a fixed random table, moved and keyed by
//            (seed, file, block), so that filling runs at the speed of memory and a block that is found at
//            the wrong place, or shifted within its place, or of another file, is told from the right one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tidewheel {

struct Pattern {
  std::uint64_t seed = 0;
  std::uint64_t file = 0;

  void fill(std::uint64_t offset_bytes, std::span<std::byte> out) const;
  // The first offset in the file whose byte is wrong; nothing when all are right.
  std::optional<std::uint64_t> first_difference(std::uint64_t offset_bytes,
                                                std::span<const std::byte> in) const;
};

}  // namespace tidewheel
