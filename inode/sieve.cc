// inode/sieve.cc: `sieve`: one queue, never reordered; a hand walks from the oldest to the newest, clears the
// reference of what it passes and takes what has none.
// Source: Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is Simpler than LRU" (NSDI 2024). Here once per shard,
// with a hand each; inode/lab/cache_model.h has the same without shards and locks.
#include "inode/reclaim_order.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

class Sieve final : public ReclaimOrder {
 public:
  LruItem* look() override {
    if (hand_ == nullptr) hand_ = &oldest();
    LruItem& item = *hand_;
    if (!take_reference(item)) return &item;  // leave() moves the hand on
    count_rescued();
    hand_ = newer(item);
    return nullptr;
  }
  void leave(LruItem& item) override {
    if (hand_ == &item) hand_ = newer(item);
    unlink(item);
  }

 private:
  LruItem* hand_ = nullptr;  // null: at the oldest
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_sieve() {
  return make_sharded_reclaim("sieve", [] { return std::make_unique<Sieve>(); });
}

}  // namespace tidewheel
