// writeback/lists/timer_wheel.cc: `timer-wheel`: a wheel of time buckets per shard, shards by CPU and thread.
// Owns:      the shards' wheels; a sync's sets belong to their wheels.
// Locks:     ListShard::lock. No hold looks at more than kMaxClaim (32) elements; what expires is detached by
//            pointer, whatever its number.
// Order:     oldest slot first within a shard; between shards by their hints, re-read for every hold, those
//            that somebody holds last. Within a slot (134 ms): order of arrival; what comes back goes behind
//            it, so that large objects take turns with the small ones of their slot.
// Lateness:  a slot that straddles the cut-off stays: at most one slot late, never early.
// Faults:    none known among the properties of the conformance suite.
// Source:    timerwheel/wheel.h; docs/dirty-lists.md.
#include <algorithm>
#include <bit>
#include <bitset>

#include "base/assert.h"
#include "base/thread.h"
#include "timerwheel/sharded_wheel.h"
#include "timerwheel/wheel.h"
#include "writeback/dirty_list_base.h"
#include "writeback/lists/designs.h"

namespace tidewheel {

namespace {

struct WheelListShard : ListShard {
  WheelListShard(LockClass& lock_class, std::uint32_t index_in_list, const WheelOptions& options)
      : ListShard(lock_class, index_in_list), wheel(options, hint) {}

  // What is left of everything that was listed here when a sync began, and what came back for it.
  struct OpenSync {
    const void* selection;
    Instant moment;  // >= every stamp given out before it
    SyncSet* set;
  };

  WheelHint hint;
  Wheel wheel TW_GUARDED_BY(lock);
  std::vector<OpenSync> syncs TW_GUARDED_BY(lock);  // oldest first
};

WheelOptions wheel_options(const DirtyListOptions& options) {
  WheelOptions wheel;
  wheel.slot = options.slot;
  wheel.slots = options.slots;
  return wheel;
}

std::vector<std::unique_ptr<ListShard>> make_shards(const DirtyListOptions& options) {
  const std::uint32_t count = options.shards != 0 ? options.shards : default_wheel_shards();
  TW_ASSERT(std::has_single_bit(count), "the number of wheel shards is a power of two");
  std::vector<std::unique_ptr<ListShard>> shards;
  for (std::uint32_t i = 0; i < count; ++i) {
    shards.push_back(std::make_unique<WheelListShard>(list_lock_class(options), i, wheel_options(options)));
  }
  return shards;
}

class TimerWheelList final : public DirtyListBase {
 public:
  explicit TimerWheelList(const DirtyListOptions& options)
      : DirtyListBase(make_shards(options), options),
        cpu_stride_(std::bit_floor(std::max(1U, shard_count() / cpu_count()))),
        late_reading_ns_(std::max(wheel_options(options).late_reading.ns, options.slot.ns)) {}
  std::string_view name() const override { return "timer-wheel"; }
  std::unique_ptr<Selection> select(const SelectionRequest& request) override;
  void clock_set_back(Instant now) override;

 private:
  class Taking;
  class Syncing;

  WheelListShard& wheel_shard(std::uint32_t index) const {
    return static_cast<WheelListShard&>(shard(index));
  }
  std::uint32_t pick_shard(const DirtyObject&) const override {
    return pick_wheel_shard(shard_count(), cpu_stride_);
  }
  bool any_shard_will_do() const override { return true; }
  Instant oldest_of(const ListShard& shard) const override {
    const Instant oldest = static_cast<const WheelListShard&>(shard).hint.oldest();
    // Due at once (the clock was set back): very old, but such that an age can still be computed.
    return oldest == Instant::min() ? Instant{INT64_MIN / 4} : oldest;
  }
  Instant stamp_locked(ListShard& shard, Instant now) override;
  void link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                   Instant now) override;
  void unlink_locked(ListShard& shard, DirtyObject& object) override;
  bool look_for_oldest_locked(ListShard& shard, StampReading& reading) const override {
    WheelListShard& home = static_cast<WheelListShard&>(shard);
    home.lock.assert_held();
    return home.wheel.look_for_least(reading);
  }
  std::uint64_t check_shard_locked(const ListShard& shard) const override;

