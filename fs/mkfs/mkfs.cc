#include "fs/mkfs/mkfs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fs/format/directory.h"
#include "fs/format/log_record.h"
#include "fs/format/verify.h"

namespace tidewheel::mkfs {

namespace {

using namespace disk;

constexpr std::uint32_t kLogPieceBytes = 4U << 20;

class Maker {
 public:
  Maker(BlockDevice& device, const Geometry& geometry, const Options& options)
      : device_(device), geometry_(geometry), options_(options) {}

  Result<void> run() {
    if (options_.uuid.null() || options_.label.size() >= kLabelBytes) return TW_FAIL(kInvalidArgument);
    if (device_.size_bytes() / kFsBlockBytes < geometry_.device_blocks) return TW_FAIL(kOutOfRange);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kFsBlockBytes, kLogPieceBytes)));
    if (memory_ == nullptr) return TW_FAIL(kNoMemory);
    for (std::uint32_t ag = 0; ag < geometry_.ag_count; ++ag) {
      free_blocks_ += free_runs({ag}).blocks + kFirstFreeListBlocks;
    }
    if (!options_.blank) TW_TRY(wipe_superblock());
    TW_TRY(clear_log());
    TW_TRY(write_unmount_record());
    TW_TRY(write_root_chunk());
    for (std::uint32_t ag = 0; ag < geometry_.ag_count; ++ag) TW_TRY(write_group({ag}));
    TW_TRY(device_.flush(IoCause::kMetadata));
    // The commit point: from here on the device is a file system.
    TW_TRY(write(geometry_.address_of({0}, {kSuperBlock}), superblock({0})));
    return device_.flush(IoCause::kMetadata);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };

  std::span<std::byte> blocks(std::uint32_t n) {
    std::memset(memory_.get(), 0, std::size_t{n} * kFsBlockBytes);
    return {memory_.get(), std::size_t{n} * kFsBlockBytes};
  }
  Result<void> write(DeviceAddress address, std::span<const std::byte> bytes,
                     IoCause cause = IoCause::kMetadata) {
    TW_TRY(device_.write(address.bytes(), bytes, cause));
    written_ += bytes.size();
    if (options_.progress) options_.progress(written_, all_bytes());
    return {};
  }
  std::uint64_t all_bytes() const {
    const std::uint64_t log = clears_log() ? geometry_.log_bytes() : 0;
    return log + std::uint64_t{geometry_.ag_count} * kAgHeaderBlocks * kFsBlockBytes;
  }
  bool clears_log() const { return options_.preallocate_log || !options_.blank; }

  Result<void> wipe_superblock() {
    TW_TRY(device_.write(0, blocks(1), IoCause::kMetadata));
    return device_.flush(IoCause::kMetadata);
  }

  // All of it: recovery tells the sectors never written by their cycle, 0.
  Result<void> clear_log() {
    if (!clears_log()) return {};
    const auto zeros = blocks(kLogPieceBytes / kFsBlockBytes);
    const std::uint64_t start = geometry_.log_address().bytes();
    for (std::uint64_t at = 0; at < geometry_.log_bytes(); at += kLogPieceBytes) {
      const std::uint64_t n = std::min<std::uint64_t>(kLogPieceBytes, geometry_.log_bytes() - at);
      TW_TRY(write({(start + at) / kFsBlockBytes}, zeros.first(n), IoCause::kLog));
    }
    return {};
  }

  // A mount finds a log that was left cleanly.
  Result<void> write_unmount_record() {
    const auto record = blocks(kLogWriteUnitBytes / kFsBlockBytes);
    seal_unmount_record(record, options_.uuid, Lsn::make(1, 0), UINT32_MAX, 1, geometry_.log_sectors());
    return write(geometry_.log_address(), record, IoCause::kLog);
  }

  // 64 inodes, the first of them the root: an empty directory, its own parent.
  Result<void> write_root_chunk() {
    const auto chunk = blocks(kInodeChunkBlocks);
    for (std::uint32_t i = 0; i < kInodesPerChunk; ++i) {
      start_inode(view<DiskInode>(chunk, i * kInodeBytes), options_.uuid, {geometry_.root_inode.value + i},
                  1);
    }
    auto& root = view<DiskInode>(chunk);
    InodeBody& body = root.core.body;
    body.mode = kModeDirectory | 0755;
    body.data_format = static_cast<U8>(ForkFormat::kInline);
    body.size_bytes = sizeof(InlineDirHeader);
    body.link_count = 2;
    for (Le64* time : {&body.atime_ns, &body.mtime_ns, &body.ctime_ns, &body.born_ns}) {
      *time = static_cast<std::uint64_t>(options_.created_ns);
    }
    auto& header =
        view<InlineDirHeader>(std::span<std::byte>(reinterpret_cast<std::byte*>(root.forks), kForkBytes));
    header.parent = geometry_.root_inode.value;
    header.next_cookie = 3;  // 1 and 2 are . and ..
    const DeviceAddress address = geometry_.cluster_of(geometry_.root_inode);
    for (std::uint32_t half = 0; half < kInodeChunkBlocks / kInodeClusterBlocks; ++half) {
      const auto cluster = chunk.subspan(std::size_t{half} * kInodeClusterBlocks * kFsBlockBytes,
                                         kInodeClusterBlocks * kFsBlockBytes);
      TW_TRY(stamp(BlockType::kInodeCluster, cluster, {address.value + half * kInodeClusterBlocks}));
    }
    return write(address, chunk);
  }

  // What a new group has in use, from its start on, apart from the log.
  std::uint32_t free_list_at(AgNumber ag) const {
    return kAgHeaderBlocks + (ag.value == 0 ? kInodeChunkBlocks : 0);
  }
  struct FreeRuns {
    FreeRecord runs[2];
    std::uint32_t count = 0;
    std::uint32_t blocks = 0;
    std::uint32_t longest = 0;
    void add(std::uint32_t start, std::uint32_t end) {
      if (start >= end) return;
      runs[count++] = {start, end - start};
      blocks += end - start;
      longest = std::max(longest, end - start);
    }
  };
  FreeRuns free_runs(AgNumber ag) const {
    FreeRuns free;
    const std::uint32_t start = free_list_at(ag) + kFirstFreeListBlocks;
    const std::uint32_t length = geometry_.ag_length(ag);
    if (geometry_.ag_of(geometry_.log_start) == ag) {
      const std::uint32_t log = geometry_.ag_block_of(geometry_.log_start).value;
      free.add(start, log);
      free.add(log + geometry_.log_blocks, length);
    } else {
      free.add(start, length);
    }
    return free;
  }

  Result<void> stamp(BlockType type, std::span<std::byte> block, DeviceAddress address) {
    const VerifyContext context{.geometry = &geometry_, .address = address, .newest = kNewestLsn};
    return verify_write(type, block, context, kNoLsn).result();
  }

  std::span<std::byte> superblock(AgNumber ag) {
    const auto block = blocks(1);
    fill_superblock(ag, block);
    return block;
  }
  void fill_superblock(AgNumber ag, std::span<std::byte> block) {
    const DeviceAddress address = geometry_.address_of(ag, {kSuperBlock});
    start_block(block, kSuperMagic, options_.uuid, address, ag.value);
    auto& super = view<Superblock>(block);
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
    super.inode_count = kInodesPerChunk;
    super.free_inode_count = kInodesPerChunk - 1;
    super.free_block_count = free_blocks_;
    super.created_ns = static_cast<std::uint64_t>(options_.created_ns);
    std::memcpy(super.label, options_.label.data(), options_.label.size());
    TW_ASSERT(stamp(BlockType::kSuper, block, address).has_value(), "mkfs writes what it would read");
  }

  Result<void> write_group(AgNumber ag) {
    const auto all = blocks(kAgHeaderBlocks);
    const auto block = [&](std::uint32_t n) {
      return all.subspan(std::size_t{n} * kFsBlockBytes, kFsBlockBytes);
    };
    const auto start = [&](std::uint32_t n, std::uint32_t magic) {
      start_block(block(n), magic, options_.uuid, geometry_.address_of(ag, {n}), ag.value);
      return block(n);
    };
    constexpr std::uint32_t kByBlockRoot = 4, kBySizeRoot = 5, kInodeRoot = 6, kFreeInodeRoot = 7;
    const FreeRuns free = free_runs(ag);
    const std::uint32_t length = geometry_.ag_length(ag);
    const bool has_chunk = ag.value == 0;
    fill_superblock(ag, block(kSuperBlock));

    auto& ag_free = view<AgFree>(start(kAgFreeBlock, kAgFreeMagic));
    ag_free.ag_number = ag.value;
    ag_free.length_blocks = length;
    ag_free.by_block_root = kByBlockRoot;
    ag_free.by_block_levels = 1;
    ag_free.by_size_root = kBySizeRoot;
    ag_free.by_size_levels = 1;
    ag_free.free_list_count = kFirstFreeListBlocks;
    ag_free.free_blocks = free.blocks;
    ag_free.longest_free = free.longest;

    auto& ag_inode = view<AgInode>(start(kAgInodeBlock, kAgInodeMagic));
    ag_inode.ag_number = ag.value;
    ag_inode.length_blocks = length;
    ag_inode.inode_count = has_chunk ? kInodesPerChunk : 0;
    ag_inode.free_inode_count = has_chunk ? kInodesPerChunk - 1 : 0;
    ag_inode.tree_root = kInodeRoot;
    ag_inode.tree_levels = 1;
    ag_inode.free_root = kFreeInodeRoot;
    ag_inode.free_levels = 1;
    ag_inode.newest_chunk = has_chunk ? geometry_.ag_inode_of(geometry_.root_inode) : UINT32_MAX;
    for (Le32& bucket : ag_inode.unlinked) bucket = UINT32_MAX;

    auto& list = view<AgFreeList>(start(kAgFreeListBlock, kAgFreeListMagic));
    for (Le32& entry : list.blocks) entry = UINT32_MAX;
    for (std::uint32_t i = 0; i < kFirstFreeListBlocks; ++i) list.blocks[i] = free_list_at(ag) + i;

    FreeRecord by_size[2] = {free.runs[0], free.runs[1]};
    if (free.count == 2 && by_size[1].count < by_size[0].count) std::swap(by_size[0], by_size[1]);
    fill_leaf(start(kByBlockRoot, kFreeByBlockMagic), free.runs, free.count);
    fill_leaf(start(kBySizeRoot, kFreeBySizeMagic), by_size, free.count);
    const InodeChunkRecord chunk{geometry_.ag_inode_of(geometry_.root_inode), kInodesPerChunk - 1, ~1ULL};
    fill_leaf(start(kInodeRoot, kInodeTreeMagic), &chunk, has_chunk ? 1 : 0);
    fill_leaf(start(kFreeInodeRoot, kFreeInodeMagic), &chunk, has_chunk ? 1 : 0);
    constexpr std::pair<std::uint32_t, BlockType> kTypes[] = {
        {kAgFreeBlock, BlockType::kAgFree},         {kAgInodeBlock, BlockType::kAgInode},
        {kAgFreeListBlock, BlockType::kAgFreeList}, {kByBlockRoot, BlockType::kFreeByBlock},
        {kBySizeRoot, BlockType::kFreeBySize},      {kInodeRoot, BlockType::kInodeTree},
        {kFreeInodeRoot, BlockType::kFreeInode}};
    for (const auto& [n, type] : kTypes) TW_TRY(stamp(type, block(n), geometry_.address_of(ag, {n})));
    // The first superblock comes last of all.
    if (ag.value == 0) return write(geometry_.address_of(ag, {1}), all.subspan(kFsBlockBytes));
    return write(geometry_.address_of(ag, {0}), all);
  }

  template <class Record>
  static void fill_leaf(std::span<std::byte> block, const Record* records, std::uint32_t count) {
    auto& header = view<BtreeHeader>(block);
    header.count = static_cast<std::uint16_t>(count);
    header.left = UINT64_MAX;
    header.right = UINT64_MAX;
    for (std::uint32_t i = 0; i < count; ++i) {
      view<Record>(block, kBtreeHeaderBytes + i * sizeof(Record)) = records[i];
    }
  }

  BlockDevice& device_;
  const Geometry& geometry_;
  const Options& options_;
  std::unique_ptr<std::byte, Free> memory_;
  std::uint64_t written_ = 0;
  std::uint64_t free_blocks_ = 0;  // of all groups, those on free lists too
};

}  // namespace

Result<void> make(BlockDevice& device, disk::Geometry geometry, const Options& options) {
  geometry.uuid = options.uuid;
  return Maker(device, geometry, options).run();
}

}  // namespace tidewheel::mkfs
