// Numbers and sizes of the format: conversions, packing, and what follows for the log.
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/rng.h"
#include "fs/format/geometry.h"
#include "fs/format/log_format.h"
#include "fs/format/log_sizes.h"
#include "tests/fs/format_rig.h"

namespace tidewheel::disk {
namespace {

TEST(FormatLittleEndian, LiesLowByteFirst) {
  const Le32 value = 0x11223344U;
  std::uint8_t bytes[4];
  std::memcpy(bytes, &value, 4);
  EXPECT_EQ(bytes[0], 0x44);
  EXPECT_EQ(bytes[3], 0x11);
  EXPECT_EQ(value.get(), 0x11223344U);
  EXPECT_EQ(std::memcmp(&kAgFreeMagic, "TdGF", 4), 0) << "on a little-endian machine";
}

TEST(FormatLsn, IsOrderedByCycleThenSector) {
  EXPECT_LT(Lsn::make(1, 900), Lsn::make(2, 0));
  EXPECT_LT(Lsn::make(2, 0), Lsn::make(2, 8));
  EXPECT_EQ(log_distance_bytes(Lsn::make(1, 90), Lsn::make(2, 10), 100), 20U * 512);
  EXPECT_EQ(log_distance_bytes(Lsn::make(7, 8), Lsn::make(7, 8), 100), 0U);
}

TEST(FormatUuid, IsVersionFourWhateverTheBits) {
  EXPECT_EQ(Uuid::from_random(0, 0).text(), "00000000-0000-4000-8000-000000000000");
  EXPECT_EQ(Uuid::from_random(UINT64_MAX, UINT64_MAX).text(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

TEST(FormatGeometry, ConvertsEachKindOfNumberToAndFro) {
  const Geometry geometry = small_geometry();
  Rng rng(7);
  for (int i = 0; i < 10'000; ++i) {
    const DeviceAddress address{rng.below(geometry.device_blocks)};
    const FsBlock block = geometry.fs_block(address);
    ASSERT_TRUE(geometry.contains(block));
    ASSERT_EQ(geometry.address_of(block), address);
    ASSERT_EQ(geometry.fs_block(geometry.ag_of(block), geometry.ag_block_of(block)), block);
    const std::uint32_t slot = static_cast<std::uint32_t>(rng.below(kInodesPerBlock));
    const std::uint32_t ag_inode = geometry.ag_block_of(block).value << kInodesPerBlockLog | slot;
    const InodeNumber inode = geometry.inode_number(geometry.ag_of(block), ag_inode);
    ASSERT_EQ(geometry.ag_of(inode), geometry.ag_of(block));
    ASSERT_EQ(geometry.ag_block_of(inode), geometry.ag_block_of(block));
    ASSERT_EQ(geometry.ag_inode_of(inode), ag_inode);
    ASSERT_EQ(geometry.cluster_of(inode).bytes() + geometry.cluster_offset_of(inode),
              address.bytes() + slot * kInodeBytes);
  }
}

TEST(FormatGeometry, KnowsItsEnds) {
  const Geometry geometry = small_geometry();  // 3 groups of 1000, the last of 500
  EXPECT_EQ(geometry.ag_length({0}), 1000U);
  EXPECT_EQ(geometry.ag_length({2}), 500U);
  EXPECT_FALSE(geometry.contains(geometry.fs_block({0}, {1000}))) << "a number that is left out";
  EXPECT_FALSE(geometry.contains(geometry.fs_block({2}, {500})));
  EXPECT_FALSE(geometry.contains(geometry.fs_block({3}, {0})));
  EXPECT_FALSE(geometry.contains(kNullFsBlock));
  EXPECT_TRUE(geometry.contains(geometry.fs_block({1}, {990}), 10));
  EXPECT_FALSE(geometry.contains(geometry.fs_block({1}, {990}), 11)) << "a run across groups";
  EXPECT_FALSE(geometry.contains(geometry.fs_block({1}, {990}), UINT64_MAX));
  EXPECT_FALSE(geometry.contains(InodeNumber{UINT64_MAX}));
  EXPECT_FALSE(geometry.contains(InodeNumber{0}));
}

TEST(FormatGeometry, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    Geometry geometry = small_geometry();
    change(geometry);
    return !geometry.check().has_value();
  };
  EXPECT_TRUE(small_geometry().check().has_value());
  EXPECT_TRUE(refused([](Geometry& g) { g.ag_count = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.ag_count = 4; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.ag_blocks = kMinAgBlocks - 1; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.ag_blocks = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.ag_block_log = 9; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.ag_block_log = 200; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.device_blocks = 2000 + kMinLastAgBlocks - 1; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.device_blocks = 3001; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.device_blocks = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.log_blocks = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.log_blocks = 1000; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.log_start = {5}; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.root_inode = {0}; }));
}

TEST(FormatExtent, IsPackedWithoutLoss) {
  Rng rng(11);
  for (int i = 0; i < 10'000; ++i) {
    const FileExtent extent{.file_block = rng.below(kMaxFileBlock + 1),
                            .start = {rng.below(kMaxFsBlock + 1)},
                            .count = static_cast<std::uint32_t>(1 + rng.below(kMaxExtentBlocks)),
                            .unwritten = rng.chance(2)};
    ASSERT_EQ(from_disk(to_disk(extent)), extent);
  }
}

TEST(FormatLogHeader, HasWordsForEverySector) {
  for (std::uint32_t sectors = 8; sectors <= kMaxLogBufferBytes / kLogSectorBytes; sectors += 8) {
    const std::uint32_t headers = log_header_sectors(sectors);
    EXPECT_GE(kWordsInHeader + (headers - 1) * kWordsInMore, sectors - headers);
    EXPECT_TRUE(headers == 1 || kWordsInHeader + (headers - 2) * kWordsInMore < sectors - headers + 1)
        << "one header fewer would do for " << sectors;
  }
}

TEST(FormatLogSizes, HoldTheLargestTransactionBesideACheckpoint) {
  for (const std::uint32_t ag_blocks : {kMinAgBlocks, 1024U, 65536U, kMaxAgBlocks}) {
    for (const std::uint64_t groups : {1ULL, 4ULL, 101ULL}) {
      const std::uint64_t device = groups * ag_blocks;
      const std::uint64_t log = std::uint64_t{min_log_blocks(ag_blocks, device)} * kFsBlockBytes;
      const TransactionSizes sizes = transaction_sizes(ag_blocks, device);
      EXPECT_GE(log / 2, hard_checkpoint_bytes(log) + std::uint64_t{sizes.largest} * kMostLogCount)
          << ag_blocks << " x " << groups;
      EXPECT_LE(log, 16ULL << 20) << "no small log would be allowed";
      EXPECT_GT(sizes.largest, sizes.unlink);
    }
  }
  EXPECT_EQ(soft_checkpoint_bytes(1ULL << 30), 32ULL << 20);
  EXPECT_EQ(soft_checkpoint_bytes(8ULL << 20), 1ULL << 20);
}

TEST(FormatLogSizes, CountAWholeDirtyBufferAsTheWorst) {
  // Against every pattern of dirty chunks of one block, as runs.
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto dirty = static_cast<std::uint32_t>(rng.next() | (rng.chance(3) ? rng.next() : 0));
    std::uint32_t bytes = 12 + 24 + 4;
    for (std::uint32_t chunk = 0; chunk < 32; ++chunk) {
      if ((dirty >> chunk & 1) == 0) continue;
      bytes += 128;
      if (chunk == 0 || (dirty >> (chunk - 1) & 1) == 0) bytes += 12;
    }
    ASSERT_LE(bytes, log_bytes_of_buffer(1));
  }
}

TEST(FormatTreeLevels, AreTheWorstForTheNumberOfRecords) {
  EXPECT_EQ(max_levels(kFreeByBlockShape, 1), 1U);
  EXPECT_EQ(max_levels(kFreeByBlockShape, 251), 1U);
  EXPECT_EQ(max_levels(kFreeByBlockShape, 252), 2U);
  EXPECT_EQ(max_levels(kFreeByBlockShape, 251 * 167 + 1), 3U);
  EXPECT_LT(tree_levels(kMaxAgBlocks, 100ULL << 28).extent, kMaxBtreeLevels);
  EXPECT_LT(tree_levels(kMaxAgBlocks, 100ULL << 28).directory, kMaxBtreeLevels);
}

TEST(FormatChecksum, IsCrc32cWithItsFieldAsZeros) {
  std::byte bytes[16];
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<std::byte>(i);
  const std::uint32_t crc = crc_without(bytes, 4);
  std::memset(bytes + 4, 0xEE, 4);
  EXPECT_EQ(crc_without(bytes, 4), crc);
  std::memset(bytes + 4, 0, 4);
  EXPECT_EQ(crc32c(0, bytes, sizeof bytes), crc);
}

}  // namespace
}  // namespace tidewheel::disk
