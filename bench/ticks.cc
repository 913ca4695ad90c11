#include "bench/ticks.h"

#include <fstream>
#include <string>

namespace tidewheel::bench {

namespace {

// The kernel trusts the counter, and it neither changes its rate nor stops when idle.
bool tsc_is_constant() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    line += ' ';
    return line.find(" constant_tsc ") != std::string::npos &&
           line.find(" nonstop_tsc ") != std::string::npos;
  }
  return false;
}

}  // namespace

Ticks::Ticks() : use_tsc_(tsc_is_constant()), ns_per_tick_(use_tsc_ ? 1.0 / tsc_ticks_per_ns() : 1.0) {}

}  // namespace tidewheel::bench
