// inode/two_list_lru.cc: `two-list`: an inactive and an active queue. An item enters as the newest of the
// inactive one; referenced when its turn comes at the oldest end, it is protected on the active one. That is
// never longer than the inactive one when something is taken: what it gives back gets the whole length of the
// inactive queue to be referenced again (the second chance).
// Source: the public descriptions of Linux's active and inactive lists.
#include "inode/reclaim_order.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

class TwoListLru final : public ReclaimOrder {
  LruItem* look() override {
    if (active() > inactive()) {
      LruItem& item = oldest_active();
      make_newest(item, take_reference(item) ? LruPlace::kActive : LruPlace::kInactive);
      return nullptr;
    }
    LruItem& item = oldest();
    if (!take_reference(item)) return &item;
    count_rescued();
    make_newest(item, LruPlace::kActive);
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_two_list_lru() {
  return make_sharded_reclaim("two-list", [] { return std::make_unique<TwoListLru>(); });
}

}  // namespace tidewheel
