// fs/format/geometry.h: where everything is, once the superblock is known: conversions between the kinds of
// block numbers, and what is in range.
// Threads:   a value type; constant once made.
// Units:     blocks of 4 KiB unless named.
// Errors:    make() refuses what no superblock may say: nothing made from a Geometry divides by zero or
//            overflows, whatever number is given to contains().
// Invariant: (1) ag_count groups of ag_blocks, the last one at least kMinLastAgBlocks long and no longer than
//            the others; (2) 2^ag_block_log is the least power of two that is >= ag_blocks; (3) the log
//            lies in one group, behind its headers.
#pragma once
#include "base/result.h"
#include "fs/format/ag_headers.h"
#include "fs/format/inode_core.h"
#include "fs/format/superblock.h"

namespace tidewheel::disk {

inline constexpr std::uint32_t kMinAgBlocks = 256;
inline constexpr std::uint32_t kMinLastAgBlocks = 64;
// 1 TiB less one chunk: so no inode's number within a group is UINT32_MAX, which means none.
inline constexpr std::uint32_t kMaxAgBlocks = (1U << 28) - kInodeChunkBlocks;
inline constexpr std::uint32_t kMaxLogBlocks = (2U << 30) / kFsBlockBytes;

struct Geometry {
  Uuid uuid;
  std::uint64_t device_blocks = 0;
  std::uint32_t ag_blocks = 0;
  std::uint32_t ag_count = 0;
  std::uint32_t ag_block_log = 0;
  FsBlock log_start;
  std::uint32_t log_blocks = 0;
  InodeNumber root_inode;

  // kCorrupt unless every invariant holds.
  static Result<Geometry> make(const Superblock& super);
  Result<void> check() const;

  std::uint32_t ag_length(AgNumber ag) const {
    return ag.value + 1 < ag_count
               ? ag_blocks
               : static_cast<std::uint32_t>(device_blocks -
                                            static_cast<std::uint64_t>(ag_count - 1) * ag_blocks);
  }
  bool contains(AgNumber ag, AgBlock block) const {
    return ag.value < ag_count && block.value < ag_length(ag);
  }
  bool contains(FsBlock block) const {
    return block.value >> ag_block_log < ag_count && contains(ag_of(block), ag_block_of(block));
  }
  // All of a run lies in one group.
  bool contains(FsBlock start, std::uint64_t count) const {
    return contains(start) && count <= ag_length(ag_of(start)) - ag_block_of(start).value;
  }
  bool contains(DeviceAddress address) const { return address.value < device_blocks; }
  bool contains(InodeNumber inode) const {
    return contains(FsBlock{inode.value >> kInodesPerBlockLog}) && ag_block_of(inode).value >= kAgFixedBlocks;
  }

  AgNumber ag_of(FsBlock block) const { return {static_cast<std::uint32_t>(block.value >> ag_block_log)}; }
  AgBlock ag_block_of(FsBlock block) const {
    return {static_cast<std::uint32_t>(block.value & ((1ULL << ag_block_log) - 1))};
  }
  FsBlock fs_block(AgNumber ag, AgBlock block) const {
    return {static_cast<std::uint64_t>(ag.value) << ag_block_log | block.value};
  }
  DeviceAddress address_of(AgNumber ag, AgBlock block) const {
    return {static_cast<std::uint64_t>(ag.value) * ag_blocks + block.value};
  }
  DeviceAddress address_of(FsBlock block) const { return address_of(ag_of(block), ag_block_of(block)); }
  AgNumber ag_of(DeviceAddress address) const {
    return {static_cast<std::uint32_t>(address.value / ag_blocks)};
  }
  AgBlock ag_block_of(DeviceAddress address) const {
    return {static_cast<std::uint32_t>(address.value % ag_blocks)};
  }
  FsBlock fs_block(DeviceAddress address) const { return fs_block(ag_of(address), ag_block_of(address)); }

  AgNumber ag_of(InodeNumber inode) const { return ag_of(FsBlock{inode.value >> kInodesPerBlockLog}); }
  AgBlock ag_block_of(InodeNumber inode) const {
    return ag_block_of(FsBlock{inode.value >> kInodesPerBlockLog});
  }
  // Within the group: block << 4 | slot.
  std::uint32_t ag_inode_of(InodeNumber inode) const {
    return ag_block_of(inode).value << kInodesPerBlockLog |
           static_cast<std::uint32_t>(inode.value % kInodesPerBlock);
  }
  InodeNumber inode_number(AgNumber ag, std::uint32_t ag_inode) const {
    return {static_cast<std::uint64_t>(ag.value) << (ag_block_log + kInodesPerBlockLog) | ag_inode};
  }
  // The cluster that an inode lies in, and where in it. Chunks are aligned to their 4 blocks in the group.
  DeviceAddress cluster_of(InodeNumber inode) const {
    return address_of(ag_of(inode), {ag_block_of(inode).value / kInodeClusterBlocks * kInodeClusterBlocks});
  }
  std::uint32_t cluster_offset_of(InodeNumber inode) const {
    return static_cast<std::uint32_t>(inode.value % kInodesPerCluster) * kInodeBytes;
  }

  DeviceAddress log_address() const { return address_of(log_start); }
  std::uint64_t log_bytes() const { return static_cast<std::uint64_t>(log_blocks) << kFsBlockLog; }
  std::uint32_t log_sectors() const { return log_blocks * (kFsBlockBytes / kLogSectorBytes); }
};

// Least n with 2^n >= value.
constexpr std::uint32_t ceil_log2(std::uint64_t value) {
  std::uint32_t n = 0;
  while ((1ULL << n) < value) ++n;
  return n;
}

}  // namespace tidewheel::disk
