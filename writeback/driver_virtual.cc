#include "writeback/driver_virtual.h"

#include <algorithm>

#include "writeback/context.h"
#include "writeback/flusher.h"

namespace tidewheel {

Result<void> VirtualDriver::add(Flusher& flusher) {
  runners_.push_back({&flusher, true, Instant::max()});
  return {};
}

void VirtualDriver::remove(Flusher& flusher) {
  // What is in flight is waited for: events run, and other flushers meanwhile.
  while (!flusher.step(clock_.now()).drained) {
    const bool ran = run_one();
    TW_ASSERT(ran, "virtual time: a flusher is removed with a batch in flight that never completes");
  }
  std::erase_if(runners_, [&](const Runner& runner) { return runner.flusher == &flusher; });
}

void VirtualDriver::kick(Flusher& flusher) {
  for (Runner& runner : runners_) {
    if (runner.flusher == &flusher) runner.runnable = true;
  }
}

void VirtualDriver::kick_all() {
  for (Runner& runner : runners_) {
    if (runner.flusher->context().counts().total() != 0) runner.runnable = true;
  }
}

void VirtualDriver::wait(Mutex& mutex, CondVar&, Duration longest) {
  mutex.unlock();
  const Instant now = clock_.now();
  const bool bounded = longest.ns < INT64_MAX - std::max<std::int64_t>(now.ns, 0);
  const Instant limit = bounded ? now + longest : Instant::max();
  if (!run_one(limit)) {
    TW_ASSERT(bounded, "virtual time: everybody waits and nothing is due");
    clock_.set(limit);
  }
  mutex.lock();
}

void VirtualDriver::post(Instant at, Action action, void* owner, std::uint64_t argument) {
  events_.push_back({at, next_order_++, action, owner, argument});
  std::push_heap(events_.begin(), events_.end());
}

void VirtualDriver::step_clock(Duration by) {
  for (Event& event : events_) event.at = event.at + by;
  for (Runner& runner : runners_) {
    if (runner.wake_at != Instant::max()) runner.wake_at = runner.wake_at + by;
  }
  clock_.set(clock_.now() + by);
}

bool VirtualDriver::step_runnable() {
  const Instant now = clock_.now();
  for (Runner& runner : runners_) {
    if (!runner.runnable && runner.wake_at > now) continue;
    Flusher* flusher = runner.flusher;
    runner.runnable = false;
    runner.wake_at = Instant::max();
    const Flusher::Step step = flusher->step(now);
    ++steps_;
    // Looked up again: the table moves when a context comes or goes meanwhile.
    for (Runner& stepped : runners_) {
      if (stepped.flusher != flusher) continue;
      stepped.runnable = stepped.runnable || step.again;
      stepped.wake_at = step.wake_at;
    }
    return true;
  }
  return false;
}

bool VirtualDriver::run_one(Instant limit) {
  if (step_runnable()) return true;
  Instant next = events_.empty() ? Instant::max() : events_.front().at;
  for (const Runner& runner : runners_) next = std::min(next, runner.wake_at);
  if (next == Instant::max() || next > limit) return false;
  if (next > clock_.now()) clock_.set(next);
  if (!events_.empty() && events_.front().at <= clock_.now()) {
    std::pop_heap(events_.begin(), events_.end());
    const Event event = events_.back();
    events_.pop_back();
    event.action(event.owner, event.argument);
    return true;
  }
  return step_runnable();
}

void VirtualDriver::run_until(Instant t) {
  while (run_one(t)) {
  }
  if (clock_.now() < t) clock_.set(t);
}

}  // namespace tidewheel
