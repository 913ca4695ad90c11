// mkfs as a library: geometry, content, the commit point; and dump of what it made.
#include <gtest/gtest.h>

#include <map>

#include "base/crc32c.h"
#include "base/rng.h"
#include "fs/block/faulty_device.h"
#include "fs/block/ram_device.h"
#include "fs/format/log_record.h"
#include "fs/format/log_sizes.h"
#include "fs/mkfs/mkfs.h"
#include "fs/tools/dump.h"
#include "tests/fs/format_rig.h"
#include "tests/fs/io.h"

namespace tidewheel::mkfs {
namespace {

using namespace disk;

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kTiB = 1ULL << 40;

Geometry planned(const Wishes& wishes) {
  const auto result = plan(wishes);
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    ADD_FAILURE() << "refused: " << static_cast<int>(refusal->why) << " limit " << refusal->limit;
    return {};
  }
  return std::get<Geometry>(result);
}

Refusal refused(const Wishes& wishes) {
  const auto result = plan(wishes);
  const auto* refusal = std::get_if<Refusal>(&result);
  EXPECT_NE(refusal, nullptr) << wishes.device_bytes << " " << wishes.ag_count << " " << wishes.log_bytes;
  return refusal != nullptr ? *refusal : Refusal{};
}

Options options() {
  return {.uuid = Uuid::from_random(7, 8), .created_ns = 1'000'000'000, .label = "test", .blank = true};
}

TEST(MkfsPlan, IsAGeometryOrNamesALimitThatWorks) {
  const std::uint64_t seed = 31;
  Rng rng(seed);
  int plans = 0, refusals = 0;
  for (int i = 0; i < 20'000; ++i) {
    Wishes wishes{.device_bytes = rng.next() >> (10 + rng.below(44))};
    if (rng.chance(2)) wishes.ag_count = static_cast<std::uint32_t>(rng.next() >> (33 + rng.below(31)));
    if (rng.chance(2)) wishes.log_bytes = 1 + (rng.next() >> (30 + rng.below(30)));
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(i));
    const auto result = plan(wishes);
    if (const auto* geometry = std::get_if<Geometry>(&result)) {
      ++plans;
      ASSERT_TRUE(geometry->check().has_value());
      ASSERT_LE(geometry->device_blocks * kFsBlockBytes, wishes.device_bytes);
      ASSERT_LT(wishes.device_bytes - geometry->device_blocks * kFsBlockBytes,
                (kMinLastAgBlocks + 1) * kFsBlockBytes)
          << "little is left over";
      ASSERT_GE(geometry->log_blocks, min_log_blocks(geometry->ag_blocks, geometry->device_blocks));
      continue;
    }
    ++refusals;
    const Refusal refusal = std::get<Refusal>(result);
    switch (refusal.why) {
      case Refusal::Why::kDeviceTooSmall:
      case Refusal::Why::kDeviceTooLarge: wishes.device_bytes = refusal.limit; break;
      case Refusal::Why::kTooManyGroups:
      case Refusal::Why::kTooFewGroups: wishes.ag_count = static_cast<std::uint32_t>(refusal.limit); break;
      case Refusal::Why::kLogTooSmall:
      case Refusal::Why::kLogTooLarge: wishes.log_bytes = refusal.limit; break;
    }
    const auto again = plan(wishes);
    if (const auto* next = std::get_if<Refusal>(&again)) {
      ASSERT_NE(next->why, refusal.why) << refusal.limit;
    }
  }
  EXPECT_GT(plans, 1'000);
  EXPECT_GT(refusals, 1'000);
}

TEST(MkfsPlan, HasAMinimumThatIsNamed) {
  const std::uint64_t least = least_device_bytes();
  EXPECT_LE(least, 6 * kMiB);
  EXPECT_GT(planned({.device_bytes = least}).log_blocks, 0U);
  const Refusal refusal = refused({.device_bytes = least - 1});
  EXPECT_EQ(refusal.why, Refusal::Why::kDeviceTooSmall);
  EXPECT_EQ(refusal.limit, least);
  EXPECT_EQ(refused({.device_bytes = 0}).limit, least);
}

TEST(MkfsPlan, TakesEverySizeFromTheLeastOn) {
  for (std::uint64_t size = least_device_bytes(); size < 100 * kMiB; size += kFsBlockBytes) {
    const auto result = plan({.device_bytes = size});
    ASSERT_TRUE(std::holds_alternative<Geometry>(result)) << size;
  }
}

TEST(MkfsPlan, ChoosesGroupsAndLog) {
  EXPECT_EQ(planned({.device_bytes = 32 * kMiB}).ag_count, 1U);
  EXPECT_EQ(planned({.device_bytes = 64 * kMiB}).ag_count, 4U);
  const Geometry large = planned({.device_bytes = 64ULL << 30});
  EXPECT_EQ(large.ag_count, 4U);
  EXPECT_EQ(large.log_bytes(), 512 * kMiB);
  EXPECT_EQ(large.ag_of(large.log_start).value, 1U) << "in the middle";
  const Geometry huge = planned({.device_bytes = 100 * kTiB});
  EXPECT_EQ(huge.ag_count, 101U) << "a group is 1 TiB less one chunk of inodes at most";
  EXPECT_EQ(huge.device_blocks, 100 * kTiB / kFsBlockBytes);
  EXPECT_EQ(planned({.device_bytes = 15 * kTiB}).ag_count, 16U);
}

TEST(MkfsPlan, RefusesALogThatCannotWorkOrHasNoRoom) {
  const std::uint64_t size = 1ULL << 30;
  const Geometry geometry = planned({.device_bytes = size});
  const Refusal small = refused({.device_bytes = size, .log_bytes = 4096});
  EXPECT_EQ(small.why, Refusal::Why::kLogTooSmall);
  EXPECT_EQ(small.limit,
            std::uint64_t{min_log_blocks(geometry.ag_blocks, geometry.device_blocks)} * kFsBlockBytes);
  EXPECT_EQ(refused({.device_bytes = size, .log_bytes = size}).why, Refusal::Why::kLogTooLarge);
  EXPECT_EQ(refused({.device_bytes = 100 * kTiB, .ag_count = 10}).why, Refusal::Why::kTooFewGroups);
  EXPECT_EQ(refused({.device_bytes = size, .ag_count = 100'000}).why, Refusal::Why::kTooManyGroups);
}

// Reads all that mkfs should have written, and sees that every block has one owner.
void check_image(BlockDevice& device, const Geometry& geometry) {
  AlignedBytes memory(kInodeClusterBlocks * kFsBlockBytes);
  const auto read = [&](BlockType type, DeviceAddress address) -> std::span<const std::byte> {
    const auto bytes =
        memory.span().first((type == BlockType::kInodeCluster ? kInodeClusterBlocks : 1) * kFsBlockBytes);
    EXPECT_TRUE(device.read(address.bytes(), bytes).has_value());
    const Verdict verdict =
        verify_read(type, bytes, {.geometry = &geometry, .address = address, .newest = kNoLsn});
    EXPECT_TRUE(verdict.good()) << name_of(type) << " at " << address.value << ": " << verdict.what;
    return bytes;
  };
  std::vector<int> owners(geometry.device_blocks, 0);
  const auto own = [&](DeviceAddress start, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) ++owners.at(start.value + i);
  };
  own(geometry.log_address(), geometry.log_blocks);
  own(geometry.cluster_of(geometry.root_inode), kInodeChunkBlocks);
  std::uint64_t free_blocks = 0, inodes = 0, free_inodes = 0;
  for (std::uint32_t n = 0; n < geometry.ag_count; ++n) {
    const AgNumber ag{n};
    const auto at = [&](std::uint32_t block) { return geometry.address_of(ag, {block}); };
    own(at(0), kAgHeaderBlocks);
    (void)read(BlockType::kSuper, at(kSuperBlock));
    const AgFree ag_free = view<AgFree>(read(BlockType::kAgFree, at(kAgFreeBlock)));
    const AgInode ag_inode = view<AgInode>(read(BlockType::kAgInode, at(kAgInodeBlock)));
    const AgFreeList list = view<AgFreeList>(read(BlockType::kAgFreeList, at(kAgFreeListBlock)));
    for (std::uint32_t i = 0; i < ag_free.free_list_count; ++i) own(at(list.blocks[i]), 1);
    std::map<std::uint32_t, std::uint32_t> by_block, by_size;
    std::uint32_t free = 0, longest = 0;
    for (const BlockType type : {BlockType::kFreeByBlock, BlockType::kFreeBySize}) {
      const auto block =
          read(type, at(type == BlockType::kFreeByBlock ? ag_free.by_block_root : ag_free.by_size_root));
      for (std::uint32_t i = 0; i < view<BtreeHeader>(block).count; ++i) {
        const auto& record = view<FreeRecord>(block, kFreeByBlockShape.record_at(i));
        (type == BlockType::kFreeByBlock ? by_block : by_size)[record.start] = record.count;
        if (type != BlockType::kFreeByBlock) continue;
        own(at(record.start), record.count);
        free += record.count;
        longest = std::max(longest, record.count.get());
      }
    }
    EXPECT_EQ(by_block, by_size);
    EXPECT_EQ(ag_free.free_blocks, free);
    EXPECT_EQ(ag_free.longest_free, longest);
    free_blocks += free + ag_free.free_list_count;
    std::uint32_t ag_inodes = 0, ag_free_inodes = 0;
    for (const BlockType type : {BlockType::kInodeTree, BlockType::kFreeInode}) {
      const auto block =
          read(type, at(type == BlockType::kInodeTree ? ag_inode.tree_root : ag_inode.free_root));
      for (std::uint32_t i = 0; i < view<BtreeHeader>(block).count; ++i) {
        if (type != BlockType::kInodeTree) continue;
        ag_inodes += kInodesPerChunk;
        ag_free_inodes += view<InodeChunkRecord>(block, kInodeTreeShape.record_at(i)).free_count;
      }
    }
    EXPECT_EQ(ag_inode.inode_count, ag_inodes);
    EXPECT_EQ(ag_inode.free_inode_count, ag_free_inodes);
    inodes += ag_inodes;
    free_inodes += ag_free_inodes;
  }
  const Superblock super = view<Superblock>(read(BlockType::kSuper, {0}));
  EXPECT_EQ(super.free_block_count, free_blocks);
  EXPECT_EQ(super.inode_count, inodes);
  EXPECT_EQ(super.free_inode_count, free_inodes);
  for (std::uint64_t block = 0; block < geometry.device_blocks; ++block) {
    ASSERT_EQ(owners[block], 1) << "block " << block << " has as many owners";
  }
  const DeviceAddress chunk = geometry.cluster_of(geometry.root_inode);
  (void)read(BlockType::kInodeCluster, {chunk.value + kInodeClusterBlocks});
  const auto root = read(BlockType::kInodeCluster, chunk);
  EXPECT_EQ(view<DiskInode>(root).core.body.mode, kModeDirectory | 0755);
  EXPECT_EQ(view<DiskInode>(root).core.body.link_count, 2U);
}

TEST(MkfsImage, HasOneOwnerForEveryBlock) {
  for (const std::uint64_t size : {least_device_bytes(), 7 * kMiB + 4096, 64 * kMiB, 200 * kMiB - 12288}) {
    for (const std::uint32_t groups : {0U, 1U, 2U}) {
      if (groups == 2 && size < 20 * kMiB) continue;
      SCOPED_TRACE(std::to_string(size) + " bytes, " + std::to_string(groups) + " groups");
      auto device = RamDevice::make(size).value();
      const Geometry geometry = planned({.device_bytes = size, .ag_count = groups});
      ASSERT_TRUE(make(*device, geometry, options()).has_value());
      AlignedBytes block(kFsBlockBytes);
      ASSERT_TRUE(device->read(0, block.span()).has_value());
      const auto read = read_superblock(block.span(), size / kFsBlockBytes, true);
      ASSERT_TRUE(read.has_value());
      check_image(*device, *read);
    }
  }
}

TEST(MkfsImage, HasALogThatWasLeftCleanly) {
  auto device = RamDevice::make(8 * kMiB).value();
  const Geometry geometry = planned({.device_bytes = 8 * kMiB});
  ASSERT_TRUE(make(*device, geometry, options()).has_value());
  AlignedBytes record(kLogWriteUnitBytes);
  ASSERT_TRUE(device->read(geometry.log_address().bytes(), record.span()).has_value());
  ASSERT_TRUE(open_log_record(record.span(), options().uuid, 0, geometry.log_sectors()).good());
  EXPECT_EQ(view<LogOp>(payload_of(record.span())).flags, kOpUnmount);
}

// The image of the smallest file system: the format, as far as mkfs lays it out.
TEST(MkfsImage, IsByteForByteWhatItAlwaysWas) {
  const std::uint64_t size = 8 * kMiB;
  auto device = RamDevice::make(size).value();
  ASSERT_TRUE(make(*device, planned({.device_bytes = size}), options()).has_value());
  AlignedBytes all(size);
  ASSERT_TRUE(device->read(0, all.span()).has_value());
  const std::uint32_t crc = crc32c(0, all.data(), all.size());
  EXPECT_EQ(crc, 0x17309053U) << std::hex << crc;
}

TEST(MkfsImage, ClearsAnOldLogAndOldSuperblock) {
  const std::uint64_t size = 8 * kMiB;
  auto device = RamDevice::make(size).value();
  AlignedBytes junk(size);
  Rng rng(3);
  junk.fill(rng);
  ASSERT_TRUE(device->write(0, junk.span()).has_value());
  Options wishes = options();
  wishes.blank = false;
  const Geometry geometry = planned({.device_bytes = size});
  ASSERT_TRUE(make(*device, geometry, wishes).has_value());
  AlignedBytes log(geometry.log_bytes());
  ASSERT_TRUE(device->read(geometry.log_address().bytes(), log.span()).has_value());
  EXPECT_TRUE(all_zero(log.span().subspan(kLogWriteUnitBytes)));
  Geometry with_uuid = geometry;
  with_uuid.uuid = wishes.uuid;
  check_image(*device, with_uuid);
}

TEST(MkfsImage, WritesNoMoreThanTheGroupsWithoutPreallocation) {
  auto device = RamDevice::make(1ULL << 30).value();
  const Geometry geometry = planned({.device_bytes = 1ULL << 30});
  ASSERT_TRUE(make(*device, geometry, options()).has_value());
  EXPECT_LE(device->stats().write_bytes, 4U * 32768 + 16384 + 4096 + 4096);
  Options preallocated = options();
  preallocated.preallocate_log = true;
  const std::uint64_t before = device->stats().write_bytes_log;
  ASSERT_TRUE(make(*device, geometry, preallocated).has_value());
  EXPECT_GE(device->stats().write_bytes_log - before, geometry.log_bytes());
}

// Power fails at each write in turn: nothing from there on reaches the device. What is found then is the old
// file system untouched, no file system, or the new one complete.
TEST(MkfsCrash, LeavesNoFileSystemUnlessItIsComplete) {
  const std::uint64_t size = 8 * kMiB;
  const Geometry geometry = planned({.device_bytes = size});
  Options fresh = options(), old = options();
  old.uuid = Uuid::from_random(1, 1);
  fresh.blank = false;
  int without = 0, old_ones = 0, complete = 0;
  for (std::uint64_t cut = 0; cut < 40; ++cut) {
    FaultyDevice device(RamDevice::make(size).value());
    ASSERT_TRUE(make(device, geometry, old).has_value());
    device.add({.op = IoOp::kWrite, .first = cut, .count = FaultRule::kForEver});
    const Result<void> made = make(device, geometry, fresh);
    device.clear_rules();
    AlignedBytes block(kFsBlockBytes);
    ASSERT_TRUE(device.read(0, block.span()).has_value());
    const auto found = read_superblock(block.span(), size / kFsBlockBytes, true);
    if (!found) {
      EXPECT_EQ(found.error().code, Reason::kNotEmpty);
      EXPECT_FALSE(made.has_value());
      ++without;
      continue;
    }
    if (found->uuid == old.uuid) {
      EXPECT_EQ(cut, 0U) << "the old superblock goes first of all";
      ++old_ones;
      continue;
    }
    EXPECT_TRUE(made.has_value());
    check_image(device, *found);
    ++complete;
  }
  EXPECT_EQ(old_ones, 1);
  EXPECT_GE(without, 4);
  EXPECT_GT(complete, 0);
}

// Flushes are where order is: with a volatile cache the superblock may be kept and all else lost, unless
// everything was flushed before it was written.
TEST(MkfsCrash, FlushesBeforeAndAfterTheSuperblock) {
  class OrderDevice final : public BlockDevice {
   public:
    explicit OrderDevice(std::unique_ptr<BlockDevice> beneath) : beneath_(std::move(beneath)) {}
    std::string_view name() const override { return "order"; }
    std::uint64_t size_bytes() const override { return beneath_->size_bytes(); }
    std::uint32_t block_bytes() const override { return beneath_->block_bytes(); }
    std::uint32_t memory_alignment() const override { return beneath_->memory_alignment(); }
    DeviceStats stats() const override { return beneath_->stats(); }
    void submit(IoRequest& request) override {
      if (request.op == IoOp::kFlush) order += 'F';
      if (request.op == IoOp::kWrite) order += request.offset_bytes == 0 ? 'S' : 'w';
      beneath_->submit(request);
    }
    std::string order;

   private:
    std::unique_ptr<BlockDevice> beneath_;
  };
  OrderDevice device(RamDevice::make(8 * kMiB).value());
  Options fresh = options();
  fresh.blank = false;
  ASSERT_TRUE(make(device, planned({.device_bytes = 8 * kMiB}), fresh).has_value());
  const std::string& order = device.order;
  EXPECT_EQ(order.substr(0, 2), "SF") << "the old superblock is wiped first: " << order;
  ASSERT_GE(order.size(), 6U);
  EXPECT_EQ(order.substr(order.size() - 3), "FSF") << order;
  EXPECT_EQ(std::count(order.begin(), order.end(), 'S'), 2) << order;
}

TEST(MkfsImage, RefusesWhatNoFileSystemCanBe) {
  const Geometry geometry = planned({.device_bytes = 8 * kMiB});
  const auto code = [&](std::uint64_t device_bytes, const Options& its_options) {
    const auto device = RamDevice::make(device_bytes).value();
    const Result<void> made = make(*device, geometry, its_options);
    EXPECT_TRUE(made.has_value() || !device->holds_data().value()) << "nothing is written";
    return made ? Reason::kOk : made.error().code;
  };
  Options no_uuid = options(), long_label = options(), longest = options();
  no_uuid.uuid = {};
  long_label.label = std::string(kLabelBytes, 'l');
  longest.label = std::string(kLabelBytes - 1, 'l');
  EXPECT_EQ(code(8 * kMiB, no_uuid), Reason::kInvalidArgument);
  EXPECT_EQ(code(8 * kMiB, long_label), Reason::kInvalidArgument);
  EXPECT_EQ(code(8 * kMiB, longest), Reason::kOk);
  EXPECT_EQ(code(8 * kMiB - kFsBlockBytes, options()), Reason::kOutOfRange);
}

// With free space on both sides of the log, the longer run first by block, and last by size.
TEST(MkfsImage, SortsFreeSpaceBySizeWhereverTheLogLies) {
  const auto device = RamDevice::make(64 * kMiB).value();
  Geometry geometry = planned({.device_bytes = 64 * kMiB, .ag_count = 1});
  geometry.log_start = {geometry.ag_blocks - geometry.log_blocks - 100};
  ASSERT_TRUE(make(*device, geometry, options()).has_value());
  geometry.uuid = options().uuid;
  AlignedBytes block(kFsBlockBytes);
  for (const auto& [at, type] : {std::pair{4U, BlockType::kFreeByBlock}, {5U, BlockType::kFreeBySize}}) {
    ASSERT_TRUE(device->read(at * std::uint64_t{kFsBlockBytes}, block.span()).has_value());
    const VerifyContext context{.geometry = &geometry, .address = {at}, .newest = kNewestLsn};
    EXPECT_STREQ(verify_read(type, block.span(), context).what, "");
    EXPECT_EQ(view<BtreeHeader>(std::span<const std::byte>(block.span())).count, 2U);
  }
}

TEST(MkfsImage, ReportsTheDevicesError) {
  FaultyDevice device(RamDevice::make(8 * kMiB).value());
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kNoSpace, .first = 2});
  const Result<void> made = make(device, planned({.device_bytes = 8 * kMiB}), options());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Reason::kNoSpace);
}

// ---- dump ----

class DumpTest : public testing::Test {
 protected:
  DumpTest() : device_(RamDevice::make(64 * kMiB).value()), geometry_(planned({.device_bytes = 64 * kMiB})) {
    EXPECT_TRUE(make(*device_, geometry_, options()).has_value());
  }
  void flip(std::uint64_t byte) {
    AlignedBytes block(kFsBlockBytes);
    const std::uint64_t start = byte / kFsBlockBytes * kFsBlockBytes;
    ASSERT_TRUE(device_->read(start, block.span()).has_value());
    block.data()[byte - start] ^= std::byte{8};
    ASSERT_TRUE(device_->write(start, block.span()).has_value());
  }
  static void expect_has(const tools::Dump& dump, const std::string& text) {
    EXPECT_NE(dump.text.find(text), std::string::npos) << text << " is not in:\n" << dump.text;
  }
  std::unique_ptr<RamDevice> device_;
  Geometry geometry_;
};

TEST_F(DumpTest, PrintsAllThatMkfsMade) {
  const tools::Dump super = tools::dump_super(*device_);
  EXPECT_EQ(super.error, "");
  EXPECT_EQ(super.damaged, 0U) << super.text;
  expect_has(super, "copies: 3 of 3 good");
  expect_has(super, "label                        \"test\"");
  expect_has(super, "created                      1970-01-01T00:00:01.000000000Z");
  for (std::uint64_t ag = 0; ag < 4; ++ag) {
    const tools::Dump group = tools::dump_group(*device_, ag);
    EXPECT_EQ(group.error, "");
    EXPECT_EQ(group.damaged, 0U) << group.text;
  }
  expect_has(tools::dump_group(*device_, 0), "chunk at 128: 63 free, mask 0xfffffffffffffffe");
  const tools::Dump root = tools::dump_inode(*device_, geometry_.root_inode.value);
  EXPECT_EQ(root.damaged, 0U) << root.text;
  expect_has(root, "mode                         040755 (directory)");
  expect_has(tools::dump_dir(*device_, geometry_.root_inode.value), "parent                       128");
  const tools::Dump log = tools::dump_log(*device_);
  EXPECT_EQ(log.damaged, 0U) << log.text;
  expect_has(log, "record at sector 0: lsn 1:0, tail 1:0, 8 sectors, 1 operations");
  expect_has(log, "unmount next checkpoint 1");
}

TEST_F(DumpTest, SaysWhereTheCrcFails) {
  flip(3000);
  const tools::Dump super = tools::dump_super(*device_);
  EXPECT_EQ(super.damaged, 2U) << "once as a block, once as what the rest is read by";
  expect_has(super, "DAMAGED: CRC");
  flip(3000);
  flip(geometry_.address_of({2}, {kAgFreeBlock}).bytes() + 4000);
  EXPECT_EQ(tools::dump_group(*device_, 1).damaged, 0U);
  expect_has(tools::dump_group(*device_, 2), "DAMAGED: CRC");
  flip(geometry_.address_of({3}, {0}).bytes() + 5);
  expect_has(tools::dump_super(*device_), "copy in group 3");
  const InodeNumber inode{geometry_.root_inode.value + 40};
  flip(geometry_.cluster_of(inode).bytes() + geometry_.cluster_offset_of(inode) + 200);
  EXPECT_EQ(tools::dump_inode(*device_, inode.value - 1).damaged, 0U);
  expect_has(tools::dump_inode(*device_, inode.value), "DAMAGED: CRC");
  flip(geometry_.log_address().bytes() + 600);
  expect_has(tools::dump_log(*device_), "DAMAGED: CRC");
}

TEST_F(DumpTest, SaysWhatIsNotThere) {
  expect_has(tools::Dump{.text = tools::dump_group(*device_, 4).error}, "there are groups 0 to 3");
  expect_has(tools::Dump{.text = tools::dump_inode(*device_, UINT64_MAX).error}, "no such number");
  expect_has(tools::Dump{.text = tools::dump_inode(*device_, 100'000).error}, "no inode lies there");
  expect_has(tools::Dump{.text = tools::dump_dir(*device_, geometry_.root_inode.value + 1).error},
             "no directory");
  auto blank = RamDevice::make(kMiB).value();
  EXPECT_EQ(tools::dump_super(*blank).error, "it is no tidefs");
  EXPECT_EQ(tools::dump_log(*blank).error, "it is no tidefs");
}

TEST_F(DumpTest, SurvivesAnyDamage) {
  Rng rng(12);
  const std::uint64_t metadata[] = {0,     4096,  8192,  12288,
                                    16384, 24576, 32768, geometry_.log_address().bytes()};
  for (int round = 0; round < 60; ++round) {
    for (const std::uint64_t start : metadata) {
      for (int i = 0; i < 3; ++i) flip(start + (start == 0 ? 48 : 0) + rng.below(400));
    }
    (void)tools::dump_super(*device_);
    (void)tools::dump_group(*device_, 0);
    (void)tools::dump_inode(*device_, 128);
    (void)tools::dump_dir(*device_, 128);
    if (round % 20 == 0) (void)tools::dump_log(*device_);
  }
}

}  // namespace
}  // namespace tidewheel::mkfs
