#include "fs/crash/state_pool.h"

#if defined(__SANITIZE_THREAD__)
#include <vector>

#include "base/atomic.h"
#include "base/thread.h"
#else
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace tidewheel {

#if defined(__SANITIZE_THREAD__)

struct StatePool::Arena {};

StatePool::StatePool(std::uint32_t threads) : threads_(threads) {}

void StatePool::run(std::size_t n, const std::function<void(std::uint32_t worker, std::size_t i)>& body) {
  Atomic<std::size_t> next{0};  // hands out numbers alone; starting and joining orders the rest
  std::vector<Thread> threads;
  for (std::uint32_t worker = 0; worker < threads_; ++worker) {
    threads.emplace_back("tw-crash", [&next, &body, worker, n] {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(worker, i);
    });
  }
  for (Thread& thread : threads) thread.join();
}

#else

struct StatePool::Arena {
  explicit Arena(std::uint32_t threads)
      : allowed(tbb::global_control::max_allowed_parallelism, threads), arena(static_cast<int>(threads), 1) {}
  tbb::global_control allowed;  // more than there are CPUs, when asked for
  tbb::task_arena arena;
};

StatePool::StatePool(std::uint32_t threads) : threads_(threads), arena_(std::make_unique<Arena>(threads)) {}

void StatePool::run(std::size_t n, const std::function<void(std::uint32_t worker, std::size_t i)>& body) {
  arena_->arena.execute([&] {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(0, n, 8), [&](const auto& range) {
      const auto worker = static_cast<std::uint32_t>(tbb::this_task_arena::current_thread_index());
      // A body that uses TBB itself must not take up another of ours while it waits.
      tbb::this_task_arena::isolate([&] {
        for (std::size_t i = range.begin(); i != range.end(); ++i) body(worker, i);
      });
    });
  });
}

#endif

StatePool::~StatePool() = default;

}  // namespace tidewheel
