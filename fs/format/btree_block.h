// fs/format/btree_block.h: a block of a B+tree; one shape for all six trees.
// Units:     siblings and child pointers are AgBlocks in trees of a group, FsBlocks in trees of an inode.
// Invariant: a leaf (level 0) holds `count` records from kBtreeHeaderBytes on, in order; a node holds `count`
//            keys from there, and `count` pointers from kBtreeHeaderBytes + max_keys * key size on. A
//            node's key is the lowest key of its child.
#pragma once
#include "fs/format/block_header.h"

namespace tidewheel::disk {

struct BtreeHeader {
  BlockHeader header;
  Le16 level;  // 0: a leaf
  Le16 count;
  Le32 reserved;
  Le64 left;  // UINT64_MAX: none
  Le64 right;
};
inline constexpr std::uint32_t kBtreeHeaderBytes = sizeof(BtreeHeader);
inline constexpr std::uint32_t kMaxBtreeLevels = 9;

// Both free-space trees: by (start), and by (count, start).
struct FreeRecord {
  Le32 start;
  Le32 count;
};
using FreeKey = FreeRecord;

inline constexpr std::uint32_t kInodesPerChunk = 64;

struct InodeChunkRecord {
  Le32 start;       // first inode, within the group: block << 4
  Le32 free_count;  // the population of free_mask
  Le64 free_mask;   // bit i: inode start + i is free
};
struct InodeChunkKey {
  Le32 start;
};

// 16 bytes: [0] start FsBlock in bits 0-43, length in bits 44-63; [1] block in the file in bits 0-51,
// bit 63: unwritten (reads as zeros).
struct ExtentRecord {
  Le64 place;
  Le64 offset;
};
struct ExtentKey {
  Le64 file_block;
};

inline constexpr std::uint32_t kExtentStartBits = 44;
inline constexpr std::uint64_t kMaxFsBlock = (1ULL << kExtentStartBits) - 1;
inline constexpr std::uint32_t kMaxExtentBlocks = (1U << 20) - 1;
inline constexpr std::uint64_t kMaxFileBlock = (1ULL << 51) - 1;  // 8 EiB: what a signed byte offset reaches

struct FileExtent {
  std::uint64_t file_block = 0;
  FsBlock start;
  std::uint32_t count = 0;
  bool unwritten = false;
  friend bool operator==(const FileExtent&, const FileExtent&) = default;
};
constexpr ExtentRecord to_disk(const FileExtent& extent) {
  return {extent.start.value | static_cast<std::uint64_t>(extent.count) << kExtentStartBits,
          extent.file_block | static_cast<std::uint64_t>(extent.unwritten) << 63};
}
constexpr FileExtent from_disk(const ExtentRecord& record) {
  return {.file_block = record.offset.get() & ((1ULL << 52) - 1),
          .start = {record.place.get() & kMaxFsBlock},
          .count = static_cast<std::uint32_t>(record.place.get() >> kExtentStartBits),
          .unwritten = (record.offset.get() >> 63) != 0};
}

// A directory's names by hash: `address` is that of the entry, in units of 8 bytes (disk::DirEntry), which
// is also its readdir cookie.
struct DirHashRecord {
  Le32 hash;
  Le32 address;
};
using DirHashKey = DirHashRecord;

// What the one B+tree code needs to know of each use.
struct BtreeShape {
  std::uint32_t magic;
  std::uint16_t record_bytes;
  std::uint16_t key_bytes;
  std::uint16_t pointer_bytes;
  bool in_group;  // pointers are AgBlocks

  constexpr std::uint32_t max_records() const { return (kFsBlockBytes - kBtreeHeaderBytes) / record_bytes; }
  constexpr std::uint32_t max_keys() const {
    return (kFsBlockBytes - kBtreeHeaderBytes) / (key_bytes + pointer_bytes);
  }
  constexpr std::uint32_t record_at(std::uint32_t i) const { return kBtreeHeaderBytes + i * record_bytes; }
  constexpr std::uint32_t key_at(std::uint32_t i) const { return kBtreeHeaderBytes + i * key_bytes; }
  constexpr std::uint32_t pointer_at(std::uint32_t i) const {
    return kBtreeHeaderBytes + max_keys() * key_bytes + i * pointer_bytes;
  }
};

inline constexpr BtreeShape kFreeByBlockShape{kFreeByBlockMagic, sizeof(FreeRecord), sizeof(FreeKey), 4,
                                              true};
inline constexpr BtreeShape kFreeBySizeShape{kFreeBySizeMagic, sizeof(FreeRecord), sizeof(FreeKey), 4, true};
inline constexpr BtreeShape kInodeTreeShape{kInodeTreeMagic, sizeof(InodeChunkRecord), sizeof(InodeChunkKey),
                                            4, true};
inline constexpr BtreeShape kFreeInodeShape{kFreeInodeMagic, sizeof(InodeChunkRecord), sizeof(InodeChunkKey),
                                            4, true};
inline constexpr BtreeShape kExtentTreeShape{kExtentTreeMagic, sizeof(ExtentRecord), sizeof(ExtentKey), 8,
                                             false};
inline constexpr BtreeShape kDirHashShape{kDirHashMagic, sizeof(DirHashRecord), sizeof(DirHashKey), 8, false};
inline constexpr BtreeShape kBtreeShapes[] = {kFreeByBlockShape, kFreeBySizeShape, kInodeTreeShape,
                                              kFreeInodeShape,   kExtentTreeShape, kDirHashShape};

// The most levels a tree of so many records can have, each block but the root half full.
constexpr std::uint32_t max_levels(const BtreeShape& shape, std::uint64_t records) {
  const std::uint64_t leaf = shape.max_records() / 2;
  const std::uint64_t node = shape.max_keys() / 2;
  std::uint64_t blocks = (records + leaf - 1) / leaf;
  std::uint32_t levels = 1;
  while (blocks > 1) {
    blocks = (blocks + node - 1) / node;
    ++levels;
  }
  return levels;
}

}  // namespace tidewheel::disk
