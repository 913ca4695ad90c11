#include "writeback/dirty_order.h"

#include <algorithm>

#include "base/assert.h"

namespace tidewheel {

namespace {

struct OrderShard : ListShard {
  using ListShard::ListShard;
  std::unique_ptr<DirtyOrder> order TW_PT_GUARDED_BY(lock);  // the pointer: constant
};

std::vector<std::unique_ptr<ListShard>> make_shard(const DirtyOrderFactory& make_order,
                                                   const DirtyListOptions& options) {
  auto shard = std::make_unique<OrderShard>(list_lock_class(options), 0);
  shard->order = make_order();
  TW_ASSERT(shard->order != nullptr, "a dirty order's factory makes none");
  std::vector<std::unique_ptr<ListShard>> shards;
  shards.push_back(std::move(shard));
  return shards;
}

class OrderedList final : public DirtyListBase {
 public:
  OrderedList(std::string name, const DirtyOrderFactory& make_order, const DirtyListOptions& options)
      : DirtyListBase(make_shard(make_order, options), options),
        name_(std::move(name)),
        context_(options.context) {}
  std::string_view name() const override { return name_; }
  std::unique_ptr<Selection> select(const SelectionRequest& request) override;

 private:
  class OrderSelection;
  std::uint32_t pick_shard(const DirtyObject&) const override { return 0; }
  void link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd*, Instant) override {
    auto& home = static_cast<OrderShard&>(shard);
    home.lock.assert_held();
    home.touch();
    const Instant stamp = object.node.stamp;
    home.order->file(object, why);
    TW_ASSERT(object.node.hook.is_linked(), "a dirty order does not list what it is to file");
    TW_ASSERT(!home.order->list.empty(), "a dirty order files on another list than its own");
    TW_ASSERT(object.node.stamp == stamp, "a dirty order changes a stamp");
    home.oldest_ns.store(std::min(home.oldest_ns.load(std::memory_order_relaxed), object.node.stamp.ns),
                         std::memory_order_relaxed);
  }
  void unlink_locked(ListShard& shard, DirtyObject& object) override {
    auto& home = static_cast<OrderShard&>(shard);
    home.lock.assert_held();
    TW_ASSERT(object.node.hook.is_linked(), "a dirty order has dropped what is listed");
    home.order->leave(object);
    TW_ASSERT(!object.node.hook.is_linked(), "a dirty order keeps what is to leave");
    if (object.node.stamp.ns > home.oldest_ns.load(std::memory_order_relaxed)) return;
    const Instant oldest = home.order->list.empty() ? Instant::max() : home.order->oldest();
    home.oldest_ns.store(oldest.ns, std::memory_order_relaxed);
  }
  std::uint64_t check_shard_locked(const ListShard& shard) const override {
    const auto& home = static_cast<const OrderShard&>(shard);
    home.lock.assert_held();
    std::uint64_t objects = 0;
    Instant oldest = Instant::max();
    for (const WheelNode& node : home.order->list) {
      check_listed(home, node);
      oldest = std::min(oldest, node.stamp);
      ++objects;
    }
    TW_ASSERT(oldest == oldest_of(home), "a dirty order's oldest stamp is another one");
    return objects;
  }

  const std::string name_;
  const std::uint16_t context_;
};

// What comes back from a batch, dirty since before an open sync, keeps its stamp: next() finds it.
class OrderedList::OrderSelection final : public SelectionBase {
 public:
  OrderSelection(OrderedList& list, const SelectionRequest& request)
      : SelectionBase(list, request), list_(list), home_(static_cast<OrderShard&>(list.shard(0))) {
    ShardHold hold(home_);
    before_ = request.kind == WorkKind::kSync ? moment_of(home_) : request.dirtied_before;
  }

 private:
  static constexpr std::size_t kClaimsPerHold = 32;  // as the wheel
  std::size_t claim_listed(std::span<DirtyObject*> out) override {
    std::size_t claimed = 0;
    while (claimed < out.size()) {
      const std::size_t wanted = std::min(out.size() - claimed, kClaimsPerHold);
      const std::size_t got = claim_some(out.subspan(claimed, wanted));
      claimed += got;
      if (got < wanted) break;
    }
    return claimed;
  }
  std::size_t claim_some(std::span<DirtyObject*> out) {
    ShardHold hold(home_);
    std::size_t claimed = 0;
    for (; claimed < out.size(); ++claimed) {
      DirtyObject* object = home_.order->next(before_);
      if (object == nullptr) break;
      const DirtyState state = object->state();
      TW_ASSERT(state.phase() == DirtyPhase::kListed, "a dirty order answers what is not listed");
      TW_ASSERT(state.context() == list_.context_, "a dirty order answers another context's object");
      TW_ASSERT(object->node.stamp <= before_, "a dirty order answers what is younger than it was asked for");
      home_.touch();
      list_.unlink_locked(home_, *object);
      list_.claim_locked(home_, *object);
      out[claimed] = object;
    }
    if (claimed < out.size()) check_none_left();
    return claimed;
  }
  // A sync that ends too early acknowledges what is not written.
  void check_none_left() TW_REQUIRES(home_.lock) {
#if defined(TW_DASSERT_ON)
    for (const WheelNode& node : home_.order->list) {
      TW_ASSERT(node.stamp > before_, "a dirty order says that nothing is left, and there is");
    }
#endif
  }

  OrderedList& list_;
  OrderShard& home_;
  Instant before_;
};

std::unique_ptr<Selection> OrderedList::select(const SelectionRequest& request) {
  return std::make_unique<OrderSelection>(*this, request);
}

}  // namespace

Instant DirtyOrder::oldest() const {
  Instant oldest = Instant::max();
  for (const WheelNode& node : list) oldest = std::min(oldest, node.stamp);
  return oldest;
}

std::unique_ptr<DirtyList> make_ordered_list(std::string name, const DirtyOrderFactory& make_order,
                                             const DirtyListOptions& options) {
  return std::make_unique<OrderedList>(std::move(name), make_order, options);
}

}  // namespace tidewheel
