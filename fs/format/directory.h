// fs/format/directory.h: names. Three forms, by size: inline in the fork, one block, data blocks with a tree
// of hashes (kDirHashShape) in the same fork behind kDirTreeFileBlock.
// Units:     addresses in 8 bytes from the directory's start; they are readdir cookies, and an entry keeps
//            its address for life, in every form but inline, where the entry stores it.
// Invariant: entries fill a block without gaps; free space is a DirFree entry; none crosses a block.
#pragma once
#include "fs/format/inode_core.h"

namespace tidewheel::disk {

inline constexpr std::uint32_t kMaxNameBytes = 255;
inline constexpr std::uint32_t kDirAddressBytes = 8;
inline constexpr std::uint64_t kDirTreeFileBlock = 1ULL << 23;  // data addresses end there: 2^32 * 8 bytes

enum class DirEntryType : std::uint8_t {
  kUnknown = 0, kRegular, kDirectory, kSymlink, kFifo, kCharacter, kBlock, kSocket,
};

struct InlineDirHeader {
  Le64 parent;
  U8 count;
  U8 reserved[3];
  Le32 next_cookie;  // what the next name gets
};
struct InlineDirEntry {  // then the name
  Le64 inode;
  Le32 cookie;
  U8 name_bytes;
  U8 type;
};

// At the start of both block forms. The three largest free places, largest first; 0 = fewer.
struct DirBlockHeader {
  BlockHeader header;
  struct Room {
    Le16 offset;
    Le16 bytes;
  } best[3];
  Le32 entry_count;
};

// In use: then the name, filled up with zeros to a multiple of 8 bytes.
struct DirEntry {
  U8 name_bytes;  // not 0
  U8 type;        // DirEntryType
  Le16 offset;    // its own, in the block
  Le64 inode;
};
// Free space; the rest up to `bytes` is anything. Two that touch are made one.
struct DirFree {
  U8 zero;        // where an entry has its name's length
  U8 reserved;
  Le16 offset;    // its own, in the block
  Le16 bytes;     // a multiple of 8
  Le16 reserved_too;
};

// In the one-block form, at the block's end: hashes in order, then this.
struct DirBlockTail {
  Le32 count;
  Le32 stale;
};

constexpr std::uint32_t dir_entry_bytes(std::uint32_t name_bytes) {
  return (static_cast<std::uint32_t>(sizeof(DirEntry)) + name_bytes + 7) / 8 * 8;
}
// Of a name, for the tree: FNV-1a, 32 bits. Equal hashes are told apart by address.
std::uint32_t dir_hash(const void* name, std::size_t n);

}  // namespace tidewheel::disk
