// writeback/flusher.h: writes one context's dirty objects, a batch at a time, when its driver steps it.
// Owns:      its selections and its batches' turn; not the batches.
// Threads:   step() by one thread at a time (the driver's). push_completed() from any thread.
// Locks:     none of its own.
// Invariant: (1) at most batches_in_flight batches are between submit and reap; (2) when step() says that
//            there is nothing to do until wake_at, whoever makes that untrue kicks it.
#pragma once
#include <memory>
#include <vector>

#include "base/atomic.h"
#include "base/time.h"
#include "writeback/batch.h"
#include "writeback/dirty_list.h"
#include "writeback/work.h"

namespace tidewheel {

class WorkPolicy;
class WritebackContext;
class WritebackEngine;

class Flusher {
 public:
  Flusher(WritebackContext& context, std::uint32_t index, std::vector<Batch*> batches);
  ~Flusher();

  struct Step {
    bool again = false;                // step at once
    Instant wake_at = Instant::max();  // else then, or when kicked
    bool drained = false;              // closed, and nothing is in flight
  };
  // Reaps what has completed and writes at most one batch. Never waits, except in the target.
  Step step(Instant now);

  // No new work; step() then ends at `drained`. From any thread; kick afterwards.
  void close() { closed_.store(true, std::memory_order_seq_cst); }
  // A tick at once. False: it has been asked for already. From any thread; kick afterwards.
  bool ask_to_tick() { return !tick_asked_.exchange(true, std::memory_order_seq_cst); }
  void ask_to_arm() { arm_asked_.store(true, std::memory_order_seq_cst); }
  std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  std::uint32_t index() const { return index_; }
  std::uint32_t in_flight() const { return in_flight_; }
  WritebackContext& context() { return context_; }

  void* driver_data = nullptr;  // the driver's own

 private:
  friend class WritebackContext;
  static constexpr std::size_t kClaimAtOnce = 32;   // elements per hold of a shard lock
  static constexpr Duration kStarvedPause = milliseconds(1);
  // A flusher that comes later than that for a drain had no reason to be awake: nor has the device.
  static constexpr Duration kDrainStale = seconds(1);

  static void complete(Batch& batch);  // Batch::on_complete_
  bool reap(Instant now);
  WorkSignals signals(Instant now);
  bool write_batch_of(WorkKind kind, Instant now);
  bool gather(Batch& batch, Selection& selection, std::uint64_t limit_bytes, Instant now);
  void end_work(Instant now, bool found_nothing);
  Step fall_asleep(Instant now, Instant wake_at, const WorkSignals& seen);
  bool timestamps_came(const WorkSignals& seen);
  Instant ask_policy(WorkSignals& s);
  SelectionRequest request(WorkKind kind, Instant now) const;

  WritebackContext& context_;
  WritebackEngine& engine_;
  const std::uint32_t index_;
  WorkSchedule schedule_;
  std::vector<Batch*> free_batches_;
  std::uint32_t in_flight_ = 0;

  std::unique_ptr<Selection> selection_;  // of periodic, background or reclaim work
  WorkKind selection_kind_ = WorkKind::kBackground;
  bool selection_found_ = false;
  bool background_starved_ = false;       // background work found nothing, and nothing changed since
  std::uint64_t reclaim_seen_ = 0;        // the request when the list was last asked
  const WorkPolicy* policy_ = nullptr;    // in force when it was last asked
  std::int64_t activity_seen_ns_ = INT64_MIN;  // of the device, then
  bool may_disarm_ = false;               // a tick has just ended: nothing may be dirty any more
  Instant last_step_ = Instant::min();
  std::uint64_t mean_object_bytes_ = 0;   // of the last batch: how many to claim at once

  Atomic<bool> arm_asked_{false};
  Atomic<bool> tick_asked_{false};
  Atomic<bool> closed_{false};
  Atomic<std::uint64_t> wakeups_{0};
  // Completed batches, last in first out; release in complete() pairs with acquire in reap().
  alignas(kCacheLine) Atomic<Batch*> completed_{nullptr};
};

}  // namespace tidewheel
