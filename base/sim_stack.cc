#include "base/sim_stack.h"

#include <sys/mman.h>

#include <vector>

#include "base/assert.h"
#include "base/config.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace tidewheel::sim {

namespace {

// Enough for GoogleTest's failure messages; frames of a sanitizer build are several times larger. Pages
// that are not touched cost nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 1U << 20;
#else
constexpr std::size_t kStackBytes = 256U << 10;
#endif

struct Pool {
  std::vector<Stack> stacks;
  ~Pool() {
    for (const Stack& stack : stacks) {
      ::munmap(static_cast<char*>(stack.low) - kPageBytes, stack.bytes + kPageBytes);
    }
  }
};
thread_local Pool pool;

}  // namespace

Stack take_stack() {
  if (!pool.stacks.empty()) {
    const Stack stack = pool.stacks.back();
    pool.stacks.pop_back();
    return stack;
  }
  void* const memory = ::mmap(nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  TW_ASSERT(memory != MAP_FAILED, "no memory for a fiber's stack");
  TW_ASSERT(::mprotect(memory, kPageBytes, PROT_NONE) == 0, "no guard page for a fiber's stack");
  return Stack{static_cast<char*>(memory) + kPageBytes, kStackBytes};
}

void return_stack(Stack stack) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(stack.low, stack.bytes);
#endif
  pool.stacks.push_back(stack);
}

void abandon_stack([[maybe_unused]] Stack stack) {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_register_root_region(stack.low, stack.bytes);
#endif
}

}  // namespace tidewheel::sim
