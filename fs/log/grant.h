// fs/log/grant.h: log space, reserved in bytes before a transaction begins.
//
// Two heads count bytes of the same log: what lies between the published tail and the log's head, and what
// tickets hold. New reservations wait at the reserve head, for all the units that a rolling transaction may
// take; a transaction that has used them up and rolls waits at the write head, which does not count units
// that others may never take: whoever has begun gets on before who has not.
//
// Owns:      nothing; a LogTicket belongs to its transaction.
// Threads:   every method is thread-safe; a ticket belongs to one thread.
// Locks:     lock_ (rank kGrant) only to wait and to serve those who wait.
// Units:     bytes of log.
// Errors:    kShutDown from take().
// Invariant: (1) used() <= limit_bytes, except by take_unchecked(); (2) first come, first served: nobody
//            passes who waits; (3) at rest used() is what lies in the log, and 0 tickets are out.
#pragma once
#include <cstdint>

#include <boost/intrusive/list.hpp>

#include "base/atomic.h"
#include "base/config.h"
#include "base/result.h"
#include "base/sync.h"

namespace tidewheel {

// What a transaction may log. `available_bytes` of the unit in use, and `units_left` more to roll into.
struct LogTicket {
  std::uint32_t unit_bytes = 0;
  std::uint32_t units_left = 0;
  std::int64_t available_bytes = 0;
  bool rolls = false;             // permanent: it may be regranted
  // Rolled beyond its units: has the reserve head's share, not yet the write head's.
  bool must_regrant = false;
};

class GrantHead {
 public:
  explicit GrantHead(std::uint64_t limit_bytes);
  ~GrantHead();  // asserts that nobody waits

  // Waits, first come first served. `queued` is called once if it must, with no lock held: space can be had
  // by pushing.
  struct Queued {
    virtual void space_wanted() = 0;

   protected:
    ~Queued() = default;
  };
  Result<void> take(std::uint64_t bytes, Queued& queued) TW_EXCLUDES(lock_);
  // At once, also beyond the limit: for what has been promised.
  void take_unchecked(std::uint64_t bytes) {
    used_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_seq_cst);
  }
  void give_back(std::uint64_t bytes) TW_EXCLUDES(lock_);
  void shut_down() TW_EXCLUDES(lock_);

  std::int64_t used_bytes() const { return used_.load(std::memory_order_acquire); }
  bool has_waiters() const { return waiters_.load(std::memory_order_seq_cst) != 0; }
  // Of the first that waits; 0: nobody.
  std::uint64_t first_need_bytes() const TW_EXCLUDES(lock_);
  std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  struct Waiter {
    std::uint64_t bytes = 0;
    enum class State : std::uint8_t { kWaiting, kGranted, kRefused } state = State::kWaiting;
    CondVar decided;
    boost::intrusive::list_member_hook<> hook;
  };
  using Queue = boost::intrusive::list<
      Waiter, boost::intrusive::member_hook<Waiter, boost::intrusive::list_member_hook<>, &Waiter::hook>,
      boost::intrusive::constant_time_size<false>>;

  bool take_now(std::uint64_t bytes);
  void serve_locked() TW_REQUIRES(lock_);

  const std::int64_t limit_;
  // seq_cst, both: who waits is counted and then looks at used_; who gives back lowers used_ and then looks
  // at waiters_. One of the two sees the other.
  alignas(kCacheLine) Atomic<std::int64_t> used_{0};
  Atomic<std::uint32_t> waiters_{0};
  Atomic<std::uint64_t> waits_{0};
  alignas(kCacheLine) mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankGrant) TW_ACQUIRED_BEFORE(kRankBufferHash);
  Queue queue_ TW_GUARDED_BY(lock_);
  bool shut_down_ TW_GUARDED_BY(lock_) = false;
};

}  // namespace tidewheel
