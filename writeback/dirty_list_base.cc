#include "writeback/dirty_list_base.h"

#include <algorithm>

#include "base/assert.h"
#include "writeback/dirty_transition.h"

namespace tidewheel {

namespace {

LockClass shared_list_lock_class{"dirty_list", LockRank::kListShard};
LockClass reading_lock_class{"oldest_reading", LockRank::kContext};

}  // namespace

LockClass& list_lock_class(const DirtyListOptions& options) {
  return options.lock_class != nullptr ? *options.lock_class : shared_list_lock_class;
}

DirtyListBase::DirtyListBase(std::vector<std::unique_ptr<ListShard>> shards, const DirtyListOptions& options)
    : shards_(std::move(shards)),
      context_(options.context),
      lazytime_(options.lazytime),
      lazytime_expire_(options.lazytime_expire),
      ladder_(*this, options.retry_first, options.retry_longest, options.context),
      reading_lock_(reading_lock_class) {
  TW_ASSERT(!shards_.empty() && shards_.size() <= kMaxListShards,
            "a dirty list has 1 to kMaxListShards shards");
  if (!lazytime_) return;
  for (const auto& each : shards_) each->lazy = std::make_unique<LazyRing>(lazytime_expire_);
}

DirtyListBase::~DirtyListBase() { TW_ASSERT(listed() == 0, "a dirty list ends with objects on it"); }

// ---- writers ----

DirtyList::Marked DirtyListBase::mark_dirty_slow(DirtyObject& object, std::uint32_t classes,
                                                  Instant now) {
  TW_ASSERT(classes != 0 && (classes & ~std::uint32_t{kDirtyAll}) == 0, "not a set of dirty classes");
  for (;;) {
    const DirtyState state = object.state();
    if (state.context() != context_) return Marked::kElsewhere;
    if (state.clean()) {
      const Marked listed = list_clean(object, classes, now);
      if (listed != Marked::kElsewhere) return listed;
      if (closed_.load(std::memory_order_relaxed) && object.state().clean()) {
        return Marked::kElsewhere;
      }
      continue;  // somebody else listed it, or re-filed it
    }
    if ((state.classes() & classes) == classes) return Marked::kAlready;
    std::uint32_t word = state.word();
    if (state.phase() == DirtyPhase::kLazy) {
      // Bits alone would leave it where nobody looks for twelve hours.
      if (promote(object, state, classes, now)) return Marked::kPromoted;
      continue;
    }
    if (state.phase() != DirtyPhase::kWriting || state.classes() != 0) {
      // It has a stamp, so bits are all there is to add: wherever it goes next, they go with it.
      if (!object.state_.compare_exchange(word, word | classes, std::memory_order_seq_cst)) continue;
      redirties_.add(1);
      return Marked::kAlready;
    }
    // The first dirt since begin_write: its stamp is written under the shard's lock, which end_write takes
    // before it files an object that has bits.
    ListShard& home = shard(state.shard());
    ShardHold hold(home);
    if (!object.state_.compare_exchange(word, word | classes, std::memory_order_seq_cst)) continue;
    object.node.stamp = stamp_locked(home, now);
    redirties_.add(1);
    return Marked::kAlready;
  }
}

inline ListShard& DirtyListBase::lock_for_listing(const DirtyObject& object) TW_NO_THREAD_SAFETY_ANALYSIS {
  ListShard& picked = shard(pick_shard(object));
  if (picked.lock.try_lock()) [[likely]] return picked;
  return lock_another(picked);
}

// Few looks: where all are taken there are more threads than shards, and sleeping is right.
ListShard& DirtyListBase::lock_another(ListShard& picked) TW_NO_THREAD_SAFETY_ANALYSIS {
  constexpr std::uint32_t kLooks = 4;
  const std::uint32_t looks = any_shard_will_do() ? std::min(kLooks, shard_count()) : 1;
  for (std::uint32_t i = 1; i < looks; ++i) {
    ListShard& near = shard(picked.index ^ i);  // their number is a power of two
    if (near.lock.try_lock()) return near;
  }
  picked.lock.lock();
  ++picked.insert_waits;
  return picked;
}

// kElsewhere: somebody else was first, or the list is closed. The lock comes from lock_for_listing, which
// clang can't follow.
DirtyList::Marked DirtyListBase::list_clean(DirtyObject& object, std::uint32_t classes,
                                            Instant now) TW_NO_THREAD_SAFETY_ANALYSIS {
  ListShard& home = lock_for_listing(object);
  ShardHold hold(home, ShardHold::Locked{});
  // Another thread may be listing it through another shard: the exchange decides. Who sees kListed then
  // waits for this lock before it looks at the hook.
  if (closed_.load(std::memory_order_relaxed)) return Marked::kElsewhere;
  const bool lazy = classes == kDirtyTimestamps && lazytime_;
  std::uint32_t clean = DirtyState(DirtyPhase::kClean, 0, 0, context_).word();
  const DirtyPhase to = lazy ? DirtyPhase::kLazy : DirtyPhase::kListed;
  const std::uint32_t listed = DirtyState(to, classes, home.index, context_).word();
  if (!object.state_.compare_exchange(clean, listed, std::memory_order_seq_cst)) return Marked::kElsewhere;
  object.node.stamp = stamp_locked(home, now);
  ++home.inserts;
  if (lazy) {
    home.touch();
    home.lazy->add(object.node, now);
    return Marked::kLazy;
  }
  link_locked(home, object, Filing::kDirtied, nullptr, now);
  home.count.store(home.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return Marked::kListed;
}

Instant DirtyListBase::stamp_locked(ListShard& home, Instant now) {
  home.last = std::max(home.last, now);
  return home.last;
}

// ---- taking one object ----

// Takes an object that was seen listed, or lazy, off its list, under its shard's lock, and does `then(shard)`
// in the same hold. False: it is not there any more.
template <class Then>
bool DirtyListBase::take_listed(DirtyObject& object, DirtyState seen, Then then) {
  ListShard& home = shard(seen.shard());
  ShardHold hold(home);
  if (!object.state().same_place(seen)) return false;
  home.touch();
  if (seen.phase() == DirtyPhase::kLazy) {
    home.lazy->remove(object.node);
  } else {
    unlink_locked(home, object);
  }
  ++home.removals;
  then(home);
  return true;
}

// And the bit `if_claimed`, if it is claimed. False: the object has left its batch, or this context.
bool DirtyListBase::set_waiters(DirtyObject& object, std::uint32_t if_claimed) const {
  std::uint32_t word = object.state().word();
  while (DirtyState(word).in_batch() && DirtyState(word).context() == context_) {
    const bool claimed = DirtyState(word).phase() == DirtyPhase::kClaimed;
    const std::uint32_t next = word | DirtyState::kWaiters | (claimed ? if_claimed : 0);
    if (next == word) return true;
    if (object.state_.compare_exchange(word, next, std::memory_order_seq_cst)) return true;
  }
  return false;
}

DirtyList::TakeOut DirtyListBase::cancel(DirtyObject& object) {
  for (;;) {
    const DirtyState state = object.state();
    if (state.context() != context_) return TakeOut::kElsewhere;
    switch (state.phase()) {
      case DirtyPhase::kClean:
        return TakeOut::kClean;
      case DirtyPhase::kListed: {
        const bool taken = take_listed(object, state, [&](ListShard& home) {
          home.lock.assert_held();
          home.count.store(home.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
          change_to_clean(object);
        });
        if (taken) return TakeOut::kTaken;
        continue;
      }
      case DirtyPhase::kLazy:
        if (take_listed(object, state, [&](ListShard&) { change_to_clean(object); })) {
          return TakeOut::kTaken;
        }
        continue;
      case DirtyPhase::kRetry:
        if (ladder_.cancel(object)) return TakeOut::kTaken;
        continue;
      case DirtyPhase::kClaimed:
      case DirtyPhase::kWriting:
        if (set_waiters(object, DirtyState::kCancelled)) return TakeOut::kInBatch;
        continue;
    }
  }
}

DirtyList::TakeOut DirtyListBase::claim_one(DirtyObject& object) {
  for (;;) {
    const DirtyState state = object.state();
    if (state.context() != context_) return TakeOut::kElsewhere;
    switch (state.phase()) {
      case DirtyPhase::kClean:
        return TakeOut::kClean;
      case DirtyPhase::kListed:
        if (take_listed(object, state, [&](ListShard& home) {
              home.lock.assert_held();
              claim_locked(home, object);
            })) {
          return TakeOut::kTaken;
        }
        continue;
      case DirtyPhase::kLazy:
        if (take_listed(object, state, [&](ListShard& home) {
              change_phase(object, DirtyPhase::kLazy, DirtyPhase::kClaimed, home.index);
            })) {
          return TakeOut::kTaken;
        }
        continue;
      case DirtyPhase::kRetry:
        if (ladder_.claim_one(object)) return TakeOut::kTaken;
        continue;
      case DirtyPhase::kClaimed:
      case DirtyPhase::kWriting:
        if (set_waiters(object, 0)) return TakeOut::kInBatch;
        continue;
    }
  }
}

// ---- flushers ----

void DirtyListBase::claim_locked(ListShard& home, DirtyObject& object) {
  change_phase(object, DirtyPhase::kListed, DirtyPhase::kClaimed, home.index);
  home.count.store(home.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

bool DirtyListBase::begin_write(WriteSlot& slot) {
  DirtyObject& object = *slot.object;
  slot.stamp = object.node.stamp;  // before the bits go: then markers may write a new one
  slot.outcome = WriteOutcome::kPending;
  slot.set_backs = set_backs_.load(std::memory_order_relaxed);
  std::uint32_t word = object.state().word();
  for (;;) {
    const DirtyState state{word};
    TW_ASSERT(state.phase() == DirtyPhase::kClaimed, "a write begins on an object that is not claimed");
    if (state.cancelled()) {
      change_to_clean(object);  // and with the bits goes whatever is marked meanwhile, as in any cancel
      return false;
    }
    const std::uint32_t next =
        DirtyState(DirtyPhase::kWriting, 0, state.shard(), state.context()).word() |
        (word & DirtyState::kWaiters);
    // The flusher's half of the re-dirty pair (dirty_object.h): the tags are read after this.
    if (object.state_.compare_exchange(word, next, std::memory_order_seq_cst)) {
      slot.classes = state.classes();
      return true;
    }
  }
}

DirtyList::EndWrite DirtyListBase::relist(DirtyObject& object, Filing why, DirtyPhase from,
                                          std::uint32_t classes, const WriteEnd* end, Instant now) {
  ListShard& home = shard(object.state().shard());  // doesn't change while it is in a batch
  ShardHold hold(home);
  EndWrite filed;
  if (why == Filing::kRedirtied && lazytime_ && !home.lazy->awaited(object.node.stamp, now) &&
      file_lazy(home, object, from, now, filed.waiters)) {
    filed.lazy = true;
    return filed;
  }
  // Timestamps alone that a work has taken and gives back have had their turn: it comes again with the rest.
  if (end != nullptr && why != Filing::kRedirtied) object.node.stamp = end->written_stamp;
  filed.waiters = change_phase(object, from, DirtyPhase::kListed, home.index, classes).has_waiters();
  link_locked(home, object, why, end, now);
  note_came_back(object.node.stamp);
  ++home.inserts;
  home.count.store(home.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return filed;
}

bool DirtyListBase::unclaim(DirtyObject& object, Instant now) {
  return relist(object, Filing::kUnclaimed, DirtyPhase::kClaimed, 0, nullptr, now).waiters;
}

DirtyList::EndWrite DirtyListBase::adopt_from(DirtyObject& object, DirtyPhase from, Instant now) {
  ListShard& home = shard(pick_shard(object));
  ShardHold hold(home);
  EndWrite filed{.moved = true};
  if (lazytime_ && file_lazy(home, object, from, now, filed.waiters)) {
    home.last = std::max(home.last, object.node.stamp);
    filed.lazy = true;
    return filed;
  }
  filed.waiters = change_place(object, from, DirtyPhase::kListed, home.index, context_).has_waiters();
  link_locked(home, object, Filing::kAdopted, nullptr, now);
  note_came_back(object.node.stamp);
  home.last = std::max(home.last, object.node.stamp);
  ++home.inserts;
  home.count.store(home.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return filed;
}

bool DirtyListBase::adopt(DirtyObject& object, Instant now) {
  return adopt_from(object, DirtyPhase::kClaimed, now).waiters;
}

void DirtyListBase::close() {
  closed_.store(true, std::memory_order_relaxed);
  for (const auto& each : shards_) MutexLock hold(each->lock);
}

// What was written and goes to another context.
DirtyList::EndWrite DirtyListBase::end_moving(const WriteSlot& slot, Instant now) {
  DirtyObject& object = *slot.object;
  auto& heir = static_cast<DirtyListBase&>(*slot.heir);
  object.retry_step = 0;
  std::uint32_t word = object.state().word();
  const std::uint32_t clean = DirtyState(DirtyPhase::kClean, 0, 0, heir.context_).word();
  while (DirtyState(word).classes() == 0) {
    TW_ASSERT(DirtyState(word).phase() == DirtyPhase::kWriting, "a write ends that had not begun");
    if (object.state_.compare_exchange(word, clean, std::memory_order_seq_cst)) {
      return EndWrite{.waiters = DirtyState(word).has_waiters(), .clean = true};
    }
  }
  // Whoever dirtied it meanwhile writes the stamp under this lock; once it is there nobody changes it before
  // the next write.
  { MutexLock stamped(shard(object.state().shard()).lock); }
  return heir.adopt_from(object, DirtyPhase::kWriting, now);
}

DirtyList::EndWrite DirtyListBase::end_write(const WriteSlot& slot, WorkKind kind, Instant now) {
  DirtyObject& object = *slot.object;
  const WriteEnd end{slot.stamp, kind, slot.set_backs != set_backs_.load(std::memory_order_relaxed)};
  switch (slot.outcome) {
    case WriteOutcome::kPending:
      break;
    case WriteOutcome::kWritten:
    case WriteOutcome::kGivenUp: {
      if (slot.heir != nullptr) return end_moving(slot, now);
      object.retry_step = 0;
      std::uint32_t word = object.state().word();
      const std::uint32_t clean = DirtyState(DirtyPhase::kClean, 0, 0, context_).word();
      while (DirtyState(word).classes() == 0) {
        TW_ASSERT(DirtyState(word).phase() == DirtyPhase::kWriting, "a write ends that had not begun");
        if (object.state_.compare_exchange(word, clean, std::memory_order_seq_cst)) {
          return EndWrite{.waiters = DirtyState(word).has_waiters(), .clean = true};
        }
      }
      return relist(object, Filing::kRedirtied, DirtyPhase::kWriting, 0, &end, now);
    }
    case WriteOutcome::kPartial:
      object.retry_step = 0;
      return relist(object, Filing::kPartial, DirtyPhase::kWriting, slot.classes, &end, now);
    case WriteOutcome::kSkipped: {
      EndWrite skipped = relist(object, Filing::kSkipped, DirtyPhase::kWriting, slot.classes, &end, now);
      skipped.comes_at_once = true;
      return skipped;
    }
    case WriteOutcome::kFailed: {
      if (files_failures()) {
        if (object.retry_step < UINT8_MAX) ++object.retry_step;
        EndWrite failed = relist(object, Filing::kFailed, DirtyPhase::kWriting, slot.classes, &end, now);
        failed.comes_at_once = true;
        return failed;
      }
      ShardHold hold(shard(object.state().shard()));  // a marker may be writing a stamp
      object.node.stamp = slot.stamp;
      EndWrite ended;
      ladder_.add(object, slot.classes, now, &ended.waiters);
      note_came_back(slot.stamp);  // after the ladder's lock; the object may have left it by now
      return ended;
    }
  }
  TW_ASSERT(slot.outcome != WriteOutcome::kPending, "a write ends without an outcome");
  return {};
}

// ---- selections ----

DirtyListBase::SelectionBase::SelectionBase(DirtyListBase& list, const SelectionRequest& request)
    : request_(request), list_(list), moment_(request.now) {
  if (request_.kind != WorkKind::kSync) return;
  list_.ladder_.open_sync(ladder_share_);
  if (!list_.lazytime_) return;
  // Before the design's lists: what leaves a ring goes there.
  for (const auto& each : list_.shards_) {
    ShardHold hold(*each);
    each->lazy->open_sync(this, moment_of(*each));
  }
}

DirtyListBase::SelectionBase::~SelectionBase() {
  if (request_.kind != WorkKind::kSync) return;
  list_.ladder_.close_sync(ladder_share_);
  if (!list_.lazytime_) return;
  for (const auto& each : list_.shards_) end_lazy_sync(*each);
}

std::size_t DirtyListBase::SelectionBase::claim(std::span<DirtyObject*> out) {
  if (request_.kind == WorkKind::kSync) {
    std::size_t claimed = list_.ladder_.claim_sync(ladder_share_, out);
    claimed += claim_lazy_sync(out.subspan(claimed));
    return claimed + claim_listed(out.subspan(claimed));
  }
  std::size_t claimed = list_.ladder_.claim_due(request_.now, out);
  if (request_.kind == WorkKind::kReclaim) {
    // In turns: timestamps hold memory too, and nothing says that the rest ever ends.
    timestamps_first_ = !timestamps_first_;
    if (timestamps_first_) claimed += claim_lazy(out.subspan(claimed));
  }
  claimed += claim_listed(out.subspan(claimed));
  // Over the threshold timestamps are written for want of something better, since they hold some of the
  // limit.
  return claimed + claim_lazy(out.subspan(claimed));
}

// ---- what is there ----

Instant DirtyListBase::oldest() const {
  Instant oldest = Instant::max();
  for (const auto& each : shards_) oldest = std::min(oldest, oldest_of(*each));
  return oldest;
}

Instant DirtyListBase::oldest_of(const ListShard& home) const {
  return Instant{home.oldest_ns.load(std::memory_order_relaxed)};
}

std::uint64_t DirtyListBase::listed() const {
  std::uint64_t total = ladder_.size();
  for (const auto& each : shards_) {
    total += each->count.load(std::memory_order_relaxed);
    if (lazytime_) total += each->lazy->size();
  }
  return total;
}

bool DirtyListBase::any_listed(std::uint32_t flusher, std::uint32_t flushers) const {
  for (const auto& each : shards_) {
    if (!serves(flusher, flushers, each->index)) continue;
    MutexLock hold(each->lock);
    if (each->count.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

DirtyListStats DirtyListBase::stats() const {
  DirtyListStats total;
  total.redirties = static_cast<std::uint64_t>(redirties_.sum());
  total.shards = shard_count();
  for (const auto& each : shards_) {
    MutexLock hold(each->lock);
    total.inserts += each->inserts;
    total.insert_waits += each->insert_waits;
    total.removals += each->removals;
    total.promoted += each->promoted;
    if (lazytime_) total.lazy += each->lazy->size();
    total.detached_buckets += each->detached_buckets;
    total.elements_under_lock += each->elements;
    total.max_elements_per_hold = std::max(total.max_elements_per_hold, each->max_per_hold);
  }
  return total;
}

void DirtyListBase::check_listed(const ListShard& home, const WheelNode& node) {
  const DirtyState state = object_of(node).state();
  TW_ASSERT(state.phase() == DirtyPhase::kListed, "an object on a shard's list is in another phase");
  TW_ASSERT(state.shard() == home.index, "an object on a shard's list names another shard");
  TW_ASSERT(state.classes() != 0, "an object on a shard's list has nothing dirty");
  TW_ASSERT(!state.has_waiters(), "a listed object has waiters: nobody will wake them");
}

void DirtyListBase::check_invariants() const {
  for (const auto& each : shards_) {
    MutexLock hold(each->lock);
    const std::uint64_t objects = check_shard_locked(*each);
    TW_ASSERT(objects == each->count.load(std::memory_order_relaxed), "a shard's count is not its size");
    TW_ASSERT((oldest_of(*each) == Instant::max()) == (objects == 0),
              "a shard's oldest stamp disagrees with its size");
    if (!lazytime_) continue;
    each->lazy->check_invariants();
    std::uint64_t lazy = 0;
    each->lazy->for_each([&](const WheelNode& node) {
      const DirtyState state = object_of(node).state();
      TW_ASSERT(state.phase() == DirtyPhase::kLazy, "an object on a ring of timestamps is in another phase");
      TW_ASSERT(state.shard() == each->index, "an object on a ring of timestamps names another shard");
      TW_ASSERT(state.classes() == kDirtyTimestamps, "an object on a ring of timestamps has other dirt");
      ++lazy;
    });
    TW_ASSERT(lazy == each->lazy->size(), "a ring's count is not its size");
  }
  ladder_.check_invariants();
}

}  // namespace tidewheel
