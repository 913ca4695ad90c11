// timerwheel/bucket.h: the elements of one slot, in order of arrival, and the pool buckets come from.
// Owns:      a Bucket owns no element; a BucketPool owns its buckets' memory.
// Locks:     all of it belongs to the lock of the shard whose pool it is.
// Invariant: (1) a bucket's head keeps its address while anything is linked to it, whoever points at the
//            bucket, so that an element can leave at any time knowing only its neighbours; (2) a bucket
//            in the pool is empty.
// Memory:    chunks of 64 buckets (2 KiB, on their own cache lines, so that shards share none). At most as
//            many buckets are in use as there are slots in the shard's rings plus detached buckets that hold
//            an element; chunks go back to the allocator in trim() and with the pool.
#pragma once
#include <boost/intrusive/parent_from_member.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/config.h"
#include "timerwheel/node.h"
#include "timerwheel/stamp_walk.h"

namespace tidewheel {

class Bucket {
 public:
  // Only the algorithms and the links of Boost's list are used: its list object could not be found again
  // from an element.
  using List = StampWalk::List;
  using Algorithms = List::node_algorithms;
  using Traits = List::value_traits;
  using Link = Traits::node_traits::node;

  Bucket() { Algorithms::init_header(&head_); }
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  bool empty() const { return head_.next_ == &head_; }
  WheelNode& front() { return *Traits::to_value_ptr(head_.next_); }
  // A stamp that is not below any here (then the order needs no word), or the first: begin_order().
  void link_youngest(WheelNode& node) { Algorithms::link_before(&head_, Traits::to_node_ptr(node)); }
  void begin_order() { order_.begin(); }
  void link_back(WheelNode& node) {
    empty() ? order_.begin() : order_.linked_behind(back().stamp, node.stamp);
    link_youngest(node);
  }
  // Neither is empty. O(1) whatever the length; `other` is empty afterwards.
  void splice_back(Bucket& other) {
    order_.spliced_behind(back().stamp, other.order_, other.front().stamp);
    Algorithms::transfer(&head_, other.head_.next_, &other.head_);
  }
  StampOrder& order() { return order_; }
  bool look(StampWalk& walk, StampReading& reading) {
    return walk.look(reading, order_, &head_, [this] { return front().stamp; });
  }
  // Unlinks a node wherever it is. Answers its bucket when that has become empty, else null: a ring of
  // links in which both neighbours are one is the head alone.
  static Bucket* unlink(WheelNode& node) {
    Link* link = Traits::to_node_ptr(node);
    Link* next = link->next_;
    Link* previous = link->prev_;
    previous->next_ = next;
    next->prev_ = previous;
    Algorithms::init(link);
    return next == previous ? from_head(next) : nullptr;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Link* link = head_.next_; link != &head_; link = link->next_) {
      visit(*Traits::to_value_ptr(link));
    }
  }

 private:
  friend class BucketPool;
  static Bucket* from_head(Link* head) {
    return boost::intrusive::get_parent_from_member(head, &Bucket::head_);
  }

  WheelNode& back() { return *Traits::to_value_ptr(head_.prev_); }

  Link head_;
  StampOrder order_;
};
static_assert(sizeof(Bucket) == 32);

class BucketPool {
 public:
  BucketPool() = default;
  BucketPool(const BucketPool&) = delete;
  BucketPool& operator=(const BucketPool&) = delete;

  Bucket* take() noexcept {
    if (free_ == nullptr) grow();
    Bucket* bucket = free_;
    free_ = bucket->head_.next_ == nullptr ? nullptr : Bucket::from_head(bucket->head_.next_);
    Bucket::Algorithms::init_header(&bucket->head_);
    bucket->order_ = StampOrder{};
    ++in_use_;
    return bucket;
  }
  void give(Bucket* bucket) noexcept {
    TW_DASSERT(bucket->empty(), "a bucket goes back to the pool with elements on it");
    bucket->head_.next_ = free_ == nullptr ? nullptr : &free_->head_;
    bucket->head_.prev_ = nullptr;
    free_ = bucket;
    --in_use_;
  }
  std::uint64_t memory_bytes() const { return chunks_.size() * sizeof(Chunk); }
  // Frees every chunk. Only when no bucket is in use.
  void trim();

 private:
  static constexpr std::uint32_t kChunkBuckets = 64;
  struct alignas(kCacheLine) Chunk {
    Bucket buckets[kChunkBuckets];
  };
  void grow() noexcept;

  Bucket* free_ = nullptr;
  std::uint64_t in_use_ = 0;
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace tidewheel
