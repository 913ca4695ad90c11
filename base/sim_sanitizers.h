// base/sim_sanitizers.h: what the address and thread sanitizers must be told about fibers. Empty in other
// builds.
// Note:      switching tells the thread sanitizer "no synchronisation": only the locks, atomics, thread
//            starts and joins order two fibers, so a data race of the program shows in every schedule
//            that has it. With the default flag each switch would order everything before it.
#pragma once
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

// For the few functions that run between two fibers, where no ignore scope can be open.
#if defined(__SANITIZE_THREAD__)
#define TW_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define TW_NO_TSAN
#endif

namespace tidewheel::sim {

// The scheduler's own state belongs to all fibers; its accesses are no part of the program under test.
class TsanIgnore {
 public:
#if defined(__SANITIZE_THREAD__)
  TsanIgnore() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~TsanIgnore() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  TsanIgnore() {}
  ~TsanIgnore() {}
#endif
  TsanIgnore(const TsanIgnore&) = delete;
  TsanIgnore& operator=(const TsanIgnore&) = delete;
};

inline void tsan_acquire([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(object);
#endif
}
inline void tsan_release([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(object);
#endif
}
inline void* tsan_this_fiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
inline void* tsan_make_fiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
inline void tsan_switch([[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(fiber, 1);  // 1: no synchronisation
#endif
}

// What an abandoned fiber did lies before what `self` does next.
TW_NO_TSAN inline void tsan_release_as([[maybe_unused]] void* fiber, [[maybe_unused]] void* self,
                                       [[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(fiber, 1);
  __tsan_release(object);
  __tsan_switch_to_fiber(self, 1);
#endif
}

// fake_stack is null when the fiber ends with this switch.
inline void asan_start_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* low,
                              [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, low, bytes);
#endif
}
inline void asan_finish_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** from_low,
                               [[maybe_unused]] std::size_t* from_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, from_low, from_bytes);
#endif
}

}  // namespace tidewheel::sim
