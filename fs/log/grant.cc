#include "fs/log/grant.h"

#include "base/assert.h"

namespace tidewheel {
namespace {

LockClass grant_class{"log-grant", LockRank::kGrant};

}  // namespace

GrantHead::GrantHead(std::uint64_t limit_bytes)
    : limit_(static_cast<std::int64_t>(limit_bytes)), lock_(grant_class) {}

GrantHead::~GrantHead() {
  MutexLock hold(lock_);
  TW_ASSERT(queue_.empty(), "log space ends while somebody waits for it");
}

bool GrantHead::take_now(std::uint64_t bytes) {
  const auto need = static_cast<std::int64_t>(bytes);
  std::int64_t used = used_.load(std::memory_order_seq_cst);
  do {
    if (used + need > limit_) return false;
  } while (!used_.compare_exchange_weak(used, used + need, std::memory_order_seq_cst));
  return true;
}

Result<void> GrantHead::take(std::uint64_t bytes, Queued& queued) {
  if (waiters_.load(std::memory_order_seq_cst) == 0 && take_now(bytes)) return {};
  Waiter waiter;
  waiter.bytes = bytes;
  {
    MutexLock hold(lock_);
    if (shut_down_) return TW_FAIL(kShutDown);
    queue_.push_back(waiter);
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    serve_locked();  // what was given back before it was counted
    if (waiter.state == Waiter::State::kGranted) return {};
  }
  waits_.fetch_add(1, std::memory_order_relaxed);
  queued.space_wanted();
  MutexLock hold(lock_);
  while (waiter.state == Waiter::State::kWaiting) waiter.decided.wait(lock_);
  if (waiter.state == Waiter::State::kRefused) return TW_FAIL(kShutDown);
  return {};
}

void GrantHead::serve_locked() {
  while (!queue_.empty() && take_now(queue_.front().bytes)) {
    Waiter& waiter = queue_.front();
    queue_.pop_front();
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    waiter.state = Waiter::State::kGranted;
    waiter.decided.notify_one();
  }
}

void GrantHead::give_back(std::uint64_t bytes) {
  if (bytes != 0) used_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock hold(lock_);
  serve_locked();
}

void GrantHead::shut_down() {
  MutexLock hold(lock_);
  shut_down_ = true;
  while (!queue_.empty()) {
    Waiter& waiter = queue_.front();
    queue_.pop_front();
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    waiter.state = Waiter::State::kRefused;
    waiter.decided.notify_one();
  }
}

std::uint64_t GrantHead::first_need_bytes() const {
  MutexLock hold(lock_);
  return queue_.empty() ? 0 : queue_.front().bytes;
}

}  // namespace tidewheel
