// fs/flat/file_key.h: what the flat store has in place of names: thread, loop and number of a file.
// Units:     thread:16 | loop:16 | number:32, also the inode number. Keys are cheap when numbers are dense
//            from 0 within a thread and loop: the index takes memory by runs of 256 numbers.
#pragma once
#include <compare>
#include <cstdint>

namespace tidewheel {

struct FileKey {
  std::uint64_t value = 0;

  static constexpr FileKey of(std::uint16_t thread, std::uint16_t loop, std::uint32_t number) {
    return {(static_cast<std::uint64_t>(thread) << 48) | (static_cast<std::uint64_t>(loop) << 32) | number};
  }
  constexpr std::uint16_t thread() const { return static_cast<std::uint16_t>(value >> 48); }
  constexpr std::uint16_t loop() const { return static_cast<std::uint16_t>(value >> 32); }
  constexpr std::uint32_t number() const { return static_cast<std::uint32_t>(value); }
  friend constexpr auto operator<=>(const FileKey&, const FileKey&) = default;
};

}  // namespace tidewheel
