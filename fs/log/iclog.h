// fs/log/iclog.h: the log's buffers: each becomes one record, is written, and is told of in order.
//
//   free -> filling -> sealed -> writing -> done -> retiring -> free
//        acquire    seal     |          |       |           |
//                            |          |       |           the next to retire is free again
//                            |          |       all before it have been retired; owner told
//                            |          its requests have completed
//                            a record that flushes: all before it have completed; others: at once
//
// A record is written from one buffer by one request, or by two where it goes round the log's end.
// Owns:      the buffers and the completion thread.
// Threads:   acquire(), seal() by one thread, the filler; fail() by any. The owner is told on the completion
//            thread, which never waits for a transaction, log space or an object.
// Locks:     lock_ (rank kIclog): states. completion_lock_ (rank kCompletion). None is held while the
//            device or the owner is called.
// Units:     bytes; sectors of 512.
// Errors:    the first failed write ends the log: nothing more is submitted, all that follows in the ring is
//            retired as not stable, whether its own write went well or not.
// Invariant: (1) records are retired in the order of their LSNs, although writes complete out of order;
//            (2) a record that flushes is submitted with a flush before it, after every record before it has
//            completed; it is itself stable when it completes: the record with the commit operation is such
//            a one, so a checkpoint costs one flush.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/sync.h"
#include "base/thread.h"
#include "fs/block/block_device.h"
#include "fs/format/log_format.h"
#include "fs/log/flush_tickets.h"

namespace tidewheel {

struct Checkpoint;

// Where the log is, on which device.
struct LogPlace {
  std::uint64_t offset_bytes = 0;
  std::uint32_t sectors = 0;  // a multiple of the write unit
  Uuid uuid;
};

class Iclog {
 public:
  enum class State : std::uint8_t { kFree, kFilling, kSealed, kWriting, kDone, kRetiring };

  // ---- filling ----
  std::uint32_t room_bytes() const { return payload_capacity_ - payload_bytes_; }
  // An operation, its bytes with it; not more than room_bytes() in all.
  void append(std::uint32_t checkpoint, std::uint8_t flags, std::span<const std::byte> bytes);
  // The buffer becomes a record at `lsn`. After it: sectors(), and the bytes as they lie on disk.
  void finish(const LogPlace& place, Lsn lsn, Lsn tail, std::uint32_t previous_sector);

  Lsn lsn() const { return lsn_; }
  Lsn tail() const { return tail_; }
  std::uint32_t sectors() const { return sectors_; }
  std::uint64_t bytes() const { return std::uint64_t{sectors_} * kLogSectorBytes; }

  // ---- the owner's ----
  bool flushes = false;              // a flush before it, and stable when it completes
  std::unique_ptr<Checkpoint> ends;  // the checkpoint whose commit operation it holds
  enum class Purpose : std::uint8_t { kCheckpoint, kTail, kUnmount } purpose = Purpose::kCheckpoint;

 private:
  friend class IclogRing;
  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Free> memory_;
  std::uint32_t capacity_bytes_ = 0;
  std::uint32_t header_bytes_ = 0;      // room kept before the payload
  std::uint32_t payload_capacity_ = 0;
  std::uint32_t payload_bytes_ = 0;
  std::uint32_t operations_ = 0;
  Lsn lsn_, tail_;
  std::uint32_t sectors_ = 0;
  State state_ = State::kFree;  // under the ring's lock_
  bool submitted_ = false;      // under the ring's lock_
  bool failed_ = false;         // under the ring's lock_: retired as not stable
  // Requests under way; acq_rel: the last one sees what the others left.
  Atomic<std::uint32_t> pending_{0};
  Atomic<bool> error_{false};
  std::uint64_t flush_number_ = 0;  // of its flush, among all of the device
  std::array<IoRequest, 2> requests_;
  std::array<IoSegment, 2> segments_;
  class IclogRing* ring_ = nullptr;
};

class RecordOwner {
 public:
  // A record that flushes has been written, and is not retired yet: what is sealed from now on need not wait
  // for it. On the completion thread. Not told of what fails, nor behind that.
  virtual void commit_record_written() = 0;
  // In order, on the completion thread. stable: this record and all before it are on stable storage, as far
  // as a flush has been asked for; else it never will be.
  virtual void record_retired(Iclog& record, bool stable) = 0;
  // Once, on the completion thread: a write has failed.
  virtual void record_failed(Error error) = 0;

 protected:
  ~RecordOwner() = default;
};

struct IclogStats {
  std::uint64_t records = 0, bytes = 0, flushes = 0;
  std::uint64_t waits_for_buffer = 0;
};

class IclogRing {
 public:
  // `tickets` of the same device: told of the flushes that records send.
  IclogRing(BlockDevice& device, FlushTickets& tickets, const LogPlace& place, std::uint32_t buffers,
            std::uint32_t buffer_bytes, RecordOwner& owner);
  ~IclogRing();  // waits until every record is retired

  // The next buffer in the ring, empty; waits until it is free. The filler alone.
  Iclog& acquire() TW_EXCLUDES(lock_);
  // Hands a finished record over. Does not wait for its write.
  void seal(Iclog& record) TW_EXCLUDES(lock_);
  // Nothing more is submitted.
  void fail() TW_EXCLUDES(lock_);
  // Until every sealed record has been retired.
  void wait_idle() TW_EXCLUDES(lock_);

  std::uint32_t payload_bytes() const { return buffers_.front().payload_capacity_; }
  std::uint32_t header_bytes() const { return buffers_.front().header_bytes_; }
  IclogStats stats() const TW_EXCLUDES(lock_);

 private:
  static void request_done(IoRequest& request, Result<void> result);
  void begin_write_locked(Iclog& record) TW_REQUIRES(lock_);
  void submit(Iclog& record);
  bool may_submit_locked(const Iclog& record) const TW_REQUIRES(lock_);
  void hand_to_completion(Iclog& record) TW_EXCLUDES(completion_lock_);
  void run_completions();
  void settle(std::vector<Iclog*>& completed) TW_EXCLUDES(lock_);
  void retire() TW_EXCLUDES(lock_);
  Iclog& at(std::uint64_t number) { return buffers_[number % buffers_.size()]; }
  const Iclog& at(std::uint64_t number) const { return buffers_[number % buffers_.size()]; }

  BlockDevice& device_;
  FlushTickets& tickets_;
  const LogPlace place_;
  RecordOwner& owner_;
  std::vector<Iclog> buffers_;

  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankIclog) TW_ACQUIRED_BEFORE(kRankAil);
  std::uint64_t next_fill_ TW_GUARDED_BY(lock_) = 0;    // records acquired so far
  std::uint64_t next_retire_ TW_GUARDED_BY(lock_) = 0;  // records retired so far
  bool failed_ TW_GUARDED_BY(lock_) = false;
  bool told_failure_ TW_GUARDED_BY(lock_) = false;
  IclogStats stats_ TW_GUARDED_BY(lock_);
  CondVar retired_;

  Mutex completion_lock_ TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
  std::vector<Iclog*> completed_ TW_GUARDED_BY(completion_lock_);
  bool look_again_ TW_GUARDED_BY(completion_lock_) = false;
  bool ending_ TW_GUARDED_BY(completion_lock_) = false;
  CondVar has_completed_;
  // Completions that are still inside request_done(): the ring must not go before. release pairs with
  // acquire in the destructor.
  Atomic<std::uint32_t> completing_{0};
  Thread thread_;
};

}  // namespace tidewheel
