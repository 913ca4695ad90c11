#include "fs/format/log_sizes.h"

#include <algorithm>

#include "fs/format/directory.h"
#include "fs/format/log_format.h"
#include "fs/format/log_items.h"

namespace tidewheel::disk {

namespace {

constexpr std::uint32_t kOp = sizeof(LogOp);
// Once per transaction's share of a checkpoint: start and commit.
constexpr std::uint32_t kCheckpointBytes = 2 * kOp + sizeof(LogCheckpoint) + sizeof(LogCommit);

// Blocks that one insert or removal changes: each level and a sibling, and a new root.
constexpr std::uint32_t tree_blocks(std::uint32_t levels) { return 2 * levels + 1; }

}  // namespace

std::uint32_t log_bytes_of_buffer(std::uint32_t buffer_blocks) {
  const std::uint32_t bytes = buffer_blocks * kFsBlockBytes;
  const std::uint32_t words = (bytes / kDirtyChunkBytes + 31) / 32;
  return kOp + sizeof(BufferItemFormat) + 4 * words + kOp + bytes;
}

std::uint32_t log_bytes_of_inode() {
  return kOp + sizeof(InodeItemFormat) + kOp + sizeof(InodeBody) + 2 * kOp + kForkBytes;
}

std::uint32_t log_bytes_of_intent(std::uint32_t things, std::uint32_t thing_bytes) {
  return kOp + sizeof(IntentFormat) + things * thing_bytes;
}

TreeLevels tree_levels(std::uint32_t ag_blocks, std::uint64_t device_blocks) {
  // Free extents at most every other block; a chunk each 4 blocks; a file's extents at most all blocks; a
  // directory's smallest entry takes 16 bytes and its addresses end at 2^32 * 8 bytes.
  const std::uint64_t extents = std::min<std::uint64_t>(device_blocks, UINT32_MAX);
  const std::uint64_t names =
      std::min(device_blocks, kDirTreeFileBlock) * (kFsBlockBytes / dir_entry_bytes(1));
  return {.free_space = max_levels(kFreeByBlockShape, ag_blocks / 2),
          .inode = max_levels(kInodeTreeShape, ag_blocks / kInodeChunkBlocks),
          .extent = max_levels(kExtentTreeShape, extents),
          .directory = max_levels(kDirHashShape, names)};
}

TransactionSizes transaction_sizes(std::uint32_t ag_blocks, std::uint64_t device_blocks) {
  const TreeLevels levels = tree_levels(ag_blocks, device_blocks);
  const std::uint32_t block = log_bytes_of_buffer(1);
  // One allocation or one free: the group's two headers and both trees.
  const std::uint32_t allocation = (2 + 2 * tree_blocks(levels.free_space)) * block;
  const std::uint32_t extent_tree = tree_blocks(levels.extent) * block;
  // A name: its data block and its hash; the map of the directory grows or shrinks with them.
  const std::uint32_t name = (1 + tree_blocks(levels.directory)) * block + extent_tree;
  const std::uint32_t inode_trees = (1 + 2 * tree_blocks(levels.inode)) * block;  // and the group's header
  const std::uint32_t inode = log_bytes_of_inode();
  const std::uint32_t free_intent = log_bytes_of_intent(kMaxIntentThings, sizeof(IntentExtent));
  const std::uint32_t map_intent = log_bytes_of_intent(kMaxIntentThings, sizeof(IntentMap));
  const std::uint32_t common = kCheckpointBytes + block;  // and the superblock's counters

  TransactionSizes sizes{};
  sizes.write = common + inode + extent_tree + 2 * allocation + map_intent;
  // What an intent names is freed by twos; each step logs its done and the intent for the rest.
  sizes.truncate = common + inode + std::max(extent_tree, 2 * allocation) + 2 * free_intent;
  sizes.create =
      common + 2 * inode + name + inode_trees + kOp + sizeof(InodeChunkFormat) + 2 * allocation + free_intent;
  sizes.unlink = common + 2 * inode + name + block + 2 * free_intent;  // the unlinked list's head
  sizes.rename = common + 4 * inode + 2 * name + 2 * allocation + block + 2 * free_intent;
  sizes.free_inode = common + inode + inode_trees + log_bytes_of_buffer(kInodeClusterBlocks) + allocation +
                     2 * free_intent;
  sizes.set_attribute = common + inode + 2 * block + extent_tree + 2 * allocation + 2 * free_intent;
  sizes.largest = std::max({sizes.write, sizes.truncate, sizes.create, sizes.unlink, sizes.rename,
                            sizes.free_inode, sizes.set_attribute});
  return sizes;
}

std::uint32_t min_log_blocks(std::uint32_t ag_blocks, std::uint64_t device_blocks) {
  // L/2 >= L/4 (the hard limit) + the largest permanent reservation + a full set of log buffers, since each
  // may end with filling.
  const std::uint64_t largest = transaction_sizes(ag_blocks, device_blocks).largest;
  const std::uint64_t permanent = largest * kMostLogCount;
  const std::uint64_t buffers = static_cast<std::uint64_t>(kMaxLogBuffers) * kDefaultLogBufferBytes;
  return static_cast<std::uint32_t>((4 * (permanent + buffers) + kFsBlockBytes - 1) / kFsBlockBytes);
}

std::uint32_t max_log_blocks(std::uint32_t ag_blocks) {
  const std::uint32_t room = ag_blocks / 4 * 3;
  return std::min(room > kAgHeaderBlocks ? room - kAgHeaderBlocks : 0, kMaxLogBlocks);
}

std::uint32_t default_log_blocks(std::uint32_t ag_blocks, std::uint64_t device_blocks) {
  constexpr std::uint64_t kMost = (512ULL << 20) / kFsBlockBytes;
  const std::uint64_t wanted = std::min(device_blocks / 128, kMost);
  const std::uint64_t least = min_log_blocks(ag_blocks, device_blocks);
  return static_cast<std::uint32_t>(
      std::max(least, std::min<std::uint64_t>(wanted, max_log_blocks(ag_blocks))));
}

}  // namespace tidewheel::disk
