// Superblocks, groups, inodes and directories.
#include "fs/tools/dump.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "fs/format/directory.h"
#include "fs/tools/dump_text.h"

namespace tidewheel::tools {

namespace {

using namespace disk;

VerifyContext context_at(const DumpText& out, DeviceAddress address) {
  return {.geometry = &out.geometry(), .address = address, .newest = kNewestLsn};
}

void print_super(DumpText& out, const Superblock& super) {
  out.header(super.header);
  out.field("version", std::uint64_t{super.version});
  out.field("block_bytes", std::uint64_t{super.block_bytes});
  out.field("device_blocks", super.device_blocks);
  out.field("ag_count", std::uint64_t{super.ag_count});
  out.field("ag_blocks", std::uint64_t{super.ag_blocks});
  out.field("ag_block_log", std::uint64_t{super.ag_block_log});
  out.field("inode_bytes", std::uint64_t{1} << (super.inode_log & 31));
  out.field("log_start", super.log_start);
  out.field("log_blocks", std::uint64_t{super.log_blocks});
  out.field("log_version", std::uint64_t{super.log_version});
  out.field("log_write_unit_bytes", std::uint64_t{super.log_write_unit_bytes});
  out.field("root_inode", super.root_inode);
  out.line("  %-28s 0x%llx", "features_compatible",
           static_cast<unsigned long long>(super.features_compatible));
  out.line("  %-28s 0x%llx", "features_read_only_compatible",
           static_cast<unsigned long long>(super.features_read_only_compatible));
  out.line("  %-28s 0x%llx%s", "features_incompatible",
           static_cast<unsigned long long>(super.features_incompatible),
           (super.features_incompatible & kIncompatFreeInodeTree) != 0 ? " (free-inode-tree)" : "");
  out.field("inode_count", super.inode_count);
  out.field("free_inode_count", super.free_inode_count);
  out.field("free_block_count", super.free_block_count);
  out.field("created", time_text(super.created_ns));
  out.field("label", quoted(super.label, ::strnlen(reinterpret_cast<const char*>(super.label), kLabelBytes)));
}

void print_tree_block(DumpText& out, const char* name, const BtreeShape& shape, BlockType type, AgNumber ag,
                      std::uint32_t root) {
  const Geometry& geometry = out.geometry();
  out.title(std::string(name) + ", root at block " + std::to_string(root));
  if (!geometry.contains(ag, {root})) {
    out.line("  outside the group");
    return;
  }
  const DeviceAddress address = geometry.address_of(ag, {root});
  const std::span<const std::byte> block = out.read(address, 1);
  if (block.empty()) return;
  out.verdict(verify_read(type, block, context_at(out, address)));
  const auto& header = view<BtreeHeader>(block);
  out.field("level", std::uint64_t{header.level});
  out.field("count", std::uint64_t{header.count});
  if (header.level != 0) {
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(header.count, shape.max_keys()); ++i) {
      out.line("  child %u: block %u", i, view<Le32>(block, shape.pointer_at(i)).get());
    }
    return;
  }
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(header.count, shape.max_records()); ++i) {
    if (shape.record_bytes == sizeof(FreeRecord)) {
      const auto& record = view<FreeRecord>(block, shape.record_at(i));
      out.line("  %u blocks from %u", record.count.get(), record.start.get());
    } else {
      const auto& record = view<InodeChunkRecord>(block, shape.record_at(i));
      out.line("  chunk at %u: %u free, mask 0x%016llx", record.start.get(), record.free_count.get(),
               static_cast<unsigned long long>(record.free_mask));
    }
  }
}

const char* format_name(U8 format) {
  switch (static_cast<ForkFormat>(format)) {
    case ForkFormat::kNone: return "none";
    case ForkFormat::kInline: return "inline";
    case ForkFormat::kExtents: return "extents";
    case ForkFormat::kTree: return "tree";
  }
  return "unknown";
}

const char* type_name(std::uint16_t mode) {
  if (mode == 0) return "free";
  switch (mode & kModeTypeMask) {
    case kModeDirectory: return "directory";
    case kModeRegular: return "regular file";
    case kModeSymlink: return "symbolic link";
    case kModeFifo: return "fifo";
    case kModeCharacter: return "character device";
    case kModeBlock: return "block device";
    case kModeSocket: return "socket";
    default: return "unknown";
  }
}

std::uint32_t data_fork_bytes(const InodeBody& body) {
  return body.attr_offset == 0 || body.attr_offset > kForkBytes / 8 ? kForkBytes : body.attr_offset * 8U;
}

