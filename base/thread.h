// base/thread.h: threads, sleeping, and where one runs.
// Threads:   a Thread belongs to who made it; join() once, before it ends.
// Errors:    Thread::start(): kNoThread, with the errno, when the system allows no further thread (ulimit -u,
//            -v; a container's pids limit). The constructor is for who cannot go on without: it asserts.
// Simulator: inside a simulation a Thread is a fiber, sleep_for passes virtual time, and current_cpu()
//            answers one of the simulation's virtual CPUs, from which a fiber moves now and then.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/sim_hooks.h"
#include "base/time.h"

#if !TW_SIM && defined(__x86_64__) && defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define TW_HAS_RSEQ 1
#endif
#endif

namespace tidewheel {

class Thread {
 public:
  Thread() noexcept;  // none: joinable() is false
  // The name is what debuggers and reports show; the system keeps 15 characters of it.
  Thread(std::string name, std::function<void()> body);
  static Result<Thread> start(std::string name, std::function<void()> body);
  Thread(Thread&&) noexcept;
  Thread& operator=(Thread&&) noexcept;  // asserts that *this holds no thread
  ~Thread();                             // asserts that it has been joined
  void join();
  bool joinable() const { return body_ != nullptr; }

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

void sleep_for(Duration d);
void sleep_until(Instant t);  // of SteadyClock
void yield_thread();

// The CPU the caller runs on: a hint, stale at once. 0.5 ns by rseq, else 3 ns.
std::uint32_t current_cpu_slow();
inline std::uint32_t current_cpu() {
#if defined(TW_HAS_RSEQ)
  // The kernel keeps this word up to date when it moves the thread; negative: not registered.
  if (__rseq_size != 0) {
    const auto* const area = reinterpret_cast<const volatile struct rseq*>(
        static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset);
    const auto cpu = static_cast<std::int32_t>(area->cpu_id);
    if (__builtin_expect(cpu >= 0, 1)) return static_cast<std::uint32_t>(cpu);
  }
#endif
  return current_cpu_slow();
}
std::uint32_t cpu_count();
// A small number that differs between living threads (the smallest that was free when the thread first
// asked; reused after it ends): spreads threads that share a CPU over shards.
namespace thread_detail {
inline constexpr std::uint32_t kNoNumber = UINT32_MAX;
extern constinit thread_local std::uint32_t number;
std::uint32_t take_number();
}  // namespace thread_detail
inline std::uint32_t thread_number() {
#if TW_SIM
  if (sim::active()) return sim::thread_number();
#endif
  const std::uint32_t number = thread_detail::number;
  return __builtin_expect(number != thread_detail::kNoNumber, 1) ? number : thread_detail::take_number();
}

}  // namespace tidewheel
