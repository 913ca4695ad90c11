// writeback/dirty_grant.h: what a writer is granted before it dirties, and how it waits for that.
// Owns:      a grant owns the bytes it still holds: they go back when it is destroyed.
// Threads:   one each; a waiter's `state` is written by the thread that decides it, before wake() is called.
// Locks:     dropping a grant takes nothing above rank kListShard.
// Units:     bytes, nanoseconds.
#pragma once
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "base/time.h"

namespace tidewheel {

class TaskThrottle;
class WritebackContext;
class WritebackEngine;

// Bytes that a writer may make dirty; what is not used goes back when it is destroyed. A thread that holds
// one must not ask for another (it could wait for itself).
class [[nodiscard]] DirtyGrant {
 public:
  DirtyGrant() = default;
  DirtyGrant(DirtyGrant&& other) noexcept { *this = std::move(other); }
  DirtyGrant& operator=(DirtyGrant&& other) noexcept;
  ~DirtyGrant();

  // What is left. May be less than was asked for: never more than half of the limit at once, so write in
  // pieces of this.
  std::uint64_t bytes() const { return bytes_; }
  Duration paused() const { return paused_; }  // how long the writer was held back for it

 private:
  friend class WritebackEngine;
  void end();
  WritebackEngine* engine_ = nullptr;
  WritebackContext* context_ = nullptr;
  std::uint64_t bytes_ = 0;     // for data
  std::uint64_t overhead_ = 0;  // for one object that becomes dirty
  Duration paused_;
  // What was charged for it, to this task or, if null, to the pool: what goes back is taken off there.
  TaskThrottle* task_ = nullptr;
  bool charged_ = false;
};

// A policy's pause, for a writer that asks in steps: WritebackEngine::begin_pause().
struct ThrottlePause {
  Duration length;     // from `since`; 0: none
  bool again = false;  // ask again after it
  Instant since;
  // For the engine alone.
  TaskThrottle* task = nullptr;
  bool charged = false;
  bool counted = false;  // among the throttled
  const void* asked = nullptr;
};

// A writer that waits. For drivers of their own kind (virtual writers): see begin_balance().
struct ThrottleWaiter {
  // Called once, when `state` has been decided, with no lock of the engine held, from any thread that gives
  // back bytes (which may be under a mapping lock). The waiter is not touched afterwards.
  void (*wake)(ThrottleWaiter&) = nullptr;
  void* owner = nullptr;
  WritebackContext* context = nullptr;
  std::uint64_t need_bytes = 0;
  std::uint64_t failures_before = 0;  // writes of the engine that had failed when it queued
  enum class State : std::uint8_t { kIdle, kWaiting, kGranted, kRefused } state = State::kIdle;
  Error refusal;        // kRefused: what finish_balance() will fail with
  Instant since;        // when it asked
  TaskThrottle* task = nullptr;
  bool charged = false;
  bool queued = false;  // it had to wait
  bool own_limit = false;  // it waits at its context's own limit, when it was last looked at
  ThrottleWaiter* next = nullptr;
};

}  // namespace tidewheel
