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
  Duration pause(const ThrottleInputs&) const override { return {0}; }
};

}  // namespace

std::unique_ptr<Throttle> make_hard_limit_throttle() { return std::make_unique<HardLimitThrottle>(); }

}  // namespace tidewheel
