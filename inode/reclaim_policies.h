// inode/reclaim_policies.h: the policies that make_reclaim_policy knows. A new one: one file, one line here,
// one row in reclaim.cc.
#pragma once
#include <memory>

#include "inode/reclaim.h"

namespace tidewheel {

std::unique_ptr<ReclaimPolicy> make_two_list_lru();
std::unique_ptr<ReclaimPolicy> make_sieve();

}  // namespace tidewheel
