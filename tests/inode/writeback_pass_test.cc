// Passes over a large file: background goes round, sync writes a snapshot; both at bounded cost.
#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "base/sim.h"
#include "tests/inode/fakes.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

using inode_test::bytes_of;
using inode_test::World;
using inode_test::WorldOptions;

class WritebackPass : public ::testing::Test {
 protected:
  WritebackPass() : inode_(world_.create(1)) {}

  void dirty(std::uint64_t first, std::uint64_t pages) {
    ASSERT_EQ(*world_.pages->write(*inode_, first * kPageBytes, bytes_of(pages * kPageBytes, 1), Instant{1}),
              pages * kPageBytes);
  }
  // One pass, written at once; answers the indexes.
  std::vector<std::uint64_t> pass(std::uint32_t budget, PageTag what = PageTag::kDirty) {
    last_.clear();
    world_.pages->begin_writeback(*inode_, last_, budget, what);
    std::vector<std::uint64_t> indexes;
    for (const Page* page : last_.pages) indexes.push_back(page->index);
    world_.pages->end_writeback(*inode_, last_.pages, true);
    return indexes;
  }
  std::uint64_t snapshot() {
    last_.clear();
    return world_.pages->tag_to_write(*inode_, last_);
  }
  static std::vector<std::uint64_t> range(std::uint64_t first, std::uint64_t end) {
    std::vector<std::uint64_t> all;
    for (; first < end; ++first) all.push_back(first);
    return all;
  }

  World world_;
  InodeHold inode_;
  WritebackPages last_;
};

TEST_F(WritebackPass, GoesOnWhereTheLastOneWasCutOff) {
  dirty(0, 100);
  EXPECT_EQ(pass(30), range(0, 30));
  EXPECT_TRUE(last_.more);
  EXPECT_EQ(last_.first_left, 30U);
  dirty(0, 5);
  EXPECT_EQ(pass(30), range(30, 60)) << "not at the front again";
  EXPECT_EQ(last_.first_left, 0U);
  EXPECT_EQ(pass(30), range(60, 90));
  EXPECT_EQ(pass(30), range(90, 100)) << "no wrap within a pass";
  EXPECT_TRUE(last_.more);
  EXPECT_EQ(last_.first_left, 0U);
  EXPECT_EQ(pass(30), range(0, 5));
  EXPECT_FALSE(last_.more);
}

TEST_F(WritebackPass, TheTailHasItsTurnThoughTheFrontIsDirtiedAllTheTime) {
  dirty(0, 64);
  std::set<std::uint64_t> written;
  for (int i = 0; i < 9; ++i) {
    for (const std::uint64_t index : pass(8)) written.insert(index);
    dirty(0, 8);
  }
  EXPECT_EQ(written.size(), 64U);
}

TEST_F(WritebackPass, OneThatReachesTheEndLeavesTheNextAtTheFront) {
  dirty(0, 10);
  EXPECT_EQ(pass(10), range(0, 10));
  EXPECT_FALSE(last_.more);
  dirty(0, 20);
  EXPECT_EQ(pass(100), range(0, 20));
  EXPECT_FALSE(last_.more);
}

TEST_F(WritebackPass, IsNeverWithoutAPageWhileSomethingIsDirty) {
  dirty(0, 20);
  EXPECT_EQ(pass(10), range(0, 10));
  ASSERT_TRUE(world_.pages->truncate(*inode_, 5 * kPageBytes, Instant{2}));
  dirty(1, 2);
  EXPECT_EQ(pass(10), range(1, 3)) << "the file ends before the place where it would go on";
  EXPECT_FALSE(last_.more);
  EXPECT_TRUE(pass(10).empty());
  EXPECT_FALSE(last_.more);
}

TEST_F(WritebackPass, IntegrityBeginsAtTheFrontAndMovesNothing) {
  dirty(0, 100);
  EXPECT_EQ(pass(30), range(0, 30));
  dirty(3, 1);
  EXPECT_EQ(snapshot(), 100 * kPageBytes);
  std::vector<std::uint64_t> expected = range(30, 100);
  expected.insert(expected.begin(), 3);
  EXPECT_EQ(pass(UINT32_MAX, PageTag::kToWrite), expected);
  EXPECT_FALSE(last_.more);
  dirty(0, 50);
  EXPECT_EQ(pass(10), range(30, 40)) << "background goes on where it was";
}

