// The flushers' half of the wheel: buckets are detached, claimed, taken by a sync, put back.
#include <algorithm>
#include <utility>

#include "timerwheel/wheel.h"

namespace tidewheel {

std::uint32_t Wheel::detach_expired(Instant dirtied_before, Instant now) noexcept {
  if (listed() == 0) return 0;
  observe(now);
  const std::int64_t due = last_due_slot(dirtied_before);
  std::uint32_t detached = 0;
  while (!ancient_.empty() && ancient_.front_key() <= due) {
    const std::int64_t key = ancient_.front_key();
    push(ready_, key, ancient_.pop_front());
    ++detached;
  }
  const std::int64_t oldest = head_slot_ - slot_mask_;
  if (due >= oldest) {
    // Without signs: for Instant::max() `due` is beyond every slot.
    const std::uint64_t count = static_cast<std::uint64_t>(due) - static_cast<std::uint64_t>(oldest) + 1;
    detached += take_oldest_slots(
        count, [this](std::int64_t slot, Bucket* bucket) { push(ready_, slot, bucket); });
  }
  stats_.detached_buckets += detached;
  publish_places();  // the queue may have grown
  return detached;
}

bool Wheel::detach_oldest() noexcept {
  const std::int64_t in_ring = oldest_in_ring(ring_, head_slot_);
  const std::int64_t in_ancient = ancient_.front_key();
  if (in_ring == kNoKey && in_ancient == kNoKey) return false;
  if (in_ancient <= in_ring) {
    push(ready_, in_ancient, ancient_.pop_front());
  } else {
    // The slots before it are empty.
    take_oldest_slots(static_cast<std::uint64_t>(in_ring - (head_slot_ - slot_mask_)) + 1,
                      [this](std::int64_t slot, Bucket* bucket) { push(ready_, slot, bucket); });
  }
  ++stats_.detached_buckets;
  return true;
}

std::size_t Wheel::claim(std::span<WheelNode*> out, Instant dirtied_before) noexcept {
  const std::size_t wanted = std::min(out.size(), kMaxClaim);
  const std::int64_t due = last_due_slot(dirtied_before);
  std::size_t claimed = 0;
  while (claimed < wanted && ready_.front_key() <= due) {
    Bucket* bucket = ready_.front();
    do {
      WheelNode& node = bucket->front();
      unlink(node);
      out[claimed++] = &node;
    } while (claimed < wanted && !bucket->empty());
    if (bucket->empty()) pool_.give(ready_.pop_front());
  }
  claimed_ += claimed;
  note_hold(claimed);
  if (claimed != 0) find_oldest();
  return claimed;
}

void Wheel::requeue_front(WheelNode& node) noexcept {
  TW_ASSERT(!node.hook.is_linked(), "an element is inserted twice");
  if (!ring_.has_slots()) start(node.stamp);  // trimmed while the element was claimed
  node.stamp = Instant{std::min(node.stamp.ns, last_ns_)};
  ++inserts_;
  file(ready_, slot_of(node.stamp), node);
}

// ---- sync ----

SyncSet* Wheel::open_set() {
  std::unique_ptr<SyncSet> set = std::move(spare_set_);
  if (set == nullptr) set = std::make_unique<SyncSet>(ring_.slots());
  set->head_slot_ = head_slot_;
  set->clock_steps_ = stats_.clock_steps;
  ++stats_.sync_sets;
  open_sets_.push_back(std::move(set));
  return open_sets_.back().get();
}

SyncSet* Wheel::take_all() {
  SyncSet* set = open_set();
  set->ready_.swap(ready_);
  set->ancient_.swap(ancient_);
  if (ring_.any()) {
    ring_.hand_over_to(set->ring_);
    ring_.set_slots(spare_slots_ != nullptr ? std::move(spare_slots_) : ring_.make_slots());
    current_ = nullptr;
  }
  publish_places();
  return set;
}

std::size_t Wheel::claim_from(SyncSet& set, std::span<WheelNode*> out) noexcept {
  const std::size_t wanted = std::min(out.size(), kMaxClaim);
  std::size_t claimed = 0;
  while (claimed < wanted) {
    const std::int64_t in_ring = oldest_in_ring(set.ring_, set.head_slot_);
    const std::int64_t in_ready = set.ready_.front_key();
    const std::int64_t in_ancient = set.ancient_.front_key();
    const std::int64_t key = std::min({in_ring, in_ready, in_ancient});
    if (key == kNoKey) break;
    const Place place = key == in_ready ? Place::kReady : key == in_ancient ? Place::kAncient : Place::kRing;
    Bucket* bucket = place == Place::kReady     ? set.ready_.front()
                     : place == Place::kAncient ? set.ancient_.front()
                                                : set.ring_.bucket(index_of(key));
    do {
      WheelNode& node = bucket->front();
      unlink(node);
      out[claimed++] = &node;
    } while (claimed < wanted && !bucket->empty());
    if (!bucket->empty()) break;
    switch (place) {
      case Place::kReady: pool_.give(set.ready_.pop_front()); break;
      case Place::kAncient: pool_.give(set.ancient_.pop_front()); break;
      case Place::kRing: set.ring_.clear(index_of(key)); break;
    }
  }
  claimed_ += claimed;
  note_hold(claimed);
  if (claimed != 0) find_oldest();
  return claimed;
}

void Wheel::append(SyncSet& set, WheelNode& node) noexcept {
  TW_ASSERT(!node.hook.is_linked(), "an element is inserted twice");
  if (!ring_.has_slots()) start(node.stamp);  // trimmed while the element was claimed
  node.stamp = Instant{std::min(node.stamp.ns, last_ns_)};
  ++inserts_;
  file(set.ready_, slot_of(node.stamp), node);
}

void Wheel::put_back(SyncSet* set) noexcept {
  const auto at = std::find_if(open_sets_.begin(), open_sets_.end(),
                               [set](const std::unique_ptr<SyncSet>& open) { return open.get() == set; });
  TW_ASSERT(at != open_sets_.end(), "a sync set is put back to a wheel that did not make it");
  const bool stepped = set->clock_steps_ != stats_.clock_steps;
  const auto key_of = [stepped](std::int64_t key) { return stepped ? BucketQueue::overdue_key(key) : key; };
  for (BucketQueue* queue : {&set->ready_, &set->ancient_}) {
    while (!queue->empty()) {
      const std::int64_t key = key_of(queue->front_key());
      push(ready_, key, queue->pop_front());
    }
  }
  if (SlotRing& ring = set->ring_; ring.has_slots()) {
    const std::int64_t oldest = set->head_slot_ - slot_mask_;
    for (std::uint32_t age = 0; age <= slot_mask_; ++age) {
      const std::uint32_t index = index_of(oldest + age);
      Bucket* bucket = std::exchange(ring.bucket(index), nullptr);
      if (bucket == nullptr) continue;
      if (ring.occupied(index)) {
        ring.clear(index);
        push(ready_, key_of(oldest + age), bucket);
      } else {
        pool_.give(bucket);
      }
    }
    spare_slots_ = ring.take_slots();
  }
  if (spare_set_ == nullptr) spare_set_ = std::move(*at);
  open_sets_.erase(at);
  find_oldest();
}

// ---- the least stamp ----

// Where the least slot of each place is: (key, bucket). What is due at once has stamps of its own time, so it
// is asked apart.
template <class Visit>
void Wheel::for_least_buckets(Visit visit) const {
  const auto visit_ring = [&](const SlotRing& ring, std::int64_t head_slot) {
    const std::int64_t slot = oldest_in_ring(ring, head_slot);
    if (slot != kNoKey) visit(slot, *ring.bucket(index_of(slot)));
  };
  ready_.for_least(visit);
  ancient_.for_least(visit);
  visit_ring(ring_, head_slot_);
  for (const auto& set : open_sets_) {
    set->ready_.for_least(visit);
    set->ancient_.for_least(visit);
    visit_ring(set->ring_, set->head_slot_);
  }
}

// The least stamp is in the least slot, on one of the buckets that hold a part of it. Once an element of that
// slot has been seen nothing of a later slot is less: so a reader whose slot is taken away under it is done.
bool Wheel::look_for_least(StampReading& reading) noexcept {
  bool done = walk_.go_on(reading);
  std::int64_t least_slot = kNoKey;
  if (done) {
    for_least_buckets([&](std::int64_t key, Bucket&) {
      least_slot = std::min(least_slot, BucketQueue::slot_of_key(key));
    });
  }
  if (least_slot != kNoKey && least_slot <= slot_of(reading.least)) {
    for_least_buckets([&](std::int64_t key, Bucket& bucket) {
      if (done && BucketQueue::slot_of_key(key) == least_slot) done = bucket.look(walk_, reading);
    });
  }
  if (done) walk_.end();
  return done;
}

// ---- moves, memory, checks ----

std::size_t Wheel::move_some(Wheel& to, std::span<WheelNode*> moved, Instant now) noexcept {
  const std::size_t wanted = std::min(moved.size(), kMaxClaim);
  std::size_t count = 0;
  while (count < wanted) {
    if (ready_.empty() && !detach_oldest()) break;
    Bucket* bucket = ready_.front();
    WheelNode& node = bucket->front();
    if (unlink(node) != nullptr) pool_.give(ready_.pop_front());
    ++removals_;
    to.insert_at(node, node.stamp, now);
    moved[count++] = &node;
  }
  note_hold(count);
  to.note_hold(count);
  find_oldest();
  return count;
}

bool Wheel::trim() {
  if (listed() != 0 || !open_sets_.empty()) return false;
  walk_.end();
  current_ = nullptr;
  spare_set_.reset();
  spare_slots_.reset();
  if (ring_.has_slots()) {
    for (std::uint32_t index = 0; index <= slot_mask_; ++index) {
      if (Bucket* bucket = ring_.bucket(index); bucket != nullptr) pool_.give(bucket);
    }
    ring_.take_slots().reset();
  }
  ready_.release_memory();
  ancient_.release_memory();
  pool_.trim();
  return true;
}

std::uint64_t Wheel::memory_bytes() const {
  const std::uint64_t slots_bytes = (std::uint64_t{slot_mask_} + 1) * sizeof(Bucket*);
  std::uint64_t bytes = pool_.memory_bytes() + ready_.memory_bytes() + ancient_.memory_bytes();
  if (ring_.has_slots()) bytes += slots_bytes;
  if (spare_slots_ != nullptr) bytes += slots_bytes;
  const auto add_set = [&](const SyncSet& set) {
    bytes += sizeof(SyncSet) + set.ready_.memory_bytes() + set.ancient_.memory_bytes();
    if (set.ring_.has_slots()) bytes += slots_bytes;
  };
  if (spare_set_ != nullptr) add_set(*spare_set_);
  for (const auto& set : open_sets_) add_set(*set);
  return bytes;
}

void Wheel::check_invariants() const {
  std::uint64_t seen = 0;
  std::int64_t oldest = kNoKey;
  const auto check_queue = [&](const BucketQueue& queue) {
    queue.check_invariants();
    oldest = std::min(oldest, queue.front_key());
    queue.for_each([&](std::int64_t key, const Bucket& bucket) {
      bucket.for_each([&](const WheelNode& node) {
        ++seen;
        const std::int64_t slot = slot_of(node.stamp);
        TW_ASSERT(key == slot || key == BucketQueue::overdue_key(slot), "an element under a foreign key");
      });
    });
  };
  const auto check_ring = [&](const SlotRing& ring, std::int64_t head_slot) {
    TW_ASSERT(ring.consistent(), "a ring's summary differs from its bitmap");
    for (std::uint32_t age = 0; age < ring.slots(); ++age) {
      const std::int64_t slot = head_slot - age;
      const std::uint32_t index = index_of(slot);
      const Bucket* bucket = ring.bucket(index);
      const bool full = bucket != nullptr && !bucket->empty();
      TW_ASSERT(full == ring.occupied(index), "an occupied bit is wrong");
      if (!full) continue;
      oldest = std::min(oldest, slot);
      bucket->for_each([&](const WheelNode& node) {
        ++seen;
        TW_ASSERT(slot_of(node.stamp) == slot, "an element in a foreign slot");
      });
    }
  };
  check_queue(ready_);
  check_queue(ancient_);
  if (ring_.has_slots()) check_ring(ring_, head_slot_);
  for (const auto& set : open_sets_) {
    check_queue(set->ready_);
    check_queue(set->ancient_);
    if (set->ring_.has_slots()) check_ring(set->ring_, set->head_slot_);
  }
  TW_ASSERT(seen == listed(), "elements found differ from elements counted");
  TW_ASSERT(oldest == oldest_key_, "the oldest slot is wrong");
  TW_ASSERT(hint_.oldest() == instant_of(oldest), "the hint is wrong");
}

}  // namespace tidewheel
