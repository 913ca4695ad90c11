// timerwheel/sharded_wheel.h: a wheel that many threads insert into: shards with a lock each.
// Owns:      its shards. Shard 0 is there from the start, the others from the first contention (or at once).
// Threads:   every method is thread-safe. Who needs more than one step under a lock takes shard(i).lock and
//            uses shard(i).wheel.
// Locks:     WheelShard::lock, rank kListShard; two at a time only in move_between, ordered by id. growth_
//            (same class) is taken alone.
// Errors:    none.
// Invariant: an element belongs to the lock of the shard that listed it; its owner keeps that id while it is
//            listed. Shard ids stay valid for ever: shards are added, never taken away.
//
// Why so many shards: in user space a holder is preempted, and who needs that shard then waits for a whole
// time slice. So threads don't share shards while there are enough, inserts and claims go where no lock is
// held, and only a removal needs one particular shard. docs/decisions/wheel-shards.md
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/sync.h"
#include "base/thread.h"
#include "timerwheel/wheel.h"

namespace tidewheel {

inline constexpr std::uint32_t kMaxWheelShards = 128;
// Times that a claim gives the CPU away, to a preempted holder perhaps, before it waits for a held shard: who
// waits makes the holder, mostly a writer, pay for the wake-up.
inline constexpr std::uint32_t kLooksBeforeWaiting = 3;
// A power of two, at least 16 and at least 4 per CPU, as far as kMaxWheelShards goes.
std::uint32_t default_wheel_shards(std::uint32_t cpus);
std::uint32_t default_wheel_shards();  // for this machine

// The shard, of `shards` (a power of two), for an insert from here. A thread whose number is below that has
// one of its own, wherever it runs: what it inserted it mostly removes itself, and then only a flusher can be
// in its way. Threads beyond go by current CPU, then by thread, so that those which share a CPU (one of them
// perhaps preempted while it holds a lock) use different ones.
inline std::uint32_t pick_wheel_shard(std::uint32_t shards, std::uint32_t cpu_stride) {
  if (shards == 1) return 0;
  const std::uint32_t thread = thread_number();
  if (thread < shards) return thread;
  return (current_cpu() * cpu_stride + (thread & (cpu_stride - 1))) & (shards - 1);
}

struct alignas(kCacheLine) WheelShard {
  WheelShard(const WheelOptions& options, LockClass& lock_class) : lock(lock_class), wheel(options, hint) {}

  WheelHint hint;  // its own line: read without the lock
  alignas(kCacheLine) Mutex lock TW_ACQUIRED_AFTER(kRankMapping) TW_ACQUIRED_BEFORE(kRankRetry);
  Wheel wheel TW_GUARDED_BY(lock);

  // Asks for the lines that detaching touches, for writing. Reads nothing, so it needs no lock.
  void prefetch() {
    char* const begin = reinterpret_cast<char*>(this);
    for (std::size_t at = kCacheLine; at < kDetachBytes; at += 64) __builtin_prefetch(begin + at, 1);
  }

 private:
  static constexpr std::size_t kDetachBytes = 4 * kCacheLine;  // hint, lock, wheel up to its bitmap
};
#if !TW_SIM
static_assert(sizeof(Mutex) == 32, "lock and what an insert writes share 64 bytes");
#endif

struct ShardedWheelOptions {
  WheelOptions wheel = {};
  std::uint32_t shards = 0;          // a power of two up to kMaxWheelShards; 0: default_wheel_shards()
  bool grow_when_contended = false;  // begin with one shard: for programs with many wheels
  std::uint32_t id = 0;              // orders the locks of two sharded wheels in move_between
  LockClass* lock_class = nullptr;   // null: one named "wheel_shard"
};

class ShardedWheel {
 public:
  explicit ShardedWheel(const ShardedWheelOptions& options);
  ShardedWheel(const ShardedWheel&) = delete;
  ShardedWheel& operator=(const ShardedWheel&) = delete;

  // ---- shards ----
  // How many there are now, and will be at most.
  std::uint32_t shards() const { return active_.load(std::memory_order_acquire); }
  std::uint32_t max_shards() const { return max_shards_; }
  WheelShard& shard(std::uint32_t id) { return *shards_[id]; }
  const WheelShard& shard(std::uint32_t id) const { return *shards_[id]; }
  std::uint32_t pick() const { return pick_wheel_shard(shards(), cpu_stride_); }
  // Locks the picked shard, or one of three others where that is taken (a claim, a preempted thread): any
  // will do for an insert. Answers its id. The first time the only shard is contended, the others are made.
  // The caller unlocks shard(id).lock.
  std::uint32_t lock_picked() TW_NO_THREAD_SAFETY_ANALYSIS {  // the lock is left to the caller
    if (shards() != max_shards_) [[unlikely]] return lock_while_growing();
    const std::uint32_t id = pick();
    if (shards_[id]->lock.try_lock()) [[likely]] return id;
    return lock_another(id);
  }