// The inode, copied: later reads reuse the memory. False: `error` or the text says why.
bool read_inode(DumpText& out, std::uint64_t number, DiskInode& inode) {
  const Geometry& geometry = out.geometry();
  if (!geometry.contains(InodeNumber{number})) {
    out.fail("inode " + std::to_string(number) + ": there is no such number in this file system");
    return false;
  }
  const auto cluster = out.read(geometry.cluster_of({number}), kInodeClusterBlocks);
  if (cluster.empty()) return false;
  inode = view<DiskInode>(cluster, geometry.cluster_offset_of({number}));
  if (inode.core.head.magic != kInodeMagic) {
    out.fail("inode " + std::to_string(number) + ": no inode lies there");
    return false;
  }
  return true;
}

void print_extent(DumpText& out, const FileExtent& extent) {
  out.line("  file block %llu: %u blocks from %llu (group %u, block %u)%s",
           static_cast<unsigned long long>(extent.file_block), extent.count,
           static_cast<unsigned long long>(extent.start.value), out.geometry().ag_of(extent.start).value,
           out.geometry().ag_block_of(extent.start).value, extent.unwritten ? ", unwritten" : "");
}

void print_inode(DumpText& out, std::uint64_t number, const DiskInode& inode) {
  const InodeHead& head = inode.core.head;
  const InodeBody& body = inode.core.body;
  const Geometry& geometry = out.geometry();
  out.title("inode " + std::to_string(number) + " (group " +
            std::to_string(geometry.ag_of(InodeNumber{number}).value) + ", block " +
            std::to_string(geometry.ag_block_of(InodeNumber{number}).value) + ", slot " +
            std::to_string(number % kInodesPerBlock) + ")");
  out.verdict(verify_inode(inode, {number}, geometry, kNewestLsn));
  out.line("  %-28s 0x%08x", "crc", head.crc.get());
  out.field("lsn", lsn_text({head.lsn}));
  out.field("number", head.number);
  out.field("uuid", from_disk(head.uuid).text());
  out.line("  %-28s 0%o (%s)", "mode", body.mode.get(), type_name(body.mode));
  out.field("generation", std::uint64_t{body.generation});
  out.field("size_bytes", body.size_bytes);
  out.field("blocks", body.blocks);
  out.field("link_count", std::uint64_t{body.link_count});
  out.field("user", std::uint64_t{body.user});
  out.field("group", std::uint64_t{body.group});
  out.field("change_count", body.change_count);
  out.field("atime", time_text(body.atime_ns));
  out.field("mtime", time_text(body.mtime_ns));
  out.field("ctime", time_text(body.ctime_ns));
  out.field("born", time_text(body.born_ns));
  out.line("  %-28s 0x%x", "flags", body.flags);
  out.block_or_none("next_unlinked", body.next_unlinked);
  out.line("  %-28s %s, %u extents", "data fork", format_name(body.data_format), body.extent_count.get());
  out.line("  %-28s %s, %u extents", "attribute fork", format_name(body.attr_format),
           body.attr_extent_count.get());
  const std::span<const std::byte> fork(reinterpret_cast<const std::byte*>(inode.forks),
                                        data_fork_bytes(body));
  if (static_cast<ForkFormat>(body.data_format) == ForkFormat::kExtents) {
    const auto most = static_cast<std::uint32_t>(fork.size() / sizeof(ExtentRecord));
    for (std::uint32_t i = 0; i < std::min(body.extent_count.get(), most); ++i) {
      print_extent(out, from_disk(view<ExtentRecord>(fork, i * sizeof(ExtentRecord))));
    }
  }
  if ((body.mode & kModeTypeMask) == kModeSymlink &&
      static_cast<ForkFormat>(body.data_format) == ForkFormat::kInline) {
    out.field("target", quoted(fork.data(), std::min<std::uint64_t>(body.size_bytes, fork.size())));
  }
}

void print_inline_names(DumpText& out, std::span<const std::byte> fork, std::uint64_t size) {
  size = std::min<std::uint64_t>(size, fork.size());
  if (size < sizeof(InlineDirHeader)) return;
  const auto& header = view<InlineDirHeader>(fork);
  out.field("parent", header.parent);
  std::size_t at = sizeof(InlineDirHeader);
  for (std::uint32_t i = 0; i < header.count && size - at >= sizeof(InlineDirEntry); ++i) {
    const auto& entry = view<InlineDirEntry>(fork, at);
    at += sizeof(InlineDirEntry);
    const std::size_t name = std::min<std::size_t>(entry.name_bytes, size - at);
    out.line("  cookie %u: inode %llu %s", entry.cookie.get(), static_cast<unsigned long long>(entry.inode),
             quoted(fork.data() + at, name).c_str());
    at += name;
  }
}

