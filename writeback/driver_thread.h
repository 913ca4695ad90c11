// writeback/driver_thread.h: each flusher on a thread of its own.
// Owns:      the threads.
// Threads:   as Driver.
// Locks:     lock_ (kCompletion) to sleep and to wake; a kick of a flusher that is awake, or has been kicked
//            already, takes none.
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

  void add(Flusher& flusher) override;
  void remove(Flusher& flusher) override;
  void kick(Flusher& flusher) override;
  void kick_all() override;
  void wait(Mutex& mutex, CondVar& condition, Duration longest) override TW_REQUIRES(mutex);

 private:
  struct Runner {
    Flusher* flusher = nullptr;
    bool removed = false;  // under lock_
    CondVar condition;
    // seq_cst RMWs on both sides: who kicks has changed something and then sets it; the thread clears it and
    // then looks for work.
    Atomic<bool> kicked{false};
    Thread thread;
  };
  void run(Runner& runner);
  void kick(Runner& runner);

  const Clock& clock_;
  Mutex lock_ TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
  std::vector<std::unique_ptr<Runner>> runners_ TW_GUARDED_BY(lock_);
};

}  // namespace tidewheel
