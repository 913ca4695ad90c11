// Structure of inodes, directories, attributes and mock blocks.
#include <cstddef>

#include "fs/format/attributes.h"
#include "fs/format/directory.h"
#include "fs/format/log_items.h"
#include "fs/format/verify.h"

namespace tidewheel::disk {

namespace {

#define TW_FIELD(type, member) static_cast<std::uint32_t>(offsetof(type, member))
#define TW_BODY(member) static_cast<std::uint32_t>(offsetof(InodeCore, body) + offsetof(InodeBody, member))

Verdict bad(std::uint32_t at, const char* what) { return {Fault::kStructure, at, what}; }

constexpr std::uint32_t kForksAt = offsetof(DiskInode, forks);

bool is_file_type(std::uint16_t mode) {
  switch (mode & kModeTypeMask) {
    case kModeDirectory:
    case kModeRegular:
    case kModeSymlink:
    case kModeFifo:
    case kModeCharacter:
    case kModeBlock:
    case kModeSocket: return true;
    default: return false;
  }
}

// The extents of a fork, which is `bytes` long.
Verdict check_fork_extents(std::span<const std::byte> fork, std::uint32_t count, std::uint32_t at,
                           const Geometry& geometry) {
  if (count > fork.size() / sizeof(ExtentRecord)) return bad(at, "more extents than the fork has room for");
  std::uint64_t from = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto where = static_cast<std::uint32_t>(i * sizeof(ExtentRecord));
    const auto& record = view<ExtentRecord>(fork, where);
    const FileExtent extent = from_disk(record);
    if ((record.offset & (((1ULL << 11) - 1) << 52)) != 0)
      return bad(at + where, "unknown bits in an extent");
    if (extent.count == 0) return bad(at + where, "an extent without length");
    if (extent.file_block < from) return bad(at + where, "extents out of order");
    if (extent.file_block > kMaxFileBlock || extent.count - 1 > kMaxFileBlock - extent.file_block) {
      return bad(at + where, "an extent beyond the largest file");
    }
    if (!geometry.contains(extent.start, extent.count)) return bad(at + where, "an extent outside its group");
    from = extent.file_block + extent.count;
  }
  return {};
}

Verdict check_fork_root(std::span<const std::byte> fork, std::uint32_t at, const Geometry& geometry) {
  if (fork.size() < sizeof(ForkRoot) + sizeof(ExtentKey) + sizeof(Le64)) return bad(at, "no room for a root");
  const auto& root = view<ForkRoot>(fork);
  const auto most =
      static_cast<std::uint32_t>((fork.size() - sizeof(ForkRoot)) / (sizeof(ExtentKey) + sizeof(Le64)));
  if (root.level == 0 || root.level >= kMaxBtreeLevels) return bad(at, "an impossible level");
  if (root.count == 0 || root.count > most) return bad(at + 2, "an impossible number of children");
  for (std::uint32_t i = 0; i < root.count; ++i) {
    const auto key = static_cast<std::uint32_t>(sizeof(ForkRoot) + i * sizeof(ExtentKey));
    const auto pointer =
        static_cast<std::uint32_t>(sizeof(ForkRoot) + most * sizeof(ExtentKey) + i * sizeof(Le64));
    const FsBlock child{view<Le64>(fork, pointer).get()};
    if (!geometry.contains(child)) return bad(at + pointer, "a pointer to no tree block");
    if (geometry.ag_block_of(child).value < kAgFixedBlocks) return bad(at + pointer, "a pointer to a header");
    if (i + 1 < root.count &&
        view<ExtentKey>(fork, key).file_block >=
            view<ExtentKey>(fork, key + static_cast<std::uint32_t>(sizeof(ExtentKey))).file_block) {
      return bad(at + key, "keys out of order");
    }
  }
  return {};
}

Verdict check_inline_dir(std::span<const std::byte> fork, std::uint64_t size, const Geometry& geometry) {
  if (size < sizeof(InlineDirHeader)) return bad(kForksAt, "a directory shorter than its header");
  const auto& header = view<InlineDirHeader>(fork);
  if (!geometry.contains(InodeNumber{header.parent})) return bad(kForksAt, "a parent that is no inode");
  std::size_t at = sizeof(InlineDirHeader);
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const auto where = static_cast<std::uint32_t>(kForksAt + at);
    if (size - at < sizeof(InlineDirEntry)) return bad(where, "a name beyond the end");
    const auto& entry = view<InlineDirEntry>(fork, at);
    at += sizeof(InlineDirEntry);
    if (entry.name_bytes == 0 || entry.name_bytes > size - at)
      return bad(where, "a name of an impossible length");
    if (!geometry.contains(InodeNumber{entry.inode})) return bad(where, "a name of no inode");
    if (entry.type > static_cast<U8>(DirEntryType::kSocket)) return bad(where, "an unknown type");
    if (entry.cookie >= header.next_cookie) return bad(where, "a cookie from the future");
    at += entry.name_bytes;
  }
  if (at != size) return bad(kForksAt, "bytes behind the last name");
  return {};
}

