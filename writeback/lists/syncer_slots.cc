// writeback/lists/syncer_slots.cc: `syncer-slots`: the BSD syncer: a ring of 32 one-second slots under one
// lock. An object is filed by a delay that its dirty class sets, so many slots ahead of the ring's position;
// each second's slot is written when the position reaches it, last in first out; background work ("rush")
// moves the position on without waiting.
// Units:   a slot is one second; delays: data 30 s, timestamps 29 s, metadata 28 s (the original's file,
//          directory, metadata).
// Faults, as its original has them (the conformance suite checks each):
//   - one lock for every writer and flusher (a hold is short: one object);
//   - LIFO inside a slot: the oldest of a second is written last (P1's order);
//   - the deadline is relative to the ring's position, not to the clock, and a periodic turn moves at most
//     one interval's slots: a slow slot delays all the later ones and that time is never made up (P1);
//   - the delays are fixed: dirty_expire is ignored;
//   - what was skipped, partly written or failed comes one second later, forgetting when it was due: behind
//     what was dirtied long after it; and no back-off: a dead object is tried every second for ever;
//   - "the oldest" isn't known without a walk: the hint is the oldest stamp since its slot was last empty.
// Where it differs from the original: sync(2) there walks all of a mount's vnodes, here it takes the 32 slots
// in one hold (DragonFly's dirty-only walk, in pointer moves); what comes back under a sync comes back to it.
// Owns, locks: one shard; everything under its lock.
#include <algorithm>
#include <array>
#include <list>

#include "base/assert.h"
#include "writeback/dirty_list_base.h"
#include "writeback/lists/designs.h"
#include "writeback/node_list.h"

namespace tidewheel {

namespace {

constexpr std::uint32_t kSlots = 32;
constexpr std::uint32_t kFileDelay = 30;
constexpr std::uint32_t kDirectoryDelay = 29;
constexpr std::uint32_t kMetadataDelay = 28;
constexpr std::uint32_t kAgainDelay = 1;
constexpr std::int64_t kSecondNs = 1'000'000'000;

// A list, taken from at its front, and a lower bound of its stamps, forgotten when it is found empty.
struct StampedList : StampedNodes {
  Instant oldest = Instant::max();

  void push_front(WheelNode& node) {
    oldest = std::min(oldest, node.stamp);
    StampedNodes::push_front(node);
  }
  void take_all_behind(StampedList& other, StampWalk& walk) {
    splice_back(other, walk);
    oldest = std::min(oldest, other.oldest);
    other.oldest = Instant::max();
  }
  Instant bound() {
    if (nodes.empty()) oldest = Instant::max();
    return oldest;
  }
};

struct SyncerSet {
  Instant moment;
  StampedList list;
};

struct SyncerShard : ListShard {
  using ListShard::ListShard;
  std::array<StampedList, kSlots> slots TW_GUARDED_BY(lock);
  StampedList due TW_GUARDED_BY(lock);                // slots that the position has passed
  std::uint64_t position TW_GUARDED_BY(lock) = 0;     // in seconds of the ring, not of the clock
  std::int64_t last_tick TW_GUARDED_BY(lock) = INT64_MIN;  // the clock's second at the last periodic turn
  std::list<SyncerSet> syncs TW_GUARDED_BY(lock);     // open, oldest first
  StampWalk walk TW_GUARDED_BY(lock);                 // of all of these
};

std::vector<std::unique_ptr<ListShard>> make_one(const DirtyListOptions& options) {
  std::vector<std::unique_ptr<ListShard>> shards;
  shards.push_back(std::make_unique<SyncerShard>(list_lock_class(options), 0));
  return shards;
}

std::uint32_t delay_of(std::uint32_t classes) {
  if ((classes & kDirtyData) != 0) return kFileDelay;
  return (classes & kDirtyMetadata) != 0 ? kMetadataDelay : kDirectoryDelay;
}

class SyncerSlots final : public DirtyListBase {
 public:
  explicit SyncerSlots(const DirtyListOptions& options)
      : DirtyListBase(make_one(options), options),
        seconds_per_turn_(std::clamp<std::int64_t>(options.periodic_interval.ns / kSecondNs, 1, kSlots)) {}
  std::string_view name() const override { return "syncer-slots"; }
  std::unique_ptr<Selection> select(const SelectionRequest& request) override;

 private:
  class SyncerSelection;

