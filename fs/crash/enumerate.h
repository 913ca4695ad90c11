// fs/crash/enumerate.h: which states of one cut are tried.
// Threads:   pure functions of their arguments.
// Invariant: every state that comes out is_possible().
#pragma once
#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "fs/crash/crash_state.h"

namespace tidewheel {

inline constexpr std::uint32_t kExhaustiveWrites = 10;  // up to so many, every subset of them
inline constexpr std::uint64_t kSampledSubsets = 1024;  // beyond: as many as ten give

// How many states enumerate() gives without a limit, impossible ones included.
std::uint64_t count_states(const Cut& cut);
// At most `most` of them, then drawn by `seed`; two or more begin with "all of it is there".
std::vector<StateSpec> enumerate(const Cut& cut, std::uint64_t seed, std::uint64_t most);
// One state, any.
StateSpec draw_state(const Cut& cut, Rng& rng);

}  // namespace tidewheel
