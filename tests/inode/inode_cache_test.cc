#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "tests/heap_count.h"
#include "tests/inode/fakes.h"
#include "writeback/error_sequence.h"

namespace tidewheel {
namespace {

using inode_test::bytes_of;
using inode_test::World;
using tests::heap_allocations;

TEST(InodeCache, AHitAllocatesNothing) {
  World world;
  for (InodeNumber number = 0; number < 1000; ++number) world.create(number).reset();
  const auto pool_before = world.inodes->stats().allocations;
  const auto heap_before = heap_allocations();
  for (int round = 0; round < 3; ++round) {
    for (InodeNumber number = 0; number < 1000; ++number) {
      if (!world.inodes->find(number)) std::abort();
      auto hold = world.inodes->get(number);
      if (!hold || (*hold)->number() != number) std::abort();
    }
  }
  EXPECT_EQ(heap_allocations(), heap_before);
  EXPECT_EQ(world.inodes->stats().allocations, pool_before);
  EXPECT_EQ(world.inodes->stats().hits, 6000U);
  auto made = std::make_unique<int>(1);
  EXPECT_GT(heap_allocations(), heap_before) << "the counter counts";
}

TEST(InodeCache, AWarmReadAndAnOverwriteAllocateNothing) {
  World world;
  InodeHold inode = world.create(1);
  const auto data = bytes_of(20 * kPageBytes, 1);
  std::vector<std::byte> into(data.size());
  (void)world.pages->write(*inode, 0, data, Instant{1});
  (void)world.pages->read(*inode, 0, into);
  const auto heap_before = heap_allocations();
  const auto arena_before = world.arena->stats();
  (void)world.pages->write(*inode, 100, std::span(data).first(9 * kPageBytes), Instant{2});
  (void)world.pages->read(*inode, 0, into);
  EXPECT_EQ(heap_allocations(), heap_before);
  const auto arena_after = world.arena->stats();
  EXPECT_EQ(arena_after.fresh_pages + arena_after.reused_pages,
            arena_before.fresh_pages + arena_before.reused_pages);
}

TEST(InodeCache, ACleanInodeTakesAtMost600Bytes) {
  World world;
  constexpr InodeNumber kInodes = 20'000;
  for (InodeNumber number = 0; number < kInodes; ++number) world.store.add(number, 100);
  for (InodeNumber number = 0; number < kInodes; ++number) world.get(number).reset();
  const InodeCacheStats stats = world.inodes->stats();
  ASSERT_EQ(stats.inodes, kInodes);
  // Slabs with their descriptors, and a bucket each where the table is sized for it.
  const double each = static_cast<double>(stats.bytes) / kInodes + sizeof(Inode*);
  RecordProperty("bytes_per_clean_inode", std::to_string(each));
  std::printf("[          ] %.1f bytes per clean inode (sizeof %zu)\n", each, sizeof(Inode));
  EXPECT_LE(each, 600.0);
#if !TW_SIM
  EXPECT_LE(each, 400.0);
#endif
}

// Numbers spread evenly over a dirty list that goes by hash, whatever address an inode got.
TEST(InodeCache, AnInodesHashIsItsNumbers) {
  World world;
  std::array<int, 4> lists{};
  for (InodeNumber number = 0; number < 255 * 4; ++number) {
    InodeHold inode = world.create(number);
    ASSERT_NE(inode->hash(), 0U);
    ++lists[inode->hash() % lists.size()];
  }
  for (const int inodes : lists) EXPECT_NEAR(inodes, 255, 8);
}

TEST(InodeCache, LoadsOnceAndRebuildsAfterEviction) {
  World world;
  world.store.add(5, 1234);
  InodeHold first = world.get(5);
  InodeHold second = world.get(5);
  EXPECT_EQ(first.get(), second.get());
  EXPECT_EQ(world.store.loads, 1);
  EXPECT_EQ(world.inodes->evict(10), 0U) << "it is held";
  second.reset();
  EXPECT_EQ(world.inodes->evict(10), 0U) << "still held once";
  first.reset();
  EXPECT_EQ(world.inodes->evict(10), 1U);
  EXPECT_FALSE(world.inodes->find(5));
  EXPECT_EQ(world.get(5)->size(), 1234U);
  EXPECT_EQ(world.store.loads, 2);
}

TEST(InodeCache, AFailedLoadLeavesNothingBehind) {
  World world;
  EXPECT_EQ(world.inodes->get(9).error().code, Reason::kNotFound);
  world.store.add(9, 1);
  world.store.fail_loads = true;
  EXPECT_EQ(world.inodes->get(9).error().code, Reason::kIo);
  EXPECT_EQ(world.inodes->stats().inodes, 0U);
  world.store.fail_loads = false;
  EXPECT_TRUE(world.inodes->get(9));
}

TEST(InodeCache, CreateRefusesANumberThatIsThere) {
  World world;
  InodeHold inode = world.create(1);
  EXPECT_EQ(world.inodes->create(1, 0).error().code, Reason::kExists);
  world.inodes->unlink(*inode);
  EXPECT_EQ(world.inodes->create(1, 0).error().code, Reason::kBusy);
  inode.reset();
  EXPECT_TRUE(world.inodes->create(1, 0));
}

TEST(InodeCache, DirtyInodesStayUntilTheyAreWritten) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(5000, 1), Instant{1});
  inode.reset();
  EXPECT_EQ(world.inodes->evict(10), 0U);
  world.engine.write_all();
  EXPECT_EQ(world.inodes->evict(10), 1U);
  EXPECT_EQ(world.pages->stats().pages, 0U) << "its pages went with it";
  std::vector<std::byte> into(5000);
  EXPECT_EQ(*world.pages->read(*world.get(1), 0, into), 5000U);
  EXPECT_EQ(into, bytes_of(5000, 1));
}

