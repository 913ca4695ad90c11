#include "writeback/lists/classic_list.h"

#include <algorithm>

#include "base/assert.h"

namespace tidewheel {

namespace {

std::vector<std::unique_ptr<ListShard>> make_lists(std::uint32_t lists, const DirtyListOptions& options) {
  std::vector<std::unique_ptr<ListShard>> shards;
  for (std::uint32_t i = 0; i < lists; ++i) {
    shards.push_back(std::make_unique<ClassicShard>(list_lock_class(options), i));
  }
  return shards;
}

}  // namespace

ClassicList::ClassicList(std::uint32_t lists, const DirtyListOptions& options)
    : DirtyListBase(make_lists(lists, options), options) {}

void ClassicList::publish_oldest_locked(ClassicShard& home) {
  std::int64_t oldest_ns = INT64_MAX;
  for (const NodeList* each : {&home.b_dirty, &home.b_io.nodes, &home.b_more_io.nodes}) {
    if (!each->empty()) oldest_ns = std::min(oldest_ns, each->back().stamp.ns);
  }
  home.oldest_ns.store(oldest_ns, std::memory_order_relaxed);
}

void ClassicList::redirty_tail_locked(ClassicShard& home, DirtyObject& object, Instant now) {
  if (!home.b_dirty.empty()) {
    home.touch();
    if (object.node.stamp < home.b_dirty.front().stamp) object.node.stamp = stamp_locked(home, now);
  }
  home.b_dirty.push_front(object.node);
}

void ClassicList::link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                              Instant now) {
  ClassicShard& home = static_cast<ClassicShard&>(shard);
  home.lock.assert_held();
  home.touch();
  const bool sync = end != nullptr && end->kind == WorkKind::kSync;
  // Dirty since before an open sync: it must not slip past it behind a clobbered stamp. (The original's one
  // flusher can't be in the middle of this write when it begins a sync; several can.)
  const bool awaited =
      why != Filing::kDirtied && why != Filing::kAdopted && !home.open_syncs.empty() &&
      object.node.stamp <= home.open_syncs.back();
  if (awaited && why != Filing::kUnclaimed) {
    home.b_more_io.push_front(object.node);
    note_older_locked(home, object.node);
    return;
  }
  switch (why) {
    case Filing::kDirtied:
      home.b_dirty.push_front(object.node);
      break;
    case Filing::kRedirtied:
      // Dirtying what is being written stamped nothing in the original: the old stamp is still there, and
      // redirty_tail decides. After a sync's pass it becomes `now`, or the sync would find it again.
      object.node.stamp = sync ? stamp_locked(home, now) : end->written_stamp;
      redirty_tail_locked(home, object, now);
      break;
    case Filing::kPartial:
      home.b_more_io.push_front(object.node);
      break;
    case Filing::kSkipped:
    case Filing::kAdopted:  // as the original since 2025: sorted insertion made a switch quadratic
      redirty_tail_locked(home, object, now);
      break;
    case Filing::kFailed:
      TW_ASSERT(why != Filing::kFailed, "failures go to the ladder");
      break;
    case Filing::kUnclaimed:
      home.b_io.push_back(object.node);  // next to be consumed, as if never taken
      break;
  }
  note_older_locked(home, object.node);
}

void ClassicList::note_older_locked(ClassicShard& home, const WheelNode& node) {
  if (node.stamp.ns < home.oldest_ns.load(std::memory_order_relaxed)) {
    home.oldest_ns.store(node.stamp.ns, std::memory_order_relaxed);
  }
}

void ClassicList::unlink_locked(ListShard& shard, DirtyObject& object) {
  ClassicShard& home = static_cast<ClassicShard&>(shard);
  home.lock.assert_held();
  home.walk.leaving(object.node);
  unlink_node(object.node);
  // Only then can it have been the oldest, or the last; else the ends of the lists, likely cold, are left
  // alone.
  if (object.node.stamp.ns <= home.oldest_ns.load(std::memory_order_relaxed) ||
      home.count.load(std::memory_order_relaxed) == 1) {
    publish_oldest_locked(home);
  }
}

