// inode/sieve.cc: `sieve`: one queue, never reordered; a hand walks from the oldest to the newest, clears the
// reference of what it passes and takes what has none.
// Source: Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is Simpler than LRU" (NSDI 2024). Here once per shard,
// with a hand each; inode/lab/policy_model.h is the same without shards and locks.
#include "inode/reclaim_base.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

LockClass sieve_class{"inode.sieve", LockRank::kLru};

struct SieveShard : ReclaimShard {
  using ReclaimShard::ReclaimShard;
  LruList queue TW_GUARDED_BY(mutex);              // the front is newest
  LruItem* hand TW_GUARDED_BY(mutex) = nullptr;    // null: at the oldest

  void unlink(LruItem& item) TW_REQUIRES(mutex) {
    if (hand == &item) advance();
    queue.erase(queue.iterator_to(item));
  }
  void advance() TW_REQUIRES(mutex) {
    auto at = queue.iterator_to(*hand);
    hand = at == queue.begin() ? nullptr : &*--at;
  }
};

class Sieve final : public ReclaimPolicyBase {
 public:
  Sieve() : ReclaimPolicyBase(make_shards<SieveShard>(sieve_class)) {}
  std::string_view name() const override { return "sieve"; }

 private:
  void link_locked(ReclaimShard& shard, LruItem& item) override {
    auto& home = static_cast<SieveShard&>(shard);
    home.mutex.assert_held();
    home.queue.push_front(item);
  }
  void unlink_locked(ReclaimShard& shard, LruItem& item) override {
    auto& home = static_cast<SieveShard&>(shard);
    home.mutex.assert_held();
    home.unlink(item);
  }
  std::size_t take_locked(ReclaimShard& shard, std::span<LruItem*> out) override {
    auto& home = static_cast<SieveShard&>(shard);
    home.mutex.assert_held();
    std::size_t taken = 0;
    for (std::uint32_t looked = 0; looked < kReclaimScan && taken < out.size(); ++looked) {
      if (home.queue.empty()) break;
      if (home.hand == nullptr) home.hand = &home.queue.back();
      LruItem& item = *home.hand;
      if (take_reference(item)) {
        ++home.rescued;
        home.advance();
        continue;
      }
      home.unlink(item);  // moves the hand on
      out[taken++] = &item;
    }
    return taken;
  }
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_sieve() { return std::make_unique<Sieve>(); }

}  // namespace tidewheel
