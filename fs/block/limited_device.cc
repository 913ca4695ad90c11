#include "fs/block/limited_device.h"

#include <algorithm>
#include <utility>

namespace tidewheel {

namespace {

LockClass limited_class("limited-device", LockRank::kDevice);

}  // namespace

// For the heap functions, whose front is the greatest.
struct LimitedDevice::Later {
  bool operator()(const Pending* a, const Pending* b) const {
    return a->due != b->due ? a->due > b->due : a->sequence > b->sequence;
  }
};

LimitedDevice::LimitedDevice(std::unique_ptr<BlockDevice> beneath, DeviceLimits limits)
    : beneath_(std::move(beneath)),
      limits_(limits),
      clock_(SteadyClock::instance()),
      stepped_(false),
      name_("limited " + std::string(beneath_->name())),
      lock_(limited_class) {
  const Result<void> started = start_timer();
  TW_ASSERT(started.has_value(), "the system allows no further thread");
}

Result<std::unique_ptr<LimitedDevice>> LimitedDevice::make(std::unique_ptr<BlockDevice> beneath,
                                                           DeviceLimits limits) {
  auto device = std::make_unique<LimitedDevice>(std::move(beneath), limits, SteadyClock::instance());
  device->stepped_ = false;
  TW_TRY(device->start_timer());
  return device;
}

Result<void> LimitedDevice::start_timer() {
  TW_ASSERT(limits_.queue_depth != 0, "a queue of depth 0 takes no request");
  auto thread = Thread::start("tw-dev-timer", [this] { run_timer(); });
  if (!thread) return Unexpected(thread.error());
  thread_ = std::move(thread).value();
  return {};
}

LimitedDevice::LimitedDevice(std::unique_ptr<BlockDevice> beneath, DeviceLimits limits, const Clock& stepped)
    : beneath_(std::move(beneath)),
      limits_(limits),
      clock_(stepped),
      stepped_(true),
      name_("limited " + std::string(beneath_->name())),
      lock_(limited_class) {}

LimitedDevice::~LimitedDevice() {
  {
    MutexLock lock(lock_);
    TW_ASSERT(in_flight_ == 0, "a device ends with requests in flight");
    stop_ = true;
    timer_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LimitedDevice::submit(IoRequest& request) {
  Pending* pending;
  {
    MutexLock lock(lock_);
    while (!stepped_ && in_flight_ >= limits_.queue_depth) room_.wait(lock_);
    ++in_flight_;
    pending = take_record_locked();
    pending->parent = &request;
    pending->due = due_locked(request, clock_.now());
    pending->sequence = next_sequence_++;
  }
  pending->child = IoRequest{.op = request.op,
                             .cause = request.cause,
                             .preflush = request.preflush,
                             .fua = request.fua,
                             .offset_bytes = request.offset_bytes,
                             .segments = request.segments,
                             .done = child_done,
                             .owner = pending};
  beneath_->submit(pending->child);
}

Instant LimitedDevice::due_locked(const IoRequest& request, Instant now) {
  if (request.op == IoOp::kFlush) return now + limits_.latency;
  const Duration after = request.preflush ? limits_.latency * 2 : limits_.latency;
  if (limits_.bytes_per_s == 0) return now + after;
  if (pipe_free_ < now) {
    pipe_free_ = now;
    carry_ = 0;
  }
  // 128 bits: 1 TiB times 10^9 leaves 64 behind.
  const unsigned __int128 work =
      static_cast<unsigned __int128>(request.len_bytes()) * 1'000'000'000U + carry_;
  pipe_free_ = pipe_free_ + Duration{static_cast<std::int64_t>(work / limits_.bytes_per_s)};
  carry_ = static_cast<std::uint64_t>(work % limits_.bytes_per_s);
  return pipe_free_ + after;
}

LimitedDevice::Pending* LimitedDevice::take_record_locked() {
  if (free_.empty()) {
    records_.push_back(std::make_unique<Pending>());
    records_.back()->device = this;
    // Room for all of them, so that a completion allocates nothing.
    heap_.reserve(records_.capacity());
    free_.reserve(records_.capacity());
    return records_.back().get();
  }
  Pending* pending = free_.back();
  free_.pop_back();
  return pending;
}

void LimitedDevice::child_done(IoRequest& child, Result<void> result) {
  auto* pending = static_cast<Pending*>(child.owner);
  LimitedDevice& device = *pending->device;
  MutexLock lock(device.lock_);
  pending->result = result;
  device.heap_.push_back(pending);
  std::push_heap(device.heap_.begin(), device.heap_.end(), Later{});
  if (device.heap_.front() == pending) device.timer_.notify_one();
}

LimitedDevice::Pending* LimitedDevice::pop_due_locked(Instant now) {
  if (heap_.empty() || heap_.front()->due > now) return nullptr;
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  Pending* pending = heap_.back();
  heap_.pop_back();
  return pending;
}

void LimitedDevice::finish(Pending* pending) {
  IoRequest& parent = *pending->parent;
  const Result<void> result = pending->result;
  {
    MutexLock lock(lock_);
    free_.push_back(pending);
    --in_flight_;
    room_.notify_one();
  }
  parent.done(parent, result);
}

void LimitedDevice::run_timer() {
  for (;;) {
    Pending* pending = nullptr;
    {
      MutexLock lock(lock_);
      for (;;) {
        const Instant now = clock_.now();
        pending = pop_due_locked(now);
        if (pending != nullptr) break;
        if (stop_) return;
        if (heap_.empty()) {
          timer_.wait(lock_);
        } else {
          timer_.wait_for(lock_, heap_.front()->due - now);
        }
      }
    }
    finish(pending);
  }
}

Instant LimitedDevice::next_due() const {
  MutexLock lock(lock_);
  return heap_.empty() ? Instant::max() : heap_.front()->due;
}

std::size_t LimitedDevice::run_due() {
  TW_ASSERT(stepped_, "run_due() belongs to virtual time");
  std::size_t n = 0;
  for (;; ++n) {
    Pending* pending;
    {
      MutexLock lock(lock_);
      pending = pop_due_locked(clock_.now());
    }
    if (pending == nullptr) return n;
    finish(pending);
  }
}

}  // namespace tidewheel
