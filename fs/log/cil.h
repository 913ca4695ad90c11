// fs/log/cil.h: committed items list: transactions gather here in memory until a checkpoint writes them.
//
// A commit takes the lock of one of kShards shards, and holds it until its items are unlocked: that is its
// share of the open checkpoint, and the one lock that it takes. An item that is in the checkpoint already is
// formatted into its image there (relogging); another takes a new place in the shard's list. The switch takes
// all shards' locks and all lists, by splicing, and touches no item: an item knows by the checkpoint's number
// that its place is stale.
//
// Images and places come from the shard's spare ones, to which written checkpoints return theirs. Where they
// do not reach, the lock is given up to allocate, and the commit begins again: memory that is short is won
// back by writing, which may need the switch.
//
// Owns:      the open checkpoint's entries; spare images and entries.
// Threads:   commit() by many; close() and written() by the log's worker alone; ended() by its completion
//            thread.
// Locks:     a shard's (kCilShard): its list, its sums, and a share of open_sequence_ and used_, which are
//            written with all shards locked. No memory is allocated under it.
// Units:     bytes of log; bytes of memory.
// Errors:    none: a commit cannot fail. Whether the log still lives is asked before.
// Invariant: (1) an item has one place in a checkpoint, with its newest image, and is pinned once for it;
//            (2) a commit's items are all in one checkpoint; (3) each shard's tickets cover the records that
//            its images can fill, counted as if they were written by themselves; (4) what is relogged, and
//            what finds spare memory, allocates nothing.
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
  std::uint64_t new_images = 0, new_entries = 0;  // allocated, where no spare one was there
};

struct CilLimits {
  std::uint64_t soft_bytes = 0;         // of operations: the open checkpoint is to be written (log/8, 32 MiB)
  std::uint64_t soft_memory_bytes = 0;  // of images and entries: the same
};

class Cil {
 public:
  static constexpr std::uint32_t kShards = 16;

  Cil(const RecordCosts& costs, const CilLimits& limits, std::uint64_t first_sequence);
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
  // Its records hold what its images held: they become spare, or are freed.
  void written(Checkpoint& checkpoint);
  // The same for its entries: it is over.
  void ended(Checkpoint& checkpoint);
  // Frees what is spare: memory is short.
  void drop_spare();

  // Of the open checkpoint. acquire pairs with release in close().
  std::uint64_t open_sequence() const { return open_sequence_.load(std::memory_order_acquire); }
  // Everything committed before the call is in a checkpoint with this number or a lower one.
  std::uint64_t last_used_sequence() const;
  // The same with no commit under way: what comes after it has seen all that the caller has.
  std::uint64_t settled_sequence();
  // Of operations in the open checkpoint; too few by up to soft_bytes / 4.
  std::uint64_t open_bytes() const {
    const std::int64_t bytes = bytes_.load(std::memory_order_relaxed);
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }
  // What images and entries take: in the open checkpoint, in those being written, and spare. One load; within
  // memory_error_bytes().
  std::int64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  std::int64_t memory_error_bytes() const { return kShards * memory_step_; }
  // The same, exact when nobody commits.
  std::int64_t exact_memory_bytes() const;

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
    std::int64_t memory TW_GUARDED_BY(lock) = 0;         // of the open checkpoint's images and entries
    std::int64_t counted_open TW_GUARDED_BY(lock) = 0;   // of it, in Cil::open_memory_
    std::int64_t counted_all TW_GUARDED_BY(lock) = 0;    // of it and of spare ones, in Cil::memory_bytes_
    CilStats stats TW_GUARDED_BY(lock);
    Entries spare_entries TW_GUARDED_BY(lock);
    std::array<LogImage*, LogImage::kClasses> spare_images TW_GUARDED_BY(lock){};
    std::int64_t spare_bytes TW_GUARDED_BY(lock) = 0;
  };
  // What a commit has counted.
  struct Entered {
    std::int64_t bytes = 0, memory = 0;  // by which the checkpoint grows
    CilStats stats;
    LogImage* outgrown = nullptr;  // to be freed once nothing is locked
  };

  std::uint64_t used_sequence() const;  // a shard at least is locked
  static void measure(std::span<LogItem* const> items);
  // Whether each item has what it needs to enter; takes spare images and entries.
  bool equip_locked(Shard& shard, std::span<LogItem* const> items, std::uint64_t sequence)
      TW_REQUIRES(shard.lock);
  static void allocate(std::span<LogItem* const> items, CilStats& counted);
  void enter_locked(Shard& shard, std::span<LogItem* const> items, std::uint64_t sequence, Entered& entered)
      TW_REQUIRES(shard.lock);
  void enter_one_locked(Shard& shard, LogItem& item, std::uint64_t sequence, Entered& entered)
      TW_REQUIRES(shard.lock);
  void relog_locked(Shard& shard, LogItem& item, Entered& entered) TW_REQUIRES(shard.lock);
  // Answers the log space that the shard needs from now on.
  std::int64_t account_locked(Shard& shard, const Entered& entered) TW_REQUIRES(shard.lock);
  static LogImage::Owned take_spare_locked(Shard& shard, std::uint32_t bytes) TW_REQUIRES(shard.lock);
  void lock_every_shard();
  Fill fill() const;
  std::int64_t spare_room() const;
  void give_spare_locked(Shard& shard, std::int64_t bytes) TW_REQUIRES(shard.lock) {
    shard.spare_bytes += bytes;
    shard.counted_all += bytes;  // they are counted already
  }

  const RecordCosts costs_;
  const std::int64_t soft_bytes_;
  const std::int64_t count_step_;   // a shard tells bytes_ of so much at once: 16 of them err by soft/4
  const std::int64_t soft_memory_;
  const std::int64_t memory_step_;  // the same for open_memory_ and memory_bytes_

  // ---- read by commits, written seldom: with all shards locked, or in steps ----
  alignas(kCacheLine) Atomic<std::uint64_t> open_sequence_;
  Atomic<bool> used_{false};                // something is in the open checkpoint
  Atomic<std::int64_t> bytes_{0};           // of operations in the open checkpoint, nearly
  Atomic<std::int64_t> open_memory_{0};     // of its images and entries, nearly
  Atomic<std::int64_t> memory_bytes_{0};    // of all, nearly
  Atomic<std::int64_t> writing_memory_{0};  // of checkpoints that are closed and not over
  // ---- written by each commit ----
  alignas(kCacheLine) Atomic<std::uint64_t> next_order_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace tidewheel
