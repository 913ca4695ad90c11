#include "base/assert.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/sim_hooks.h"
#include "base/trace.h"

extern "C" const char TW_BUILT_WITH(tidewheel_built) = 1;

namespace tidewheel {

void assert_failed(const char* expression, const char* file, int line, const char* message) {
#if TW_SIM
  if (sim::active()) sim::assertion_failed(expression, file, line, message);
#endif
  std::fprintf(stderr, "tidewheel: assertion failed: %s: %s (%s:%d)\n", message, expression, file, line);
  std::fflush(stderr);
  // An assertion while the trace is being read must not wait for itself: once is enough.
  static std::atomic<bool> reported{false};
  if (!reported.exchange(true, std::memory_order_relaxed)) print_trace(2, 32);
  std::abort();
}

}  // namespace tidewheel
