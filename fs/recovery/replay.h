// fs/recovery/replay.h: what each kind of log item does when it is replayed; and what it may use for that.
// Owns:      LogReplay: the queue of buffers that are to go home, the table of cancelled ones, open intents.
// Threads:   one owner; writes complete on the device's threads.
// Units:     device blocks.
// Errors:    kCorrupt: an item that does not fit its type, or a home that is newer than the log.
//            kUnsupported: a type nobody has registered for, found before anything is written. And those of
//            buffers.
// Invariant: (1) LSN rule: a home that carries an LSN at or beyond the checkpoint's start holds all of that
//            checkpoint's change, and is not replayed over; what is replayed carries the checkpoint's start
//            from then on. So replaying again, after a crash at any write, comes to the same bytes. (2) A
//            home's LSN counts only if the block is whole: a write home that a crash tore is replayed over
//            from the tail on. That restores it because what it would have written is in the log whole, from
//            the tail on: an item that is relogged before it was written home logs all that has changed since
//            it was last written home. (3) No image from before a buffer was cancelled is replayed.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fs/buf/buffer_cache.h"
#include "fs/buf/delwri_queue.h"
#include "fs/recovery/checkpoint_walk.h"

namespace tidewheel {

// Counted over the items of all checkpoints: a place in the log's order.
using ReplayOrder = std::uint64_t;

// An intent whose completion is not in the log: its owner finishes it, in new transactions.
struct RecoveredIntent {
  disk::LogItemType type{};
  std::uint64_t id = 0;
  Lsn lsn;                       // of its checkpoint: the tail must not pass it
  std::vector<std::byte> bytes;  // its region
};

class LogReplay {
 public:
  struct Counts {
    std::uint64_t replayed = 0, newer_at_home = 0, cancelled = 0, torn_homes = 0;
  };

  LogReplay(BufferCache& cache, BufferTarget& target);
  ~LogReplay();  // what was not written is let go

  // ---- pass 1 ----
  void cancel(DeviceAddress address, std::uint32_t length_blocks);
  // ---- pass 2 ----
  // Whether the buffer was cancelled after this item.
  bool is_cancelled(DeviceAddress address, std::uint32_t length_blocks);
  struct Home {
    LockedBuffer buffer;
    bool whole = false;  // as last written home; else what is in it is worth nothing but for what is replayed
  };
  // The buffer where a change belongs. `overwritten`: all of it will be filled.
  Result<Home> home(DeviceAddress address, std::uint32_t length_blocks, disk::BlockType type,
                    bool overwritten);
  // To be written with this LSN (kKeepLsn: it carries its own).
  Result<void> send_home(LockedBuffer buffer, Lsn lsn);
  void count_newer_at_home() { ++counts_.newer_at_home; }
  // ---- intents ----
  void intent(const RecoveredItem& item, std::uint64_t id);
  void intent_done(disk::LogItemType intent_type, std::uint64_t id);

  // ---- recovery's own ----
  void set_order(ReplayOrder order) { order_ = order; }
  // Whole checkpoints go home: a buffer that is written carries the LSN of one, and must hold all of it.
  Result<void> end_checkpoint();
  Result<void> write_all() { return queue_.submit_and_wait(); }
  std::vector<RecoveredIntent> open_intents() const;  // in the order in which they were logged
  const Counts& counts() const { return counts_; }
  const BufferTarget& target() const { return target_; }

 private:
  // Buffers, at least; then they go home, and can be reclaimed. A home that comes again in later checkpoints
  // is written once, however many they are, while half of the budget holds it.
  static constexpr std::size_t kLeastQueued = 4096;
  static constexpr std::uint64_t kQueuedPart = 2;

  BufferCache& cache_;
  BufferTarget& target_;
  const std::size_t most_queued_;
  DelwriQueue queue_;
  ReplayOrder order_ = 0;
  std::map<std::pair<std::uint64_t, std::uint32_t>, ReplayOrder> cancelled_;  // the last time
  std::map<std::pair<disk::LogItemType, std::uint64_t>, std::pair<ReplayOrder, RecoveredIntent>> intents_;
  Counts counts_;
};

class ReplayOperation {
 public:
  // Pass 1: nothing is written yet. The item is looked at as far as replay() will.
  virtual Result<void> collect(const RecoveredItem& item, LogReplay& replay) = 0;
  // Pass 2, for each item of each committed checkpoint, in order. What makes a block anew without its image
  // leaves no LSN in it: images of the same checkpoint come over it. The write stamps it.
  virtual Result<void> replay(const RecoveredItem& item, LogReplay& replay) = 0;

 protected:
  ~ReplayOperation() = default;
};

// By type. The operations outlive it.
class ReplayTable {
 public:
  // Buffers are known from the start.
  ReplayTable();
  void add(disk::LogItemType type, ReplayOperation& operation) { operations_[type] = &operation; }
  ReplayOperation* find(disk::LogItemType type) const {
    const auto found = operations_.find(type);
    return found == operations_.end() ? nullptr : found->second;
  }

 private:
  std::map<disk::LogItemType, ReplayOperation*> operations_;
};

// kBuffer: whole buffers, or their dirty chunks.
ReplayOperation& buffer_replay();

}  // namespace tidewheel
