// base/sim_stack.h: stacks of the simulator's fibers.
// Owns:      mapped memory with an unreadable page at its low end; the pool keeps what is returned.
// Threads:   one pool per OS thread; no sharing.
// Units:     bytes.
#pragma once
#include <cstddef>

namespace tidewheel::sim {

struct Stack {
  void* low = nullptr;      // first usable byte, above the guard page
  std::size_t bytes = 0;
  void* top() const { return static_cast<char*>(low) + bytes; }
};

Stack take_stack();
void return_stack(Stack stack);
// The stack holds frames that will never be left: it is not used again, and what it points to is no leak.
void abandon_stack(Stack stack);

}  // namespace tidewheel::sim
