#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/rng.h"
#include "tests/inode/fakes.h"

namespace tidewheel {
namespace {

using inode_test::bytes_of;
using inode_test::World;

std::vector<std::byte> read_back(World& world, Inode& inode, std::uint64_t offset, std::size_t len) {
  std::vector<std::byte> into(len, std::byte{0xEE});
  const auto got = world.pages->read(inode, offset, into);
  EXPECT_TRUE(got);
  into.resize(*got);
  return into;
}

TEST(PageCache, ReadsBackWhatWasWrittenAtOddOffsets) {
  World world;
  InodeHold inode = world.create(1);
  const auto data = bytes_of(10'000, 3);
  ASSERT_EQ(*world.pages->write(*inode, 4'095, data, Instant{1}), 10'000U);
  EXPECT_EQ(inode->size(), 14'095U);
  EXPECT_EQ(read_back(world, *inode, 4'095, 10'000), data);
  EXPECT_EQ(read_back(world, *inode, 0, 4'095), std::vector<std::byte>(4'095)) << "the hole reads as zeros";
  EXPECT_EQ(read_back(world, *inode, 14'000, 10'000).size(), 95U) << "up to the end of the file";
  EXPECT_EQ(inode->mapping().dirty_bytes(), 4 * kPageBytes);
}

TEST(PageCache, NothingWrittenIsNothingDirty) {
  World world;
  InodeHold inode = world.create(1);
  EXPECT_EQ(*world.pages->write(*inode, 100, {}, Instant{1}), 0U);
  EXPECT_EQ(inode->size(), 0U);
  EXPECT_TRUE(inode->state().clean());
  EXPECT_EQ(read_back(world, *inode, 0, 10).size(), 0U);
}

TEST(PageCache, RefusesAFileThatIsTooLarge) {
  World world;
  InodeHold inode = world.create(1);
  const auto data = bytes_of(2, 1);
  EXPECT_EQ(world.pages->write(*inode, INT64_MAX - 1, data, Instant{1}).error().code, Reason::kFileTooLarge);
  EXPECT_EQ(world.pages->write(*inode, UINT64_MAX, data, Instant{1}).error().code, Reason::kFileTooLarge);
  EXPECT_EQ(world.pages->truncate(*inode, UINT64_MAX, Instant{1}).error().code, Reason::kFileTooLarge);
  // The last byte that there can be.
  EXPECT_EQ(*world.pages->write(*inode, INT64_MAX - 2, data, Instant{1}), 2U);
  EXPECT_EQ(read_back(world, *inode, INT64_MAX - 2, 100), data);
}

TEST(PageCache, MarksDataAndSizeAndAccountsPagesOnce) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(100, 1), Instant{1});
  EXPECT_EQ(inode->state().classes(), kDirtyData | kDirtyMetadata);
  EXPECT_EQ(world.engine.dirty.sum(), 4096);
  (void)world.pages->write(*inode, 50, bytes_of(100, 2), Instant{2});
  EXPECT_EQ(world.engine.dirty.sum(), 4096) << "a dirty page that is written again is not counted again";
  world.engine.write_all();
  EXPECT_EQ(world.engine.dirty.sum(), 0);
  EXPECT_EQ(world.engine.writeback.sum(), 0);
  (void)world.pages->write(*inode, 50, bytes_of(10, 2), Instant{3});
  EXPECT_EQ(inode->state().classes(), kDirtyData) << "the size did not change";
}

TEST(PageCache, WritesInPiecesOfWhatIsGranted) {
  World world;
  world.engine.grant_at_most = 3 * kPageBytes + 100;
  InodeHold inode = world.create(1);
  const auto data = bytes_of(40'000, 4);
  EXPECT_EQ(*world.pages->write(*inode, 10, data, Instant{1}), 40'000U);
  EXPECT_EQ(read_back(world, *inode, 10, 40'000), data);
  world.engine.grant_at_most = 1;
  EXPECT_EQ(*world.pages->write(*inode, 10, data, Instant{1}), 40'000U) << "a page at a time at least";
  world.engine.refuse = true;
  EXPECT_EQ(world.pages->write(*inode, 10, data, Instant{1}).error().code, Reason::kShutDown);
}

TEST(PageCache, TruncateDropsPagesWithTheirDirtAndZeroesTheTail) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(5 * kPageBytes, 1), Instant{1});
  ASSERT_TRUE(world.pages->truncate(*inode, kPageBytes + 10, Instant{2}));
  EXPECT_EQ(inode->mapping().pages(), 2U);
  EXPECT_EQ(world.engine.dirty.sum(), 2 * 4096);
  ASSERT_TRUE(world.pages->truncate(*inode, 3 * kPageBytes, Instant{3}));
  auto expected = bytes_of(5 * kPageBytes, 1);
  expected.resize(kPageBytes + 10);
  expected.resize(3 * kPageBytes);
  EXPECT_EQ(read_back(world, *inode, 0, 5 * kPageBytes), expected);
  ASSERT_TRUE(world.pages->truncate(*inode, 0, Instant{4}));
  EXPECT_EQ(inode->mapping().pages(), 0U);
  EXPECT_EQ(world.engine.dirty.sum(), 0);
}

TEST(PageCache, TruncateReadsTheLastPageWhenItIsNotThere) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(2 * kPageBytes, 9), Instant{1});
  world.engine.write_all();
  world.pages->reclaim_pages(100);
  ASSERT_EQ(inode->mapping().pages(), 0U);
  world.store.fail_reads = true;
  EXPECT_FALSE(world.pages->truncate(*inode, 100, Instant{2}));
  EXPECT_EQ(inode->size(), 2 * kPageBytes) << "a failed truncate leaves the size";
  world.store.fail_reads = false;
  ASSERT_TRUE(world.pages->truncate(*inode, 100, Instant{2}));
  ASSERT_TRUE(world.pages->truncate(*inode, 200, Instant{3}));
  auto expected = bytes_of(2 * kPageBytes, 9);
  expected.resize(100);
  expected.resize(200);
  EXPECT_EQ(read_back(world, *inode, 0, 200), expected);
}

TEST(PageCache, AFailedReadIsReportedAndLeavesNoPage) {
  World world;
  world.store.add(1, 10'000);
  InodeHold inode = world.get(1);
  world.store.fail_reads = true;
  std::vector<std::byte> into(100);
  EXPECT_EQ(world.pages->read(*inode, 0, into).error().code, Reason::kIo);
  EXPECT_EQ(world.pages->write(*inode, 10, bytes_of(10, 1), Instant{1}).error().code, Reason::kIo);
  EXPECT_EQ(inode->mapping().pages(), 0U);
  EXPECT_TRUE(inode->state().clean());
  world.store.fail_reads = false;
  EXPECT_EQ(*world.pages->read(*inode, 0, into), 100U);
}

TEST(PageCache, OneCallOfTheSourceFillsManyPages) {
  World world;
  InodeHold inode = world.create(1);
  const auto data = bytes_of(32 * kPageBytes, 5);
  (void)world.pages->write(*inode, 0, data, Instant{1});
  world.engine.write_all();
  world.pages->reclaim_pages(100);
  ASSERT_EQ(inode->mapping().pages(), 0U);
  EXPECT_EQ(read_back(world, *inode, 0, data.size()), data);
  EXPECT_EQ(world.store.reads, 1);
  EXPECT_EQ(world.pages->stats().read_misses, 32U);
  EXPECT_EQ(read_back(world, *inode, 0, data.size()), data);
  EXPECT_EQ(world.store.reads, 1);
  EXPECT_EQ(world.pages->stats().read_hits, 32U);
}

TEST(PageCacheWriteback, HandsOutRunsOfDirtyPagesInOrder) {
  World world;
  InodeHold inode = world.create(1);
  for (const std::uint64_t index : {7U, 2U, 3U, 1U, 100U}) {
    (void)world.pages->write(*inode, index * kPageBytes, bytes_of(kPageBytes, 1), Instant{1});
  }
  WritebackPages pages;
  world.pages->begin_writeback(*inode, pages, 100);
  std::vector<std::pair<std::uint64_t, std::size_t>> runs;
  for_each_run(pages.pages, [&](std::uint64_t first, auto run) { runs.emplace_back(first, run.size()); });
  const std::vector<std::pair<std::uint64_t, std::size_t>> expected{{1, 3}, {7, 1}, {100, 1}};
  EXPECT_EQ(runs, expected);
  EXPECT_FALSE(pages.more);
  EXPECT_EQ(inode->mapping().dirty_pages(), 0U);
  EXPECT_EQ(inode->mapping().writeback_pages(), 5U);
  EXPECT_EQ(world.engine.writeback.sum(), 5 * 4096);
  world.pages->end_writeback(*inode, pages.pages, true);
  EXPECT_EQ(inode->mapping().writeback_pages(), 0U);
  EXPECT_EQ(world.pages->stats().lists.listed, 5U);
}

TEST(PageCacheWriteback, TakesAtMostWhatItIsAskedFor) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(200 * kPageBytes, 1), Instant{1});
  WritebackPages pages;
  world.pages->begin_writeback(*inode, pages, 70);
  EXPECT_EQ(pages.pages.size(), 70U);
  EXPECT_TRUE(pages.more);
  EXPECT_EQ(pages.pages.back()->index, 69U);
  world.pages->begin_writeback(*inode, pages, 130);
  EXPECT_EQ(pages.pages.size(), 200U);
  EXPECT_FALSE(pages.more);
  world.pages->end_writeback(*inode, pages.pages, true);
}

TEST(PageCacheWriteback, AFailedWriteIsDirtyAgainAndNotReclaimable) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(3 * kPageBytes, 1), Instant{1});
  WritebackPages pages;
  world.pages->begin_writeback(*inode, pages, 100);
  world.pages->end_writeback(*inode, pages.pages, false);
  EXPECT_EQ(inode->mapping().dirty_pages(), 3U);
  EXPECT_EQ(world.engine.dirty.sum(), 3 * 4096);
  EXPECT_EQ(world.engine.writeback.sum(), 0);
  EXPECT_EQ(world.pages->reclaim_pages(100), 0U);
  world.engine.write_all();
  EXPECT_EQ(world.pages->reclaim_pages(100), 3U);
  EXPECT_EQ(read_back(world, *inode, 0, 3 * kPageBytes), bytes_of(3 * kPageBytes, 1));
}

TEST(PageCacheWriteback, ToWriteLeavesLaterDirtAlone) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(2 * kPageBytes, 1), Instant{1});
  WritebackPages pages;
  EXPECT_EQ(world.pages->tag_to_write(*inode, pages), 2 * kPageBytes);
  (void)world.pages->write(*inode, 2 * kPageBytes, bytes_of(kPageBytes, 1), Instant{2});
  world.pages->begin_writeback(*inode, pages, 100, PageTag::kToWrite);
  EXPECT_EQ(pages.pages.size(), 2U);
  EXPECT_EQ(inode->mapping().dirty_pages(), 1U);
  world.pages->end_writeback(*inode, pages.pages, true);
}

