// writeback/byte_counts.h: dirty and writeback bytes, of an engine or of one context, and its dirty objects.
// Threads:   all methods from any thread; an add touches one line, picked by thread.
// Units:     bytes, objects.
// Invariant: the sums are exact when nothing moves; total includes writeback.
#pragma once
#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "base/config.h"
#include "base/counter.h"

namespace tidewheel {

class ByteCounts {
 public:
  void add(std::int64_t total, std::int64_t objects) {
    Shard& shard = local();
    if (total != 0) shard.total.fetch_add(total, std::memory_order_seq_cst);
    if (objects != 0) shard.objects.fetch_add(objects, std::memory_order_seq_cst);
  }
  void add_writeback(std::int64_t bytes) { local().writeback.fetch_add(bytes, std::memory_order_seq_cst); }

  std::uint64_t total() const { return sum(&Shard::total); }
  std::uint64_t writeback() const { return sum(&Shard::writeback); }
  std::uint64_t objects() const { return sum(&Shard::objects); }
  // Writeback is read last: what is cleaned meanwhile is then counted as dirty, never taken off twice. What
  // becomes dirty and goes under writeback meanwhile is; but who made it dirty looks after us.
  std::uint64_t dirty() const {
    const std::uint64_t all = total();
    const std::uint64_t under_writeback = writeback();
    return all > under_writeback ? all - under_writeback : 0;
  }
  bool all_zero() const {
    return signed_sum(&Shard::total) == 0 && signed_sum(&Shard::writeback) == 0 &&
           signed_sum(&Shard::objects) == 0;
  }

 private:
  // seq_cst: WritebackEngine::background_armed_ says what they pair with.
  struct alignas(kCacheLine) Shard {
    Atomic<std::int64_t> total{0};
    Atomic<std::int64_t> writeback{0};
    Atomic<std::int64_t> objects{0};
  };
  Shard& local() { return shards_[thread_number() % ShardedCounter::kShards]; }
  std::int64_t signed_sum(Atomic<std::int64_t> Shard::*member) const {
    std::int64_t n = 0;
    for (const Shard& shard : shards_) n += (shard.*member).load(std::memory_order_seq_cst);
    return n;
  }
  // A reader may see the taking away of what it missed the adding of: never below zero.
  std::uint64_t sum(Atomic<std::int64_t> Shard::*member) const {
    const std::int64_t n = signed_sum(member);
    return n < 0 ? 0 : static_cast<std::uint64_t>(n);
  }
  std::array<Shard, ShardedCounter::kShards> shards_;
};

}  // namespace tidewheel