  // Counts what a wheel has just handed out, and makes it claimed.
  std::size_t claim_nodes_locked(WheelListShard& home, std::span<WheelNode* const> nodes,
                                 std::span<DirtyObject*> out) TW_REQUIRES(home.lock) {
    home.touch(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      out[i] = &object_of(*nodes[i]);
      claim_locked(home, *out[i]);
    }
    return nodes.size();
  }

  // Whether what comes back from a batch, or from another context, has a stamp of before the clock was set
  // back. As old as that it may look young.
  bool is_overdue(Instant stamp, Instant now) const {
    if (stamp > now) {
      return static_cast<std::uint64_t>(stamp.ns) - static_cast<std::uint64_t>(now.ns) >
             static_cast<std::uint64_t>(late_reading_ns_);
    }
    const std::int64_t set_back_at_ns = set_back_at_ns_.load(std::memory_order_relaxed);
    return stamp.ns < set_back_at_ns && set_back_at_ns <= now.ns;
  }

  const std::uint32_t cpu_stride_;
  const std::int64_t late_reading_ns_;
  // When the engine noticed it, in the new time. Relaxed: stored before each shard's lock is taken and read
  // under one; who filed before is in what is then made due.
  Atomic<std::int64_t> set_back_at_ns_{INT64_MIN};
};

// As the wheel does it: a clock that was set back starts again from its new reading, a reading that is merely
// late doesn't.
Instant TimerWheelList::stamp_locked(ListShard& shard, Instant now) {
  shard.lock.assert_held();
  const bool set_back = now < shard.last && static_cast<std::uint64_t>(shard.last.ns) -
                                                    static_cast<std::uint64_t>(now.ns) >
                                                static_cast<std::uint64_t>(late_reading_ns_);
  shard.last = set_back && shard.last != Instant::min() ? now : std::max(shard.last, now);
  return shard.last;
}

void TimerWheelList::link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                                 Instant now) {
  WheelListShard& home = static_cast<WheelListShard&>(shard);
  home.lock.assert_held();
  home.touch();
  WheelNode& node = object.node;
  if (why == Filing::kDirtied) {
    home.wheel.insert(node, now);
    home.last = node.stamp;
    return;
  }
  TW_ASSERT(why != Filing::kFailed, "failures go to the ladder");
  const bool overdue = (end != nullptr && end->clock_set_back) || is_overdue(node.stamp, now);
  if (why == Filing::kAdopted) {
    if (overdue) {
      home.wheel.insert_overdue(node, now);
      return;
    }
    // Stamped by another thread's reading a moment later than ours: that is no clock set back.
    home.wheel.insert_at(node, node.stamp, std::max(node.stamp, now));
    return;
  }
  // The oldest sync that began after this was dirtied; younger ones wait for the older's sets as well. A
  // stamp of before the clock was set back says nothing against a moment of after that.
  for (const WheelListShard::OpenSync& sync : home.syncs) {
    if (node.stamp > sync.moment && !overdue) continue;
    home.wheel.append(*sync.set, node);
    return;
  }
  if (overdue) {
    home.wheel.insert_overdue(node, now);
  } else if (why == Filing::kRedirtied) {
    home.wheel.insert_at(node, node.stamp, now);
  } else {
    home.wheel.requeue_front(node);
  }
}

void TimerWheelList::unlink_locked(ListShard& shard, DirtyObject& object) {
  WheelListShard& home = static_cast<WheelListShard&>(shard);
  home.lock.assert_held();
  home.wheel.remove(object.node);
}

