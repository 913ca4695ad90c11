// writeback/lists/tagged_list.cc: `tagged-list`: one list sorted by stamp; a work tags on it what it is going
// to write, and then finds the tagged ones (the variant whose regression begins this laboratory: seeds of
// 2014). Purpose, kept intact: objects move between no lists, so no stamp is ever clobbered (P2), and a sync
// takes only what was dirtied before it began (P4).
// Faults, as its original has them (the conformance suite checks each):
//   - the tag walk goes over all that is to be written in one hold: one lock, held in proportion to the
//     number of dirty objects, with every writer of the device waiting;
//   - what comes back with an old stamp is inserted by a walk from the old end, in its hold.
// Where it differs from the original: an object leaves the list while it is in a batch (there it keeps its
// place); a failed one goes to the retry ladder.
// Owns, locks: one shard; everything under its lock. The tag is the state word's design mark.
#include <algorithm>

#include "base/assert.h"
#include "writeback/dirty_list_base.h"
#include "writeback/lists/designs.h"
#include "writeback/node_list.h"

namespace tidewheel {

namespace {

struct TaggedShard : ListShard {
  using ListShard::ListShard;
  NodeList dirty TW_GUARDED_BY(lock);  // sorted by stamp, oldest at the back
  std::uint64_t tagged TW_GUARDED_BY(lock) = 0;
  std::vector<Instant> open_syncs TW_GUARDED_BY(lock);  // their moments, sorted
};

std::vector<std::unique_ptr<ListShard>> make_one(const DirtyListOptions& options) {
  std::vector<std::unique_ptr<ListShard>> shards;
  shards.push_back(std::make_unique<TaggedShard>(list_lock_class(options), 0));
  return shards;
}

bool is_tagged(const WheelNode& node) { return object_of(node).state().has_mark(); }

class TaggedList final : public DirtyListBase {
 public:
  explicit TaggedList(const DirtyListOptions& options) : DirtyListBase(make_one(options), options) {}
  std::string_view name() const override { return "tagged-list"; }
  std::unique_ptr<Selection> select(const SelectionRequest& request) override;

 private:
  class TaggedSelection;

  TaggedShard& list() const { return static_cast<TaggedShard&>(shard(0)); }
  std::uint32_t pick_shard(const DirtyObject&) const override { return 0; }

  static void tag_locked(TaggedShard& home, WheelNode& node) TW_REQUIRES(home.lock) {
    if (is_tagged(node)) return;
    object_of(node).state_.fetch_or(DirtyState::kDesignMark, std::memory_order_seq_cst);
    ++home.tagged;
  }
  static void forget_tag_locked(TaggedShard& home, WheelNode& node) TW_REQUIRES(home.lock) {
    if (!is_tagged(node)) return;
    object_of(node).state_.fetch_and(~DirtyState::kDesignMark, std::memory_order_seq_cst);
    --home.tagged;
  }
  // A node has left: the next oldest is looked at (likely cold) only if it was the oldest.
  static void left_locked(TaggedShard& home, const WheelNode& node) TW_REQUIRES(home.lock) {
    if (node.stamp.ns > home.oldest_ns.load(std::memory_order_relaxed)) return;
    const std::int64_t oldest_ns = home.dirty.empty() ? INT64_MAX : home.dirty.back().stamp.ns;
    home.oldest_ns.store(oldest_ns, std::memory_order_relaxed);
  }
  // The walk: from the oldest, tagging what was stamped at or before the cut-off.
  static void tag_walk_locked(TaggedShard& home, Instant dirtied_before) TW_REQUIRES(home.lock) {
    for (auto at = home.dirty.rbegin(); at != home.dirty.rend(); ++at) {
      home.touch();
      if (at->stamp > dirtied_before) break;
      tag_locked(home, *at);
    }
  }
  // The oldest tagged object stamped at or before the cut-off.
  DirtyObject* pop_tagged_locked(TaggedShard& home, Instant dirtied_before) TW_REQUIRES(home.lock) {
    if (home.tagged == 0) return nullptr;
    for (auto at = home.dirty.rbegin(); at != home.dirty.rend(); ++at) {
      home.touch();
      if (at->stamp > dirtied_before) return nullptr;
      if (!is_tagged(*at)) continue;
      WheelNode& node = *at;
      forget_tag_locked(home, node);
      unlink_node(node);
      left_locked(home, node);
      claim_locked(home, object_of(node));
      return &object_of(node);
    }
    return nullptr;
  }

