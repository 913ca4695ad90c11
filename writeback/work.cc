#include "writeback/work.h"

#include <algorithm>

namespace tidewheel {
namespace {

Instant later(Instant from, Duration by) {
  return by.ns > 0 && from.ns > INT64_MAX - by.ns ? Instant::max() : from + by;
}

}  // namespace

WorkDecision WorkSchedule::next_work(const WorkSignals& s) {
  if (s.sync_ready) return {true, WorkKind::kSync, {}};
  // After a clock that stepped back, a tick would lie further off than one interval.
  if (armed() && tick_at_ > later(s.now, interval_)) tick_at_ = later(s.now, interval_);
  // As with the tick, after a clock that stepped back.
  if (retry_not_before_ > later(s.now, kRetryPause)) retry_not_before_ = s.now;
  if (busy_until_ > later(s.now, milliseconds(1LL << kBusyDoublings))) busy_until_ = s.now;
  if (s.now < busy_until_) return {false, WorkKind::kBackground, std::min(busy_until_, s.sync_retry_at)};

  const Instant next_due = std::min(s.next_retry, s.next_lazy);
  const Instant due_at = std::max(next_due, retry_not_before_);
  const bool periodic =
      tick_unfinished_ || s.now >= tick_at_ || (next_due != Instant::max() && s.now >= due_at);
  // In turns, where both want something: reclaim that asks again and again does not starve the ticks.
  if (s.reclaim_bytes > 0 && !(periodic && reclaim_had_its_turn_)) {
    reclaim_had_its_turn_ = true;
    return {true, WorkKind::kReclaim, {}};
  }
  reclaim_had_its_turn_ = false;
  if (periodic) return {true, WorkKind::kPeriodic, {}};

  Instant wake_at = std::min({tick_at_, s.sync_retry_at, s.drain_at});
  if (next_due != Instant::max()) wake_at = std::min(wake_at, due_at);

  if (s.background_excess_bytes == 0 || !s.background_may_start) {
    plugged_since_ = Instant::max();
  } else if (!s.background_starved) {
    if (plugged_since_ > s.now) plugged_since_ = s.now;  // just noticed, or the clock stepped back
    const Instant unplug_at = later(plugged_since_, kPlug);
    if (s.background_excess_bytes >= batch_bytes_ || s.writers_wait || s.now >= unplug_at) {
      return {true, WorkKind::kBackground, {}};
    }
    wake_at = std::min(wake_at, unplug_at);
  }
  return {false, WorkKind::kBackground, wake_at};
}

void WorkSchedule::set_ages(Duration expire, Duration interval) {
  expire_ = expire;
  interval_ = interval;
  if (interval_.ns > 0) return;
  tick_at_ = Instant::max();
  tick_unfinished_ = false;
}

void WorkSchedule::arm(Instant now) {
  if (interval_.ns <= 0) return;
  tick_at_ = std::min(tick_at_, later(now, interval_));
}

void WorkSchedule::met_only_busy(Instant now) {
  busy_until_ = later(now, milliseconds(1LL << std::min(busy_passes_, kBusyDoublings)));
  ++busy_passes_;
}

void WorkSchedule::began_periodic(Instant now) {
  // A tick is counted from when it began, so that two begin at most an interval (and a service time) apart.
  if (now >= tick_at_) {
    tick_at_ = later(now, interval_);
    tick_unfinished_ = true;
  }
}

void WorkSchedule::ended_periodic(Instant now, bool found_nothing) {
  tick_unfinished_ = false;
  if (found_nothing) retry_not_before_ = later(now, kRetryPause);
}

Instant WorkSchedule::dirtied_before(Instant now) const {
  if (interval_.ns <= 0) return Instant::min();  // nothing expires: only what is due on the ladder
  return expire_.ns > 0 && now.ns < INT64_MIN + expire_.ns ? Instant::min() : now - expire_;
}

}  // namespace tidewheel
