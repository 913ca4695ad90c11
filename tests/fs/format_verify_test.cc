// Verifiers: every good block passes, no damaged byte does, no bytes whatever make one misbehave.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/crc32c.h"
#include "base/rng.h"
#include "tests/fs/format_rig.h"

namespace tidewheel::disk {
namespace {

void restamp(SampleBlock& block, Lsn lsn = kSampleLsn) {
  if (block.type == BlockType::kInodeCluster) {
    for (std::size_t at = 0; at < block.bytes.size(); at += kInodeBytes) {
      stamp_inode(view<DiskInode>(block.span(), at), lsn);
    }
  } else {
    stamp_block(block.span(), lsn);
  }
}

std::string label(const SampleBlock& block) { return std::string(name_of(block.type)) + " " + block.variant; }

TEST(FormatVerify, TakesAGoodBlockOfEachType) {
  const Geometry geometry = small_geometry();
  std::map<BlockType, int> seen;
  for (const SampleBlock& block : sample_blocks(geometry)) {
    const Verdict verdict = verify_read(block.type, block.span(), context_of(block, geometry));
    EXPECT_TRUE(verdict.good()) << label(block) << ": " << verdict.what << " at " << verdict.at;
    ++seen[block.type];
  }
  EXPECT_EQ(seen.size(), kBlockTypes);
}

TEST(FormatVerify, FindsABitFlippedInEveryByteOfEachType) {
  const Geometry geometry = small_geometry();
  Rng rng(1);
  for (SampleBlock& block : sample_blocks(geometry)) {
    for (std::size_t at = 0; at < block.bytes.size(); ++at) {
      const std::byte flip{static_cast<std::uint8_t>(1U << rng.below(8))};
      block.bytes[at] ^= flip;
      EXPECT_FALSE(verify_read(block.type, block.span(), context_of(block, geometry)).good())
          << label(block) << " byte " << at;
      block.bytes[at] ^= flip;
    }
  }
}

TEST(FormatVerify, NamesTheCauseOfEachKindOfDamage) {
  const Geometry geometry = small_geometry();
  for (SampleBlock& good : sample_blocks(geometry)) {
    if (good.type == BlockType::kInodeCluster) continue;
    const auto fault_after = [&](auto change) {
      SampleBlock block = good;
      VerifyContext context = context_of(block, geometry);
      change(block, view<BlockHeader>(block.span()), context);
      return verify_read(block.type, block.span(), context).fault;
    };
    using Header = BlockHeader;
    EXPECT_EQ(fault_after([](auto& b, Header& h, auto&) {
                h.magic = 1;
                restamp(b);
              }),
              Fault::kMagic);
    EXPECT_EQ(fault_after([](auto& b, Header&, auto&) { b.bytes[4000] ^= std::byte{1}; }), Fault::kCrc);
    EXPECT_EQ(fault_after([](auto& b, Header& h, auto&) {
                h.uuid.bytes[3] ^= 1;
                restamp(b);
              }),
              Fault::kUuid);
    EXPECT_EQ(fault_after([](auto& b, Header& h, auto&) {
                h.block = h.block + 1;
                restamp(b);
              }),
              Fault::kBlock);
    EXPECT_EQ(fault_after([](auto& b, Header&, auto&) { restamp(b, Lsn::make(5, 24)); }), Fault::kLsn);
    EXPECT_EQ(fault_after([](auto&, Header&, auto& c) { c.address.value = 4711; }), Fault::kBlock);
    EXPECT_EQ(fault_after([](auto& b, Header&, auto&) { b.bytes.pop_back(); }), Fault::kLength);
    if (good.type <= BlockType::kFreeInode) {
      EXPECT_EQ(fault_after([](auto& b, Header& h, auto&) {
                  h.owner = 77;
                  restamp(b);
                }),
                Fault::kOwner);
    } else {
      EXPECT_EQ(fault_after([](auto&, Header&, auto& c) {
                  c.owner = 131;
                  c.owner += 1;
                }),
                Fault::kOwner)
          << label(good);
    }
  }
}

TEST(FormatVerify, RefusesAnLsnAheadOfTheLogInASingleInode) {
  const Geometry geometry = small_geometry();
  for (SampleBlock& block : sample_blocks(geometry)) {
    if (block.type != BlockType::kInodeCluster) continue;
    stamp_inode(view<DiskInode>(block.span(), 9 * kInodeBytes), Lsn::make(5, 17));
    const Verdict verdict = verify_read(block.type, block.span(), context_of(block, geometry));
    EXPECT_EQ(verdict.fault, Fault::kLsn);
    EXPECT_EQ(verdict.at / kInodeBytes, 9U) << "the inode is named";
  }
}

// Each with a right CRC: only the structure speaks against it.
TEST(FormatVerify, FindsImpossibleStructure) {
  const Geometry geometry = small_geometry();
  struct Damage {
    BlockType type;
    const char* variant;
    std::function<void(std::span<std::byte>)> apply;
  };
  const auto body = [](std::span<std::byte> b, std::uint32_t slot) -> InodeBody& {
    return view<DiskInode>(b, slot * kInodeBytes).core.body;
  };
  const std::vector<Damage> damages = {
      {BlockType::kSuper, "first", [](auto b) { view<Superblock>(b).ag_count = 0; }},
      {BlockType::kSuper, "first", [](auto b) { view<Superblock>(b).log_start = 3; }},
      {BlockType::kSuper, "first", [](auto b) { view<Superblock>(b).log_version = 2; }},
      {BlockType::kSuper, "copy", [](auto b) { view<Superblock>(b).device_blocks = 2499; }},
      {BlockType::kSuper, "copy", [](auto b) { view<Superblock>(b).free_inode_count = 65; }},
      {BlockType::kSuper, "copy", [](auto b) { view<Superblock>(b).free_block_count = 2501; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).ag_number = 1; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).length_blocks = 1000; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).by_block_root = 0; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).by_size_root = 500; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).by_block_levels = 0; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).by_size_levels = 10; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).free_list_first = 1012; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).free_list_count = 1013; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).free_blocks = 501; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).longest_free = 481; }},
      {BlockType::kAgFree, "", [](auto b) { view<AgFree>(b).tree_blocks = 501; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).ag_number = 1; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).length_blocks = 999; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).inode_count = 65; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).inode_count = 64 * 300; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).free_inode_count = 65; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).tree_root = 3; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).tree_levels = 0; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).free_root = 1000; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).free_levels = 12; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).newest_chunk = 7; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).unlinked[5] = 6; }},
      {BlockType::kAgInode, "", [](auto b) { view<AgInode>(b).unlinked[6] = 8 << 4 | 5; }},
      {BlockType::kAgFreeList, "", [](auto b) { view<AgFreeList>(b).blocks[9] = 2; }},
      {BlockType::kAgFreeList, "", [](auto b) { view<AgFreeList>(b).blocks[9] = 1000; }},
      {BlockType::kFreeByBlock, "leaf", [](auto b) { view<BtreeHeader>(b).level = 9; }},
      {BlockType::kFreeByBlock, "leaf", [](auto b) { view<BtreeHeader>(b).count = 504; }},
      {BlockType::kFreeByBlock, "leaf", [](auto b) { view<BtreeHeader>(b).count = 0; }},
      {BlockType::kFreeByBlock, "leaf", [](auto b) { view<BtreeHeader>(b).left = 3; }},
      {BlockType::kFreeByBlock, "leaf", [](auto b) { view<BtreeHeader>(b).right = 1000; }},
      {BlockType::kFreeByBlock, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 72) = {20, 10};
       }},  // touches
      {BlockType::kFreeByBlock, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 72) = {20, 0};
       }},
      {BlockType::kFreeByBlock, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 72) = {31, 1};
       }},
      {BlockType::kFreeByBlock, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 72) = {3, 1};
       }},
      {BlockType::kFreeByBlock, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 88) = {900, 101};
       }},
      {BlockType::kFreeByBlock, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 88) = {900, UINT32_MAX};
       }},
      {BlockType::kFreeByBlock, "node",
       [](auto b) {
         view<FreeKey>(b, 72) = {50, 1};
       }},
      {BlockType::kFreeByBlock, "node", [](auto b) { view<BtreeHeader>(b).count = 336; }},
      {BlockType::kFreeByBlock, "node", [](auto b) { view<Le32>(b, kFreeByBlockShape.pointer_at(1)) = 2; }},
      {BlockType::kFreeByBlock, "empty", [](auto b) { view<BtreeHeader>(b).level = 1; }},
      {BlockType::kFreeByBlock, "empty", [](auto b) { view<BtreeHeader>(b).right = 40; }},
      {BlockType::kFreeBySize, "leaf",
       [](auto b) {
         view<FreeRecord>(b, 72) = {30, 6};
       }},
      {BlockType::kInodeTree, "leaf", [](auto b) { view<InodeChunkRecord>(b, 72).start = 8 << 4 | 1; }},
      {BlockType::kInodeTree, "leaf", [](auto b) { view<InodeChunkRecord>(b, 72).free_count = 64; }},
      {BlockType::kInodeTree, "leaf", [](auto b) { view<InodeChunkRecord>(b, 88).start = 1000 << 4; }},
      {BlockType::kInodeTree, "leaf", [](auto b) { view<InodeChunkRecord>(b, 88).start = 4 << 4; }},
      {BlockType::kFreeInode, "leaf",
       [](auto b) {
         view<InodeChunkRecord>(b, 88) = {80 << 4, 0, 0};
       }},
      {BlockType::kExtentTree, "leaf",
       [](auto b) { view<ExtentRecord>(b, 72) = to_disk({.file_block = 6, .start = {60}, .count = 4}); }},
      {BlockType::kExtentTree, "leaf",
       [](auto b) { view<ExtentRecord>(b, 72) = to_disk({.file_block = 0, .start = {998}, .count = 4}); }},
      {BlockType::kExtentTree, "leaf",
       [](auto b) { view<ExtentRecord>(b, 72) = to_disk({.file_block = 0, .start = {60}, .count = 0}); }},
      {BlockType::kExtentTree, "leaf",
       [](auto b) {
         view<ExtentRecord>(b, 88) = to_disk({.file_block = kMaxFileBlock, .start = {60}, .count = 2});
       }},
      {BlockType::kExtentTree, "leaf",
       [](auto b) { view<ExtentRecord>(b, 72).offset = std::uint64_t{1} << 52; }},
      {BlockType::kExtentTree, "node", [](auto b) { view<Le64>(b, kExtentTreeShape.pointer_at(1)) = 3; }},
      {BlockType::kDirHash, "leaf",
       [](auto b) {
         view<DirHashRecord>(b, 80) = {7, 31};
       }},
      {BlockType::kInodeCluster, "", [&](auto b) { view<DiskInode>(b, 256).core.head.version = 2; }},
      {BlockType::kInodeCluster, "", [&](auto b) { view<DiskInode>(b, 256).core.head.number = 8 << 4; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 1).extent_count = 1; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 1).mode = 0x3000; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 1).mode = kModeRegular; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 0).size_bytes = 129; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 0).size_bytes = 32; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 0).size_bytes = 15; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).size_bytes = UINT64_MAX; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).extent_count = 5; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).blocks = 2501; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).attr_offset = 17; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).attr_offset = 0; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).flags = 128; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).data_format = 9; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).attr_format = 0; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 3).next_unlinked = 9 << 4; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 5).next_unlinked = 3; }},
      {BlockType::kInodeCluster, "", [&](auto b) { view<ForkRoot>(b, 5 * 256 + 128).count = 8; }},
      {BlockType::kInodeCluster, "", [&](auto b) { view<ForkRoot>(b, 5 * 256 + 128).level = 0; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 6).size_bytes = 0; }},
      {BlockType::kInodeCluster, "", [&](auto b) { body(b, 7).size_bytes = 1; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirEntry>(b, 64).name_bytes = 200; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirEntry>(b, 64).offset = 72; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirEntry>(b, 64).inode = 0; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirEntry>(b, 64).type = 8; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirBlockHeader>(b).entry_count = 3; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirBlockHeader>(b).best[1].bytes = 16; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirBlockHeader>(b).best[1].offset = 64; }},
      {BlockType::kDirBlock, "",
       [](auto b) {
         view<DirBlockHeader>(b).best[2] = {4095, 8};
       }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirBlockTail>(b, 4088).count = 505; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirBlockTail>(b, 4088).stale = 4; }},
      {BlockType::kDirBlock, "", [](auto b) { view<DirHashRecord>(b, 4064).hash = 99; }},
      {BlockType::kDirData, "", [](auto b) { view<DirFree>(b, 80).bytes = 12; }},
      {BlockType::kDirData, "", [](auto b) { view<DirFree>(b, 80).bytes = 0; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafHeader>(b).count = 400; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafHeader>(b).next = 1ULL << 43; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafHeader>(b).first_used = 70; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafHeader>(b).used_bytes = 21; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafEntry>(b, 64).name_bytes = 0; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafEntry>(b, 64).name_at = 4095; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrLeafEntry>(b, 64).hash = 10; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrRemotePlace>(b, 4096 - 20).value_bytes = 65537; }},
      {BlockType::kAttrLeaf, "", [](auto b) { view<AttrRemotePlace>(b, 4096 - 20).start = UINT64_MAX; }},
      {BlockType::kAttrValue, "", [](auto b) { view<AttrValueHeader>(b).bytes = 4041; }},
      {BlockType::kAttrValue, "", [](auto b) { view<AttrValueHeader>(b).offset = 65000; }},
      {BlockType::kMock, "", [](auto b) { view<MockBlock>(b).bytes = 4033; }},
  };
  const std::vector<SampleBlock> samples = sample_blocks(geometry);
  std::size_t number = 0;
  for (const Damage& damage : damages) {
    bool found = false;
    for (const SampleBlock& sample : samples) {
      if (sample.type != damage.type || std::string(sample.variant) != damage.variant) continue;
      found = true;
      SampleBlock block = sample;
      damage.apply(block.span());
      restamp(block);
      EXPECT_FALSE(verify_read(block.type, block.span(), context_of(block, geometry)).good())
          << "damage " << number << " to " << label(block);
      const Verdict write = verify_write(block.type, block.span(), context_of(block, geometry), kSampleLsn);
      EXPECT_FALSE(write.good()) << "written: damage " << number << " to " << label(block);
    }
    EXPECT_TRUE(found) << "damage " << number;
    ++number;
  }
}