Verdict check_inline_attrs(std::span<const std::byte> fork, std::uint32_t at) {
  if (fork.size() < sizeof(InlineAttrHeader)) return bad(at, "no room for attributes");
  const auto& header = view<InlineAttrHeader>(fork);
  if (header.total_bytes < sizeof(InlineAttrHeader) || header.total_bytes > fork.size()) {
    return bad(at, "attributes of an impossible length");
  }
  std::size_t used = sizeof(InlineAttrHeader);
  for (std::uint32_t i = 0; i < header.count; ++i) {
    if (header.total_bytes - used < sizeof(InlineAttrEntry)) return bad(at, "an attribute beyond the end");
    const auto& entry = view<InlineAttrEntry>(fork, used);
    used += sizeof(InlineAttrEntry);
    const std::size_t bytes = std::size_t{entry.name_bytes} + entry.value_bytes;
    if (entry.name_bytes == 0 || bytes > header.total_bytes - used) {
      return bad(at, "an attribute of an impossible length");
    }
    if ((entry.flags & kAttrRemote) != 0) return bad(at, "a remote value of an inline attribute");
    used += bytes;
  }
  if (used != header.total_bytes) return bad(at, "bytes behind the last attribute");
  return {};
}

Verdict check_data_fork(const InodeBody& body, std::span<const std::byte> fork, const Geometry& geometry) {
  const std::uint16_t type = body.mode & kModeTypeMask;
  const bool has_data = type == kModeRegular || type == kModeDirectory || type == kModeSymlink;
  switch (static_cast<ForkFormat>(body.data_format)) {
    case ForkFormat::kNone:
      if (has_data) return bad(TW_BODY(data_format), "no data fork");
      if (body.size_bytes != 0 || body.extent_count != 0)
        return bad(TW_BODY(size_bytes), "data of a device file");
      return {};
    case ForkFormat::kInline:
      if (type != kModeDirectory && type != kModeSymlink) return bad(TW_BODY(data_format), "inline data");
      if (body.size_bytes > fork.size()) return bad(TW_BODY(size_bytes), "more than the fork holds");
      if (body.extent_count != 0) return bad(TW_BODY(extent_count), "extents of inline data");
      if (type == kModeDirectory) return check_inline_dir(fork, body.size_bytes, geometry);
      if (body.size_bytes == 0) return bad(TW_BODY(size_bytes), "an empty link");
      return {};
    case ForkFormat::kExtents:
      if (!has_data) return bad(TW_BODY(data_format), "extents of a device file");
      return check_fork_extents(fork, body.extent_count, kForksAt, geometry);
    case ForkFormat::kTree:
      if (!has_data) return bad(TW_BODY(data_format), "a tree of a device file");
      return check_fork_root(fork, kForksAt, geometry);
  }
  return bad(TW_BODY(data_format), "an unknown format");
}

Verdict check_attr_fork(const InodeBody& body, std::span<const std::byte> fork, std::uint32_t at,
                        const Geometry& geometry) {
  const auto format = static_cast<ForkFormat>(body.attr_format);
  if (body.attr_offset == 0) {
    if (format != ForkFormat::kNone) return bad(TW_BODY(attr_format), "attributes without a fork");
    if (body.attr_extent_count != 0) return bad(TW_BODY(attr_extent_count), "attributes without a fork");
    return {};
  }
  switch (format) {
    case ForkFormat::kInline:
      if (body.attr_extent_count != 0) return bad(TW_BODY(attr_extent_count), "extents of inline attributes");
      return check_inline_attrs(fork, at);
    case ForkFormat::kExtents: return check_fork_extents(fork, body.attr_extent_count, at, geometry);
    case ForkFormat::kTree: return check_fork_root(fork, at, geometry);
    case ForkFormat::kNone: break;
  }
  return bad(TW_BODY(attr_format), "an unknown format");
}

