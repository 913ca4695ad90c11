// Writers on more threads than cores and a flusher: one FIFO under one mutex against the sharded wheel.
// Question: how often does a writer meet a lock that is held, how long does it wait, and what does that cost?
// Expected: with one lock each preempted holder stops everyone for a time slice (tens of ms); with 16 shards,
// one thread in some. Counted exactly: contended acquisitions per million, waits (totals; the longest says
// little).
//   micro_wheel_threads
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/sync.h"
#include "base/thread.h"
#include "bench/micro/interleaved.h"
#include "timerwheel/sharded_wheel.h"
#include "timerwheel/typed.h"

namespace tidewheel::bench {
namespace {

constinit LockClass fifo_lock{"threads_fifo", LockRank::kNone};
constinit LockClass wheel_lock{"threads_wheel", LockRank::kNone};

constexpr Duration kExpire = {2'000'000};  // 2 ms, so that the flusher has work in a short run

// state: 0 clean, 1 claimed, 2 + shard listed. Written under the shard's lock, except claimed -> clean:
// release there pairs with acquire in the writer's load.
struct alignas(64) Element {
  WheelNode node;
  Atomic<std::uint32_t> state{0};
};
using Elements = WheelElement<Element, &Element::node>;

class Fifo {
 public:
  static LockClass& lock_class() { return fifo_lock; }
  void dirty(Element& element, Instant now) {
    MutexLock lock(mutex_);
    element.node.stamp = std::max(now, last_);
    last_ = element.node.stamp;
    list_.push_back(element.node);
    element.state.store(2, std::memory_order_relaxed);
  }
  void clean(Element& element, std::uint32_t) {
    MutexLock lock(mutex_);
    if (element.state.load(std::memory_order_relaxed) != 2) return;
    list_.erase(List::s_iterator_to(element.node));
    element.state.store(0, std::memory_order_relaxed);
  }
  // The classic way: what has expired moves to an I/O list under the lock, from which it is taken one by one.
  std::size_t flush(Instant now) {
    {
      MutexLock lock(mutex_);
      while (!list_.empty() && list_.front().stamp <= now - kExpire) {
        WheelNode& node = list_.front();
        list_.pop_front();
        io_.push_back(node);
      }
    }
    std::size_t flushed = 0;
    while (true) {
      Element* element = nullptr;
      {
        MutexLock lock(mutex_);
        if (io_.empty()) return flushed;
        element = &Elements::of(io_.front());
        io_.pop_front();
        element->state.store(1, std::memory_order_relaxed);
      }
      element->state.store(0, std::memory_order_release);
      ++flushed;
    }
  }
  void drain() {
    MutexLock lock(mutex_);
    list_.clear();
    io_.clear();
  }

 private:
  using List = Bucket::List;
  Mutex mutex_{fifo_lock};
  List list_ TW_GUARDED_BY(mutex_);
  List io_ TW_GUARDED_BY(mutex_);
  Instant last_ TW_GUARDED_BY(mutex_);
};

class Sharded {
 public:
  static LockClass& lock_class() { return wheel_lock; }
  void dirty(Element& element, Instant now) {
    wheel_.insert(element.node, now, [&element](std::uint32_t shard) {
      element.state.store(2 + shard, std::memory_order_relaxed);
    });
  }
  void clean(Element& element, std::uint32_t state) {
    wheel_.remove_if(element.node, state - 2, [&element, state] {
      if (element.state.load(std::memory_order_relaxed) != state) return false;
      element.state.store(0, std::memory_order_relaxed);
      return true;
    });
  }
  std::size_t flush(Instant now) { return claim(now - kExpire, now); }
  void drain() {
    claim(Instant::max(), SteadyClock::instance().now());
    TW_ASSERT(wheel_.listed() == 0, "something stayed");
  }

