// What is dirty in its timestamps alone: on and off the shards' rings (writeback/lazy_ring.h).
#include <algorithm>
#include <bitset>

#include "base/assert.h"
#include "writeback/dirty_list_base.h"
#include "writeback/dirty_transition.h"

namespace tidewheel {

// ---- on and off ----

// Another class joins what is on the ring: it goes to the design's lists in the same hold, as if it had been
// clean, and its age begins. Not so if an open sync has to find its timestamps: then it keeps their stamp,
// and is filed as what comes back to that sync. False: it is not there any more.
bool DirtyListBase::promote(DirtyObject& object, DirtyState seen, std::uint32_t classes, Instant now) {
  ListShard& home = shard(seen.shard());
  ShardHold hold(home);
  if (!object.state().same_place(seen)) return false;
  const bool awaited = home.lazy->awaited(object.node.stamp, now);
  home.touch();
  home.lazy->remove(object.node);
  change_phase(object, DirtyPhase::kLazy, DirtyPhase::kListed, home.index, classes);
  if (awaited) {
    object.node.stamp = std::min(object.node.stamp, home.lazy->youngest_moment());
    link_locked(home, object, Filing::kUnclaimed, nullptr, now);
  } else {
    object.node.stamp = stamp_locked(home, now);
    link_locked(home, object, Filing::kDirtied, nullptr, now);
  }
  ++home.promoted;
  home.count.store(home.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

// What is to be filed in `home`, if nothing but timestamps is dirty of it. False: nothing was done.
bool DirtyListBase::file_lazy(ListShard& home, DirtyObject& object, DirtyPhase from, Instant now,
                              bool& waiters) {
  std::uint32_t word = object.state().word();
  do {
    const DirtyState state{word};
    TW_ASSERT(state.phase() == from, "a dirty object is not in the phase that its holder left it in");
    if (state.classes() != kDirtyTimestamps) return false;
    waiters = state.has_waiters();
  } while (!object.state_.compare_exchange(
      word, DirtyState(DirtyPhase::kLazy, kDirtyTimestamps, home.index, context_).word(),
      std::memory_order_seq_cst));
  home.touch();
  home.lazy->add(object.node, now);
  ++home.inserts;
  return true;
}

std::size_t DirtyListBase::claim_lazy_nodes(ListShard& home, std::span<WheelNode* const> nodes,
                                            std::span<DirtyObject*> out) {
  home.touch(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    out[i] = &object_of(*nodes[i]);
    change_phase(*out[i], DirtyPhase::kLazy, DirtyPhase::kClaimed, home.index);
  }
  return nodes.size();
}

// ---- selections ----

// Of the shards whose oldest are the oldest, by their hints. What a sync has taken is hinted at, too.
std::size_t DirtyListBase::SelectionBase::claim_lazy(std::span<DirtyObject*> out) {
  if (!list_.lazytime_) return 0;
  const Instant before = request_.kind == WorkKind::kPeriodic ? request_.lazy_before : Instant::max();
  std::bitset<kMaxListShards> exhausted;
  std::size_t claimed = 0;
  while (claimed < out.size()) {
    ListShard* home = nullptr;
    Instant oldest = Instant::max();
    for (const auto& each : list_.shards_) {
      const Instant here = each->lazy->oldest();
      // What lies in the future was stamped before the clock was set back: the ring then notices.
      const bool concerned = here <= before || here > request_.now;
      if (here >= oldest || !concerned || exhausted[each->index]) continue;
      oldest = here;
      home = each.get();
    }
    if (home == nullptr) break;
    ShardHold hold(*home);
    WheelNode* nodes[kMaxClaim];
    const auto room = std::span(nodes).first(std::min(kMaxClaim, out.size() - claimed));
    const std::size_t got = home->lazy->claim(before, request_.now, room);
    if (got == 0) exhausted.set(home->index);
    claimed += list_.claim_lazy_nodes(*home, room.first(got), out.subspan(claimed));
  }
  return claimed;
}

std::size_t DirtyListBase::SelectionBase::claim_lazy_sync(std::span<DirtyObject*> out) {
  if (!list_.lazytime_) return 0;
  std::size_t claimed = 0;
  while (claimed < out.size() && first_lazy_ < list_.shard_count()) {
    ListShard& home = list_.shard(first_lazy_);
    ShardHold hold(home);
    WheelNode* nodes[kMaxClaim];
    const auto room = std::span(nodes).first(std::min(kMaxClaim, out.size() - claimed));
    const std::size_t got = home.lazy->claim_sync(this, room);
    if (got == 0) ++first_lazy_;
    claimed += list_.claim_lazy_nodes(home, room.first(got), out.subspan(claimed));
  }
  return claimed;
}

// What is left goes back to the ring; or, at most 32 per hold, to the design's lists, where a younger sync,
// which waits for it as well, finds it: that may have passed this shard's ring.
void DirtyListBase::SelectionBase::end_lazy_sync(ListShard& home) {
  for (;;) {
    ShardHold hold(home);
    WheelNode* nodes[kMaxClaim];
    const std::size_t got = home.lazy->close_sync(this, nodes);
    if (got == 0) return;
    home.touch(got);
    for (std::size_t i = 0; i < got; ++i) {
      DirtyObject& object = object_of(*nodes[i]);
      change_phase(object, DirtyPhase::kLazy, DirtyPhase::kListed, home.index);
      list_.link_locked(home, object, Filing::kUnclaimed, nullptr, request_.now);
    }
    home.count.store(home.count.load(std::memory_order_relaxed) + got, std::memory_order_relaxed);
  }
}

// ---- what is there ----

Instant DirtyListBase::oldest_lazy() const {
  Instant oldest = Instant::max();
  if (!lazytime_) return oldest;
  for (const auto& each : shards_) oldest = std::min(oldest, each->lazy->oldest());
  return oldest;
}

// When its slot has ended, and its maximum age beyond that has passed.
Instant DirtyListBase::next_lazy() const {
  const Instant oldest = oldest_lazy();
  if (oldest == Instant::max() || lazytime_expire_.ns <= 0) return Instant::max();
  const std::int64_t wait_ns = std::min(lazytime_expire_.ns, INT64_MAX / 2) + shard(0).lazy->slot_width().ns;
  // Not max(): that says that there is nothing to be due.
  return Instant{oldest.ns > INT64_MAX - 1 - wait_ns ? INT64_MAX - 1 : oldest.ns + wait_ns};
}

bool DirtyListBase::any_lazy() const {
  if (!lazytime_) return false;
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& each) {
    MutexLock hold(each->lock);
    return each->lazy->size() != 0;
  });
}

}  // namespace tidewheel
