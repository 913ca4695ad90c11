// writeback/task_throttle.h: what a writer has dirtied above free run and not yet paid for with a pause.
// Owns:      its debt. A TaskThrottle that ends hands it to the engine's pool, from which it is charged on to
//            whoever asks next: writers that are too short-lived to be paused cannot escape.
// Threads:   a TaskThrottle belongs to one thread at a time (not thread_local: a task may change threads). A
//            DebtPool is everybody's.
// Units:     bytes, as the thresholds count them; signed, for who paid for what it then did not dirty.
// Note:      a program may hand none to the engine. Its threads' calls are then charged to the pool, each
//            like a task of one call: whoever makes the pool's part worth a pause pays for it.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

#include "base/atomic.h"
#include "base/config.h"
#include "base/counter.h"
#include "base/thread.h"
#include "writeback/dirty_object.h"
#include "writeback/throttle.h"

namespace tidewheel {

class DebtPool {
 public:
  void add(std::int64_t bytes) { local().fetch_add(bytes, std::memory_order_relaxed); }
  // Takes up to `most` of what this thread's part holds, or what others' hold when that is nothing.
  std::int64_t take(std::int64_t most) {
    std::int64_t taken = take_from(local(), most);
    for (std::size_t i = 0; i < shards_.size() && taken < most; ++i) {
      taken += take_from(shards_[i].bytes, most - taken);
    }
    return taken;
  }
  std::int64_t local_bytes() const {
    return shards_[thread_number() % ShardedCounter::kShards].bytes.load(std::memory_order_relaxed);
  }
  std::int64_t bytes() const {
    std::int64_t n = 0;
    for (const Shard& shard : shards_) n += shard.bytes.load(std::memory_order_relaxed);
    return n;
  }

 private:
  // Relaxed: only sums; nothing else is published with them.
  struct alignas(kCacheLine) Shard {
    Atomic<std::int64_t> bytes{0};
  };
  Atomic<std::int64_t>& local() { return shards_[thread_number() % ShardedCounter::kShards].bytes; }
  static std::int64_t take_from(Atomic<std::int64_t>& shard, std::int64_t most) {
    std::int64_t have = shard.load(std::memory_order_relaxed);
    while (have > 0) {
      const std::int64_t mine = have < most ? have : most;
      if (shard.compare_exchange(have, have - mine, std::memory_order_relaxed)) return mine;
    }
    return 0;
  }
  std::array<Shard, ShardedCounter::kShards> shards_;
};

// Ends before its engine, and after the grants it was handed to.
class TaskThrottle {
 public:
  // `owner`: whose task it is, by the id of a context; kNoContext: nobody's in particular.
  explicit TaskThrottle(DebtPool& pool, std::uint16_t owner = kNoContext) : pool_(&pool), owner_(owner) {}
  TaskThrottle(TaskThrottle&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        owner_(other.owner_),
        rates_(std::exchange(other.rates_, {})),
        turn_(other.turn_),
        turn_bytes_(other.turn_bytes_) {}
  TaskThrottle& operator=(TaskThrottle&&) = delete;
  ~TaskThrottle() {
    if (pool_ != nullptr && rates_.dirtied_bytes != 0) pool_->add(rates_.dirtied_bytes);
  }
  const TaskRates& rates() const { return rates_; }
  std::uint16_t owner() const { return owner_; }

 private:
  friend class DirtyGrant;
  friend class WritebackEngine;
  DebtPool* pool_;
  const std::uint16_t owner_;
  TaskRates rates_;
  // What it has had since the batch end of this number: WritebackEngine::has_had_its_turn().
  std::uint64_t turn_ = 0;
  std::uint64_t turn_bytes_ = 0;
};

}  // namespace tidewheel
