// inode/two_list_lru.cc: `two-list`: an inactive and an active list, fronts hottest. An item enters in front
// of inactive; referenced when its turn comes at the back, it is protected on the active list. The active
// list never exceeds the inactive one by much: what it gives back gets the whole length of the inactive list
// to be referenced again (the second chance).
// Source: the public descriptions of Linux's active and inactive lists.
#include "inode/reclaim_base.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

LockClass lru_class{"inode.lru", LockRank::kLru};

struct TwoListShard : ReclaimShard {
  using ReclaimShard::ReclaimShard;
  LruList inactive TW_GUARDED_BY(mutex);
  LruList active_list TW_GUARDED_BY(mutex);  // `active` is its length
};

class TwoListLru final : public ReclaimPolicyBase {
 public:
  TwoListLru() : ReclaimPolicyBase(make_shards<TwoListShard>(lru_class)) {}
  std::string_view name() const override { return "two-list"; }

 private:
  void link_locked(ReclaimShard& shard, LruItem& item) override {
    auto& home = static_cast<TwoListShard&>(shard);
    home.mutex.assert_held();
    home.inactive.push_front(item);
  }
  void unlink_locked(ReclaimShard& shard, LruItem& item) override {
    auto& home = static_cast<TwoListShard&>(shard);
    home.mutex.assert_held();
    if (item.place() == LruPlace::kActive) {
      home.active_list.erase(home.active_list.iterator_to(item));
      --home.active;
    } else {
      home.inactive.erase(home.inactive.iterator_to(item));
    }
  }
  std::size_t take_locked(ReclaimShard& shard, std::span<LruItem*> out) override {
    auto& home = static_cast<TwoListShard&>(shard);
    home.mutex.assert_held();
    std::uint64_t inactive = home.listed - home.active;
    std::uint32_t looked = 0;
    // Half of the hold at most goes to keeping the lists balanced.
    while (looked < kReclaimScan / 2 && home.active > inactive) {
      ++looked;
      LruItem& item = home.active_list.back();
      home.active_list.pop_back();
      if (take_reference(item)) {
        home.active_list.push_front(item);
        continue;
      }
      --home.active;
      home.inactive.push_front(item);
      ++inactive;
      set_place(item, LruPlace::kInactive);
    }
    std::size_t taken = 0;
    while (looked < kReclaimScan && taken < out.size() && inactive != 0) {
      ++looked;
      LruItem& item = home.inactive.back();
      home.inactive.pop_back();
      --inactive;
      if (take_reference(item)) {
        home.active_list.push_front(item);
        ++home.active;
        ++home.rescued;
        set_place(item, LruPlace::kActive);
        continue;
      }
      out[taken++] = &item;
    }
    return taken;
  }
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_two_list_lru() { return std::make_unique<TwoListLru>(); }

}  // namespace tidewheel
