#include "bench/designs.h"

namespace tidewheel::bench {

std::vector<std::string> design_names() {
  return {"single-list", "tagged-list", "syncer-slots", "parallel-lists", "timer-wheel"};
}

bool is_list_lock(std::string_view name) { return name == "dirty_list"; }

}  // namespace tidewheel::bench
