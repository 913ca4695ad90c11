// writeback/driver_virtual.h: flushers, devices and writers on one thread in virtual time, for tests and the
// laboratory. Nothing waits: when nothing is to be done now, the clock goes to the next moment at which
// something is.
// Owns:      the events that have been posted; not the clock.
// Threads:   one.
// Errors:    waiting for what can't come (no event posted, no flusher that will wake) asserts: in virtual
//            time a hang is visible at once.
// Invariant: events of one moment run in the order in which they were posted; flushers that can run do so
//            before the clock moves.
#pragma once
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "writeback/driver.h"

namespace tidewheel {

class VirtualDriver final : public Driver {
 public:
  explicit VirtualDriver(VirtualClock& clock) : clock_(clock) {}

  Result<void> add(Flusher& flusher) override;
  void remove(Flusher& flusher) override;
  void kick(Flusher& flusher) override;
  void kick_all() override;
  void wait(Mutex& mutex, CondVar& condition, Duration longest) override TW_REQUIRES(mutex);

  // Something that happens at `at` (at once, if that is past): a completion, a writer's next step.
  using Action = void (*)(void* owner, std::uint64_t argument);
  // The clock is set ahead or back by `by`; what is to come is as far off as before, as with timers of a
  // clock of their own.
  void step_clock(Duration by);
  void post(Instant at, Action action, void* owner, std::uint64_t argument = 0);

  // Runs the next thing, moving the clock up to `limit` at most. False: nothing is left before `limit`.
  bool run_one(Instant limit = Instant::max());
  // Everything up to and including t; the clock then stands at t.
  void run_until(Instant t);
  void run_for(Duration d) { run_until(clock_.now() + d); }
  // Until nothing can happen any more unless somebody dirties something.
  void run_to_rest() {
    while (run_one()) {
    }
  }
  std::uint64_t steps() const { return steps_; }
  VirtualClock& clock() { return clock_; }

 private:
  struct Event {
    Instant at;
    std::uint64_t order = 0;
    Action action = nullptr;
    void* owner = nullptr;
    std::uint64_t argument = 0;
    // For a heap with the earliest on top.
    friend bool operator<(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  struct Runner {
    Flusher* flusher = nullptr;
    bool runnable = true;
    Instant wake_at = Instant::max();
  };
  bool step_runnable();

  VirtualClock& clock_;
  std::vector<Event> events_;  // a heap
  std::uint64_t next_order_ = 0;
  std::vector<Runner> runners_;
  std::uint64_t steps_ = 0;
};

}  // namespace tidewheel
