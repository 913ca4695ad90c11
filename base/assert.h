// base/assert.h: checks on the program itself. What came from disk, a trace or a user is verified and
// answered with an error, never asserted.
// TW_ASSERT:  always on, cheap; prints the expression, a message and the last trace events, then aborts.
// TW_DASSERT: on in debug, sanitizer and simulation builds (TW_DASSERT_ON).
#pragma once
#include "base/build_options.h"

namespace tidewheel {

[[noreturn]] void assert_failed(const char* expression, const char* file, int line, const char* message);

}  // namespace tidewheel

#define TW_ASSERT(expr, message)                                                          \
  do {                                                                                    \
    if (__builtin_expect(!(expr), 0)) {                                                   \
      ::tidewheel::assert_failed(#expr, __FILE__, __LINE__, message);                     \
    }                                                                                     \
  } while (0)

#if defined(TW_DASSERT_ON)
#define TW_DASSERT(expr, message) TW_ASSERT(expr, message)
#else
#define TW_DASSERT(expr, message) \
  do {                            \
  } while (0)
#endif
