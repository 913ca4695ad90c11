// fs/flat/block_allocator.h: which blocks of the device are free; hands them out in long runs.
// Owns:      a bitmap, in groups of 8 MiB that take memory (264 bytes) when they are first reached.
// Threads:   every method is thread-safe.
// Locks:     lock_ (rank kStore), once per batch in allocate() and once per file that is deleted.
// Units:     blocks of 4 KiB.
// Errors:    none: the caller has reserved what it asks for (FileIndex); to ask for more asserts.
// Invariant: free + allocated = blocks under management.
//
// Where a run comes from, in this order: what is left of the run in hand; the first whole group that has
// become free again; the next group never used; at last, pieces of groups that are partly free, next fit.
// So a device is written from front to back, deleted files' space is used again in long runs, and only a
// device that is nearly full gives short ones.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/sync.h"

namespace tidewheel {

inline constexpr std::uint64_t kBlockBytes = 4096;

struct BlockExtent {
  std::uint64_t block = 0;
  std::uint64_t blocks = 0;
  friend bool operator==(const BlockExtent&, const BlockExtent&) = default;
};

class BlockAllocator {
 public:
  static constexpr std::uint32_t kGroupBlocks = 2048;

  // Manages blocks first_block .. end_block - 1, all free.
  BlockAllocator(std::uint64_t first_block, std::uint64_t end_block);

  // Appends extents of `blocks` blocks in all to `out`, the fewest that this allocator finds.
  void allocate(std::uint64_t blocks, std::vector<BlockExtent>& out) TW_EXCLUDES(lock_);
  void free(const BlockExtent* extents, std::size_t n) TW_EXCLUDES(lock_);
  // Marks blocks as taken that a saved index names. False: they lie outside, or are taken already.
  bool take(BlockExtent extent) TW_EXCLUDES(lock_);

  std::uint64_t total_blocks() const { return end_ - first_; }
  std::uint64_t free_blocks() const TW_EXCLUDES(lock_);
  std::uint64_t memory_bytes() const TW_EXCLUDES(lock_);
  void check_invariants() const TW_EXCLUDES(lock_);

 private:
  struct Group {
    std::uint32_t free = 0;
    bool queued = false;  // on whole_
    std::uint64_t bits[kGroupBlocks / 64] = {};  // 1: free
  };

  std::uint64_t group_of(std::uint64_t block) const { return (block - first_) / kGroupBlocks; }
  std::uint64_t group_start(std::uint64_t group) const { return first_ + group * kGroupBlocks; }
  std::uint32_t group_blocks(std::uint64_t group) const;
  void reach_locked(std::uint64_t group) TW_REQUIRES(lock_);  // makes groups up to this one
  void queue_whole_locked(std::uint64_t group) TW_REQUIRES(lock_);
  bool next_run_locked() TW_REQUIRES(lock_);
  void mark_locked(BlockExtent extent, bool free) TW_REQUIRES(lock_);
  bool all_locked(BlockExtent extent, bool free) const TW_REQUIRES(lock_);

  const std::uint64_t first_;
  const std::uint64_t end_;

  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankInodeHash);
  std::vector<std::unique_ptr<Group>> groups_ TW_GUARDED_BY(lock_);  // reached so far
  // Groups that were wholly free when queued: a heap with the first one on top.
  std::vector<std::uint64_t> whole_ TW_GUARDED_BY(lock_);
  BlockExtent run_ TW_GUARDED_BY(lock_);      // in hand: free in the bitmap, given out from the front
  std::uint64_t cursor_ TW_GUARDED_BY(lock_) = 0;  // group where the search for pieces goes on
  std::uint64_t free_ TW_GUARDED_BY(lock_);
};

}  // namespace tidewheel
