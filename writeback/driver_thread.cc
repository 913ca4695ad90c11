#include "writeback/driver_thread.h"

#include <string>

#include "writeback/context.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

LockClass driver_class("writeback-driver", LockRank::kDevice);
LockClass runner_class("writeback-runner", LockRank::kCompletion);

}  // namespace

ThreadDriver::Runner::Runner() : lock(runner_class) {}

ThreadDriver::ThreadDriver(const Clock& clock) : clock_(clock), lock_(driver_class) {}

ThreadDriver::~ThreadDriver() {
  MutexLock guard(lock_);
  TW_ASSERT(runners_.empty(), "a driver ends before its flushers");
}

Result<void> ThreadDriver::add(Flusher& flusher) {
  auto runner = std::make_unique<Runner>();
  Runner& r = *runner;
  r.flusher = &flusher;
  flusher.driver_data = &r;
  {
    MutexLock guard(lock_);
    runners_.push_back(std::move(runner));
  }
  auto thread = Thread::start("flush-" + flusher.context().name(), [this, &r] { run(r); });
  if (!thread) return Unexpected(thread.error());
  r.thread = std::move(thread).value();
  return {};
}

// The runner stays until forget(): a kick may still be on its way to it, and comes to nothing.
void ThreadDriver::remove(Flusher& flusher) {
  auto& runner = *static_cast<Runner*>(flusher.driver_data);
  kick(runner);
  if (runner.thread.joinable()) runner.thread.join();
}

void ThreadDriver::forget(Flusher& flusher) {
  MutexLock guard(lock_);
  std::erase_if(runners_, [&](const auto& runner) { return runner->flusher == &flusher; });
}

void ThreadDriver::kick(Flusher& flusher) { kick(*static_cast<Runner*>(flusher.driver_data)); }

void ThreadDriver::kick(Runner& runner) {
  if (runner.kicked.exchange(true, std::memory_order_seq_cst)) return;
  MutexLock guard(runner.lock);
  runner.condition.notify_one();
}

void ThreadDriver::kick_all() {
  MutexLock guard(lock_);
  for (const auto& runner : runners_) {
    if (runner->flusher->context().counts().total() != 0) kick(*runner);
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
    MutexLock guard(runner.lock);
    if (runner.kicked.load(std::memory_order_seq_cst)) continue;
    if (step.wake_at == Instant::max()) {
      while (!runner.kicked.load(std::memory_order_seq_cst)) {
        runner.condition.wait(runner.lock, CondVar::For::kWork);
      }
      continue;
    }
    // Once only, and then the flusher looks: until a clock that was set back meanwhile has come to wake_at
    // again, the wait could be for hours.
    const Instant now = clock_.now();
    if (now < step.wake_at) runner.condition.wait_for(runner.lock, step.wake_at - now);
  }
}

}  // namespace tidewheel
