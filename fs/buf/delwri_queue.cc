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

// ---- runs ----

bool DelwriQueue::Run::takes(const Buffer& buffer) const {
  if (count_ == 0) return true;
  if (count_ == kMostRunBuffers || bytes_ + buffer.length_bytes() > kMostRunBytes) return false;
  const Buffer& last = *buffers_[count_ - 1];
  if (last.write_alone_ || buffer.write_alone_ || last.target_ != buffer.target_) return false;
  return buffer.address_.value == last.address_.value + last.length_blocks_;
}

void DelwriQueue::Run::add(Buffer& buffer) {
  buffers_[count_++] = &buffer;
  bytes_ += buffer.length_bytes();
}

std::uint32_t DelwriQueue::Run::send() {
  if (count_ == 0) return 0;
  buffers_[0]->cache_->write_run({buffers_.data(), count_});
  count_ = bytes_ = 0;
  return 1;
}

// ---- submitting ----

DelwriQueue::Submitted DelwriQueue::submit() {
  Submitted submitted;
  Run run;
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
    // Without a client nobody would write it again if it failed with others.
    const bool alone = buffer.client_ == nullptr;
    if (alone || !run.takes(buffer)) submitted.requests += run.send();
    run.add(buffer);
    if (alone) submitted.requests += run.send();
  }
  submitted.requests += run.send();
  return submitted;
}

Result<void> DelwriQueue::submit_and_wait() {
  sort();
  // A hold on each, since a request takes the queue's.
  std::vector<BufferHold> writing;
  Run run;
  while (!list_.empty()) {
    Buffer& buffer = list_.front();
    // Waiting for one with others locked could be for somebody who waits for those.
    if (!buffer.try_lock()) {
      run.send();
      buffer.lock();
    }
    if (buffer.pinned()) {
      run.send();
      buffer.wait_unpinned();  // with the lock, so that no pin comes after
    }
    list_.pop_front();
    buffer.queued_ = false;
    if (!buffer.delwri_) {
      buffer.unlock();
      buffer.release();
      continue;
    }
    buffer.hold();
    writing.emplace_back(&buffer);
    if (!run.takes(buffer)) run.send();
    run.add(buffer);
  }
  run.send();
  Result<void> first;
  for (const BufferHold& held : writing) {
    // The request has the lock until it is over.
    held->lock();
    if (held->error().code != Reason::kOk && held->write_alone_) {
      static_cast<void>(held->cache_->write(*held));  // what comes of it is its own
    }
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
