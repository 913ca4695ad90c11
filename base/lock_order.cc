// The rank stack: what a thread holds, checked against base/lock_rank.h in debug builds.
#include <cstdio>

#include "base/assert.h"
#include "base/lock_class.h"
#include "base/sync.h"
#include "base/thread_state.h"

namespace tidewheel {

ThreadState& this_thread_state() {
#if TW_SIM
  if (sim::active()) return sim::thread_state();
#endif
  static constinit thread_local ThreadState state;
  return state;
}

namespace lock_order {

void before_lock(const void* lock, const LockClass& lock_class) {
  const ThreadState& state = this_thread_state();
  for (std::uint32_t i = 0; i < state.held_count; ++i) {
    const HeldLock& held = state.held[i];
    char message[160];
    if (held.lock == lock) {
      std::snprintf(message, sizeof message, "lock '%s' is taken twice by one thread", lock_class.name());
      TW_ASSERT(held.lock != lock, message);
    }
    if (held.rank == LockRank::kNone || lock_class.rank() == LockRank::kNone) continue;
    if (lock_class.rank() <= held.rank) {
      std::snprintf(message, sizeof message, "lock '%s' (rank %u) is taken while '%s' (rank %u) is held",
                    lock_class.name(), static_cast<unsigned>(lock_class.rank()), held.name,
                    static_cast<unsigned>(held.rank));
      TW_ASSERT(lock_class.rank() > held.rank, message);
    }
  }
}

void locked(const void* lock, const LockClass& lock_class) {
  ThreadState& state = this_thread_state();
  TW_ASSERT(state.held_count < ThreadState::kMaxHeld,
            "more locks are held at once than the rank stack keeps");
  state.held[state.held_count++] = HeldLock{lock, lock_class.name(), lock_class.rank()};
}

void unlocking(const void* lock, const LockClass& lock_class) {
  ThreadState& state = this_thread_state();
  for (std::uint32_t i = state.held_count; i > 0; --i) {
    if (state.held[i - 1].lock != lock) continue;
    for (std::uint32_t j = i; j < state.held_count; ++j) state.held[j - 1] = state.held[j];
    --state.held_count;
    return;
  }
  char message[160];
  std::snprintf(message, sizeof message, "lock '%s' is released by a thread that does not hold it",
                lock_class.name());
  TW_ASSERT(false, message);
}

void assert_held(const void* lock, const LockClass& lock_class) {
  const ThreadState& state = this_thread_state();
  bool held = false;
  for (std::uint32_t i = 0; i < state.held_count; ++i) held = held || state.held[i].lock == lock;
  if (held) return;
  char message[160];
  std::snprintf(message, sizeof message, "lock '%s' is not held", lock_class.name());
  TW_ASSERT(held, message);
}

}  // namespace lock_order

#if defined(TW_DASSERT_ON)
void assert_may_wait_for(LockRank rank, const char* name) {
  const ThreadState& state = this_thread_state();
  for (std::uint32_t i = 0; i < state.held_count; ++i) {
    const HeldLock& held = state.held[i];
    if (held.rank == LockRank::kNone || held.rank < rank) continue;
    char message[160];
    std::snprintf(message, sizeof message,
                  "a lock of '%s' (rank %u) is waited for while '%s' (rank %u) is held", name,
                  static_cast<unsigned>(rank), held.name, static_cast<unsigned>(held.rank));
    TW_ASSERT(held.rank < rank, message);
  }
}

void assert_may_sleep() {
  const ThreadState& state = this_thread_state();
  for (std::uint32_t i = 0; i < state.held_count; ++i) {
    if (state.held[i].rank < kFirstShortRank) continue;
    char message[160];
    std::snprintf(message, sizeof message, "a thread sleeps while it holds the short lock '%s'",
                  state.held[i].name);
    TW_ASSERT(state.held[i].rank < kFirstShortRank, message);
  }
}
#endif

}  // namespace tidewheel
