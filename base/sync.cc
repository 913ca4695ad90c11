#include "base/sync.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tidewheel {

namespace {

// A lock is held for tens of nanoseconds and a pause takes 10 to 50: this covers an owner that runs, about
// a microsecond, and costs less than the two system calls of sleeping and waking.
constexpr int kSpins = 40;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// A condition wait may return for any reason, so every outcome but "the time is over" is a wake-up.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, const timespec* timeout) {
  const long rc = ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET_PRIVATE,
                            expected, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer holds a signal back until a call that it intercepts: a thread that only waits and
  // works would never see its handler run.
  if (rc != 0 && errno == EINTR) {
    ::usleep(0);
    errno = EINTR;
  }
#endif
  return !(rc != 0 && errno == ETIMEDOUT);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr,
            0);
}

}  // namespace

// ---- Mutex ----

void Mutex::lock_contended() {
  const std::uint64_t start = read_tsc();
  static const bool several_cpus = cpu_count() > 1;
  bool taken = false;
  for (int i = 0; several_cpus && i < kSpins && !taken; ++i) {
    pause_cpu();
    std::uint32_t expected = kFree;
    taken = word_.load(std::memory_order_relaxed) == kFree &&
            word_.compare_exchange_strong(expected, kLocked, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  // Taken this way the word says "with sleepers" even if there are none: one needless wake-up at unlock.
  while (!taken) {
    taken = word_.exchange(kLockedWithSleepers, std::memory_order_acquire) == kFree;
    if (!taken) futex_wait(word_, kLockedWithSleepers, nullptr);
  }
  const double ns = static_cast<double>(read_tsc() - start) / tsc_ticks_per_ns();
  class_->add_contended(static_cast<std::uint64_t>(ns));
}

void Mutex::wake_sleeper() { futex_wake(word_, 1); }

// ---- SharedMutex ----

void SharedMutex::locked() {
  const std::uint64_t n = acquisitions_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n % kHoldSampling == 0) hold_start_ = class_->start_hold_sample();
#if defined(TW_DASSERT_ON)
  lock_order::locked(this, *class_);
#endif
}

void SharedMutex::unlocking() {
  if (hold_start_ != 0) {
    class_->end_hold_sample(hold_start_);
    hold_start_ = 0;
  }
#if defined(TW_DASSERT_ON)
  lock_order::unlocking(this, *class_);
#endif
}

void SharedMutex::lock() TW_NO_THREAD_SAFETY_ANALYSIS {
#if defined(TW_DASSERT_ON)
  lock_order::before_lock(this, *class_);
#endif
#if TW_SIM
  if (sim::active()) {
    if (sim::lock_exclusive(sim_, class_->name())) class_->add_contended(0);
    return locked();
  }
#endif
  if (!mutex_.try_lock()) {
    const std::uint64_t start = read_tsc();
    mutex_.lock();
    class_->add_contended(
        static_cast<std::uint64_t>(static_cast<double>(read_tsc() - start) / tsc_ticks_per_ns()));
  }
  locked();
}

bool SharedMutex::try_lock() TW_NO_THREAD_SAFETY_ANALYSIS {
#if TW_SIM
  if (sim::active()) {
    if (!sim::try_lock_exclusive(sim_)) return false;
    locked();
    return true;
  }
#endif
  if (!mutex_.try_lock()) return false;
  locked();
  return true;
}

void SharedMutex::unlock() TW_NO_THREAD_SAFETY_ANALYSIS {
  unlocking();
#if TW_SIM
  if (sim::active()) return sim::unlock_exclusive(sim_);
#endif
  mutex_.unlock();
}

void SharedMutex::lock_shared() TW_NO_THREAD_SAFETY_ANALYSIS {
#if defined(TW_DASSERT_ON)
  lock_order::before_lock(this, *class_);
#endif
#if TW_SIM
  if (sim::active()) {
    if (sim::lock_shared(sim_, class_->name())) class_->add_contended(0);
  } else
#endif
      if (!mutex_.try_lock_shared()) {
    const std::uint64_t start = read_tsc();
    mutex_.lock_shared();
    class_->add_contended(
        static_cast<std::uint64_t>(static_cast<double>(read_tsc() - start) / tsc_ticks_per_ns()));
  }
  shared_locked();
}

bool SharedMutex::try_lock_shared() TW_NO_THREAD_SAFETY_ANALYSIS {
#if TW_SIM
  if (sim::active()) {
    if (!sim::try_lock_shared(sim_)) return false;
    shared_locked();
    return true;
  }
#endif
  if (!mutex_.try_lock_shared()) return false;
  shared_locked();
  return true;
}

void SharedMutex::unlock_shared() TW_NO_THREAD_SAFETY_ANALYSIS {
#if defined(TW_DASSERT_ON)
  lock_order::unlocking(this, *class_);
#endif
#if TW_SIM
  if (sim::active()) return sim::unlock_shared(sim_);
#endif
  mutex_.unlock_shared();
}

void SharedMutex::shared_locked() {
  const std::uint64_t n = acquisitions_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n % kHoldSampling == 0) class_->start_hold_sample();  // moves the count of a kClassOnly class
#if defined(TW_DASSERT_ON)
  lock_order::locked(this, *class_);
#endif
}

void SharedMutex::assert_held() const {
#if defined(TW_DASSERT_ON)
  lock_order::assert_held(this, *class_);
#endif
}

// ---- CondVar ----

Instant CondVar::deadline_after(Duration timeout) {
  const Instant now = SteadyClock::instance().now();
  return timeout.ns > Instant::max().ns - now.ns ? Instant::max() : now + timeout;
}

CondVar::Wake CondVar::wait_for(Mutex& mutex, Duration timeout) {
  return wait_until_ns(mutex, deadline_after(timeout).ns, For::kProgress);
}

CondVar::Wake CondVar::wait_until_ns(Mutex& mutex, std::int64_t deadline_ns,
                                     [[maybe_unused]] For what) TW_NO_THREAD_SAFETY_ANALYSIS {
  mutex.unlocking();
  assert_may_sleep();  // with this mutex aside
#if TW_SIM
  if (sim::active()) {
    const bool notified =
        sim::cond_wait(this, mutex.sim_, mutex.class_->name(), deadline_ns, what == For::kWork);
    mutex.locked();
    return notified ? Wake::kNotified : Wake::kTimedOut;
  }
#endif
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = sequence_.load(std::memory_order_seq_cst);
  mutex.release();
  bool notified = true;
  if (deadline_ns == kNoDeadline) {
    futex_wait(sequence_, seen, nullptr);
  } else {
    const std::int64_t at = std::max<std::int64_t>(deadline_ns, 0);
    const timespec deadline{.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000};
    notified = futex_wait(sequence_, seen, &deadline);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  mutex.lock_unchecked();
  return notified ? Wake::kNotified : Wake::kTimedOut;
}

void CondVar::notify(bool all) {
#if TW_SIM
  if (sim::active()) return sim::cond_notify(this, all);
#endif
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(sequence_, all ? INT32_MAX : 1);
}

void CondVar::timed_out_but_true([[maybe_unused]] Mutex& mutex) {
#if TW_SIM
  if (sim::active()) sim::timed_wait_found_true(this, mutex.class_->name());
#endif
}

}  // namespace tidewheel
