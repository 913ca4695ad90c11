#include "bench/interrupt.h"

#include <csignal>

#include "base/atomic.h"

namespace tidewheel::bench {

namespace {

// Written by the handler, polled by workers: relaxed, since nothing else is published with it.
Atomic<bool> g_interrupted{false};

extern "C" void note_interrupt(int) { g_interrupted.store(true, std::memory_order_relaxed); }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer runs a handler only at the next call it intercepts, so a wait must end
  // (base/sync.cc).
  action.sa_flags = static_cast<int>(SA_RESETHAND);
#else
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
#endif
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return g_interrupted.load(std::memory_order_relaxed); }

void clear_interrupt_for_test() { g_interrupted.store(false, std::memory_order_relaxed); }

}  // namespace tidewheel::bench
