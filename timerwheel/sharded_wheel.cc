#include "timerwheel/sharded_wheel.h"

#include <algorithm>
#include <bit>

namespace tidewheel {

namespace {

constinit LockClass wheel_shard_class{"wheel_shard", LockRank::kListShard};

std::uint32_t shards_from(std::uint32_t asked) {
  const std::uint32_t shards = asked == 0 ? default_wheel_shards() : asked;
  TW_ASSERT(std::has_single_bit(shards), "the number of shards is a power of two");
  TW_ASSERT(shards <= kMaxWheelShards, "too many shards");
  return shards;
}

}  // namespace

std::uint32_t default_wheel_shards(std::uint32_t cpus) {
  return std::min(kMaxWheelShards, std::max(16U, std::bit_ceil(4 * std::min(cpus, kMaxWheelShards))));
}

std::uint32_t default_wheel_shards() { return default_wheel_shards(cpu_count()); }

ShardedWheel::ShardedWheel(const ShardedWheelOptions& options)
    : options_(options),
      lock_class_(options.lock_class != nullptr ? *options.lock_class : wheel_shard_class),
      max_shards_(shards_from(options.shards)),
      cpu_stride_(std::bit_floor(std::max(1U, max_shards_ / cpu_count()))),
      growth_(lock_class_) {
  shards_[0] = std::make_unique<WheelShard>(options_.wheel, lock_class_);
  if (!options_.grow_when_contended) grow();
}

// Does a slot that begins at `start` end at or before the cut-off?
bool ShardedWheel::slot_is_due(Instant start, Duration width, Instant cutoff) {
  if (start == Instant::max()) return false;
  return start <= cutoff && static_cast<std::uint64_t>(cutoff.ns) - static_cast<std::uint64_t>(start.ns) >=
                                static_cast<std::uint64_t>(width.ns) - 1;
}

void ShardedWheel::grow() {
  MutexLock lock(growth_);
  if (shards() == max_shards_) return;
  for (std::uint32_t id = 1; id < max_shards_; ++id) {
    shards_[id] = std::make_unique<WheelShard>(options_.wheel, lock_class_);
  }
  active_.store(max_shards_, std::memory_order_release);
}

// Out of lock_picked: not all shards are made yet. Shard 0 it is, until somebody finds it taken.
std::uint32_t ShardedWheel::lock_while_growing() TW_NO_THREAD_SAFETY_ANALYSIS {
  if (shards_[0]->lock.try_lock()) return 0;
  grow();
  const std::uint32_t id = pick();
  shards_[id]->lock.lock();
  return id;
}

// Out of lock_picked: the picked shard is taken. Few looks: where all are taken there are more threads than
// shards, and sleeping is right.
std::uint32_t ShardedWheel::lock_another(std::uint32_t picked) TW_NO_THREAD_SAFETY_ANALYSIS {
  for (std::uint32_t i = 1; i < std::min(4U, max_shards_); ++i) {
    if (shards_[picked ^ i]->lock.try_lock()) return picked ^ i;  // their number is a power of two
  }
  shards_[picked]->lock.lock();
  return picked;
}

std::uint32_t ShardedWheel::detach_expired(Instant dirtied_before, Instant now) {
  const std::int64_t last_poll_ns = last_poll_ns_.exchange(now.ns, std::memory_order_relaxed);
  const bool set_back =
      last_poll_ns > now.ns && static_cast<std::uint64_t>(last_poll_ns) - static_cast<std::uint64_t>(now.ns) >
                                   static_cast<std::uint64_t>(options_.wheel.late_reading.ns);
  // Which shards to visit, by their hints, and their lines asked for in advance: between polls they have gone
  // cold, and one lock after the other would wait for them one after the other.
  std::array<WheelShard*, kMaxWheelShards> due;
  std::uint32_t due_count = 0;
  for (std::uint32_t id = 0, count = shards(); id < count; ++id) {
    WheelShard& asked = shard(id);
    const Instant oldest_here = asked.hint.oldest();
    if (oldest_here == Instant::max()) continue;
    // A slot that begins in the future can only be seen after the clock was set back.
    const bool look =
        set_back || oldest_here > now || slot_is_due(oldest_here, options_.wheel.slot, dirtied_before);
    if (!look) continue;
    asked.prefetch();
    asked.hint.prefetch(options_.wheel, oldest_here);
    due[due_count++] = &asked;
  }
  std::uint32_t detached = 0;
  for (WheelShard* visited : std::span(due).first(due_count)) {
    MutexLock lock(visited->lock);
    detached += visited->wheel.detach_expired(dirtied_before, now);
  }
  return detached;
}

bool ShardedWheel::detach_oldest() {
  const std::uint32_t count = shards();
  // Oldest hint first; a shard whose oldest is on the ready queue already or in a sync set may have nothing
  // else, then the next one is asked: at most one pass over the shards.
  std::array<std::pair<Instant, std::uint32_t>, kMaxWheelShards> order;
  std::uint32_t candidates = 0;
  for (std::uint32_t id = 0; id < count; ++id) {
    const Instant oldest_here = shard(id).hint.oldest();
    if (oldest_here != Instant::max()) order[candidates++] = {oldest_here, id};
  }
  std::sort(order.begin(), order.begin() + candidates);
  for (std::uint32_t i = 0; i < candidates; ++i) {
    WheelShard& visited = shard(order[i].second);
    MutexLock lock(visited.lock);
    if (visited.wheel.detach_oldest()) return true;
  }
  return false;
}

// ---- sync ----

void ShardedWheel::take_all(SyncCut& cut) {
  // Each lock is taken, whatever the hint says: it says "empty" already while a flusher that has claimed the
  // last element still holds the lock and has not yet noted where the element went. After its hold the caller
  // finds the element there.
  const std::uint32_t count = shards();
  for (std::uint32_t id = 0; id < count; ++id) shard(id).prefetch();
  for (std::uint32_t id = 0; id < count; ++id) {
    WheelShard& visited = shard(id);
    MutexLock lock(visited.lock);
    if (visited.wheel.listed() != 0) cut.sets_[id] = visited.wheel.take_all();
  }
}

ShardedWheel::SyncCut::~SyncCut() {
  for (std::uint32_t id = 0; id < sets_.size(); ++id) {
    if (sets_[id] == nullptr) continue;
    WheelShard& visited = wheel_.shard(id);
    MutexLock lock(visited.lock);
    visited.wheel.put_back(sets_[id]);
  }
}

// ---- what is there ----

Instant ShardedWheel::oldest() const {
  Instant result = Instant::max();
  for (std::uint32_t id = 0, count = shards(); id < count; ++id) {
    result = std::min(result, shard(id).hint.oldest());
  }
  return result;
}

std::uint64_t ShardedWheel::listed() const {
  std::uint64_t total = 0;
  for (std::uint32_t id = 0, count = shards(); id < count; ++id) {
    WheelShard& visited = *shards_[id];
    MutexLock lock(visited.lock);
    total += visited.wheel.listed();
  }
  return total;
}

WheelStats ShardedWheel::stats() const {
  WheelStats total;
  for (std::uint32_t id = 0, count = shards(); id < count; ++id) {
    WheelShard& visited = *shards_[id];
    MutexLock lock(visited.lock);
    total += visited.wheel.stats();
  }
  return total;
}

void ShardedWheel::trim() {
  for (std::uint32_t id = 0, count = shards(); id < count; ++id) {
    WheelShard& visited = shard(id);
    MutexLock lock(visited.lock);
    visited.wheel.trim();
  }
}

void ShardedWheel::check_invariants() const {
  for (std::uint32_t id = 0, count = shards(); id < count; ++id) {
    WheelShard& visited = *shards_[id];
    MutexLock lock(visited.lock);
    visited.wheel.check_invariants();
  }
}

}  // namespace tidewheel
