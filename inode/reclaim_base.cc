#include "inode/reclaim_base.h"

#include "base/assert.h"

namespace tidewheel {

ReclaimPolicyBase::ReclaimPolicyBase(Shards shards) : shards_(std::move(shards)) {
  TW_ASSERT(shards_.size() == kLruShards, "a reclaim policy with another number of shards");
}

ReclaimPolicyBase::~ReclaimPolicyBase() {
  for (const auto& shard : shards_) {
    MutexLock lock(shard->mutex);
    TW_ASSERT(shard->listed == 0, "reclaim lists end before their items");
  }
}

void ReclaimPolicyBase::insert(std::span<LruItem* const> items) {
  for (std::size_t i = 0; i < items.size();) {
    ReclaimShard& shard = shard_of(*items[i]);
    MutexLock lock(shard.mutex);
    for (std::size_t held = 0; held < kReclaimScan && i < items.size(); ++held, ++i) {
      if (&shard_of(*items[i]) != &shard) break;
      insert_locked(shard, *items[i]);
    }
  }
}

void ReclaimPolicyBase::insert_locked(ReclaimShard& shard, LruItem& item) {
  switch (item.place()) {
    case LruPlace::kOff:
      set_place(item, LruPlace::kInactive);
      link_locked(shard, item);
      ++shard.listed;
      break;
    case LruPlace::kIsolated: set_place(item, LruPlace::kIsolatedWanted); break;
    default: break;
  }
}

bool ReclaimPolicyBase::remove(LruItem& item) {
  ReclaimShard& shard = shard_of(item);
  MutexLock lock(shard.mutex);
  switch (item.place()) {
    case LruPlace::kOff: return true;
    case LruPlace::kInactive:
    case LruPlace::kActive:
      unlink_locked(shard, item);
      --shard.listed;
      set_place(item, LruPlace::kOff);
      return true;
    case LruPlace::kIsolated:
    case LruPlace::kIsolatedWanted: set_place(item, LruPlace::kDoomed); return false;
    case LruPlace::kDoomed: break;
  }
  TW_ASSERT(false, "an item is removed twice");
  return false;
}

std::size_t ReclaimPolicyBase::isolate(std::span<LruItem*> out) {
  const std::uint32_t first = cursor_.fetch_add(1, std::memory_order_relaxed);
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < kLruShards && taken < out.size(); ++i) {
    ReclaimShard& shard = *shards_[(first + i) % kLruShards];
    MutexLock lock(shard.mutex);
    const std::span<LruItem*> rest = out.subspan(taken);
    const std::size_t got = take_locked(shard, rest);
    TW_DASSERT(got <= rest.size() && got <= shard.listed, "a reclaim policy takes more than it has");
    for (std::size_t n = 0; n < got; ++n) set_place(*rest[n], LruPlace::kIsolated);
    shard.listed -= got;
    shard.isolated += got;
    taken += got;
  }
  return taken;
}

LruPutBack ReclaimPolicyBase::put_back(LruItem& item, LruVerdict verdict) {
  ReclaimShard& shard = shard_of(item);
  MutexLock lock(shard.mutex);
  const LruPlace place = item.place();
  set_place(item, LruPlace::kOff);
  if (place == LruPlace::kDoomed) return LruPutBack::kDoomed;
  TW_ASSERT(place == LruPlace::kIsolated || place == LruPlace::kIsolatedWanted,
            "an item is put back that was not isolated");
  if (verdict == LruVerdict::kEvicted) return LruPutBack::kDone;
  if (verdict == LruVerdict::kKeep || place == LruPlace::kIsolatedWanted) insert_locked(shard, item);
  return LruPutBack::kDone;
}

ReclaimCounts ReclaimPolicyBase::counts() const {
  ReclaimCounts sum;
  for (const auto& shard : shards_) {
    MutexLock lock(shard->mutex);
    sum.listed += shard->listed;
    sum.active += shard->active;
    sum.isolated += shard->isolated;
    sum.rescued += shard->rescued;
  }
  return sum;
}

}  // namespace tidewheel
