// inode/reclaim_policies.h: the policies that the registry in reclaim.cc begins with. A new one of ours: one
// file, one line here, one row there. A program's own: register_reclaim_policy().
#pragma once
#include <memory>

#include "inode/reclaim.h"

namespace tidewheel {

std::unique_ptr<ReclaimPolicy> make_two_list_lru();
std::unique_ptr<ReclaimPolicy> make_sieve();
std::unique_ptr<ReclaimPolicy> make_s3_fifo();

}  // namespace tidewheel
