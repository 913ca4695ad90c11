// inode/reclaim_base.h: what all reclaim policies share: the shards, the places of an item and the counts. A
// policy adds its order: where an item enters, how it leaves, which goes first.
// Owns:      the shards (a policy derives ReclaimShard to put its lists beside the lock); never an item.
// Threads:   as ReclaimPolicy.
// Locks:     ReclaimShard::mutex (rank kLru), one at a time; at most kReclaimScan items are looked at per
//            hold, which take_locked() has to keep.
// Invariant: an item whose place is kInactive or kActive is linked, by the policy, in the shard that
//            LruItem::shard names; `listed` is their number.
// To add a policy: derive, implement the three hooks, register it (tests/examples/page_cache_experiment.cc
// does so from outside the library).
#pragma once
#include <boost/intrusive/list.hpp>
#include <memory>
#include <vector>

#include "base/sync.h"
#include "inode/reclaim.h"

namespace tidewheel {

using LruList =
    boost::intrusive::list<LruItem, boost::intrusive::member_hook<LruItem, LruItem::Hook, &LruItem::hook>,
                           boost::intrusive::constant_time_size<false>>;

struct alignas(kCacheLine) ReclaimShard {
  explicit ReclaimShard(LockClass& lock_class) : mutex(lock_class) {}
  virtual ~ReclaimShard() = default;

  mutable Mutex mutex TW_ACQUIRED_AFTER(kRankLru) TW_ACQUIRED_BEFORE(kRankArena);
  std::uint64_t listed TW_GUARDED_BY(mutex) = 0;    // kept by the base
  std::uint64_t isolated TW_GUARDED_BY(mutex) = 0;  // kept by the base
  std::uint64_t active TW_GUARDED_BY(mutex) = 0;    // of those listed, protected: the policy's
  std::uint64_t rescued TW_GUARDED_BY(mutex) = 0;   // found referenced when their turn came: the policy's
};

class ReclaimPolicyBase : public ReclaimPolicy {
 public:
  void insert(std::span<LruItem* const> items) final;
  bool remove(LruItem& item) final;
  std::size_t isolate(std::span<LruItem*> out) final;
  LruPutBack put_back(LruItem& item, LruVerdict verdict) final;
  ReclaimCounts counts() const final;

 protected:
  using Shards = std::vector<std::unique_ptr<ReclaimShard>>;
  // kLruShards of a policy's own kind of shard.
  template <class Shard>
  static Shards make_shards(LockClass& lock_class) {
    Shards shards;
    for (std::uint32_t i = 0; i < kLruShards; ++i) shards.push_back(std::make_unique<Shard>(lock_class));
    return shards;
  }
  explicit ReclaimPolicyBase(Shards shards);
  ~ReclaimPolicyBase() override;

  // ---- what a policy adds; each under the shard's lock ----
  // Links an item that enters, with its place kInactive.
  virtual void link_locked(ReclaimShard& shard, LruItem& item) TW_REQUIRES(shard.mutex) = 0;
  // Takes it off wherever it is, in O(1). Its place still says on which side.
  virtual void unlink_locked(ReclaimShard& shard, LruItem& item) TW_REQUIRES(shard.mutex) = 0;
  // Takes up to out.size() items off, coldest first, and answers how many; looks at no more than
  // kReclaimScan. What it passes by it may clear the reference of, move, or protect.
  virtual std::size_t take_locked(ReclaimShard& shard, std::span<LruItem*> out) TW_REQUIRES(shard.mutex) = 0;

  static void set_place(LruItem& item, LruPlace place) {
    item.place_.store(static_cast<std::uint8_t>(place), std::memory_order_relaxed);
  }
  // Whether it was referenced; it is no more.
  static bool take_reference(LruItem& item) {
    if (item.referenced.load(std::memory_order_relaxed) == 0) return false;
    item.referenced.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  ReclaimShard& shard_of(const LruItem& item) const { return *shards_[item.shard % kLruShards]; }
  void insert_locked(ReclaimShard& shard, LruItem& item) TW_REQUIRES(shard.mutex);

  const Shards shards_;
  Atomic<std::uint32_t> cursor_{0};  // relaxed: only spreads reclaimers over the shards
};

}  // namespace tidewheel
