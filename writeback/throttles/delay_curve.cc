// Each request for room is a transaction that must take some least time. One that comes while another is
// still delayed is delayed from that one's end on, so that the rate at which all of them are let go is one
// per min_time, however many threads ask.
#include "writeback/throttles/delay_curve.h"

#include <algorithm>

#include "writeback/throttle.h"

namespace tidewheel {
namespace delay_curve {

std::uint64_t delay_from_bytes(std::uint64_t limit_bytes) {
  return limit_bytes / 100 * kFromPercent + limit_bytes % 100 * kFromPercent / 100;
}

Duration min_time(std::uint64_t dirty_bytes, std::uint64_t limit_bytes) {
  const std::uint64_t from = delay_from_bytes(limit_bytes);
  if (dirty_bytes <= from) return {0};
  if (dirty_bytes >= limit_bytes) return kLongestDelay;
  const auto scaled = static_cast<unsigned __int128>(kScale.ns) * (dirty_bytes - from);
  const auto ns = scaled / (limit_bytes - dirty_bytes);
  if (ns >= static_cast<unsigned __int128>(kLongestDelay.ns)) return kLongestDelay;
  return {static_cast<std::int64_t>(ns)};
}

}  // namespace delay_curve

namespace {

using delay_curve::min_time;

class DelayCurveThrottle final : public Throttle {
 public:
  std::string_view name() const override { return "delay-curve"; }
  std::uint64_t free_run_bytes(const ThrottleLimits& limits) const override {
    return delay_curve::delay_from_bytes(limits.dirty_limit_bytes);
  }
  Duration longest_pause() const override { return delay_curve::kLongestQueue; }

  ThrottleDecision decide(const ThrottleInputs& in) const override {
    ThrottleDecision decision;
    decision.task = in.task;
    decision.task.dirtied_bytes = 0;
    decision.task.pause_after_bytes = 0;  // each request is delayed by itself
    Duration least = min_time(in.total_bytes(), in.limits.dirty_limit_bytes);
    std::uint64_t dirty = in.total_bytes();
    // Whichever limit asks for the longer delay has the queue: writers near their owner's limit don't delay
    // those of others.
    if (in.owner.limits.dirty_limit_bytes != 0) {
      const Duration owners = min_time(in.owner.dirty_bytes, in.owner.limits.dirty_limit_bytes);
      if (owners > least) {
        least = owners;
        dirty = in.owner.dirty_bytes;
        decision.last_wakeup_is_owners = true;
      }
    }
    // No longer than it takes to write all that is dirty: with a tiny limit the device would run dry.
    const auto all = static_cast<unsigned __int128>(dirty) * 1'000'000'000 /
                     std::max<std::uint64_t>(in.device.estimate.average_write_bandwidth, 1);
    if (all < static_cast<unsigned __int128>(least.ns)) least = {static_cast<std::int64_t>(all)};
    if (least.ns == 0) return decision;
    // A moment further ahead than any queue can reach: the clock was set back.
    const Instant before = decision.last_wakeup_is_owners ? in.owner.last_wakeup : in.last_wakeup;
    const Instant furthest = in.now + delay_curve::kLongestQueue;
    const Instant last = before > furthest ? in.now : std::max(before, in.now);
    decision.last_wakeup = std::min(last + least, furthest);
    decision.pause = decision.last_wakeup - in.now;
    return decision;
  }
};

}  // namespace

std::unique_ptr<Throttle> make_delay_curve_throttle() { return std::make_unique<DelayCurveThrottle>(); }

}  // namespace tidewheel
