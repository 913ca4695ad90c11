// base/sim_hooks.h: where the locks, atomics, threads and clocks of base/ meet the simulator. Only base/
// includes it; tests include base/sim.h.
// Threads:   a simulation runs on one OS thread; active() is true on that thread alone, from its first
//            fiber's start to its last one's end.
// Note:      in a build without TW_SIM active() is the constant false and nothing else exists.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/config.h"

namespace tidewheel {
struct ThreadState;
}

namespace tidewheel::sim {

#if !TW_SIM

constexpr bool active() { return false; }
constexpr void charge(std::int64_t) {}

#else

class Scheduler;
extern constinit thread_local Scheduler* running;  // null: real threads

inline bool active() { return running != nullptr; }

// What happened at a scheduling point; kept for the report of a failed run.
enum class Op : std::uint8_t {
  kStart, kLoad, kStore, kReadModifyWrite, kFence, kLock, kTryLockFailed, kUnlock, kLockShared,
  kUnlockShared, kWait, kNotify, kSpawn, kJoin, kSleep, kYield, kTimeout,
};

struct SimLock;
void forget_lock(const SimLock* lock);  // a new lock begins at this address

// A lock's state while it is used inside a simulation; a member of Mutex and SharedMutex.
struct SimLock {
  SimLock() {
    if (active()) forget_lock(this);
  }
  void* owner = nullptr;     // the fiber that holds it exclusively
  std::uint32_t readers = 0;
};

// ---- scheduling ----
void point(Op op, const void* object);  // another fiber may run before this returns
void yield();                           // another fiber runs if one can
void charge(std::int64_t ns);           // the running fiber used this much time on its virtual CPU

// ---- locks: each returns whether it had to wait ----
bool lock_exclusive(SimLock& lock, const char* name);
bool lock_shared(SimLock& lock, const char* name);
bool try_lock_exclusive(SimLock& lock);
bool try_lock_shared(SimLock& lock);
void unlock_exclusive(SimLock& lock);
void unlock_shared(SimLock& lock);

// ---- conditions ----
inline constexpr std::int64_t kNever = INT64_MAX;
// Releases the lock, waits, takes the lock again. False: the deadline passed without a notification.
bool cond_wait(const void* cond, SimLock& lock, const char* lock_name, std::int64_t deadline_ns, bool idle);
void cond_notify(const void* cond, bool all);
// A timed wait ended by its deadline and found its condition true: a notification was lost, unless one is
// still on its way.
void timed_wait_found_true(const void* cond, const char* lock_name);

// ---- threads and time ----
void* spawn(std::string name, std::function<void()> body);
void join(void* fiber);
void sleep_until(std::int64_t ns);
std::int64_t now_ns();
std::uint32_t current_cpu();
std::uint32_t cpu_count();
std::uint32_t thread_number();
ThreadState& thread_state();

// A failed TW_ASSERT ends the run, not the process.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line, const char* message);

// ---- weak memory (sim_memory.cc): which of a location's recent values a load returns ----
bool weak_memory();
std::uint64_t weak_load(const void* location, std::uint64_t newest, std::memory_order order);
void weak_read_newest(const void* location, std::uint64_t newest, std::memory_order order);
void weak_store(const void* location, std::uint64_t before, std::uint64_t after, std::memory_order order);
void weak_read_modify_write(const void* location, std::uint64_t before, std::uint64_t after,
                            std::memory_order order);
void weak_fence(std::memory_order order);
void weak_forget(const void* location);  // a new object begins at this address

#endif

}  // namespace tidewheel::sim