TEST(FormatVerify, StampsWhatItLetsThroughAndNothingElse) {
  const Geometry geometry = small_geometry();
  const Lsn later = Lsn::make(5, 16);
  for (SampleBlock& block : sample_blocks(geometry)) {
    restamp(block, kNoLsn);
    ASSERT_TRUE(verify_write(block.type, block.span(), context_of(block, geometry), later).good());
    EXPECT_TRUE(verify_read(block.type, block.span(), context_of(block, geometry)).good()) << label(block);
    const std::vector<std::byte> before = block.bytes;
    ASSERT_TRUE(verify_write(block.type, block.span(), context_of(block, geometry), kKeepLsn).good());
    EXPECT_EQ(block.bytes, before) << "kKeepLsn keeps it";
    // Refused: not a byte changes.
    VerifyContext elsewhere = context_of(block, geometry);
    elsewhere.address.value += 2;
    ASSERT_FALSE(verify_write(block.type, block.span(), elsewhere, Lsn::make(9, 0)).good());
    EXPECT_EQ(block.bytes, before);
  }
}

TEST(FormatVerify, GivesEachInodeOfAClusterItsOwnLsn) {
  const Geometry geometry = small_geometry();
  for (SampleBlock& block : sample_blocks(geometry)) {
    if (block.type != BlockType::kInodeCluster) continue;
    std::array<Lsn, kInodesPerCluster> lsns;
    lsns.fill(kKeepLsn);
    lsns[3] = Lsn::make(5, 8);
    ASSERT_TRUE(verify_write_cluster(block.span(), context_of(block, geometry), lsns).good());
    EXPECT_EQ(view<DiskInode>(block.span(), 3 * kInodeBytes).core.head.lsn, Lsn::make(5, 8).value);
    EXPECT_EQ(view<DiskInode>(block.span(), 4 * kInodeBytes).core.head.lsn, kSampleLsn.value);
    EXPECT_FALSE(verify_write_cluster(block.span(), context_of(block, geometry), {lsns.data(), 3}).good());
  }
}

