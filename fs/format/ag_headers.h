// fs/format/ag_headers.h: the fixed blocks at the start of each allocation group.
// Units:     blocks within the group (AgBlock), UINT32_MAX for none.
// Invariant: free_blocks + free_list_count + tree_blocks, headers, chunks, log and extents make up
//            length_blocks, each block with one owner.
#pragma once
#include "fs/format/block_header.h"

namespace tidewheel::disk {

// Where they are in each group. The four roots can move; mkfs puts them here.
inline constexpr std::uint32_t kSuperBlock = 0;
inline constexpr std::uint32_t kAgFreeBlock = 1;
inline constexpr std::uint32_t kAgInodeBlock = 2;
inline constexpr std::uint32_t kAgFreeListBlock = 3;
inline constexpr std::uint32_t kAgFixedBlocks = 4;
inline constexpr std::uint32_t kAgHeaderBlocks = 8;  // with the first roots of the four trees

// Free space (the field's AGF).
struct AgFree {
  BlockHeader header;
  Le32 ag_number;
  Le32 length_blocks;
  Le32 by_block_root;
  Le32 by_block_levels;
  Le32 by_size_root;
  Le32 by_size_levels;
  Le32 free_list_first;  // index into AgFreeList::blocks
  Le32 free_list_count;
  Le32 free_blocks;      // in the trees; those on the free list are extra
  Le32 longest_free;
  Le32 tree_blocks;      // of the two trees, their roots not counted
  Le32 reserved;
};

inline constexpr std::uint32_t kUnlinkedBuckets = 64;

// Inodes (the field's AGI).
struct AgInode {
  BlockHeader header;
  Le32 ag_number;
  Le32 length_blocks;
  Le32 inode_count;       // 64 per chunk
  Le32 free_inode_count;
  Le32 tree_root;         // all chunks
  Le32 tree_levels;
  Le32 free_root;         // chunks with a free inode
  Le32 free_levels;
  Le32 newest_chunk;      // first inode (within the group) of the chunk made last, or UINT32_MAX
  Le32 reserved;
  Le32 unlinked[kUnlinkedBuckets];  // first inode (within the group) of each list, or UINT32_MAX
};

inline constexpr std::uint32_t kFreeListEntries = (kFsBlockBytes - sizeof(BlockHeader)) / sizeof(Le32);

// Blocks kept back for the free-space trees (the field's AGFL): a ring, `free_list_first` the oldest entry.
// Entries that are not in use are UINT32_MAX.
struct AgFreeList {
  BlockHeader header;
  Le32 blocks[kFreeListEntries];
};

}  // namespace tidewheel::disk
