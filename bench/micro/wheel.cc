// What one shard of the time wheel costs, beside the naive ways. One question each; the sketch of the answer
// expected before measuring is in its comment. Results are checked outside the timed region.
//   micro_wheel [--benchmark_filter=...]      ns unless the counter's name says otherwise
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "base/rng.h"
#include "base/sync.h"
#include "bench/micro/interleaved.h"
#include "timerwheel/sharded_wheel.h"
#include "timerwheel/typed.h"

namespace tidewheel::bench {
namespace {

// As large as a small dirty object; two to a pair of lines.
struct alignas(64) Element {
  WheelNode node;
  std::uint32_t shard = 0;
  std::uint32_t next = 0;  // cleaned after this one: its place among the elements
};
using Nodes = WheelElement<Element, &Element::node>;
using FifoList = Bucket::List;  // the kernel's shape: one intrusive list in order of arrival

constinit LockClass bench_class{"bench_fifo", LockRank::kNone};
constinit LockClass bench_wheel_class{"bench_wheel", LockRank::kNone};

std::vector<std::uint32_t> some_order(std::size_t n, bool shuffled) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  Rng rng(n);
  for (std::size_t i = n; shuffled && i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

// ---- first dirty + clean: what does a writer pay? ----
// All elements are dirtied (one each microsecond), then all are cleaned. Expected: a FIFO touches the
// element, the tail and the list head; the wheel the bucket's head instead, and its own line: about 1 ns
// more. arg 0: elements; arg 1: 1 = cleaned in random order (each then misses the cache three times, in
// both). What a lock costs then is not the lock's line: a bare FIFO in a loop has the misses of some eight
// elements under way at once, since their addresses are known ahead. Two ways show how much of its speed that
// is: fifo_fenced has two locked instructions per operation, on a line that nobody else wants, where a lock
// would be taken and dropped; fifo_chained learns from each element which is next, as a program that cleans
// one now and then pays for it.
class Writers {
 public:
  Writers(std::size_t n, bool shuffled) : elements_(n), order_(some_order(n, shuffled)) {
    for (std::size_t i = 0; i < n; ++i) elements_[order_[i]].next = order_[i + 1 == n ? 0 : i + 1];
  }

  double fifo() {
    const Stopwatch watch;
    for (Element& element : elements_) {
      element.node.stamp = tick();
      list_.push_back(element.node);
    }
    for (const std::uint32_t i : order_) list_.erase(FifoList::s_iterator_to(elements_[i].node));
    return per_element(watch);
  }
  double fifo_fenced() {
    const Stopwatch watch;
    for (Element& element : elements_) {
      fence_.fetch_add(1, std::memory_order_acquire);
      element.node.stamp = tick();
      list_.push_back(element.node);
      fence_.fetch_add(1, std::memory_order_release);
    }
    for (const std::uint32_t i : order_) {
      fence_.fetch_add(1, std::memory_order_acquire);
      list_.erase(FifoList::s_iterator_to(elements_[i].node));
      fence_.fetch_add(1, std::memory_order_release);
    }
    return per_element(watch);
  }
  double fifo_chained() {
    const Stopwatch watch;
    for (Element& element : elements_) {
      element.node.stamp = tick();
      list_.push_back(element.node);
    }
    std::uint32_t at = order_[0];
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      list_.erase(FifoList::s_iterator_to(elements_[at].node));
      at = elements_[at].next;
    }
    TW_ASSERT(list_.empty(), "the chain doesn't reach every element");
    return per_element(watch);
  }
  double locked_fifo() {
    const Stopwatch watch;
    for (Element& element : elements_) {
      MutexLock lock(mutex_);
      element.node.stamp = tick();
      list_.push_back(element.node);
    }
    for (const std::uint32_t i : order_) {
      MutexLock lock(mutex_);
      list_.erase(FifoList::s_iterator_to(elements_[i].node));
    }
    return per_element(watch);
  }
  double wheel() {
    const Stopwatch watch;
    for (Element& element : elements_) wheel_.insert(element.node, tick());
    for (const std::uint32_t i : order_) wheel_.remove(elements_[i].node);
    const double ns = per_element(watch);
    TW_ASSERT(wheel_.listed() == 0, "something stayed");
    return ns;
  }
  double locked_wheel() {
    const Stopwatch watch;
    for (Element& element : elements_) {
      sharded_.insert(element.node, tick(), [&element](std::uint32_t shard) { element.shard = shard; });
    }
    for (const std::uint32_t i : order_) {
      sharded_.remove_if(elements_[i].node, elements_[i].shard, [] { return true; });
    }
    return per_element(watch);
  }
  double ordered_map() {  // sorted by stamp, as if order had to be kept per element
    const Stopwatch watch;
    std::multimap<std::int64_t, Element*> map;
    std::vector<std::multimap<std::int64_t, Element*>::iterator> places;
    places.reserve(elements_.size());
    for (Element& element : elements_) places.push_back(map.emplace_hint(map.end(), tick().ns, &element));
    for (const std::uint32_t i : order_) map.erase(places[i]);
    return per_element(watch);
  }

 private:
  Instant tick() { return now_ = now_ + microseconds(1); }
  double per_element(const Stopwatch& watch) const {
    return watch.ns() / static_cast<double>(elements_.size());
  }

  std::vector<Element> elements_;
  std::vector<std::uint32_t> order_;
  Instant now_;
  FifoList list_;
  Mutex mutex_{bench_class};
  alignas(kCacheLine) Atomic<std::uint32_t> fence_{0};  // pairs with nothing: only its cost counts
  WheelHint hint_;
  Wheel wheel_{WheelOptions{}, hint_};
  ShardedWheel sharded_{ShardedWheelOptions{}};
};

int rounds_for(std::int64_t n) { return n <= 10'000 ? 400 : n <= 1'000'000 ? 15 : 5; }

void first_dirty_and_clean(benchmark::State& state) {
  Writers writers(static_cast<std::size_t>(state.range(0)), state.range(1) != 0);
  std::vector<Way> ways = {{"wheel", [&] { return writers.wheel(); }},
                           {"fifo", [&] { return writers.fifo(); }},
                           {"locked_wheel", [&] { return writers.locked_wheel(); }},
                           {"locked_fifo", [&] { return writers.locked_fifo(); }},
                           {"fifo_fenced", [&] { return writers.fifo_fenced(); }},
                           {"fifo_chained", [&] { return writers.fifo_chained(); }}};
  if (state.range(0) <= 1'000'000) ways.push_back({"ordered_map", [&] { return writers.ordered_map(); }});
  for (Way& way : ways) way.round();  // pools and page tables warm
  interleave(state, rounds_for(state.range(0)), ways);
}
BENCHMARK(first_dirty_and_clean)
    ->ArgNames({"n", "shuffled"})
    ->Args({10'000, 0})
    ->Args({10'000, 1})
    ->Args({1'000'000, 0})
    ->Args({1'000'000, 1})
    ->Args({10'000'000, 0})
    ->Iterations(1)
    ->UseManualTime();

// ---- a hot element: dirtied and cleaned again and again, alone in its shard ----
// Expected: the occupied bit is set and cleared each time and the hint stored: about 3 ns over the FIFO.
void one_element_again_and_again(benchmark::State& state) {
  constexpr int kTimes = 100'000;
  Element element;
  WheelHint hint;
  Wheel wheel(WheelOptions{}, hint);
  FifoList list;
  Instant now;
  interleave(state, 50,
             {{"wheel",
               [&] {
                 const Stopwatch watch;
                 for (int i = 0; i < kTimes; ++i) {
                   wheel.insert(element.node, now = now + nanoseconds(100));
                   wheel.remove(element.node);
                 }
                 return watch.ns() / kTimes;
               }},
              {"fifo", [&] {
                 const Stopwatch watch;
                 for (int i = 0; i < kTimes; ++i) {
                   element.node.stamp = now = now + nanoseconds(100);
                   list.push_back(element.node);
                   benchmark::ClobberMemory();
                   list.erase(FifoList::s_iterator_to(element.node));
                 }
                 return watch.ns() / kTimes;
               }}});
}
BENCHMARK(one_element_again_and_again)->Iterations(1)->UseManualTime();

// ---- hand-over: how long do the locks stop writers when n elements expire? ----
// 16 shards, `slots` occupied in all. Expected: the wheel moves one pointer a slot (about 5 ns) and takes 16
// locks; the list moves every element, each a cache miss at this size; a ring without a bitmap looks at all
// its 16 * 512 slots.
class HandOver {
 public:
  HandOver(std::size_t n, std::uint32_t slots_in_all) : n_(n), slots_in_all_(slots_in_all), elements_(n) {}

  double wheel_us() {
    ShardedWheel& wheel = *wheel_;
    for (std::size_t i = 0; i < n_; ++i) {
      const std::uint32_t place = static_cast<std::uint32_t>(i * slots_in_all_ / n_);  // slot by slot
      WheelShard& shard = wheel.shard(place % kShards);
      MutexLock lock(shard.lock);
      shard.wheel.insert(elements_[i].node, Instant{(first_slot_ + place / kShards) << 27});
    }
    first_slot_ += slots_in_all_ / kShards + 2;
    const Instant now{first_slot_ << 27};
    const Stopwatch watch;
    const std::uint32_t detached = wheel.detach_expired(now - WheelOptions{}.slot, now);
    const double us = watch.ns() * 1e-3;
    TW_ASSERT(detached == slots_in_all_, "not all that expired was detached");
    std::uint32_t cursor = 0;
    WheelNode* out[kMaxClaim];
    std::size_t claimed = 0;
    while (const std::size_t count = wheel.claim(out, cursor, Instant::max(), [](WheelNode&) {})) {
      claimed += count;
    }
    TW_ASSERT(claimed == n_, "not all that expired was handed over");
    return us;
  }
  // One list, as in the kernel: expired elements go from the dirty list to the I/O list one by one.
  double list_us() {
    FifoList dirty;
    FifoList io;
    Rng rng(1);
    for (std::size_t i = 0; i < n_; ++i) {
      elements_[i].node.stamp = Instant{static_cast<std::int64_t>(i)};
      dirty.push_back(elements_[i].node);
    }
    const Instant cutoff{static_cast<std::int64_t>(n_)};
    const Stopwatch watch;
    {
      MutexLock lock(mutex_);
      while (!dirty.empty() && dirty.front().stamp <= cutoff) {
        WheelNode& node = dirty.front();
        dirty.pop_front();
        io.push_front(node);
      }
    }
    const double us = watch.ns() * 1e-3;
    TW_ASSERT(dirty.empty(), "not all that expired was handed over");
    io.clear();
    return us;
  }
  // Rings of buckets that are list objects, and no bitmap: each poll looks at every slot.
  double plain_ring_us() {
    std::vector<std::vector<FifoList>> rings(kShards);
    for (auto& ring : rings) ring = std::vector<FifoList>(512);
    for (std::size_t i = 0; i < n_; ++i) {
      const std::uint32_t place = static_cast<std::uint32_t>(i * slots_in_all_ / n_);
      rings[place % kShards][place / kShards].push_back(elements_[i].node);
    }
    std::vector<FifoList> io(kShards);
    const Stopwatch watch;
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      MutexLock lock(mutex_);
      for (FifoList& slot : rings[shard]) io[shard].splice(io[shard].end(), slot);
    }
    const double us = watch.ns() * 1e-3;
    for (FifoList& list : io) list.clear();
    return us;
  }

 private:
  static constexpr std::uint32_t kShards = 16;
  const std::size_t n_;
  const std::uint32_t slots_in_all_;
  std::vector<Element> elements_;
  Mutex mutex_{bench_class};
  std::unique_ptr<ShardedWheel> wheel_ = std::make_unique<ShardedWheel>(
      ShardedWheelOptions{.shards = kShards, .lock_class = &bench_wheel_class});
  std::int64_t first_slot_ = 0;
};

void hand_over_us(benchmark::State& state) {
  HandOver hand_over(static_cast<std::size_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  interleave(state, state.range(0) > 1'000'000 ? 15 : 40,
             {{"wheel", [&] { return hand_over.wheel_us(); }},
              {"list", [&] { return hand_over.list_us(); }},
              {"plain_ring", [&] { return hand_over.plain_ring_us(); }}});
  state.counters["wheel_us_per_shard"] = state.counters["wheel"] / 16;
}
BENCHMARK(hand_over_us)
    ->ArgNames({"n", "slots"})
    ->Args({150'000, 64})
    ->Args({150'000, 1024})
    ->Args({1'500'000, 64})
    ->Iterations(1)
    ->UseManualTime();

// ---- sync: how long until it is settled what a sync covers? ----
// 8 shards with every slot of their windows full. Expected: 8 locks and 8 pointer swaps, below a microsecond;
// a list needs no cut if stamps are exact, but then every element is looked at: the walk is beside it.
void sync_cut_us(benchmark::State& state) {
  constexpr std::uint32_t kShards = 8;
  constexpr std::uint32_t kSlots = 512;
  const std::size_t n = std::size_t{kShards} * kSlots * 8;
  std::vector<Element> elements(n + 1);
  ShardedWheel wheel{ShardedWheelOptions{.shards = kShards}};
  FifoList list;
  std::int64_t start_ns = 0;
  interleave(state, 40,
             {{"wheel",
               [&] {
                 for (std::size_t i = 0; i < n; ++i) {
                   WheelShard& shard = wheel.shard(static_cast<std::uint32_t>(i % kShards));
                   MutexLock lock(shard.lock);
                   const auto slot = static_cast<std::int64_t>(i / kShards / 8);
                   shard.wheel.insert(elements[i].node, Instant{start_ns + (slot << 27)});
                 }
                 start_ns += std::int64_t{kSlots} << 27;
                 std::optional<ShardedWheel::SyncCut> cut(std::in_place, wheel);
                 const Stopwatch watch;
                 wheel.take_all(*cut);
                 const double us = watch.ns() * 1e-3;
                 wheel.insert(elements[n].node, Instant{start_ns}, [](std::uint32_t) {});
                 WheelNode* out[kMaxClaim];
                 std::size_t claimed = 0;
                 while (const std::size_t count = cut->claim(out, [](WheelNode&) {})) claimed += count;
                 TW_ASSERT(claimed == n, "the sync covers something else than what was listed at its start");
                 TW_ASSERT(elements[n].node.hook.is_linked(), "the sync took what came later");
                 cut.reset();
                 TW_ASSERT(wheel.detach_expired(Instant::max(), Instant{start_ns}) == 1, "one is left");
                 std::uint32_t cursor = 0;
                 TW_ASSERT(wheel.claim(out, cursor, Instant::max(), [](WheelNode&) {}) == 1, "one is left");
                 return us;
               }},
              {"list_walk", [&] {
                 for (Element& element : elements) list.push_back(element.node);
                 std::size_t tagged = 0;
                 const Stopwatch watch;
                 for (WheelNode& node : list) tagged += node.stamp <= Instant{start_ns} ? 1 : 0;
                 const double us = watch.ns() * 1e-3;
                 benchmark::DoNotOptimize(tagged);
                 list.clear();
                 return us;
               }}});
}
BENCHMARK(sync_cut_us)->Iterations(1)->UseManualTime();

// ---- oldest, and an idle day ----
// Expected: the hint is one load. Finding it in a ring without a bitmap is a walk over the empty slots.
void oldest(benchmark::State& state) {
  constexpr int kTimes = 100'000;
  Element element;
  WheelHint hint;
  Wheel wheel(WheelOptions{}, hint);
  wheel.insert(element.node, Instant{0});
  wheel.observe(Instant{500LL << 27});
  std::vector<FifoList> ring(512);
  Element in_ring;
  ring[0].push_back(in_ring.node);
  ShardedWheel sharded{ShardedWheelOptions{.shards = 16}};
  Element in_shard;
  const std::uint32_t shard = sharded.insert(in_shard.node, Instant{0}, [](std::uint32_t) {});
  interleave(state, 50,
             {{"hint",
               [&] {
                 const Stopwatch watch;
                 for (int i = 0; i < kTimes; ++i) benchmark::DoNotOptimize(hint.oldest());
                 return watch.ns() / kTimes;
               }},
              {"sharded_16",
               [&] {
                 const Stopwatch watch;
                 for (int i = 0; i < kTimes; ++i) benchmark::DoNotOptimize(sharded.oldest());
                 return watch.ns() / kTimes;
               }},
              {"plain_ring", [&] {
                 const Stopwatch watch;
                 for (int i = 0; i < kTimes / 100; ++i) {
                   std::uint32_t at = 1;  // behind the head
                   while (ring[at % 512].empty()) benchmark::DoNotOptimize(++at);
                 }
                 return watch.ns() / (kTimes / 100);
               }}});
  TW_ASSERT(hint.oldest() == Instant{0}, "the oldest is wrong");
  TW_ASSERT(sharded.oldest() == Instant{0}, "the oldest is wrong");
  wheel.remove(element.node);
  sharded.remove_if(in_shard.node, shard, [] { return true; });
  ring[0].clear();
}
BENCHMARK(oldest)->Iterations(1)->UseManualTime();

void idle_day(benchmark::State& state) {
  constexpr std::int64_t kDayNs = 86'400'000'000'000;
  constexpr int kTimes = 1000;
  WheelHint hint;
  Wheel wheel(WheelOptions{}, hint);
  Instant now{1};
  wheel.observe(now);
  std::vector<Element> elements(512);
  std::vector<FifoList> ring(512);
  interleave(state, 20,
             {{"wheel",
               [&] {
                 const Stopwatch watch;
                 for (int i = 0; i < kTimes; ++i) wheel.observe(now = now + Duration{kDayNs});
                 return watch.ns() / kTimes;
               }},
              {"wheel_full",  // every slot of the window has something, which becomes ancient
               [&] {
                 for (Element& element : elements) {
                   wheel.insert(element.node, now = now + WheelOptions{}.slot);
                 }
                 const Stopwatch watch;
                 wheel.observe(now = now + Duration{kDayNs});
                 const double ns = watch.ns();
                 for (Element& element : elements) wheel.remove(element.node);
                 return ns;
               }},
              {"plain_ring", [&] {  // turns slot by slot
                 const Stopwatch watch;
                 std::uint64_t full = 0;
                 for (std::int64_t slot = 0; slot < kDayNs >> 27; ++slot) {
                   full += ring[slot % 512].empty() ? 0 : 1;
                 }
                 benchmark::DoNotOptimize(full);
                 return watch.ns();
               }}});
}
BENCHMARK(idle_day)->Iterations(1)->UseManualTime();

}  // namespace
}  // namespace tidewheel::bench
