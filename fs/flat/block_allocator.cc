#include "fs/flat/block_allocator.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/assert.h"

namespace tidewheel {

namespace {

LockClass allocator_class("flat-allocator", LockRank::kStore);

}  // namespace

BlockAllocator::BlockAllocator(std::uint64_t first_block, std::uint64_t end_block)
    : first_(first_block), end_(end_block), lock_(allocator_class), free_(end_block - first_block) {
  TW_ASSERT(first_block <= end_block, "the device ends before it begins");
}

std::uint32_t BlockAllocator::group_blocks(std::uint64_t group) const {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(kGroupBlocks, end_ - group_start(group)));
}

void BlockAllocator::reach_locked(std::uint64_t group) {
  while (groups_.size() <= group) {
    auto fresh = std::make_unique<Group>();
    fresh->free = group_blocks(groups_.size());
    for (std::uint32_t i = 0; i < fresh->free; i += 64) {
      const std::uint32_t n = std::min(64U, fresh->free - i);
      fresh->bits[i / 64] = n == 64 ? ~0ULL : (1ULL << n) - 1;
    }
    fresh->queued = true;
    groups_.push_back(std::move(fresh));
    queue_whole_locked(groups_.size() - 1);
  }
}

void BlockAllocator::queue_whole_locked(std::uint64_t group) {
  whole_.push_back(group);
  std::push_heap(whole_.begin(), whole_.end(), std::greater<>());
}

bool BlockAllocator::all_locked(BlockExtent extent, bool free) const {
  for (std::uint64_t block = extent.block; block < extent.block + extent.blocks;) {
    const std::uint64_t bit = (block - first_) % kGroupBlocks;
    const std::uint64_t n = std::min<std::uint64_t>(64 - bit % 64, extent.block + extent.blocks - block);
    const std::uint64_t mask = (n == 64 ? ~0ULL : (1ULL << n) - 1) << (bit % 64);
    const std::uint64_t word = groups_[group_of(block)]->bits[bit / 64] & mask;
    if (word != (free ? mask : 0)) return false;
    block += n;
  }
  return true;
}

void BlockAllocator::mark_locked(BlockExtent extent, bool free) {
  for (std::uint64_t block = extent.block; block < extent.block + extent.blocks;) {
    const std::uint64_t group_number = group_of(block);
    Group& group = *groups_[group_number];
    const std::uint64_t bit = (block - first_) % kGroupBlocks;
    const std::uint64_t n = std::min<std::uint64_t>(64 - bit % 64, extent.block + extent.blocks - block);
    const std::uint64_t mask = (n == 64 ? ~0ULL : (1ULL << n) - 1) << (bit % 64);
    std::uint64_t& word = group.bits[bit / 64];
    TW_ASSERT((word & mask) == (free ? 0 : mask), "a block is freed or allocated twice");
    word ^= mask;
    if (free) {
      group.free += static_cast<std::uint32_t>(n);
      if (group.free == group_blocks(group_number) && !group.queued) {
        group.queued = true;
        queue_whole_locked(group_number);
      }
    } else {
      group.free -= static_cast<std::uint32_t>(n);
    }
    block += n;
  }
  free_ = free ? free_ + extent.blocks : free_ - extent.blocks;
}

// Puts another run in hand. False: nothing is free.
bool BlockAllocator::next_run_locked() {
  for (;;) {
    while (!whole_.empty()) {
      std::pop_heap(whole_.begin(), whole_.end(), std::greater<>());
      const std::uint64_t group = whole_.back();
      whole_.pop_back();
      groups_[group]->queued = false;
      if (groups_[group]->free == group_blocks(group)) {
        run_ = {group_start(group), group_blocks(group)};
        return true;
      }
    }
    if (group_start(groups_.size()) >= end_) break;
    reach_locked(groups_.size());
  }
  for (std::uint64_t tried = 0; tried < groups_.size(); ++tried, cursor_ = (cursor_ + 1) % groups_.size()) {
    const Group& group = *groups_[cursor_];
    if (group.free == 0) continue;
    // The first run of the group. Its other pieces come when it is given out: the cursor stays here.
    std::uint32_t bit = 0;
    while (group.bits[bit / 64] == 0) bit += 64;
    bit += static_cast<std::uint32_t>(std::countr_zero(group.bits[bit / 64]));
    std::uint32_t end = bit;
    while (end < kGroupBlocks) {
      const auto ones = static_cast<std::uint32_t>(std::countr_one(group.bits[end / 64] >> (end % 64)));
      end += ones;
      if (ones == 0 || end % 64 != 0) break;
    }
    run_ = {group_start(cursor_) + bit, end - bit};
    return true;
  }
  return false;
}

void BlockAllocator::allocate(std::uint64_t blocks, std::vector<BlockExtent>& out) {
  MutexLock lock(lock_);
  const std::size_t first_out = out.size();
  while (blocks != 0) {
    // What is in hand stays free in the bitmap, so that free() needs not know of it; whoever frees beside
    // it cannot touch it, since it is not theirs.
    if (run_.blocks == 0 && !next_run_locked()) break;
    const std::uint64_t n = std::min(blocks, run_.blocks);
    mark_locked({run_.block, n}, false);
    if (out.size() > first_out && out.back().block + out.back().blocks == run_.block) {
      out.back().blocks += n;
    } else {
      out.push_back({run_.block, n});
    }
    run_.block += n;
    run_.blocks -= n;
    blocks -= n;
  }
  const bool short_of = blocks != 0;
  lock.unlock();
  TW_ASSERT(!short_of, "more blocks are asked for than were reserved");
}

void BlockAllocator::free(const BlockExtent* extents, std::size_t n) {
  MutexLock lock(lock_);
  for (std::size_t i = 0; i < n; ++i) mark_locked(extents[i], true);
}

bool BlockAllocator::take(BlockExtent extent) {
  MutexLock lock(lock_);
  if (extent.blocks == 0 || extent.block < first_ || extent.block > end_ ||
      extent.blocks > end_ - extent.block) {
    return false;
  }
  reach_locked(group_of(extent.block + extent.blocks - 1));
  if (!all_locked(extent, true)) return false;
  mark_locked(extent, false);
  run_ = {};  // may have been cut into
  return true;
}

std::uint64_t BlockAllocator::free_blocks() const {
  MutexLock lock(lock_);
  return free_;
}

std::uint64_t BlockAllocator::memory_bytes() const {
  MutexLock lock(lock_);
  return groups_.size() * (sizeof(Group) + sizeof(groups_[0])) + whole_.capacity() * sizeof(std::uint64_t);
}

void BlockAllocator::check_invariants() const {
  MutexLock lock(lock_);
  std::uint64_t free_in_groups = 0;
  for (const auto& group : groups_) {
    std::uint32_t bits = 0;
    for (std::uint64_t word : group->bits) bits += static_cast<std::uint32_t>(std::popcount(word));
    TW_ASSERT(bits == group->free, "a group's count and bits differ");
    free_in_groups += bits;
  }
  const std::uint64_t reached = std::min<std::uint64_t>(groups_.size() * kGroupBlocks, end_ - first_);
  TW_ASSERT(free_in_groups + (end_ - first_ - reached) == free_, "the count of free blocks is wrong");
  TW_ASSERT(run_.blocks == 0 || all_locked(run_, true), "the run in hand is not free");
}

}  // namespace tidewheel