TEST(InodeCache, AnInodeThatReclaimFoundDirtyIsListedAgainWhenWritten) {
  World world;
  InodeHold inode = world.create(1);
  inode.reset();  // clean, unheld: listed
  inode = world.get(1);
  (void)world.pages->write(*inode, 0, bytes_of(10, 1), Instant{1});
  inode.reset();
  EXPECT_EQ(world.inodes->evict(10), 0U);
  EXPECT_EQ(world.inodes->stats().lists.listed, 0U) << "dirty ones are not walked over again and again";
  world.engine.write_all();
  EXPECT_EQ(world.inodes->stats().lists.listed, 1U);
}

TEST(InodeCache, UnlinkDropsDirtWithTheLastHold) {
  World world;
  InodeHold inode = world.create(1);
  (void)world.pages->write(*inode, 0, bytes_of(50'000, 1), Instant{1});
  InodeHold other = inode.clone();
  world.inodes->unlink(*inode);
  EXPECT_FALSE(world.inodes->find(1));
  EXPECT_EQ(world.inodes->get(1).error().code, Reason::kNotFound);
  inode.reset();
  std::vector<std::byte> into(50'000);
  EXPECT_EQ(*world.pages->read(*other, 0, into), 50'000U) << "who has it open still reads it";
  other.reset();
  EXPECT_EQ(world.engine.dirty.sum(), 0);
  EXPECT_EQ(world.engine.listed(), 0U);
  EXPECT_EQ(world.store.inactivations, 1);
  EXPECT_EQ(world.inodes->stats().inodes, 0U);
  EXPECT_EQ(world.pages->stats().pages, 0U);
}

TEST(InodeCache, MemoryIsUsedAgainWithNothingLeftOver) {
  World world;
  InodeHold inode = world.create(1);
  inode->store_data[0] = 77;
  (void)world.pages->write(*inode, 0, bytes_of(10, 1), Instant{1});
  world.inodes->unlink(*inode);
  Inode* memory = inode.get();
  inode.reset();
  InodeHold again = world.create(2);
  EXPECT_EQ(again.get(), memory);
  EXPECT_EQ(again->store_data[0], 0U);
  EXPECT_EQ(again->size(), 0U);
  EXPECT_EQ(again->links, 1U);
  EXPECT_TRUE(again->state().clean());
}

TEST(InodeCache, EvictsTheColdOnesFirst) {
  World world;
  for (InodeNumber number = 0; number < 15; ++number) world.create(number).reset();
  for (InodeNumber number = 0; number < 15; number += 3) world.get(number).reset();  // referenced
  EXPECT_EQ(world.inodes->evict(10), 10U);
  for (InodeNumber number = 0; number < 15; ++number) {
    EXPECT_EQ(static_cast<bool>(world.inodes->find(number)), number % 3 == 0) << number;
  }
}

// Reclaim walks over nothing dirty: it comes to the lists when it has been written.
TEST(InodeCache, WhatIsDirtyIsOnNoReclaimList) {
  World world;
  InodeHold inode = world.create(1);
  ASSERT_EQ(*world.pages->write(*inode, 0, bytes_of(10, 1), Instant{1}), 10U);
  inode.reset();
  EXPECT_EQ(world.inodes->stats().lists.listed, 0U);
  EXPECT_EQ(world.pages->stats().lists.listed, 0U);
  world.engine.write_all();
  EXPECT_EQ(world.inodes->stats().lists.listed, 1U);
  EXPECT_EQ(world.pages->stats().lists.listed, 1U);
}

// An inode begins as a new one, whatever the memory was used for before.
TEST(InodeCache, TheNextInodeInTheSameMemoryInheritsNothing) {
  World world;
  InodeHold first = world.create(1);
  const Inode* const memory = &*first;
  ASSERT_EQ(*world.pages->write(*first, 0, bytes_of(10 * kPageBytes, 1), Instant{1}), 10 * kPageBytes);
  {
    // Background stops half way, where it would go on.
    WritebackPages part;
    world.pages->begin_writeback(*first, part, 4);
    world.pages->end_writeback(*first, part.pages, true);
  }
  ErrorSequence::record(first->write_errors, Reason::kIo);
  for (int round = 0; round < OwnerVote::kForeignRounds; ++round) {
    first->owner_vote.dirtied_by(5);
    EXPECT_EQ(first->owner_vote.round_ended(0), kNoContext);
  }
  world.inodes->unlink(*first);
  first.reset();
  InodeHold second = world.create(2);
  ASSERT_EQ(&*second, memory);
  EXPECT_EQ(second->size(), 0U);
  EXPECT_EQ(ErrorSequence::untold(second->write_errors), Reason::kOk);
  second->owner_vote.dirtied_by(5);
  EXPECT_EQ(second->owner_vote.round_ended(0), kNoContext);
  ASSERT_EQ(*world.pages->write(*second, 0, bytes_of(10 * kPageBytes, 1), Instant{1}), 10 * kPageBytes);
  WritebackPages pages;
  world.pages->begin_writeback(*second, pages, 4);
  EXPECT_EQ(pages.pages[0]->index, 0U);
  world.pages->end_writeback(*second, pages.pages, true);
}

}  // namespace
}  // namespace tidewheel
