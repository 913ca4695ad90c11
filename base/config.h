// base/config.h: build-wide constants.
#pragma once
#include <cstddef>

#include "base/build_options.h"

namespace tidewheel {

// Adjacent-line prefetch pulls pairs of 64-byte lines, so what must not be shared is kept 128 apart.
inline constexpr std::size_t kCacheLine = 128;

inline constexpr std::size_t kPageBytes = 4096;

}  // namespace tidewheel
