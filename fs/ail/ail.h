// fs/ail/ail.h: items that are in the log but not yet home, ordered by LSN, and what pushes them home.
// Owns:      nothing; an item belongs to its object. Linked exactly while LogItem::in_ail.
// Threads:   every method is thread-safe, except walk(), which one thread at a time calls (the pusher's,
//            pusher.h). A Cursor belongs to one thread.
// Locks:     lock_ (rank kAil); given up inside push() where an item asks for that: cursors survive it. No
//            lock is held while the log is forced, buffers are submitted, or the listener is called.
// Units:     LSNs; bytes of log; nanoseconds.
// Errors:    wait_empty(): kShutDown. After shut_down() walk() pushes nothing; items leave by remove().
// Invariant: (1) sorted by lsn, equal ones in the order of insertion; (2) tail_lsn() is the first item's
//            lsn, or the newest checkpoint's when there is none, and never goes back; (3) an item moves only
//            forward; (4) the pusher is idle only while nothing lies at or before its target: whoever changes
//            that under lock_ sees that it is idle, and wakes it; (5) at most one force in each walk from the
//            head (kEachWalk...), none where no item was met pinned.
// Progress:  pinned items leave by the force that the next walk from the head begins with; locked and
//            failed ones are met again then. A walk in which most were stuck restarts from the head, so that
//            the force comes; a target is never lowered, so that what a sleeper waits for is reached.
// Source:    the AIL as XFS's public documentation describes it; the three variants of forcing are seed 4.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include <boost/intrusive/list.hpp>

#include "base/atomic.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/time.h"
#include "fs/item/log_force.h"
#include "fs/item/log_item.h"

namespace tidewheel {

// When the log is forced for pinned items (mount option log_force=).
enum class AilForce : std::uint8_t {
  kEachWalk,      // walk-async: once per walk from the head, started and not waited for (the default)
  kEachWalkWait,  // walk-sync: the same, waited for before the walk
  kEachPass,      // pass: at the end of every pass that met pinned items (what seed 4 replaced)
};

struct AilOptions {
  std::uint32_t log_sectors = 0;  // of the log's ring
  AilForce force = AilForce::kEachWalk;
};

// Where push() leaves what is to be written.
class AilWriter {
 public:
  // Submits what the walk has queued, in the order of the device; answers how many buffers stayed behind
  // because they were pinned by then.
  virtual std::uint32_t submit_pushed() = 0;

 protected:
  ~AilWriter() = default;
};

class TailListener {
 public:
  // The tail has moved, or nothing is in any more: there may be room in the log. A hint, to be followed by
  // tail_lsn(). No lock is held.
  virtual void tail_moved() = 0;

 protected:
  ~TailListener() = default;
};

struct AilStats {
  std::uint64_t walks = 0, passes = 0;  // a walk begins at the head; a long one takes several passes
  std::uint64_t pushed = 0, pinned = 0, locked = 0, flushing = 0;  // outcomes of push()
  std::uint64_t forces = 0;
  std::uint64_t inserts = 0, moves = 0, removals = 0;
  std::uint64_t insert_steps = 0;       // items passed to find places; 0 while checkpoints come in order
  std::uint64_t max_per_hold = 0;       // items handled in one hold by inserts and removals
  std::uint64_t items = 0;              // now
};

class Ail {
 public:
  static constexpr std::size_t kItemsPerHold = 32;
  static constexpr std::uint32_t kStuckLimit = 100;    // a pass that met more pinned or locked ends
  static constexpr std::uint32_t kItemsPerPass = 1000;  // and one that saw more ends where the LSN changes
  static constexpr Duration kTargetReachedPause = milliseconds(50);  // what was pushed completes meanwhile
  static constexpr Duration kStuckPause = milliseconds(20);
  static constexpr std::uint32_t kStuckPercent = 90;

  // All three outlive it.
  Ail(const AilOptions& options, LogForcer& forcer, AilWriter& writer, TailListener& listener);
  ~Ail();  // asserts that it is empty

  // ---- what comes and goes ----
  // These items' checkpoint began at `lsn` and is on stable storage. What is in already moves, unless it is
  // as far already. Answers when all are in; at most kItemsPerHold at a time.
  void insert(std::span<LogItem* const> items, Lsn lsn) TW_EXCLUDES(lock_);
  // Their newest images are at home (or never will be: a shutdown). Those that are not in are passed over.
  void remove(std::span<LogItem* const> items) TW_EXCLUDES(lock_);
  // The same, only if it has not been relogged since its write began: while its lsn is still `written`.
  // True: it is out.
  bool remove_if_unchanged(LogItem& item, Lsn written) TW_EXCLUDES(lock_);
  // The newest checkpoint on stable storage began at `start`, whatever it held: the tail when nothing is
  // in. Called by the log in order, and before the checkpoint's items are inserted: they could be home, and
  // out again, before it would be called after.
  void checkpoint_stable(Lsn start) TW_EXCLUDES(lock_);

  // ---- where it stands ----
  // Everything before this is home. One load; acquire pairs with release where it is moved.
  Lsn tail_lsn() const { return Lsn{tail_word_.load(std::memory_order_acquire)}; }
  Lsn min_lsn() const TW_EXCLUDES(lock_);  // none when empty
  Lsn max_lsn() const TW_EXCLUDES(lock_);
  bool empty() const { return min_lsn().none(); }
  Lsn lsn_of(const LogItem& item) const TW_EXCLUDES(lock_);  // none when it is not in
  AilStats stats() const TW_EXCLUDES(lock_);

