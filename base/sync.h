// base/sync.h: the locks and conditions. Nothing outside base/ names std::mutex.
// Owns:      nothing. A LockClass outlives its locks (they are namespace-scope constants).
// Threads:   all of it. A Mutex spins for about a microsecond, then sleeps: in user space the holder can be
//            preempted, so a pure spin lock would burn whole time slices.
// Locks:     every lock has a LockClass: a name and a rank (base/lock_rank.h). Debug builds assert that
//            ranks rise, that two locks of one rank are only taken through MutexPairLock, and that nobody
//            sleeps with a lock held that must be short (kFirstShortRank).
// Units:     nanoseconds. Holds are sampled 1 in 64 by the cycle counter; waits are timed only when
//            contended (base/lock_class.h).
// Errors:    none.
// Simulator: in a TW_SIM build, inside a simulation, each operation is a scheduling point in virtual time.
#pragma once
#include <atomic>
#include <cstdint>
#include <shared_mutex>

#include "base/config.h"
#include "base/lock_class.h"
#include "base/lock_rank.h"
#include "base/sim_hooks.h"
#include "base/thread_annotations.h"
#include "base/time.h"

namespace tidewheel {

// Debug builds: asserts that the caller holds no short lock (rank at or above kFirstShortRank). Called by
// everything in base/ that sleeps; call it before other waits (a device, a system call that blocks).
#if defined(TW_DASSERT_ON)
void assert_may_sleep();
#else
inline void assert_may_sleep() {}
#endif

class TW_CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(LockClass& lock_class) : class_(&lock_class) { class_->add_lock(acquisitions_, index_); }
  ~Mutex() { class_->remove_lock(acquisitions_, index_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() TW_ACQUIRE() TW_NO_THREAD_SAFETY_ANALYSIS {
#if defined(TW_DASSERT_ON)
    lock_order::before_lock(this, *class_);
#endif
    lock_unchecked();
  }
  bool try_lock() TW_TRY_ACQUIRE(true) TW_NO_THREAD_SAFETY_ANALYSIS {
#if TW_SIM
    if (sim::active()) {
      if (!sim::try_lock_exclusive(sim_)) return false;
      locked();
      return true;
    }
#endif
    std::uint32_t expected = kFree;
    if (!word_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return false;
    }
    locked();
    return true;
  }
  void unlock() TW_RELEASE() TW_NO_THREAD_SAFETY_ANALYSIS {
    unlocking();
#if TW_SIM
    if (sim::active()) return sim::unlock_exclusive(sim_);
#endif
    release();
  }
  // Tells clang, and checks in debug builds. The first line of every lambda that runs under a lock.
  void assert_held() const TW_ASSERT_CAPABILITY(this) {
#if defined(TW_DASSERT_ON)
    lock_order::assert_held(this, *class_);
#endif
  }

 private:
  friend class CondVar;
  friend class MutexPairLock;
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kLocked = 1;
  static constexpr std::uint32_t kLockedWithSleepers = 2;

  void lock_unchecked() TW_NO_THREAD_SAFETY_ANALYSIS {
#if TW_SIM
    if (sim::active()) {
      if (sim::lock_exclusive(sim_, class_->name())) class_->add_contended(0);
      locked();
      return;
    }
#endif
    std::uint32_t expected = kFree;
    if (__builtin_expect(!word_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire,
                                                        std::memory_order_relaxed),
                         0)) {
      lock_contended();
    }
    locked();
  }
  void locked() {
    // Written under the lock alone: a plain increment, atomic only for lock_statistics() reading beside it.
    const std::uint64_t n = acquisitions_.load(std::memory_order_relaxed) + 1;
    acquisitions_.store(n, std::memory_order_relaxed);
    if (__builtin_expect(n % kHoldSampling == 0, 0)) hold_start_ = class_->start_hold_sample();
#if defined(TW_DASSERT_ON)
    lock_order::locked(this, *class_);
#endif
  }
  void unlocking() {
    if (__builtin_expect(hold_start_ != 0, 0)) {
      class_->end_hold_sample(hold_start_);
      hold_start_ = 0;
    }
#if defined(TW_DASSERT_ON)
    lock_order::unlocking(this, *class_);
#endif
  }
  void release() {
    // Another thread may destroy the lock as soon as it is free; wake_sleeper only uses the address.
    if (__builtin_expect(word_.exchange(kFree, std::memory_order_release) == kLockedWithSleepers, 0)) {
      wake_sleeper();
    }
  }
  void lock_contended();
  void wake_sleeper();

  std::atomic<std::uint32_t> word_{kFree};      // acquire in lock pairs with release in unlock
  std::uint32_t index_ = 0;                     // the class's own
  std::atomic<std::uint64_t> acquisitions_{0};  // written under the lock
  std::uint64_t hold_start_ = 0;                // under the lock; 0: this hold is not sampled
  LockClass* const class_;
#if TW_SIM
  sim::SimLock sim_;
#endif
};

// Many readers or one writer. For data that is read far more often than written; costs more than a Mutex,
// and its readers share one cache line.
class TW_CAPABILITY("mutex") SharedMutex {
 public:
  explicit SharedMutex(LockClass& lock_class) : class_(&lock_class) {
    class_->add_lock(acquisitions_, index_);
  }
  ~SharedMutex() { class_->remove_lock(acquisitions_, index_); }
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() TW_ACQUIRE();
  bool try_lock() TW_TRY_ACQUIRE(true);
  void unlock() TW_RELEASE();
  void lock_shared() TW_ACQUIRE_SHARED();
  bool try_lock_shared() TW_TRY_ACQUIRE_SHARED(true);
  void unlock_shared() TW_RELEASE_SHARED();
  void assert_held() const TW_ASSERT_CAPABILITY(this);

