#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/inode/fakes.h"
#include "tests/trace_recording.h"

namespace tidewheel {
namespace {

using inode_test::bytes_of;
using inode_test::World;

constexpr std::uint64_t kBudget = 4ULL << 20;

TEST(MemoryLimit, CleanPagesMakeRoom) {
  World world({.budget_bytes = kBudget});
  for (InodeNumber number = 0; number < 3000; ++number) {  // 12 MiB through 4 MiB
    InodeHold inode = world.create(number);
    ASSERT_TRUE(
        world.pages->write(*inode, 0, bytes_of(kPageBytes, static_cast<unsigned>(number)), Instant{1}));
    inode.reset();
    world.engine.write_all();
    ASSERT_LE(world.budget.charged_bytes(), kBudget);
  }
  EXPECT_GT(world.pages->stats().reclaimed_pages + world.inodes->stats().evictions, 0U);
  EXPECT_EQ(world.pages->stats().memory_waits, 0U) << "something was always clean";
  for (InodeNumber number = 0; number < 3000; number += 7) {
    std::vector<std::byte> into(kPageBytes);
    ASSERT_EQ(*world.pages->read(*world.get(number), 0, into), kPageBytes);
    EXPECT_EQ(into, bytes_of(kPageBytes, static_cast<unsigned>(number)));
  }
}

TEST(MemoryLimit, EachRoundOfReclaimIsTracedWithWhatItFreed) {
  World world({.budget_bytes = kBudget});
  const TraceRecording recording;
  for (InodeNumber number = 0; number < 1500; ++number) {  // 6 MiB through 4 MiB
    InodeHold inode = world.create(number);
    ASSERT_TRUE(world.pages->write(*inode, 0, bytes_of(kPageBytes, 1), Instant{1}));
    inode.reset();
    world.engine.write_all();
  }
  const auto began = recording.events(TracePoint::mm_vmscan_direct_reclaim_begin);
  const auto ended = recording.events(TracePoint::mm_vmscan_direct_reclaim_end);
  ASSERT_EQ(began.size(), world.pages->stats().reclaim_rounds);
  ASSERT_EQ(ended.size(), began.size());
  ASSERT_FALSE(began.empty());
  std::uint64_t freed = 0;
  for (std::size_t i = 0; i < began.size(); ++i) {
    EXPECT_GT(began[i].arguments[1], 0U) << "something was listed";
    EXPECT_LE(began[i].at_ns, ended[i].at_ns);
    freed += ended[i].arguments[0];
  }
  EXPECT_EQ(freed, world.pages->stats().reclaimed_pages + world.inodes->stats().evictions);
}

TEST(MemoryLimit, WhenAllIsDirtyTheWriterAsksForWritebackAndGoesOn) {
  World world({.budget_bytes = kBudget});
  world.engine.start(/*always=*/false);  // writes only when asked to
  for (InodeNumber number = 0; number < 3000; ++number) {
    InodeHold inode = world.create(number);
    ASSERT_TRUE(
        world.pages->write(*inode, 0, bytes_of(kPageBytes, static_cast<unsigned>(number)), Instant{1}));
  }
  EXPECT_GT(world.engine.requests, 0);
  EXPECT_LE(world.budget.charged_bytes(), kBudget);
}

TEST(MemoryLimit, NoMemoryOnlyWhenNothingCanHelp) {
  World world({.budget_bytes = 1ULL << 20});
  std::vector<InodeHold> held;
  Error error;
  for (InodeNumber number = 0;; ++number) {
    auto inode = world.inodes->create(number, 0);
    if (!inode) {
      error = inode.error();
      break;
    }
    held.push_back(std::move(*inode));
  }
  EXPECT_EQ(error.code, Reason::kNoMemory);
  EXPECT_GT(held.size(), 2500U) << "1 MiB of inodes";
  held.pop_back();
  EXPECT_TRUE(world.inodes->create(1'000'000, 0)) << "one that is not held makes room";
}

TEST(MemoryLimit, InodesMakeRoomForPagesAndPagesForInodes) {
  World world({.budget_bytes = kBudget});
  for (InodeNumber number = 0; number < 40'000; ++number) {
    world.create(number).reset();  // fills it with inodes
  EXPECT_LE(world.budget.charged_bytes(), kBudget);
  }
  InodeHold inode = world.create(1'000'000);
  for (std::uint64_t index = 0; index < 2000; ++index) {
    ASSERT_TRUE(world.pages->write(*inode, index * kPageBytes, bytes_of(kPageBytes, 1), Instant{1}));
    world.engine.write_all();
  }
  EXPECT_LE(world.budget.charged_bytes(), kBudget);
  EXPECT_GT(world.pages->stats().pages, 200U) << "the pages have their share";
  EXPECT_GT(world.inodes->stats().inodes, 200U) << "the inodes have theirs";
}

TEST(MemoryLimit, EightThreadsStayBelowItAndLoseNothing) {
  World world({.budget_bytes = kBudget});
  world.engine.start(/*always=*/true);
  constexpr int kThreads = 8;
  constexpr InodeNumber kFiles = 600;  // each: 19 MiB in all
  std::vector<Thread> threads;
  Atomic<int> over{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back("writer", [&, t] {
      Rng rng(static_cast<std::uint64_t>(t) + 1);
      for (InodeNumber i = 0; i < kFiles; ++i) {
        const InodeNumber number = static_cast<InodeNumber>(t) * kFiles + i;
        {
          auto inode = world.inodes->create(number, 0);
          ASSERT_TRUE(inode);
          const auto data = bytes_of(kPageBytes, static_cast<unsigned>(number));
          ASSERT_TRUE(world.pages->write(**inode, 0, data, Instant{1}));
        }
        if (world.budget.charged_bytes() > kBudget) over.fetch_add(1, std::memory_order_relaxed);
        // Something older, of any thread that far along.
        const InodeNumber other = static_cast<InodeNumber>(t) * kFiles + rng.below(i + 1);
        auto inode = world.inodes->get(other);
        ASSERT_TRUE(inode);
        std::vector<std::byte> into(kPageBytes);
        ASSERT_EQ(*world.pages->read(**inode, 0, into), kPageBytes);
        ASSERT_EQ(into, bytes_of(kPageBytes, static_cast<unsigned>(other)));
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(over.load(std::memory_order_relaxed), 0);
  world.engine.stop();
  world.engine.write_all();
  for (InodeNumber number = 0; number < kThreads * kFiles; ++number) {
    std::vector<std::byte> into(kPageBytes);
    ASSERT_EQ(*world.pages->read(*world.get(number), 0, into), kPageBytes);
    ASSERT_EQ(into, bytes_of(kPageBytes, static_cast<unsigned>(number)));
  }
}

TEST(MemoryLimit, OtherConsumersOfTheBudgetGetCleanPages) {
  World world({.budget_bytes = kBudget});
  InodeHold inode = world.create(1);
  ASSERT_TRUE(world.pages->write(*inode, 0, bytes_of(500 * kPageBytes, 1), Instant{1}));
  world.engine.write_all();
  const std::uint64_t before = world.budget.charged_bytes();
  EXPECT_GE(world.budget.shrink(1ULL << 20), 1ULL << 20);
  EXPECT_LE(world.budget.charged_bytes(), before - (1ULL << 20));
  std::vector<std::byte> into(500 * kPageBytes);
  EXPECT_EQ(*world.pages->read(*inode, 0, into), into.size());
  EXPECT_EQ(into, bytes_of(500 * kPageBytes, 1));
}

}  // namespace
}  // namespace tidewheel
