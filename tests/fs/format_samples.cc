// One good block of each type, made field by field.
#include <algorithm>

#include "tests/fs/format_rig.h"

namespace tidewheel::disk {

namespace {

constexpr std::uint64_t kFile = 8U << kInodesPerBlockLog | 3;  // an inode's number in group 0

class Maker {
 public:
  explicit Maker(const Geometry& geometry) : geometry_(geometry) {}

  std::vector<SampleBlock> all() {
    super(0);
    super(1000);
    ag_free();
    ag_inode();
    free_list();
    free_tree_leaf(kFreeByBlockShape, BlockType::kFreeByBlock, {{20, 5}, {30, 1}, {900, 100}});
    free_tree_leaf(kFreeBySizeShape, BlockType::kFreeBySize, {{30, 1}, {20, 5}, {900, 100}});
    free_tree_node(kFreeByBlockShape, BlockType::kFreeByBlock);
    free_tree_node(kFreeBySizeShape, BlockType::kFreeBySize);
    empty_root();
    inode_tree(kInodeTreeShape, BlockType::kInodeTree);
    inode_tree(kFreeInodeShape, BlockType::kFreeInode);
    inode_tree_node();
    extent_leaf();
    extent_node();
    dir_hash();
    dir_hash_node();
    cluster();
    dir_block(true);
    dir_block(false);
    attr_leaf();
    attr_value();
    mock();
    for (SampleBlock& block : blocks_) {
      if (block.type == BlockType::kInodeCluster) {
        for (std::size_t at = 0; at < block.bytes.size(); at += kInodeBytes) {
          stamp_inode(view<DiskInode>(block.span(), at), kSampleLsn);
        }
      } else {
        stamp_block(block.span(), kSampleLsn);
      }
    }
    return std::move(blocks_);
  }

 private:
  std::span<std::byte> add(BlockType type, const char* variant, std::uint64_t address, std::uint64_t owner) {
    const std::uint32_t blocks = type == BlockType::kInodeCluster ? kInodeClusterBlocks : 1;
    blocks_.push_back({type, variant, {address}, std::vector<std::byte>(blocks * kFsBlockBytes)});
    if (blocks == 1) start_block(blocks_.back().span(), magic_of(type), geometry_.uuid, {address}, owner);
    return blocks_.back().span();
  }

  void super(std::uint64_t address) {
    auto& super =
        view<Superblock>(add(BlockType::kSuper, address == 0 ? "first" : "copy", address, address / 1000));
    super.version = kFormatVersion;
    super.block_bytes = kFsBlockBytes;
    super.device_blocks = geometry_.device_blocks;
    super.ag_blocks = geometry_.ag_blocks;
    super.ag_count = geometry_.ag_count;
    super.ag_block_log = static_cast<U8>(geometry_.ag_block_log);
    super.inode_log = kInodeLog;
    super.log_write_unit_bytes = kLogWriteUnitBytes;
    super.log_start = geometry_.log_start.value;
    super.log_blocks = geometry_.log_blocks;
    super.log_version = kLogVersion;
    super.root_inode = geometry_.root_inode.value;
    super.features_incompatible = kIncompatFreeInodeTree;
    super.inode_count = 64;
    super.free_inode_count = 63;
    super.free_block_count = 2300;
    std::memcpy(super.label, "sample", 6);
  }

  void ag_free() {
    auto& block = view<AgFree>(add(BlockType::kAgFree, "", 2001, 2));
    block.ag_number = 2;
    block.length_blocks = 500;
    block.by_block_root = 4;
    block.by_block_levels = 1;
    block.by_size_root = 5;
    block.by_size_levels = 1;
    block.free_list_first = 1010;
    block.free_list_count = 6;
    block.free_blocks = 480;
    block.longest_free = 480;
  }

