#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/counter.h"
#include "base/thread.h"
#include "inode/page_arena.h"

namespace tidewheel {
namespace {

std::unique_ptr<PageArena> arena_of(MemoryBudget& budget, std::uint64_t max_bytes,
                                    std::uint64_t reserve_bytes = 0) {
  return PageArena::make(budget,
                         {.max_bytes = max_bytes, .reserve_bytes = reserve_bytes, .huge_pages = false})
      .value();
}

TEST(PageArena, HandsOutDistinctAlignedPages) {
  MemoryBudget budget(64ULL << 20, 0);
  auto arena = arena_of(budget, 16ULL << 20);
  std::set<std::byte*> seen;
  std::vector<Page*> pages;
  for (int i = 0; i < 2000; ++i) {
    Page* page = arena->allocate();
    ASSERT_NE(page, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page->data) % kPageBytes, 0U) << "O_DIRECT needs it";
    EXPECT_TRUE(seen.insert(page->data).second);
    EXPECT_EQ(&arena->page_of(page->data + 4095), page);
    std::memset(page->data, i, kPageBytes);
    pages.push_back(page);
  }
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(pages[i]->data[4095], static_cast<std::byte>(i));
  for (Page* page : pages) arena->free(*page);
  arena->check_invariants();
}

TEST(PageArena, UsesFreedPagesAgainBeforeItTouchesNewOnes) {
  MemoryBudget budget(256ULL << 20, 0);
  auto arena = arena_of(budget, 16ULL << 20);
  std::vector<Page*> pages;
  for (int i = 0; i < 1000; ++i) pages.push_back(arena->allocate());
  const PageArenaStats first = arena->stats();
  EXPECT_EQ(first.fresh_pages, 1000U);
  EXPECT_EQ(first.reused_pages, 0U);
  EXPECT_EQ(first.populate_calls, 2U) << "1,000 pages are two chunks of 512";
  for (int round = 0; round < 5; ++round) {
    for (Page* page : pages) arena->free(*page);
    for (Page*& page : pages) page = arena->allocate();
  }
  const PageArenaStats last = arena->stats();
  EXPECT_EQ(last.populate_calls, first.populate_calls);
  // 24 pages of the second chunk were free all the time and may come out for the first time.
  EXPECT_LE(last.fresh_pages, 1024U);
  EXPECT_EQ(last.fresh_pages + last.reused_pages, 6000U);
  EXPECT_EQ(last.populated_pages, 1024U);
  for (Page* page : pages) arena->free(*page);
}

TEST(PageArena, StopsExactlyAtTheBudget) {
  constexpr std::uint64_t kPages = 1000;
  MemoryBudget budget(kPages * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 64ULL << 20);
  std::vector<Page*> pages;
  while (Page* page = arena->allocate()) pages.push_back(page);
  EXPECT_EQ(pages.size(), kPages);
  EXPECT_EQ(budget.charged_bytes(), kPages * PageArena::kChargedPerPage);
  arena->free(*pages.back());
  EXPECT_EQ(arena->allocate(), pages.back());
  for (Page* page : pages) arena->free(*page);
  arena.reset();
  EXPECT_EQ(budget.charged_bytes(), 0U);
}

TEST(PageArena, StopsAtItsReservationWhenTheBudgetHasMore) {
  MemoryBudget budget(1ULL << 30, 0);
  auto arena = arena_of(budget, 100 * kPageBytes);
  std::vector<Page*> pages;
  while (Page* page = arena->allocate()) pages.push_back(page);
  EXPECT_EQ(pages.size(), 100U);
  EXPECT_EQ(budget.charged_bytes(), 100 * PageArena::kChargedPerPage);
  for (Page* page : pages) arena->free(*page);
}

TEST(PageArena, TheReserveServesWritebackAloneAndIsFilledAgainFirst) {
  MemoryBudget budget(100 * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 1ULL << 20, 10 * kPageBytes);
  std::vector<Page*> pages;
  while (Page* page = arena->allocate()) pages.push_back(page);
  EXPECT_EQ(pages.size(), 90U);
  std::vector<Page*> reserved;
  while (Page* page = arena->allocate(AllocateFor::kWriteback)) reserved.push_back(page);
  EXPECT_EQ(reserved.size(), 10U);
  arena->free(*pages.back());
  pages.pop_back();
  EXPECT_EQ(arena->allocate(), nullptr) << "what is freed fills the reserve first";
  Page* again = arena->allocate(AllocateFor::kWriteback);
  EXPECT_NE(again, nullptr);
  reserved.push_back(again);
  for (Page* page : pages) arena->free(*page);
  for (Page* page : reserved) arena->free(*page);
  arena->check_invariants();
}

TEST(PageArena, ReleasesFreePagesToTheBudgetAndTakesThemBack) {
  MemoryBudget budget(600 * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 600 * kPageBytes);
  std::vector<Page*> pages;
  while (Page* page = arena->allocate()) pages.push_back(page);
  for (Page* page : pages) {
    std::memset(page->data, 7, kPageBytes);
    arena->free(*page);
  }
  EXPECT_EQ(arena->release(100 * kPageBytes), 100 * kPageBytes);
  EXPECT_EQ(budget.charged_bytes(), 500 * PageArena::kChargedPerPage);
  EXPECT_EQ(arena->stats().released_pages, 100U);
  arena->check_invariants();
  std::vector<Page*> again;
  while (Page* page = arena->allocate()) again.push_back(page);
  EXPECT_EQ(again.size(), 600U);
  EXPECT_EQ(arena->release(kPageBytes), 0U) << "nothing is free";
  for (Page* page : again) arena->free(*page);
}

TEST(PageArena, WhatItReleasesIsNotResidentAnyMore) {
  MemoryBudget budget(300 * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 300 * kPageBytes);
  std::vector<Page*> pages;
  while (Page* page = arena->allocate()) pages.push_back(page);
  const auto resident = [&] {
    std::size_t n = 0;
    for (const Page* page : pages) {
      unsigned char in_core = 0;
      EXPECT_EQ(mincore(page->data, kPageBytes, &in_core), 0);
      n += in_core & 1U;
    }
    return n;
  };
  EXPECT_EQ(resident(), 300U) << "what is charged is resident, touched or not";
  for (Page* page : pages) arena->free(*page);
  EXPECT_EQ(arena->release(100 * kPageBytes), 100 * kPageBytes);
  EXPECT_EQ(resident(), 200U);
}

// A file without bytes in the middle of the second chunk: the kernel makes pages up to there, then refuses.
TEST(PageArena, KeepsNothingOfWhatTheKernelGaveBeforeItRefused) {
  constexpr std::uint32_t kChunk = PageArena::kChunkPages;
  MemoryBudget budget(256ULL << 20, 0);
  auto arena = arena_of(budget, 2 * kChunk * kPageBytes);
  std::vector<Page*> pages;
  for (std::uint32_t i = 0; i < kChunk; ++i) pages.push_back(arena->allocate());
  ASSERT_EQ(arena->stats().populated_pages, kChunk);
  std::byte* const second = (*std::min_element(pages.begin(), pages.end()))->data + kChunk * kPageBytes;
  constexpr std::uint32_t kBefore = 100, kHole = 100;
  const int empty = memfd_create("empty", MFD_CLOEXEC);
  ASSERT_GE(empty, 0);
  ASSERT_NE(mmap(second + kBefore * kPageBytes, kHole * kPageBytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, empty, 0),
            MAP_FAILED);
  close(empty);
  if (madvise(second + kBefore * kPageBytes, kPageBytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) {
    GTEST_SKIP() << "this kernel does not say that it refuses";
  }
  const auto resident = [&](std::uint32_t first, std::uint32_t count) {
    std::vector<unsigned char> in_core(count);
    EXPECT_EQ(mincore(second + first * kPageBytes, count * kPageBytes, in_core.data()), 0);
    return static_cast<std::uint64_t>(std::count(in_core.begin(), in_core.end(), 1));
  };
  pages.push_back(arena->allocate());
  ASSERT_NE(pages.back(), nullptr) << "what the kernel does give is used, page by page";
  constexpr std::uint32_t kAfter = kBefore + kHole;
  EXPECT_EQ(resident(0, kBefore) + resident(kAfter, kChunk - kAfter), PageArena::kMagazinePages);
  EXPECT_EQ(arena->stats().populated_pages, kChunk + PageArena::kMagazinePages);
  EXPECT_EQ(budget.charged_bytes(), arena->stats().populated_pages * PageArena::kChargedPerPage);
  arena->check_invariants();
  for (Page* page : pages) arena->free(*page);
}

TEST(PageArena, AtTheLimitAThreadGetsWhatAnotherFreed) {
  constexpr std::uint32_t kPages = PageArena::kMagazinePages;  // no more than another's magazine holds
  MemoryBudget budget(kPages * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 1ULL << 20);
  Thread other("other", [&] {
    std::vector<Page*> pages;
    while (Page* page = arena->allocate()) pages.push_back(page);
    EXPECT_EQ(pages.size(), kPages);
    for (Page* page : pages) arena->free(*page);
  });
  other.join();
  std::vector<Page*> pages;
  while (Page* page = arena->allocate()) pages.push_back(page);
  EXPECT_EQ(pages.size(), kPages);
  for (Page* page : pages) arena->free(*page);
}

TEST(PageArena, PopulatesAheadWithinTheBudget) {
  MemoryBudget budget(300 * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 8ULL << 20);
  EXPECT_GE(arena->populate_ahead(200 * kPageBytes), 200 * kPageBytes);
  const auto calls = arena->stats().populate_calls;
  std::vector<Page*> pages;
  for (int i = 0; i < 200; ++i) pages.push_back(arena->allocate());
  EXPECT_EQ(arena->stats().populate_calls, calls) << "nothing is touched on the way";
  EXPECT_LE(arena->populate_ahead(1ULL << 30), 300 * kPageBytes);
  EXPECT_LE(budget.charged_bytes(), 300 * PageArena::kChargedPerPage);
  for (Page* page : pages) arena->free(*page);
}

TEST(PageArena, RefusesNonsense) {
  MemoryBudget budget(1ULL << 20, 0);
  EXPECT_FALSE(PageArena::make(budget, {.max_bytes = 0}));
  EXPECT_FALSE(PageArena::make(budget, {.max_bytes = 1ULL << 60}));
  EXPECT_FALSE(PageArena::make(budget, {.max_bytes = 1ULL << 20, .reserve_bytes = 2ULL << 20}));
  EXPECT_FALSE(PageArena::make(budget, {.max_bytes = 8ULL << 20, .reserve_bytes = 4ULL << 20}))
      << "the budget can't hold the reserve";
  EXPECT_EQ(budget.charged_bytes(), 0U);
}

TEST(PageArena, ManyThreadsShareTheLastPages) {
  constexpr int kThreads = 8;
  constexpr int kPages = 600;
  MemoryBudget budget(kPages * PageArena::kChargedPerPage, 0);
  auto arena = arena_of(budget, 8ULL << 20);
  EXPECT_EQ(arena->populate_ahead(kPages * kPageBytes), kPages * kPageBytes);
  std::vector<Thread> threads;
  ShardedCounter failed;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back("arena", [&, t] {
      for (int round = 0; round < 200; ++round) {
        std::vector<Page*> held;
        for (int i = 0; i < kPages / kThreads; ++i) {
          Page* page = arena->allocate();
          if (page == nullptr) {
            failed.add(1);
            break;
          }
          std::memset(page->data, t, kPageBytes);
          held.push_back(page);
        }
        for (Page* page : held) {
          for (const std::size_t at : {0UL, 2000UL, 4095UL}) {
            EXPECT_EQ(page->data[at], static_cast<std::byte>(t));
          }
          arena->free(*page);
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  // All together never ask for more than there is, and magazines are stolen from: but two thieves can miss
  // what a third is carrying, so a few refusals are no fault.
  EXPECT_LT(failed.sum(), 200);
  EXPECT_EQ(arena->stats().free_pages, arena->stats().populated_pages);
  arena->check_invariants();
}

}  // namespace
}  // namespace tidewheel
