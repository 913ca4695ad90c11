#include "bench/designs.h"

#include <algorithm>

#include "base/thread.h"
#include "writeback/dirty_list.h"

namespace tidewheel::bench {

std::vector<std::string> design_names() {
  std::vector<std::string> names;
  for (const DirtyListDesign& design : dirty_list_designs()) names.push_back(design.name);
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name != "timer-wheel"; });
  return names;
}

std::uint32_t default_flushers(std::string_view design) {
  return design == "parallel-lists" ? std::clamp(cpu_count(), 2U, 16U) : 1;
}

bool is_list_lock(std::string_view name) { return name == "dirty_list" || name == "wheel_shard"; }

}  // namespace tidewheel::bench
