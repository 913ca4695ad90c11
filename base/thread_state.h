// base/thread_state.h: what is kept per thread, or per fiber inside a simulation: the locks it holds,
// whether it has a transaction open, and whether it is one that must never wait for log space.
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
  bool frees_log_space = false;    // a thread of the log or the AIL: it would wait for itself
};

ThreadState& this_thread_state();

// Debug builds: asserts that the caller may wait for a lock of this rank that is on no thread's stack, since
// it is handed from thread to thread: everything it holds stands above.
#if defined(TW_DASSERT_ON)
void assert_may_wait_for(LockRank rank, const char* name);
#else
inline void assert_may_wait_for(LockRank, const char*) {}
#endif

}  // namespace tidewheel
