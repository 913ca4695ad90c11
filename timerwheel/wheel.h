// timerwheel/wheel.h: one shard of a time wheel: "what was stamped at or before T?", "what is oldest?".
// Owns:      its rings, buckets and sync sets; never an element.
// Threads:   the holder of the shard's lock alone; only WheelHint is read without it.
// Locks:     none of its own. No hold looks at more elements than it claims (<= kMaxClaim); no callbacks.
// Units:     nanoseconds of the caller's clock; slot number = stamp >> log2(width).
// Errors:    none; where a pool must grow and memory is out, the program ends.
// Invariant: (1) a listed element is on exactly one bucket: of the ring, of `ancient` (its slot has left
//            the ring's window), of `ready` (detached, not yet claimed), or of an open SyncSet;
//            (2) stamp <= the shard's last, unless it is due at once after a clock step; (3) every bucket
//            that is filed is non-empty, so that the oldest is known exactly to the slot; (4) WheelHint says
//            so before the lock is dropped.
//
//                     head comes round
//   insert --> ring --------------------> ancient      detach_expired: slots that end at or before the
//               |   \                        |         cut-off; detach_oldest: one slot
//      take_all |    +---- detach_* ---------+--> ready --claim (<= 32)--> the flusher
//               v                                   ^
//            SyncSet --claim_from--> flusher        |
//               +----------- put_back --------------+
//
// The slot that straddles a cut-off stays: nothing comes early, and late by at most one slot.
// Details and costs: docs/timer-wheel.md.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/config.h"
#include "base/time.h"
#include "timerwheel/bucket.h"
#include "timerwheel/bucket_queue.h"
#include "timerwheel/slot_ring.h"

namespace tidewheel {

struct WheelOptions {
  std::uint32_t slots = 512;     // a power of two, 8 to 4096; the window is slots * slot
  Duration slot = {1LL << 27};   // a power of two, 2^10 to 2^40 ns
  // `now` this far behind the shard's last comes from a thread that was preempted between reading the
  // clock and taking the lock; further behind, the clock was set back. At least one slot is taken.
  // docs/decisions/wheel-clock-steps.md
  Duration late_reading = {1LL << 30};
};

struct WheelStats {
  std::uint64_t inserts = 0;
  std::uint64_t removals = 0;          // taken out one by one, or moved to another wheel
  std::uint64_t claimed = 0;
  std::uint64_t detached_buckets = 0;  // ring or ancient -> ready
  std::uint64_t aged_buckets = 0;      // the head came round to them: ring -> ancient
  std::uint64_t sync_sets = 0;
  std::uint64_t clock_steps = 0;       // backwards, by more than late_reading
  std::uint64_t max_elements_per_hold = 0;
  std::uint64_t elements_under_lock() const { return inserts + removals + claimed; }
  WheelStats& operator+=(const WheelStats& other);
};

// Start of the slot of the oldest element listed, readable without the lock: Instant::max() when nothing is,
// Instant::min() when something counts as due at once. Its own line: written when the oldest slot changes,
// and by each poll that detaches.
struct alignas(kCacheLine) WheelHint {
  Instant oldest() const { return Instant{oldest_ns.load(std::memory_order_acquire)}; }
  // Release in Wheel::publish, under the shard lock, pairs with acquire in oldest(): who sees a shard
  // non-empty sees it so when it takes the lock. What was listed before the reader began (ordered by
  // whatever made it know) is seen; what is being listed meanwhile may be missed until the next look.
  Atomic<std::int64_t> oldest_ns{INT64_MAX};
  // Where a poll reads slot pointers and where it writes them: cold by then, and found through lines that are
  // cold themselves, so a poll of many shards asks for them ahead. Not to be read through: they may be stale,
  // and the memory gone. Relaxed: nothing follows from them.
  Atomic<std::uintptr_t> slots{0};
  Atomic<std::uintptr_t> ready{0};

