#include "fs/buf/buffer.h"

#include <cstddef>

#include "base/thread_state.h"
#include "fs/buf/buffer_cache.h"

namespace tidewheel {

// As a mutex on a futex word: who has waited takes it as "with waiters", so that no waiter behind it is
// forgotten.
void Buffer::lock() {
  assert_may_wait_for(LockRank::kBuffer, "buffer");
  std::uint32_t expected = kFree;
  if (lock_.compare_exchange(expected, kLocked, std::memory_order_acquire)) return;
  Mutex& wait_lock = cache_->wait_lock_of(*this);
  MutexLock wait(wait_lock);
  while (lock_.exchange(kLockedWithWaiters, std::memory_order_acquire) != kFree) changed_.wait(wait_lock);
}

bool Buffer::try_lock() {
  std::uint32_t expected = kFree;
  return lock_.compare_exchange(expected, kLocked, std::memory_order_acquire);
}

void Buffer::unlock() {
  TW_DASSERT(holds_.load(std::memory_order_relaxed) != 0, "a buffer is unlocked with a hold");
  const std::uint32_t was = lock_.exchange(kFree, std::memory_order_release);
  TW_ASSERT(was != kFree, "a buffer is unlocked that is not locked");
  if (was != kLockedWithWaiters) return;
  // A waiter that set the word is asleep, or holds the wait lock and looks again.
  MutexLock wait(cache_->wait_lock_of(*this));
  changed_.notify_all();
}

void Buffer::mark_stale() {
  TW_DASSERT(locked(), "a buffer goes stale under its lock");
  done_ = false;
  stale_ = true;
  delwri_ = false;
  error_ = {};
  write_failures_ = 0;
  referenced_.store(0, std::memory_order_relaxed);
}

void Buffer::pin() {
  TW_DASSERT(locked(), "a buffer is pinned under its lock");
  hold();
  pins_.fetch_add(1, std::memory_order_seq_cst);
}

void Buffer::unpin() {
  const std::uint32_t before = pins_.fetch_sub(1, std::memory_order_seq_cst);
  TW_ASSERT(before != 0, "a buffer is unpinned once per pin");
  if (before == 1 && pin_waiters_.load(std::memory_order_seq_cst) != 0) {
    MutexLock wait(cache_->wait_lock_of(*this));
    changed_.notify_all();
  }
  release();
}

void Buffer::wait_unpinned() {
  if (pins_.load(std::memory_order_acquire) == 0) return;
  Mutex& wait_lock = cache_->wait_lock_of(*this);
  MutexLock wait(wait_lock);
  pin_waiters_.fetch_add(1, std::memory_order_seq_cst);
  while (pins_.load(std::memory_order_seq_cst) != 0) changed_.wait(wait_lock);
  pin_waiters_.fetch_sub(1, std::memory_order_relaxed);
}

// Lowering the count is the last touch: from then on reclaim may free a cached buffer.
void Buffer::release() {
  static_assert(offsetof(Buffer, lock_) <= 64, "what a hit and its release touch lies side by side");
  if (cached_) {
    const std::uint32_t before = holds_.fetch_sub(1, std::memory_order_release);
    TW_ASSERT(before != 0, "a buffer is released once per hold");
    return;
  }
  BufferCache* const cache = cache_;
  if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) cache->free_buffer(this);
}

}  // namespace tidewheel
