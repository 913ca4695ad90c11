// The plain policy: no pause of its own. The limit, which the engine keeps for every policy, is all.
#include "writeback/throttle.h"

namespace tidewheel {
namespace {

class HardLimitThrottle final : public Throttle {
 public:
  std::string_view name() const override { return "hard-limit"; }
  std::uint64_t free_run_bytes(const ThrottleLimits& limits) const override {
    return limits.dirty_limit_bytes;
  }
  ThrottleDecision decide(const ThrottleInputs& inputs) const override {
    ThrottleDecision decision;
    decision.task = inputs.task;
    decision.task.dirtied_bytes = 0;
    decision.task.pause_after_bytes = 0;
    return decision;
  }
};

}  // namespace

std::unique_ptr<Throttle> make_hard_limit_throttle() { return std::make_unique<HardLimitThrottle>(); }

}  // namespace tidewheel
