// fs/format/log_sizes.h: how many log bytes a transaction of each kind can need at worst, and what size of
// log follows from it. fs/trans reserves by these, mkfs checks by them.
// Threads:   pure functions.
// Units:     bytes, operation headers included; record headers and filling are the log's to add.
// Source:    each tree change is bounded by a split or a join at every level.
#pragma once
#include "base/result.h"
#include "fs/format/geometry.h"

namespace tidewheel::disk {

// A buffer all of which is dirty: no set of dirty chunks takes more (a run of clean chunks saves at least
// 128 bytes and costs one more operation header of 12).
std::uint32_t log_bytes_of_buffer(std::uint32_t buffer_blocks);
std::uint32_t log_bytes_of_inode();
std::uint32_t log_bytes_of_intent(std::uint32_t things, std::uint32_t thing_bytes);

// Levels that each tree can have in a file system of this size.
struct TreeLevels {
  std::uint32_t free_space, inode, extent, directory;
};
TreeLevels tree_levels(std::uint32_t ag_blocks, std::uint64_t device_blocks);

// Of one transaction, before it rolls.
struct TransactionSizes {
  std::uint32_t write;     // map one extent: a block of the extent tree may be allocated with it
  std::uint32_t truncate;  // unmap, with an intent; then free what the intent names
  std::uint32_t create;    // inode, chunk if need be, name
  std::uint32_t unlink;
  std::uint32_t rename;
  std::uint32_t free_inode;
  std::uint32_t set_attribute;
  std::uint32_t largest;
};
TransactionSizes transaction_sizes(std::uint32_t ag_blocks, std::uint64_t device_blocks);

// Units that a permanent reservation holds: the most rolls without a new reservation.
inline constexpr std::uint32_t kMostLogCount = 4;

// A checkpoint is pushed from log/8 (at most 32 MiB) on, and committers wait from twice that on.
inline constexpr std::uint64_t kMaxSoftCheckpointBytes = 32ULL << 20;
constexpr std::uint64_t soft_checkpoint_bytes(std::uint64_t log_bytes) {
  return log_bytes / 8 < kMaxSoftCheckpointBytes ? log_bytes / 8 : kMaxSoftCheckpointBytes;
}
constexpr std::uint64_t hard_checkpoint_bytes(std::uint64_t log_bytes) {
  return 2 * soft_checkpoint_bytes(log_bytes);
}

// The least log in which the largest permanent reservation fits beside a checkpoint at its hard limit, both
// in half of the log: the other half holds the checkpoint before it, which is still on its way home.
std::uint32_t min_log_blocks(std::uint32_t ag_blocks, std::uint64_t device_blocks);
// The most that one group has room for, beside its headers and a quarter of its length.
std::uint32_t max_log_blocks(std::uint32_t ag_blocks);
// 1/128 of the device, from the least to 512 MiB (from 256 MiB on a checkpoint has its full size).
std::uint32_t default_log_blocks(std::uint32_t ag_blocks, std::uint64_t device_blocks);

}  // namespace tidewheel::disk
