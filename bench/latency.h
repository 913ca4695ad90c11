// bench/latency.h: what a histogram of calls loses: the minimum and the exact total.
// Threads:   one owner each; merged when the owners rest.
// Units:     nanoseconds.
#pragma once
#include <cstdint>
#include <limits>

#include "base/histogram.h"

namespace tidewheel::bench {

struct CallSummary {
  std::uint64_t count = 0, total_ns = 0, min_ns = std::numeric_limits<std::uint64_t>::max(), max_ns = 0;

  void record(std::uint64_t ns) {
    ++count;
    total_ns += ns;
    if (ns < min_ns) min_ns = ns;
    if (ns > max_ns) max_ns = ns;
  }
  void merge(const CallSummary& other) {
    count += other.count;
    total_ns += other.total_ns;
    if (other.min_ns < min_ns) min_ns = other.min_ns;
    if (other.max_ns > max_ns) max_ns = other.max_ns;
  }
};

}  // namespace tidewheel::bench
