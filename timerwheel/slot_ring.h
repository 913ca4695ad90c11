// timerwheel/slot_ring.h: one turn of the wheel: a bucket pointer per slot, and which slots hold elements.
// Owns:      the array of pointers; buckets belong to the shard's BucketPool.
// Locks:     the shard's.
// Units:     index = slot number mod the number of slots.
// Invariant: bit i is set exactly while bucket(i) is there and not empty; summary bit w exactly while word w
//            is not zero. An empty bucket may stay in its slot for reuse.
// Layout:    the bitmap lies in the object (8 words of 512 slots: one line), the pointers in an array of its
//            own that changes hands by pointer; the words are copied then.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

namespace tidewheel {

class Bucket;

class SlotRing {
 public:
  static constexpr std::uint32_t kMinSlots = 8;
  static constexpr std::uint32_t kMaxSlots = 4096;  // one summary word over 64 words
  static constexpr std::uint32_t kNone = UINT32_MAX;

  using Buckets = std::unique_ptr<Bucket*[]>;

  explicit SlotRing(std::uint32_t slots) : mask_(slots - 1) {}

  std::uint32_t slots() const { return mask_ + 1; }
  // A ring has slots from the first use on; before, and after hand_over_to(), it is only ever empty.
  bool has_slots() const { return buckets_ != nullptr; }
  Buckets make_slots() const { return std::make_unique<Bucket*[]>(slots()); }
  void set_slots(Buckets empty) { buckets_ = std::move(empty); }
  Buckets take_slots() { return std::move(buckets_); }
  // Pointers and bitmap go to `to`, which has neither; this one has no slots afterwards.
  void hand_over_to(SlotRing& to) {
    to.buckets_ = std::move(buckets_);
    to.summary_ = std::exchange(summary_, 0);
    for (std::uint32_t w = 0; w <= mask_ >> 6; ++w) to.words_[w] = std::exchange(words_[w], 0);
  }

  Bucket* const* all() const { return buckets_.get(); }
  Bucket*& bucket(std::uint32_t index) { return buckets_[index]; }
  Bucket* bucket(std::uint32_t index) const { return buckets_[index]; }
  bool occupied(std::uint32_t index) const { return ((words_[index >> 6] >> (index & 63)) & 1U) != 0; }
  bool any() const { return summary_ != 0; }
  void mark(std::uint32_t index) {
    words_[index >> 6] |= 1ULL << (index & 63);
    summary_ |= 1ULL << (index >> 6);
  }
  void clear(std::uint32_t index) {
    std::uint64_t& word = words_[index >> 6];
    word &= ~(1ULL << (index & 63));
    if (word == 0) summary_ &= ~(1ULL << (index >> 6));
  }
  // The first occupied index at or after `from`, going round; kNone when there is none. Two words and the
  // summary are looked at, whatever the number of slots.
  std::uint32_t first_from(std::uint32_t from) const {
    if (summary_ == 0) return kNone;
    const std::uint32_t word = from >> 6;
    const std::uint64_t here = words_[word] & (~0ULL << (from & 63));
    if (here != 0) return (word << 6) + static_cast<std::uint32_t>(std::countr_zero(here));
    // Words behind this one first (shifted in two steps: by 64 is undefined), else from the start, where
    // the word we began in comes last.
    const std::uint64_t behind = summary_ & ((~0ULL << word) << 1);
    const std::uint64_t from_words = behind != 0 ? behind : summary_;
    const auto next = static_cast<std::uint32_t>(std::countr_zero(from_words));
    return (next << 6) + static_cast<std::uint32_t>(std::countr_zero(words_[next]));
  }
  // Empties the occupied slots among the `count` from `begin` on, going round: visit(steps from begin,
  // bucket).
  template <class Visit>
  void take_range(std::uint32_t begin, std::uint32_t count, Visit visit) {
    const std::uint32_t to_end = slots() - begin;
    if (count <= to_end) {
      take_straight(begin, begin + count, begin, visit);
    } else {
      take_straight(begin, slots(), begin, visit);
      take_straight(0, count - to_end, begin, visit);
    }
  }
  // Bitmap and summary agree. For tests.
  bool consistent() const {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] != 0) != (((summary_ >> w) & 1U) != 0)) return false;
    }
    return true;
  }

 private:
  template <class Visit>
  void take_straight(std::uint32_t from, std::uint32_t to, std::uint32_t begin, Visit visit) {
    for (std::uint32_t w = from >> 6; w << 6 < to; ++w) {
      std::uint64_t within = ~0ULL;
      if (w == from >> 6) within &= ~0ULL << (from & 63);
      if (w == to >> 6) within &= ~(~0ULL << (to & 63));
      std::uint64_t taken = words_[w] & within;
      if (taken == 0) continue;
      words_[w] &= ~within;
      if (words_[w] == 0) summary_ &= ~(1ULL << w);
      for (; taken != 0; taken &= taken - 1) {
        const std::uint32_t index = (w << 6) + static_cast<std::uint32_t>(std::countr_zero(taken));
        visit((index - begin) & mask_, std::exchange(buckets_[index], nullptr));
      }
    }
  }

  Buckets buckets_;
  std::uint32_t mask_;
  std::uint64_t summary_ = 0;
  std::array<std::uint64_t, kMaxSlots / 64> words_{};
};

}  // namespace tidewheel
