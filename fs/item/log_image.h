// fs/item/log_image.h: what one item logs, formatted: operations in memory as they will lie in a record's
// payload, except for the checkpoint's number, which the writer of the record fills in.
// Owns:      its bytes.
// Threads:   none of its own: an image belongs to its item under the object's lock, then to its checkpoint.
// Units:     bytes.
// Invariant: `used` never exceeds `capacity`, which was allocated from LogItem::size() before any lock of
//            the CIL was taken.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/assert.h"
#include "fs/format/log_format.h"

namespace tidewheel {

struct LogImage {
  explicit LogImage(std::uint32_t bytes) : data(new std::byte[bytes]), capacity(bytes) {}

  std::unique_ptr<std::byte[]> data;
  std::uint32_t capacity;
  std::uint32_t used = 0;
};

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
    return {image_.data.get() + image_.used + kOpBytes, most_bytes};
  }
  void end_region(std::uint32_t bytes) {
    auto& op = *reinterpret_cast<disk::LogOp*>(image_.data.get() + image_.used);
    op = disk::LogOp{};
    op.bytes = bytes;
    image_.used += kOpBytes + bytes;
  }

 private:
  LogImage& image_;
};

}  // namespace tidewheel
