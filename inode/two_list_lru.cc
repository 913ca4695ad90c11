#include <array>
#include <boost/intrusive/list.hpp>

#include "base/assert.h"
#include "base/sync.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

LockClass lru_class{"inode.lru", LockRank::kLru};

using ItemList =
    boost::intrusive::list<LruItem, boost::intrusive::member_hook<LruItem, LruItem::Hook, &LruItem::hook>,
                           boost::intrusive::constant_time_size<false>>;

// Fronts are hottest. An item enters in front of inactive; referenced when its turn comes at the back, it
// is protected on the active list. The active list never exceeds the inactive one by much: what it gives
// back gets the whole length of the inactive list to be referenced again (the second chance).
class TwoListLru final : public ReclaimPolicy {
 public:
  ~TwoListLru() override {
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      TW_ASSERT(shard.inactive.empty() && shard.active.empty(), "reclaim lists end before their items");
    }
  }
  std::string_view name() const override { return "two-list"; }

  void insert(std::span<LruItem* const> items) override {
    for (std::size_t i = 0; i < items.size();) {
      Shard& shard = shards_[items[i]->shard % kLruShards];
      MutexLock lock(shard.mutex);
      for (std::size_t held = 0; held < kReclaimScan && i < items.size(); ++held, ++i) {
        if (&shards_[items[i]->shard % kLruShards] != &shard) break;
        insert_locked(shard, *items[i]);
      }
    }
  }

  bool remove(LruItem& item) override {
    Shard& shard = shards_[item.shard % kLruShards];
    MutexLock lock(shard.mutex);
    switch (item.place()) {
      case LruPlace::kOff: return true;
      case LruPlace::kInactive:
      case LruPlace::kActive: unlink_locked(shard, item); return true;
      case LruPlace::kIsolated:
      case LruPlace::kIsolatedWanted: set_place(item, LruPlace::kDoomed); return false;
      case LruPlace::kDoomed: break;
    }
    TW_ASSERT(false, "an item is removed twice");
    return false;
  }

  std::size_t isolate(std::span<LruItem*> out) override {
    // Relaxed: only spreads reclaimers over the shards.
    const std::uint32_t first = cursor_.fetch_add(1, std::memory_order_relaxed);
    std::size_t taken = 0;
    for (std::uint32_t i = 0; i < kLruShards && taken < out.size(); ++i) {
      Shard& shard = shards_[(first + i) % kLruShards];
      MutexLock lock(shard.mutex);
      taken += isolate_locked(shard, out.subspan(taken));
    }
    return taken;
  }

  LruPutBack put_back(LruItem& item, LruVerdict verdict) override {
    Shard& shard = shards_[item.shard % kLruShards];
    MutexLock lock(shard.mutex);
    const LruPlace place = item.place();
    if (place == LruPlace::kDoomed) {
      set_place(item, LruPlace::kOff);
      return LruPutBack::kDoomed;
    }
    TW_ASSERT(place == LruPlace::kIsolated || place == LruPlace::kIsolatedWanted,
              "an item is put back that was not isolated");
    set_place(item, LruPlace::kOff);
    if (verdict == LruVerdict::kEvicted) return LruPutBack::kDone;
    if (verdict == LruVerdict::kKeep || place == LruPlace::kIsolatedWanted) insert_locked(shard, item);
    return LruPutBack::kDone;
  }

  ReclaimCounts counts() const override {
    ReclaimCounts sum;
    for (const Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      sum.listed += shard.inactive_count + shard.active_count;
      sum.active += shard.active_count;
      sum.isolated += shard.isolated;
      sum.rescued += shard.rescued;
    }
    return sum;
  }

 private:
  struct alignas(kCacheLine) Shard {
    mutable Mutex mutex TW_ACQUIRED_AFTER(kRankLru) TW_ACQUIRED_BEFORE(kRankArena){lru_class};
    ItemList inactive TW_GUARDED_BY(mutex);
    ItemList active TW_GUARDED_BY(mutex);
    std::uint64_t inactive_count TW_GUARDED_BY(mutex) = 0;
    std::uint64_t active_count TW_GUARDED_BY(mutex) = 0;
    std::uint64_t isolated TW_GUARDED_BY(mutex) = 0;
    std::uint64_t rescued TW_GUARDED_BY(mutex) = 0;
  };

  static void set_place(LruItem& item, LruPlace place) {
    item.place_.store(static_cast<std::uint8_t>(place), std::memory_order_relaxed);
  }
  static bool take_reference(LruItem& item) {
    if (item.referenced.load(std::memory_order_relaxed) == 0) return false;
    item.referenced.store(0, std::memory_order_relaxed);
    return true;
  }

  static void insert_locked(Shard& shard, LruItem& item) TW_REQUIRES(shard.mutex) {
    switch (item.place()) {
      case LruPlace::kOff:
        shard.inactive.push_front(item);
        ++shard.inactive_count;
        set_place(item, LruPlace::kInactive);
        break;
      case LruPlace::kIsolated: set_place(item, LruPlace::kIsolatedWanted); break;
      default: break;
    }
  }

  static void unlink_locked(Shard& shard, LruItem& item) TW_REQUIRES(shard.mutex) {
    if (item.place() == LruPlace::kActive) {
      shard.active.erase(shard.active.iterator_to(item));
      --shard.active_count;
    } else {
      shard.inactive.erase(shard.inactive.iterator_to(item));
      --shard.inactive_count;
    }
    set_place(item, LruPlace::kOff);
  }

  static std::size_t isolate_locked(Shard& shard, std::span<LruItem*> out) TW_REQUIRES(shard.mutex) {
    std::uint32_t looked = 0;
    // Half of the hold at most goes to keeping the lists balanced.
    while (looked < kReclaimScan / 2 && shard.active_count > shard.inactive_count) {
      ++looked;
      LruItem& item = shard.active.back();
      shard.active.pop_back();
      if (take_reference(item)) {
        shard.active.push_front(item);
        continue;
      }
      --shard.active_count;
      shard.inactive.push_front(item);
      ++shard.inactive_count;
      set_place(item, LruPlace::kInactive);
    }
    std::size_t taken = 0;
    while (looked < kReclaimScan && taken < out.size() && shard.inactive_count != 0) {
      ++looked;
      LruItem& item = shard.inactive.back();
      shard.inactive.pop_back();
      --shard.inactive_count;
      if (take_reference(item)) {
        shard.active.push_front(item);
        ++shard.active_count;
        ++shard.rescued;
        set_place(item, LruPlace::kActive);
        continue;
      }
      set_place(item, LruPlace::kIsolated);
      ++shard.isolated;
      out[taken++] = &item;
    }
    return taken;
  }

  std::array<Shard, kLruShards> shards_;
  Atomic<std::uint32_t> cursor_{0};
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_two_list_lru() { return std::make_unique<TwoListLru>(); }

}  // namespace tidewheel
