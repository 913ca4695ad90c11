// base/clock.h: where `now` comes from.
// Threads:   now() is thread-safe. VirtualClock::set/advance may run beside it.
// Units:     nanoseconds since an arbitrary start (base/time.h).
// Note:      policy code never reads a clock: it is handed `now`. Under the simulator SteadyClock
//            answers the simulator's virtual time.
#pragma once
#include "base/atomic.h"
#include "base/time.h"

namespace tidewheel {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
};

// CLOCK_MONOTONIC; one reading costs about 23 ns.
class SteadyClock final : public Clock {
 public:
  Instant now() const override;
  static const SteadyClock& instance();
};

// Stands still until told otherwise; may also be set back, to test clock steps.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Instant start = Instant{0}) : now_ns_(start.ns) {}
  Instant now() const override { return Instant{now_ns_.load(std::memory_order_relaxed)}; }
  void set(Instant t) { now_ns_.store(t.ns, std::memory_order_relaxed); }
  void advance(Duration d) { now_ns_.fetch_add(d.ns, std::memory_order_relaxed); }

 private:
  Atomic<std::int64_t> now_ns_;
};

// Cheap cycle counter for sampled hold times, and its rate (measured once).
std::uint64_t read_tsc();
double tsc_ticks_per_ns();

}  // namespace tidewheel
