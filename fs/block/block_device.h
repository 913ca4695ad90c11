// fs/block/block_device.h: the one asynchronous interface to storage.
// Owns:      nothing of a request: it belongs to its caller and stays in place, with its segments and
//            their memory, until its completion runs. From then on the device no longer touches it.
// Threads:   submit() from any thread; it may block while the device's queue is full. Completions run on a
//            thread of the device, or on the submitter's before submit() returns (requests refused at
//            once; RAM and null devices).
// Locks:     no device lock (rank kDevice) is held while a completion runs. A completion must not block,
//            and so must not submit to a device with a bounded queue: it hands over to another thread.
// Units:     bytes. The offset and each segment's length are multiples of block_bytes(); each segment's
//            memory is aligned to memory_alignment(); an empty read or write is refused.
// Errors:    by completion alone, each request exactly once: kMisaligned, kOutOfRange, kInvalidArgument
//            (refused, nothing moved); kIo, kShortIo, kNoSpace, kUnsupported (anything between nothing and
//            all was moved, sector by sector).
// Invariant: (1) a write that completed is durable once a flush that was SUBMITTED after its completion has
//            completed, or once it has itself completed with `fua`. A flush promises nothing about writes
//            that were still under way when it was submitted, even if they complete before it does.
//            (2) `preflush` is such a flush, submitted with the write and over before the first byte of the
//            write is stored: whoever finds the write after a power cut finds what the flush covers.
//            (3) What isn't durable may be lost in any subset and torn at kSectorBytes; a sector is old or
//            new, never a mixture. Of two writes to one place, the second submitted after the first had
//            completed, the first never comes back over the second.
//            (4) Requests that overlap in range and time have no order: that is the caller's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/sync.h"
#include "base/trace.h"

namespace tidewheel {

enum class IoOp : std::uint8_t { kRead, kWrite, kFlush };
enum class IoCause : std::uint8_t { kData, kLog, kMetadata };  // for counts by cause
inline constexpr std::size_t kIoCauses = 3;
// What a device stores whole or not at all when the power goes.
inline constexpr std::uint64_t kSectorBytes = 512;

struct IoSegment {
  void* data = nullptr;
  std::uint64_t len_bytes = 0;
};

struct IoRequest {
  IoOp op = IoOp::kRead;
  IoCause cause = IoCause::kData;
  bool preflush = false;  // of a write: flush first (REQ_PREFLUSH)
  bool fua = false;       // of a write: durable when it completes (REQ_FUA)
  std::uint64_t offset_bytes = 0;
  std::span<const IoSegment> segments = {};  // any number
  void (*done)(IoRequest& request, Result<void> result) = nullptr;
  void* owner = nullptr;  // the caller's own
  // The device's own while the request is in flight.
  IoRequest* next = nullptr;
  std::uint64_t device_private[8] = {};

  std::uint64_t len_bytes() const {
    std::uint64_t total = 0;
    for (const IoSegment& segment : segments) total += segment.len_bytes;
    return total;
  }
};

// Requests that ended well, by kind; bytes by cause count writes alone. A write with `preflush` counts as a
// flush, too. `errors` counts those that ended otherwise, refused ones included.
struct DeviceStats {
  std::uint64_t reads = 0, writes = 0, flushes = 0, fua_writes = 0;
  std::uint64_t read_bytes = 0, write_bytes = 0;
  std::uint64_t write_bytes_data = 0, write_bytes_log = 0, write_bytes_metadata = 0;
  std::uint64_t errors = 0;
};

bool all_zero(std::span<const std::byte> bytes);

// The last argument of the trace points block_rq_*, taken apart.
struct IoTraceFlags {
  IoOp op = IoOp::kRead;
  IoCause cause = IoCause::kData;
  bool preflush = false;
  bool fua = false;
  Reason error = Reason::kOk;  // of block_rq_complete

  std::uint64_t packed() const;
  static IoTraceFlags unpacked(std::uint64_t flags);
};

class BlockDevice {
 public:
  BlockDevice();
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;
  virtual ~BlockDevice() = default;  // all requests must have completed

  virtual std::string_view name() const = 0;
  virtual std::uint64_t size_bytes() const = 0;
  virtual std::uint32_t block_bytes() const = 0;
  virtual std::uint32_t memory_alignment() const = 0;
  virtual void submit(IoRequest& request) = 0;
  virtual DeviceStats stats() const = 0;
  // False: what is written cannot be read back (the null device).
  virtual bool keeps_data() const { return true; }
  // Makes the device at least so large; only while no request is in flight. Apart from open(), so that the
  // owner can first look at what is there: a file that is not ours must not change. kUnsupported where a
  // device cannot grow.
  virtual Result<void> grow(std::uint64_t size_bytes);
  // Whether anything but zeros is stored, also beyond size_bytes() in what the device lies in. Reads what
  // is there (a sparse file's or memory's holes are passed over), up to the first byte that is not 0: on
  // a blank disk, all of it. Counts in no statistics where the device can look beneath itself.
  virtual Result<bool> holds_data();
  // Drops all that is stored and makes the device of this size, blank: the space goes back to the host.
  // While no request is in flight. kUnsupported where that can't be had at once (disks).
  virtual Result<void> renew(std::uint64_t size_bytes);

  // A fault: the volatile cache forgets, without a word, what no flush covers; what is in flight goes on.
  // kUnsupported where there is no such cache to empty.
  virtual Result<void> lose_unflushed();

  // Blocking forms of the same, for callers that have nothing else to do.
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> into, IoCause cause = IoCause::kData);
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from,
                     IoCause cause = IoCause::kData);
  Result<void> flush(IoCause cause = IoCause::kData);
  // The write that commits: what completed before is durable before it, and it is when this returns.
  Result<void> write_durably(std::uint64_t offset_bytes, std::span<const std::byte> from,
                             IoCause cause = IoCause::kData);
  // Any request; `done` and `owner` are overwritten.
  Result<void> submit_and_wait(IoRequest& request);

 protected:
  // What any device refuses before it looks further.
  Result<void> check(const IoRequest& request) const;

  // For the device that has the medium, not for those that pass a request on: when it takes a request that it
  // has not refused, and before that request's completion runs. One load each while tracing is off.
  void trace_issue(const IoRequest& request) const {
    if (tracing()) [[unlikely]] record_issue(request);
  }
  void trace_complete(const IoRequest& request, Result<void> result) const {
    if (tracing()) [[unlikely]] record_complete(request, result);
  }

 private:
  void record_issue(const IoRequest& request) const;
  void record_complete(const IoRequest& request, Result<void> result) const;

  // Of the device, not of each wait: the woken waiter may return, and its stack frame end, while the
  // completion is still inside unlock().
  Mutex wait_lock_;
  CondVar wait_done_;
};

}  // namespace tidewheel
