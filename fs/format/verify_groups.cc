// Structure of superblocks, group headers and trees.
#include <bit>
#include <cstddef>

#include "fs/format/verify.h"

namespace tidewheel::disk {

namespace {

#define TW_FIELD(type, member) static_cast<std::uint32_t>(offsetof(type, member))

Verdict bad(std::uint32_t at, const char* what) { return {Fault::kStructure, at, what}; }

bool is_root(std::uint32_t block, std::uint32_t length) { return block >= kAgFixedBlocks && block < length; }
bool is_level_count(std::uint32_t levels) { return levels >= 1 && levels <= kMaxBtreeLevels; }

bool is_ag_inode(std::uint32_t ag_inode, std::uint32_t length) {
  const std::uint32_t block = ag_inode >> kInodesPerBlockLog;
  return block >= kAgFixedBlocks && block < length;
}

// Of two kinds: where a tree's pointers and siblings may point.
bool is_pointer(const BtreeShape& shape, std::uint64_t pointer, const VerifyContext& context) {
  const Geometry& geometry = *context.geometry;
  if (shape.in_group) {
    return pointer >= kAgFixedBlocks && pointer < geometry.ag_length(geometry.ag_of(context.address));
  }
  return geometry.contains(FsBlock{pointer}) &&
         geometry.ag_block_of(FsBlock{pointer}).value >= kAgFixedBlocks;
}

// Keys as numbers, so that one comparison does for all six: (high, low).
struct Key {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Key&, const Key&) = default;
};

Key key_at(const BtreeShape& shape, std::span<const std::byte> block, std::uint32_t at) {
  switch (shape.magic) {
    case kFreeByBlockMagic: return {view<FreeRecord>(block, at).start, 0};
    case kFreeBySizeMagic: {
      const auto& record = view<FreeRecord>(block, at);
      return {record.count, record.start};
    }
    case kInodeTreeMagic:
    case kFreeInodeMagic: return {view<InodeChunkKey>(block, at).start, 0};
    case kExtentTreeMagic: return {view<ExtentKey>(block, at).file_block, 0};
    default: {
      const auto& record = view<DirHashRecord>(block, at);
      return {record.hash, record.address};
    }
  }
}

Key record_key_at(const BtreeShape& shape, std::span<const std::byte> block, std::uint32_t at) {
  if (shape.magic == kExtentTreeMagic) return {from_disk(view<ExtentRecord>(block, at)).file_block, 0};
  return key_at(shape, block, at);
}

const char* record_fault(const BtreeShape& shape, std::span<const std::byte> block, std::uint32_t at,
                         const VerifyContext& context) {
  const Geometry& geometry = *context.geometry;
  const std::uint32_t length = geometry.ag_length(geometry.ag_of(context.address));
  switch (shape.magic) {
    case kFreeByBlockMagic:
    case kFreeBySizeMagic: {
      const auto& record = view<FreeRecord>(block, at);
      if (record.start < kAgFixedBlocks || record.start >= length) return "free space outside the group";
      if (record.count == 0 || record.count > length - record.start)
        return "free space of an impossible length";
      return nullptr;
    }
    case kInodeTreeMagic:
    case kFreeInodeMagic: {
      const auto& record = view<InodeChunkRecord>(block, at);
      if (record.start % kInodesPerChunk != 0) return "an inode chunk that is not aligned";
      if (!is_ag_inode(record.start, length) || !is_ag_inode(record.start + kInodesPerChunk - 1, length)) {
        return "an inode chunk outside the group";
      }
      if (record.free_count != static_cast<std::uint32_t>(std::popcount(record.free_mask.get()))) {
        return "a chunk's free count is not that of its mask";
      }
      if (shape.magic == kFreeInodeMagic && record.free_count == 0)
        return "a full chunk among those with room";
      return nullptr;
    }
    case kExtentTreeMagic: {
      const auto& record = view<ExtentRecord>(block, at);
      const FileExtent extent = from_disk(record);
      if ((record.offset & (((1ULL << 11) - 1) << 52)) != 0) return "unknown bits in an extent";
      if (extent.count == 0) return "an extent without length";
      if (extent.file_block > kMaxFileBlock || extent.count - 1 > kMaxFileBlock - extent.file_block) {
        return "an extent beyond the largest file";
      }
      if (!geometry.contains(extent.start, extent.count)) return "an extent outside its group";
      return nullptr;
    }
    default: return nullptr;
  }
}

// A run must end before the next one begins.
bool runs_into_next(const BtreeShape& shape, std::span<const std::byte> block, std::uint32_t at) {
  const std::uint32_t next = at + shape.record_bytes;
  switch (shape.magic) {
    case kFreeByBlockMagic: {
      // Two that touch would be one.
      const auto& record = view<FreeRecord>(block, at);
      return std::uint64_t{record.start} + record.count >= view<FreeRecord>(block, next).start;
    }
    case kExtentTreeMagic: {
      const FileExtent extent = from_disk(view<ExtentRecord>(block, at));
      return extent.file_block + extent.count > from_disk(view<ExtentRecord>(block, next)).file_block;
    }
    default: return false;
  }
}

Verdict check_leaf(const BtreeShape& shape, std::span<const std::byte> block, std::uint32_t count,
                   const VerifyContext& context) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = shape.record_at(i);
    if (const char* what = record_fault(shape, block, at, context)) return bad(at, what);
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    const std::uint32_t at = shape.record_at(i);
    if (record_key_at(shape, block, at) >= record_key_at(shape, block, at + shape.record_bytes)) {
      return bad(at, "records out of order");
    }
    if (runs_into_next(shape, block, at)) return bad(at, "a record runs into the next");
  }
  return {};
}

