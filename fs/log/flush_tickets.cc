#include "fs/log/flush_tickets.h"

#include <algorithm>

#include "base/assert.h"

namespace tidewheel {
namespace {

LockClass tickets_class{"flush-tickets", LockRank::kCompletion};

}  // namespace

FlushTickets::FlushTickets(BlockDevice& device) : device_(device), lock_(tickets_class) {}

FlushTickets::~FlushTickets() {
  MutexLock hold(lock_);
  TW_ASSERT(under_way_ == 0, "flush tickets end while a flush is under way");
}

std::uint64_t FlushTickets::begin_locked() {
  ++under_way_;
  return ++begun_;
}

void FlushTickets::end_locked(std::uint64_t number, bool good) {
  if (good) {
    newest_good_ = std::max(newest_good_, number);
  } else {
    failed_before_ = std::max(failed_before_, std::min(newest_failed_, number));
    newest_failed_ = std::max(newest_failed_, number);
  }
  --under_way_;
  ended_.notify_all();
}

FlushTicket FlushTickets::take() const {
  MutexLock hold(lock_);
  return {begun_};
}

Result<void> FlushTickets::flush(FlushTicket ticket) {
  std::uint64_t mine = 0;
  {
    MutexLock hold(lock_);
    for (;;) {
      // Of a failed one and a good one after it the first counts. Of two that failed, and a good one, nobody
      // knows any more which was the first: an error too many is harmless, one too few is not.
      const bool failed = newest_failed_ > ticket.last_begun;
      const bool covered = newest_good_ > ticket.last_begun;
      const bool failed_twice = failed_before_ > ticket.last_begun;
      if (failed && (!covered || newest_failed_ < newest_good_ || failed_twice)) return TW_FAIL(kIo);
      if (covered) {
        ++stats_.shared;
        return {};
      }
      if (under_way_ == 0) break;
      // Either it covers this ticket, or it began before: then the next one is for all who wait here.
      ended_.wait(lock_);
    }
    mine = begin_locked();
    ++stats_.sent;
  }
  const Result<void> result = device_.flush(IoCause::kData);
  MutexLock hold(lock_);
  end_locked(mine, result.has_value());
  return result;
}

std::uint64_t FlushTickets::began() {
  MutexLock hold(lock_);
  ++stats_.others;
  return begin_locked();
}

void FlushTickets::ended(std::uint64_t number, bool good) {
  MutexLock hold(lock_);
  end_locked(number, good);
}

FlushTicketStats FlushTickets::stats() const {
  MutexLock hold(lock_);
  return stats_;
}

}  // namespace tidewheel