// Periodic, background, reclaim: ready buckets first, then slot by slot, always from the shard whose oldest
// is the oldest. Where a shard is held (by a writer, who may have been preempted), the next oldest comes
// first; when nothing else is left it is looked at again, and then waited for (kLooksBeforeWaiting).
class TimerWheelList::Taking final : public SelectionBase {
 public:
  Taking(TimerWheelList& list, const SelectionRequest& request)
      : SelectionBase(list, request),
        list_(list),
        // Where hints are equal (one slot wide), flushers begin at different shards.
        first_shard_(request.flushers <= 1 ? 0 : request.flusher * list.shard_count() / request.flushers) {}

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  using Shards = std::bitset<kMaxListShards>;

  // clang can't follow a lock that is taken in one of two ways.
  std::size_t claim_listed(std::span<DirtyObject*> out) override TW_NO_THREAD_SAFETY_ANALYSIS {
    Shards exhausted;
    Shards held;
    std::size_t claimed = 0;
    std::uint32_t looks = 0;
    while (claimed < out.size()) {
      std::uint32_t index = oldest_shard(exhausted | held);
      const bool waits = index == kNone && claimed == 0 && held.any();
      if (waits && ++looks < kLooksBeforeWaiting) {
        yield_thread();
        held.reset();
        continue;
      }
      if (waits) index = oldest_shard(exhausted);
      if (index == kNone) break;
      WheelListShard& home = list_.wheel_shard(index);
      if (waits) {
        home.lock.lock();
      } else if (!home.lock.try_lock()) {
        held.set(index);
        continue;
      }
      ShardHold hold(home, ShardHold::Locked{});
      WheelNode* nodes[kMaxClaim];
      const std::size_t bound = std::min(home.wheel.claims_per_hold(), out.size() - claimed);
      const std::size_t got = take_locked(home, std::span(nodes).first(bound));
      // Its hint speaks of a slot that straddles the cut-off, or of what a sync holds.
      if (got == 0) exhausted.set(index);
      claimed += list_.claim_nodes_locked(home, std::span(nodes).first(got), out.subspan(claimed));
    }
    return claimed;
  }
  std::size_t take_locked(WheelListShard& home, std::span<WheelNode*> nodes) TW_REQUIRES(home.lock) {
    if (request_.kind == WorkKind::kPeriodic) {
      home.detached_buckets += home.wheel.detach_expired(request_.dirtied_before, request_.now);
      return home.wheel.claim(nodes, request_.dirtied_before);
    }
    if (!home.wheel.has_ready() && home.wheel.detach_oldest()) ++home.detached_buckets;
    return home.wheel.claim(nodes);
  }
  std::uint32_t oldest_shard(const Shards& left_out) const {
    const bool all = request_.kind != WorkKind::kPeriodic;
    const std::uint32_t count = list_.shard_count();
    std::uint32_t found = kNone;
    Instant oldest = Instant::max();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t index = (first_shard_ + i) & (count - 1);
      const Instant here = list_.wheel_shard(index).hint.oldest();
      // What lies in the future was listed before the clock was set back: the wheel then notices.
      const bool concerned = all || here <= request_.dirtied_before || here > request_.now;
      if (here >= oldest || !concerned || left_out[index]) continue;
      oldest = here;
      found = index;
    }
    return found;
  }

  TimerWheelList& list_;
  const std::uint32_t first_shard_;
};

class TimerWheelList::Syncing final : public SelectionBase {
 public:
  Syncing(TimerWheelList& list, const SelectionRequest& request) : SelectionBase(list, request), list_(list) {
    for (std::uint32_t i = 0; i < list_.shard_count(); ++i) {
      WheelListShard& home = list_.wheel_shard(i);
      ShardHold hold(home);
      home.syncs.push_back({this, moment_of(home), home.wheel.take_all()});
    }
  }
  ~Syncing() override {
    for (std::uint32_t i = 0; i < list_.shard_count(); ++i) end(list_.wheel_shard(i));
  }

