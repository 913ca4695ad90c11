// timerwheel/slot_ring.h: one turn of the wheel: a bucket pointer per slot, and which slots hold elements.
// Owns:      nothing; buckets belong to the shard's BucketPool.
// Locks:     the shard's.
// Units:     index = slot number mod the number of slots.
// Invariant: bit i is set exactly while buckets_[i] is there and not empty; summary bit w exactly while
//            word w is not zero. An empty bucket may stay in its slot for reuse.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace tidewheel {

class Bucket;

class SlotRing {
 public:
  static constexpr std::uint32_t kMinSlots = 8;
  static constexpr std::uint32_t kMaxSlots = 4096;  // one summary word over 64 words
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit SlotRing(std::uint32_t slots) : mask_(slots - 1), buckets_(slots) {}

  std::uint32_t slots() const { return mask_ + 1; }
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
  // Bitmap and summary agree. For tests.
  bool consistent() const {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] != 0) != (((summary_ >> w) & 1U) != 0)) return false;
    }
    return true;
  }

 private:
  std::uint32_t mask_;
  std::uint64_t summary_ = 0;
  std::array<std::uint64_t, kMaxSlots / 64> words_{};
  std::vector<Bucket*> buckets_;
};

}  // namespace tidewheel
