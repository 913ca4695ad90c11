// base/lock_class.h: what is known of all locks of one kind: name, rank, and figures.
// Owns:      the figures. A LockClass outlives its locks: `constinit LockClass list_locks{"list-shard",
//            LockRank::kListShard};` at namespace scope.
// Threads:   all of it is thread-safe.
// Locks:     a leaf inside (registry of the class's locks), taken when a lock is made, destroyed or read.
// Units:     nanoseconds.
// Invariant: acquisitions are exact when nobody locks: every lock counts its own, under itself. A class
//            made with kClassOnly lags by up to 63 acquisitions per living lock.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/lock_rank.h"
#include "base/log_linear.h"

namespace tidewheel {

struct LockClassStats {
  const char* name = "";
  std::uint64_t acquisitions = 0;   // try_lock counts when it succeeds; readers count
  std::uint64_t contended = 0;      // acquisitions that found the lock held
  std::uint64_t wait_ns_total = 0;  // of the contended ones; not measured inside a simulation
  std::uint64_t hold_ns_p99 = 0;    // of the sampled holds
  std::uint64_t hold_ns_total = 0;  // of the sampled holds
  std::uint64_t hold_samples = 0;
};

// How the locks of a class are counted. kPerLock: counters inside each lock, registered, exact at any
// moment. kClassOnly: for classes with very many locks (one per inode): a lock adds its counts to the
// class every 64 acquisitions and when it ends.
enum class LockCounting : std::uint8_t { kPerLock, kClassOnly };

// One hold in so many is timed: timing each would make a 14 ns operation a 50 ns one.
inline constexpr std::uint64_t kHoldSampling = 64;

class LockClass {
 public:
  constexpr LockClass(const char* name, LockRank rank, LockCounting counting = LockCounting::kPerLock)
      : name_(name), rank_(rank), counting_(counting) {}
  LockClass(const LockClass&) = delete;
  LockClass& operator=(const LockClass&) = delete;

  LockClassStats stats() const;  // since the last reset_lock_statistics()
  const char* name() const { return name_; }
  LockRank rank() const { return rank_; }

  // ---- for the locks ----
  void add_lock(std::atomic<std::uint64_t>& acquisitions, std::uint32_t& index);
  void remove_lock(std::atomic<std::uint64_t>& acquisitions, std::uint32_t& index);
  void add_contended(std::uint64_t wait_ns) {
    contended_.fetch_add(1, std::memory_order_relaxed);
    wait_ns_.fetch_add(wait_ns, std::memory_order_relaxed);
  }
  // Every 64th acquisition: the cycle counter (never 0), or 0 when this hold is not to be timed.
  std::uint64_t start_hold_sample();
  void end_hold_sample(std::uint64_t start_ticks);
  void reset();

 private:
  using HoldBuckets = LogLinear<3>;  // 8 steps per power of two: within 12.5%
  struct Entry {
    std::atomic<std::uint64_t>* acquisitions;
    std::uint32_t* index;
  };
  std::uint64_t acquisitions_locked() const;

  const char* const name_;
  const LockRank rank_;
  const LockCounting counting_;

  mutable std::mutex mutex_;                // guards the four below
  std::vector<Entry>* locks_ = nullptr;     // never freed: the class lives as long as the program
  bool listed_ = false;                     // in the table of all classes
  std::uint64_t ended_acquisitions_ = 0;    // of locks that are gone
  std::uint64_t reset_acquisitions_ = 0;    // what the sum was at the last reset

  std::atomic<bool> class_only_listed_{false};  // a hint that saves add_lock the mutex
  std::atomic<std::uint64_t> class_only_acquisitions_{0};
  std::atomic<std::uint64_t> contended_{0};
  std::atomic<std::uint64_t> wait_ns_{0};
  std::atomic<std::uint64_t> hold_ticks_{0};
  std::array<std::atomic<std::uint64_t>, HoldBuckets::kBuckets> holds_{};
};

// Figures of every class that has had a lock, by name; classes of one name are added up.
std::vector<LockClassStats> lock_statistics();
void reset_lock_statistics();

// The per-thread stack of held locks (debug builds).
namespace lock_order {
void before_lock(const void* lock, const LockClass& lock_class);
void locked(const void* lock, const LockClass& lock_class);
void unlocking(const void* lock, const LockClass& lock_class);
void assert_held(const void* lock, const LockClass& lock_class);
}  // namespace lock_order

}  // namespace tidewheel