  void ag_inode() {
    auto& block = view<AgInode>(add(BlockType::kAgInode, "", 2, 0));
    block.length_blocks = 1000;
    block.inode_count = 64;
    block.free_inode_count = 61;
    block.tree_root = 6;
    block.tree_levels = 1;
    block.free_root = 7;
    block.free_levels = 1;
    block.newest_chunk = 8 << kInodesPerBlockLog;
    for (Le32& bucket : block.unlinked) bucket = UINT32_MAX;
    block.unlinked[5] = 8 << kInodesPerBlockLog | 5;
  }

  void free_list() {
    auto& block = view<AgFreeList>(add(BlockType::kAgFreeList, "", 3, 0));
    for (Le32& entry : block.blocks) entry = UINT32_MAX;
    for (std::uint32_t i = 0; i < 6; ++i) block.blocks[i] = 12 + i;
  }

  std::span<std::byte> tree(BlockType type, const char* variant, std::uint64_t address, std::uint64_t owner,
                            std::uint16_t level, std::uint16_t count) {
    const std::span<std::byte> block = add(type, variant, address, owner);
    auto& header = view<BtreeHeader>(block);
    header.level = level;
    header.count = count;
    header.left = UINT64_MAX;
    header.right = UINT64_MAX;
    return block;
  }

  void free_tree_leaf(const BtreeShape& shape, BlockType type, std::vector<FreeRecord> records) {
    const auto block = tree(type, "leaf", 4, 0, 0, static_cast<std::uint16_t>(records.size()));
    for (std::uint32_t i = 0; i < records.size(); ++i)
      view<FreeRecord>(block, shape.record_at(i)) = records[i];
    view<BtreeHeader>(block).right = 40;
  }

  void free_tree_node(const BtreeShape& shape, BlockType type) {
    const auto block = tree(type, "node", 44, 0, 1, 2);
    view<FreeKey>(block, shape.key_at(0)) = {20, 5};
    view<FreeKey>(block, shape.key_at(1)) = {40, 7};
    view<Le32>(block, shape.pointer_at(0)) = 4;
    view<Le32>(block, shape.pointer_at(1)) = 45;
  }

  void empty_root() { tree(BlockType::kFreeByBlock, "empty", 1004, 1, 0, 0); }

  void inode_tree(const BtreeShape& shape, BlockType type) {
    const auto block = tree(type, "leaf", 6, 0, 0, 2);
    view<InodeChunkRecord>(block, shape.record_at(0)) = {8 << 4, 63, ~1ULL};
    view<InodeChunkRecord>(block, shape.record_at(1)) = {80 << 4, 1, 1ULL << 63};
  }

  void inode_tree_node() {
    const auto block = tree(BlockType::kInodeTree, "node", 47, 0, 2, 2);
    view<InodeChunkKey>(block, kInodeTreeShape.key_at(0)) = {8 << 4};
    view<InodeChunkKey>(block, kInodeTreeShape.key_at(1)) = {80 << 4};
    view<Le32>(block, kInodeTreeShape.pointer_at(0)) = 48;
    view<Le32>(block, kInodeTreeShape.pointer_at(1)) = 49;
  }

  void extent_leaf() {
    const auto block = tree(BlockType::kExtentTree, "leaf", 50, kFile, 0, 2);
    view<ExtentRecord>(block, kExtentTreeShape.record_at(0)) =
        to_disk(FileExtent{.file_block = 0, .start = {60}, .count = 4});
    view<ExtentRecord>(block, kExtentTreeShape.record_at(1)) =
        to_disk(FileExtent{.file_block = 9, .start = {1ULL << 10 | 200}, .count = 1, .unwritten = true});
  }

  void extent_node() {
    const auto block = tree(BlockType::kExtentTree, "node", 51, kFile, 1, 2);
    view<ExtentKey>(block, kExtentTreeShape.key_at(0)) = {0};
    view<ExtentKey>(block, kExtentTreeShape.key_at(1)) = {9};
    view<Le64>(block, kExtentTreeShape.pointer_at(0)) = 50;
    view<Le64>(block, kExtentTreeShape.pointer_at(1)) = 2ULL << 10 | 77;
  }