// What comes from disk is verified, never asserted, and never read beyond its end (a sanitizer shows that).
TEST(FormatVerifyFuzz, SurvivesRandomBytesWithARightHeaderAndCrc) {
  const Geometry geometry = small_geometry();
  const std::vector<SampleBlock> samples = sample_blocks(geometry);
  const std::uint64_t seed = 20261130;
  Rng rng(seed);
  std::uint64_t passed = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    for (const SampleBlock& sample : samples) {
      SampleBlock block = sample;
      if (rng.chance(3)) {
        // All of it but the header.
        for (std::size_t at = sizeof(BlockHeader); at < block.bytes.size(); ++at) {
          block.bytes[at] = static_cast<std::byte>(rng.next());
        }
      } else {
        // A few bytes near the front, where counts and offsets are, or anywhere.
        for (std::uint64_t n = 1 + rng.below(6); n > 0; --n) {
          const std::uint64_t at =
              sizeof(BlockHeader) + rng.below(rng.chance(2) ? 128 : block.bytes.size() - 48);
          block.bytes[at] = rng.chance(3) ? std::byte{0xFF} : static_cast<std::byte>(rng.next());
        }
      }
      if (block.type == BlockType::kInodeCluster) {
        for (std::size_t at = 0; at < block.bytes.size(); at += kInodeBytes) {
          auto& head = view<DiskInode>(block.span(), at).core.head;
          head = view<DiskInode>(sample.span(), at).core.head;
        }
      }
      restamp(block);
      const bool good = verify_read(block.type, block.span(), context_of(block, geometry)).good();
      ++(good ? passed : refused);
      if (good) {
        // What one direction takes, the other takes.
        EXPECT_TRUE(verify_write(block.type, block.span(), context_of(block, geometry), kSampleLsn).good())
            << label(block) << ", seed " << seed << " round " << round;
      }
    }
  }
  EXPECT_GT(refused, passed);
  EXPECT_GT(passed, 0U) << "bytes that no field uses may be anything";
}

