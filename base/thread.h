// base/thread.h: threads, sleeping, and where one runs.
// Threads:   a Thread belongs to who made it; join() once, before it ends.
// Simulator: inside a simulation a Thread is a fiber, sleep_for passes virtual time, and
//            current_cpu() answers one of the simulation's virtual CPUs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"

namespace tidewheel {

class Thread {
 public:
  Thread() noexcept;  // none: joinable() is false
  Thread(std::string name, std::function<void()> body);
  Thread(Thread&&) noexcept;
  Thread& operator=(Thread&&) noexcept;
  ~Thread();  // asserts that it has been joined
  void join();
  bool joinable() const { return body_ != nullptr; }

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

void sleep_for(Duration d);
void yield_thread();

// The CPU the caller runs on (rseq or sched_getcpu; a hint, stale at once) and how many there are.
std::uint32_t current_cpu();
std::uint32_t cpu_count();
// A small number that differs between living threads (reused after a thread ends): spreads threads
// that share a CPU over shards.
std::uint32_t thread_number();

}  // namespace tidewheel
