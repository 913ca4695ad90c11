#include <array>
#include <boost/intrusive/list.hpp>

#include "base/assert.h"
#include "base/sync.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

LockClass sieve_class{"inode.sieve", LockRank::kLru};

using ItemList =
    boost::intrusive::list<LruItem, boost::intrusive::member_hook<LruItem, LruItem::Hook, &LruItem::hook>,
                           boost::intrusive::constant_time_size<false>>;

// SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: NSDI 2024): one queue, never reordered; a hand walks from the
// oldest to the newest, clears the reference of what it passes and takes what has none.
class Sieve final : public ReclaimPolicy {
 public:
  ~Sieve() override {
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      TW_ASSERT(shard.queue.empty(), "reclaim lists end before their items");
    }
  }
  std::string_view name() const override { return "sieve"; }

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
      case LruPlace::kActive:
        unlink_locked(shard, item);
        set_place(item, LruPlace::kOff);
        return true;
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
      for (std::uint32_t looked = 0; looked < kReclaimScan && taken < out.size(); ++looked) {
        if (shard.queue.empty()) break;
        if (shard.hand == nullptr) shard.hand = &shard.queue.back();
        LruItem& item = *shard.hand;
        if (item.referenced.load(std::memory_order_relaxed) != 0) {
          item.referenced.store(0, std::memory_order_relaxed);
          ++shard.rescued;
          advance_locked(shard);
          continue;
        }
        unlink_locked(shard, item);  // moves the hand on
        set_place(item, LruPlace::kIsolated);
        ++shard.isolated;
        out[taken++] = &item;
      }
    }
    return taken;
  }

  LruPutBack put_back(LruItem& item, LruVerdict verdict) override {
    Shard& shard = shards_[item.shard % kLruShards];
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

  ReclaimCounts counts() const override {
    ReclaimCounts sum;
    for (const Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      sum.listed += shard.count;
      sum.isolated += shard.isolated;
      sum.rescued += shard.rescued;
    }
    return sum;
  }

 private:
  struct alignas(kCacheLine) Shard {
    mutable Mutex mutex TW_ACQUIRED_AFTER(kRankLru) TW_ACQUIRED_BEFORE(kRankArena){sieve_class};
    ItemList queue TW_GUARDED_BY(mutex);  // the front is newest
    LruItem* hand TW_GUARDED_BY(mutex) = nullptr;
    std::uint64_t count TW_GUARDED_BY(mutex) = 0;
    std::uint64_t isolated TW_GUARDED_BY(mutex) = 0;
    std::uint64_t rescued TW_GUARDED_BY(mutex) = 0;
  };

  static void set_place(LruItem& item, LruPlace place) {
    item.place_.store(static_cast<std::uint8_t>(place), std::memory_order_relaxed);
  }
  static void insert_locked(Shard& shard, LruItem& item) TW_REQUIRES(shard.mutex) {
    switch (item.place()) {
      case LruPlace::kOff:
        shard.queue.push_front(item);
        ++shard.count;
        set_place(item, LruPlace::kInactive);
        break;
      case LruPlace::kIsolated: set_place(item, LruPlace::kIsolatedWanted); break;
      default: break;
    }
  }
  static void advance_locked(Shard& shard) TW_REQUIRES(shard.mutex) {
    auto at = shard.queue.iterator_to(*shard.hand);
    shard.hand = at == shard.queue.begin() ? nullptr : &*--at;
  }
  static void unlink_locked(Shard& shard, LruItem& item) TW_REQUIRES(shard.mutex) {
    if (shard.hand == &item) advance_locked(shard);
    shard.queue.erase(shard.queue.iterator_to(item));
    --shard.count;
  }

  std::array<Shard, kLruShards> shards_;
  Atomic<std::uint32_t> cursor_{0};
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_sieve() { return std::make_unique<Sieve>(); }

}  // namespace tidewheel
