// base/counter.h: counters that many threads add to.
// Threads:   all methods are thread-safe. add() touches one of kShards lines, picked by CPU and thread.
// Units:     whatever is added; signed, so that it may pass through below zero between shards.
// Invariant: sum() is exact when nobody adds; read() then differs from it by at most error_bound(). While
//            threads are inside add() each may carry one more batch from its shard to the shared word:
//            where a limit must hold at every moment, a counter is the wrong tool (base/memory_budget.h).
#pragma once
#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "base/config.h"
#include "base/thread.h"

namespace tidewheel {

// Exact when summed; the sum reads every shard (about 16 lines).
class ShardedCounter {
 public:
  static constexpr std::uint32_t kShards = 16;

  void add(std::int64_t n) {
    shards_[thread_number() % kShards].value.fetch_add(n, std::memory_order_relaxed);
  }
  std::int64_t sum() const {
    std::int64_t total = 0;
    for (const Shard& shard : shards_) total += shard.value.load(std::memory_order_relaxed);
    return total;
  }

 private:
  struct alignas(kCacheLine) Shard {
    Atomic<std::int64_t> value{0};
  };
  std::array<Shard, kShards> shards_;
};

// A shard keeps up to `batch` to itself and then moves it to one shared word, so that read() is one load.
class BatchedCounter {
 public:
  explicit BatchedCounter(std::int64_t batch) : batch_(batch) {}

  void add(std::int64_t n) {
    Atomic<std::int64_t>& local = shards_[thread_number() % ShardedCounter::kShards].value;
    const std::int64_t now = local.fetch_add(n, std::memory_order_relaxed) + n;
    if (now >= batch_ || now <= -batch_) {
      central_.fetch_add(local.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }
  // Within error_bound() of the truth, one load.
  std::int64_t read() const { return central_.load(std::memory_order_relaxed); }
  std::int64_t sum() const {
    std::int64_t total = central_.load(std::memory_order_relaxed);
    for (const Shard& shard : shards_) total += shard.value.load(std::memory_order_relaxed);
    return total;
  }
  std::int64_t error_bound() const { return batch_ * ShardedCounter::kShards; }

 private:
  struct alignas(kCacheLine) Shard {
    Atomic<std::int64_t> value{0};
  };
  const std::int64_t batch_;
  alignas(kCacheLine) Atomic<std::int64_t> central_{0};
  std::array<Shard, ShardedCounter::kShards> shards_;
};

}  // namespace tidewheel
