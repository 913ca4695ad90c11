// The way of a batch: begin, settle, submit, finish; for flushers and for fsync.
#include <algorithm>
#include <utility>

#include "base/trace.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

// A part that is nothing would be offered again at once, for ever.
bool is_empty_part(const WriteSlot& slot) {
  return slot.outcome == WriteOutcome::kPartial && slot.written_bytes == 0;
}

void raise_to(Atomic<std::int64_t>& most, std::int64_t value) {
  std::int64_t now = most.load(std::memory_order_relaxed);
  while (now < value && !most.compare_exchange(now, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void WritebackContext::begin_batch(Batch& batch, WorkKind kind) {
  batch.slots_.clear();
  batch.kind_ = kind;
  batch.bytes_ = 0;
  batch.io = {};
  batch.target_data = nullptr;
  MutexLock guard(lock_);
  batch.sequence_ = next_sequence_++;
  batch.oldest_ = Instant::min();
  batch.put_back_ = Instant::max();
  active_[batch.id_] = true;
  active_batches_.fetch_add(1, std::memory_order_seq_cst);
}

void WritebackContext::settle_batch(Batch& batch, Instant oldest) {
  Flusher* waits = nullptr;
  {
    MutexLock guard(lock_);
    batch.oldest_ = oldest;
    // A sync may wait for it only because it was being gathered.
    if (running_sync_ != nullptr) {
      SyncRun& run = *running_sync_;
      const bool put_back = batch.put_back_ <= run.t0;
      if (put_back) ++run.came_back;
      if (run.waiting && (put_back || !matters_to_sync(batch))) {
        run.waiting = false;
        waits = run.flusher;
      }
    }
  }
  if (waits != nullptr) engine_.driver().kick(*waits);
}

void WritebackContext::submit_batch(Batch& batch, Instant now) {
  Instant oldest = Instant::max();
  Instant oldest_age = Instant::max();  // of what has an age to keep: timestamps alone have theirs
  const bool lazytime = engine_.options().lazytime;
  std::size_t kept = 0;  // those before it are being written, in their order
  batch.held_.changing();
  for (std::size_t i = 0; i < batch.slots_.size(); ++i) {
    WriteSlot& slot = batch.slots_[i];
    const DirtyObject* const object = slot.object;
    if (!list_->begin_write(slot)) {
      engine_.object_cancelled(*this);
      wake(object);
      continue;
    }
    TW_TRACE(writeback_single_inode_start, reinterpret_cast<std::uintptr_t>(slot.object), slot.classes,
             static_cast<std::uint64_t>(slot.stamp.ns), id_);
    oldest = std::min(oldest, slot.stamp);
    if (!lazytime || slot.classes != kDirtyTimestamps) oldest_age = std::min(oldest_age, slot.stamp);
    if (kept != i) batch.slots_[kept] = slot;
    ++kept;
  }
  batch.held_.holds(oldest);
  batch.slots_.resize(kept);
  if (oldest_age <= now) raise_to(oldest_age_max_ns_, (now - oldest_age).ns);
  const auto overhead =
      static_cast<std::int64_t>(batch.slots_.size() * engine_.options().object_overhead_bytes);
  counts_.add_writeback(overhead);
  engine_.counts_.add_writeback(overhead);
  settle_batch(batch, oldest);
  if (batch.slots_.empty()) return batch.complete();  // all of it was cancelled
  device_->batch_started(now);
  TW_TRACE(writeback_start, id_, static_cast<std::uint64_t>(batch.kind_), batch.slots_.size(), batch.id_);
  target_.write_batch(batch);
}

bool WritebackContext::finish_batch(Batch& batch, Instant now) {
  if (batch.slots_.empty()) {  // the target knows nothing of it
    end_batch(batch, false);
    return true;
  }
  bool progress = false;
  bool any_failed = false;
  bool any_written = false;
  bool failed_again = false;
  Error last_error;
  std::uint64_t failed = 0;
  std::uint64_t given_up = 0;
  for (WriteSlot& slot : batch.slots_) {
    TW_ASSERT(slot.outcome != WriteOutcome::kPending, "a target completed a batch with an undecided slot");
    const bool moved = slot.outcome != WriteOutcome::kSkipped && !is_empty_part(slot);
    progress = progress || moved;
    any_written = any_written || slot.outcome == WriteOutcome::kWritten ||
                  (slot.outcome == WriteOutcome::kPartial && moved);
    if (slot.outcome != WriteOutcome::kFailed) continue;
    if (slot.error.code == Reason::kOk) slot.error.code = Reason::kIo;
    ++failed;
    // Recorded before the object leaves its batch, so that who waited for it finds the error.
    ErrorSequence::record(slot.object->write_errors, slot.error.code);
    ErrorSequence::record(write_errors_, slot.error.code);
    sync_failed(slot);
    if (target_.give_up(*slot.object, slot.error, slot.object->retry_step + 1U)) {
      slot.outcome = WriteOutcome::kGivenUp;
      ++given_up;
    } else {
      any_failed = true;
      failed_again = failed_again || slot.object->retry_step != 0;
      last_error = slot.error;
    }
  }
  engine_.begin_ending_batch();
  target_.end_batch(batch);
  std::uint64_t clean = 0;
  std::uint64_t at_once = 0;
  bool wakes = false;
  bool lazy = false;
  batch.held_.changing();
  for (WriteSlot& slot : batch.slots_) {
    if (is_empty_part(slot)) slot.outcome = WriteOutcome::kSkipped;
    TW_TRACE(writeback_single_inode, reinterpret_cast<std::uintptr_t>(slot.object),
             static_cast<std::uint64_t>(slot.outcome), slot.bytes, id_);
    const DirtyList::EndWrite ended = end_write(slot, batch.kind_, now);
    if (!ended.clean) {  // by its address alone: another flusher may have it by now
      TW_TRACE(writeback_sb_inodes_requeue, reinterpret_cast<std::uintptr_t>(slot.object),
               static_cast<std::uint64_t>(slot.outcome), slot.stamp.ns, id_);
    }
    if (ended.clean) ++clean;
    if (ended.lazy && !ended.moved) lazy = true;
    if (ended.comes_at_once) ++at_once;
    if (ended.comes_at_once && slot.outcome == WriteOutcome::kFailed) {
      retries_at_once_.store(true, std::memory_order_relaxed);
    }
    if (ended.waiters) {
      wakes = true;
    } else {
      slot.object = nullptr;  // it may be gone
    }
  }
  batch.held_.holds(Instant::max());
  const bool came_back = clean != batch.slots_.size();
  const bool moved_on = at_once != batch.slots_.size();
  engine_.batch_cleaned(*this, batch.slots_.size(), clean);
  for (const WriteSlot& slot : batch.slots_) {
    if (wakes && slot.object != nullptr) wake(slot.object);
  }
  engine_.update_device(*this, now);
  engine_.ended_batch();
  if (any_written || any_failed) note_outcome(any_written, last_error, failed_again, now);
  TW_TRACE(writeback_written, id_, batch.slots_.size(), batch.io.bytes, batch.id_);
  if (tracing()) engine_.trace_dirty_state();
  objects_written_.fetch_add(batch.slots_.size(), std::memory_order_relaxed);
  pages_.fetch_add(batch.io.pages, std::memory_order_relaxed);
  io_bytes_.fetch_add(batch.io.bytes, std::memory_order_relaxed);
  ios_.fetch_add(batch.io.ios, std::memory_order_relaxed);
  batches_done_.fetch_add(1, std::memory_order_relaxed);
  if (failed != 0) {
    failed_writes_.fetch_add(failed, std::memory_order_relaxed);
    engine_.failures_.fetch_add(failed, std::memory_order_relaxed);
  }
  if (given_up != 0) given_up_.fetch_add(given_up, std::memory_order_relaxed);
  if (batch.kind_ == WorkKind::kSync) sync_wrote(progress, now);
  end_batch(batch, came_back);
  if (lazy) note_lazy();
  // Sleeping flushers reckoned with what the ladder held before.
  if (any_failed) kick();
  return moved_on;
}

void WritebackContext::note_outcome(bool wrote, Error failed, bool failed_again, Instant now) {
  if (wrote) {
    if (!only_failures_.load(std::memory_order_relaxed)) return;
    MutexLock guard(lock_);
    only_failures_.store(false, std::memory_order_relaxed);
    failing_since_ = Instant::max();
    if (std::exchange(failing_, false)) engine_.set_failing(*this, {});
    return;
  }
  MutexLock guard(lock_);
  if (failing_since_ > now) failing_since_ = now;  // the first one; or the clock was set back
  only_failures_.store(true, std::memory_order_relaxed);
  const Duration retries{std::min(engine_.options().retry_first.ns, INT64_MAX / 4) *
                         WritebackEngine::kFailingRetries};
  if (!failed_again || now - failing_since_ < retries) return;
  failing_ = true;
  engine_.set_failing(*this, failed);
}

// An empty batch has brought nothing back, but a sync may have waited to see whether it would.
void WritebackContext::end_batch(Batch& batch, bool objects_came_back) {
  Flusher* waits = nullptr;
  bool drains = false;
  {
    MutexLock guard(lock_);
    active_[batch.id_] = false;
    drains = batch.kind_ == WorkKind::kSync && running_sync_ != nullptr && running_sync_->for_policy;
    active_batches_.fetch_sub(1, std::memory_order_seq_cst);
    if (running_sync_ != nullptr && matters_to_sync(batch)) {
      if (!batch.slots_.empty() || batch.put_back_ <= running_sync_->t0) ++running_sync_->came_back;
      running_sync_->waiting = false;
      waits = running_sync_->flusher;
    }
  }
  if (waits != nullptr) engine_.driver().kick(*waits);
  if (objects_came_back) note_listed();
  if (!batch.slots_.empty() && !drains) engine_.note_activity(*this, engine_.clock().now());
  engine_.refuse_hopeless_waiters();
}

void WritebackContext::put_back(Batch& batch, DirtyObject& object, Instant now) {
  batch.put_back_ = std::min(batch.put_back_, object.dirtied_when());  // before: then it is anybody's
  if (list_->unclaim(object, now)) wake(&object);
}

// ---- fsync's ----

FsyncBatch* WritebackContext::acquire_fsync_batch() {
  MutexLock guard(lock_);
  while (free_fsync_.empty() && !syncs_aborted_) {
    engine_.driver().wait(lock_, fsync_released_, Duration::max());
  }
  if (syncs_aborted_) return nullptr;
  FsyncBatch* fsync = free_fsync_.back();
  free_fsync_.pop_back();
  fsync->completed = false;
  return fsync;
}

void WritebackContext::release_fsync_batch(FsyncBatch& fsync) {
  MutexLock guard(lock_);
  free_fsync_.push_back(&fsync);
  fsync_released_.notify_one();
}

void WritebackContext::complete_fsync(Batch& batch) {
  WritebackContext& context = *batch.context_;
  auto& fsync = *static_cast<FsyncBatch*>(batch.owner_);
  context.completing_.fetch_add(1, std::memory_order_acq_rel);
  {
    MutexLock guard(context.lock_);
    fsync.completed = true;
    fsync.done.notify_one();
  }
  // The last touch: the context may go from here on. release pairs with the acquire in its destructor.
  context.completing_.fetch_sub(1, std::memory_order_acq_rel);
}

// The object is claimed. On return its write has ended; the slot says how.
void WritebackContext::run_fsync_batch(FsyncBatch& fsync, DirtyObject& object) {
  const WriteEstimate estimate = target_.estimate(object);
  WriteSlot slot;
  slot.object = &object;
  slot.sort_key = estimate.sort_key;
  slot.bytes = estimate.bytes;
  fsync.batch.slots_.push_back(slot);
  fsync.batch.bytes_ = estimate.bytes;
  submit_batch(fsync.batch, engine_.clock().now());
  {
    MutexLock guard(lock_);
    while (!fsync.completed) engine_.driver().wait(lock_, fsync.done, Duration::max());
  }
  finish_batch(fsync.batch, engine_.clock().now());
}

}  // namespace tidewheel
