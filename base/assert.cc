#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace tidewheel {

void assert_failed(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "tidewheel: assertion failed: %s: %s (%s:%d)\n", message, expression, file, line);
  std::abort();
}

}  // namespace tidewheel
