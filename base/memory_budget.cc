#include "base/memory_budget.h"

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "base/trace.h"

namespace tidewheel {

namespace {

LockClass budget_locks{"memory-budget", LockRank::kStatistics};

// A shard's chunk: 64 pages, so that one charge in 64 touches the shared word, but all shards together
// never hoard more than an eighth of a small budget.
constexpr std::int64_t kChunkBytes = 64 * static_cast<std::int64_t>(kPageBytes);

std::int64_t chunk_of(std::uint64_t limit, std::uint32_t shards) {
  return std::min(kChunkBytes, static_cast<std::int64_t>(limit / (8 * 2 * shards)));
}

void raise_to(Atomic<std::int64_t>& peak, std::int64_t value) {
  std::int64_t old = peak.load(std::memory_order_relaxed);
  while (old < value && !peak.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
}

std::uint64_t not_below_zero(std::int64_t n) { return n < 0 ? 0 : static_cast<std::uint64_t>(n); }

}  // namespace

const char* name_of(MemoryKind kind) {
  constexpr const char* kNames[kMemoryKinds] = {"pages", "inodes", "buffers", "log", "index", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

MemoryBudget::MemoryBudget(std::uint64_t limit_bytes, std::uint64_t reserve_bytes)
    : limit_(limit_bytes),
      reserve_(reserve_bytes),
      shared_limit_(static_cast<std::int64_t>(limit_bytes - reserve_bytes)),
      chunk_(chunk_of(limit_bytes, kShards)),
      mutex_(budget_locks) {
  TW_ASSERT(reserve_bytes < limit_bytes, "the reserve leaves nothing of the budget");
  TW_ASSERT(limit_bytes <= INT64_MAX, "a budget is counted in 63 bits");
}

MemoryBudget::~MemoryBudget() {
  TW_ASSERT(charged_bytes() == 0, "a memory budget ends while something is still charged");
}

// ---- charging ----

bool MemoryBudget::try_charge(MemoryKind kind, std::uint64_t bytes, ChargeBy by) {
  if (charge_now(kind, bytes, by)) return true;
  refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool MemoryBudget::charge_now(MemoryKind kind, std::uint64_t bytes, ChargeBy by) {
  if (bytes > limit_) return false;
  const auto n = static_cast<std::int64_t>(bytes);
  if (!take(n) && (by != ChargeBy::kWriteback || !take_from_reserve(n))) return false;
  count(kind, n);
  return true;
}

bool MemoryBudget::take(std::int64_t bytes) {
  Atomic<std::int64_t>& credit = shards_[thread_number() % kShards].credit;
  std::int64_t have = credit.load(std::memory_order_relaxed);
  while (have >= bytes) {
    if (credit.compare_exchange_weak(have, have - bytes, std::memory_order_seq_cst)) return true;
  }
  std::int64_t got = 0;
  if (!raise(bytes, bytes + chunk_, got)) {
    // The limit is near: what other shards have put by counts too. What is gathered is in nobody's hands
    // but ours until it is used or given back.
    const std::int64_t gathered = gather_credit();
    const std::int64_t missing = bytes - gathered;
    if (missing > 0 && !raise(missing, missing, got)) {
      taken_.fetch_sub(gathered, std::memory_order_seq_cst);
      if (gathered > 0 && waiters_.load(std::memory_order_seq_cst) != 0) wake_waiters();
      return false;
    }
    got += gathered;
  }
  if (got > bytes) {
    credit.fetch_add(got - bytes, std::memory_order_seq_cst);
    // Another thread may have failed, and gone to sleep, because we were carrying this.
    if (waiters_.load(std::memory_order_seq_cst) != 0) wake_waiters();
  }
  return true;
}

// Raises the shared word by as much of `wanted` as fits, if at least `least` does.
bool MemoryBudget::raise(std::int64_t least, std::int64_t wanted, std::int64_t& got) {
  std::int64_t taken = taken_.load(std::memory_order_seq_cst);
  for (;;) {
    const std::int64_t room = shared_limit_ - taken;
    if (room < least) return false;
    // Near the limit nobody hoards: what is left belongs to whoever needs it next.
    const std::int64_t amount = room >= 2 * wanted ? wanted : least;
    if (taken_.compare_exchange_weak(taken, taken + amount, std::memory_order_seq_cst)) {
      got = amount;
      raise_to(taken_peak_, taken + amount);
      return true;
    }
  }
}

std::int64_t MemoryBudget::gather_credit() {
  std::int64_t gathered = 0;
  for (Shard& shard : shards_) {
    if (shard.credit.load(std::memory_order_seq_cst) == 0) continue;
    gathered += shard.credit.exchange(0, std::memory_order_seq_cst);
  }
  return gathered;
}

bool MemoryBudget::take_from_reserve(std::int64_t bytes) {
  std::int64_t used = reserve_used_.load(std::memory_order_seq_cst);
  while (used + bytes <= static_cast<std::int64_t>(reserve_)) {
    if (reserve_used_.compare_exchange_weak(used, used + bytes, std::memory_order_seq_cst)) return true;
  }
  return false;
}

void MemoryBudget::count(MemoryKind kind, std::int64_t bytes) {
  const auto k = static_cast<std::size_t>(kind);
  Atomic<std::int64_t>& used = shards_[thread_number() % kShards].used[k];
  const std::int64_t before = used.fetch_add(bytes, std::memory_order_relaxed);
  // The sum over shards is only looked at when this shard passes a multiple of the chunk.
  if (chunk_ == 0 || before / chunk_ != (before + bytes) / chunk_) note_peak(kind);
}

void MemoryBudget::note_peak(MemoryKind kind) {
  raise_to(used_peak_[static_cast<std::size_t>(kind)], static_cast<std::int64_t>(used_bytes(kind)));
}

void MemoryBudget::uncharge(MemoryKind kind, std::uint64_t bytes) {
  auto n = static_cast<std::int64_t>(bytes);
  Shard& shard = shards_[thread_number() % kShards];
  shard.used[static_cast<std::size_t>(kind)].fetch_sub(n, std::memory_order_relaxed);

  std::int64_t drawn = reserve_used_.load(std::memory_order_seq_cst);
  while (drawn > 0 && n > 0) {
    const std::int64_t part = std::min(drawn, n);
    if (reserve_used_.compare_exchange_weak(drawn, drawn - part, std::memory_order_seq_cst)) {
      n -= part;
      break;
    }
  }
  if (n > 0) {
    const std::int64_t credit = shard.credit.fetch_add(n, std::memory_order_seq_cst) + n;
    if (credit > 2 * chunk_) taken_.fetch_sub(shard.credit.exchange(0, std::memory_order_seq_cst),
                                              std::memory_order_seq_cst);
  }
  if (waiters_.load(std::memory_order_seq_cst) != 0) wake_waiters();
}

// ---- waiting ----

void MemoryBudget::wake_waiters() {
  MutexLock lock(mutex_);
  ++uncharges_seen_;
  changed_.notify_all();
}

Result<void> MemoryBudget::charge(MemoryKind kind, std::uint64_t bytes, ChargeBy by, Duration patience) {
  assert_may_sleep();
  if (charge_now(kind, bytes, by)) return {};
  const std::uint64_t ever = by == ChargeBy::kWriteback ? std::max<std::uint64_t>(limit_ - reserve_, reserve_)
                                                        : limit_ - reserve_;
  if (bytes > ever) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return TW_FAIL_WITH(kNoMemory, static_cast<std::size_t>(kind));
  }
  const Instant start = SteadyClock::instance().now();
  const Instant deadline = patience.ns > Instant::max().ns - start.ns ? Instant::max() : start + patience;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool charged = false;
  for (bool in_time = true; !charged && in_time;) {
    std::uint64_t seen = 0;
    {
      MutexLock lock(mutex_);
      seen = uncharges_seen_;
    }
    charged = charge_now(kind, bytes, by);
    if (charged) break;
    const std::uint64_t freed = shrink(bytes);
    charged = charge_now(kind, bytes, by);
    if (charged) break;
    in_time = SteadyClock::instance().now() < deadline;
    if (freed > 0 || !in_time) continue;
    waits_.fetch_add(1, std::memory_order_relaxed);
    MutexLock lock(mutex_);
    changed_.wait_until(mutex_, deadline, [&] {
      mutex_.assert_held();
      return uncharges_seen_ != seen;
    });
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  if (charged) return {};
  refused_.fetch_add(1, std::memory_order_relaxed);
  return TW_FAIL_WITH(kNoMemory, static_cast<std::size_t>(kind));
}

// ---- shrinkers ----

void MemoryBudget::add_shrinker(Shrinker& shrinker) {
  MutexLock lock(mutex_);
  shrinkers_.push_back(Entry{&shrinker, 0});
}

void MemoryBudget::remove_shrinker(Shrinker& shrinker) {
  MutexLock lock(mutex_);
  const auto find = [&] {
    mutex_.assert_held();
    return std::find_if(shrinkers_.begin(), shrinkers_.end(),
                        [&](const Entry& entry) { return entry.shrinker == &shrinker; });
  };
  TW_ASSERT(find() != shrinkers_.end(), "a shrinker is removed that was not added");
  // Other calls may come while this waits; each is as long as one shrink().
  while (find()->calls != 0) changed_.wait(mutex_);
  shrinkers_.erase(find());
}

std::uint64_t MemoryBudget::shrink(std::uint64_t bytes) {
  std::uint64_t freed = 0;
  for (std::size_t i = 0; freed < bytes; ++i) {
    Shrinker* shrinker = nullptr;
    {
      MutexLock lock(mutex_);
      if (i >= shrinkers_.size()) break;
      shrinker = shrinkers_[i].shrinker;
      ++shrinkers_[i].calls;
    }
    shrinks_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t wanted = bytes - freed;
    if (tracing()) {  // sums shards
      TW_TRACE(mm_shrink_slab_start, reinterpret_cast<std::uintptr_t>(shrinker), wanted, charged_bytes());
    }
    const std::uint64_t got = shrinker->shrink(wanted);
    TW_TRACE(mm_shrink_slab_end, reinterpret_cast<std::uintptr_t>(shrinker), wanted, got);
    shrunk_bytes_.fetch_add(got, std::memory_order_relaxed);
    freed += got;
    MutexLock lock(mutex_);
    for (Entry& entry : shrinkers_) {
      if (entry.shrinker == shrinker && --entry.calls == 0) changed_.notify_all();
    }
  }
  return freed;
}

// ---- what there is ----

std::uint64_t MemoryBudget::used_bytes(MemoryKind kind) const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) {
    sum += shard.used[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }
  return not_below_zero(sum);
}

std::uint64_t MemoryBudget::charged_bytes() const {
  std::int64_t sum = taken_.load(std::memory_order_seq_cst) + reserve_used_.load(std::memory_order_seq_cst);
  for (const Shard& shard : shards_) sum -= shard.credit.load(std::memory_order_seq_cst);
  return not_below_zero(sum);
}

MemoryStats MemoryBudget::stats() const {
  MemoryStats stats;
  stats.limit = limit_;
  stats.charged = charged_bytes();
  stats.peak = not_below_zero(taken_peak_.load(std::memory_order_relaxed));
  stats.reserve_used = not_below_zero(reserve_used_.load(std::memory_order_relaxed));
  for (std::size_t k = 0; k < kMemoryKinds; ++k) {
    stats.used[k] = used_bytes(static_cast<MemoryKind>(k));
    stats.used_peak[k] =
        std::max(stats.used[k], not_below_zero(used_peak_[k].load(std::memory_order_relaxed)));
  }
  stats.refused = refused_.load(std::memory_order_relaxed);
  stats.shrinks = shrinks_.load(std::memory_order_relaxed);
  stats.shrunk_bytes = shrunk_bytes_.load(std::memory_order_relaxed);
  stats.waits = waits_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace tidewheel