// One block of names, as far as its entries can be followed.
void print_dir_block(DumpText& out, std::uint64_t inode, std::uint64_t file_block, FsBlock place) {
  const DeviceAddress address = out.geometry().address_of(place);
  const std::span<const std::byte> block = out.read(address, 1);
  if (block.empty()) return;
  const auto& header = view<DirBlockHeader>(block);
  const bool whole = header.header.magic == kDirBlockMagic;
  out.title("block " + std::to_string(file_block) + " of the directory, at " + std::to_string(address.value));
  VerifyContext context = context_at(out, address);
  context.owner = inode;
  out.verdict(verify_read(whole ? BlockType::kDirBlock : BlockType::kDirData, block, context));
  std::uint32_t end = kFsBlockBytes;
  if (whole) {
    const auto& tail = view<DirBlockTail>(block, kFsBlockBytes - sizeof(DirBlockTail));
    const std::uint64_t hashes = sizeof(DirBlockTail) + std::uint64_t{tail.count} * sizeof(DirHashRecord);
    end = hashes < kFsBlockBytes ? static_cast<std::uint32_t>(kFsBlockBytes - hashes) : 0;
  }
  for (std::uint32_t at = sizeof(DirBlockHeader); at + dir_entry_bytes(1) <= end;) {
    const auto& free = view<DirFree>(block, at);
    if (free.zero == 0) {
      if (free.bytes < sizeof(DirFree)) break;
      at += free.bytes;
      continue;
    }
    const auto& entry = view<DirEntry>(block, at);
    const std::uint32_t bytes = dir_entry_bytes(entry.name_bytes);
    if (bytes > end - at) break;
    out.line("  cookie %llu: inode %llu %s",
             static_cast<unsigned long long>((file_block * kFsBlockBytes + at) / kDirAddressBytes),
             static_cast<unsigned long long>(entry.inode),
             quoted(block.data() + at + sizeof(DirEntry), entry.name_bytes).c_str());
    at += bytes;
  }
}

}  // namespace

Dump dump_super(BlockDevice& device) {
  DumpText out(device);
  const std::span<const std::byte> first = out.read({0}, 1);
  if (first.empty()) return out.take();
  const auto& super = view<Superblock>(first);
  if (super.header.magic != kSuperMagic) {
    out.fail("it is no tidefs");
    return out.take();
  }
  out.title("superblock of group 0");
  const auto geometry = Geometry::make(super);
  if (geometry) {
    const VerifyContext context{.geometry = &*geometry, .address = {0}, .newest = kNewestLsn};
    out.verdict(verify_read(BlockType::kSuper, first, context));
  } else {
    const bool crc_fails = super.header.crc != crc_without(first, offsetof(BlockHeader, crc));
    out.verdict({crc_fails ? Fault::kCrc : Fault::kStructure, 0,
                 crc_fails ? "the CRC is not that of the block" : "the geometry is impossible"});
  }
  print_super(out, super);
  if (!geometry || !out.open()) return out.take();
  if (device.size_bytes() / kFsBlockBytes < geometry->device_blocks) {
    out.line("the device is shorter than the file system: %llu blocks",
             static_cast<unsigned long long>(device.size_bytes() / kFsBlockBytes));
    out.count_damage();
    return out.take();
  }
  std::uint32_t good = 0;
  for (std::uint32_t ag = 1; ag < geometry->ag_count; ++ag) {
    const DeviceAddress address = geometry->address_of({ag}, {kSuperBlock});
    const std::span<const std::byte> copy = out.read(address, 1);
    if (copy.empty()) return out.take();
    const Verdict verdict = verify_read(BlockType::kSuper, copy, context_at(out, address));
    if (verdict.good()) {
      ++good;
      continue;
    }
    out.title("copy in group " + std::to_string(ag));
    out.verdict(verdict);
  }
  out.line("copies: %u of %u good", good, geometry->ag_count - 1);
  return out.take();
}