  // Asks for the lines that detaching touches outside the wheel, from the oldest slot on.
  void prefetch(const WheelOptions& options, Instant oldest_here) const {
    const auto width = static_cast<std::uint64_t>(options.slot.ns);
    const std::uint64_t index =
        (static_cast<std::uint64_t>(oldest_here.ns) >> std::countr_zero(width)) & (options.slots - 1);
    const std::uintptr_t slot = slots.load(std::memory_order_relaxed) + index * sizeof(Bucket*);
    __builtin_prefetch(reinterpret_cast<const void*>(slot), 1);
    __builtin_prefetch(reinterpret_cast<const void*>(ready.load(std::memory_order_relaxed)), 1);
  }
};

inline constexpr std::size_t kMaxClaim = 32;  // elements per hold: each is likely a cache miss
inline constexpr std::size_t kBusyClaim = 8;  // where writers come and go: one who removes then hardly waits

class Wheel;

// All that a wheel held at one moment. Its elements still belong to the shard: they can be removed, and
// what is not claimed is put back in front.
class SyncSet {
 public:
  explicit SyncSet(std::uint32_t slots) : ring_(slots) {}

 private:
  friend class Wheel;
  SlotRing ring_;
  BucketQueue ancient_;
  BucketQueue ready_;
  std::int64_t head_slot_ = 0;
  std::uint64_t clock_steps_ = 0;
};

class Wheel {
 public:
  Wheel(const WheelOptions& options, WheelHint& hint);
  ~Wheel();  // asserts that nothing is listed
  Wheel(const Wheel&) = delete;
  Wheel& operator=(const Wheel&) = delete;

  // ---- writers ----
  // Lists a node with the stamp max(now, the shard's last). Double insert asserts.
  void insert(WheelNode& node, Instant now) noexcept;
  // Lists a node under an old stamp, in its own slot: O(1) within the window, O(log slots) before it.
  // A stamp beyond max(now, the shard's last) is cut to that.
  void insert_at(WheelNode& node, Instant stamp, Instant now) noexcept;
  // Lists a node whose stamp was given before the clock was set back: due at once, and the stamp is kept.
  void insert_overdue(WheelNode& node, Instant now) noexcept;
  // O(1) wherever the node is listed; O(log n) when that empties a bucket that is off the ring.
  void remove(WheelNode& node) noexcept;

  // ---- flushers ----
  // Moves every slot that ends at or before dirtied_before to the ready queue: pointers only. Answers how
  // many. `now` shows a clock that was set back although nobody inserts.
  std::uint32_t detach_expired(Instant dirtied_before, Instant now) noexcept;
  // Moves the oldest slot of ring and ancient to the ready queue; false when there is none.
  bool detach_oldest() noexcept;
  // Takes up to min(out.size(), kMaxClaim) nodes off the ready queue, oldest slot first, of slots that end
  // at or before dirtied_before. They are unlinked and keep their stamps. 0: nothing (more) is ready.
  std::size_t claim(std::span<WheelNode*> out, Instant dirtied_before = Instant::max()) noexcept;
  // How many to claim in this hold: kBusyClaim if writers have been here since the last such question.
  std::size_t claims_per_hold() noexcept {
    const std::uint64_t moves = inserts_ + removals_;
    return std::exchange(moves_seen_, moves) == moves ? kMaxClaim : kBusyClaim;
  }
  // Lists a claimed node again at its place in the ready queue (in front, when it is the oldest).
  void requeue_front(WheelNode& node) noexcept;
  bool has_ready() const { return !ready_.empty(); }

  // ---- sync ----
  // Everything listed now, in O(1); the wheel goes on with an empty ring. Several sets may be open.
  SyncSet* take_all();
  // A set with nothing in it, for append(): a shard that had nothing when the sync began.
  SyncSet* open_set();
  // As claim(), from the set, oldest slot first. 0: nothing is left in it.
  std::size_t claim_from(SyncSet& set, std::span<WheelNode*> out) noexcept;
  // Lists a node in an open set: it was dirty before the set was taken and comes back from a batch.
  void append(SyncSet& set, WheelNode& node) noexcept;
  // Ends a set: what was not claimed goes to the ready queue, each slot in its place. At most one step a
  // slot, no element touched.
  void put_back(SyncSet* set) noexcept;