  SyncerShard& ring() const { return static_cast<SyncerShard&>(shard(0)); }
  std::uint32_t pick_shard(const DirtyObject&) const override { return 0; }
  bool files_failures() const override { return true; }

  static void file_locked(SyncerShard& home, WheelNode& node, std::uint32_t delay) TW_REQUIRES(home.lock) {
    home.slots[(home.position + delay) % kSlots].push_front(node);
  }
  // The position moves one slot on: its content is due.
  static void advance_locked(SyncerShard& home) TW_REQUIRES(home.lock) {
    ++home.position;
    StampedList& slot = home.slots[home.position % kSlots];
    if (!slot.nodes.empty()) ++home.detached_buckets;
    home.due.take_all_behind(slot, home.walk);
  }
  void tick_locked(SyncerShard& home, Instant now) TW_REQUIRES(home.lock);
  static bool rush_locked(SyncerShard& home) TW_REQUIRES(home.lock);
  static void publish_oldest_locked(SyncerShard& home) TW_REQUIRES(home.lock);
  static void left_locked(SyncerShard& home, const WheelNode& node) TW_REQUIRES(home.lock);
  DirtyObject* pop_locked(SyncerShard& home, StampedList& from) TW_REQUIRES(home.lock);

  void link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                   Instant now) override;
  void unlink_locked(ListShard& shard, DirtyObject& object) override;
  bool look_for_oldest_locked(ListShard& shard, StampReading& reading) const override;
  std::uint64_t check_shard_locked(const ListShard& shard) const override;

  const std::int64_t seconds_per_turn_;
};

void SyncerSlots::publish_oldest_locked(SyncerShard& home) {
  Instant oldest = home.due.bound();
  for (StampedList& slot : home.slots) oldest = std::min(oldest, slot.bound());
  for (SyncerSet& sync : home.syncs) oldest = std::min(oldest, sync.list.bound());
  home.oldest_ns.store(oldest.ns, std::memory_order_relaxed);
}

// A node has left: was it the oldest, or the last?
void SyncerSlots::left_locked(SyncerShard& home, const WheelNode& node) {
  if (node.stamp.ns <= home.oldest_ns.load(std::memory_order_relaxed) ||
      home.count.load(std::memory_order_relaxed) == 1) {
    publish_oldest_locked(home);
  }
}

// A periodic turn: the seconds since the last one, but no more than the interval between turns has; what a
// slow slot cost beyond that is lost.
void SyncerSlots::tick_locked(SyncerShard& home, Instant now) {
  const std::int64_t second = now.ns / kSecondNs;
  const std::int64_t passed = home.last_tick == INT64_MIN ? 1 : second - home.last_tick;
  home.last_tick = second;
  for (std::int64_t i = 0; i < std::min(passed, seconds_per_turn_); ++i) advance_locked(home);
}

// Moves on to the next slot that holds something; false when none does.
bool SyncerSlots::rush_locked(SyncerShard& home) {
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    advance_locked(home);
    if (!home.due.nodes.empty()) return true;
  }
  return false;
}

DirtyObject* SyncerSlots::pop_locked(SyncerShard& home, StampedList& from) {
  if (from.nodes.empty()) return nullptr;
  home.touch();
  WheelNode& node = from.nodes.front();
  home.walk.leaving(node);
  from.nodes.pop_front();
  left_locked(home, node);
  claim_locked(home, object_of(node));
  return &object_of(node);
}

void SyncerSlots::link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd*, Instant) {
  SyncerShard& home = static_cast<SyncerShard&>(shard);
  home.lock.assert_held();
  home.touch();
  WheelNode& node = object.node;
  if (node.stamp.ns < home.oldest_ns.load(std::memory_order_relaxed)) {
    home.oldest_ns.store(node.stamp.ns, std::memory_order_relaxed);
  }
  if (why != Filing::kDirtied && why != Filing::kFailed && why != Filing::kAdopted) {
    for (SyncerSet& sync : home.syncs) {
      if (node.stamp > sync.moment) continue;
      sync.list.push_front(node);
      return;
    }
  }
  switch (why) {
    case Filing::kDirtied:
    case Filing::kRedirtied:
    case Filing::kAdopted:  // its whole delay once more
      file_locked(home, node, delay_of(object.state().classes()));
      break;
    case Filing::kPartial:
    case Filing::kSkipped:
    case Filing::kFailed:
      file_locked(home, node, kAgainDelay);
      break;
    case Filing::kUnclaimed:
      home.due.push_front(node);
      break;
  }
}