// Names of a block from `at` to `end`, without gaps, and how many of them are in use.
Verdict check_dir_entries(std::span<const std::byte> block, std::uint32_t end, std::uint32_t entries,
                          const Geometry& geometry) {
  std::uint32_t at = sizeof(DirBlockHeader);
  std::uint32_t found = 0;
  while (at < end) {
    if (end - at < sizeof(DirFree)) return bad(at, "a gap");
    const auto& free = view<DirFree>(block, at);
    std::uint32_t bytes = 0;
    if (free.zero == 0) {
      bytes = free.bytes;
      if (bytes < sizeof(DirFree) || bytes % kDirAddressBytes != 0 || bytes > end - at) {
        return bad(at, "free space of an impossible length");
      }
    } else {
      if (end - at < dir_entry_bytes(1)) return bad(at, "a name beyond the end");
      const auto& entry = view<DirEntry>(block, at);
      bytes = dir_entry_bytes(entry.name_bytes);
      if (bytes > end - at) return bad(at, "a name of an impossible length");
      if (!geometry.contains(InodeNumber{entry.inode})) return bad(at, "a name of no inode");
      if (entry.type > static_cast<U8>(DirEntryType::kSocket)) return bad(at, "an unknown type");
      ++found;
    }
    if (free.offset != at) return bad(at, "an entry with another's offset");
    at += bytes;
  }
  if (found != entries) return bad(TW_FIELD(DirBlockHeader, entry_count), "another number of names");
  return {};
}

}  // namespace

Verdict check_inode(const DiskInode& inode, const Geometry& geometry) {
  const InodeBody& body = inode.core.body;
  if (inode.core.head.version != kInodeVersion)
    return bad(TW_FIELD(InodeHead, version), "an unknown version");
  if (body.mode == 0) {
    if (body.data_format != static_cast<U8>(ForkFormat::kNone)) {
      return bad(TW_BODY(data_format), "a free inode with data");
    }
    if (body.attr_format != static_cast<U8>(ForkFormat::kNone)) {
      return bad(TW_BODY(attr_format), "a free inode with attributes");
    }
    if (body.extent_count != 0 || body.blocks != 0) return bad(TW_BODY(blocks), "a free inode with blocks");
    return {};
  }
  if (!is_file_type(body.mode)) return bad(TW_BODY(mode), "an unknown type of file");
  if (body.size_bytes > (kMaxFileBlock + 1) * kFsBlockBytes - 1) return bad(TW_BODY(size_bytes), "too large");
  if (body.blocks > geometry.device_blocks) return bad(TW_BODY(blocks), "more blocks than there are");
  if ((body.flags & ~kKnownInodeFlags) != 0) return bad(TW_BODY(flags), "unknown flags");
  if (body.attr_offset > kForkBytes / 8) return bad(TW_BODY(attr_offset), "an attribute fork outside");
  if (body.next_unlinked != UINT32_MAX) {
    const FsBlock own{inode.core.head.number >> kInodesPerBlockLog};
    const std::uint32_t block = body.next_unlinked >> kInodesPerBlockLog;
    if (!geometry.contains(geometry.ag_of(own), {block}) || block < kAgFixedBlocks) {
      return bad(TW_BODY(next_unlinked), "an unlinked inode outside the group");
    }
    if (body.link_count != 0) return bad(TW_BODY(link_count), "a linked inode on the unlinked list");
  }
  const std::uint32_t data_bytes = body.attr_offset == 0 ? kForkBytes : body.attr_offset * 8U;
  const std::span<const std::byte> forks(reinterpret_cast<const std::byte*>(inode.forks), kForkBytes);
  if (const Verdict verdict = check_data_fork(body, forks.first(data_bytes), geometry); !verdict.good()) {
    return verdict;
  }
  return check_attr_fork(body, forks.subspan(data_bytes), kForksAt + data_bytes, geometry);
}

