// fs/log/flush_tickets.h: one device flush for many who need one.
//
//   write completes -> take() -> ... -> flush(ticket) returns: what had completed by take() is durable
//
// A flush covers what had completed before it was submitted, whatever completes while it runs. So flushes are
// numbered as they begin, a ticket is the number of the last one that had begun when it was taken, and any
// flush with a higher number covers it: one of another's, one that the log sends before a commit record, one
// that is running. Where there is none, whoever asks first sends one, and those who come meanwhile wait for
// that one to end, and then share the next.
//
// Owns:      nothing of the device.
// Threads:   all of it from any thread; began() and ended() also from a device's completion.
// Locks:     lock_ (kCompletion), not held while the device is called.
// Errors:    flush(): the device's. A flush that failed is an error for every ticket that it would have
//            covered, also where a later one succeeds: the device may have dropped what it could not store.
// Invariant: (1) a number is given before its flush is submitted, a ticket taken after the write has
//            completed: a flush with a higher number was submitted after the write was complete; (2) at most
//            one flush of its own is under way.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "base/sync.h"
#include "fs/block/block_device.h"

namespace tidewheel {

struct FlushTicket {
  std::uint64_t last_begun = 0;
};

struct FlushTicketStats {
  std::uint64_t sent = 0;    // flushes of its own
  std::uint64_t others = 0;  // told by began(): the log's
  std::uint64_t shared = 0;  // calls of flush() that another's covered
};

class FlushTickets {
 public:
  explicit FlushTickets(BlockDevice& device);
  ~FlushTickets();  // asserts that no flush is under way

  // After the writes that it is to cover have completed. Under the lock: an old number would be one too low,
  // and a flush that began before the write completed would seem to cover it.
  FlushTicket take() const TW_EXCLUDES(lock_);
  Result<void> flush(FlushTicket ticket) TW_EXCLUDES(lock_);

  // A flush that somebody else sends: before it is submitted, and when it is over.
  std::uint64_t began() TW_EXCLUDES(lock_);
  void ended(std::uint64_t number, bool good) TW_EXCLUDES(lock_);

  FlushTicketStats stats() const TW_EXCLUDES(lock_);

 private:
  std::uint64_t begin_locked() TW_REQUIRES(lock_);
  void end_locked(std::uint64_t number, bool good) TW_REQUIRES(lock_);

  BlockDevice& device_;

  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
  std::uint64_t begun_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t newest_good_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t newest_failed_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t failed_before_ TW_GUARDED_BY(lock_) = 0;  // the newest but one that failed
  std::uint32_t under_way_ TW_GUARDED_BY(lock_) = 0;
  FlushTicketStats stats_ TW_GUARDED_BY(lock_);
  CondVar ended_;
};

}  // namespace tidewheel
