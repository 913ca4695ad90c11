// fs/item/log_image.h: what one item logs, formatted: operations in memory as they will lie in a record's
// payload, except for the checkpoint's number, which the writer of the record fills in.
// Owns:      its bytes, which lie behind it in one allocation.
// Threads:   none of its own: an image belongs to a commit, then to a checkpoint, then to the CIL's spare
//            ones.
// Units:     bytes.
// Invariant: `used` never exceeds `capacity`.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/assert.h"
#include "fs/format/log_format.h"

namespace tidewheel {

struct LogImage {
  struct Free {
    void operator()(LogImage* image) const;
  };
  using Owned = std::unique_ptr<LogImage, Free>;

  // Capacities come in classes, half a power of two apart, so that a spare image fits another item, and one
  // that grows a little needs none. What is larger than the largest class has its own size and is in no
  // class.
  static constexpr std::uint32_t kClasses = 21;  // 128, 192, 256, 384 ... 131072
  static constexpr std::uint32_t class_of(std::uint32_t bytes) {
    if (bytes <= 128) return 0;
    const auto log = static_cast<std::uint32_t>(std::bit_width(bytes - 1));
    const std::uint32_t whole = 2 * (log - 7);
    return bytes <= (3U << (log - 2)) ? whole - 1 : whole;
  }
  static constexpr std::uint32_t bytes_of_class(std::uint32_t number) {
    const std::uint32_t whole = 128U << (number / 2);
    return number % 2 == 0 ? whole : whole + whole / 2;
  }

  static Owned make(std::uint32_t least_bytes);
  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(this + 1); }
  std::uint32_t memory_bytes() const { return static_cast<std::uint32_t>(sizeof(LogImage)) + capacity; }

  LogImage* next = nullptr;  // of the spare ones
  std::uint32_t capacity = 0;
  std::uint32_t used = 0;
};
static_assert(sizeof(LogImage) == 16, "operations behind it are aligned");
static_assert(LogImage::bytes_of_class(LogImage::class_of(129)) == 192);
static_assert(LogImage::bytes_of_class(LogImage::class_of(193)) == 256);
static_assert(LogImage::bytes_of_class(LogImage::class_of(256)) == 256);
static_assert(LogImage::class_of(LogImage::bytes_of_class(LogImage::kClasses - 1)) == LogImage::kClasses - 1);

// How an item writes its image: one region after the other.
class LogVectorWriter {
 public:
  static constexpr std::uint32_t kOpBytes = sizeof(disk::LogOp);

  explicit LogVectorWriter(LogImage& image) : image_(image) { image.used = 0; }

  void region(std::span<const std::byte> bytes) {
    std::memcpy(begin_region(static_cast<std::uint32_t>(bytes.size())).data(), bytes.data(), bytes.size());
    end_region(static_cast<std::uint32_t>(bytes.size()));
  }
  // The same where the item knows only the most that it will write.
  std::span<std::byte> begin_region(std::uint32_t most_bytes) {
    TW_ASSERT(most_bytes <= image_.capacity && image_.used + kOpBytes <= image_.capacity - most_bytes,
              "an item logs more than it said");
    return {image_.data() + image_.used + kOpBytes, most_bytes};
  }
  void end_region(std::uint32_t bytes) {
    auto& op = *reinterpret_cast<disk::LogOp*>(image_.data() + image_.used);
    op = disk::LogOp{};
    op.bytes = bytes;
    image_.used += kOpBytes + bytes;
  }

 private:
  LogImage& image_;
};

}  // namespace tidewheel
