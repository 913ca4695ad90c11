#include "writeback/throttles/linux_control.h"

#include <algorithm>
#include <bit>

namespace tidewheel::linux_control {
namespace {

using Wide = __int128;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMostRatio = kMostPosition * kReserveBoost;

std::uint64_t saturated(Wide n) {
  if (n < 0) return 0;
  return n > Wide{INT64_MAX} ? static_cast<std::uint64_t>(INT64_MAX) : static_cast<std::uint64_t>(n);
}

Duration time_for(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return Duration::max();
  return {static_cast<std::int64_t>(saturated(Wide{bytes} * kSecond / bytes_per_s))};
}

std::uint64_t bytes_in(Duration time, std::uint64_t bytes_per_s) {
  return saturated(Wide{time.ns} * bytes_per_s / kSecond);
}

int log2_of(std::uint64_t n) { return n == 0 ? 0 : static_cast<int>(std::bit_width(n)) - 1; }

}  // namespace

std::int64_t position_curve(std::uint64_t setpoint, std::uint64_t dirty, std::uint64_t limit) {
  if (dirty >= limit) return 0;
  if (setpoint >= limit) return kMostPosition;
  const Wide distance = Wide{setpoint} - Wide{dirty};
  // Beyond +-2 the cube is out of the curve's range anyway.
  const Wide ratio =
      std::clamp<Wide>(distance * kOne / (Wide{limit} - Wide{setpoint}), -2 * kOne, 2 * kOne);
  const auto x = static_cast<std::int64_t>(ratio);
  const std::int64_t cube = x * x / kOne * x / kOne;
  return std::clamp<std::int64_t>(kOne + cube, 0, kMostPosition);
}

std::uint64_t device_share(const Position& p) {
  const std::uint64_t rest = p.limit_bytes > p.dirty_bytes ? p.limit_bytes - p.dirty_bytes : 0;
  return std::max(std::min(p.device.dirty_limit_bytes, p.threshold_bytes), rest / 8);
}

std::int64_t device_line(std::int64_t ratio, const Position& p) {
  const std::uint64_t share = device_share(p);
  const std::uint64_t dirty = p.device.dirty_bytes;
  // The share as a part of the threshold, Q16.
  const Wide part = (Wide{share} << 16) / (Wide{p.threshold_bytes} + 1);
  const std::uint64_t setpoint = free_run_ceiling(p.limit_bytes, free_run_ceiling(p.threshold_bytes,
                                                                                   p.background_bytes));
  const Wide own_setpoint = (Wide{setpoint} * part) >> 16;
  const Wide others = Wide{p.threshold_bytes} > Wide{share} ? Wide{p.threshold_bytes} - Wide{share} : 0;
  const Wide span = ((others + Wide{kSpanSeconds} * p.device.write_bandwidth) * part) >> 16;
  const Wide end = own_setpoint + span;
  Wide result = ratio;
  if (Wide{dirty} < end - span / kDeviceFloor) {
    result = result * (end - Wide{dirty}) / (span + 1);
  } else {
    result /= kDeviceFloor;
  }
  const std::uint64_t reserve = share / 2;
  if (dirty < reserve) {
    if (dirty > reserve / static_cast<std::uint64_t>(kReserveBoost)) {
      result = result * Wide{reserve} / Wide{dirty};
    } else {
      result *= kReserveBoost;
    }
  }
  return static_cast<std::int64_t>(std::clamp<Wide>(result, 0, kMostRatio));
}

std::int64_t position_ratio(const Position& p) {
  if (p.dirty_bytes >= p.limit_bytes) return 0;
  const std::uint64_t free_run = free_run_ceiling(p.threshold_bytes, p.background_bytes);
  const std::int64_t ratio =
      position_curve(free_run_ceiling(p.limit_bytes, free_run), p.dirty_bytes, p.limit_bytes);
  if (!p.device.strict_limit) return device_line(ratio, p);
  if (p.device.dirty_bytes < kFewPages * kPageBytes) return std::min(2 * ratio, kMostPosition);
  const std::uint64_t own_setpoint =
      free_run_ceiling(p.device.dirty_limit_bytes, p.device.background_bytes);
  return std::min(ratio, position_curve(own_setpoint, p.device.dirty_bytes, p.device.dirty_limit_bytes));
}

DirtyRates next_rates(DirtyRates before, const RateSample& sample, std::int64_t ratio,
                      std::uint64_t average_write_bandwidth, std::uint64_t dirty, std::uint64_t setpoint) {
  if (sample.elapsed.ns <= 0) return before;
  const auto elapsed = static_cast<std::uint64_t>(sample.elapsed.ns);
  const std::uint64_t dirty_rate = saturated(Wide{sample.dirtied_bytes} * kSecond / elapsed);
  const std::uint64_t base = before.dirty_ratelimit;
  // A page more than that: a rate of 0 would never rise again.
  const std::uint64_t task_ratelimit = saturated((Wide{base} * ratio >> 10) + kPageBytes);
  const std::uint64_t balanced =
      std::min(saturated(Wide{task_ratelimit} * average_write_bandwidth / (Wide{dirty_rate} + 1)),
               average_write_bandwidth);
  std::uint64_t step = 0;
  if (dirty < setpoint) {
    const std::uint64_t least = std::min({before.balanced_dirty_ratelimit, balanced, task_ratelimit});
    if (base < least) step = least - base;
  } else {
    const std::uint64_t most = std::max({before.balanced_dirty_ratelimit, balanced, task_ratelimit});
    if (base > most) step = base - most;
  }
  // Near the goal the step is halved again and again, and then not made.
  const std::uint64_t halvings = base / (2 * std::min<std::uint64_t>(step, UINT64_MAX / 4) + 1);
  step = halvings < 64 ? ((step >> halvings) + 7) / 8 : 0;
  DirtyRates next;
  next.balanced_dirty_ratelimit = std::max<std::uint64_t>(balanced, kPageBytes);
  next.dirty_ratelimit = base < balanced ? base + step : base - std::min(step, base);
  next.dirty_ratelimit = std::max<std::uint64_t>(next.dirty_ratelimit, kPageBytes);
  return next;
}

Duration longest_pause(std::uint64_t device_dirty_bytes, std::uint64_t average_write_bandwidth) {
  const Duration all = time_for(device_dirty_bytes, average_write_bandwidth);
  return std::clamp(all / 8, milliseconds(1), Throttle::kLongestPause);
}

std::uint64_t poll_interval_bytes(std::uint64_t room_bytes) {
  const std::uint64_t pages = room_bytes / kPageBytes;
  return pages == 0 ? kPageBytes : kPageBytes << (log2_of(pages) / 2);
}

PauseLength pause_length(const BandwidthEstimate& estimate, std::uint64_t task_ratelimit, Duration longest,
                         std::uint64_t poll_bytes) {
  const int halvings =
      log2_of(estimate.average_write_bandwidth) - log2_of(estimate.rates.dirty_ratelimit);
  PauseLength length;
  length.target = kShortPause * (1 + std::max(halvings, 0));
  length.target = std::min(length.target, longest / 2);
  length.pause_after_bytes = bytes_in(length.target, estimate.rates.dirty_ratelimit);
  constexpr std::uint64_t kPollBytes = kPollPages * kPageBytes;
  if (length.pause_after_bytes < kPollBytes) {
    // Pauses of few pages are bad for whoever lays them out: rather fewer and longer ones.
    length.target = longest;
    length.pause_after_bytes = bytes_in(length.target, estimate.rates.dirty_ratelimit);
    if (length.pause_after_bytes > kPollBytes) {
      length.pause_after_bytes = kPollBytes;
      length.target = time_for(kPollBytes, estimate.rates.dirty_ratelimit);
    }
  }
  length.least = length.pause_after_bytes >= kPollBytes ? length.target / 2 : length.target;
  length.pause_after_bytes =
      std::max<std::uint64_t>(std::min(length.pause_after_bytes, poll_bytes), kPageBytes);
  length.least = std::min(length.least, time_for(poll_bytes / 2, task_ratelimit));
  return length;
}

ThrottleDecision pay(const TaskRates& task, Instant now, std::uint64_t task_ratelimit, Duration longest,
                     const PauseLength& length) {
  ThrottleDecision decision;
  decision.task = task;
  decision.task.pause_after_bytes = length.pause_after_bytes;
  if (task_ratelimit == 0) {
    decision.pause = longest;
    decision.again = true;
    decision.task.paused_when = now + longest;
    return decision;
  }
  if (task.dirtied_bytes <= 0) return decision;
  const Duration period = time_for(static_cast<std::uint64_t>(task.dirtied_bytes), task_ratelimit);
  decision.task.dirtied_bytes = 0;
  if (task.paused_when == Instant::min() || task.paused_when > now + Throttle::kLongestPause * 2) {
    // Its first one; or the clock was set back.
    decision.task.paused_when = now;
  }
  const Duration thought = now - decision.task.paused_when;
  const Duration pause{period.ns > INT64_MAX / 2 ? period.ns : period.ns - thought.ns};
  if (pause < Duration{-kMostThinkTime.ns}) {
    decision.task.paused_when = now;  // it thinks more than it dirties
    return decision;
  }
  if (pause < std::min(length.least, longest)) {
    if (task.nobody_keeps) decision.task.dirtied_bytes = task.dirtied_bytes;
    decision.task.paused_when = decision.task.paused_when + period;
    return decision;
  }
  decision.pause = std::min(pause, longest);
  // What is beyond the longest pause is paid with the next one, that too up to one longest pause.
  const Duration beyond = std::min(pause - decision.pause, longest);
  decision.task.paused_when = now + decision.pause + beyond;
  if (task.nobody_keeps) {
    decision.task.dirtied_bytes = static_cast<std::int64_t>(bytes_in(beyond, task_ratelimit));
  }
  return decision;
}

}  // namespace tidewheel::linux_control
