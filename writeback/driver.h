// writeback/driver.h: who runs the flushers: threads, or one thread in virtual time.
// Owns:      whatever it runs them with. A driver belongs to one engine.
// Threads:   kick() from any thread, also from completion threads: it only notes and wakes.
// Locks:     kick() may take a lock of rank kCompletion.
// Invariant: after kick(flusher) the flusher is stepped at least once more, whatever it is doing now.
#pragma once
#include "base/result.h"
#include "base/sync.h"
#include "base/time.h"

namespace tidewheel {

class Flusher;

class Driver {
 public:
  virtual ~Driver() = default;
  // A flusher that is to be stepped until remove(). Both once per flusher, from any thread. After an error
  // (kNoThread) it is not stepped, and remove() must follow all the same.
  virtual Result<void> add(Flusher& flusher) = 0;
  // Returns when the flusher is not being stepped and won't be again. It has nothing in flight.
  virtual void remove(Flusher& flusher) = 0;
  // After remove(), once nobody can kick it any more: what was kept for such kicks goes.
  virtual void forget(Flusher& flusher) { (void)flusher; }
  virtual void kick(Flusher& flusher) = 0;
  // Kicks every flusher whose context has something dirty.
  virtual void kick_all() = 0;
  // The calling thread waits for something that a flusher or a completion will do, at most `longest`.
  // Threads: condition.wait_for; virtual time: runs what is to be run next. May return early.
  virtual void wait(Mutex& mutex, CondVar& condition, Duration longest) TW_REQUIRES(mutex) = 0;
};

}  // namespace tidewheel
