#include "writeback/retry_ladder.h"

#include <algorithm>

#include "base/assert.h"
#include "writeback/dirty_transition.h"

namespace tidewheel {

namespace {

LockClass retry_lock_class{"retry_ladder", LockRank::kRetry};

// Durations that stand for "never" leave room for moments to be added to.
constexpr Duration kLongest{INT64_MAX / 4};

std::int64_t doubled(Duration first, std::uint32_t times) {
  return first.ns > kLongest.ns >> times ? kLongest.ns : first.ns << times;
}

std::uint32_t top_rung(Duration first, Duration longest) {
  std::uint32_t rung = 0;
  while (rung + 1 < RetryLadder::kRungs && doubled(first, rung) < longest.ns) ++rung;
  return rung;
}

}  // namespace

RetryLadder::RetryLadder(const ShardPicker& picker, Duration first, Duration longest, std::uint16_t context)
    : picker_(picker),
      context_(context),
      first_(std::clamp(first, Duration{1}, kLongest)),
      longest_(std::clamp(longest, first_, kLongest)),
      top_rung_(top_rung(first_, longest_)),
      lock_(retry_lock_class) {}

RetryLadder::~RetryLadder() {
  TW_ASSERT(size() == 0, "a retry ladder ends with objects on it");
  TW_ASSERT(youngest_sync_ == nullptr, "a retry ladder ends while a sync is open");
}

Duration RetryLadder::back_off(std::uint32_t rung) const {
  return std::min(Duration{doubled(first_, rung)}, longest_);
}

void RetryLadder::add(DirtyObject& object, std::uint32_t classes, Instant now, bool* had_waiters) {
  MutexLock hold(lock_);
  const std::uint32_t rung = std::min<std::uint32_t>(object.retry_step, top_rung_);
  object.retry_step = static_cast<std::uint8_t>(rung + 1);
  const Duration wait = back_off(rung);
  const Instant due = now + wait;
  std::list<Group>& groups = rungs_[rung];
  // A clock that stepped back, and was not noticed yet (clock_set_back), makes `due` earlier than the last
  // group's: it joins.
  if (groups.empty() || groups.back().due < due) {
    groups.emplace_back();
    groups.back().due = due + wait / 8;
  }
  Group& group = groups.back();
  group.oldest = std::min(group.oldest, object.node.stamp);
  *had_waiters =
      change_phase(object, DirtyPhase::kWriting, DirtyPhase::kRetry, kRetryShard, classes).has_waiters();
  group.objects.push_front(object.node);
  count_.store(size() + 1, std::memory_order_relaxed);
  publish_locked();
}

bool RetryLadder::has_locked(const DirtyObject& object) const {
  const DirtyState state = object.state();
  return state.phase() == DirtyPhase::kRetry && state.context() == context_;
}

bool RetryLadder::cancel(DirtyObject& object) {
  MutexLock hold(lock_);
  if (!has_locked(object)) return false;
  walk_.leaving(object.node);
  unlink_node(object.node);
  count_.store(size() - 1, std::memory_order_relaxed);
  publish_locked();
  change_to_clean(object);
  return true;
}

void RetryLadder::claim_locked(WheelNode& node) {
  DirtyObject& object = object_of(node);
  walk_.leaving(node);
  unlink_node(node);
  change_phase(object, DirtyPhase::kRetry, DirtyPhase::kClaimed, picker_.pick_shard(object));
  count_.store(size() - 1, std::memory_order_relaxed);
}

bool RetryLadder::claim_one(DirtyObject& object) {
  MutexLock hold(lock_);
  if (!has_locked(object)) return false;
  claim_locked(object.node);
  publish_locked();
  return true;
}

// The first group, which is empty.
void RetryLadder::drop_front_locked(std::list<Group>& rung) {
  walk_.forget(rung.front().objects.order);
  rung.pop_front();
}

std::size_t RetryLadder::claim_from_locked(std::list<Group>& rung, Instant now, std::span<DirtyObject*> out) {
  std::size_t claimed = 0;
  while (claimed < out.size() && !rung.empty() && rung.front().due <= now) {
    NodeList& objects = rung.front().objects.nodes;
    while (claimed < out.size() && !objects.empty()) {
      WheelNode& node = objects.back();
      claim_locked(node);
      out[claimed++] = &object_of(node);
    }
    if (objects.empty()) drop_front_locked(rung);
  }
  return claimed;
}

std::size_t RetryLadder::claim_due(Instant now, std::span<DirtyObject*> out) {
  std::size_t claimed = 0;
  while (claimed < out.size() && next_due() <= now) {
    MutexLock hold(lock_);
    const std::size_t room = std::min<std::size_t>(kElementsPerHold, out.size() - claimed);
    std::size_t got = 0;
    // Longest back-off first: what waited longest is the oldest dirt.
    for (std::uint32_t rung = top_rung_ + 1; rung-- > 0 && got < room;) {
      got += claim_from_locked(rungs_[rung], now, out.subspan(claimed + got, room - got));
    }
    publish_locked();
    if (got == 0) break;
    claimed += got;
  }
  return claimed;
}

void RetryLadder::open_sync(SyncShare& share) {
  MutexLock hold(lock_);
  for (std::uint32_t rung = 0; rung <= top_rung_; ++rung) {
    share.rungs[rung].splice(share.rungs[rung].end(), rungs_[rung]);
  }
  share.older = youngest_sync_;
  youngest_sync_ = &share;
  publish_locked();
}

std::size_t RetryLadder::claim_sync(SyncShare& share, std::span<DirtyObject*> out) {
  std::size_t claimed = 0;
  while (claimed < out.size()) {
    MutexLock hold(lock_);
    const std::size_t room = std::min<std::size_t>(kElementsPerHold, out.size() - claimed);
    std::size_t got = 0;
    for (SyncShare* from = &share; from != nullptr && got < room; from = from->older) {
      for (std::uint32_t rung = top_rung_ + 1; rung-- > 0 && got < room;) {
        got += claim_from_locked(from->rungs[rung], Instant::max(), out.subspan(claimed + got, room - got));
      }
    }
    if (got == 0) break;
    publish_locked();
    claimed += got;
  }
  return claimed;
}

void RetryLadder::close_sync(SyncShare& share) {
  MutexLock hold(lock_);
  SyncShare* younger = nullptr;
  for (SyncShare* at = youngest_sync_; at != &share; at = at->older) {
    TW_ASSERT(at != nullptr, "a sync is closed that is not open");
    younger = at;
  }
  (younger == nullptr ? youngest_sync_ : younger->older) = share.older;
  Rungs& heir = younger == nullptr ? rungs_ : younger->rungs;
  for (std::uint32_t rung = 0; rung <= top_rung_; ++rung) {
    // Taken before whatever the heir has, so due before it: in front.
    heir[rung].splice(heir[rung].begin(), share.rungs[rung]);
  }
  publish_locked();
}

void RetryLadder::clock_set_back(Instant now) {
  MutexLock hold(lock_);
  const auto shorten = [&](Rungs& rungs) {
    for (std::uint32_t rung = 0; rung <= top_rung_; ++rung) {
      const Instant latest = now + back_off(rung) + Duration{back_off(rung).ns / 8};
      for (Group& group : rungs[rung]) group.due = std::min(group.due, latest);
    }
  };
  shorten(rungs_);
  for (SyncShare* share = youngest_sync_; share != nullptr; share = share->older) shorten(share->rungs);
  publish_locked();
}

void RetryLadder::publish_locked() {
  Instant due = Instant::max();
  Instant oldest = Instant::max();
  const auto drop_empty = [this](std::list<Group>& rung) {
    lock_.assert_held();
    while (!rung.empty() && rung.front().objects.empty()) drop_front_locked(rung);
  };
  for (std::uint32_t rung = 0; rung <= top_rung_; ++rung) {
    drop_empty(rungs_[rung]);
    if (!rungs_[rung].empty()) due = std::min(due, rungs_[rung].front().due);
    for (const Group& group : rungs_[rung]) oldest = std::min(oldest, group.oldest);
  }
  for (SyncShare* share = youngest_sync_; share != nullptr; share = share->older) {
    for (std::uint32_t rung = 0; rung <= top_rung_; ++rung) {
      drop_empty(share->rungs[rung]);
      for (const Group& group : share->rungs[rung]) oldest = std::min(oldest, group.oldest);
    }
  }
  next_due_ns_.store(due.ns, std::memory_order_relaxed);
  oldest_ns_.store(oldest.ns, std::memory_order_relaxed);
}

void RetryLadder::look_for_oldest(StampReading& reading) {
  for (bool done = false; !done;) {
    MutexLock hold(lock_);
    reading.left = kElementsPerHold;
    done = look_locked(reading);
  }
}

bool RetryLadder::look_locked(StampReading& reading) {
  if (!walk_.go_on(reading)) return false;
  const auto look = [&](Rungs& rungs) {
    lock_.assert_held();
    for (std::uint32_t rung = 0; rung <= top_rung_; ++rung) {
      for (Group& group : rungs[rung]) {
        if (group.oldest < reading.least && !group.objects.look(walk_, reading)) return false;
      }
    }
    return true;
  };
  bool done = look(rungs_);
  for (SyncShare* share = youngest_sync_; share != nullptr; share = share->older) {
    done = done && look(share->rungs);
  }
  if (done) walk_.end();
  return done;
}

std::uint64_t RetryLadder::groups() const {
  MutexLock hold(lock_);
  std::uint64_t groups = 0;
  for (const std::list<Group>& rung : rungs_) groups += rung.size();
  return groups;
}

std::uint64_t RetryLadder::check_rungs_locked(const Rungs& rungs) const {
  std::uint64_t objects = 0;
  for (const std::list<Group>& rung : rungs) {
    Instant due = Instant::min();
    for (const Group& group : rung) {
      TW_ASSERT(due <= group.due, "a rung's groups are out of order");
      due = group.due;
      for (const WheelNode& node : group.objects.nodes) {
        const DirtyState state = object_of(node).state();
        TW_ASSERT(state.phase() == DirtyPhase::kRetry, "an object on the ladder is in another phase");
        TW_ASSERT(state.shard() == kRetryShard, "an object on the ladder names another shard");
        TW_ASSERT(state.classes() != 0, "an object on the ladder has nothing dirty");
        TW_ASSERT(group.oldest <= node.stamp, "a group's oldest stamp is no lower bound");
        ++objects;
      }
    }
  }
  return objects;
}

void RetryLadder::check_invariants() const {
  MutexLock hold(lock_);
  std::uint64_t objects = check_rungs_locked(rungs_);
  for (const SyncShare* share = youngest_sync_; share != nullptr; share = share->older) {
    objects += check_rungs_locked(share->rungs);
  }
  TW_ASSERT(objects == size(), "the ladder's count is not its size");
  TW_ASSERT((oldest() == Instant::max()) == (objects == 0),
            "the ladder's oldest stamp disagrees with its size");
}

}  // namespace tidewheel
