// fs/block/block_device.h: the one asynchronous interface to storage.
// Owns:      a request belongs to its caller and stays in place until its completion has run.
// Threads:   submit() from any thread; completions run on the device's completion thread (RAM and null
//            devices without latency: possibly on the submitter, before submit() returns).
// Locks:     a completion must not block and must not call submit() on the same device synchronously
//            waiting for it; device locks (rank kDevice) are not held while it runs.
// Units:     bytes; offset and every segment multiples of block_bytes() in length, segments aligned to
//            memory_alignment().
// Errors:    kOutOfRange, kMisaligned at once; kIo, kShortIo, kNoSpace by completion.
// Invariant: every submitted request completes exactly once. A flush covers the writes that completed
//            before it was submitted, and no others.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace tidewheel {

enum class IoOp : std::uint8_t { kRead, kWrite, kFlush };
enum class IoCause : std::uint8_t { kData, kLog, kMetadata };  // for counts by cause

struct IoSegment {
  void* data = nullptr;
  std::uint64_t len_bytes = 0;
};

struct IoRequest {
  IoOp op = IoOp::kRead;
  IoCause cause = IoCause::kData;
  std::uint64_t offset_bytes = 0;
  std::span<const IoSegment> segments;  // stay in place until completion; any number
  void (*done)(IoRequest& request, Result<void> result) = nullptr;
  void* owner = nullptr;                // the caller's own
  // The device's own while the request is in flight.
  IoRequest* next = nullptr;
  std::uint64_t device_private[8] = {};
};

struct DeviceStats {
  std::uint64_t reads = 0, writes = 0, flushes = 0;
  std::uint64_t read_bytes = 0, write_bytes = 0;
  std::uint64_t write_bytes_data = 0, write_bytes_log = 0, write_bytes_metadata = 0;
  std::uint64_t errors = 0;
};

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;  // all requests must have completed
  virtual std::string_view name() const = 0;
  virtual std::uint64_t size_bytes() const = 0;
  virtual std::uint32_t block_bytes() const = 0;
  virtual std::uint32_t memory_alignment() const = 0;
  virtual void submit(IoRequest& request) = 0;
  virtual DeviceStats stats() const = 0;

  // Blocking forms of the same, for callers that have nothing else to do.
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> into, IoCause cause = IoCause::kData);
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from, IoCause cause = IoCause::kData);
  Result<void> flush();
};

}  // namespace tidewheel
