#include "writeback/throttle.h"

#include <utility>

namespace tidewheel {
namespace {

std::vector<ThrottlePolicy>& registry() {
  static std::vector<ThrottlePolicy> policies = {
      {"hard-limit", "writers run freely up to the limit and then wait for what is cleaned",
       &make_hard_limit_throttle},
      {"linux", "each task dirties at a rate that holds what is dirty between free run and limit",
       &make_linux_throttle},
      {"delay-curve", "from 60% of the limit each write is delayed, the more the nearer the limit is",
       &make_delay_curve_throttle},
  };
  return policies;
}

}  // namespace

DirtyRates Throttle::next_rates(const ThrottleInputs& inputs, const RateSample&) const {
  return inputs.device.estimate.rates;
}

const std::vector<ThrottlePolicy>& throttle_policies() { return registry(); }

const ThrottlePolicy* find_throttle_policy(std::string_view name) {
  for (const ThrottlePolicy& policy : registry()) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

bool register_throttle_policy(ThrottlePolicy policy) {
  if (find_throttle_policy(policy.name) != nullptr) return false;
  registry().push_back(std::move(policy));
  return true;
}

}  // namespace tidewheel
