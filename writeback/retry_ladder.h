// writeback/retry_ladder.h: objects whose write failed, on one rung per back-off step.
// Owns:      its groups; never an object.
// Threads:   all methods are thread-safe.
// Locks:     lock_ (rank kRetry); taken inside a shard lock by add(). At most kElementsPerHold objects are
//            looked at per hold.
// Units:     back-off in nanoseconds: `first`, doubled for each further failure, up to `longest`.
// Invariant: (1) an object here is in phase kRetry, shard kRetryShard, its stamp the one it failed with;
//            (2) within a rung the groups' `due` never falls; (3) nothing is due early, nor later than its
//            back-off and an eighth: failures that close together share a group, so that a device with
//            a million failed objects has some 70 groups, not a million timers.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <span>

#include "base/sync.h"
#include "base/time.h"
#include "writeback/dirty_object.h"
#include "writeback/node_list.h"

namespace tidewheel {

// Which shard an object that is not listed goes to; asked under locks, so it must be a pure look-up.
class ShardPicker {
 public:
  virtual ~ShardPicker() = default;
  virtual std::uint32_t pick_shard(const DirtyObject& object) const = 0;
};

class RetryLadder {
  struct Group;

 public:
  static constexpr std::uint32_t kElementsPerHold = 32;
  static constexpr std::uint32_t kRungs = 40;

  RetryLadder(const ShardPicker& picker, Duration first, Duration longest,
              std::uint16_t context = kNoContext);
  ~RetryLadder();
  RetryLadder(const RetryLadder&) = delete;
  RetryLadder& operator=(const RetryLadder&) = delete;

  // writing -> retry, a step up. The caller holds the object's shard lock and has put its stamp back.
  void add(DirtyObject& object, std::uint32_t classes, Instant now, bool* had_waiters) TW_EXCLUDES(lock_);
  // retry -> clean or claimed; false: it is not here (any more).
  bool cancel(DirtyObject& object) TW_EXCLUDES(lock_);
  bool claim_one(DirtyObject& object) TW_EXCLUDES(lock_);
  // retry -> claimed, for what is due at `now`.
  std::size_t claim_due(Instant now, std::span<DirtyObject*> out) TW_EXCLUDES(lock_);

  // A sync takes everything that is here when it begins, without waiting for its back-off; what fails
  // again is not the sync's any more.
  class SyncShare {
   public:
    SyncShare() = default;
    SyncShare(const SyncShare&) = delete;
    SyncShare& operator=(const SyncShare&) = delete;

   private:
    friend class RetryLadder;
    std::array<std::list<Group>, kRungs> rungs;  // under the ladder's lock_
    SyncShare* older = nullptr;                  // open syncs, youngest first
  };
  void open_sync(SyncShare& share) TW_EXCLUDES(lock_);
  // From this share and from those of older syncs, which this one waits for as well.
  std::size_t claim_sync(SyncShare& share, std::span<DirtyObject*> out) TW_EXCLUDES(lock_);
  // What is left goes to the next younger sync, or back to its rung with its time kept.
  void close_sync(SyncShare& share) TW_EXCLUDES(lock_);

  // The clock was set back to `now`: no back-off is longer from there than one that begins there.
  void clock_set_back(Instant now) TW_EXCLUDES(lock_);

  Instant next_due() const { return Instant{next_due_ns_.load(std::memory_order_relaxed)}; }
  // A lower bound.
  Instant oldest() const { return Instant{oldest_ns_.load(std::memory_order_relaxed)}; }
  // Lowers reading.least to the least stamp here, where that is less: exactly, beside everything else.
  void look_for_oldest(StampReading& reading) TW_EXCLUDES(lock_);
  std::uint64_t size() const { return count_.load(std::memory_order_relaxed); }
  std::uint64_t groups() const TW_EXCLUDES(lock_);
  void check_invariants() const TW_EXCLUDES(lock_);

 private:
  struct Group {
    Instant due;
    Instant oldest = Instant::max();  // lower bound of its objects' stamps
    StampedNodes objects;
  };
  using Rungs = std::array<std::list<Group>, kRungs>;

  Duration back_off(std::uint32_t rung) const;
  std::size_t claim_from_locked(std::list<Group>& rung, Instant now, std::span<DirtyObject*> out)
      TW_REQUIRES(lock_);
  void claim_locked(WheelNode& node) TW_REQUIRES(lock_);
  bool look_locked(StampReading& reading) TW_REQUIRES(lock_);
  void publish_locked() TW_REQUIRES(lock_);
  void drop_front_locked(std::list<Group>& rung) TW_REQUIRES(lock_);
  std::uint64_t check_rungs_locked(const Rungs& rungs) const TW_REQUIRES(lock_);

  bool has_locked(const DirtyObject& object) const TW_REQUIRES(lock_);

  const ShardPicker& picker_;
  const std::uint16_t context_;  // whose objects it holds
  const Duration first_, longest_;
  const std::uint32_t top_rung_;
  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankRetry) TW_ACQUIRED_BEFORE(kRankLru);
  Rungs rungs_ TW_GUARDED_BY(lock_);
  SyncShare* youngest_sync_ TW_GUARDED_BY(lock_) = nullptr;
  StampWalk walk_ TW_GUARDED_BY(lock_);
  // Written under lock_, read without: hints for arming timers, re-read by whoever acts on them.
  Atomic<std::int64_t> next_due_ns_{INT64_MAX};
  Atomic<std::int64_t> oldest_ns_{INT64_MAX};
  Atomic<std::uint64_t> count_{0};
};

}  // namespace tidewheel