Verdict check_dir_block(std::span<const std::byte> block, const VerifyContext& context, bool with_tail) {
  const auto& header = view<DirBlockHeader>(block);
  std::uint32_t end = kFsBlockBytes;
  if (with_tail) {
    const std::uint32_t tail_at = kFsBlockBytes - sizeof(DirBlockTail);
    const auto& tail = view<DirBlockTail>(block, tail_at);
    constexpr std::uint32_t kMost =
        (kFsBlockBytes - sizeof(DirBlockHeader) - sizeof(DirBlockTail)) / sizeof(DirHashRecord);
    if (tail.count > kMost) return bad(tail_at, "more hashes than there is room for");
    if (tail.stale > tail.count) return bad(tail_at + 4, "more stale hashes than hashes");
    if (tail.count - tail.stale != header.entry_count) return bad(tail_at, "another number of hashes");
    end = static_cast<std::uint32_t>(tail_at - tail.count * sizeof(DirHashRecord));
    for (std::uint32_t i = 1; i < tail.count; ++i) {
      const auto at = static_cast<std::uint32_t>(end + i * sizeof(DirHashRecord));
      if (view<DirHashRecord>(block, at - sizeof(DirHashRecord)).hash > view<DirHashRecord>(block, at).hash) {
        return bad(at, "hashes out of order");
      }
    }
  }
  std::uint32_t before = UINT32_MAX;
  for (const DirBlockHeader::Room& room : header.best) {
    if (room.bytes > before) return bad(TW_FIELD(DirBlockHeader, best), "free places out of order");
    before = room.bytes;
    if (room.bytes == 0) continue;
    if (room.offset < sizeof(DirBlockHeader) || room.offset >= end || room.bytes > end - room.offset) {
      return bad(TW_FIELD(DirBlockHeader, best), "a free place outside the block");
    }
    if (room.offset % kDirAddressBytes != 0)
      return bad(TW_FIELD(DirBlockHeader, best), "a free place not aligned");
    const auto& free = view<DirFree>(block, room.offset);
    if (free.zero != 0) return bad(room.offset, "a free place that is in use");
    if (free.bytes != room.bytes) return bad(room.offset, "a free place of another length");
  }
  return check_dir_entries(block, end, header.entry_count, *context.geometry);
}

Verdict check_attr_leaf(std::span<const std::byte> block, const VerifyContext& context) {
  const auto& header = view<AttrLeafHeader>(block);
  if (header.next != UINT64_MAX && !context.geometry->contains(FsBlock{header.next})) {
    return bad(TW_FIELD(AttrLeafHeader, next), "no next leaf");
  }
  constexpr std::uint32_t kMost = (kFsBlockBytes - sizeof(AttrLeafHeader)) / sizeof(AttrLeafEntry);
  if (header.count > kMost)
    return bad(TW_FIELD(AttrLeafHeader, count), "more entries than there is room for");
  const auto table_end =
      static_cast<std::uint32_t>(sizeof(AttrLeafHeader) + header.count * sizeof(AttrLeafEntry));
  if (header.first_used < table_end || header.first_used > kFsBlockBytes) {
    return bad(TW_FIELD(AttrLeafHeader, first_used), "names where entries are");
  }
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const auto at = static_cast<std::uint32_t>(sizeof(AttrLeafHeader) + i * sizeof(AttrLeafEntry));
    const auto& entry = view<AttrLeafEntry>(block, at);
    const bool remote = (entry.flags & kAttrRemote) != 0;
    const std::uint32_t bytes =
        entry.name_bytes +
        (remote ? static_cast<std::uint32_t>(sizeof(AttrRemotePlace)) : std::uint32_t{entry.value_bytes});
    if (entry.name_bytes == 0) return bad(at, "an attribute without a name");
    if (entry.name_at < header.first_used || entry.name_at >= kFsBlockBytes ||
        bytes > kFsBlockBytes - entry.name_at) {
      return bad(at, "an attribute outside the block");
    }
    if (remote) {
      const auto& place = view<AttrRemotePlace>(block, std::size_t{entry.name_at} + entry.name_bytes);
      if (!context.geometry->contains(FsBlock{place.start}))
        return bad(at, "a value outside the file system");
      if (place.value_bytes == 0 || place.value_bytes > kMaxAttrValueBytes) {
        return bad(at, "a value of an impossible length");
      }
    }
    if (i != 0 && view<AttrLeafEntry>(block, at - sizeof(AttrLeafEntry)).hash > entry.hash) {
      return bad(at, "attributes out of order");
    }
    used += bytes;
  }
  if (used != header.used_bytes || used > kFsBlockBytes - header.first_used) {
    return bad(TW_FIELD(AttrLeafHeader, used_bytes), "another number of bytes in use");
  }
  return {};
}

Verdict check_attr_value(std::span<const std::byte> block, const VerifyContext&) {
  const auto& header = view<AttrValueHeader>(block);
  if (header.bytes == 0 || header.bytes > kFsBlockBytes - sizeof(AttrValueHeader)) {
    return bad(TW_FIELD(AttrValueHeader, bytes), "a part of an impossible length");
  }
  if (header.offset >= kMaxAttrValueBytes || header.bytes > kMaxAttrValueBytes - header.offset) {
    return bad(TW_FIELD(AttrValueHeader, offset), "a part beyond the largest value");
  }
  return {};
}

Verdict check_mock(std::span<const std::byte> block, const VerifyContext&) {
  const auto& mock = view<MockBlock>(block);
  if (mock.bytes > kMaxMockBytes) return bad(TW_FIELD(MockBlock, bytes), "more bytes than there is room for");
  return {};
}

}  // namespace tidewheel::disk
