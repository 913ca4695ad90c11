// base/entropy.h: random bits that differ from call to call and machine to machine, for identities (UUIDs)
// alone; everything that is to be repeatable takes a seed (base/rng.h).
// Threads:   thread-safe.
// Errors:    none: where the system has none to give, clock and process number have to do.
// Simulator: inside a simulation a constant sequence of the simulation's own clock.
#pragma once
#include <cstdint>

namespace tidewheel {

std::uint64_t entropy_bits();

}  // namespace tidewheel
