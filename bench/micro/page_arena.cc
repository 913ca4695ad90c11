// Question: what does a page of memory cost a writer, when it is used again and when it is touched for the
// first time, against letting the kernel fault it in on first use?
// Expected (the machine of docs/results.md): reused about 20 ns without the copy; a first touch by fault 1.7
// us with 4 KiB pages; populated 0.4 to 0.6 us per page with huge pages where the host has memory behind
// them, up to 11 us where it has not (a guest's first touch is its host's first touch too).
// Each iteration writes one word to the page it gets, so that lazily mapped memory is paid for.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

#include "inode/page_arena.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBytes = 512ULL << 20;

struct Fixture {
  explicit Fixture(bool huge_pages)
      : budget(kBytes + (kBytes / 16), 0),
        arena(std::move(
            PageArena::make(budget, {.max_bytes = kBytes, .reserve_bytes = 0, .huge_pages = huge_pages})
                .value())) {}
  MemoryBudget budget;
  std::unique_ptr<PageArena> arena;
};

std::unique_ptr<Fixture> shared;

void touch(std::byte* data) {
  *reinterpret_cast<volatile std::uint64_t*>(data) = 1;
}

// A working set of 64 pages taken and given back: what a steady writer sees.
void reused(benchmark::State& state) {
  if (state.thread_index() == 0) {
    shared = std::make_unique<Fixture>(true);
    shared->arena->populate_ahead(16ULL << 20);
  }
  std::vector<Page*> pages(64);
  for (auto _ : state) {
    for (Page*& page : pages) {
      page = shared->arena->allocate();
      touch(page->data);
    }
    for (Page* page : pages) shared->arena->free(*page);
  }
  state.SetItemsProcessed(state.iterations() * 64);
  if (state.thread_index() == 0) {
    const PageArenaStats stats = shared->arena->stats();
    state.counters["populate_calls"] = static_cast<double>(stats.populate_calls);
    state.counters["fresh_share"] =
        static_cast<double>(stats.fresh_pages) / static_cast<double>(stats.fresh_pages + stats.reused_pages);
    // Every page is free again: the shared arena checks itself, untimed.
    if (stats.free_pages != stats.populated_pages && state.threads() == 1) {
      state.SkipWithError("a page is lost");
    }
  }
}

// Pages that were never used: populated in chunks by the arena on the way.
void fresh(benchmark::State& state) {
  const bool huge = state.range(0) != 0;
  auto fixture = std::make_unique<Fixture>(huge);
  for (auto _ : state) {
    Page* page = fixture->arena->allocate();
    if (page == nullptr) {
      state.PauseTiming();
      fixture.reset();
      fixture = std::make_unique<Fixture>(huge);
      state.ResumeTiming();
      page = fixture->arena->allocate();
    }
    touch(page->data);
  }
  state.SetItemsProcessed(state.iterations());
}

// The naive way: an anonymous mapping, each page faulted in by its first use.
void fault(benchmark::State& state) {
  constexpr std::uint64_t kMapped = 256ULL << 20;
  std::byte* memory = nullptr;
  std::uint64_t at = kMapped;
  for (auto _ : state) {
    if (at == kMapped) {
      state.PauseTiming();
      if (memory != nullptr) munmap(memory, kMapped);
      memory = static_cast<std::byte*>(
          mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      (void)madvise(memory, kMapped, MADV_NOHUGEPAGE);
      at = 0;
      state.ResumeTiming();
    }
    touch(memory + at);
    at += kPageBytes;
  }
  munmap(memory, kMapped);
  state.SetItemsProcessed(state.iterations());
}

// Naive too: memory from the heap for each page, given back to it.
void heap(benchmark::State& state) {
  std::vector<std::byte*> pages(64);
  for (auto _ : state) {
    for (std::byte*& page : pages) {
      page = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kPageBytes));
      touch(page);
    }
    for (std::byte* page : pages) std::free(page);
  }
  state.SetItemsProcessed(state.iterations() * 64);
}

BENCHMARK(reused)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(heap)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(fresh)->Arg(0)->Arg(1)->ArgName("huge");
BENCHMARK(fault);

}  // namespace
}  // namespace tidewheel
