// bench/designs.h: the dirty-list designs that can be named on the command line.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidewheel::bench {

// In the order of the table that compare prints: the classics first, timer-wheel last.
std::vector<std::string> design_names();
// Flusher threads where none were asked for: one, but parallel-lists has one per list, which is its point:
// as many as CPUs, at least 2 and at most 16.
std::uint32_t default_flushers(std::string_view design);
// Whether a lock class is one of the dirty lists' shared locks.
bool is_list_lock(std::string_view name);

}  // namespace tidewheel::bench