  // ---- one step each, under one shard's lock ----
  // The last argument is what the owner does to its element before the lock is dropped: a few stores (which
  // shard, which phase), so that whoever takes the lock next finds element and wheel in agreement.
  //   note(shard)   on insert; remove_if asks still_listed() and removes if true; mark(node) on each claimed.
  template <class Note>
  std::uint32_t insert(WheelNode& node, Instant now, Note note);
  template <class StillListed>
  bool remove_if(WheelNode& node, std::uint32_t shard, StillListed still_listed);
  // Claims from the ready queues, shard by shard from `cursor` on (kept by the caller between calls). Shards
  // that somebody holds come last: only when nothing else is left, and after kLooksBeforeWaiting looks, are
  // they waited for. 0: nothing is left.
  template <class Mark>
  std::size_t claim(std::span<WheelNode*> out, std::uint32_t& cursor, Instant dirtied_before, Mark mark) {
    return claim_where(
        out, cursor, dirtied_before, [](Instant) { return false; }, [](Wheel&) {}, mark);
  }
  // detach_expired() and claim() in one hold of each shard that has something due, or something of the
  // future: the clock was set back.
  template <class Mark>
  std::size_t claim_expired(std::span<WheelNode*> out, std::uint32_t& cursor, Instant dirtied_before,
                            Instant now, Mark mark) {
    return claim_where(
        out, cursor, dirtied_before, [now](Instant oldest) { return oldest > now; },
        [&](Wheel& wheel) { wheel.detach_expired(dirtied_before, now); }, mark);
  }
  std::uint32_t detach_expired(Instant dirtied_before, Instant now);  // answers the buckets detached
  bool detach_oldest();  // the oldest slot of the shard whose hint is the oldest
  // Moves up to kMaxClaim nodes from one shard to another (of this or another sharded wheel), both locks
  // held: an element is never on no list. Nodes of open sync sets stay. mark(node) on each moved.
  template <class Mark>
  static std::size_t move_between(ShardedWheel& from, std::uint32_t from_shard, ShardedWheel& to,
                                  std::uint32_t to_shard, Instant now, Mark mark);

  // ---- sync ----
  // All that was listed in every shard at the call: one set per shard that had something.
  class SyncCut {
   public:
    explicit SyncCut(ShardedWheel& wheel) : wheel_(wheel) {}
    ~SyncCut();  // puts back what was not claimed
    SyncCut(const SyncCut&) = delete;
    SyncCut& operator=(const SyncCut&) = delete;
    template <class Mark>
    std::size_t claim(std::span<WheelNode*> out, Mark mark);  // 0: nothing is left now
    // The shard's set, to append to: an element that was dirty since before the cut and comes back from a
    // batch. The caller holds the shard's lock; a shard that had nothing gets its (empty) set now.
    SyncSet& set_of_locked(std::uint32_t shard) TW_NO_THREAD_SAFETY_ANALYSIS {
      if (sets_[shard] == nullptr) sets_[shard] = wheel_.shard(shard).wheel.open_set();
      return *sets_[shard];
    }

   private:
    friend class ShardedWheel;
    ShardedWheel& wheel_;
    std::array<SyncSet*, kMaxWheelShards> sets_{};
    std::uint32_t cursor_ = 0;
  };
  void take_all(SyncCut& cut);

  // ---- what is there ----
  Instant oldest() const;  // over the hints: no lock, one load a shard
  std::uint64_t listed() const;
  WheelStats stats() const;
  void trim();  // what idle shards keep
  void check_invariants() const;

 private:
  static bool slot_is_due(Instant start, Duration width, Instant cutoff);
  template <class AlsoIf, class Prepare, class Mark>
  std::size_t claim_where(std::span<WheelNode*> out, std::uint32_t& cursor, Instant dirtied_before,
                          AlsoIf also_if, Prepare prepare, Mark mark);
  void grow();
  std::uint32_t lock_while_growing();
  std::uint32_t lock_another(std::uint32_t picked);

