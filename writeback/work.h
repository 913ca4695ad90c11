// writeback/work.h: which work a flusher does next, and when it wants to look again. Pure: it is handed
// `now` and what is the case, sleeps never, reads no clock.
// Threads:   one WorkSchedule per flusher, used by it alone.
// Units:     nanoseconds, bytes.
// Invariant: explicit work (sync, then reclaim) before periodic before background; reclaim and a periodic
//            tick that is due take turns, batch by batch. A tick that was interrupted is due at once, so that
//            no amount of syncs or reclaim delays old dirt beyond its bound: age at write start <= expire +
//            interval + one slot of the list + the service time.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "writeback/batch.h"

namespace tidewheel {

// What is the case when a flusher asks.
struct WorkSignals {
  Instant now;
  bool sync_ready = false;                  // a sync is to be begun or has something to claim
  Instant sync_retry_at = Instant::max();   // when a sync that met only busy objects tries again
  std::uint64_t reclaim_bytes = 0;
  std::uint64_t background_excess_bytes = 0;
  bool background_may_start = true;         // the work policy allows it
  bool writers_wait = false;
  Instant drain_at = Instant::max();        // when the work policy wants everything written
  bool background_starved = false;          // the last background look claimed nothing and nothing changed
  Instant next_retry = Instant::max();      // when the ladder has something due
  Instant next_lazy = Instant::max();       // when timestamps have their maximum age
};

struct WorkDecision {
  bool work = false;
  WorkKind kind = WorkKind::kBackground;
  Instant wake_at = Instant::max();  // without work: look again then, or when told
};

class WorkSchedule {
 public:
  // How long a small excess over the background threshold is left to grow into a batch worth an I/O.
  static constexpr Duration kPlug = milliseconds(10);
  // A retry, or a timestamp, that was due but had already gone (another flusher's, a sync's) is not looked
  // for again before this.
  static constexpr Duration kRetryPause = milliseconds(10);
  static constexpr std::uint32_t kBusyDoublings = 7;  // 1 ms to 128 ms

  WorkSchedule(Duration expire, Duration interval, std::uint64_t batch_bytes)
      : expire_(expire), interval_(interval), batch_bytes_(batch_bytes) {}
  // As the work policy in force says; asked before each decision.
  void set_ages(Duration expire, Duration interval);

  WorkDecision next_work(const WorkSignals& signals);

  // Something is dirty: the next tick is at most one interval away. Never postpones one.
  void arm(Instant now);
  // Something that has expired has come from elsewhere: it has waited for a tick once already.
  void tick_at_once(Instant now) {
    if (interval_.ns > 0) tick_at_ = std::min(tick_at_, now);
  }
  // A batch that was not a sync's held only objects that were busy (or failed, where the list has no
  // back-off) and would be offered again at once: no such work for 1 ms, then 2, up to 128, until something
  // is written. Work that meets other objects as well is never held up.
  void met_only_busy(Instant now);
  void wrote() {
    busy_passes_ = 0;
    busy_until_ = Instant::min();
  }
  // Nothing is dirty.
  void disarm() { tick_at_ = Instant::max(); }
  bool armed() const { return tick_at_ != Instant::max(); }

  void began_periodic(Instant now);
  void ended_periodic(Instant now, bool found_nothing);
  // A large object that had expired has had its slice: the next one is due at once, not with the next tick.
  void goes_on_periodic() { tick_unfinished_ = true; }
  void wrote_background(Instant now) { plugged_since_ = now; }
  // For periodic work that begins now: what was stamped at or before this has expired.
  Instant dirtied_before(Instant now) const;

 private:
  Duration expire_;
  Duration interval_;
  const std::uint64_t batch_bytes_;
  Instant tick_at_ = Instant::max();
  bool tick_unfinished_ = false;
  bool reclaim_had_its_turn_ = false;  // the last batch was reclaim's
  Instant retry_not_before_ = Instant::min();
  Instant plugged_since_ = Instant::max();
  std::uint32_t busy_passes_ = 0;
  Instant busy_until_ = Instant::min();
};

}  // namespace tidewheel
