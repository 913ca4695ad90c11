// base/memory_budget.h: one limit on memory, charged by everything that keeps some.
// Owns:      nothing: it counts. A Shrinker outlives its registration.
// Threads:   every method is thread-safe. try_charge and uncharge touch the caller's shard, and the shared
//            word once per chunk.
// Locks:     try_charge takes none, uncharge a leaf (rank kStatistics) only while somebody waits: both may
//            be called under any lock. charge() sleeps: no short lock may be held.
// Units:     bytes.
// Errors:    try_charge answers false; charge() kNoMemory (no shrinker gave anything and the time is over,
//            or it asks for more than there can ever be).
// Invariant: what is charged never exceeds the limit, at no moment: the shared word is raised first and
//            the credit that comes of it is used afterwards. All but kWriteback stay below
//            limit - reserve. Every uncharge fills a used reserve up first.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "base/config.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/thread.h"
#include "base/time.h"

namespace tidewheel {

enum class MemoryKind : std::uint8_t { kPages, kInodes, kBuffers, kLog, kIndex, kOther };
inline constexpr std::size_t kMemoryKinds = 6;
const char* name_of(MemoryKind kind);

// Who charges. kWriteback may draw on the reserve: it must get on when everything else is full, for it is
// what makes memory free again.
enum class ChargeBy : std::uint8_t { kAnyone, kWriteback };

// Something that can give memory back when asked: reclaim of clean pages, of unused inodes, of buffers.
class Shrinker {
 public:
  virtual ~Shrinker() = default;
  virtual const char* name() const = 0;
  // Frees (and uncharges) about `bytes`, or what it can; answers how many it did. Called with no lock of
  // the budget held, on the thread that wants to charge; several threads may call at once. Must not call
  // charge() of the same budget as kAnyone.
  virtual std::uint64_t shrink(std::uint64_t bytes) = 0;
};

struct MemoryStats {
  std::uint64_t limit = 0;
  std::uint64_t charged = 0;
  std::uint64_t peak = 0;          // of the sum, unused credit (at most credit_bound) included
  std::uint64_t reserve_used = 0;
  std::array<std::uint64_t, kMemoryKinds> used{};
  std::array<std::uint64_t, kMemoryKinds> used_peak{};  // within a chunk per shard
  std::uint64_t refused = 0;       // try_charge and charge that failed
  std::uint64_t shrinks = 0;       // calls of shrinkers
  std::uint64_t shrunk_bytes = 0;  // what they said they freed
  std::uint64_t waits = 0;
};

class MemoryBudget {
 public:
  // reserve: the part only kWriteback may use; one batch. Asserts reserve < limit.
  MemoryBudget(std::uint64_t limit_bytes, std::uint64_t reserve_bytes);
  ~MemoryBudget();  // asserts that everything was uncharged
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // At once or not at all; asks no shrinker.
  bool try_charge(MemoryKind kind, std::uint64_t bytes, ChargeBy by = ChargeBy::kAnyone);
  // Asks the shrinkers, then waits for others to uncharge, at most `patience` in all.
  Result<void> charge(MemoryKind kind, std::uint64_t bytes, ChargeBy by, Duration patience);
  void uncharge(MemoryKind kind, std::uint64_t bytes);

  void add_shrinker(Shrinker& shrinker);
  // Returns when no call of it is under way any more.
  void remove_shrinker(Shrinker& shrinker);
  // Asks every shrinker in the order they were added until about `bytes` were freed; answers how many.
  std::uint64_t shrink(std::uint64_t bytes);

  std::uint64_t limit_bytes() const { return limit_; }
  std::uint64_t reserve_bytes() const { return reserve_; }
  // Sum of all charges; exact when nobody charges. Reads every shard.
  std::uint64_t charged_bytes() const;
  std::uint64_t used_bytes(MemoryKind kind) const;
  // One load; up to credit_bound() above charged_bytes().
  std::uint64_t charged_at_most() const {
    return static_cast<std::uint64_t>(taken_.load(std::memory_order_relaxed));
  }
  std::uint64_t credit_bound() const { return 2 * static_cast<std::uint64_t>(chunk_) * kShards; }
  MemoryStats stats() const;

 private:
  static constexpr std::uint32_t kShards = 16;
  struct alignas(kCacheLine) Shard {
    // Taken from the shared word and not in use. seq_cst: a giver raises it and then looks for waiters; a
    // waiter announces itself and then gathers it.
    Atomic<std::int64_t> credit{0};
    std::array<Atomic<std::int64_t>, kMemoryKinds> used;  // relaxed: sums only; may be below zero
  };
  struct Entry {
    Shrinker* shrinker = nullptr;
    std::uint32_t calls = 0;  // under way
  };

  bool take(std::int64_t bytes);
  bool take_from_reserve(std::int64_t bytes);
  std::int64_t gather_credit();
  bool raise(std::int64_t least, std::int64_t wanted, std::int64_t& got);
  void count(MemoryKind kind, std::int64_t bytes);
  void note_peak(MemoryKind kind);
  bool charge_now(MemoryKind kind, std::uint64_t bytes, ChargeBy by);
  void wake_waiters();

  const std::uint64_t limit_;
  const std::uint64_t reserve_;
  const std::int64_t shared_limit_;  // limit - reserve
  const std::int64_t chunk_;         // what a shard takes at a time; it keeps up to two

  alignas(kCacheLine) Atomic<std::int64_t> taken_{0};  // charges + credit; never above shared_limit_
  Atomic<std::int64_t> taken_peak_{0};
  alignas(kCacheLine) Atomic<std::int64_t> reserve_used_{0};  // read by every uncharge, rarely written
  Atomic<std::uint32_t> waiters_{0};  // seq_cst, see Shard::credit
  std::array<Shard, kShards> shards_;
  std::array<Atomic<std::int64_t>, kMemoryKinds> used_peak_;
  Atomic<std::uint64_t> refused_{0};
  Atomic<std::uint64_t> shrinks_{0};
  Atomic<std::uint64_t> shrunk_bytes_{0};
  Atomic<std::uint64_t> waits_{0};

  mutable Mutex mutex_;
  CondVar changed_;  // memory was uncharged, or a shrinker's call ended
  std::uint64_t uncharges_seen_ TW_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> shrinkers_ TW_GUARDED_BY(mutex_);
};

}  // namespace tidewheel