 private:
  static ShardedWheelOptions options() {
    ShardedWheelOptions options;
    options.wheel.slot = Duration{1 << 20};
    options.lock_class = &wheel_lock;
    return options;
  }
  std::size_t claim(Instant dirtied_before, Instant now) {
    std::size_t flushed = 0;
    WheelNode* out[kMaxClaim];
    const auto mark = [](WheelNode& node) { Elements::of(node).state.store(1, std::memory_order_relaxed); };
    while (const std::size_t count = wheel_.claim_expired(out, cursor_, dirtied_before, now, mark)) {
      for (WheelNode* node : std::span(out).first(count)) {
        Elements::of(*node).state.store(0, std::memory_order_release);
      }
      flushed += count;
    }
    return flushed;
  }

  ShardedWheel wheel_{options()};
  std::uint32_t cursor_ = 0;  // the flusher's
};

struct Figures {
  std::uint64_t operations = 0;
  std::uint64_t contended = 0;
  std::uint64_t wait_ns = 0;
  std::uint64_t flushed = 0;
};

// Nanoseconds per operation (all threads together) for one round.
template <class Design>
double run(std::uint32_t threads, std::uint64_t operations, Duration poll, Figures& figures) {
  constexpr std::size_t kElements = 20'000;  // of each thread
  Design design;
  std::vector<std::vector<Element>> elements;
  for (std::uint32_t i = 0; i < threads; ++i) elements.emplace_back(kElements);
  const LockClassStats before = Design::lock_class().stats();
  Atomic<bool> stop{false};  // relaxed: joined afterwards
  std::uint64_t flushed = 0;
  const Stopwatch watch;
  Thread flusher("flusher", [&] {
    while (!stop.load(std::memory_order_relaxed)) {
      flushed += design.flush(SteadyClock::instance().now());
      sleep_for(poll);
    }
  });
  std::vector<Thread> writers;
  for (std::uint32_t i = 0; i < threads; ++i) {
    writers.emplace_back("writer" + std::to_string(i), [&, i] {
      Rng rng(i);
      for (std::uint64_t n = 0; n < operations; ++n) {
        Element& element = elements[i][rng.below(kElements)];
        const std::uint32_t state = element.state.load(std::memory_order_acquire);
        if (state == 0) {
          design.dirty(element, SteadyClock::instance().now());
        } else if (state >= 2) {
          design.clean(element, state);
        }
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  const double ns = watch.ns();
  stop.store(true, std::memory_order_relaxed);
  flusher.join();
  design.drain();
  for (const auto& of_thread : elements) {
    for (const Element& element : of_thread) TW_ASSERT(!element.node.hook.is_linked(), "something stayed");
  }
  const LockClassStats after = Design::lock_class().stats();
  figures.operations += operations * threads;
  figures.contended += after.contended - before.contended;
  figures.wait_ns += after.wait_ns_total - before.wait_ns_total;
  figures.flushed += flushed;
  return ns / static_cast<double>(operations * threads);
}

void writers_and_a_flusher(benchmark::State& state) {
  const auto threads = static_cast<std::uint32_t>(state.range(0));
  const Duration poll = milliseconds(state.range(1));
  constexpr std::uint64_t kOperations = 250'000;
  Figures wheel;
  Figures fifo;
  interleave(state, 7,
             {{"wheel", [&] { return run<Sharded>(threads, kOperations, poll, wheel); }},
              {"fifo", [&] { return run<Fifo>(threads, kOperations, poll, fifo); }}});
  const auto report = [&](const std::string& name, const Figures& figures) {
    const double millions = static_cast<double>(figures.operations) * 1e-6;
    state.counters[name + "_contended_per_million"] = static_cast<double>(figures.contended) / millions;
    state.counters[name + "_wait_ms_per_million"] = static_cast<double>(figures.wait_ns) * 1e-6 / millions;
    state.counters[name + "_flushed_per_million"] = static_cast<double>(figures.flushed) / millions;
  };
  report("wheel", wheel);
  report("fifo", fifo);
}
// A poll each millisecond meets each running writer's shard once: the contention that is left goes with it.
BENCHMARK(writers_and_a_flusher)
    ->ArgNames({"threads", "poll_ms"})
    ->ArgsProduct({{8, 16}, {1, 10}})
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
}  // namespace tidewheel::bench
