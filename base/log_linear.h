// base/log_linear.h: bucket numbers that grow linearly within each power of two and double from one to
// the next, so that every value is known within 1 / 2^kStepBits of itself.
// Units:     any unsigned 64-bit quantity.
// Invariant: index() is monotonic; lower(index(v)) <= v <= upper(index(v)); exact below 2^kStepBits.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tidewheel {

template <unsigned kStepBits>
struct LogLinear {
  static constexpr std::uint64_t kSteps = 1ULL << kStepBits;
  static constexpr std::size_t kBuckets = (64 - kStepBits + 1) * kSteps;

  static constexpr std::size_t index(std::uint64_t value) {
    if (value < kSteps) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kStepBits;
    return (shift + 1) * kSteps + ((value >> shift) & (kSteps - 1));
  }
  static constexpr std::uint64_t lower(std::size_t index) {
    if (index < kSteps) return index;
    const std::size_t shift = index / kSteps - 1;
    return (kSteps + index % kSteps) << shift;
  }
  static constexpr std::uint64_t upper(std::size_t index) {
    if (index < kSteps) return index;
    const std::size_t shift = index / kSteps - 1;
    return lower(index) + ((1ULL << shift) - 1);
  }
};

}  // namespace tidewheel