 private:
  void locked();
  void unlocking();
  void shared_locked();

  std::shared_mutex mutex_;
  std::uint32_t index_ = 0;
  std::atomic<std::uint64_t> acquisitions_{0};  // readers too: relaxed, on the line the lock moves anyway
  std::uint64_t hold_start_ = 0;                // under the exclusive lock; readers' holds are not sampled
  LockClass* const class_;
#if TW_SIM
  sim::SimLock sim_;
#endif
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

// Both of two locks of one rank, in an order that the caller has derived from their ids (never from their
// addresses), or one when both are the same.
class TW_SCOPED_CAPABILITY MutexPairLock {
 public:
  MutexPairLock(Mutex& first, Mutex& second) TW_ACQUIRE(first, second) TW_NO_THREAD_SAFETY_ANALYSIS
      : first_(first), second_(second) {
    first_.lock();
    if (&first_ != &second_) second_.lock_unchecked();
  }
  ~MutexPairLock() TW_RELEASE() TW_NO_THREAD_SAFETY_ANALYSIS {
    if (&first_ != &second_) second_.unlock();
    first_.unlock();
  }
  MutexPairLock(const MutexPairLock&) = delete;
  MutexPairLock& operator=(const MutexPairLock&) = delete;

 private:
  Mutex& first_;
  Mutex& second_;
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

// wait() may return early for no reason: callers loop on their condition, or use the forms with a
// predicate, which do. Timed waits run on the steady clock (CLOCK_MONOTONIC), and on the simulator's clock
// inside a simulation, where the forms with a predicate also find lost wake-ups that a period would hide.
// A predicate runs under the mutex; clang does not know that: its first line is mutex.assert_held().
class CondVar {
 public:
  enum class Wake : std::uint8_t { kNotified, kTimedOut };
  // What a sleeper waits for. kProgress: something that must happen; the simulator fails a run in which
  // it has not happened for 120 virtual seconds. kWork: an idle worker, which may sleep for ever.
  enum class For : std::uint8_t { kProgress, kWork };

  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void wait(Mutex& mutex, For what = For::kProgress) TW_REQUIRES(mutex) {
    wait_until_ns(mutex, kNoDeadline, what);
  }
  Wake wait_for(Mutex& mutex, Duration timeout) TW_REQUIRES(mutex);
  Wake wait_until(Mutex& mutex, Instant deadline) TW_REQUIRES(mutex) {
    return wait_until_ns(mutex, deadline.ns, For::kProgress);
  }

  template <class Predicate>
  void wait(Mutex& mutex, Predicate condition, For what = For::kProgress) TW_REQUIRES(mutex) {
    while (!condition()) wait(mutex, what);
  }
  // The value of the condition at the end. The deadline is an Instant of SteadyClock.
  template <class Predicate>
  bool wait_until(Mutex& mutex, Instant deadline, Predicate condition) TW_REQUIRES(mutex) {
    while (!condition()) {
      if (wait_until(mutex, deadline) == Wake::kTimedOut) {
        const bool found = condition();
        if (found) timed_out_but_true(mutex);
        return found;
      }
    }
    return true;
  }
  template <class Predicate>
  bool wait_for(Mutex& mutex, Duration timeout, Predicate condition) TW_REQUIRES(mutex) {
    return wait_until(mutex, deadline_after(timeout), condition);
  }

  // With or without the mutex; the condition must have been changed under it.
  void notify_one() { notify(false); }
  void notify_all() { notify(true); }

 private:
  static constexpr std::int64_t kNoDeadline = INT64_MAX;
  static Instant deadline_after(Duration timeout);
  Wake wait_until_ns(Mutex& mutex, std::int64_t deadline_ns, For what);
  void notify(bool all);
  void timed_out_but_true(Mutex& mutex);

  // A sleeper counts itself in sleepers_ under the mutex, then reads sequence_; a notifier, whose change of
  // the condition came before or after that under the same mutex, moves sequence_ and then reads sleepers_.
  std::atomic<std::uint32_t> sequence_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace tidewheel