TEST_F(WritebackPass, IntegrityLeavesLaterDirtAndSaysHowMuchIsSafe) {
  dirty(0, 10);
  EXPECT_EQ(snapshot(), 10 * kPageBytes);
  dirty(10, 5);
  EXPECT_EQ(pass(6, PageTag::kToWrite), range(0, 6));
  EXPECT_TRUE(last_.more);
  EXPECT_EQ(last_.first_left, 6U);
  dirty(2, 1);
  EXPECT_EQ(pass(UINT32_MAX, PageTag::kToWrite), range(6, 10));
  EXPECT_FALSE(last_.more) << "what was dirtied since is no part of it";
  EXPECT_EQ(inode_->mapping().dirty_pages(), 6U);
}

TEST_F(WritebackPass, CostsWhatIsDirtyAndHoldsTheLockForAFewPages) {
  constexpr std::uint64_t kFile = 2'000;
  constexpr std::uint32_t kHold = 64;
  dirty(0, kFile);
  EXPECT_EQ(pass(UINT32_MAX).size(), kFile);
  EXPECT_EQ(last_.visited, kFile);
  EXPECT_EQ(last_.most_per_hold, kHold);
  for (std::uint64_t i = 0; i < 10; ++i) dirty(i * 190, 1);
  (void)snapshot();
  EXPECT_EQ(last_.visited, 10U) << "clean pages cost nothing";
  EXPECT_EQ(pass(UINT32_MAX, PageTag::kToWrite).size(), 10U);
  EXPECT_EQ(last_.visited, 10U);
  // Round in slices: each page once, whatever lies before the place where a pass begins.
  dirty(0, kFile);
  std::uint64_t visited = 0;
  std::uint64_t written = 0;
  do {
    written += pass(70).size();
    visited += last_.visited;
  } while (last_.more);
  EXPECT_EQ(written, kFile);
  EXPECT_EQ(visited, kFile);
  dirty(0, kFile);
  (void)snapshot();
  EXPECT_EQ(last_.visited, kFile);
  EXPECT_EQ(last_.most_per_hold, kHold);
  EXPECT_EQ(pass(UINT32_MAX, PageTag::kToWrite).size(), kFile);
}

// Against sets of indexes.
TEST_F(WritebackPass, RandomSequencesAgreeWithAModel) {
  for (std::uint64_t seed = 1, n = loop_length(20); seed <= n; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    World world({.budget_bytes = 4U << 20});
    InodeHold inode = world.create(1);
    std::set<std::uint64_t> dirty;
    std::set<std::uint64_t> marked;
    std::uint64_t next = 0;  // where background goes on
    std::uint64_t pages = 0;
    WritebackPages out;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t what = rng.below(10);
      if (what < 5) {
        const std::uint64_t first = rng.below(150);
        const std::uint64_t count = 1 + rng.below(20);
        (void)world.pages->write(*inode, first * kPageBytes, bytes_of(count * kPageBytes, 1), Instant{1});
        for (std::uint64_t k = first; k < first + count; ++k) dirty.insert(k);
        pages = std::max(pages, first + count);
      } else if (what == 5) {
        const std::uint64_t end = rng.below(160);
        (void)world.pages->truncate(*inode, end * kPageBytes, Instant{1});
        dirty.erase(dirty.lower_bound(end), dirty.end());
        marked.erase(marked.lower_bound(end), marked.end());
        pages = end;
      } else if (what == 6) {
        ASSERT_EQ(world.pages->tag_to_write(*inode, out), pages * kPageBytes);
        marked = dirty;
      } else {
        const bool integrity = what == 7;
        const auto budget = static_cast<std::uint32_t>(1 + rng.below(60));
        std::set<std::uint64_t>& from = integrity ? marked : dirty;
        const bool round = !integrity && from.lower_bound(next) != from.end();
        auto at = round ? from.lower_bound(next) : from.begin();
        const std::uint64_t start = round ? next : 0;
        std::vector<std::uint64_t> expected;
        for (; at != from.end() && expected.size() < budget; ++at) expected.push_back(*at);
        const bool cut = at != from.end();
        out.clear();
        world.pages->begin_writeback(*inode, out, budget, integrity ? PageTag::kToWrite : PageTag::kDirty);
        std::vector<std::uint64_t> got;
        for (const Page* page : out.pages) got.push_back(page->index);
        ASSERT_EQ(got, expected);
        for (const std::uint64_t index : got) {
          dirty.erase(index);
          marked.erase(index);
        }
        if (!integrity) next = cut ? expected.back() + 1 : 0;
        ASSERT_EQ(out.more, cut || (start != 0 && !dirty.empty()));
        if (out.more) {
          ASSERT_EQ(out.first_left, integrity ? *marked.begin() : *dirty.begin());
        }
        const bool ok = rng.below(4) != 0;
        world.pages->end_writeback(*inode, out.pages, ok);
        if (!ok) dirty.insert(got.begin(), got.end());
      }
      MutexLock lock(inode->mapping().mutex());
      inode->mapping().check_invariants_locked();
      ASSERT_EQ(inode->mapping().dirty_pages(), dirty.size());
      ASSERT_EQ(inode->mapping().to_write_pages_locked(), marked.size());
    }
  }
}

