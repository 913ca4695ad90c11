// Each rule of the verifiers by itself: one damage under a right CRC breaks it, and the verdict names it.
// A rule that is hidden behind another would be found by no test that only asks whether the block is good.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fs/format/log_record.h"
#include "tests/fs/format_rig.h"

namespace tidewheel::disk {
namespace {

struct Damage {
  BlockType type;
  const char* variant;
  const char* what;
  std::function<void(std::span<std::byte>)> apply;
};

InodeBody& body(std::span<std::byte> b, std::uint32_t slot) {
  return view<DiskInode>(b, slot * kInodeBytes).core.body;
}
std::span<std::byte> fork(std::span<std::byte> b, std::uint32_t slot) {
  return b.subspan(slot * kInodeBytes + offsetof(DiskInode, forks), kForkBytes);
}
constexpr std::uint32_t kDirectory = 0, kFree = 1, kFile = 3, kTreeFile = 5, kLink = 6, kFifo = 7;

void restamp(SampleBlock& block) {
  if (block.type != BlockType::kInodeCluster) return stamp_block(block.span(), kSampleLsn);
  for (std::size_t at = 0; at < block.bytes.size(); at += kInodeBytes) {
    stamp_inode(view<DiskInode>(block.span(), at), kSampleLsn);
  }
}
SampleBlock sample(BlockType type, const char* variant, const Geometry& geometry) {
  for (const SampleBlock& one : sample_blocks(geometry)) {
    if (one.type == type && std::string(one.variant) == variant) return one;
  }
  ADD_FAILURE() << "no sample of " << name_of(type) << " " << variant;
  return {};
}

void expect_each_named(const std::vector<Damage>& damages) {
  const Geometry geometry = small_geometry();
  for (const Damage& damage : damages) {
    SampleBlock block = sample(damage.type, damage.variant, geometry);
    damage.apply(block.span());
    restamp(block);
    const Verdict read = verify_read(block.type, block.span(), context_of(block, geometry));
    EXPECT_STREQ(read.what, damage.what) << name_of(damage.type);
    const Verdict write = verify_write(block.type, block.span(), context_of(block, geometry), kSampleLsn);
    EXPECT_STREQ(write.what, damage.what) << "written: " << name_of(damage.type);
  }
}

Damage inode(const char* what, std::function<void(std::span<std::byte>)> apply) {
  return {BlockType::kInodeCluster, "", what, std::move(apply)};
}

TEST(FormatStructure, NamesEachRuleOfTreesAndGroups) {
  expect_each_named({
      {BlockType::kFreeByBlock, "leaf", "too many levels",
       [](auto b) { view<BtreeHeader>(b).level = kMaxBtreeLevels; }},
      {BlockType::kFreeByBlock, "leaf", "more records than there is room for",
       [](auto b) { view<BtreeHeader>(b).count = 504; }},
      {BlockType::kFreeByBlock, "node", "more records than there is room for",
       [](auto b) { view<BtreeHeader>(b).count = 336; }},
      {BlockType::kAgInode, "", "an unlinked inode outside the group",
       [](auto b) { view<AgInode>(b).unlinked[5] = 5; }},
      {BlockType::kAgInode, "", "an unlinked inode in another bucket",
       [](auto b) { view<AgInode>(b).unlinked[6] = 8 << 4 | 5; }},
      {BlockType::kDirBlock, "", "its owner is no inode's number",
       [](auto b) { view<BlockHeader>(b).owner = UINT64_MAX - 1; }},
  });
}

TEST(FormatStructure, NamesEachRuleOfInodes) {
  expect_each_named({
      inode("the inode's magic number is another one",
            [](auto b) { view<DiskInode>(b, 256).core.head.magic = 1; }),
      inode("the inode belongs to another file system",
            [](auto b) { view<DiskInode>(b, 256).core.head.uuid = to_disk(Uuid::from_random(1, 1)); }),
      inode("a free inode with data",
            [](auto b) { body(b, kFree).data_format = static_cast<U8>(ForkFormat::kInline); }),
      inode("a free inode with attributes",
            [](auto b) { body(b, kFree).attr_format = static_cast<U8>(ForkFormat::kInline); }),
      inode("a free inode with blocks", [](auto b) { body(b, kFree).blocks = 1; }),
      inode("an unknown type of file", [](auto b) { body(b, kFile).mode = 0x3000; }),
      inode("too large", [](auto b) { body(b, kFile).size_bytes = UINT64_MAX; }),
      inode("more blocks than there are", [](auto b) { body(b, kFile).blocks = 2501; }),
      inode("unknown flags", [](auto b) { body(b, kFile).flags = 4; }),
      inode("an attribute fork outside", [](auto b) { body(b, kFile).attr_offset = 17; }),
      inode("an unlinked inode outside the group", [](auto b) { body(b, kTreeFile).next_unlinked = 3; }),
      inode("an unlinked inode outside the group",
            [](auto b) { body(b, kTreeFile).next_unlinked = 1000 << 4; }),
      inode("a linked inode on the unlinked list", [](auto b) { body(b, kTreeFile).link_count = 1; }),
  });
}

TEST(FormatStructure, NamesEachRuleOfDataForks) {
  const auto format = [](std::uint32_t slot, ForkFormat its_format) {
    return [=](std::span<std::byte> b) { body(b, slot).data_format = static_cast<U8>(its_format); };
  };
  const auto entry = [](std::span<std::byte> b) -> InlineDirEntry& {
    return view<InlineDirEntry>(fork(b, kDirectory), sizeof(InlineDirHeader));
  };
  const auto extent = [](std::span<std::byte> b, std::uint32_t i) -> ExtentRecord& {
    return view<ExtentRecord>(fork(b, kFile), i * sizeof(ExtentRecord));
  };
  const auto root = [](std::span<std::byte> b) -> ForkRoot& { return view<ForkRoot>(fork(b, kTreeFile)); };
  const auto child = [](std::span<std::byte> b) -> Le64& {
    return view<Le64>(fork(b, kTreeFile), 8 + 7 * 8);
  };
  expect_each_named({
      inode("no data fork", format(kFile, ForkFormat::kNone)),
      inode("data of a device file", [](auto b) { body(b, kFifo).size_bytes = 1; }),
      inode("data of a device file", [](auto b) { body(b, kFifo).extent_count = 1; }),
      inode("inline data", format(kFile, ForkFormat::kInline)),
      inode("more than the fork holds", [](auto b) { body(b, kDirectory).size_bytes = 129; }),
      inode("extents of inline data", [](auto b) { body(b, kDirectory).extent_count = 1; }),
      inode("a directory shorter than its header", [](auto b) { body(b, kDirectory).size_bytes = 15; }),
      inode("a parent that is no inode",
            [](auto b) { view<InlineDirHeader>(fork(b, kDirectory)).parent = UINT64_MAX; }),
      inode("a name beyond the end", [](auto b) { view<InlineDirHeader>(fork(b, kDirectory)).count = 2; }),
      inode("a name of an impossible length", [&](auto b) { entry(b).name_bytes = 0; }),
      inode("a name of an impossible length", [&](auto b) { entry(b).name_bytes = 2; }),
      inode("a name of no inode", [&](auto b) { entry(b).inode = UINT64_MAX; }),
      inode("an unknown type", [&](auto b) { entry(b).type = 8; }),
      inode("a cookie from the future", [&](auto b) { entry(b).cookie = 3; }),
      inode("bytes behind the last name",
            [](auto b) { body(b, kDirectory).size_bytes = body(b, kDirectory).size_bytes + 1; }),
      inode("an empty link", [](auto b) { body(b, kLink).size_bytes = 0; }),
      inode("extents of a device file", format(kFifo, ForkFormat::kExtents)),
      inode("a tree of a device file", format(kFifo, ForkFormat::kTree)),
      inode("an unknown format", [](auto b) { body(b, kFile).data_format = 9; }),
      inode("more extents than the fork has room for", [](auto b) { body(b, kFile).extent_count = 5; }),
      inode("unknown bits in an extent",
            [&](auto b) { extent(b, 0).offset = extent(b, 0).offset | std::uint64_t{1} << 52; }),
      inode("an extent without length",
            [&](auto b) { extent(b, 0) = to_disk({.file_block = 0, .start = {60}, .count = 0}); }),
      inode("extents out of order",
            [&](auto b) { extent(b, 1) = to_disk({.file_block = 3, .start = {90}, .count = 1}); }),
      inode("an extent beyond the largest file",
            [&](auto b) {
              extent(b, 1) = to_disk({.file_block = kMaxFileBlock, .start = {90}, .count = 2});
            }),
      inode("an extent outside its group",
            [&](auto b) { extent(b, 0) = to_disk({.file_block = 0, .start = {998}, .count = 4}); }),
      inode("no room for a root", [](auto b) { body(b, kTreeFile).attr_offset = 2; }),
      inode("an impossible level", [&](auto b) { root(b).level = 0; }),
      inode("an impossible level", [&](auto b) { root(b).level = kMaxBtreeLevels; }),
      inode("an impossible number of children", [&](auto b) { root(b).count = 0; }),
      inode("an impossible number of children", [&](auto b) { root(b).count = 8; }),
      inode("a pointer to no tree block", [&](auto b) { child(b) = UINT64_MAX; }),
      inode("a pointer to a header", [&](auto b) { child(b) = 3; }),
      inode("keys out of order",
            [](auto b) { view<ExtentKey>(fork(b, kTreeFile), 8 + 8).file_block = 0; }),
  });
}

TEST(FormatStructure, NamesEachRuleOfAttributeForks) {
  const auto header = [](std::span<std::byte> b) -> InlineAttrHeader& {
    return view<InlineAttrHeader>(fork(b, kFile), 64);
  };
  const auto entry = [](std::span<std::byte> b) -> InlineAttrEntry& {
    return view<InlineAttrEntry>(fork(b, kFile), 64 + sizeof(InlineAttrHeader));
  };
  expect_each_named({
      inode("attributes without a fork", [](auto b) { body(b, kFile).attr_offset = 0; }),
      inode("attributes without a fork", [](auto b) { body(b, kDirectory).attr_extent_count = 1; }),
      inode("extents of inline attributes", [](auto b) { body(b, kFile).attr_extent_count = 1; }),
      inode("no room for attributes", [](auto b) { body(b, kFile).attr_offset = 16; }),
      inode("attributes of an impossible length", [&](auto b) { header(b).total_bytes = 3; }),
      inode("attributes of an impossible length", [&](auto b) { header(b).total_bytes = 65; }),
      inode("an attribute beyond the end", [&](auto b) { header(b).count = 2; }),
      inode("an attribute of an impossible length", [&](auto b) { entry(b).name_bytes = 0; }),
      inode("an attribute of an impossible length", [&](auto b) { entry(b).value_bytes = 3; }),
      inode("a remote value of an inline attribute", [&](auto b) { entry(b).flags = kAttrRemote; }),
      inode("bytes behind the last attribute",
            [&](auto b) { header(b).total_bytes = header(b).total_bytes + 1; }),
      inode("an unknown format", [](auto b) { body(b, kFile).attr_format = 0; }),
  });
}

// The samples: names at 64 and 104, free places at 80 (24 bytes) and from 136 on.
TEST(FormatStructure, NamesEachRuleOfDirectoryBlocks) {
  const auto room = [](std::span<std::byte> b, std::uint32_t i) -> DirBlockHeader::Room& {
    return view<DirBlockHeader>(b).best[i];
  };
  const auto tail = [](std::span<std::byte> b) -> DirBlockTail& { return view<DirBlockTail>(b, 4088); };
  const auto free_place = [&](std::span<std::byte> b, std::uint16_t bytes) {
    room(b, 1) = {0, 0};  // else it is named for its length there
    view<DirFree>(b, 80).bytes = bytes;
  };
  // A name in the last bytes of the block.
  const auto last_name = [&](std::span<std::byte> b, std::uint32_t bytes, std::uint8_t name_bytes) {
    view<DirFree>(b, 136).bytes = static_cast<std::uint16_t>(4096 - 136 - bytes);
    room(b, 0).bytes = view<DirFree>(b, 136).bytes;
    b[4096 - bytes] = std::byte{name_bytes};
  };
  constexpr BlockType kWhole = BlockType::kDirBlock, kData = BlockType::kDirData;
  expect_each_named({
      {kWhole, "", "more hashes than there is room for", [&](auto b) { tail(b).count = 504; }},
      {kWhole, "", "more stale hashes than hashes", [&](auto b) { tail(b).stale = 4; }},
      {kWhole, "", "another number of hashes", [&](auto b) { tail(b).stale = 0; }},
      {kWhole, "", "hashes out of order", [](auto b) { view<DirHashRecord>(b, 4064).hash = 99; }},
      {kData, "", "free places out of order", [&](auto b) { std::swap(room(b, 0), room(b, 1)); }},
      {kData, "", "a free place outside the block", [&](auto b) { room(b, 2) = {0, 8}; }},
      {kWhole, "", "a free place outside the block", [&](auto b) { room(b, 2) = {4064, 8}; }},
      {kData, "", "a free place outside the block", [&](auto b) { room(b, 2) = {4088, 16}; }},
      {kData, "", "a free place not aligned", [&](auto b) { room(b, 2) = {140, 8}; }},
      {kData, "", "a free place that is in use", [&](auto b) { room(b, 1).offset = 64; }},
      {kData, "", "a free place of another length", [&](auto b) { room(b, 1).bytes = 16; }},
      {kData, "", "free space of an impossible length", [&](auto b) { free_place(b, 0); }},
      {kData, "", "free space of an impossible length", [&](auto b) { free_place(b, 12); }},
      {kData, "", "free space of an impossible length", [&](auto b) { free_place(b, 4096); }},
      {kData, "", "a name beyond the end", [&](auto b) { last_name(b, 8, 1); }},
      {kData, "", "a name of an impossible length", [&](auto b) { last_name(b, 16, 5); }},
      {kData, "", "a name of no inode", [](auto b) { view<DirEntry>(b, 64).inode = 0; }},
      {kData, "", "an unknown type", [](auto b) { view<DirEntry>(b, 64).type = 8; }},
      {kData, "", "an entry with another's offset", [](auto b) { view<DirEntry>(b, 64).offset = 72; }},
      {kData, "", "another number of names", [](auto b) { view<DirBlockHeader>(b).entry_count = 3; }},
  });
}

TEST(FormatStructure, NamesEachRuleOfAttributeBlocks) {
  const auto entry = [](std::span<std::byte> b, std::size_t i) -> AttrLeafEntry& {
    return view<AttrLeafEntry>(b, sizeof(AttrLeafHeader) + i * sizeof(AttrLeafEntry));
  };
  const auto place = [](std::span<std::byte> b) -> AttrRemotePlace& {
    return view<AttrRemotePlace>(b, view<AttrLeafHeader>(b).first_used + 2U);
  };
  constexpr BlockType kLeaf = BlockType::kAttrLeaf, kValue = BlockType::kAttrValue;
  expect_each_named({
      {kLeaf, "", "no next leaf", [](auto b) { view<AttrLeafHeader>(b).next = 1ULL << 43; }},
      {kLeaf, "", "more entries than there is room for", [](auto b) { view<AttrLeafHeader>(b).count = 400; }},
      {kLeaf, "", "names where entries are", [](auto b) { view<AttrLeafHeader>(b).first_used = 70; }},
      {kLeaf, "", "names where entries are", [](auto b) { view<AttrLeafHeader>(b).first_used = 4097; }},
      {kLeaf, "", "an attribute without a name", [&](auto b) { entry(b, 0).name_bytes = 0; }},
      {kLeaf, "", "an attribute outside the block", [&](auto b) { entry(b, 0).name_at = 4089; }},
      {kLeaf, "", "an attribute outside the block", [&](auto b) { entry(b, 0).name_at = 100; }},
      {kLeaf, "", "a value outside the file system", [&](auto b) { place(b).start = UINT64_MAX; }},
      {kLeaf, "", "a value of an impossible length", [&](auto b) { place(b).value_bytes = 0; }},
      {kLeaf, "", "a value of an impossible length",
       [&](auto b) { place(b).value_bytes = kMaxAttrValueBytes + 1; }},
      {kLeaf, "", "attributes out of order", [&](auto b) { entry(b, 0).hash = 10; }},
      {kLeaf, "", "another number of bytes in use", [](auto b) { view<AttrLeafHeader>(b).used_bytes = 21; }},
      {kValue, "", "a part of an impossible length", [](auto b) { view<AttrValueHeader>(b).bytes = 0; }},
      {kValue, "", "a part of an impossible length", [](auto b) { view<AttrValueHeader>(b).bytes = 4041; }},
      {kValue, "", "a part beyond the largest value",
       [](auto b) { view<AttrValueHeader>(b).offset = 65000; }},
      {BlockType::kMock, "", "more bytes than there is room for",
       [](auto b) { view<MockBlock>(b).bytes = kMaxMockBytes + 1; }},
  });
}

// ---- where a block lies ----

TEST(FormatStructure, ABlockLiesWhereItsTypeCan) {
  const Geometry geometry = small_geometry();
  SampleBlock copy = sample(BlockType::kSuper, "copy", geometry);
  copy.address = {1005};
  view<BlockHeader>(copy.span()).block = 1005;
  restamp(copy);
  EXPECT_STREQ(verify_read(copy.type, copy.span(), context_of(copy, geometry)).what,
               "a superblock inside a group");
  SampleBlock mock = sample(BlockType::kMock, "", geometry);
  mock.address = {geometry.device_blocks};
  view<BlockHeader>(mock.span()).block = geometry.device_blocks;
  restamp(mock);
  EXPECT_STREQ(verify_read(mock.type, mock.span(), context_of(mock, geometry)).what,
               "it lies outside the device");
  SampleBlock cluster = sample(BlockType::kInodeCluster, "", geometry);
  cluster.address = {geometry.device_blocks - 1};
  EXPECT_STREQ(verify_read(cluster.type, cluster.span(), context_of(cluster, geometry)).what,
               "it lies outside the device");
}

TEST(FormatSuperblock, OfAnotherVersionIsToldFromADamagedOne) {
  const Geometry geometry = small_geometry();
  SampleBlock super = sample(BlockType::kSuper, "first", geometry);
  view<Superblock>(super.span()).version = kFormatVersion + 1;
  const auto damaged = read_superblock(super.span(), geometry.device_blocks, true);
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().code, Reason::kCorrupt) << "its CRC says that it was never written so";
  restamp(super);
  const auto newer = read_superblock(super.span(), geometry.device_blocks, true);
  ASSERT_FALSE(newer.has_value());
  EXPECT_EQ(newer.error().code, Reason::kUnsupported);
  const auto piece = read_superblock(super.span().first(100), geometry.device_blocks, true);
  ASSERT_FALSE(piece.has_value());
  EXPECT_EQ(piece.error().code, Reason::kInvalidArgument);
}

TEST(FormatGeometry, RefusesEachImpossibleNumberByItself) {
  // One group, so that nothing else depends on the number.
  const auto one_group = [](std::uint32_t blocks) {
    Geometry geometry = small_geometry();
    geometry.ag_blocks = blocks;
    geometry.device_blocks = blocks;
    geometry.ag_count = 1;
    geometry.ag_block_log = ceil_log2(blocks);
    geometry.log_start = {40};
    geometry.log_blocks = 8;
    return geometry;
  };
  EXPECT_TRUE(one_group(kMinAgBlocks).check().has_value());
  EXPECT_FALSE(one_group(kMinAgBlocks - 1).check().has_value());
  EXPECT_TRUE(one_group(kMaxAgBlocks).check().has_value());
  EXPECT_FALSE(one_group(kMaxAgBlocks + 1).check().has_value());
  Geometry shifted = one_group(kMinAgBlocks);
  ++shifted.ag_block_log;
  EXPECT_FALSE(shifted.check().has_value());

  const Geometry geometry = small_geometry();
  const auto made_with = [&](auto change) {
    SampleBlock super = sample(BlockType::kSuper, "first", geometry);
    change(view<Superblock>(super.span()));
    const auto made = Geometry::make(view<Superblock>(super.span()));
    return made ? Reason::kOk : made.error().code;
  };
  EXPECT_EQ(made_with([](Superblock&) {}), Reason::kOk);
  EXPECT_EQ(made_with([](Superblock& s) { s.version = 2; }), Reason::kUnsupported);
  EXPECT_EQ(made_with([](Superblock& s) { s.block_bytes = 8192; }), Reason::kUnsupported);
  EXPECT_EQ(made_with([](Superblock& s) { s.inode_log = 9; }), Reason::kCorrupt);
  EXPECT_EQ(made_with([](Superblock& s) { s.log_write_unit_bytes = 8192; }), Reason::kCorrupt);
}

// ---- records of the log, under a right CRC ----

TEST(FormatLogRecord, NamesEachRuleUnderARightCrc) {
  const Uuid uuid = Uuid::from_random(1, 2);
  constexpr std::uint32_t kLogSectors = 1024, kPayload = 120 * kLogSectorBytes;
  const Lsn lsn = Lsn::make(3, 64);
  struct Wrong {
    const char* what;
    std::function<void(std::span<std::byte>)> apply;
  };
  const auto header = [](std::span<std::byte> r) -> LogRecordHeader& { return view<LogRecordHeader>(r); };
  const std::vector<Wrong> all = {
      {"", [](auto) {}},
      {"the magic number is another one", [&](auto r) { header(r).magic = kLogMoreMagic; }},
      {"it belongs to another file system",
       [&](auto r) { header(r).uuid = to_disk(Uuid::from_random(3, 4)); }},
      {"an impossible length", [&](auto r) { header(r).record_sectors = header(r).record_sectors + 8; }},
      {"an impossible length", [&](auto r) { header(r).payload_bytes = 200 * kLogSectorBytes; }},
      {"it was written elsewhere", [&](auto r) { header(r).lsn = Lsn::make(3, 72).value; }},
      {"an impossible cycle", [&](auto r) { header(r).lsn = Lsn::make(0, 64).value; }},
      {"an impossible cycle", [&](auto r) { header(r).lsn = Lsn::make(Lsn::kLastCycle, 64).value; }},
      {"an impossible cycle", [&](auto r) { header(r).cycle = 2; }},
      {"the tail is ahead of the head", [&](auto r) { header(r).tail_lsn = Lsn::make(3, 72).value; }},
      {"a sector of another cycle", [](auto r) { view<Le32>(r, 50 * kLogSectorBytes) = 2; }},
      {"no further header", [](auto r) { view<LogMoreHeader>(r, kLogSectorBytes).magic = 1; }},
  };
  for (const Wrong& wrong : all) {
    std::vector<std::byte> record(std::size_t{log_record_sectors(kPayload)} * kLogSectorBytes);
    seal_log_record(record, {.uuid = uuid, .lsn = lsn, .tail_lsn = lsn, .payload_bytes = kPayload},
                    kLogSectors);
    wrong.apply(record);
    header(record).crc = crc_without(record, offsetof(LogRecordHeader, crc));
    EXPECT_STREQ(open_log_record(record, uuid, lsn.block(), kLogSectors).what, wrong.what);
  }
  std::vector<std::byte> piece(100);
  EXPECT_EQ(open_log_record(piece, uuid, 0, kLogSectors).fault, Fault::kLength);
  EXPECT_EQ(claimed_record_sectors(piece, uuid), 0U);
}

}  // namespace
}  // namespace tidewheel::disk