  const ShardedWheelOptions options_;
  LockClass& lock_class_;
  const std::uint32_t max_shards_;
  const std::uint32_t cpu_stride_;  // shards per CPU, a power of two
  // Filled up to active_; release in grow() pairs with acquire in shards(): who sees the count sees them.
  std::array<std::unique_ptr<WheelShard>, kMaxWheelShards> shards_;
  Atomic<std::uint32_t> active_{1};
  // The flusher's last `now`: an earlier one shows a clock set back to shards that nobody inserts into.
  // Relaxed: flushers only compare it with their own reading.
  Atomic<std::int64_t> last_poll_ns_{INT64_MIN};
  Mutex growth_;
};

template <class Note>
std::uint32_t ShardedWheel::insert(WheelNode& node, Instant now, Note note) TW_NO_THREAD_SAFETY_ANALYSIS {
  const std::uint32_t id = lock_picked();
  WheelShard& picked = *shards_[id];
  picked.wheel.insert(node, now);
  note(id);
  picked.lock.unlock();
  return id;
}

template <class StillListed>
bool ShardedWheel::remove_if(WheelNode& node, std::uint32_t shard_id, StillListed still_listed) {
  WheelShard& listed_in = shard(shard_id);
  MutexLock lock(listed_in.lock);
  if (!still_listed()) return false;
  listed_in.wheel.remove(node);
  return true;
}

// clang can't follow a lock that is taken in one of two ways.
template <class AlsoIf, class Prepare, class Mark>
std::size_t ShardedWheel::claim_where(std::span<WheelNode*> out, std::uint32_t& cursor,
                                      Instant dirtied_before, AlsoIf also_if, Prepare prepare,
                                      Mark mark) TW_NO_THREAD_SAFETY_ANALYSIS {
  const std::uint32_t count = shards();
  for (std::uint32_t look = 0; look <= kLooksBeforeWaiting; ++look) {
    const bool waits = look == kLooksBeforeWaiting;
    if (look != 0) yield_thread();
    bool any_held = false;
    for (std::uint32_t i = 0; i < count; ++i, ++cursor) {
      WheelShard& visited = shard(cursor & (count - 1));
      const Instant oldest_here = visited.hint.oldest();
      if (oldest_here == Instant::max()) continue;
      if (!slot_is_due(oldest_here, options_.wheel.slot, dirtied_before) && !also_if(oldest_here)) continue;
      if (waits) {
        visited.lock.lock();
      } else if (!visited.lock.try_lock()) {
        any_held = true;
        continue;
      }
      prepare(visited.wheel);
      const std::size_t bound = std::min(out.size(), visited.wheel.claims_per_hold());
      const std::size_t claimed = visited.wheel.claim(out.first(bound), dirtied_before);
      for (WheelNode* node : out.first(claimed)) mark(*node);
      visited.lock.unlock();
      if (claimed != 0) return claimed;
    }
    if (!any_held) break;
  }
  return 0;
}

// clang can't follow locks through `first` and `second`, which are source and target in the order of their
// ids.
template <class Mark>
std::size_t ShardedWheel::move_between(ShardedWheel& from, std::uint32_t from_shard, ShardedWheel& to,
                                       std::uint32_t to_shard, Instant now,
                                       Mark mark) TW_NO_THREAD_SAFETY_ANALYSIS {
  WheelShard* source = &from.shard(from_shard);
  WheelShard* target = &to.shard(to_shard);
  if (source == target) return 0;
  TW_ASSERT(&from == &to || from.options_.id != to.options_.id,
            "two sharded wheels of one id have no lock order");
  const bool source_first = std::pair(from.options_.id, from_shard) < std::pair(to.options_.id, to_shard);
  WheelShard& first = source_first ? *source : *target;
  WheelShard& second = source_first ? *target : *source;
  MutexPairLock both(first.lock, second.lock);
  WheelNode* moved[kMaxClaim];
  const std::size_t count = source->wheel.move_some(target->wheel, moved, now);
  for (WheelNode* node : std::span(moved).first(count)) mark(*node);
  return count;
}

template <class Mark>
std::size_t ShardedWheel::SyncCut::claim(std::span<WheelNode*> out, Mark mark) {
  for (std::uint32_t i = 0; i < sets_.size(); ++i, ++cursor_) {
    const std::uint32_t id = cursor_ % kMaxWheelShards;
    if (sets_[id] == nullptr) continue;
    WheelShard& visited = wheel_.shard(id);
    MutexLock lock(visited.lock);
    const std::size_t claimed = visited.wheel.claim_from(*sets_[id], out);
    for (WheelNode* node : out.first(claimed)) mark(*node);
    if (claimed != 0) return claimed;
  }
  return 0;
}

}  // namespace tidewheel