  void dir_hash() {
    const auto block = tree(BlockType::kDirHash, "leaf", 52, kFile, 0, 3);
    view<DirHashRecord>(block, kDirHashShape.record_at(0)) = {5, 900};
    view<DirHashRecord>(block, kDirHashShape.record_at(1)) = {7, 8};
    view<DirHashRecord>(block, kDirHashShape.record_at(2)) = {7, 30};
  }

  void dir_hash_node() {
    const auto block = tree(BlockType::kDirHash, "node", 53, kFile, 1, 1);
    view<DirHashKey>(block, kDirHashShape.key_at(0)) = {5, 900};
    view<Le64>(block, kDirHashShape.pointer_at(0)) = 52;
  }

  void cluster() {
    const auto block = add(BlockType::kInodeCluster, "", 8, 0);
    for (std::uint32_t i = 0; i < kInodesPerCluster; ++i) {
      start_inode(view<DiskInode>(block, i * kInodeBytes), geometry_.uuid, {8U << 4 | i}, 1);
    }
    {  // an inline directory
      auto& inode = view<DiskInode>(block, 0);
      inode.core.body.mode = kModeDirectory | 0755;
      inode.core.body.data_format = static_cast<U8>(ForkFormat::kInline);
      inode.core.body.link_count = 2;
      inode.core.body.size_bytes = sizeof(InlineDirHeader) + sizeof(InlineDirEntry) + 1;
      const std::span<std::byte> fork(reinterpret_cast<std::byte*>(inode.forks), kForkBytes);
      view<InlineDirHeader>(fork).parent = 8U << 4;
      view<InlineDirHeader>(fork).count = 1;
      view<InlineDirHeader>(fork).next_cookie = 3;
      view<InlineDirEntry>(fork, sizeof(InlineDirHeader)) = {kFile, 2, 1,
                                                             static_cast<U8>(DirEntryType::kRegular)};
      fork[sizeof(InlineDirHeader) + sizeof(InlineDirEntry)] = std::byte{'f'};
    }
    {  // a file with extents and an attribute
      auto& inode = view<DiskInode>(block, 3 * kInodeBytes);
      inode.core.body.mode = kModeRegular | 0644;
      inode.core.body.data_format = static_cast<U8>(ForkFormat::kExtents);
      inode.core.body.attr_format = static_cast<U8>(ForkFormat::kInline);
      inode.core.body.attr_offset = 8;
      inode.core.body.link_count = 1;
      inode.core.body.extent_count = 2;
      inode.core.body.size_bytes = 40'000;
      inode.core.body.blocks = 5;
      const std::span<std::byte> fork(reinterpret_cast<std::byte*>(inode.forks), kForkBytes);
      view<ExtentRecord>(fork) = to_disk(FileExtent{.file_block = 0, .start = {60}, .count = 4});
      view<ExtentRecord>(fork, sizeof(ExtentRecord)) =
          to_disk(FileExtent{.file_block = 9, .start = {1ULL << 10 | 200}, .count = 1});
      view<InlineAttrHeader>(fork, 64) = {sizeof(InlineAttrHeader) + sizeof(InlineAttrEntry) + 3, 1, 0};
      view<InlineAttrEntry>(fork, 64 + sizeof(InlineAttrHeader)) = {1, 2, 0};
    }
    {  // a file with a tree, open and unlinked
      auto& inode = view<DiskInode>(block, 5 * kInodeBytes);
      inode.core.body.mode = kModeRegular | 0600;
      inode.core.body.data_format = static_cast<U8>(ForkFormat::kTree);
      inode.core.body.extent_count = 300;
      inode.core.body.next_unlinked = 8 << 4 | 9;
      const std::span<std::byte> fork(reinterpret_cast<std::byte*>(inode.forks), kForkBytes);
      view<ForkRoot>(fork).level = 1;
      view<ForkRoot>(fork).count = 2;
      view<ExtentKey>(fork, 8 + 8).file_block = 9;
      view<Le64>(fork, 8 + 7 * 8) = 50;
      view<Le64>(fork, 8 + 7 * 8 + 8) = 51;
    }
    {  // a link, and a device file
      auto& link = view<DiskInode>(block, 6 * kInodeBytes);
      link.core.body.mode = kModeSymlink | 0777;
      link.core.body.data_format = static_cast<U8>(ForkFormat::kInline);
      link.core.body.link_count = 1;
      link.core.body.size_bytes = 4;
      auto& fifo = view<DiskInode>(block, 7 * kInodeBytes);
      fifo.core.body.mode = kModeFifo | 0600;
      fifo.core.body.link_count = 1;
    }
  }

