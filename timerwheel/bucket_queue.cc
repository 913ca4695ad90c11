#include "timerwheel/bucket_queue.h"

#include <algorithm>

namespace tidewheel {

namespace {
constexpr std::size_t kFirstCapacity = 64;  // one page quarter; a poll of a busy shard fits
}

std::size_t BucketQueue::lower_bound(std::int64_t key) const {
  const auto at = std::lower_bound(entries_.begin() + static_cast<std::ptrdiff_t>(first_), entries_.end(),
                                   key, [](const Entry& entry, std::int64_t k) { return entry.key < k; });
  return static_cast<std::size_t>(at - entries_.begin());
}

void BucketQueue::pass_dead() noexcept {
  while (first_ < entries_.size() && entries_[first_].bucket == nullptr) {
    ++first_;
    --dead_;
  }
  if (first_ == entries_.size()) {
    entries_.clear();
    first_ = 0;
  }
}

Bucket* BucketQueue::pop_front() noexcept {
  Bucket* bucket = entries_[first_].bucket;
  ++first_;
  pass_dead();
  return bucket;
}

// Before the array doubles, what is gone or dead is dropped if that is at least half of it: so each entry
// is moved a constant number of times.
void BucketQueue::make_room() noexcept {
  if (entries_.capacity() != 0 && live() <= entries_.capacity() / 2) {
    std::size_t to = 0;
    for (std::size_t from = first_; from < entries_.size(); ++from) {
      if (entries_[from].bucket != nullptr) entries_[to++] = entries_[from];
    }
    entries_.resize(to);
    first_ = 0;
    dead_ = 0;
    return;
  }
  entries_.reserve(std::max(kFirstCapacity, entries_.capacity() * 2));
}

Bucket* BucketQueue::push_between(std::int64_t key, Bucket* bucket) noexcept {
  std::size_t at = lower_bound(key);
  if (at < entries_.size() && entries_[at].key == key) {
    Entry& entry = entries_[at];
    if (entry.bucket == nullptr) {
      entry.bucket = bucket;
      --dead_;
      return nullptr;
    }
    entry.bucket->splice_back(*bucket);
    return bucket;
  }
  if (at == first_ && first_ > 0) {
    entries_[--first_] = Entry{key, bucket};
    return nullptr;
  }
  if (entries_.size() == entries_.capacity()) {
    make_room();
    at = lower_bound(key);
  }
  entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(at), Entry{key, bucket});
  return nullptr;
}

Bucket* BucketQueue::find(std::int64_t key) const {
  const std::size_t at = lower_bound(key);
  return at < entries_.size() && entries_[at].key == key ? entries_[at].bucket : nullptr;
}

bool BucketQueue::erase(std::int64_t key, const Bucket* bucket) noexcept {
  if (empty()) return false;
  const std::size_t at = lower_bound(key);
  if (at == entries_.size() || entries_[at].bucket != bucket) return false;
  entries_[at].bucket = nullptr;
  ++dead_;
  if (at == first_) pass_dead();
  return true;
}

void BucketQueue::swap(BucketQueue& other) noexcept {
  entries_.swap(other.entries_);
  std::swap(first_, other.first_);
  std::swap(dead_, other.dead_);
}

void BucketQueue::release_memory() {
  TW_ASSERT(empty(), "a bucket queue with content gives its memory back");
  std::vector<Entry>().swap(entries_);
  first_ = 0;
}

void BucketQueue::check_invariants() const {
  std::size_t dead = 0;
  for (std::size_t i = first_; i < entries_.size(); ++i) {
    if (entries_[i].bucket == nullptr) {
      ++dead;
    } else {
      TW_ASSERT(!entries_[i].bucket->empty(), "a live entry's bucket is empty");
    }
    TW_ASSERT(i == first_ || entries_[i - 1].key < entries_[i].key, "keys out of order");
  }
  TW_ASSERT(dead == dead_, "dead entries miscounted");
  TW_ASSERT(empty() || front() != nullptr, "the front entry is dead");
}

}  // namespace tidewheel