  // ---- both ----
  // Moves up to min(moved.size(), kMaxClaim) nodes, oldest first, stamps kept, to another wheel whose lock
  // is held too. Nodes of open sync sets stay: that work is under way. Answers how many, and which.
  std::size_t move_some(Wheel& to, std::span<WheelNode*> moved, Instant now) noexcept;
  // Lets time pass: advances the head, notices a clock that was set back.
  void observe(Instant now) noexcept;
  // The caller knows that the clock was set back to `now`, by however much: all that is listed is due at
  // once.
  void set_back(Instant now) noexcept {
    if (listed() != 0) step_back(now);
  }
  // Start of the oldest slot listed (Instant::max(): none; Instant::min(): due at once).
  Instant oldest() const { return instant_of(oldest_key_); }
  // Lowers reading.least to the least stamp listed, where that is less; looks at up to reading.left elements.
  // False: it has not got through, go on in another hold. In the meantime anything may be done to the wheel:
  // what was listed before the first hold and is so still at the last is taken into account.
  bool look_for_least(StampReading& reading) noexcept;
  std::uint64_t listed() const { return inserts_ - removals_ - claimed_; }
  WheelStats stats() const;
  Duration slot_width() const { return Duration{1LL << shift_}; }
  // Gives all memory back if nothing is listed and no set is open; true if so. For idle contexts.
  bool trim();
  std::uint64_t memory_bytes() const;  // beside the wheel itself: rings, buckets, queues, sync sets
  void check_invariants() const;  // walks everything; for tests
  template <class Visit>
  void for_each(Visit visit) const;  // every element listed, in no order; for tests

 private:
  static constexpr std::int64_t kNoKey = BucketQueue::kNoKey;
  enum class Place : std::uint8_t { kReady, kAncient, kRing };

  std::int64_t slot_of(Instant t) const { return t.ns >> shift_; }
  std::int64_t last_ns_of(std::int64_t slot) const {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(slot) << shift_) | width_mask());
  }
  std::uint64_t width_mask() const { return (1ULL << shift_) - 1; }
  // The youngest slot that ends at or before t.
  std::int64_t last_due_slot(Instant t) const {
    return t == Instant::max() ? kNoKey - 1 : ((t.ns + 1) >> shift_) - 1;
  }
  Instant instant_of(std::int64_t key) const;
  std::uint32_t index_of(std::int64_t slot) const {
    return static_cast<std::uint32_t>(slot) & slot_mask_;
  }
  bool in_window(std::int64_t slot) const {
    return static_cast<std::uint64_t>(head_slot_ - slot) <= slot_mask_;
  }

  Instant arrive(Instant now) noexcept;
  void start(Instant now);
  void advance(Instant now) noexcept;
  void step_back(Instant now) noexcept;
  void slot_filled(Bucket& bucket, std::uint32_t index, std::int64_t slot) noexcept;
  void bucket_emptied(Bucket* bucket, std::int64_t slot) noexcept;
  bool forget_empty(SlotRing& ring, BucketQueue& ancient, BucketQueue& ready, std::int64_t head_slot,
                    Bucket* bucket, std::int64_t slot) noexcept;
  void file(BucketQueue& queue, std::int64_t key, WheelNode& node) noexcept;
  void push(BucketQueue& queue, std::int64_t key, Bucket* bucket) noexcept;
  // Takes the `count` oldest slots of the window out of the ring: to(slot, bucket) for each occupied one.
  template <class To>
  std::uint32_t take_oldest_slots(std::uint64_t count, To to) noexcept;
  static std::int64_t oldest_in_ring(const SlotRing& ring, std::int64_t head_slot);
  std::int64_t oldest_in(const SyncSet& set) const;
  template <class Visit>
  void for_least_buckets(Visit visit) const;
  void overdue(BucketQueue& from, BucketQueue& to) noexcept;
  void find_oldest() noexcept;
  void publish(std::int64_t key) noexcept;
  void publish_places() noexcept;
  Bucket* unlink(WheelNode& node) noexcept {
    walk_.leaving(node);
    return Bucket::unlink(node);
  }
  void note_hold(std::uint64_t elements) {
    if (elements > stats_.max_elements_per_hold) stats_.max_elements_per_hold = elements;
  }

  // ---- an insert: with the lock before it, one line ----
  std::int64_t last_ns_ = 0;
  std::int64_t head_last_ns_ = 0;   // last nanosecond of the head slot
  Bucket* current_ = nullptr;       // the head slot's bucket, once something came
  std::uint64_t inserts_ = 0;
  // ---- a removal, a slot that fills or empties ----
  std::uint64_t removals_ = 0;
  std::uint64_t claimed_ = 0;
  std::int64_t head_slot_ = 0;
  std::int64_t oldest_key_ = kNoKey;
  std::uint32_t shift_;
  std::uint32_t slot_mask_;
  WheelHint& hint_;
  StampWalk walk_;  // its first member alone
  // ---- flushers ----
  std::uint64_t moves_seen_ = 0;  // by claims_per_hold()
  BucketQueue ready_;
  BucketQueue ancient_;
  WheelStats stats_;  // without inserts, removals, claimed
  SlotRing ring_;     // slots are made at the first insert
  // ---- colder ----
  BucketPool pool_;
  const std::uint64_t late_reading_ns_;
  std::vector<std::unique_ptr<SyncSet>> open_sets_;
  std::unique_ptr<SyncSet> spare_set_;  // so that a sync allocates nothing after the first
  SlotRing::Buckets spare_slots_;
};