Verdict check_node(const BtreeShape& shape, std::span<const std::byte> block, std::uint32_t count,
                   const VerifyContext& context) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = shape.pointer_at(i);
    const std::uint64_t pointer =
        shape.pointer_bytes == 4 ? view<Le32>(block, at).get() : view<Le64>(block, at).get();
    if (!is_pointer(shape, pointer, context)) return bad(at, "a pointer to no tree block");
    if (i + 1 < count && key_at(shape, block, shape.key_at(i)) >= key_at(shape, block, shape.key_at(i + 1))) {
      return bad(shape.key_at(i), "keys out of order");
    }
  }
  return {};
}

}  // namespace

Verdict check_superblock(const Superblock& super, const VerifyContext& context) {
  const Result<Geometry> geometry = Geometry::make(super);
  if (!geometry) return bad(TW_FIELD(Superblock, version), "the geometry is impossible");
  const Geometry& known = *context.geometry;
  if (geometry->device_blocks != known.device_blocks || geometry->ag_blocks != known.ag_blocks ||
      geometry->ag_count != known.ag_count || geometry->log_start != known.log_start ||
      geometry->log_blocks != known.log_blocks || geometry->root_inode != known.root_inode) {
    return bad(TW_FIELD(Superblock, device_blocks), "the geometry is not that of the first superblock");
  }
  if (known.ag_block_of(context.address).value != kSuperBlock) {
    return bad(TW_FIELD(Superblock, header.block), "a superblock inside a group");
  }
  if (super.log_version != 1) return bad(TW_FIELD(Superblock, log_version), "an unknown version of the log");
  if (super.free_inode_count > super.inode_count) {
    return bad(TW_FIELD(Superblock, free_inode_count), "more free inodes than inodes");
  }
  if (super.free_block_count > super.device_blocks) {
    return bad(TW_FIELD(Superblock, free_block_count), "more free blocks than blocks");
  }
  return {};
}

Verdict check_ag_free(const AgFree& ag_free, const VerifyContext& context) {
  const Geometry& geometry = *context.geometry;
  const AgNumber ag = geometry.ag_of(context.address);
  const std::uint32_t length = geometry.ag_length(ag);
  if (ag_free.ag_number != ag.value) return bad(TW_FIELD(AgFree, ag_number), "another group's number");
  if (ag_free.length_blocks != length) return bad(TW_FIELD(AgFree, length_blocks), "another length");
  if (!is_root(ag_free.by_block_root, length)) return bad(TW_FIELD(AgFree, by_block_root), "no root");
  if (!is_root(ag_free.by_size_root, length)) return bad(TW_FIELD(AgFree, by_size_root), "no root");
  if (!is_level_count(ag_free.by_block_levels)) return bad(TW_FIELD(AgFree, by_block_levels), "levels");
  if (!is_level_count(ag_free.by_size_levels)) return bad(TW_FIELD(AgFree, by_size_levels), "levels");
  if (ag_free.free_list_first >= kFreeListEntries) {
    return bad(TW_FIELD(AgFree, free_list_first), "the free list begins beyond its end");
  }
  if (ag_free.free_list_count > kFreeListEntries) {
    return bad(TW_FIELD(AgFree, free_list_count), "the free list is too long");
  }
  if (ag_free.free_blocks > length) return bad(TW_FIELD(AgFree, free_blocks), "more free blocks than blocks");
  if (ag_free.longest_free > ag_free.free_blocks) {
    return bad(TW_FIELD(AgFree, longest_free), "the longest is longer than all");
  }
  if (ag_free.tree_blocks > length) return bad(TW_FIELD(AgFree, tree_blocks), "more tree blocks than blocks");
  return {};
}

