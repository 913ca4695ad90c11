#include "fs/buf/delwri_queue.h"

#include <vector>

#include "fs/buf/buffer_cache.h"

namespace tidewheel {

DelwriQueue::~DelwriQueue() { TW_ASSERT(list_.empty(), "a delwri queue ends empty"); }

bool DelwriQueue::add(Buffer& buffer) {
  TW_DASSERT(buffer.locked(), "a buffer is queued under its lock");
  TW_DASSERT(buffer.done(), "a buffer is queued that has content");
  if (buffer.delwri_) return false;
  buffer.delwri_ = true;
  // Still linked: written or stale since, and its queue has not come to it yet. It will be written there.
  if (buffer.queued_) return false;
  buffer.queued_ = true;
  buffer.hold();
  list_.push_back(buffer);
  return true;
}

void DelwriQueue::sort() {
  // By target, then place: identity and place are constant, so no lock is needed.
  list_.sort([](const Buffer& a, const Buffer& b) {
    if (a.target_ != b.target_) return a.target_->id() < b.target_->id();
    return a.address_ < b.address_;
  });
}

DelwriQueue::Submitted DelwriQueue::submit() {
  Submitted submitted;
  sort();
  for (auto at = list_.begin(); at != list_.end();) {
    Buffer& buffer = *at;
    if (buffer.pinned()) {
      ++submitted.pinned;
      ++at;
      continue;
    }
    if (!buffer.try_lock()) {
      ++submitted.locked;
      ++at;
      continue;
    }
    // Again, under the lock, where alone pins are added.
    if (buffer.pinned()) {
      buffer.unlock();
      ++submitted.pinned;
      ++at;
      continue;
    }
    at = list_.erase(at);
    buffer.queued_ = false;
    if (!buffer.delwri_) {
      ++submitted.dropped;
      buffer.unlock();
      buffer.release();
      continue;
    }
    ++submitted.writing;
    buffer.cache_->write_async(LockedBuffer(&buffer));
  }
  return submitted;
}

Result<void> DelwriQueue::submit_and_wait() {
  sort();
  // A hold on each, since a request takes the queue's.
  std::vector<BufferHold> writing;
  Result<void> first;
  while (!list_.empty()) {
    Buffer& buffer = list_.front();
    buffer.lock();
    // With the lock, so that no pin comes after.
    buffer.wait_unpinned();
    list_.pop_front();
    buffer.queued_ = false;
    if (!buffer.delwri_) {
      buffer.unlock();
      buffer.release();
      continue;
    }
    buffer.hold();
    writing.emplace_back(&buffer);
    buffer.cache_->write_async(LockedBuffer(&buffer));
  }
  for (const BufferHold& held : writing) {
    // The request has the lock until it is over.
    held->lock();
    if (first && held->error().code != Reason::kOk) first = Unexpected(held->error());
    held->unlock();
  }
  return first;
}

void DelwriQueue::cancel() {
  while (!list_.empty()) {
    Buffer& buffer = list_.front();
    buffer.lock();
    buffer.delwri_ = false;
    list_.pop_front();
    buffer.queued_ = false;
    buffer.unlock();
    buffer.release();
  }
}

}  // namespace tidewheel
