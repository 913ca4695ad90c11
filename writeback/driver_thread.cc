#include "writeback/driver_thread.h"

#include <string>

#include "writeback/context.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

LockClass driver_class("writeback-driver", LockRank::kCompletion);

}  // namespace

ThreadDriver::ThreadDriver(const Clock& clock) : clock_(clock), lock_(driver_class) {}

ThreadDriver::~ThreadDriver() {
  MutexLock guard(lock_);
  for (const auto& runner : runners_) TW_ASSERT(runner->removed, "a driver ends before its flushers");
}

void ThreadDriver::add(Flusher& flusher) {
  auto runner = std::make_unique<Runner>();
  Runner& r = *runner;
  r.flusher = &flusher;
  flusher.driver_data = &r;
  {
    MutexLock guard(lock_);
    runners_.push_back(std::move(runner));
  }
  r.thread = Thread("flush-" + flusher.context().name(), [this, &r] { run(r); });
}

// The runner stays: a kick may still be on its way to it, and comes to nothing.
void ThreadDriver::remove(Flusher& flusher) {
  auto& runner = *static_cast<Runner*>(flusher.driver_data);
  kick(runner);
  runner.thread.join();
  MutexLock guard(lock_);
  runner.removed = true;
}

void ThreadDriver::kick(Flusher& flusher) { kick(*static_cast<Runner*>(flusher.driver_data)); }

void ThreadDriver::kick(Runner& runner) {
  if (runner.kicked.exchange(true, std::memory_order_seq_cst)) return;
  MutexLock guard(lock_);
  runner.condition.notify_one();
}

void ThreadDriver::kick_all() {
  MutexLock guard(lock_);
  for (const auto& runner : runners_) {
    if (runner->removed || runner->flusher->context().counts().total() == 0) continue;
    if (!runner->kicked.exchange(true, std::memory_order_seq_cst)) runner->condition.notify_one();
  }
}

void ThreadDriver::wait(Mutex& mutex, CondVar& condition, Duration longest) {
  if (longest == Duration::max()) {
    condition.wait(mutex);
  } else {
    condition.wait_for(mutex, longest);
  }
}

void ThreadDriver::run(Runner& runner) {
  for (;;) {
    runner.kicked.exchange(false, std::memory_order_seq_cst);
    const Flusher::Step step = runner.flusher->step(clock_.now());
    if (step.drained) return;
    if (step.again) continue;
    MutexLock guard(lock_);
    while (!runner.kicked.load(std::memory_order_seq_cst)) {
      if (step.wake_at == Instant::max()) {
        runner.condition.wait(lock_, CondVar::For::kWork);
        continue;
      }
      const Instant now = clock_.now();
      if (now >= step.wake_at) break;
      runner.condition.wait_for(lock_, step.wake_at - now);
    }
  }
}

}  // namespace tidewheel