  // ---- pushing ----
  // Everything that is in now is to go home. Returns at once.
  void push_all() TW_EXCLUDES(lock_);
  // Somebody waits for log space: what lies at or before `tail` must go, where the usual quarter is less. The
  // log says where, since it alone knows its head and what tickets hold. kNoLsn: nobody.
  void set_needed_tail(Lsn tail) TW_EXCLUDES(lock_);
  // Pushes until nothing is in. Items that others insert meanwhile are waited for as well.
  Result<void> wait_empty() TW_EXCLUDES(lock_);
  // Nothing more is pushed; waiters end. From any thread, also a completion's; harmless twice.
  void shut_down() TW_EXCLUDES(lock_);

  // After a shutdown, when pusher and log have stopped: takes every item out and tells it
  // (LogItem::abandon()).
  void abandon_all() TW_EXCLUDES(lock_);

  // One pass of the pusher. Answers how long to pause before the next; Duration::max(): idle.
  Duration walk() TW_EXCLUDES(lock_);
  // Until the pause is over or somebody has asked for more. Duration::max(): until there is something to
  // push, or end_idle() is called.
  void pause(Duration longest) TW_EXCLUDES(lock_);
  void end_idle() TW_EXCLUDES(lock_);


  // ---- walking for others ----
  // A place in the list that survives whatever happens between calls: when its item leaves or moves, it goes
  // on with the next. What is inserted before it is not seen. Ends before the Ail does.
  class Cursor {
   public:
    explicit Cursor(Ail& ail);  // at the head
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

   private:
    friend class Ail;
    using Hook = boost::intrusive::list_member_hook<
        boost::intrusive::link_mode<boost::intrusive::safe_link>>;
    Ail& ail_;
    Hook hook_;
    LogItem* at_ = nullptr;  // comes next, under lock_; null: the head to begin with, then the end
    bool begun_ = false;
  };
  // Calls visit with the next item, under the lock, which keeps the item alive. False: there is none.
  bool visit_next(Cursor& cursor, const std::function<void(LogItem&)>& visit) TW_EXCLUDES(lock_);

  void check_invariants() const TW_EXCLUDES(lock_);

 private:
  using List = boost::intrusive::list<
      LogItem, boost::intrusive::member_hook<LogItem, LogItem::Hook, &LogItem::ail_hook>,
      boost::intrusive::constant_time_size<false>>;
  using Cursors = boost::intrusive::list<
      Cursor, boost::intrusive::member_hook<Cursor, Cursor::Hook, &Cursor::hook_>,
      boost::intrusive::constant_time_size<false>>;
  class WalkScope;

  // What a pass has met.
  struct Pass {
    std::uint32_t count = 0, stuck = 0, flushing = 0;
    bool reached_target = false;
  };

  void place_locked(LogItem& item, Lsn lsn) TW_REQUIRES(lock_);
  void unlink_locked(LogItem& item) TW_REQUIRES(lock_);
  bool publish_tail_locked() TW_REQUIRES(lock_);  // true: the listener is to hear
  LogItem* after_locked(LogItem& item) TW_REQUIRES(lock_);
  void note_hold_locked(std::uint64_t items) TW_REQUIRES(lock_);
  void emptied_locked() TW_REQUIRES(lock_);

  void raise_target_locked() TW_REQUIRES(lock_);
  bool work_locked() const TW_REQUIRES(lock_);
  void wake_if_work_locked() TW_REQUIRES(lock_);
  void hurry_locked() TW_REQUIRES(lock_);
  bool begin_walk() TW_EXCLUDES(lock_);
  Pass push_some() TW_EXCLUDES(lock_);
  void push_one_locked(LogItem& item, Pass& pass) TW_REQUIRES(lock_);
  Duration end_pass(const Pass& pass, std::uint32_t pinned_buffers) TW_EXCLUDES(lock_);

  // ---- constant after construction ----
  const std::uint32_t log_sectors_;
  const AilForce force_;
  LogForcer& forcer_;
  AilWriter& writer_;
  TailListener& listener_;

  Atomic<std::uint64_t> tail_word_{0};  // written under lock_

  // ---- under lock_ ----
  alignas(kCacheLine) mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankAil) TW_ACQUIRED_BEFORE(kRankGrant);
  List items_ TW_GUARDED_BY(lock_);
  Cursors cursors_ TW_GUARDED_BY(lock_);
  Lsn newest_checkpoint_ TW_GUARDED_BY(lock_);
  Lsn target_ TW_GUARDED_BY(lock_);       // push what lies at or before this; never lowered
  bool push_all_ TW_GUARDED_BY(lock_) = false;
  Lsn needed_tail_ TW_GUARDED_BY(lock_);
  std::uint32_t empty_waiters_ TW_GUARDED_BY(lock_) = 0;
  bool shut_down_ TW_GUARDED_BY(lock_) = false;
  // The pusher's own state between passes.
  LogItem* resume_ TW_GUARDED_BY(lock_) = nullptr;  // where the walk goes on; null: at the head
  bool met_pinned_ TW_GUARDED_BY(lock_) = false;    // since the last force
  bool hurry_ TW_GUARDED_BY(lock_) = false;         // its pause is to end
  bool idle_ended_ TW_GUARDED_BY(lock_) = false;
  AilStats stats_ TW_GUARDED_BY(lock_);
  CondVar wake_;     // the pusher's
  CondVar emptied_;  // wait_empty()'s
};

// The option's names: walk-async, walk-sync, pass. False: none of them.
bool parse_ail_force(std::string_view text, AilForce& force);

}  // namespace tidewheel
