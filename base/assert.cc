#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

#include "base/sim_hooks.h"

namespace tidewheel {

void assert_failed(const char* expression, const char* file, int line, const char* message) {
#if TW_SIM
  if (sim::active()) sim::assertion_failed(expression, file, line, message);
#endif
  std::fprintf(stderr, "tidewheel: assertion failed: %s: %s (%s:%d)\n", message, expression, file, line);
  std::abort();
}

}  // namespace tidewheel
