#include "bench/crew.h"

#include <string>

namespace tidewheel::bench {

namespace {

LockClass g_crew_lock("bench_crew", LockRank::kBench);

}  // namespace

Crew::Crew() : lock_(g_crew_lock) {}

Result<void> Crew::start(std::uint32_t size) {
  threads_.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    auto thread = Thread::start("worker-" + std::to_string(i), [this, i] { work(i); });
    if (!thread) return Unexpected(thread.error());
    threads_.push_back(std::move(thread).value());
  }
  return {};
}

Crew::~Crew() {
  {
    MutexLock hold(lock_);
    ending_ = true;
    start_.notify_all();
  }
  for (Thread& thread : threads_) thread.join();
}

void Crew::run(const std::function<void(std::uint32_t)>& job) {
  MutexLock hold(lock_);
  job_ = &job;
  running_ = size();
  ++generation_;
  start_.notify_all();
  while (running_ != 0) done_.wait(lock_);
  job_ = nullptr;
}

void Crew::work(std::uint32_t worker) {
  std::uint64_t seen = 0;
  for (;;) {
    const std::function<void(std::uint32_t)>* job = nullptr;
    {
      MutexLock hold(lock_);
      while (generation_ == seen && !ending_) start_.wait(lock_);
      if (generation_ == seen) return;
      seen = generation_;
      job = job_;
    }
    (*job)(worker);
    MutexLock hold(lock_);
    if (--running_ == 0) done_.notify_one();
  }
}

Meeting::Meeting(std::uint32_t size) : lock_(g_crew_lock), size_(size) {}

bool Meeting::wait() {
  MutexLock hold(lock_);
  const std::uint64_t round = round_;
  if (++arrived_ == size_) {
    arrived_ = 0;
    ++round_;
    all_there_.notify_all();
    return true;
  }
  while (round_ == round) all_there_.wait(lock_);
  return false;
}

}  // namespace tidewheel::bench
