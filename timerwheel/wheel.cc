// The writers' half of the wheel: time passes, elements come and leave.
#include "timerwheel/wheel.h"

#include <algorithm>
#include <bit>

namespace tidewheel {

WheelStats& WheelStats::operator+=(const WheelStats& other) {
  inserts += other.inserts;
  removals += other.removals;
  claimed += other.claimed;
  detached_buckets += other.detached_buckets;
  aged_buckets += other.aged_buckets;
  sync_sets += other.sync_sets;
  clock_steps += other.clock_steps;
  max_elements_per_hold = std::max(max_elements_per_hold, other.max_elements_per_hold);
  return *this;
}

// A hold that inserts or removes looks at one element; that is not counted each time.
WheelStats Wheel::stats() const {
  WheelStats stats = stats_;
  stats.inserts = inserts_;
  stats.removals = removals_;
  stats.claimed = claimed_;
  if (stats.inserts != 0) {
    stats.max_elements_per_hold = std::max<std::uint64_t>(stats.max_elements_per_hold, 1);
  }
  return stats;
}

Wheel::Wheel(const WheelOptions& options, WheelHint& hint)
    : shift_(static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint64_t>(options.slot.ns)))),
      slot_mask_(options.slots - 1),
      hint_(hint),
      ring_(options.slots),
      late_reading_ns_(static_cast<std::uint64_t>(std::max(options.late_reading, options.slot).ns)) {
  TW_ASSERT(std::has_single_bit(options.slots), "the number of slots is a power of two");
  TW_ASSERT(options.slots >= SlotRing::kMinSlots, "too few slots");
  TW_ASSERT(options.slots <= SlotRing::kMaxSlots, "too many slots");
  TW_ASSERT(std::has_single_bit(static_cast<std::uint64_t>(options.slot.ns)),
            "the width of a slot is a power of two nanoseconds");
  TW_ASSERT(shift_ >= 10, "slots narrower than 2^10 ns");
  TW_ASSERT(shift_ <= 40, "slots wider than 2^40 ns");
}

Wheel::~Wheel() {
  TW_ASSERT(listed() == 0, "a wheel is destroyed with elements on it");
  TW_ASSERT(open_sets_.empty(), "a wheel is destroyed with a sync set open");
}

void Wheel::start(Instant now) {
  ring_.set_slots(ring_.make_slots());
  last_ns_ = now.ns;
  head_slot_ = slot_of(now);
  head_last_ns_ = last_ns_of(head_slot_);
  current_ = nullptr;
  publish_places();
}

void Wheel::observe(Instant now) noexcept {
  if (!ring_.has_slots()) {
    start(now);
  } else if (now.ns > head_last_ns_) {
    advance(now);
  } else if (now.ns >= last_ns_) {
    last_ns_ = now.ns;
  } else if (static_cast<std::uint64_t>(last_ns_) - static_cast<std::uint64_t>(now.ns) > late_reading_ns_) {
    step_back(now);
  }
}

// An insert off its fast path: the head moves, or the head slot has no bucket yet. Answers the stamp.
Instant Wheel::arrive(Instant now) noexcept {
  observe(now);
  if (current_ == nullptr) {
    Bucket*& bucket = ring_.bucket(index_of(head_slot_));
    if (bucket == nullptr) bucket = pool_.take();
    current_ = bucket;
  }
  return Instant{last_ns_};
}

// The head goes to now's slot. Slots it passes leave the window at the other end; those still full go to
// ancient, by pointer. Costs one step per full slot passed, at most one turn: nothing for empty ones.
void Wheel::advance(Instant now) noexcept {
  const std::int64_t to = slot_of(now);
  const auto passed = static_cast<std::uint64_t>(to - head_slot_);
  stats_.aged_buckets +=
      take_oldest_slots(passed, [this](std::int64_t slot, Bucket* bucket) { push(ancient_, slot, bucket); });
  head_slot_ = to;
  head_last_ns_ = last_ns_of(to);
  last_ns_ = now.ns;
  current_ = nullptr;
}

// The clock was set back. Stamps already given mean nothing on the new time line, and waiting for it to
// catch up could take for ever: all that is listed counts as due at once, in its old order.
void Wheel::step_back(Instant now) noexcept {
  ++stats_.clock_steps;
  BucketQueue ready;
  overdue(ready_, ready);
  overdue(ancient_, ready);
  take_oldest_slots(std::uint64_t{slot_mask_} + 1, [this, &ready](std::int64_t slot, Bucket* bucket) {
    push(ready, BucketQueue::overdue_key(slot), bucket);
  });
  ready_.swap(ready);
  head_slot_ = slot_of(now);
  head_last_ns_ = last_ns_of(head_slot_);
  last_ns_ = now.ns;
  current_ = nullptr;
  find_oldest();
}

void Wheel::overdue(BucketQueue& from, BucketQueue& to) noexcept {
  while (!from.empty()) {
    const std::int64_t key = BucketQueue::overdue_key(from.front_key());
    push(to, key, from.pop_front());
  }
}

