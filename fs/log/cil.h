// fs/log/cil.h: committed items list: transactions gather here in memory until a checkpoint writes them.
//
// A commit formats its items into images with nothing locked but their objects; then, with the context
// shared, it puts each image into the item's place in the open checkpoint, where a newer image replaces an
// older one (relogging), or takes a new place in the list of one of kShards shards. The switch takes all
// lists by splicing and touches no item: an item knows by the checkpoint's number that its place is stale.
//
// Owns:      the open checkpoint's entries.
// Threads:   commit() by many; close() by the log's worker alone.
// Locks:     context_lock_ (kCilContext): shared by commits from their first pin until their objects are
//            unlocked, exclusive for the switch; a shard's (kCilShard): list and sums. No memory is allocated
//            under either.
// Units:     bytes of log.
// Errors:    none: a commit cannot fail. Whether the log still lives is asked before.
// Invariant: (1) an item has one place in a checkpoint, with its newest image, and is pinned once for it;
//            (2) a commit's items are all in one checkpoint; (3) each shard's tickets cover the records that
//            its images can fill, counted as if they were written by themselves.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include <boost/intrusive/list.hpp>

#include "base/atomic.h"
#include "base/config.h"
#include "base/sync.h"
#include "fs/item/log_item.h"
#include "fs/log/checkpoint.h"
#include "fs/log/grant.h"

namespace tidewheel {

// What records cost besides the operations in them.
struct RecordCosts {
  std::uint32_t payload_bytes = 0;  // that one buffer holds
  std::uint32_t header_bytes = 0;
  // Log bytes that a checkpoint of so many bytes of operations takes at most.
  std::uint64_t most_bytes(std::uint64_t operations_bytes) const;
};

struct CilStats {
  std::uint64_t commits = 0, items = 0, relogs = 0, whiteouts = 0;
  std::uint64_t operation_bytes = 0;  // formatted by commits
};

class Cil {
 public:
  static constexpr std::uint32_t kShards = 16;

  // soft_bytes: from here on the open checkpoint is to be written (log/8, at most 32 MiB).
  Cil(const RecordCosts& costs, std::uint64_t soft_bytes, std::uint64_t first_sequence);
  ~Cil();  // asserts that it is empty

  enum class Fill : std::uint8_t { kLow, kSoft, kHard };  // hard: twice soft
  struct Committed {
    std::uint64_t sequence = 0;  // of the checkpoint that holds it
    Fill fill = Fill::kLow;
  };
  // Puts the items' present state into the open checkpoint, with log space from the ticket, and unlocks them
  // (LogItem::committing). The caller holds every item's object. All of it is durable, or none, once the
  // log's stable sequence has reached the answer's.
  Committed commit(std::span<LogItem* const> items, LogTicket& ticket) noexcept;

  // Closes the open checkpoint and opens the next. Null: nothing has been committed into it.
  std::unique_ptr<Checkpoint> close();
  // Of the open checkpoint. acquire pairs with release in close().
  std::uint64_t open_sequence() const { return open_sequence_.load(std::memory_order_acquire); }
  // Everything committed before the call is in a checkpoint with this number or a lower one.
  std::uint64_t last_used_sequence() const;
  // The same with no commit under way: what comes after it has seen all that the caller has.
  std::uint64_t settled_sequence() const;

  CilStats stats() const;

 private:
  using Entries = boost::intrusive::list<
      CilEntry,
      boost::intrusive::member_hook<
          CilEntry,
          boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>,
          &CilEntry::hook>,
      boost::intrusive::constant_time_size<false>>;
  struct alignas(kCacheLine) Shard {
    Shard();
    mutable Mutex lock TW_ACQUIRED_AFTER(kRankCilShard) TW_ACQUIRED_BEFORE(kRankIclog);
    Entries entries TW_GUARDED_BY(lock);
    std::int64_t bytes TW_GUARDED_BY(lock) = 0;          // of operations; below 0 where others' shrank here
    std::int64_t counted_bytes TW_GUARDED_BY(lock) = 0;  // of them, in Cil::bytes_
    std::int64_t granted_bytes TW_GUARDED_BY(lock) = 0;
    CilStats stats TW_GUARDED_BY(lock);
  };

  std::uint64_t used_sequence() const TW_REQUIRES_SHARED(context_lock_);
  static void prepare(std::span<LogItem* const> items);
  // Bytes by which the commit makes the checkpoint grow. New places are appended to `fresh`.
  std::int64_t enter_items(std::span<LogItem* const> items, std::uint64_t sequence, Entries& fresh,
                           CilStats& counted) TW_REQUIRES_SHARED(context_lock_);
  std::int64_t enter_shard(Entries& fresh, std::int64_t grown, const CilStats& counted);

  const RecordCosts costs_;
  const std::int64_t soft_bytes_;
  const std::int64_t count_step_;  // a shard tells bytes_ of so much at once: 16 of them err by soft/4

  alignas(kCacheLine) mutable SharedMutex context_lock_ TW_ACQUIRED_AFTER(kRankCilContext)
      TW_ACQUIRED_BEFORE(kRankCilShard);
  Atomic<std::uint64_t> open_sequence_;  // written under context_lock_, exclusive
  alignas(kCacheLine) Atomic<std::int64_t> bytes_{0};   // of operations in the open checkpoint, nearly
  Atomic<std::uint64_t> next_order_{0};
  Atomic<bool> used_{false};  // something is in the open checkpoint; both under context_lock_
  std::array<Shard, kShards> shards_;
};

}  // namespace tidewheel
