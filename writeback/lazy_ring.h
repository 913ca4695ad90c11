// writeback/lazy_ring.h: objects of one shard that are dirty in their timestamps alone (lazytime), beside
// the design's own lists and under the same lock.
// Owns:      its wheel of wide slots; never an object.
// Threads:   the holder of the shard's lock alone; oldest(), size() by anybody.
// Locks:     none of its own. At most kMaxClaim elements are looked at per hold.
// Units:     nanoseconds of the engine's clock. A slot is at most 1/64 of the maximum age and at least a
//            millisecond wide: nothing is handed out for its age early, nor later than that.
// Invariant: (1) an object here is in phase kLazy, its classes are exactly kDirtyTimestamps, its stamp is
//            that of its first timestamp; (2) a sync's set only shrinks: what was here when the sync began
//            is claimed, taken out one by one, or moved to the design's lists (promoted, or left over).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/atomic.h"
#include "base/time.h"
#include "timerwheel/wheel.h"

namespace tidewheel {

// The slots for a maximum age; 0: none.
WheelOptions lazy_wheel_options(Duration expire);

class LazyRing {
 public:
  explicit LazyRing(Duration expire) : wheel_(lazy_wheel_options(expire), hint_) {}
  LazyRing(const LazyRing&) = delete;
  LazyRing& operator=(const LazyRing&) = delete;

  // Under the stamp that it has.
  void add(WheelNode& node, Instant now) noexcept;
  void remove(WheelNode& node) noexcept;

  // ---- works other than a sync; what a sync has taken is not theirs ----
  // Unlinks up to out.size() nodes, oldest slot first, of slots that end at or before dirtied_before.
  std::size_t claim(Instant dirtied_before, Instant now, std::span<WheelNode*> out) noexcept;

  // ---- syncs ----
  // Everything here now is the sync's, in O(1).
  void open_sync(const void* sync, Instant moment);
  // Whether an open sync covers what has this stamp: then it must find it, wherever it is filed. What is
  // stamped after `now` was stamped before the clock was set back.
  bool awaited(Instant stamp, Instant now) const;
  Instant youngest_moment() const { return syncs_.empty() ? Instant::max() : syncs_.back().moment; }
  // The sync's moment here.
  Instant moment_of(const void* sync) const;
  // From its own set and those of older syncs, which it waits for as well. 0: they are empty, and stay so.
  std::size_t claim_sync(const void* sync, std::span<WheelNode*> out) noexcept;
  // Up to out.size() nodes of what the sync has left and a younger sync waits for, unlinked: to be filed
  // where that finds them. 0: there are none (left), and the rest has gone back.
  std::size_t close_sync(const void* sync, std::span<WheelNode*> out) noexcept;

  // Start of the oldest slot; Instant::max(): nothing is here; Instant::min(): due at once.
  Instant oldest() const { return hint_.oldest(); }
  std::uint64_t size() const { return count_.load(std::memory_order_relaxed); }
  Duration slot_width() const { return wheel_.slot_width(); }
  std::uint64_t memory_bytes() const { return sizeof(*this) + wheel_.memory_bytes(); }
  void check_invariants() const { wheel_.check_invariants(); }
  template <class Visit>
  void for_each(Visit visit) const {
    wheel_.for_each(visit);
  }

 private:
  struct OpenSync {
    const void* sync;
    Instant moment;
    SyncSet* set;
  };
  void note_size() { count_.store(wheel_.listed(), std::memory_order_relaxed); }

  WheelHint hint_;
  Wheel wheel_;
  std::vector<OpenSync> syncs_;  // oldest first
  // Written under the shard's lock, read without: exact at rest.
  Atomic<std::uint64_t> count_{0};
};

}  // namespace tidewheel
