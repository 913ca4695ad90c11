// writeback/dirty_allowance.h: how many bytes may be dirty, under writeback or set aside, and by whom they
// were taken. The hard limit is kept exactly although most takes touch only the caller's shard.
// Owns:      nothing.
// Threads:   every method from any thread. take() and give_back() touch one shard's line, and the shared
//            word once per chunk.
// Units:     bytes.
// Errors:    none; take() answers false.
// Invariant: charged() = bytes taken and not given back + unused credit of the shards. The shared word is
//            raised before anything is used and take() never raises it above the limit, so what take() has
//            handed out never exceeds the limit, at no moment and whoever is preempted where. (A counter
//            with an error bound can't say that: what a preempted thread is carrying from its shard to the
//            shared word is in neither.) Only take_over() goes beyond.
#pragma once
#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "base/config.h"
#include "base/counter.h"

namespace tidewheel {

class DirtyAllowance {
 public:
  // A shard keeps up to 2 * chunk_bytes of credit; 0 = none: every call goes to the shared word.
  DirtyAllowance(std::uint64_t limit_bytes, std::uint64_t chunk_bytes)
      : limit_(static_cast<std::int64_t>(limit_bytes)), chunk_(static_cast<std::int64_t>(chunk_bytes)) {}

  // From this shard's credit or the shared word; leaves the credit of other shards alone. May leave a chunk
  // of credit in this one, which a waiter could not gather on its way there: look for waiters also after
  // success.
  bool take(std::uint64_t bytes);
  // Also gathers every shard's credit: false only if the limit does not allow it (or another thread is
  // carrying credit at this moment, in take() or give_back(), and then looks for waiters).
  bool take_thoroughly(std::uint64_t bytes);
  // Whatever the limit says: for dirt that can't be refused.
  void take_over(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  std::uint64_t limit_bytes() const { return static_cast<std::uint64_t>(limit_); }
  // At most this much is in use; within credit_bound() of it. One load.
  std::uint64_t charged() const {
    const std::int64_t n = charged_.load(std::memory_order_seq_cst);
    return n < 0 ? 0 : static_cast<std::uint64_t>(n);
  }
  std::uint64_t credit_bound() const {
    return static_cast<std::uint64_t>(chunk_) * 2 * ShardedCounter::kShards;
  }
  // Exact when nothing moves.
  std::uint64_t in_use() const;

 private:
  struct alignas(kCacheLine) Shard {
    Atomic<std::int64_t> credit{0};
  };
  Atomic<std::int64_t>& local_credit() { return shards_[thread_number() % ShardedCounter::kShards].credit; }
  bool raise(std::int64_t least, std::int64_t wanted, std::int64_t& got);
  std::int64_t gather_credit();

  const std::int64_t limit_;
  const std::int64_t chunk_;
  // seq_cst: who raises a shard's credit or lowers the shared word then looks for waiters; a waiter announces
  // itself and then gathers. One of the two sees the other (WritebackEngine::look_for_waiters).
  alignas(kCacheLine) Atomic<std::int64_t> charged_{0};
  std::array<Shard, ShardedCounter::kShards> shards_;
};

}  // namespace tidewheel
