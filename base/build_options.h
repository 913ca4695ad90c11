// base/build_options.h: the options that change layouts, and what keeps them from being mixed. In the tree
// they come from the compiler's command line; the installed header is made by cmake/install_headers.cmake.in
// and has those of the library that is installed with it.
// Invariant: code compiled with other options than the library does not link: it refers to a symbol that is
//            named after them.
#pragma once

#ifndef TW_SIM
#define TW_SIM 0  // 1: locks, atomics, threads and clocks can run under the simulator
#endif
// TW_DASSERT_ON: when it is defined, debug assertions, the transition table and the lock-rank stack.

#if TW_SIM && defined(TW_DASSERT_ON)
#define TW_BUILT_WITH(name) name##_sim_dassert
#elif TW_SIM
#define TW_BUILT_WITH(name) name##_sim
#elif defined(TW_DASSERT_ON)
#define TW_BUILT_WITH(name) name##_dassert
#else
#define TW_BUILT_WITH(name) name##_plain
#endif

extern "C" const char TW_BUILT_WITH(tidewheel_built);  // assert.cc

namespace tidewheel {
[[gnu::used]] inline const char* const TW_BUILT_WITH(kBuilt) = &TW_BUILT_WITH(tidewheel_built);
}