void Wheel::insert_at(WheelNode& node, Instant stamp, Instant now) noexcept {
  TW_ASSERT(!node.hook.is_linked(), "an element is inserted twice");
  observe(now);
  node.stamp = Instant{std::min(stamp.ns, last_ns_)};
  ++inserts_;
  const std::int64_t slot = slot_of(node.stamp);
  if (!in_window(slot)) {
    file(ancient_, slot, node);
    return;
  }
  const std::uint32_t index = index_of(slot);
  Bucket*& bucket = ring_.bucket(index);
  if (bucket == nullptr) bucket = pool_.take();
  const bool first = bucket->empty();
  bucket->link_back(node);
  if (first) slot_filled(*bucket, index, slot);
}

void Wheel::insert_overdue(WheelNode& node, Instant now) noexcept {
  TW_ASSERT(!node.hook.is_linked(), "an element is inserted twice");
  observe(now);
  ++inserts_;
  file(ready_, BucketQueue::overdue_key(slot_of(node.stamp)), node);
}

// Into the queue's bucket of that key.
void Wheel::file(BucketQueue& queue, std::int64_t key, WheelNode& node) noexcept {
  Bucket* bucket = queue.find(key);
  if (bucket != nullptr) {
    bucket->link_back(node);
    return;
  }
  bucket = pool_.take();
  bucket->link_back(node);
  push(queue, key, bucket);
  if (key < oldest_key_) publish(key);
}

void Wheel::push(BucketQueue& queue, std::int64_t key, Bucket* bucket) noexcept {
  Bucket* spliced = queue.push(key, bucket);
  if (spliced == nullptr) return;
  walk_.spliced(queue.find(key)->order(), spliced->order());
  pool_.give(spliced);
}

// A ring's slot went from empty to full.
void Wheel::slot_filled(Bucket& bucket, std::uint32_t index, std::int64_t slot) noexcept {
  bucket.begin_order();
  ring_.mark(index);
  if (slot < oldest_key_) publish(slot);
}

// A removal took a bucket's last element. Where the bucket is filed follows from the slot: a bucket holds
// one slot's elements, except that of an overdue key, which is tried second.
void Wheel::bucket_emptied(Bucket* bucket, std::int64_t slot) noexcept {
  if (bucket == current_) [[likely]] {  // an element that came and went within a slot
    ring_.clear(index_of(slot));
    if (oldest_key_ == slot) listed() == 0 ? publish(kNoKey) : find_oldest();
    return;
  }
  bool found = forget_empty(ring_, ancient_, ready_, head_slot_, bucket, slot);
  for (std::size_t i = 0; !found && i < open_sets_.size(); ++i) {
    SyncSet& set = *open_sets_[i];
    found = forget_empty(set.ring_, set.ancient_, set.ready_, set.head_slot_, bucket, slot);
  }
  TW_DASSERT(found, "an emptied bucket is filed nowhere");
  if (oldest_key_ == slot || BucketQueue::is_overdue(oldest_key_)) find_oldest();
}

bool Wheel::forget_empty(SlotRing& ring, BucketQueue& ancient, BucketQueue& ready, std::int64_t head_slot,
                         Bucket* bucket, std::int64_t slot) noexcept {
  const std::uint32_t index = index_of(slot);
  if (ring.has_slots() && static_cast<std::uint64_t>(head_slot - slot) <= slot_mask_ &&
      ring.bucket(index) == bucket) {
    ring.clear(index);  // the bucket stays for reuse
    return true;
  }
  const std::int64_t late = BucketQueue::overdue_key(slot);
  const bool found = ready.erase(slot, bucket) || ancient.erase(slot, bucket) || ready.erase(late, bucket) ||
                     ancient.erase(late, bucket);
  if (found) pool_.give(bucket);
  return found;
}

Instant Wheel::instant_of(std::int64_t key) const {
  if (key == kNoKey) return Instant::max();
  if (BucketQueue::is_overdue(key)) return Instant::min();
  return Instant{static_cast<std::int64_t>(static_cast<std::uint64_t>(key) << shift_)};
}

std::int64_t Wheel::oldest_in_ring(const SlotRing& ring, std::int64_t head_slot) {
  const std::int64_t oldest = head_slot - ring.slots() + 1;
  const std::uint32_t begin = static_cast<std::uint32_t>(oldest) & (ring.slots() - 1);
  const std::uint32_t index = ring.first_from(begin);
  return index == SlotRing::kNone ? kNoKey : oldest + ((index - begin) & (ring.slots() - 1));
}

std::int64_t Wheel::oldest_in(const SyncSet& set) const {
  return std::min(
      {set.ready_.front_key(), set.ancient_.front_key(), oldest_in_ring(set.ring_, set.head_slot_)});
}

void Wheel::find_oldest() noexcept {
  std::int64_t key = std::min(ready_.front_key(), ancient_.front_key());
  key = std::min(key, oldest_in_ring(ring_, head_slot_));
  for (const auto& set : open_sets_) key = std::min(key, oldest_in(*set));
  if (key != oldest_key_) publish(key);
}

void Wheel::publish(std::int64_t key) noexcept {
  oldest_key_ = key;
  hint_.oldest_ns.store(instant_of(key).ns, std::memory_order_release);
}

void Wheel::publish_places() noexcept {
  hint_.slots.store(reinterpret_cast<std::uintptr_t>(ring_.all()), std::memory_order_relaxed);
  hint_.ready.store(reinterpret_cast<std::uintptr_t>(ready_.entries()), std::memory_order_relaxed);
}

}  // namespace tidewheel
