// fs/crash/state_pool.h: the threads of an exploration: bodies run side by side, each by a numbered worker.
// Owns:      a TBB arena. Under the thread sanitizer, which does not see into the system's TBB and takes each
//            of its hand-overs for a race, threads of base/ instead: what the bodies do is then checked.
// Threads:   run() from one thread, which works along; not from inside a body.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace tidewheel {

class StatePool {
 public:
  explicit StatePool(std::uint32_t threads);
  ~StatePool();
  StatePool(const StatePool&) = delete;
  StatePool& operator=(const StatePool&) = delete;

  // body(worker, i) for each i below n, in any order; returns when all have. At most one at a time has the
  // same worker, which is below the number of threads.
  void run(std::size_t n, const std::function<void(std::uint32_t worker, std::size_t i)>& body);

 private:
  struct Arena;
  const std::uint32_t threads_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace tidewheel
