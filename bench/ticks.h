// bench/ticks.h: the stopwatch of single calls.
// Threads:   pure functions.
// Units:     ticks of the cycle counter (10 ns a reading) where the processor keeps it constant, else
//            nanoseconds of the steady clock (23 ns); to_ns() converts a difference.
#pragma once
#include <cstdint>

#include "base/clock.h"

namespace tidewheel::bench {

class Ticks {
 public:
  Ticks();
  std::uint64_t now() const {
    return use_tsc_ ? read_tsc() : static_cast<std::uint64_t>(SteadyClock::instance().now().ns);
  }
  // Never negative: counters of two CPUs may be a few ticks apart.
  std::uint64_t to_ns(std::uint64_t from, std::uint64_t to) const {
    return to <= from ? 0 : static_cast<std::uint64_t>(static_cast<double>(to - from) * ns_per_tick_);
  }

 private:
  bool use_tsc_ = false;
  double ns_per_tick_ = 1.0;
};

}  // namespace tidewheel::bench