TEST(FormatVerifyFuzz, SurvivesWhollyRandomBytesAndLengths) {
  const Geometry geometry = small_geometry();
  Rng rng(99);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> bytes(rng.chance(4) ? rng.below(9000) : kFsBlockBytes * (1 + rng.below(2)));
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
    for (std::uint32_t type = 0; type < kBlockTypes; ++type) {
      const VerifyContext context{.geometry = &geometry,
                                  .address = {rng.chance(2) ? rng.next() : rng.below(2500)},
                                  .newest = kNewestLsn};
      EXPECT_FALSE(verify_read(static_cast<BlockType>(type), bytes, context).good());
    }
    (void)read_superblock(bytes, 2500, true);
  }
}

TEST(FormatSuperblock, IsReadBeforeAnythingElseIsKnown) {
  const Geometry geometry = small_geometry();
  SampleBlock block = sample_blocks(geometry).front();
  ASSERT_EQ(block.type, BlockType::kSuper);
  const auto read = [&](std::uint64_t device_blocks = 2500, bool writable = true) {
    return read_superblock(block.span(), device_blocks, writable);
  };
  const auto code = [](const Result<Geometry>& result) { return result ? Reason::kOk : result.error().code; };
  ASSERT_EQ(code(read()), Reason::kOk);
  EXPECT_EQ(read()->uuid, geometry.uuid);
  EXPECT_EQ(read()->log_start, geometry.log_start);
  EXPECT_EQ(code(read(2499)), Reason::kOutOfRange) << "the device was cut short";
  auto& super = view<Superblock>(block.span());
  const auto with = [&](auto change) {
    const SampleBlock before = block;
    change();
    restamp(block);
    const Reason writable = code(read()), read_only = code(read(2500, false));
    block.bytes = before.bytes;
    return std::pair(writable, read_only);
  };
  using Pair = std::pair<Reason, Reason>;
  EXPECT_EQ(with([&] { super.features_compatible = UINT64_MAX; }), Pair(Reason::kOk, Reason::kOk));
  EXPECT_EQ(with([&] { super.features_read_only_compatible = 1; }), Pair(Reason::kUnsupported, Reason::kOk));
  EXPECT_EQ(with([&] { super.features_incompatible = 3; }), Pair(Reason::kUnsupported, Reason::kUnsupported));
  EXPECT_EQ(with([&] { super.version = 2; }), Pair(Reason::kUnsupported, Reason::kUnsupported));
  EXPECT_EQ(with([&] { super.ag_blocks = 0; }), Pair(Reason::kCorrupt, Reason::kCorrupt));
  EXPECT_EQ(with([&] { super.header.magic = 0; }), Pair(Reason::kNotEmpty, Reason::kNotEmpty));
  block.bytes[4090] ^= std::byte{4};
  EXPECT_EQ(code(read()), Reason::kCorrupt);
}

// The image of each sample: a change of layout must be meant, and then raises kFormatVersion.
TEST(FormatGolden, EachBlockLiesOnDiskAsItAlwaysDid) {
  const std::vector<std::pair<std::string, std::uint32_t>> golden = {
#include "tests/fs/format_golden.inc"
  };
  const std::vector<SampleBlock> samples = sample_blocks(small_geometry());
  EXPECT_EQ(samples.size(), golden.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::uint32_t crc = crc32c(0, samples[i].bytes.data(), samples[i].bytes.size());
    const std::pair<std::string, std::uint32_t> now(label(samples[i]), crc);
    EXPECT_TRUE(i < golden.size() && golden[i] == now)
        << "    {\"" << now.first << "\", 0x" << std::hex << crc << "U},";
  }
}

}  // namespace
}  // namespace tidewheel::disk
