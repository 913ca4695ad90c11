// fs/flat/aligned_buffer.h: memory that any device takes, for the few transfers that are no file pages.
// Owns:      the memory. Threads: one owner.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "fs/flat/block_allocator.h"

namespace tidewheel {

class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t blocks)
      : bytes_(blocks * kBlockBytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes_))) {
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes_);
  }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace tidewheel
