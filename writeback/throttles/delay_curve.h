// writeback/throttles/delay_curve.h: the delay-curve policy's formula.
// Units:     bytes, nanoseconds.
// Source:    the documentation of OpenZFS's module parameters (zfs(4), "ZFS TRANSACTION DELAY").
#pragma once
#include <cstdint>

#include "base/time.h"

namespace tidewheel::delay_curve {

inline constexpr std::uint64_t kFromPercent = 60;         // of the limit: below it nothing is delayed
inline constexpr Duration kScale = microseconds(500);     // the delay half-way between that and the limit
inline constexpr Duration kLongestDelay = milliseconds(100);
// Places in the queue of delays reach so far ahead: 256 writers, each delayed by the longest delay.
inline constexpr Duration kLongestQueue{kLongestDelay.ns * 256};

// Where delays begin.
std::uint64_t delay_from_bytes(std::uint64_t limit_bytes);
// kScale * (dirty - from) / (limit - dirty), at most kLongestDelay; that also at the limit and beyond.
Duration min_time(std::uint64_t dirty_bytes, std::uint64_t limit_bytes);

}  // namespace tidewheel::delay_curve
