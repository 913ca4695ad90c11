// inode/reclaim_order.h: the order in which a reclaim policy gives items back, as plain sequential code:
// where an item enters, which one is looked at next, what becomes of it. The library makes a policy of it:
// sixteen shards, each with an order behind its lock, the places of an item, the bounded holds, the counts.
// Owns:      nothing; items belong to their cache. Two queues are here for those who need no more.
// Threads:   an order is called by one thread at a time, under its shard's lock (rank kLru). It takes no lock
//            and allocates nothing that can fail.
// Invariant: an item is linked, here, from enter() until leave(); listed() is their number. LruItem::place()
//            says which queue.
// To add a policy: derive, write look(), register_reclaim_order() before threads start
// (tests/examples/page_cache_experiment.cc does so from outside the library).
// Rejected: a hook per hold (the policy counts its looks). Every policy repeated the loop, and each could
// make a hold long.
#pragma once
#include <boost/intrusive/list.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "inode/reclaim.h"

namespace tidewheel {

class ReclaimOrder {
 public:
  virtual ~ReclaimOrder() = default;

  // An item became clean and reclaimable. By default it is the newest of the inactive queue.
  virtual void enter(LruItem& item) { make_newest(item, LruPlace::kInactive); }
  // Off wherever it is, in O(1): it is removed, or look() has answered it.
  virtual void leave(LruItem& item) { unlink(item); }
  // One look at one item: answers it, still linked, when it is to be given back; null when it was passed by
  // (its reference taken, or moved). Called while something is listed, 32 times in a hold at most. What is
  // passed by must be answered by its kMostReclaimLooks-th look if nobody uses it meanwhile.
  virtual LruItem* look() = 0;
  // What look() answered has left its cache and is not what its identity says any more.
  virtual void evicted(LruItem& item) { (void)item; }

  std::uint64_t listed() const { return inactive_length_ + active_length_; }
  std::uint64_t active() const { return active_length_; }
  std::uint64_t rescued() const { return rescued_; }

 protected:
  using Queue =
      boost::intrusive::list<LruItem, boost::intrusive::member_hook<LruItem, LruItem::Hook, &LruItem::hook>,
                             boost::intrusive::constant_time_size<false>>;

  // The oldest of a queue; of one that is empty there is none.
  LruItem& oldest() { return inactive_.back(); }
  LruItem& oldest_active() { return active_.back(); }
  std::uint64_t inactive() const { return inactive_length_; }
  // The next newer one of the inactive queue; null: it is the newest.
  LruItem* newer(LruItem& item) {
    auto at = inactive_.iterator_to(item);
    return at == inactive_.begin() ? nullptr : &*--at;
  }
  // To the newest end of a queue: kInactive, or kActive, which counts as protected.
  void make_newest(LruItem& item, LruPlace queue);
  void unlink(LruItem& item);
  // Whether it was used since it was last asked; it counts as unused from here on.
  bool take_reference(LruItem& item) {
    if (item.referenced.load(std::memory_order_relaxed) == 0) return false;
    item.referenced.store(0, std::memory_order_relaxed);
    return true;
  }
  void count_rescued() { ++rescued_; }

 private:
  Queue inactive_, active_;  // the fronts are newest
  std::uint64_t inactive_length_ = 0;
  std::uint64_t active_length_ = 0;
  std::uint64_t rescued_ = 0;
};

// A policy of kLruShards orders; `make_order` is called so often, now.
using ReclaimOrderFactory = std::function<std::unique_ptr<ReclaimOrder>()>;
std::unique_ptr<ReclaimPolicy> make_sharded_reclaim(std::string name, const ReclaimOrderFactory& make_order);

// Before threads start. False: the name is taken.
template <class Order>
bool register_reclaim_order(const std::string& name, std::string summary) {
  const ReclaimOrderFactory make_order = [] { return std::make_unique<Order>(); };
  return register_reclaim_policy({name, std::move(summary), [name, make_order] {
                                    return make_sharded_reclaim(name, make_order);
                                  }});
}

}  // namespace tidewheel