void ClassicList::queue_io_locked(ClassicShard& home, Instant dirtied_before) {
  TW_DASSERT(home.b_io.empty(), "queue_io with objects left in b_io");
  home.b_io.splice_back(home.b_more_io, home.walk);
  while (!home.b_dirty.empty()) {
    home.touch();
    WheelNode& oldest = home.b_dirty.back();
    if (oldest.stamp > dirtied_before) break;
    home.b_dirty.pop_back();
    home.b_io.push_front(oldest);
  }
}

DirtyObject* ClassicList::pop_locked(ClassicShard& home, Instant dirtied_before) {
  if (home.b_io.empty()) queue_io_locked(home, dirtied_before);
  if (home.b_io.empty()) return nullptr;
  home.touch();
  WheelNode& node = home.b_io.nodes.back();
  home.walk.leaving(node);
  home.b_io.nodes.pop_back();
  publish_oldest_locked(home);
  DirtyObject& object = object_of(node);
  claim_locked(home, object);
  return &object;
}

class ClassicList::ClassicSelection final : public SelectionBase {
 public:
  ClassicSelection(ClassicList& lists, const SelectionRequest& request)
      : SelectionBase(lists, request), lists_(lists) {
    if (request_.kind != WorkKind::kSync) return;
    sync_before_.resize(lists_.shard_count());
    for (std::uint32_t i = 0; i < lists_.shard_count(); ++i) {
      ClassicShard& home = lists_.list(i);
      ShardHold hold(home);
      sync_before_[i] = moment_of(home);
      home.open_syncs.insert(
          std::upper_bound(home.open_syncs.begin(), home.open_syncs.end(), sync_before_[i]), sync_before_[i]);
    }
  }
  ~ClassicSelection() override {
    for (std::uint32_t i = 0; i < sync_before_.size(); ++i) {
      ClassicShard& home = lists_.list(i);
      ShardHold hold(home);
      home.open_syncs.erase(
          std::lower_bound(home.open_syncs.begin(), home.open_syncs.end(), sync_before_[i]));
    }
  }

 private:
  std::size_t claim_listed(std::span<DirtyObject*> out) override {
    std::size_t claimed = 0;
    for (std::uint32_t i = 0; i < lists_.shard_count(); ++i) {
      if (!lists_.serves(request_.flusher, request_.flushers, i)) continue;
      ClassicShard& home = lists_.list(i);
      const Instant before =
          request_.kind == WorkKind::kSync ? sync_before_[i] : request_.dirtied_before;
      while (claimed < out.size()) {
        ShardHold hold(home);
        DirtyObject* object = lists_.pop_locked(home, before);
        if (object == nullptr) break;
        out[claimed++] = object;
      }
    }
    return claimed;
  }

  ClassicList& lists_;
  std::vector<Instant> sync_before_;
};

std::unique_ptr<Selection> ClassicList::select(const SelectionRequest& request) {
  return std::make_unique<ClassicSelection>(*this, request);
}

// b_dirty is sorted, whatever goes on. What has moved on from there was seen there.
bool ClassicList::look_for_oldest_locked(ListShard& shard, StampReading& reading) const {
  ClassicShard& home = static_cast<ClassicShard&>(shard);
  home.lock.assert_held();
  if (!home.b_dirty.empty()) reading.least = std::min(reading.least, home.b_dirty.back().stamp);
  const bool done = home.walk.go_on(reading) && home.b_io.look(home.walk, reading) &&
                    home.b_more_io.look(home.walk, reading);
  if (done) home.walk.end();
  return done;
}

std::uint64_t ClassicList::check_shard_locked(const ListShard& shard) const {
  const ClassicShard& home = static_cast<const ClassicShard&>(shard);
  home.lock.assert_held();
  std::uint64_t objects = 0;
  Instant younger = Instant::max();
  for (const WheelNode& node : home.b_dirty) {
    TW_ASSERT(node.stamp <= younger, "b_dirty is not sorted by stamp");
    younger = node.stamp;
  }
  for (const NodeList* each : {&home.b_dirty, &home.b_io.nodes, &home.b_more_io.nodes}) {
    for (const WheelNode& node : *each) {
      check_listed(home, node);
      ++objects;
    }
  }
  return objects;
}

}  // namespace tidewheel
