// fs/item/log_item.h: the handle by which something that transactions change travels from a commit through
// the CIL and the log to the AIL, and home. A buffer, an inode, an intent each have one.
// Owns:      nothing; the object owns its item.
// Threads:   see each method. What runs for the log's completions must not wait for a transaction, for log
//            space or for an object's lock: it is what frees them.
// Locks:     the object's lock guards what is formatted; the Ail's lock `lsn` and `in_ail`; flags are atomic.
// Errors:    everything here is noexcept and cannot fail: a write that fails is told to the item's object,
//            not to who pushed.
// Life:      clean -> in a transaction -> in a checkpoint of the CIL (pinned) -> in the AIL -> clean; on each
//            way round it may be taken into a transaction again (relogged), and then moves only forward.
// Invariant: (1) pins equal unpins at rest, one for each checkpoint that holds the item; (2) in the AIL from
//            the moment its checkpoint is on stable storage until its newest logged image is at home;
//            (3) an item moves only forward in LSN.
// Source:    machinery in the manner of XFS's log items, from public documentation.
#pragma once
#include <cstdint>
#include <memory>

#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>

#include "base/atomic.h"
#include "fs/format/types.h"
#include "fs/item/log_image.h"

namespace tidewheel {

struct CilEntry;

enum class PushResult : std::uint8_t {
  kPushed,    // it is on its way home, or queued for that
  kPinned,    // the log must be forced first
  kLocked,    // somebody has it: later
  kFlushing,  // it is on its way already
};

// What push() may do with the list it is called from.
class PushScope {
 public:
  // Gives the list's lock up; the walk takes it again. From then on the item may go away by the completion
  // of its write, unless push() itself keeps it (holds its object, or has its lock).
  virtual void drop_list_lock() = 0;

 protected:
  ~PushScope() = default;
};

class LogItem {
 public:
  struct LogSize {
    std::uint32_t regions = 0;
    std::uint32_t bytes = 0;
  };
  enum Flag : std::uint32_t {
    kFlushing = 1,  // being written home: the pusher passes it by without a call
    kFailed = 2,    // the last write home failed: push() submits it again
    kAborted = 4,   // its checkpoint was never written: the mount is shutting down
  };

  LogItem(const LogItem&) = delete;
  LogItem& operator=(const LogItem&) = delete;

  // ---- commit: the transaction holds the object's lock ----
  // The order in which a transaction's items are prepared; items of one kind ascend by their object's place,
  // so that locks taken in precommit() are taken in one order.
  virtual std::uint64_t sort_key() const noexcept { return 0; }
  // Last moment to join what must be logged with it.
  virtual void precommit() noexcept {}
  // An upper bound of what format() will give.
  virtual LogSize size() const noexcept = 0;
  // Under a short lock: copies, and neither allocates nor waits.
  virtual void format(LogVectorWriter& out) noexcept = 0;
  // Once per item and checkpoint: from here on the object must not be written home.
  virtual void pin() noexcept = 0;
  // The commit is in the checkpoint with this number: unlocks the object.
  virtual void committing(std::uint64_t checkpoint) noexcept = 0;
  // The transaction ends without it: it was not dirty, or the transaction was cancelled, or it says that an
  // intent of the same checkpoint is done (neither is written then). Unlocks the object.
  virtual void release() noexcept = 0;
  // Of an item that says that an intent is done: the intent.
  virtual LogItem* intent() noexcept { return nullptr; }

  // ---- the log's completion thread ----
  // The checkpoint that began at start_lsn is on stable storage. Answers which LSN the item has in the AIL:
  // start_lsn; an earlier one that it must keep; kNeverLsn: none, it does not go there.
  virtual Lsn committed(Lsn start_lsn) noexcept { return start_lsn; }
  // Once per pin, after committed(), which does not come when aborted: the checkpoint will never be stable.
  // The item may be gone afterwards.
  virtual void unpin(bool aborted) noexcept = 0;

  // ---- the pusher: the AIL's lock is held ----
  // Starts the write home if that can be had without waiting: locks are only tried.
  virtual PushResult push(PushScope& scope) noexcept = 0;

  // ---- a shutdown's end: the log has stopped, nobody pushes ----
  // Taken out of the AIL for good: what it stands for will not be written. It may be gone afterwards.
  virtual void abandon() noexcept {}

  bool has(Flag flag) const { return (flags_.load(std::memory_order_acquire) & flag) != 0; }
  // release pairs with acquire in has(): who sees the flag sees what was prepared before it was set.
  void set(Flag flag) { flags_.fetch_or(flag, std::memory_order_release); }
  void clear(Flag flag) { flags_.fetch_and(~static_cast<std::uint32_t>(flag), std::memory_order_release); }

  // ---- the CIL's: the committer, with the object locked and the open checkpoint shared ----
  std::uint64_t checkpoint = 0;           // the newest that holds it; 0: none so far
  CilEntry* entry = nullptr;              // its place there; stale once that checkpoint is closed
  std::unique_ptr<CilEntry> next_entry;   // during a commit that gives it a new place
  LogImage::Owned next_image;             // during a commit that gives it a new image
  std::uint32_t next_bytes = 0;           // during a commit: size(), operation headers included
  bool lacks_entry = false;               // during a commit: neither its own nor a spare one
  bool lacks_image = false;

  // ---- the AIL's, under its lock ----
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::safe_link>>;
  Hook ail_hook;
  Lsn lsn;
  bool in_ail = false;

 protected:
  LogItem();
  ~LogItem();  // asserts that it is not in the AIL

 private:
  Atomic<std::uint32_t> flags_{0};
};

}  // namespace tidewheel