inline void Wheel::insert(WheelNode& node, Instant now) noexcept {
  TW_ASSERT(!node.hook.is_linked(), "an element is inserted twice");
  if (now.ns >= last_ns_ && now.ns <= head_last_ns_ && current_ != nullptr) [[likely]] {
    last_ns_ = now.ns;
  } else {
    now = arrive(now);
  }
  node.stamp = now;
  const bool first = current_->empty();
  current_->link_youngest(node);  // (2): none here is younger
  ++inserts_;
  if (first) slot_filled(*current_, index_of(head_slot_), head_slot_);
}

template <class To>
std::uint32_t Wheel::take_oldest_slots(std::uint64_t count, To to) noexcept {
  if (!ring_.any() || count == 0) return 0;
  const std::int64_t oldest = head_slot_ - slot_mask_;
  std::uint32_t taken = 0;
  const auto bounded =
      static_cast<std::uint32_t>(count <= slot_mask_ ? count : std::uint64_t{slot_mask_} + 1);
  ring_.take_range(index_of(oldest), bounded, [&](std::uint32_t age, Bucket* bucket) {
    to(oldest + age, bucket);
    ++taken;
  });
  if (bounded > slot_mask_) current_ = nullptr;  // the head slot is the youngest
  return taken;
}

inline void Wheel::remove(WheelNode& node) noexcept {
  TW_ASSERT(node.hook.is_linked(), "an element is removed that is not listed");
  ++removals_;
  if (Bucket* emptied = unlink(node); emptied != nullptr) {
    bucket_emptied(emptied, slot_of(node.stamp));
  }
}

template <class Visit>
void Wheel::for_each(Visit visit) const {
  const auto walk = [&](const BucketQueue& queue) {
    queue.for_each([&](std::int64_t, const Bucket& bucket) { bucket.for_each(visit); });
  };
  const auto walk_ring = [&](const SlotRing& ring) {
    for (std::uint32_t i = 0; ring.has_slots() && i < ring.slots(); ++i) {
      if (ring.bucket(i) != nullptr) ring.bucket(i)->for_each(visit);
    }
  };
  walk(ready_);
  walk(ancient_);
  walk_ring(ring_);
  for (const auto& set : open_sets_) {
    walk(set->ready_);
    walk(set->ancient_);
    walk_ring(set->ring_);
  }
}

}  // namespace tidewheel
