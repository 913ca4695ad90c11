// fs/format/superblock.h: block 0 of every allocation group; that of group 0 is the one that counts.
// Units:     blocks of 4 KiB; times in nanoseconds since 1970 (two's complement).
// Invariant: the copies in the other groups are for repair: written by mkfs, equal but for `header.block`,
//            `header.owner`, the CRC and the counters, which only the first keeps up to date.
#pragma once
#include "fs/format/block_header.h"

namespace tidewheel::disk {

// Unknown bits: compatible ones are ignored, ro-compatible ones allow a read-only mount, incompatible ones
// refuse any.
enum : std::uint64_t {
  kKnownCompatible = 0,
  kKnownReadOnlyCompatible = 0,
  kIncompatFreeInodeTree = 1ULL << 0,  // AgInode::free_root is in use
  kKnownIncompatible = kIncompatFreeInodeTree,
};

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kLabelBytes = 32;

struct Superblock {
  BlockHeader header;
  Le32 version;
  Le32 block_bytes;           // 4096
  Le64 device_blocks;
  Le32 ag_blocks;             // of each group but the last, which may be shorter
  Le32 ag_count;
  U8 ag_block_log;            // 2^this >= ag_blocks
  U8 inode_log;               // 8: 256 bytes
  U8 reserved_bytes[2];       // 0
  Le32 log_write_unit_bytes;  // 4096: records begin at and are filled up to multiples of it
  Le64 log_start;             // FsBlock; the log lies in one group
  Le32 log_blocks;
  Le32 log_version;           // 1
  Le64 root_inode;
  Le64 features_compatible;
  Le64 features_read_only_compatible;
  Le64 features_incompatible;
  Le64 inode_count;           // allocated chunks * 64; exact after a clean unmount
  Le64 free_inode_count;
  Le64 free_block_count;
  Le64 created_ns;
  U8 label[kLabelBytes];      // UTF-8, filled up with zeros
};

}  // namespace tidewheel::disk
