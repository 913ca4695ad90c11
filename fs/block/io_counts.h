// fs/block/io_counts.h: what a device has done, counted by kind and cause.
// Threads:   count() and stats() from any thread. A device's requests are few and large, so plain
//            counters do; they are statistics and order nothing.
#pragma once
#include <cstdint>

#include "base/atomic.h"
#include "fs/block/block_device.h"

namespace tidewheel {

class IoCounts {
 public:
  // Once per request, before its completion runs.
  void count(const IoRequest& request, const Result<void>& result) {
    if (!result) return add(errors_, 1);
    switch (request.op) {
      case IoOp::kFlush:
        return add(flushes_, 1);
      case IoOp::kRead:
        add(read_bytes_, request.len_bytes());
        return add(reads_, 1);
      case IoOp::kWrite:
        add(write_bytes_[static_cast<std::size_t>(request.cause)], request.len_bytes());
        if (request.preflush) add(flushes_, 1);
        if (request.fua) add(fua_writes_, 1);
        return add(writes_, 1);
    }
  }

  DeviceStats stats() const {
    DeviceStats s;
    s.reads = get(reads_);
    s.writes = get(writes_);
    s.flushes = get(flushes_);
    s.fua_writes = get(fua_writes_);
    s.read_bytes = get(read_bytes_);
    s.write_bytes_data = get(write_bytes_[static_cast<std::size_t>(IoCause::kData)]);
    s.write_bytes_log = get(write_bytes_[static_cast<std::size_t>(IoCause::kLog)]);
    s.write_bytes_metadata = get(write_bytes_[static_cast<std::size_t>(IoCause::kMetadata)]);
    s.write_bytes = s.write_bytes_data + s.write_bytes_log + s.write_bytes_metadata;
    s.errors = get(errors_);
    return s;
  }

 private:
  using Count = Atomic<std::uint64_t>;
  static void add(Count& count, std::uint64_t n) { count.fetch_add(n, std::memory_order_relaxed); }
  static std::uint64_t get(const Count& count) { return count.load(std::memory_order_relaxed); }

  Count reads_{0}, writes_{0}, flushes_{0}, fua_writes_{0}, read_bytes_{0}, errors_{0};
  Count write_bytes_[kIoCauses];
};

}  // namespace tidewheel
