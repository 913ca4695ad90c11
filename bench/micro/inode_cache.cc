// Questions: what does a look-up that hits cost (time, allocations), against the way that allocates an inode
// first and throws it away on a hit? What does a 4 KiB file cost in this floor (create, write, drop)? A warm
// read of 4 KiB?
// Expected: a hit about 50 ns (two bucket locks: hold and put), nothing allocated; allocate-first half as
// much again and one allocation each; a read about 0.15 us hot.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "base/rng.h"
#include "inode/inode_cache.h"

namespace tidewheel {
namespace {

constexpr InodeNumber kHot = 10'000;

// Accepts everything and writes nothing: what is measured is this floor.
class NullSink final : public DirtySink {
 public:
  Result<DirtyTicket> balance_dirty_pages(Inode&, std::uint64_t bytes, TaskThrottle*) override {
    DirtyTicket ticket;
    ticket.bytes = bytes;
    return ticket;
  }
  void mark_dirty(Inode&, std::uint32_t, Instant, DirtyTicket*) override {}
  void account_dirtied(Inode&, std::uint64_t, DirtyTicket*) override {}
  void account_writeback_started(Inode&, std::uint64_t) override {}
  void account_cleaned(Inode&, std::uint64_t) override {}
  void account_redirtied(Inode&, std::uint64_t) override {}
  void account_cancelled(Inode&, std::uint64_t) override {}
  void cancel(Inode&) override {}
  bool request_writeback(std::uint64_t) override { return false; }
};

class NullSource final : public InodeSource {
 public:
  Result<void> load(Inode& inode) override {
    inode.set_size(kPageBytes);
    return {};
  }
  Result<void> read_pages(Inode&, std::uint64_t, std::span<Page* const>) override { return {}; }
  void truncate(Inode&, std::uint64_t) override {}
  void evict(Inode&) override {}
  void inactivate(Inode&) override {}
};

struct Fixture {
  Fixture()
      : budget(256ULL << 20, 0),
        arena(std::move(PageArena::make(budget, {.max_bytes = 256ULL << 20, .reserve_bytes = 0}).value())),
        pages(*arena, sink, PageCacheOptions{}),
        inodes(pages, source, InodeCacheOptions{.memory_limit_bytes = 256ULL << 20}) {}
  MemoryBudget budget;
  NullSink sink;
  NullSource source;
  std::unique_ptr<PageArena> arena;
  PageCache pages;
  InodeCache inodes;
};

std::unique_ptr<Fixture> shared;

void set_up(benchmark::State& state) {
  if (state.thread_index() != 0) return;
  shared = std::make_unique<Fixture>();
  for (InodeNumber number = 0; number < kHot; ++number) (void)shared->inodes.get(number);
}
void tear_down(benchmark::State& state) {
  if (state.thread_index() == 0) shared.reset();
}

void hit(benchmark::State& state) {
  set_up(state);
  const auto start = state.thread_index() == 0 ? shared->inodes.stats().allocations : 0;
  Rng rng(static_cast<std::uint64_t>(state.thread_index()) + 1);
  for (auto _ : state) {
    auto inode = shared->inodes.get(rng.below(kHot));
    benchmark::DoNotOptimize((*inode)->size());
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    const auto allocations = shared->inodes.stats().allocations - start;
    state.counters["allocations"] = static_cast<double>(allocations);
    if (allocations != 0) state.SkipWithError("a hit allocated");
  }
  tear_down(state);
}

// The naive variant: an inode from the pool before the table is asked, back to the pool on a hit.
void allocate_first(benchmark::State& state) {
  set_up(state);
  static std::unique_ptr<SlabPool> pool;
  if (state.thread_index() == 0) {
    pool = std::make_unique<SlabPool>(
        *shared->arena,
        SlabPool::Type{.name = "naive",
                       .bytes = sizeof(Inode),
                       .construct = [](void* memory, void*, std::uint8_t) { new (memory) Inode; },
                       .destroy = [](void* inode) { static_cast<Inode*>(inode)->~Inode(); },
                       .context = nullptr});
  }
  Rng rng(static_cast<std::uint64_t>(state.thread_index()) + 1);
  for (auto _ : state) {
    void* fresh = pool->allocate();
    auto inode = shared->inodes.get(rng.below(kHot));
    benchmark::DoNotOptimize((*inode)->size());
    pool->free(fresh);
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    state.counters["allocations"] =
        static_cast<double>(pool->allocations()) / static_cast<double>(state.iterations() * state.threads());
    pool.reset();
  }
  tear_down(state);
}

void read_warm_4k(benchmark::State& state) {
  set_up(state);
  Rng rng(static_cast<std::uint64_t>(state.thread_index()) + 1);
  std::vector<std::byte> into(kPageBytes);
  for (auto _ : state) {
    auto inode = shared->inodes.get(rng.below(kHot));
    auto got = shared->pages.read(**inode, 0, into);
    if (!got || *got != kPageBytes) state.SkipWithError("a read was short");
  }
  state.SetItemsProcessed(state.iterations());
  tear_down(state);
}

// A file's life in this floor without the engine: create, write, unlink, drop.
void create_write_drop(benchmark::State& state) {
  set_up(state);
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)), std::byte{1});
  InodeNumber number = 1'000'000 * (static_cast<InodeNumber>(state.thread_index()) + 1);
  for (auto _ : state) {
    auto inode = shared->inodes.create(number++, 0);
    auto written = shared->pages.write(**inode, 0, data, Instant{1});
    if (!written || *written != data.size()) state.SkipWithError("a write was short");
    shared->inodes.unlink(**inode);
  }
  state.SetItemsProcessed(state.iterations());
  tear_down(state);
}

BENCHMARK(hit)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(allocate_first)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(read_warm_4k)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(create_write_drop)->Arg(0)->Arg(4096)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace tidewheel