Dump dump_group(BlockDevice& device, std::uint64_t ag_number) {
  DumpText out(device);
  if (!out.open()) return out.take();
  const Geometry& geometry = out.geometry();
  if (ag_number >= geometry.ag_count) {
    out.fail("group " + std::to_string(ag_number) + ": there are groups 0 to " +
             std::to_string(geometry.ag_count - 1));
    return out.take();
  }
  const AgNumber ag{static_cast<std::uint32_t>(ag_number)};
  const auto header_block = [&](std::uint32_t n) { return geometry.address_of(ag, {n}); };

  out.title("free space of group " + std::to_string(ag.value));
  std::span<const std::byte> block = out.read(header_block(kAgFreeBlock), 1);
  if (block.empty()) return out.take();
  out.verdict(verify_read(BlockType::kAgFree, block, context_at(out, header_block(kAgFreeBlock))));
  const AgFree ag_free = view<AgFree>(block);
  out.header(ag_free.header);
  out.field("length_blocks", std::uint64_t{ag_free.length_blocks});
  out.field("free_blocks", std::uint64_t{ag_free.free_blocks});
  out.field("longest_free", std::uint64_t{ag_free.longest_free});
  out.field("tree_blocks", std::uint64_t{ag_free.tree_blocks});
  out.line("  %-28s root %u, %u levels", "by block", ag_free.by_block_root.get(),
           ag_free.by_block_levels.get());
  out.line("  %-28s root %u, %u levels", "by size", ag_free.by_size_root.get(), ag_free.by_size_levels.get());

  out.title("free list");
  block = out.read(header_block(kAgFreeListBlock), 1);
  if (block.empty()) return out.take();
  out.verdict(verify_read(BlockType::kAgFreeList, block, context_at(out, header_block(kAgFreeListBlock))));
  std::string blocks;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(ag_free.free_list_count, 32); ++i) {
    const std::uint32_t entry = (ag_free.free_list_first + i) % kFreeListEntries;
    blocks += (i == 0 ? "" : " ") + std::to_string(view<AgFreeList>(block).blocks[entry].get());
  }
  out.line("  %-28s %u: %s", "blocks", ag_free.free_list_count.get(), blocks.c_str());

  out.title("inodes of group " + std::to_string(ag.value));
  block = out.read(header_block(kAgInodeBlock), 1);
  if (block.empty()) return out.take();
  out.verdict(verify_read(BlockType::kAgInode, block, context_at(out, header_block(kAgInodeBlock))));
  const AgInode ag_inode = view<AgInode>(block);
  out.header(ag_inode.header);
  out.field("inode_count", std::uint64_t{ag_inode.inode_count});
  out.field("free_inode_count", std::uint64_t{ag_inode.free_inode_count});
  out.block_or_none("newest_chunk", ag_inode.newest_chunk);
  out.line("  %-28s root %u, %u levels", "chunks", ag_inode.tree_root.get(), ag_inode.tree_levels.get());
  out.line("  %-28s root %u, %u levels", "chunks with free inodes", ag_inode.free_root.get(),
           ag_inode.free_levels.get());
  for (std::uint32_t i = 0; i < kUnlinkedBuckets; ++i) {
    if (ag_inode.unlinked[i] == UINT32_MAX) continue;
    out.line("  unlinked[%u] %u", i, ag_inode.unlinked[i].get());
  }

  print_tree_block(out, "free space by block", kFreeByBlockShape, BlockType::kFreeByBlock, ag,
                   ag_free.by_block_root);
  print_tree_block(out, "free space by size", kFreeBySizeShape, BlockType::kFreeBySize, ag,
                   ag_free.by_size_root);
  print_tree_block(out, "inode chunks", kInodeTreeShape, BlockType::kInodeTree, ag, ag_inode.tree_root);
  print_tree_block(out, "chunks with free inodes", kFreeInodeShape, BlockType::kFreeInode, ag,
                   ag_inode.free_root);
  return out.take();
}

Dump dump_inode(BlockDevice& device, std::uint64_t number) {
  DumpText out(device);
  DiskInode inode;
  if (!out.open() || !read_inode(out, number, inode)) return out.take();
  print_inode(out, number, inode);
  return out.take();
}

Dump dump_dir(BlockDevice& device, std::uint64_t number) {
  DumpText out(device);
  DiskInode inode;
  if (!out.open() || !read_inode(out, number, inode)) return out.take();
  const InodeBody& body = inode.core.body;
  if ((body.mode & kModeTypeMask) != kModeDirectory) {
    out.fail("inode " + std::to_string(number) + ": it is no directory but a " + type_name(body.mode));
    return out.take();
  }
  out.title("directory " + std::to_string(number));
  out.verdict(verify_inode(inode, {number}, out.geometry(), kNewestLsn));
  out.field("format", std::string(format_name(body.data_format)));
  const std::span<const std::byte> fork(reinterpret_cast<const std::byte*>(inode.forks),
                                        data_fork_bytes(body));
  switch (static_cast<ForkFormat>(body.data_format)) {
    case ForkFormat::kInline: print_inline_names(out, fork, body.size_bytes); break;
    case ForkFormat::kExtents: {
      const auto most = static_cast<std::uint32_t>(fork.size() / sizeof(ExtentRecord));
      for (std::uint32_t i = 0; i < std::min(body.extent_count.get(), most); ++i) {
        const FileExtent extent = from_disk(view<ExtentRecord>(fork, i * sizeof(ExtentRecord)));
        if (!out.geometry().contains(extent.start, extent.count)) continue;
        for (std::uint32_t n = 0; n < extent.count && extent.file_block + n < kDirTreeFileBlock; ++n) {
          print_dir_block(out, number, extent.file_block + n, {extent.start.value + n});
        }
      }
      break;
    }
    default:
      out.fail("inode " + std::to_string(number) +
               ": directories whose extents are in a tree are not printed");
      break;
  }
  return out.take();
}

}  // namespace tidewheel::tools
