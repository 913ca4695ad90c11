// bench/crew.h: the worker threads of a run, started once, and the place where they wait for each other.
// Owns:      its threads.
// Threads:   run() belongs to the thread that made the crew; Meeting::wait() to the workers.
// Locks:     Crew::lock_, Meeting::lock_ (rank kBench); held only to wait and to count.
// Invariant: run() returns when every worker has returned from the job.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/sync.h"
#include "base/thread.h"

namespace tidewheel::bench {

class Crew {
 public:
  Crew();
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // kNoThread: with fewer than `size`, which the destructor ends.
  Result<void> start(std::uint32_t size);
  std::uint32_t size() const { return static_cast<std::uint32_t>(threads_.size()); }
  void run(const std::function<void(std::uint32_t worker)>& job) TW_EXCLUDES(lock_);

 private:
  void work(std::uint32_t worker) TW_EXCLUDES(lock_);

  Mutex lock_;
  CondVar start_;
  CondVar done_;
  const std::function<void(std::uint32_t)>* job_ TW_GUARDED_BY(lock_) = nullptr;
  std::uint64_t generation_ TW_GUARDED_BY(lock_) = 0;
  std::uint32_t running_ TW_GUARDED_BY(lock_) = 0;
  bool ending_ TW_GUARDED_BY(lock_) = false;
  std::vector<Thread> threads_;
};

// All `size` workers arrive before any goes on. Exactly one of them, the last, is told so.
class Meeting {
 public:
  explicit Meeting(std::uint32_t size);
  bool wait() TW_EXCLUDES(lock_);

 private:
  Mutex lock_;
  CondVar all_there_;
  const std::uint32_t size_;
  std::uint32_t arrived_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t round_ TW_GUARDED_BY(lock_) = 0;
};

}  // namespace tidewheel::bench
