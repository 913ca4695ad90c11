// inode/sharded_reclaim.cc: what every reclaim policy shares: shards with a lock and an order each, the
// places of an item, the bound of a hold, the counts.
// Owns:      the shards and their orders; never an item.
// Locks:     Shard::mutex (rank kLru), one at a time.
#include <array>

#include "base/assert.h"
#include "base/sync.h"
#include "inode/reclaim_order.h"

namespace tidewheel {

namespace {

LockClass reclaim_class{"inode.lru", LockRank::kLru};

struct alignas(kCacheLine) Shard {
  mutable Mutex mutex TW_ACQUIRED_AFTER(kRankLru) TW_ACQUIRED_BEFORE(kRankArena){reclaim_class};
  std::unique_ptr<ReclaimOrder> order TW_PT_GUARDED_BY(mutex);  // the pointer: constant
  std::uint64_t isolated TW_GUARDED_BY(mutex) = 0;
};

class ShardedReclaim final : public ReclaimPolicy {
 public:
  ShardedReclaim(std::string name, const ReclaimOrderFactory& make_order) : name_(std::move(name)) {
    for (Shard& shard : shards_) {
      shard.order = make_order();
      TW_ASSERT(shard.order != nullptr, "a reclaim order's factory makes none");
    }
  }
  ~ShardedReclaim() override {
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      TW_ASSERT(shard.order->listed() == 0, "reclaim lists end before their items");
    }
  }
  std::string_view name() const override { return name_; }
  void insert(std::span<LruItem* const> items) override;
  bool remove(LruItem& item) override;
  std::size_t isolate(std::span<LruItem*> out) override;
  LruPutBack put_back(LruItem& item, LruVerdict verdict) override;
  ReclaimCounts counts() const override;

 private:
  static void set_place(LruItem& item, LruPlace place) {
    item.place_.store(static_cast<std::uint8_t>(place), std::memory_order_relaxed);
  }
  Shard& shard_of(const LruItem& item) { return shards_[item.shard % kLruShards]; }
  static void insert_locked(Shard& shard, LruItem& item) TW_REQUIRES(shard.mutex);
  static void leave_locked(Shard& shard, LruItem& item) TW_REQUIRES(shard.mutex);
  std::size_t take_locked(Shard& shard, std::span<LruItem*> out) TW_REQUIRES(shard.mutex);

  const std::string name_;
  std::array<Shard, kLruShards> shards_;
  Atomic<std::uint32_t> cursor_{0};  // relaxed: only spreads reclaimers over the shards
};

void ShardedReclaim::insert(std::span<LruItem* const> items) {
  for (std::size_t i = 0; i < items.size();) {
    Shard& shard = shard_of(*items[i]);
    MutexLock lock(shard.mutex);
    for (std::size_t held = 0; held < kReclaimScan && i < items.size(); ++held, ++i) {
      if (&shard_of(*items[i]) != &shard) break;
      insert_locked(shard, *items[i]);
    }
  }
}

void ShardedReclaim::insert_locked(Shard& shard, LruItem& item) {
  switch (item.place()) {
    case LruPlace::kOff:
      shard.order->enter(item);
      TW_ASSERT(item.listed(), "a reclaim order does not list what enters");
      break;
    case LruPlace::kIsolated: set_place(item, LruPlace::kIsolatedWanted); break;
    default: break;
  }
}

void ShardedReclaim::leave_locked(Shard& shard, LruItem& item) {
  shard.order->leave(item);
  TW_ASSERT(!item.hook.is_linked(), "a reclaim order keeps what is to leave");
}

bool ShardedReclaim::remove(LruItem& item) {
  Shard& shard = shard_of(item);
  MutexLock lock(shard.mutex);
  switch (item.place()) {
    case LruPlace::kOff: return true;
    case LruPlace::kInactive:
    case LruPlace::kActive:
      leave_locked(shard, item);
      set_place(item, LruPlace::kOff);
      return true;
    case LruPlace::kIsolated:
    case LruPlace::kIsolatedWanted: set_place(item, LruPlace::kDoomed); return false;
    case LruPlace::kDoomed: break;
  }
  TW_ASSERT(false, "an item is removed twice");
  return false;
}

std::size_t ShardedReclaim::take_locked(Shard& shard, std::span<LruItem*> out) {
  std::size_t taken = 0;
  for (std::uint32_t looks = 0; looks < kReclaimScan && taken < out.size(); ++looks) {
    if (shard.order->listed() == 0) break;
    LruItem* item = shard.order->look();
    if (item == nullptr) continue;
    TW_ASSERT(item->listed(), "a reclaim order answers an item that is not listed");
    TW_ASSERT(&shards_[item->shard % kLruShards] == &shard, "a reclaim order answers another shard's item");
    leave_locked(shard, *item);
    set_place(*item, LruPlace::kIsolated);
    out[taken++] = item;
  }
  shard.isolated += taken;
  return taken;
}

std::size_t ShardedReclaim::isolate(std::span<LruItem*> out) {
  const std::uint32_t first = cursor_.fetch_add(1, std::memory_order_relaxed);
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < kLruShards && taken < out.size(); ++i) {
    Shard& shard = shards_[(first + i) % kLruShards];
    MutexLock lock(shard.mutex);
    taken += take_locked(shard, out.subspan(taken));
  }
  return taken;
}

LruPutBack ShardedReclaim::put_back(LruItem& item, LruVerdict verdict) {
  Shard& shard = shard_of(item);
  MutexLock lock(shard.mutex);
  const LruPlace place = item.place();
  set_place(item, LruPlace::kOff);
  if (place == LruPlace::kDoomed) return LruPutBack::kDoomed;
  TW_ASSERT(place == LruPlace::kIsolated || place == LruPlace::kIsolatedWanted,
            "an item is put back that was not isolated");
  if (verdict == LruVerdict::kEvicted) {
    shard.order->evicted(item);
  } else if (verdict == LruVerdict::kKeep || place == LruPlace::kIsolatedWanted) {
    insert_locked(shard, item);
  }
  return LruPutBack::kDone;
}

ReclaimCounts ShardedReclaim::counts() const {
  ReclaimCounts sum;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    sum.listed += shard.order->listed();
    sum.active += shard.order->active();
    sum.isolated += shard.isolated;
    sum.rescued += shard.order->rescued();
  }
  return sum;
}

}  // namespace

std::unique_ptr<ReclaimPolicy> make_sharded_reclaim(std::string name, const ReclaimOrderFactory& make_order) {
  return std::make_unique<ShardedReclaim>(std::move(name), make_order);
}

}  // namespace tidewheel