Verdict check_ag_inode(const AgInode& ag_inode, const VerifyContext& context) {
  const Geometry& geometry = *context.geometry;
  const AgNumber ag = geometry.ag_of(context.address);
  const std::uint32_t length = geometry.ag_length(ag);
  if (ag_inode.ag_number != ag.value) return bad(TW_FIELD(AgInode, ag_number), "another group's number");
  if (ag_inode.length_blocks != length) return bad(TW_FIELD(AgInode, length_blocks), "another length");
  if (ag_inode.inode_count % kInodesPerChunk != 0 || ag_inode.inode_count / kInodesPerBlock > length) {
    return bad(TW_FIELD(AgInode, inode_count), "an impossible number of inodes");
  }
  if (ag_inode.free_inode_count > ag_inode.inode_count) {
    return bad(TW_FIELD(AgInode, free_inode_count), "more free inodes than inodes");
  }
  if (!is_root(ag_inode.tree_root, length)) return bad(TW_FIELD(AgInode, tree_root), "no root");
  if (!is_level_count(ag_inode.tree_levels)) return bad(TW_FIELD(AgInode, tree_levels), "levels");
  if (!is_root(ag_inode.free_root, length)) return bad(TW_FIELD(AgInode, free_root), "no root");
  if (!is_level_count(ag_inode.free_levels)) return bad(TW_FIELD(AgInode, free_levels), "levels");
  if (ag_inode.newest_chunk != UINT32_MAX &&
      (ag_inode.newest_chunk % kInodesPerChunk != 0 || !is_ag_inode(ag_inode.newest_chunk, length))) {
    return bad(TW_FIELD(AgInode, newest_chunk), "no chunk");
  }
  for (std::uint32_t i = 0; i < kUnlinkedBuckets; ++i) {
    const std::uint32_t first = ag_inode.unlinked[i];
    if (first == UINT32_MAX) continue;
    const std::uint32_t at = TW_FIELD(AgInode, unlinked) + 4 * i;
    if (!is_ag_inode(first, length)) return bad(at, "an unlinked inode outside the group");
    if (first % kUnlinkedBuckets != i) return bad(at, "an unlinked inode in another bucket");
  }
  return {};
}

Verdict check_ag_free_list(const AgFreeList& list, const VerifyContext& context) {
  const Geometry& geometry = *context.geometry;
  const std::uint32_t length = geometry.ag_length(geometry.ag_of(context.address));
  for (std::uint32_t i = 0; i < kFreeListEntries; ++i) {
    const std::uint32_t block = list.blocks[i];
    if (block != UINT32_MAX && (block < kAgFixedBlocks || block >= length)) {
      return bad(TW_FIELD(AgFreeList, blocks) + 4 * i, "a block outside the group");
    }
  }
  return {};
}

Verdict check_btree(const BtreeShape& shape, std::span<const std::byte> block, const VerifyContext& context) {
  const auto& header = view<BtreeHeader>(block);
  if (header.level >= kMaxBtreeLevels) return bad(TW_FIELD(BtreeHeader, level), "too many levels");
  const bool leaf = header.level == 0;
  if (header.count > (leaf ? shape.max_records() : shape.max_keys())) {
    return bad(TW_FIELD(BtreeHeader, count), "more records than there is room for");
  }
  const bool alone = header.left == UINT64_MAX && header.right == UINT64_MAX;
  // Only the root of an empty tree, which is a leaf without siblings.
  if (header.count == 0 && !(leaf && alone)) return bad(TW_FIELD(BtreeHeader, count), "an empty block");
  if (header.left != UINT64_MAX && !is_pointer(shape, header.left, context)) {
    return bad(TW_FIELD(BtreeHeader, left), "a sibling that is no tree block");
  }
  if (header.right != UINT64_MAX && !is_pointer(shape, header.right, context)) {
    return bad(TW_FIELD(BtreeHeader, right), "a sibling that is no tree block");
  }
  return leaf ? check_leaf(shape, block, header.count, context)
              : check_node(shape, block, header.count, context);
}

}  // namespace tidewheel::disk
