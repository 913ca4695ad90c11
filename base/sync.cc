#include "base/sync.h"

#include <chrono>

namespace tidewheel {

CondVar::Wake CondVar::wait_for(Mutex& mutex, Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  const auto status = cond_.wait_for(lock, std::chrono::nanoseconds(timeout.ns));
  lock.release();
  return status == std::cv_status::timeout ? Wake::kTimedOut : Wake::kNotified;
}

LockClassStats LockClass::stats() const { return LockClassStats{.name = name_}; }
std::vector<LockClassStats> lock_statistics() { return {}; }
void reset_lock_statistics() {}

}  // namespace tidewheel
