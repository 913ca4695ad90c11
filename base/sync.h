// base/sync.h: the locks. Nothing outside base/ names std::mutex.
// Owns:      nothing. A LockClass outlives its locks (they are namespace-scope constants).
// Threads:   all of it. Locks sleep after a short spin: in user space the holder can be preempted.
// Locks:     every lock has a LockClass: a name and a rank (base/lock_rank.h).
// Units:     nanoseconds. Holds are sampled 1 in 64 by TSC; waits are timed only when contended.
// Errors:    none.
// Simulator: in a TW_SIM build, inside a simulation, each operation is a scheduling point in virtual time.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/thread_annotations.h"
#include "base/time.h"

namespace tidewheel {

struct LockClassStats {
  const char* name = "";
  std::uint64_t acquisitions = 0;
  std::uint64_t contended = 0;
  std::uint64_t wait_ns_total = 0;
  std::uint64_t hold_ns_p99 = 0;
  std::uint64_t hold_ns_total = 0;  // of the sampled holds
  std::uint64_t hold_samples = 0;
};

// How the locks of a class are counted. kPerLock: counters inside each lock, registered, exact at any
// moment. kClassOnly: for classes with very many locks (one per inode): a lock adds its counts to the
// class every 64 acquisitions and when it ends.
enum class LockCounting : std::uint8_t { kPerLock, kClassOnly };

class LockClass;  // see below

class TW_CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(LockClass& lock_class) : class_(&lock_class) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() TW_ACQUIRE() {
    ++acquisitions_;
    mutex_.lock();
  }
  bool try_lock() TW_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() TW_RELEASE() { mutex_.unlock(); }
  void assert_held() const TW_ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
  [[maybe_unused]] LockClass* class_;
  std::uint64_t acquisitions_ = 0;
};

class TW_CAPABILITY("mutex") SharedMutex {
 public:
  explicit SharedMutex(LockClass& lock_class) : class_(&lock_class) {}
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() TW_ACQUIRE() { mutex_.lock(); }
  bool try_lock() TW_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() TW_RELEASE() { mutex_.unlock(); }
  void lock_shared() TW_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() TW_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
  [[maybe_unused]] LockClass* class_;
};

class TW_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TW_ACQUIRE(mutex) : mutex_(&mutex) { mutex.lock(); }
  ~MutexLock() TW_RELEASE() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  // Drops it early; the destructor then does nothing.
  void unlock() TW_RELEASE() {
    mutex_->unlock();
    mutex_ = nullptr;
  }

 private:
  Mutex* mutex_;
};

class TW_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) TW_ACQUIRE_SHARED(mutex) : mutex_(mutex) { mutex.lock_shared(); }
  ~ReaderLock() TW_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class TW_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) TW_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~WriterLock() TW_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// wait() may return early for no reason: callers loop on their condition. Timed waits take a length of
// time, run on the steady clock, and on the simulator's clock inside a simulation.
class CondVar {
 public:
  enum class Wake : std::uint8_t { kNotified, kTimedOut };
  void wait(Mutex& mutex) TW_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cond_.wait(lock);
    lock.release();
  }
  Wake wait_for(Mutex& mutex, Duration timeout) TW_REQUIRES(mutex);
  void notify_one() { cond_.notify_one(); }
  void notify_all() { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

class LockClass {
 public:
  constexpr LockClass(const char* name, LockRank rank, LockCounting counting = LockCounting::kPerLock)
      : name_(name), rank_(rank), counting_(counting) {}
  LockClassStats stats() const;

  const char* name() const { return name_; }
  LockRank rank() const { return rank_; }

 private:
  const char* name_;
  LockRank rank_;
  [[maybe_unused]] LockCounting counting_;
};

// Figures of every class that has been used since the last reset, by name.
std::vector<LockClassStats> lock_statistics();
void reset_lock_statistics();

}  // namespace tidewheel
