#include "inode/reclaim.h"

#include "inode/reclaim_policies.h"

namespace tidewheel {

std::unique_ptr<ReclaimPolicy> make_reclaim_policy(std::string_view name) {
  struct Row {
    std::string_view name;
    std::unique_ptr<ReclaimPolicy> (*make)();
  };
  static constexpr Row kPolicies[] = {{"two-list", make_two_list_lru}, {"sieve", make_sieve}};
  for (const Row& row : kPolicies) {
    if (row.name == name) return row.make();
  }
  return nullptr;
}

}  // namespace tidewheel