  void link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                   Instant now) override;
  void unlink_locked(ListShard& shard, DirtyObject& object) override;
  std::uint64_t check_shard_locked(const ListShard& shard) const override;
};

void TaggedList::link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd*, Instant) {
  TaggedShard& home = static_cast<TaggedShard&>(shard);
  home.lock.assert_held();
  TW_ASSERT(why != Filing::kFailed, "failures go to the ladder");
  home.touch();
  const Instant stamp = object.node.stamp;
  if (home.dirty.empty() || stamp >= home.dirty.front().stamp) {
    home.dirty.push_front(object.node);
  } else {
    // Behind all that is older, before all that is younger or of the same moment.
    auto at = home.dirty.end();
    while (at != home.dirty.begin()) {
      const auto older = std::prev(at);
      home.touch();
      if (older->stamp >= stamp) break;
      at = older;
    }
    home.dirty.insert(at, object.node);
  }
  // What comes back from a batch belongs to every sync that began after it was dirtied; and what a batch had
  // no room for is still to be written, before what is younger.
  const bool awaited = why != Filing::kDirtied && why != Filing::kAdopted && !home.open_syncs.empty() &&
                       stamp <= home.open_syncs.back();
  if (awaited || why == Filing::kUnclaimed) tag_locked(home, object.node);
  if (stamp.ns < home.oldest_ns.load(std::memory_order_relaxed)) {
    home.oldest_ns.store(stamp.ns, std::memory_order_relaxed);
  }
}

void TaggedList::unlink_locked(ListShard& shard, DirtyObject& object) {
  TaggedShard& home = static_cast<TaggedShard&>(shard);
  home.lock.assert_held();
  forget_tag_locked(home, object.node);
  unlink_node(object.node);
  left_locked(home, object.node);
}

class TaggedList::TaggedSelection final : public SelectionBase {
 public:
  TaggedSelection(TaggedList& list, const SelectionRequest& request)
      : SelectionBase(list, request), list_(list), cut_off_(request.dirtied_before) {
    TaggedShard& home = list_.list();
    ShardHold hold(home);
    if (request_.kind == WorkKind::kSync) {
      cut_off_ = moment_of(home);
      home.open_syncs.insert(std::upper_bound(home.open_syncs.begin(), home.open_syncs.end(), cut_off_),
                             cut_off_);
    }
    tag_walk_locked(home, cut_off_);
  }
  ~TaggedSelection() override {
    if (request_.kind != WorkKind::kSync) return;
    TaggedShard& home = list_.list();
    ShardHold hold(home);
    home.open_syncs.erase(std::find(home.open_syncs.begin(), home.open_syncs.end(), cut_off_));
  }

 private:
  std::size_t claim_listed(std::span<DirtyObject*> out) override {
    TaggedShard& home = list_.list();
    std::size_t claimed = 0;
    while (claimed < out.size()) {
      ShardHold hold(home);
      DirtyObject* object = list_.pop_tagged_locked(home, cut_off_);
      if (object == nullptr && request_.kind != WorkKind::kSync) {
        // The tagged ones are used up: look for what was listed or came back since. A sync doesn't.
        tag_walk_locked(home, cut_off_);
        object = list_.pop_tagged_locked(home, cut_off_);
      }
      if (object == nullptr) break;
      out[claimed++] = object;
    }
    return claimed;
  }

  TaggedList& list_;
  Instant cut_off_;
};

std::unique_ptr<Selection> TaggedList::select(const SelectionRequest& request) {
  return std::make_unique<TaggedSelection>(*this, request);
}

std::uint64_t TaggedList::check_shard_locked(const ListShard& shard) const {
  const TaggedShard& home = static_cast<const TaggedShard&>(shard);
  home.lock.assert_held();
  std::uint64_t objects = 0;
  std::uint64_t tagged = 0;
  Instant younger = Instant::max();
  for (const WheelNode& node : home.dirty) {
    check_listed(home, node);
    TW_ASSERT(node.stamp <= younger, "the tagged list is not sorted by stamp");
    younger = node.stamp;
    ++objects;
    if (is_tagged(node)) ++tagged;
  }
  TW_ASSERT(tagged == home.tagged, "the count of tags is not their number");
  return objects;
}

}  // namespace

std::unique_ptr<DirtyList> make_tagged_list(const DirtyListOptions& options) {
  return std::make_unique<TaggedList>(options);
}

}  // namespace tidewheel
