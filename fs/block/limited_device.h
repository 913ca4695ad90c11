// fs/block/limited_device.h: gives another device a bandwidth and a latency, in real or virtual time.
// Owns:      the device beneath, and a record per request in flight (pooled).
// Threads:   submit() from any thread. In real time one timer thread runs all completions; in virtual time
//            run_due() runs them on its caller, and nothing waits anywhere.
// Locks:     lock_ (rank kDevice), never held across the device beneath nor across a completion.
// Units:     bytes per second; nanoseconds of the clock in use.
// Errors:    those of the device beneath.
//
// The model: one pipe that moves bytes_per_s, first come first served, and after it a fixed latency that
// requests pass side by side:
//   start = max(now, pipe free); pipe free = start + bytes / bytes_per_s; due = pipe free + latency
// A flush moves no bytes and waits for nobody in the pipe: due = now + latency. One that goes before a write
// (preflush) adds a latency to the write's; FUA takes no longer than another write. A refused or failed one
// takes the time of a good one. The device beneath works meanwhile, and a request completes when both are
// over: a limit above what the device can do changes nothing but the order of completions.
// Invariant: (1) completions come in the order of `due`, ties in the order of submission; (2) bytes moved
// between two moments of a busy pipe are exact: the rounding of one request is carried to the next.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "base/thread.h"
#include "fs/block/block_device.h"

namespace tidewheel {

struct DeviceLimits {
  std::uint64_t bytes_per_s = 0;  // 0: no limit
  Duration latency{0};
  // Requests in flight before submit() blocks; real time only. Half of the file device's, so that the
  // device beneath never blocks the submitter first.
  std::uint32_t queue_depth = 64;

  bool any() const { return bytes_per_s != 0 || latency.ns != 0; }
};

class LimitedDevice final : public BlockDevice {
 public:
  // In real time: a timer thread completes what is due. kNoThread when there is none to be had.
  static Result<std::unique_ptr<LimitedDevice>> make(std::unique_ptr<BlockDevice> beneath,
                                                     DeviceLimits limits);
  // The same for who cannot go on without: asserts that there is a thread.
  LimitedDevice(std::unique_ptr<BlockDevice> beneath, DeviceLimits limits);
  // In virtual time: nothing completes but in run_due(). The clock outlives the device.
  LimitedDevice(std::unique_ptr<BlockDevice> beneath, DeviceLimits limits, const Clock& stepped);
  ~LimitedDevice() override;

  std::string_view name() const override { return name_; }
  std::uint64_t size_bytes() const override { return beneath_->size_bytes(); }
  std::uint32_t block_bytes() const override { return beneath_->block_bytes(); }
  std::uint32_t memory_alignment() const override { return beneath_->memory_alignment(); }
  void submit(IoRequest& request) override TW_EXCLUDES(lock_);
  DeviceStats stats() const override { return beneath_->stats(); }
  bool keeps_data() const override { return beneath_->keeps_data(); }
  Result<void> grow(std::uint64_t size_bytes) override { return beneath_->grow(size_bytes); }
  Result<bool> holds_data() override { return beneath_->holds_data(); }
  Result<void> renew(std::uint64_t size_bytes) override { return beneath_->renew(size_bytes); }

  BlockDevice& beneath() { return *beneath_; }

  // ---- virtual time ----
  // When the next completion is due among what the device beneath has finished; Instant::max() when none.
  Instant next_due() const TW_EXCLUDES(lock_);
  // Completes what is due by the clock, and what such completions submit and is due at once. How many.
  std::size_t run_due() TW_EXCLUDES(lock_);

 private:
  Result<void> start_timer();
  struct Pending {
    IoRequest child;  // what the device beneath sees
    IoRequest* parent = nullptr;
    LimitedDevice* device = nullptr;
    Instant due;
    std::uint64_t sequence = 0;
    Result<void> result;
  };
  struct Later;  // orders the heap

  static void child_done(IoRequest& child, Result<void> result);
  Instant due_locked(const IoRequest& request, Instant now) TW_REQUIRES(lock_);
  Pending* take_record_locked() TW_REQUIRES(lock_);
  // The first that is due by `now`, off the heap; null when none is.
  Pending* pop_due_locked(Instant now) TW_REQUIRES(lock_);
  void finish(Pending* pending) TW_EXCLUDES(lock_);
  void run_timer() TW_EXCLUDES(lock_);

  // ---- constant after construction ----
  const std::unique_ptr<BlockDevice> beneath_;
  const DeviceLimits limits_;
  const Clock& clock_;
  bool stepped_;  // constant once the device has been made
  const std::string name_;

  // ---- under lock_ ----
  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankArena) TW_ACQUIRED_BEFORE(kRankCompletion);
  CondVar room_;   // in_flight_ fell below the depth
  CondVar timer_;  // the heap has a new first, or stop_
  std::vector<std::unique_ptr<Pending>> records_ TW_GUARDED_BY(lock_);
  std::vector<Pending*> free_ TW_GUARDED_BY(lock_);
  std::vector<Pending*> heap_ TW_GUARDED_BY(lock_);  // finished beneath, not yet due
  Instant pipe_free_ TW_GUARDED_BY(lock_) = Instant::min();
  std::uint64_t carry_ TW_GUARDED_BY(lock_) = 0;  // of a nanosecond, in 1 / bytes_per_s
  std::uint64_t next_sequence_ TW_GUARDED_BY(lock_) = 0;
  std::uint32_t in_flight_ TW_GUARDED_BY(lock_) = 0;
  bool stop_ TW_GUARDED_BY(lock_) = false;

  Thread thread_;
};

}  // namespace tidewheel
