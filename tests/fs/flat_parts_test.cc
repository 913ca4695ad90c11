// The parts of the flat store by themselves: allocator, extents of a file, header.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"
#include "base/thread.h"
#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"
#include "fs/flat/block_allocator.h"
#include "fs/flat/file_extents.h"
#include "fs/flat/flat_header.h"
#include "tests/fs/io.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kSeed = 77;

TEST(BlockAllocator, GivesEachBlockOnce) {
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  // Not a whole number of groups, and an odd beginning.
  BlockAllocator allocator(1, 1 + 5 * BlockAllocator::kGroupBlocks + 100);
  std::vector<bool> taken(allocator.total_blocks() + 1, false);
  std::vector<std::vector<BlockExtent>> held;
  std::uint64_t in_use = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t free = allocator.total_blocks() - in_use;
    if (rng.below(2) == 0 && free != 0) {
      std::vector<BlockExtent> out;
      const std::uint64_t n = 1 + rng.below(std::min<std::uint64_t>(free, rng.chance(20) ? 5'000 : 40));
      allocator.allocate(n, out);
      std::uint64_t got = 0;
      for (const BlockExtent& extent : out) {
        for (std::uint64_t b = extent.block; b < extent.block + extent.blocks; ++b) {
          ASSERT_GE(b, 1U);
          ASSERT_LE(b, allocator.total_blocks());
          ASSERT_FALSE(taken[b]) << b;
          taken[b] = true;
        }
        got += extent.blocks;
      }
      ASSERT_EQ(got, n);
      in_use += n;
      held.push_back(out);
    } else if (!held.empty()) {
      const std::size_t i = rng.below(held.size());
      for (const BlockExtent& extent : held[i]) {
        for (std::uint64_t b = extent.block; b < extent.block + extent.blocks; ++b) taken[b] = false;
        in_use -= extent.blocks;
      }
      allocator.free(held[i].data(), held[i].size());
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    }
    ASSERT_EQ(allocator.free_blocks(), allocator.total_blocks() - in_use);
    if (round % 500 == 0) allocator.check_invariants();
  }
}

TEST(BlockAllocator, FillsTheDeviceToTheLastBlock) {
  BlockAllocator allocator(1, 10'000);
  std::vector<BlockExtent> out;
  allocator.allocate(9'999, out);
  EXPECT_EQ(out, (std::vector<BlockExtent>{{1, 9'999}}));
  EXPECT_EQ(allocator.free_blocks(), 0U);
  // Every second block free: pieces of one, all of them found.
  for (std::uint64_t b = 1; b < 10'000; b += 2) {
    const BlockExtent one{b, 1};
    allocator.free(&one, 1);
  }
  out.clear();
  allocator.allocate(5'000, out);
  EXPECT_EQ(out.size(), 5'000U);
  EXPECT_EQ(allocator.free_blocks(), 0U);
  allocator.check_invariants();
}

TEST(BlockAllocator, GivesABatchOneRun) {
  BlockAllocator allocator(1, 1'000'000);
  std::vector<BlockExtent> out;
  std::uint64_t extents = 0;
  for (int i = 0; i < 200; ++i) {
    out.clear();
    allocator.allocate(1'000, out);
    extents += out.size();
  }
  // Groups follow each other, so a run goes on across their edge.
  EXPECT_EQ(extents, 200U);
}

TEST(BlockAllocator, AnExtentTakenOutOfTheRunInHandIsNotGivenOut) {
  BlockAllocator allocator(1, 10'000);
  std::vector<BlockExtent> out;
  allocator.allocate(10, out);
  ASSERT_TRUE(allocator.take({500, 100}));
  EXPECT_FALSE(allocator.take({599, 1}));
  allocator.allocate(9'999 - 110, out);
  for (const BlockExtent& extent : out) {
    EXPECT_TRUE(extent.block + extent.blocks <= 500 || extent.block >= 600) << extent.block;
  }
  EXPECT_EQ(allocator.free_blocks(), 0U);
  allocator.check_invariants();
}

// As after a mount: what lies free between the files is used from front to back, in long runs.
TEST(BlockAllocator, GoesFromFrontToBackAlsoAfterExtentsWereTaken) {
  constexpr std::uint64_t kGroup = BlockAllocator::kGroupBlocks;
  BlockAllocator allocator(0, 100 * kGroup);
  for (const std::uint64_t group : {40, 7, 60}) ASSERT_TRUE(allocator.take({group * kGroup, kGroup}));
  std::vector<BlockExtent> out;
  allocator.allocate(90 * kGroup, out);
  EXPECT_EQ(out, (std::vector<BlockExtent>{{0, 7 * kGroup},
                                           {8 * kGroup, 32 * kGroup},
                                           {41 * kGroup, 19 * kGroup},
                                           {61 * kGroup, 32 * kGroup}}));
}

TEST(BlockAllocator, GoesFromFrontToBackInWhateverOrderGroupsWereFreed) {
  constexpr std::uint64_t kGroup = BlockAllocator::kGroupBlocks;
  BlockAllocator allocator(0, 20 * kGroup);
  std::vector<BlockExtent> out;
  allocator.allocate(20 * kGroup, out);
  for (const std::uint64_t group : {5, 3, 9, 4, 7}) {
    const BlockExtent whole{group * kGroup, kGroup};
    allocator.free(&whole, 1);
  }
  out.clear();
  allocator.allocate(5 * kGroup, out);
  EXPECT_EQ(out, (std::vector<BlockExtent>{
                     {3 * kGroup, 3 * kGroup}, {7 * kGroup, kGroup}, {9 * kGroup, kGroup}}));
}

TEST(BlockAllocator, LeavesWhatACallerHasAlreadyAsItIs) {
  BlockAllocator allocator(0, 10'000);
  std::vector<BlockExtent> out;
  allocator.allocate(10, out);
  allocator.allocate(10, out);
  EXPECT_EQ(out, (std::vector<BlockExtent>{{0, 10}, {10, 10}})) << "what follows is an allocation of its own";
}

TEST(BlockAllocator, UsesFreedGroupsBeforeFreshOnes) {
  BlockAllocator allocator(0, 1'000'000);
  std::vector<BlockExtent> first, again;
  allocator.allocate(4 * BlockAllocator::kGroupBlocks, first);
  allocator.free(first.data(), first.size());
  const std::uint64_t memory = allocator.memory_bytes();
  for (int i = 0; i < 4; ++i) allocator.allocate(BlockAllocator::kGroupBlocks, again);
  for (const BlockExtent& extent : again) EXPECT_LT(extent.block, 4 * BlockAllocator::kGroupBlocks);
  EXPECT_EQ(allocator.memory_bytes(), memory);
}

TEST(BlockAllocator, RefusesWhatASavedIndexMayNotHave) {
  BlockAllocator allocator(1, 10'000);
  EXPECT_TRUE(allocator.take({5'000, 10}));
  EXPECT_FALSE(allocator.take({5'009, 1}));
  EXPECT_FALSE(allocator.take({4'990, 11}));
  EXPECT_FALSE(allocator.take({0, 1}));
  EXPECT_FALSE(allocator.take({9'999, 2}));
  EXPECT_FALSE(allocator.take({10'000, 0}));
  EXPECT_FALSE(allocator.take({UINT64_MAX, 2}));
  EXPECT_FALSE(allocator.take({5, UINT64_MAX}));
  EXPECT_TRUE(allocator.take({9'999, 1}));
  EXPECT_EQ(allocator.free_blocks(), 9'999U - 11);
  std::vector<BlockExtent> out;
  allocator.allocate(9'999 - 11, out);
  allocator.check_invariants();
}

TEST(BlockAllocatorDeath, NoticesADoubleFree) {
  BlockAllocator allocator(1, 10'000);
  std::vector<BlockExtent> out;
  allocator.allocate(10, out);
  allocator.free(out.data(), out.size());
  EXPECT_DEATH(allocator.free(out.data(), out.size()), "twice");
  EXPECT_DEATH(allocator.allocate(10'000, out), "reserved");
}

TEST(FileExtents, AgreesWithAMapOfPages) {
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 200; ++round) {
    FileExtents extents;
    std::map<std::uint64_t, std::uint64_t> oracle;
    std::uint64_t next_block = 1;
    for (int batch = 0; batch < 20; ++batch) {
      std::vector<FileExtent> fresh;
      std::uint64_t page = rng.below(50);
      while (page < 400 && fresh.size() < 10) {
        std::uint64_t n = 1 + rng.below(5);
        while (n > 0 && oracle.count(page) == 0) {
          std::uint64_t len = 0;
          while (len < n && oracle.count(page + len) == 0) ++len;
          if (rng.chance(3)) next_block += 7;
          fresh.push_back({page, next_block, len});
          for (std::uint64_t i = 0; i < len; ++i) oracle[page + i] = next_block + i;
          next_block += len;
          page += len;
          n = 0;
        }
        page += 1 + rng.below(30);
      }
      extents.add(fresh);
      for (std::uint64_t p = 0; p < 450;) {
        const FileExtent part = extents.find(p, 450 - p);
        ASSERT_EQ(part.page, p);
        ASSERT_GE(part.pages, 1U);
        for (std::uint64_t i = 0; i < part.pages; ++i) {
          const auto it = oracle.find(p + i);
          ASSERT_EQ(part.block == 0 ? 0 : part.block + i, it == oracle.end() ? 0 : it->second);
        }
        p += part.pages;
      }
      ASSERT_EQ(extents.blocks(), oracle.size());
    }
  }
}

TEST(FileExtents, JoinsWhatContinues) {
  FileExtents extents;
  const FileExtent a{0, 100, 10}, b{20, 200, 10}, between{10, 110, 10};
  extents.add({&a, 1});
  extents.add({&b, 1});
  extents.add({&between, 1});
  EXPECT_EQ(extents.all().size(), 2U);
  EXPECT_EQ(extents.all()[0], (FileExtent{0, 100, 20}));
}

FlatHeader sample_header() {
  FlatHeader header;
  header.state = FlatHeader::State::kClean;
  header.seed = 0x1122334455667788;
  header.device_blocks = 1'000;
  header.files = 12;
  header.index_bytes = 99;
  header.index_crc = 0xCAFE;
  header.index = {5, 6};
  return header;
}

TEST(FlatHeader, ComesBackAsWritten) {
  std::array<std::byte, kBlockBytes> block;
  encode_header(sample_header(), block);
  const auto header = decode_header(block);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->seed, sample_header().seed);
  EXPECT_EQ(header->state, FlatHeader::State::kClean);
  EXPECT_EQ(header->device_blocks, 1'000U);
  EXPECT_EQ(header->files, 12U);
  EXPECT_EQ(header->index_bytes, 99U);
  EXPECT_EQ(header->index_crc, 0xCAFEU);
  EXPECT_EQ(header->index, sample_header().index);
}

TEST(FlatHeader, NoticesEveryFlippedBit) {
  std::array<std::byte, kBlockBytes> block;
  encode_header(sample_header(), block);
  for (std::size_t bit = 0; bit < block.size() * 8; bit += 7) {
    block[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto header = decode_header(block);
    ASSERT_FALSE(header) << "bit " << bit;
    ASSERT_EQ(header.error().code, bit / 8 < 8 ? Reason::kNotEmpty : Reason::kCorrupt);
    block[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

// The published check value of CRC-32C.
TEST(FlatHeader, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283U);
  EXPECT_EQ(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xE3069283U);
}

TEST(ProbeDevice, FindsForeignDataAnywhere) {
  constexpr std::uint64_t kSize = 128ULL << 20;
  AlignedBytes block(kBlockBytes);
  block.data()[17] = std::byte{1};
  for (const std::uint64_t at : {std::uint64_t{kBlockBytes}, std::uint64_t{2} << 20, std::uint64_t{100} << 20,
                                 kSize - kBlockBytes}) {
    auto device = RamDevice::make(kSize).value();
    EXPECT_EQ(probe_device(*device).value(), DeviceContent::kBlank);
    ASSERT_TRUE(device->write(at, block.span()));
    EXPECT_EQ(probe_device(*device).error().code, Reason::kNotEmpty) << at;
  }
}

TEST(ProbeDevice, TellsBlankOursAndForeignApart) {
  auto device = RamDevice::make(4 << 20).value();
  EXPECT_EQ(probe_device(*device).value(), DeviceContent::kBlank);
  AlignedBytes block(kBlockBytes);
  block.data()[4095] = std::byte{1};
  // A foreign image whose first block is empty, as those of some file systems are.
  ASSERT_TRUE(device->write(64 << 10, block.span()));
  EXPECT_EQ(probe_device(*device).error().code, Reason::kNotEmpty);
  ASSERT_TRUE(write_header(*device, sample_header()));
  EXPECT_EQ(probe_device(*device).value(), DeviceContent::kFlatStore);
  ASSERT_TRUE(device->write(0, block.span()));
  EXPECT_EQ(probe_device(*device).error().code, Reason::kNotEmpty);
  NullDevice null(4 << 20);
  EXPECT_EQ(probe_device(null).value(), DeviceContent::kBlank);
}

}  // namespace
}  // namespace tidewheel