  void dir_block(bool whole) {
    const auto block = add(whole ? BlockType::kDirBlock : BlockType::kDirData, "", whole ? 70 : 71, kFile);
    std::uint32_t at = sizeof(DirBlockHeader);
    const auto name = [&](const char* text) {
      auto& entry = view<DirEntry>(block, at);
      entry.name_bytes = static_cast<U8>(std::strlen(text));
      entry.type = static_cast<U8>(DirEntryType::kRegular);
      entry.offset = static_cast<std::uint16_t>(at);
      entry.inode = kFile;
      std::memcpy(block.data() + at + sizeof(DirEntry), text, std::strlen(text));
      at += dir_entry_bytes(entry.name_bytes);
    };
    const auto room = [&](std::uint32_t bytes, std::uint32_t rank) {
      auto& free = view<DirFree>(block, at);
      free.offset = static_cast<std::uint16_t>(at);
      free.bytes = static_cast<std::uint16_t>(bytes);
      view<DirBlockHeader>(block).best[rank] = {static_cast<std::uint16_t>(at),
                                                static_cast<std::uint16_t>(bytes)};
      at += bytes;
    };
    const std::uint32_t end =
        whole ? kFsBlockBytes - sizeof(DirBlockTail) - 3 * sizeof(DirHashRecord) : kFsBlockBytes;
    name("one");
    const std::uint32_t second = at;
    room(24, 1);
    name("a-longer-name");
    room(end - at, 0);
    view<DirBlockHeader>(block).entry_count = 2;
    if (whole) {
      view<DirBlockTail>(block, kFsBlockBytes - sizeof(DirBlockTail)) = {3, 1};
      const std::uint32_t addresses[3] = {sizeof(DirBlockHeader) / 8, UINT32_MAX, (second + 24) / 8};
      for (std::uint32_t i = 0; i < 3; ++i) {
        view<DirHashRecord>(block, end + i * sizeof(DirHashRecord)) = {10 * i, addresses[i]};
      }
    }
  }

  void attr_leaf() {
    const auto block = add(BlockType::kAttrLeaf, "", 72, kFile);
    auto& header = view<AttrLeafHeader>(block);
    header.next = UINT64_MAX;
    header.count = 2;
    header.used_bytes = 3 + 5 + 2 + sizeof(AttrRemotePlace);
    header.first_used = static_cast<std::uint16_t>(kFsBlockBytes - header.used_bytes);
    view<AttrLeafEntry>(block, sizeof(AttrLeafHeader)) = {4, kFsBlockBytes - 8, 5, 3, 0, 0};
    view<AttrLeafEntry>(block, sizeof(AttrLeafHeader) + sizeof(AttrLeafEntry)) = {
        9, header.first_used.get(), 0, 2, kAttrRemote | kAttrRoot, 0};
    view<AttrRemotePlace>(block, header.first_used + 2U) = {73, 5000};
  }

  void attr_value() {
    const auto block = add(BlockType::kAttrValue, "", 73, kFile);
    view<AttrValueHeader>(block).bytes = 1000;
    view<AttrValueHeader>(block).offset = kFsBlockBytes - sizeof(AttrValueHeader);
  }

  void mock() {
    const auto block = add(BlockType::kMock, "", 80, 99);
    view<MockBlock>(block).version = 7;
    view<MockBlock>(block).bytes = 100;
  }

  const Geometry& geometry_;
  std::vector<SampleBlock> blocks_;
};

}  // namespace

std::vector<SampleBlock> sample_blocks(const Geometry& geometry) { return Maker(geometry).all(); }

}  // namespace tidewheel::disk