 private:
  std::size_t claim_listed(std::span<DirtyObject*> out) override {
    const std::size_t claimed = claim_where(out, /*hinted=*/true);
    // "Nothing" ends a sync, and a hint may say it while the shard's holder carries what is here from an
    // older sync's set to this one's: then each lock is asked.
    return claimed != 0 ? claimed : claim_where(out, /*hinted=*/false);
  }
  std::size_t claim_where(std::span<DirtyObject*> out, bool hinted) {
    std::size_t claimed = 0;
    for (std::uint32_t i = 0; i < list_.shard_count(); ++i) {
      WheelListShard& home = list_.wheel_shard(i);
      if (hinted && home.hint.oldest() == Instant::max()) continue;
      while (claimed < out.size()) {
        ShardHold hold(home);
        WheelNode* nodes[kMaxClaim];
        const std::size_t got =
            take_locked(home, std::span(nodes).first(std::min(kMaxClaim, out.size() - claimed)));
        if (got == 0) break;
        claimed += list_.claim_nodes_locked(home, std::span(nodes).first(got), out.subspan(claimed));
      }
    }
    return claimed;
  }
  // From its own set and those of older syncs.
  std::size_t take_locked(WheelListShard& home, std::span<WheelNode*> nodes) TW_REQUIRES(home.lock) {
    std::size_t got = 0;
    for (const WheelListShard::OpenSync& sync : home.syncs) {
      got += home.wheel.claim_from(*sync.set, nodes.subspan(got));
      if (sync.selection == this || got == nodes.size()) break;
    }
    return got;
  }
  // What is left goes back in front; or, at most 32 per hold, to a younger sync, which waits for it as well.
  void end(WheelListShard& home) {
    for (bool moved_all = false; !moved_all;) {
      ShardHold hold(home);
      const auto mine =
          std::find_if(home.syncs.begin(), home.syncs.end(),
                       [this](const WheelListShard::OpenSync& sync) { return sync.selection == this; });
      TW_ASSERT(mine != home.syncs.end(), "a sync ends that a shard doesn't know");
      std::size_t got = 0;
      if (const auto younger = std::next(mine); younger != home.syncs.end()) {
        WheelNode* nodes[kMaxClaim];
        got = home.wheel.claim_from(*mine->set, nodes);
        for (std::size_t k = 0; k < got; ++k) {
          home.wheel.append(*younger->set, *nodes[k]);
          list_.note_came_back(nodes[k]->stamp);
        }
        home.touch(got);
      }
      moved_all = got < kMaxClaim;
      if (moved_all) {
        home.wheel.put_back(mine->set);
        home.syncs.erase(mine);
      }
    }
  }

  TimerWheelList& list_;
};

std::unique_ptr<Selection> TimerWheelList::select(const SelectionRequest& request) {
  if (request.kind == WorkKind::kSync) return std::make_unique<Syncing>(*this, request);
  return std::make_unique<Taking>(*this, request);
}

void TimerWheelList::clock_set_back(Instant now) {
  set_back_at_ns_.store(now.ns, std::memory_order_relaxed);
  DirtyListBase::clock_set_back(now);
  for (std::uint32_t i = 0; i < shard_count(); ++i) {
    WheelListShard& home = wheel_shard(i);
    ShardHold hold(home);
    home.wheel.set_back(now);
  }
}

std::uint64_t TimerWheelList::check_shard_locked(const ListShard& shard) const {
  const WheelListShard& home = static_cast<const WheelListShard&>(shard);
  home.lock.assert_held();
  home.wheel.check_invariants();
  home.wheel.for_each([&](const WheelNode& node) { check_listed(home, node); });
  return home.wheel.listed();
}

}  // namespace

std::unique_ptr<DirtyList> make_timer_wheel(const DirtyListOptions& options) {
  return std::make_unique<TimerWheelList>(options);
}

}  // namespace tidewheel