TEST(PageCacheReclaim, DropsCleanPagesAndSparesDirtyOnes) {
  World world;
  InodeHold clean = world.create(1);
  InodeHold dirty = world.create(2);
  (void)world.pages->write(*clean, 0, bytes_of(10 * kPageBytes, 1), Instant{1});
  world.engine.write_all();
  (void)world.pages->write(*dirty, 0, bytes_of(10 * kPageBytes, 2), Instant{1});
  (void)world.pages->write(*clean, 0, bytes_of(10, 3), Instant{1});  // one page is dirty again, and listed
  EXPECT_EQ(world.pages->reclaim_pages(1000), 9U);
  EXPECT_EQ(clean->mapping().pages(), 1U);
  EXPECT_EQ(dirty->mapping().pages(), 10U);
  world.engine.write_all();
  EXPECT_EQ(world.pages->reclaim_pages(1000), 11U) << "what was passed over as dirty comes back when written";
}

// Offsets around page edges, in three windows: the start, past 2 GiB, far out.
std::uint64_t draw_offset(Rng& rng) {
  constexpr std::uint64_t kBases[] = {0, (2ULL << 30) - 5'000, (1ULL << 40) + 1};
  const std::uint64_t base = kBases[rng.below(3)];
  const std::uint64_t page = rng.below(9) * kPageBytes;
  return base + (rng.chance(2) ? page : page + rng.below(kPageBytes));
}

// A file as the bytes that are not zero.
struct Oracle {
  std::map<std::uint64_t, std::byte> bytes;
  std::uint64_t size = 0;

  void write(std::uint64_t offset, std::span<const std::byte> data) {
    for (std::size_t i = 0; i < data.size(); ++i) bytes[offset + i] = data[i];
    if (!data.empty()) size = std::max(size, offset + data.size());
  }
  void truncate(std::uint64_t new_size) {
    bytes.erase(bytes.lower_bound(new_size), bytes.end());
    size = new_size;
  }
  std::vector<std::byte> read(std::uint64_t offset, std::size_t len) const {
    std::vector<std::byte> into(offset >= size ? 0 : std::min<std::uint64_t>(len, size - offset));
    for (auto at = bytes.lower_bound(offset); at != bytes.end() && at->first < offset + into.size(); ++at) {
      into[at->first - offset] = at->second;
    }
    return into;
  }
};

RC_GTEST_PROP(PageCacheProperty, AFileIsTheBytesThatWereWritten, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto steps = *rc::gen::inRange<std::size_t>(1, 60);
  Rng rng(seed);
  World world({.reclaim = reclaim_policies()[rng.below(3)].name});
  world.engine.pages_per_write = rng.chance(2) ? UINT32_MAX : 2;
  world.store.add(1, 0);
  InodeHold inode = world.get(1);
  Oracle oracle;
  for (std::size_t step = 0; step < steps; ++step) {
    switch (rng.below(9)) {
      case 0:
      case 1:
      case 2: {
        const std::uint64_t offset = draw_offset(rng);
        const auto data =
            bytes_of(rng.chance(3) ? kPageBytes : rng.below(9'000), static_cast<unsigned>(rng.next()));
        RC_ASSERT(*world.pages->write(*inode, offset, data, Instant{1}) == data.size());
        oracle.write(offset, data);
        break;
      }
      case 3:
      case 4: {
        const std::uint64_t offset = draw_offset(rng);
        const std::size_t len = rng.below(12'000);
        std::vector<std::byte> into(len);
        const auto got = world.pages->read(*inode, offset, into);
        RC_ASSERT(got.has_value());
        into.resize(*got);
        RC_ASSERT((into == oracle.read(offset, len)));
        break;
      }
      case 5: {
        const std::uint64_t size = rng.chance(6) ? 0 : draw_offset(rng);
        RC_ASSERT(world.pages->truncate(*inode, size, Instant{1}).has_value());
        oracle.truncate(size);
        break;
      }
      case 6: world.engine.write_one(); break;
      case 7: world.engine.write_one(false); break;
      default:
        if (rng.chance(2)) {
          world.pages->reclaim_pages(rng.below(20));
        } else {
          // Out of memory and in again.
          world.engine.write_all();
          inode.reset();
          world.inodes->evict(10);
          inode = world.get(1);
        }
    }
    RC_ASSERT(inode->size() == oracle.size);
    RC_ASSERT(world.engine.dirty.sum() == static_cast<std::int64_t>(inode->mapping().dirty_bytes()));
    RC_ASSERT(world.engine.writeback.sum() == 0);
    world.inodes->check_invariants();
  }
  for (const std::uint64_t base : {0ULL, (2ULL << 30) - 8'000, 1ULL << 40}) {
    std::vector<std::byte> into(60'000);
    into.resize(*world.pages->read(*inode, base, into));
    RC_ASSERT((into == oracle.read(base, 60'000)));
  }
}

// A page that is read in because a part of it is written has been used once, which is no reference.
TEST(PageCacheReclaim, TheUseForWhichAPageIsReadInDoesNotCount) {
  World world;
  world.store.add(1, 2 * kPageBytes);
  InodeHold inode = world.get(1);
  const auto uses = [&](std::uint64_t index) {
    MutexLock lock(inode->mapping().mutex());
    return inode->mapping().find_locked(index)->lru.referenced.load(std::memory_order_relaxed);
  };
  ASSERT_EQ(*world.pages->write(*inode, 10, bytes_of(10, 1), Instant{1}), 10U);
  EXPECT_EQ(uses(0), 0U);
  ASSERT_EQ(*world.pages->write(*inode, 20, bytes_of(10, 1), Instant{1}), 10U);
  EXPECT_EQ(uses(0), 1U);
  std::vector<std::byte> into(10);
  ASSERT_EQ(*world.pages->read(*inode, kPageBytes, into), 10U);
  EXPECT_EQ(uses(1), 0U);
  ASSERT_EQ(*world.pages->read(*inode, kPageBytes, into), 10U);
  EXPECT_EQ(uses(1), 1U);
}

}  // namespace
}  // namespace tidewheel
