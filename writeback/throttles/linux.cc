// The linux policy: puts the formulas together. Below free run a task dirties as it likes; above it, it pays
// for what it dirtied at its device's base rate times the position ratio.
#include <algorithm>

#include "writeback/throttle.h"
#include "writeback/throttles/linux_control.h"

namespace tidewheel {
namespace {

using namespace linux_control;

Position position_of(const ThrottleInputs& in) {
  Position p;
  p.dirty_bytes = in.total_bytes();
  p.threshold_bytes = in.limits.dirty_limit_bytes;
  p.background_bytes = in.limits.background_bytes;
  p.limit_bytes = std::max(in.control_limit_bytes, in.limits.dirty_limit_bytes);
  p.device.dirty_bytes = in.device.dirty_bytes;
  p.device.dirty_limit_bytes = in.device.dirty_limit_bytes;
  p.device.background_bytes = in.device.background_bytes;
  p.device.write_bandwidth = in.device.estimate.average_write_bandwidth;
  p.device.strict_limit = in.device.strict_limit;
  return p;
}

// What the writer is held to.
struct Held {
  std::int64_t ratio = 0;
  bool by_owner = false;  // its owner's limits leave it less than all limits together
};

// The owner's limits as one more position; the lower ratio wins.
Held held_to(const ThrottleInputs& in) {
  if (in.device.stalled_for >= kStalled && in.device.dirty_bytes > in.device.dirty_limit_bytes) return {};
  const std::int64_t ratio = position_ratio(position_of(in));
  if (in.owner.limits.dirty_limit_bytes == 0) return {ratio, false};
  Position owner = position_of(in);
  owner.dirty_bytes = in.owner.dirty_bytes;
  owner.threshold_bytes = owner.limit_bytes = in.owner.limits.dirty_limit_bytes;
  owner.background_bytes = in.owner.limits.background_bytes;
  owner.device.dirty_bytes = in.owner.dirty_bytes;
  owner.device.dirty_limit_bytes = owner.threshold_bytes;
  owner.device.background_bytes = owner.background_bytes;
  const std::int64_t owners = position_ratio(owner);
  return owners < ratio ? Held{owners, true} : Held{ratio, false};
}

std::uint64_t room_below(std::uint64_t limit, std::uint64_t dirty) { return limit - std::min(dirty, limit); }

// Whether anything is to be paid for: something has passed its own free run.
bool runs_free(const ThrottleInputs& in) {
  const auto below = [](std::uint64_t dirty, std::uint64_t threshold, std::uint64_t background) {
    return dirty <= free_run_ceiling(threshold, background);
  };
  if (!below(in.total_bytes(), in.limits.dirty_limit_bytes, in.limits.background_bytes)) return false;
  if (in.device.strict_limit &&
      !below(in.device.dirty_bytes, in.device.dirty_limit_bytes, in.device.background_bytes)) {
    return false;
  }
  const ThrottleLimits& owner = in.owner.limits;
  return owner.dirty_limit_bytes == 0 ||
         below(in.owner.dirty_bytes, owner.dirty_limit_bytes, owner.background_bytes);
}

class LinuxThrottle final : public Throttle {
 public:
  std::string_view name() const override { return "linux"; }
  std::uint64_t free_run_bytes(const ThrottleLimits& limits) const override {
    return free_run_ceiling(limits.dirty_limit_bytes, limits.background_bytes);
  }
  bool knows_strict_limit() const override { return true; }

  ThrottleDecision decide(const ThrottleInputs& in) const override {
    ThrottleDecision decision;
    decision.task = in.task;
    if (runs_free(in)) {
      decision.task.dirtied_bytes = 0;
      decision.task.paused_when = in.now;
      return decision;
    }
    const BandwidthEstimate& estimate = in.device.estimate;
    const Held held = held_to(in);
    const auto ratio = static_cast<std::uint64_t>(held.ratio);
    const auto rate = static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(estimate.rates.dirty_ratelimit) * ratio >> 10);
    // What would run dry during a pause: the owner's part where that is what stands near its limit.
    const std::uint64_t held_bytes = held.by_owner ? in.owner.dirty_bytes : in.device.dirty_bytes;
    const Duration longest = linux_control::longest_pause(held_bytes, estimate.average_write_bandwidth);
    std::uint64_t room = room_below(in.limits.dirty_limit_bytes, in.total_bytes());
    if (in.owner.limits.dirty_limit_bytes != 0) {
      room = std::min(room, room_below(in.owner.limits.dirty_limit_bytes, in.owner.dirty_bytes));
    }
    decision = pay(in.task, in.now, rate, longest,
                   pause_length(estimate, rate, longest, poll_interval_bytes(room)));
    // A device that has next to nothing dirty is not held up by what others' devices don't write, nor an
    // owner who may not have more: the limit itself does that.
    if (decision.again && held_bytes <= kFewPages * kPageBytes) {
      decision.again = false;
      decision.task.dirtied_bytes = 0;
    }
    if (in.device.dirty_bytes > in.device.dirty_limit_bytes &&
        in.total_bytes() > in.limits.dirty_limit_bytes / 2 + free_run_bytes(in.limits) / 2) {
      decision.task.pause_after_bytes =
          std::min<std::uint64_t>(decision.task.pause_after_bytes, kExceededPages * kPageBytes);
    }
    return decision;
  }

  DirtyRates next_rates(const ThrottleInputs& in, const RateSample& sample) const override {
    const Position p = position_of(in);
    std::uint64_t dirty = p.dirty_bytes;
    std::uint64_t setpoint =
        free_run_ceiling(p.limit_bytes, free_run_ceiling(p.threshold_bytes, p.background_bytes));
    if (p.device.strict_limit) {
      dirty = p.device.dirty_bytes;
      setpoint = dirty < kFewPages * kPageBytes
                     ? dirty + 1
                     : free_run_ceiling(p.device.dirty_limit_bytes, p.device.background_bytes);
    }
    const Held held = held_to(in);
    if (held.by_owner) {
      const ThrottleLimits& owner = in.owner.limits;
      dirty = in.owner.dirty_bytes;
      setpoint = free_run_ceiling(owner.dirty_limit_bytes,
                                  free_run_ceiling(owner.dirty_limit_bytes, owner.background_bytes));
    }
    return linux_control::next_rates(in.device.estimate.rates, sample, held.ratio,
                                     in.device.estimate.average_write_bandwidth, dirty, setpoint);
  }
};

}  // namespace

std::unique_ptr<Throttle> make_linux_throttle() { return std::make_unique<LinuxThrottle>(); }

}  // namespace tidewheel
