// Question: what does a buffer look-up that hits cost, in time and allocations, against the variant that
// allocates a buffer before it asks the table (seed 3's "before")? With one thread and with two.
// Expected: a hit about 25 to 40 ns (one bucket lock, one count, and the release), nothing allocated;
// allocate-first about 60 ns more: a charge, new, free, and one allocation each.
#include <benchmark/benchmark.h>

#include <memory>

#include "base/rng.h"
#include "base/thread.h"
#include "bench/micro/interleaved.h"
#include "fs/block/null_device.h"
#include "fs/buf/buffer_cache.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kHot = 10'000;
constexpr int kLookups = 200'000;

disk::Geometry any_geometry() {
  disk::Geometry geometry;
  geometry.device_blocks = 1 << 20;
  geometry.ag_blocks = 1 << 18;
  geometry.ag_count = 4;
  geometry.ag_block_log = 18;
  return geometry;
}

struct Fixture {
  explicit Fixture(BufferLookup lookup)
      : budget(512ULL << 20, 0),
        device(std::uint64_t{1 << 20} * kFsBlockBytes),
        cache(budget, {.lookup = lookup, .expected_buffers = kHot}),
        target(cache, device, any_geometry()) {
    for (std::uint64_t i = 0; i < kHot; ++i) (void)cache.hold(target, {i}, 1);
  }
  MemoryBudget budget;
  NullDevice device;
  BufferCache cache;
  BufferTarget target;
};

double ns_per_lookup(Fixture& fixture, std::uint32_t threads) {
  const auto work = [&fixture](std::uint64_t seed) {
    Rng rng(seed);
    for (int i = 0; i < kLookups; ++i) {
      auto held = fixture.cache.hold(fixture.target, {rng.below(kHot)}, 1);
      benchmark::DoNotOptimize(held->get());
    }
  };
  const bench::Stopwatch watch;
  if (threads == 1) {
    work(1);
  } else {
    std::vector<Thread> all;
    for (std::uint32_t t = 0; t < threads; ++t) all.emplace_back("look-up", [&work, t] { work(t + 1); });
    for (Thread& thread : all) thread.join();
  }
  return watch.ns() / kLookups;
}

void lookup_hit(benchmark::State& state) {
  Fixture hit(BufferLookup::kHit), first(BufferLookup::kAllocateFirst);
  const auto threads = static_cast<std::uint32_t>(state.range(0));
  const BufferStats hit_before = hit.cache.stats(), first_before = first.cache.stats();
  bench::interleave(state, 15,
                    {{"allocate_first_ns", [&] { return ns_per_lookup(first, threads); }},
                     {"hit_ns", [&] { return ns_per_lookup(hit, threads); }}});
  const auto per_hit = [](const BufferStats& now, const BufferStats& then) {
    return static_cast<double>(now.allocations - then.allocations) /
           static_cast<double>(now.hits - then.hits);
  };
  state.counters["allocations_per_hit"] = per_hit(hit.cache.stats(), hit_before);
  state.counters["allocations_per_hit_first"] = per_hit(first.cache.stats(), first_before);
  if (hit.cache.stats().allocations != hit_before.allocations) state.SkipWithError("a hit allocated");
  if (hit.cache.stats().misses != hit_before.misses) state.SkipWithError("a look-up missed");
}
BENCHMARK(lookup_hit)->Arg(1)->Arg(2)->Iterations(1)->UseManualTime();

}  // namespace
}  // namespace tidewheel
