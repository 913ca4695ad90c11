#include "tests/heap_count.h"

#include <cstdlib>
#include <new>

namespace {
long count = 0;
}

void* operator new(std::size_t bytes) {
  __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// All forms that a program uses come from malloc: the address sanitizer compares who gave with who takes.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tidewheel::tests {
long heap_allocations() { return __atomic_load_n(&count, __ATOMIC_RELAXED); }
}  // namespace tidewheel::tests
