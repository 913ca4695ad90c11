#include "fs/format/verify.h"

#include <cstddef>

#include "fs/format/log_items.h"

namespace tidewheel::disk {

namespace {

struct TypeRow {
  BlockType type;
  const char* name;
  std::uint32_t magic;
};
constexpr TypeRow kTypes[kBlockTypes] = {
    {BlockType::kSuper, "superblock", kSuperMagic},
    {BlockType::kAgFree, "group's free space", kAgFreeMagic},
    {BlockType::kAgInode, "group's inodes", kAgInodeMagic},
    {BlockType::kAgFreeList, "group's free list", kAgFreeListMagic},
    {BlockType::kFreeByBlock, "tree of free space by block", kFreeByBlockMagic},
    {BlockType::kFreeBySize, "tree of free space by size", kFreeBySizeMagic},
    {BlockType::kInodeTree, "tree of inode chunks", kInodeTreeMagic},
    {BlockType::kFreeInode, "tree of chunks with free inodes", kFreeInodeMagic},
    {BlockType::kExtentTree, "tree of a file's extents", kExtentTreeMagic},
    {BlockType::kDirHash, "tree of a directory's hashes", kDirHashMagic},
    {BlockType::kInodeCluster, "inode cluster", 0},
    {BlockType::kDirBlock, "directory block", kDirBlockMagic},
    {BlockType::kDirData, "directory data block", kDirDataMagic},
    {BlockType::kAttrLeaf, "attribute leaf", kAttrLeafMagic},
    {BlockType::kAttrValue, "attribute value", kAttrValueMagic},
    {BlockType::kMock, "mock block", kMockMagic},
};

constexpr bool rows_are_in_order() {
  for (std::uint32_t i = 0; i < kBlockTypes; ++i) {
    if (static_cast<std::uint32_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

// Blocks of a group are owned by it; the others by an inode, which the reader may know.
constexpr bool owned_by_group(BlockType type) { return type <= BlockType::kFreeInode; }

Verdict check_structure(BlockType type, std::span<const std::byte> block, const VerifyContext& context) {
  switch (type) {
    case BlockType::kSuper: return check_superblock(view<Superblock>(block), context);
    case BlockType::kAgFree: return check_ag_free(view<AgFree>(block), context);
    case BlockType::kAgInode: return check_ag_inode(view<AgInode>(block), context);
    case BlockType::kAgFreeList: return check_ag_free_list(view<AgFreeList>(block), context);
    case BlockType::kFreeByBlock: return check_btree(kFreeByBlockShape, block, context);
    case BlockType::kFreeBySize: return check_btree(kFreeBySizeShape, block, context);
    case BlockType::kInodeTree: return check_btree(kInodeTreeShape, block, context);
    case BlockType::kFreeInode: return check_btree(kFreeInodeShape, block, context);
    case BlockType::kExtentTree: return check_btree(kExtentTreeShape, block, context);
    case BlockType::kDirHash: return check_btree(kDirHashShape, block, context);
    case BlockType::kDirBlock: return check_dir_block(block, context, true);
    case BlockType::kDirData: return check_dir_block(block, context, false);
    case BlockType::kAttrLeaf: return check_attr_leaf(block, context);
    case BlockType::kAttrValue: return check_attr_value(block, context);
    case BlockType::kMock: return check_mock(block, context);
    case BlockType::kInodeCluster: break;
  }
  return {Fault::kStructure, 0, "a block of this type has no header"};
}

Verdict check_owner(BlockType type, const BlockHeader& header, const VerifyContext& context) {
  constexpr auto at = static_cast<std::uint32_t>(offsetof(BlockHeader, owner));
  if (owned_by_group(type)) {
    if (header.owner != context.geometry->ag_of(context.address).value) {
      return {Fault::kOwner, at, "it belongs to another group"};
    }
    return {};
  }
  if (context.owner != kAnyOwner && header.owner != context.owner) {
    return {Fault::kOwner, at, "it belongs to another inode"};
  }
  if (type != BlockType::kMock && !context.geometry->contains(InodeNumber{header.owner})) {
    return {Fault::kOwner, at, "its owner is no inode's number"};
  }
  return {};
}

Verdict check_magic(BlockType type, std::span<const std::byte> block) {
  const auto& header = view<BlockHeader>(block);
  if (header.magic != magic_of(type)) {
    return {Fault::kMagic, offsetof(BlockHeader, magic), "the magic number is another one"};
  }
  return {};
}

Verdict check_identity(BlockType type, std::span<const std::byte> block, const VerifyContext& context) {
  const auto& header = view<BlockHeader>(block);
  if (from_disk(header.uuid) != context.geometry->uuid) {
    return {Fault::kUuid, offsetof(BlockHeader, uuid), "it belongs to another file system"};
  }
  if (header.block != context.address.value) {
    return {Fault::kBlock, offsetof(BlockHeader, block), "it carries another block's number"};
  }
  return check_owner(type, header, context);
}

Verdict check_context(BlockType type, std::span<const std::byte> block, const VerifyContext& context) {
  const std::uint32_t blocks = type == BlockType::kInodeCluster ? kInodeClusterBlocks : 1;
  if (block.size() != blocks * kFsBlockBytes) return {Fault::kLength, 0, "the buffer has another length"};
  const std::uint64_t device = context.geometry->device_blocks;
  if (context.address.value >= device || device - context.address.value < blocks) {
    return {Fault::kBlock, 0, "it lies outside the device"};
  }
  return {};
}

InodeNumber first_inode(const VerifyContext& context) {
  const Geometry& geometry = *context.geometry;
  return geometry.inode_number(geometry.ag_of(context.address),
                               geometry.ag_block_of(context.address).value << kInodesPerBlockLog);
}

Verdict moved(Verdict verdict, std::uint32_t by) {
  verdict.at += by;
  return verdict;
}

// All of an inode but CRC and LSN.
Verdict check_inode_identity(const DiskInode& inode, InodeNumber expected, const Geometry& geometry) {
  const InodeHead& head = inode.core.head;
  if (from_disk(head.uuid) != geometry.uuid) {
    return {Fault::kUuid, offsetof(InodeHead, uuid), "the inode belongs to another file system"};
  }
  if (head.number != expected.value) {
    return {Fault::kBlock, offsetof(InodeHead, number), "it carries another inode's number"};
  }
  return check_inode(inode, geometry);
}

Verdict check_inode_magic(const DiskInode& inode) {
  if (inode.core.head.magic != kInodeMagic)
    return {Fault::kMagic, 0, "the inode's magic number is another one"};
  return {};
}

}  // namespace

const char* name_of(BlockType type) { return kTypes[static_cast<std::uint32_t>(type)].name; }

std::uint32_t magic_of(BlockType type) { return kTypes[static_cast<std::uint32_t>(type)].magic; }

bool known_block_type(std::uint32_t number) { return number < kBlockTypes; }

std::uint32_t block_type_of_magic(std::uint32_t magic) {
  for (const TypeRow& row : kTypes) {
    if (row.magic == magic && magic != 0) return static_cast<std::uint32_t>(row.type);
  }
  return kBlockTypes;
}

bool belongs_to(BlockType type, std::span<const std::byte> block, std::uint64_t owner) {
  if (owned_by_group(type) || type == BlockType::kInodeCluster) return true;
  return view<BlockHeader>(block).owner == owner;
}

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "none";
    case Fault::kLength: return "length";
    case Fault::kMagic: return "magic";
    case Fault::kCrc: return "CRC";
    case Fault::kUuid: return "UUID";
    case Fault::kBlock: return "own number";
    case Fault::kOwner: return "owner";
    case Fault::kLsn: return "LSN";
    case Fault::kStructure: return "structure";
  }
  return "?";
}

Verdict verify_read(BlockType type, std::span<const std::byte> block, const VerifyContext& context) {
  if (const Verdict verdict = check_context(type, block, context); !verdict.good()) return verdict;
  if (type == BlockType::kInodeCluster) {
    InodeNumber number = first_inode(context);
    for (std::uint32_t at = 0; at < block.size(); at += kInodeBytes, ++number.value) {
      const Verdict verdict =
          verify_inode(view<DiskInode>(block, at), number, *context.geometry, context.newest);
      if (!verdict.good()) return moved(verdict, at);
    }
    return {};
  }
  if (const Verdict verdict = check_magic(type, block); !verdict.good()) return verdict;
  const auto& header = view<BlockHeader>(block);
  if (header.crc != crc_without(block, offsetof(BlockHeader, crc))) {
    return {Fault::kCrc, offsetof(BlockHeader, crc), "the CRC is not that of the block"};
  }
  if (const Verdict verdict = check_identity(type, block, context); !verdict.good()) return verdict;
  if (header.lsn > context.newest.value) {
    return {Fault::kLsn, offsetof(BlockHeader, lsn), "its LSN is ahead of the log"};
  }
  return check_structure(type, block, context);
}

Verdict verify_write(BlockType type, std::span<std::byte> block, const VerifyContext& context, Lsn lsn) {
  if (type == BlockType::kInodeCluster) {
    Lsn lsns[kInodesPerCluster];
    for (Lsn& one : lsns) one = lsn;
    return verify_write_cluster(block, context, lsns);
  }
  if (const Verdict verdict = check_context(type, block, context); !verdict.good()) return verdict;
  if (const Verdict verdict = check_magic(type, block); !verdict.good()) return verdict;
  if (const Verdict verdict = check_identity(type, block, context); !verdict.good()) return verdict;
  if (const Verdict verdict = check_structure(type, block, context); !verdict.good()) return verdict;
  stamp_block(block, lsn == kKeepLsn ? Lsn{view<BlockHeader>(block).lsn} : lsn);
  return {};
}

// All inodes are looked at before the first is stamped.
Verdict verify_write_cluster(std::span<std::byte> cluster, const VerifyContext& context,
                             std::span<const Lsn> lsns) {
  if (const Verdict verdict = check_context(BlockType::kInodeCluster, cluster, context); !verdict.good()) {
    return verdict;
  }
  if (lsns.size() != kInodesPerCluster) return {Fault::kLength, 0, "a cluster has 32 inodes"};
  InodeNumber number = first_inode(context);
  for (std::uint32_t at = 0; at < cluster.size(); at += kInodeBytes, ++number.value) {
    const auto& inode = view<DiskInode>(std::span<const std::byte>(cluster), at);
    Verdict verdict = check_inode_magic(inode);
    if (verdict.good()) verdict = check_inode_identity(inode, number, *context.geometry);
    if (!verdict.good()) return moved(verdict, at);
  }
  for (std::uint32_t i = 0; i < kInodesPerCluster; ++i) {
    auto& inode = view<DiskInode>(cluster, i * kInodeBytes);
    stamp_inode(inode, lsns[i] == kKeepLsn ? Lsn{inode.core.head.lsn} : lsns[i]);
  }
  return {};
}

Verdict verify_inode(const DiskInode& inode, InodeNumber expected, const Geometry& geometry, Lsn newest) {
  if (const Verdict verdict = check_inode_magic(inode); !verdict.good()) return verdict;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(&inode), sizeof inode);
  if (inode.core.head.crc != crc_without(bytes, offsetof(InodeHead, crc))) {
    return {Fault::kCrc, offsetof(InodeHead, crc), "the CRC is not that of the inode"};
  }
  if (inode.core.head.lsn > newest.value) {
    return {Fault::kLsn, offsetof(InodeHead, lsn), "the inode's LSN is ahead of the log"};
  }
  return check_inode_identity(inode, expected, geometry);
}

Result<Geometry> read_superblock(std::span<const std::byte> block, std::uint64_t device_blocks,
                                 bool writable) {
  if (block.size() < kFsBlockBytes) return TW_FAIL(kInvalidArgument);
  block = block.first(kFsBlockBytes);
  const auto& super = view<Superblock>(block);
  if (super.header.magic != kSuperMagic) return TW_FAIL(kNotEmpty);
  if (super.header.crc != crc_without(block, offsetof(BlockHeader, crc))) {
    return TW_FAIL_WITH(kCorrupt, Fault::kCrc);
  }
  if (super.version != kFormatVersion) return TW_FAIL(kUnsupported);
  if ((super.features_incompatible & ~std::uint64_t{kKnownIncompatible}) != 0) return TW_FAIL(kUnsupported);
  if (writable && (super.features_read_only_compatible & ~std::uint64_t{kKnownReadOnlyCompatible}) != 0) {
    return TW_FAIL(kUnsupported);
  }
  const Result<Geometry> geometry = Geometry::make(super);
  if (!geometry) return geometry;
  if (geometry->device_blocks > device_blocks) return TW_FAIL(kOutOfRange);
  const VerifyContext context{.geometry = &*geometry, .address = {0}, .newest = kNewestLsn};
  TW_TRY(verify_read(BlockType::kSuper, block, context).result());
  return geometry;
}

}  // namespace tidewheel::disk
