// base/thread_state.h: what is kept per thread, or per fiber inside a simulation: the locks it holds, and
// whether it has a transaction open.
// Owns:      nothing; entries point at locks that are held, hence alive.
// Threads:   each thread sees its own.
#pragma once
#include <array>
#include <cstdint>

#include "base/lock_rank.h"

namespace tidewheel {

struct HeldLock {
  const void* lock = nullptr;
  const char* name = "";
  LockRank rank = LockRank::kNone;
};

struct ThreadState {
  static constexpr std::uint32_t kMaxHeld = 24;  // ranks are fewer; test locks may be more
  std::array<HeldLock, kMaxHeld> held;
  std::uint32_t held_count = 0;
  std::uint32_t transactions = 0;  // fs/trans: one at most, since a second could wait for the first
};

ThreadState& this_thread_state();

}  // namespace tidewheel
