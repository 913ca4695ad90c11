#include "writeback/work_policy.h"

#include <utility>

namespace tidewheel {
namespace {

class Steady final : public WorkPolicy {
 public:
  std::string_view name() const override { return "steady"; }
  WorkRules rules(const WorkFacts& facts) const override {
    return {.expire = facts.expire, .interval = facts.interval};
  }
};

// For a device that costs something to wake (a disk that spins down, a radio, a machine in the cloud).
// Whatever wakes it, everything that is dirty is written before it goes to sleep again, so that the next time
// is as late as it can be: once it has been quiet for a while after the last other I/O. It is woken for what
// is as old as `expire` (set that to minutes), for syncs, and for writers who are held up; not for a
// threshold passed.
class Batching final : public WorkPolicy {
 public:
  std::string_view name() const override { return "batching"; }
  bool watches_activity() const override { return true; }
  WorkRules rules(const WorkFacts& facts) const override {
    WorkRules rules{.expire = facts.expire, .interval = facts.interval, .background = facts.writers_held};
    if (facts.last_activity != Instant::min()) rules.drain_at = facts.last_activity + kBatchingQuiet;
    return rules;
  }
};

template <class Policy>
std::unique_ptr<WorkPolicy> make_policy() {
  return std::make_unique<Policy>();
}

std::vector<WorkPolicyChoice>& registry() {
  static std::vector<WorkPolicyChoice> policies = {
      {"steady", "by age and over the background threshold, as the options say", &make_policy<Steady>},
      {"batching", "everything at once, when the device has been woken and is quiet again",
       &make_policy<Batching>},
  };
  return policies;
}

}  // namespace

const std::vector<WorkPolicyChoice>& work_policies() { return registry(); }

const WorkPolicyChoice* find_work_policy(std::string_view name) {
  for (const WorkPolicyChoice& policy : registry()) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

bool register_work_policy(WorkPolicyChoice policy) {
  if (policy.make == nullptr || find_work_policy(policy.name) != nullptr) return false;
  registry().push_back(std::move(policy));
  return true;
}

}  // namespace tidewheel
