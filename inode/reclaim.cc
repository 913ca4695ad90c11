#include "inode/reclaim.h"

#include <utility>

#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

// One row per policy; the first is the default.
std::vector<ReclaimPolicyKind>& registry() {
  static std::vector<ReclaimPolicyKind> kinds = {
      {"two-list", "an inactive and an active list, a second chance for what was referenced",
       make_two_list_lru},
      {"sieve", "one queue and a hand that passes by what was referenced", make_sieve},
      {"s3-fifo", "a small and a main queue, and a ghost of what left the small one", make_s3_fifo},
  };
  return kinds;
}

}  // namespace

const std::vector<ReclaimPolicyKind>& reclaim_policies() { return registry(); }

std::unique_ptr<ReclaimPolicy> make_reclaim_policy(std::string_view name) {
  for (const ReclaimPolicyKind& kind : registry()) {
    if (kind.name == name) return kind.make();
  }
  return nullptr;
}

bool register_reclaim_policy(ReclaimPolicyKind kind) {
  if (kind.make == nullptr || kind.name.empty()) return false;
  for (const ReclaimPolicyKind& there : registry()) {
    if (there.name == kind.name) return false;
  }
  registry().push_back(std::move(kind));
  return true;
}

}  // namespace tidewheel