// ---- beside a writer ----

constexpr sim::Options kSchedules{.schedules = 60, .cpus = 2};

// It appends until the snapshot is taken and its pages are too, a page whenever the lock is free.
SIM_TEST_WITH(WritebackPassSim, ASnapshotEndsBesideAnAppenderThatNeverStops, kSchedules) {
  World world({.budget_bytes = 2U << 20, .stripes = 2});
  InodeHold inode = world.create(1);
  constexpr std::uint64_t kBefore = 140;  // three holds
  constexpr std::uint64_t kMost = 300;
  const auto page = bytes_of(kPageBytes, 1);
  (void)world.pages->write(*inode, 0, bytes_of(kBefore * kPageBytes, 1), Instant{1});
  Atomic<bool> ended{false};
  Thread appender("appender", [&] {
    for (std::uint64_t at = kBefore; at < kMost && !ended.load(std::memory_order_acquire); ++at) {
      SIM_CHECK(*world.pages->write(*inode, at * kPageBytes, page, Instant{1}) == kPageBytes);
    }
  });
  WritebackPages pages;
  const std::uint64_t size = world.pages->tag_to_write(*inode, pages);
  world.pages->begin_writeback(*inode, pages, UINT32_MAX, PageTag::kToWrite);
  ended.store(true, std::memory_order_release);
  SIM_CHECK(!pages.more);
  SIM_CHECK(pages.pages.size() == size / kPageBytes);
  SIM_CHECK(pages.pages.back()->index + 1 == size / kPageBytes);
  appender.join();
  world.pages->end_writeback(*inode, pages.pages, true);
}

// Whatever the schedule: what was written before the snapshot is in it or was written meanwhile.
SIM_TEST_WITH(WritebackPassSim, ASnapshotMissesNothingThatWasDirtyBefore, kSchedules) {
  World world({.budget_bytes = 1U << 20, .stripes = 2});
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(6 * kPageBytes, 1), Instant{1});
  Thread overwriter("overwriter", [&] {
    for (const std::uint64_t index : {5U, 0U, 7U, 3U}) {
      (void)world.pages->write(*inode, index * kPageBytes + 10, bytes_of(50, 2), Instant{2});
    }
  });
  WritebackPages pages;
  const std::uint64_t size = world.pages->tag_to_write(*inode, pages);
  world.pages->begin_writeback(*inode, pages, UINT32_MAX, PageTag::kToWrite);
  std::uint64_t found = 0;
  for (const Page* page : pages.pages) found += page->index < 6 ? 1 : 0;
  SIM_CHECK(found == 6);
  SIM_CHECK(size >= 6 * kPageBytes);
  {
    MutexLock lock(inode->mapping().mutex());
    inode->mapping().check_invariants_locked();
  }
  world.pages->end_writeback(*inode, pages.pages, true);
  overwriter.join();
  world.engine.write_all();
  SIM_CHECK(inode->mapping().dirty_pages() == 0);
}

}  // namespace
}  // namespace tidewheel
