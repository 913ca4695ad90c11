// tests/length.h: how long a test's long loops run.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace tidewheel {

inline bool is_quick() { return std::getenv("TIDEWHEEL_QUICK") != nullptr; }

// `normal` turns; a tenth with TIDEWHEEL_QUICK (tests/run --quick), ten times as many with TIDEWHEEL_FULL.
// Simulated tests scale their schedules likewise (base/sim.h).
inline std::uint64_t loop_length(std::uint64_t normal) {
  if (std::getenv("TIDEWHEEL_FULL") != nullptr) return normal * 10;
  if (is_quick()) return std::max<std::uint64_t>(normal / 10, 1);
  return normal;
}

}  // namespace tidewheel