void SyncerSlots::unlink_locked(ListShard& shard, DirtyObject& object) {
  SyncerShard& home = static_cast<SyncerShard&>(shard);
  home.lock.assert_held();
  home.walk.leaving(object.node);
  unlink_node(object.node);
  left_locked(home, object.node);
}

class SyncerSlots::SyncerSelection final : public SelectionBase {
 public:
  SyncerSelection(SyncerSlots& list, const SelectionRequest& request)
      : SelectionBase(list, request), list_(list) {
    SyncerShard& home = list_.ring();
    ShardHold hold(home);
    if (request_.kind == WorkKind::kPeriodic) list_.tick_locked(home, request_.now);
    if (request_.kind != WorkKind::kSync) return;
    sync_ = &home.syncs.emplace_back();
    sync_->moment = moment_of(home);
    sync_->list.take_all_behind(home.due, home.walk);
    for (std::uint32_t i = 1; i <= kSlots; ++i) {
      sync_->list.take_all_behind(home.slots[(home.position + i) % kSlots], home.walk);
    }
  }
  ~SyncerSelection() override {
    if (sync_ == nullptr) return;
    SyncerShard& home = list_.ring();
    ShardHold hold(home);
    const auto mine = std::find_if(home.syncs.begin(), home.syncs.end(),
                                   [this](const SyncerSet& set) { return &set == sync_; });
    const auto younger = std::next(mine);
    // What is left, a younger sync waits for too; else it is due.
    (younger == home.syncs.end() ? home.due : younger->list).take_all_behind(mine->list, home.walk);
    home.syncs.erase(mine);
  }

 private:
  std::size_t claim_listed(std::span<DirtyObject*> out) override {
    SyncerShard& home = list_.ring();
    std::size_t claimed = 0;
    while (claimed < out.size()) {
      ShardHold hold(home);
      DirtyObject* object = sync_ != nullptr ? pop_for_sync_locked(home) : pop_due_locked(home);
      if (object == nullptr) break;
      out[claimed++] = object;
    }
    return claimed;
  }
  DirtyObject* pop_due_locked(SyncerShard& home) TW_REQUIRES(home.lock) {
    if (home.due.nodes.empty() && request_.kind != WorkKind::kPeriodic && !rush_locked(home)) return nullptr;
    return list_.pop_locked(home, home.due);
  }
  // Its own set, and those of older syncs, whose end it waits for as well.
  DirtyObject* pop_for_sync_locked(SyncerShard& home) TW_REQUIRES(home.lock) {
    for (SyncerSet& set : home.syncs) {
      if (DirtyObject* object = list_.pop_locked(home, set.list)) return object;
      if (&set == sync_) break;
    }
    return nullptr;
  }

  SyncerSlots& list_;
  SyncerSet* sync_ = nullptr;
};

std::unique_ptr<Selection> SyncerSlots::select(const SelectionRequest& request) {
  return std::make_unique<SyncerSelection>(*this, request);
}

bool SyncerSlots::look_for_oldest_locked(ListShard& shard, StampReading& reading) const {
  SyncerShard& home = static_cast<SyncerShard&>(shard);
  home.lock.assert_held();
  bool done = home.walk.go_on(reading) && home.due.look(home.walk, reading);
  for (StampedList& slot : home.slots) done = done && slot.look(home.walk, reading);
  for (SyncerSet& sync : home.syncs) done = done && sync.list.look(home.walk, reading);
  if (done) home.walk.end();
  return done;
}

std::uint64_t SyncerSlots::check_shard_locked(const ListShard& shard) const {
  const SyncerShard& home = static_cast<const SyncerShard&>(shard);
  home.lock.assert_held();
  std::uint64_t objects = 0;
  const auto check = [&](const StampedList& list) {
    for (const WheelNode& node : list.nodes) {
      check_listed(home, node);
      TW_ASSERT(list.oldest <= node.stamp, "a slot's oldest stamp is no lower bound");
      ++objects;
    }
  };
  check(home.due);
  for (const StampedList& slot : home.slots) check(slot);
  for (const SyncerSet& sync : home.syncs) check(sync.list);
  return objects;
}

}  // namespace

std::unique_ptr<DirtyList> make_syncer_slots(const DirtyListOptions& options) {
  return std::make_unique<SyncerSlots>(options);
}

}  // namespace tidewheel
