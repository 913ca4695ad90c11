// timerwheel/bucket_queue.h: buckets that are off their ring, oldest slot first.
// Owns:      nothing; buckets belong to the shard's BucketPool.
// Locks:     the shard's.
// Units:     key = slot number, or overdue_key(slot): what counts as due at once (a clock step).
// Invariant: (1) keys rise strictly; (2) front() is a live entry; an entry whose bucket emptied by removal
//            is dead (null) until passed, compacted or used again. So the front is the oldest, exactly.
// Why not a link in the bucket: a detached bucket is cold memory, an entry here is 16 bytes in a row.
// Memory:    live entries <= elements listed; the array doubles when more than half of it is live.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "timerwheel/bucket.h"

namespace tidewheel {

class BucketQueue {
 public:
  static constexpr std::int64_t kNoKey = INT64_MAX;
  // Below every slot number (those lie within +-2^53, slots being at least 2^10 ns wide), in slot order.
  static constexpr std::int64_t kOverdueOffset = 1LL << 60;
  static constexpr std::int64_t overdue_key(std::int64_t key) {
    return is_overdue(key) ? key : key - kOverdueOffset;
  }
  static constexpr bool is_overdue(std::int64_t key) { return key < -(kOverdueOffset / 2); }
  static constexpr std::int64_t slot_of_key(std::int64_t key) {
    return is_overdue(key) ? key + kOverdueOffset : key;
  }

  bool empty() const { return first_ == entries_.size(); }
  std::int64_t front_key() const { return empty() ? kNoKey : entries_[first_].key; }
  std::int64_t back_key() const { return entries_.back().key; }
  Bucket* front() const { return entries_[first_].bucket; }
  std::size_t live() const { return entries_.size() - first_ - dead_; }

  // visit(key, bucket) for the first live entry of what is due at once and of the rest: the least slots of
  // each.
  template <class Visit>
  void for_least(Visit visit) const {
    if (empty()) return;
    visit(front_key(), *front());
    if (!is_overdue(front_key())) return;
    for (std::size_t i = lower_bound(-(kOverdueOffset / 2)); i < entries_.size(); ++i) {
      if (entries_[i].bucket != nullptr) return visit(entries_[i].key, *entries_[i].bucket);
    }
  }

  // Takes the front entry away and answers its bucket.
  Bucket* pop_front() noexcept;
  // Files a non-empty bucket. Answers null, or `bucket` emptied: its content was spliced behind that of
  // the same key.
  [[nodiscard]] Bucket* push(std::int64_t key, Bucket* bucket) noexcept {
    if (entries_.empty() || key > entries_.back().key) [[likely]] {
      append(key, bucket);
      return nullptr;
    }
    return push_between(key, bucket);
  }
  Bucket* find(std::int64_t key) const;
  // Forgets `bucket` if it is filed under `key`; true when it was. O(log n).
  bool erase(std::int64_t key, const Bucket* bucket) noexcept;
  void swap(BucketQueue& other) noexcept;
  void release_memory();  // only when empty
  const void* entries() const { return entries_.data(); }  // to ask for their line
  std::uint64_t memory_bytes() const { return entries_.capacity() * sizeof(Entry); }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = first_; i < entries_.size(); ++i) {
      if (entries_[i].bucket != nullptr) visit(entries_[i].key, *entries_[i].bucket);
    }
  }
  // For tests.
  void check_invariants() const;

 private:
  struct Entry {
    std::int64_t key;
    Bucket* bucket;
  };
  std::size_t lower_bound(std::int64_t key) const;
  void append(std::int64_t key, Bucket* bucket) {
    if (entries_.size() == entries_.capacity()) make_room();
    entries_.push_back(Entry{key, bucket});
  }
  Bucket* push_between(std::int64_t key, Bucket* bucket) noexcept;
  void make_room() noexcept;
  void pass_dead() noexcept;

  std::vector<Entry> entries_;
  std::size_t first_ = 0;  // entries before it are gone
  std::size_t dead_ = 0;   // null buckets at or behind first_
};

}  // namespace tidewheel
