// writeback/driver_thread.h: each flusher on a thread of its own.
// Owns:      the threads.
// Threads:   as Driver.
// Locks:     a runner's lock (kCompletion) to sleep and to wake; a kick of a flusher that is awake, or has
//            been kicked already, takes none. lock_ (kDevice) for the table, by add, forget and kick_all,
//            with the runners' inside it.
// Units:     sleeps on the steady clock: the engine's clock must run at its pace.
#pragma once
#include <memory>
#include <vector>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sync.h"
#include "base/thread.h"
#include "writeback/driver.h"

namespace tidewheel {

class ThreadDriver final : public Driver {
 public:
  explicit ThreadDriver(const Clock& clock = SteadyClock::instance());
  ~ThreadDriver() override;

  Result<void> add(Flusher& flusher) override;
  void remove(Flusher& flusher) override;
  void forget(Flusher& flusher) override;
  void kick(Flusher& flusher) override;
  void kick_all() override;
  void wait(Mutex& mutex, CondVar& condition, Duration longest) override TW_REQUIRES(mutex);
  std::size_t flushers() const {
    MutexLock guard(lock_);
    return runners_.size();
  }

 private:
  struct Runner {
    Runner();
    Flusher* flusher = nullptr;
    Mutex lock TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
    CondVar condition;
    // seq_cst RMWs on both sides: who kicks has changed something and then sets it; the thread clears it and
    // then looks for work.
    Atomic<bool> kicked{false};
    Thread thread;
  };
  void run(Runner& runner);
  static void kick(Runner& runner);

  const Clock& clock_;
  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankDevice) TW_ACQUIRED_BEFORE(kRankCompletion);
  std::vector<std::unique_ptr<Runner>> runners_ TW_GUARDED_BY(lock_);
};

}  // namespace tidewheel
