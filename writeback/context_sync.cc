// Sync of everything dirty at a moment, and fsync of one object.
#include <algorithm>

#include "base/trace.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

// A target that answers kSkipped (busy) to a sync is asked again after 1 ms, 2 ms … 128 ms; after so many
// rounds in a row without any progress, about 8 s, the caller is told kBusy.
constexpr std::uint32_t kMaxBusyPasses = 70;
constexpr std::uint32_t kBusyDoublings = 7;

}  // namespace

// ---- callers ----

std::shared_ptr<SyncRun> WritebackContext::announce_sync() {
  MutexLock guard(lock_);
  if (syncs_aborted_) return nullptr;
  ++callers_;
  if (queued_sync_ == nullptr) queued_sync_ = std::make_shared<SyncRun>();
  // Read here: what the caller dirtied has a stamp at or before this.
  queued_sync_->t0 = std::max(queued_sync_->t0, engine_.clock().now());
  queued_sync_->for_policy = false;
  ++queued_sync_->held;
  return queued_sync_;
}

// As a caller whose deadline has come. (A run that is under way covers what was dirty when it began: another
// one follows it.)
void WritebackContext::begin_drain() {
  MutexLock guard(lock_);
  if (syncs_aborted_) return;
  if (queued_sync_ == nullptr) {
    queued_sync_ = std::make_shared<SyncRun>();
    queued_sync_->for_policy = true;
  }
  queued_sync_->t0 = std::max(queued_sync_->t0, engine_.clock().now());
}

void WritebackContext::release_sync(SyncRun& run) {
  {
    MutexLock guard(lock_);
    --run.held;
  }
  kick();
}

// Its caller sees to the flush.
Error WritebackContext::await_written(SyncRun& run) {
  MutexLock guard(lock_);
  while (run.state < SyncRun::State::kWritten) {
    engine_.driver().wait(lock_, sync_changed_, Duration::max());
  }
  const Error error = run.error;
  if (--callers_ == 0) caller_left_.notify_all();
  return error;
}

Result<void> WritebackContext::sync(ErrorCursor* handle, Instant deadline) {
  const std::shared_ptr<SyncRun> run = announce_sync();
  if (run == nullptr) return TW_FAIL(kShutDown);
  release_sync(*run);
  lock_.lock();
  while (run->state != SyncRun::State::kDone) {
    if (run->state != SyncRun::State::kWritten) {
      const Duration left =
          deadline == Instant::max() ? Duration::max() : deadline - engine_.clock().now();
      if (left.ns <= 0) {
        // The run goes on; a caller that is left, or nobody, flushes after it.
        if (--callers_ == 0) caller_left_.notify_all();
        lock_.unlock();
        return TW_FAIL(kTimedOut);
      }
      engine_.driver().wait(lock_, sync_changed_, left);
      continue;
    }
    run->state = SyncRun::State::kFlushing;
    lock_.unlock();
    const Result<void> flushed = target_.flush();
    if (!flushed) ErrorSequence::record(write_errors_, flushed.error().code);
    lock_.lock();
    if (!flushed && run->error.code == Reason::kOk) run->error = flushed.error();
    run->state = SyncRun::State::kDone;
    sync_changed_.notify_all();
  }
  const Error error = run->error;
  if (--callers_ == 0) caller_left_.notify_all();
  lock_.unlock();

  if (handle != nullptr) TW_TRY(ErrorSequence::check_and_advance(write_errors_, *handle));
  if (error.code != Reason::kOk) return Unexpected(error);
  return {};
}

bool WritebackContext::fsync(DirtyObject& object, ErrorCursor* handle, Result<void>& result) {
  {
    MutexLock guard(lock_);
    if (syncs_aborted_) {
      result = TW_FAIL(kShutDown);
      return true;
    }
    ++callers_;
  }
  works_.fetch_add(1, std::memory_order_relaxed);
  bool elsewhere = false;
  result = write_one(object, elsewhere);
  if (elsewhere) {
    MutexLock guard(lock_);
    if (--callers_ == 0) caller_left_.notify_all();
    return false;
  }
  if (result) {
    result = target_.flush();
    // What it covered is on no list any more: the only trace of the failure is in the sequences.
    if (!result) {
      ErrorSequence::record(object.write_errors, result.error().code);
      ErrorSequence::record(write_errors_, result.error().code);
    }
  }
  if (handle != nullptr) {
    const Result<void> told = ErrorSequence::check_and_advance(object.write_errors, *handle);
    if (result) result = told;
  }
  MutexLock guard(lock_);
  if (--callers_ == 0) caller_left_.notify_all();
  return true;
}

// Whatever of the object was dirty at the call has been written, or the error. At most two waits for others
// unless the object is dirtied all the time: the write that was on its way, and one more that overtook us.
Result<void> WritebackContext::write_one(DirtyObject& object, bool& elsewhere) {
  std::uint32_t busy = 0;
  for (;;) {
    if (engine_.stopping()) return TW_FAIL(kShutDown);
    FsyncBatch* fsync = acquire_fsync_batch();
    if (fsync == nullptr) return TW_FAIL(kShutDown);
    begin_batch(fsync->batch, WorkKind::kFsync);
    fsync->batch.held_.changing();
    const DirtyList::TakeOut taken = list_->claim_one(object);
    const bool claimed = taken == DirtyList::TakeOut::kTaken;
    fsync->batch.held_.holds(claimed ? object.dirtied_when() : Instant::max());
    if (taken != DirtyList::TakeOut::kTaken) {
      end_batch(fsync->batch, false);
      release_fsync_batch(*fsync);
      elsewhere = taken == DirtyList::TakeOut::kElsewhere;
      if (elsewhere) return {};
      if (taken == DirtyList::TakeOut::kClean) return {};
      object_waiters_.wait(object, engine_.driver());
      continue;
    }
    run_fsync_batch(*fsync, object);
    if (fsync->batch.slots_.empty()) {  // cancelled meanwhile: there is nothing dirty
      release_fsync_batch(*fsync);
      return {};
    }
    const WriteOutcome outcome = fsync->batch.slots_[0].outcome;
    const Error error = fsync->batch.slots_[0].error;
    release_fsync_batch(*fsync);
    switch (outcome) {
      case WriteOutcome::kWritten:
        return {};
      case WriteOutcome::kFailed:
      case WriteOutcome::kGivenUp:
        return Unexpected(error);
      case WriteOutcome::kPartial:
        busy = 0;
        continue;
      case WriteOutcome::kSkipped:
      case WriteOutcome::kPending:
        break;
    }
    if (++busy > kMaxBusyPasses) return TW_FAIL(kBusy);
    MutexLock guard(lock_);
    CondVar nobody;
    engine_.driver().wait(lock_, nobody, milliseconds(1LL << std::min(busy - 1, kBusyDoublings)));
  }
}

// ---- the run, for flushers ----

bool WritebackContext::sync_ready(Flusher& flusher, Instant now, Instant& retry_at) {
  std::shared_ptr<SyncRun> run;
  {
    MutexLock guard(lock_);
    if (running_sync_ != nullptr) {
      if (running_sync_->flusher != &flusher || running_sync_->waiting) return false;
      if (running_sync_->busy_passes == 0 || now >= running_sync_->retry_at) return true;
      retry_at = running_sync_->retry_at;
      return false;
    }
    // Also once they are aborted.
    if (queued_sync_ == nullptr || queued_sync_->held != 0) return false;
    run = running_sync_ = std::move(queued_sync_);
    queued_sync_ = nullptr;
    run->state = SyncRun::State::kWriting;
    run->flusher = &flusher;
  }
  works_.fetch_add(1, std::memory_order_relaxed);
  SelectionRequest request;
  request.kind = WorkKind::kSync;
  request.now = std::max(now, run->t0);
  request.dirtied_before = run->t0;
  run->selection = list_->select(request);
  // Only now: whatever was claimed by others before the selection saw its shard is in a batch that began
  // before this number was drawn.
  MutexLock guard(lock_);
  // And the batches are judged by the same moment as the list: a stamp that is younger than the callers' may
  // be that of something they dirtied, filed again by another flusher before the selection was made.
  run->t0 = std::max(run->t0, run->selection->moment());
  run->sequence = next_sequence_;
  return true;
}

// Whether it holds, or may bring back, something that was dirty at the sync's moment.
bool WritebackContext::matters_to_sync(const Batch& batch) const {
  return batch.sequence_ < running_sync_->sequence || batch.oldest_ <= running_sync_->t0;
}

std::uint64_t WritebackContext::came_back() const {
  MutexLock guard(lock_);
  return running_sync_->came_back;
}

Selection* WritebackContext::sync_selection() const {
  MutexLock guard(lock_);
  return running_sync_->selection.get();
}

// Its selection had nothing to claim. That is the end if also no batch holds what the sync is to cover, and
// none has put something back since before the selection was asked.
void WritebackContext::sync_found_nothing(Flusher& flusher, std::uint64_t came_back_before) {
  std::unique_ptr<Selection> ended;  // goes after the lock
  MutexLock guard(lock_);
  SyncRun& run = *running_sync_;
  TW_ASSERT(run.flusher == &flusher, "a sync is run by one flusher");
  if (run.came_back != came_back_before) return;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (active_[i] && matters_to_sync(*batch_table_[i])) {
      run.waiting = true;
      TW_TRACE(writeback_wait, id_, static_cast<std::uint64_t>(run.t0.ns), batch_table_[i]->sequence_);
      return;
    }
  }
  ended = std::move(run.selection);
  finish_sync({});
}

void WritebackContext::finish_sync(Error error) {
  if (running_sync_->state != SyncRun::State::kDone) {  // its callers have been sent away
    if (running_sync_->error.code == Reason::kOk) running_sync_->error = error;
    running_sync_->state = SyncRun::State::kWritten;
  }
  running_sync_ = nullptr;
  sync_changed_.notify_all();
}

void WritebackContext::sync_failed(const WriteSlot& slot) {
  MutexLock guard(lock_);
  if (running_sync_ == nullptr || slot.stamp > running_sync_->t0) return;
  if (running_sync_->error.code == Reason::kOk) running_sync_->error = slot.error;
}

void WritebackContext::sync_wrote(bool progress, Instant now) {
  std::unique_ptr<Selection> ended;
  MutexLock guard(lock_);
  if (running_sync_ == nullptr) return;
  SyncRun& run = *running_sync_;
  if (progress) {
    run.busy_passes = 0;
    return;
  }
  ++run.busy_passes;
  run.retry_at = now + milliseconds(1LL << std::min(run.busy_passes - 1, kBusyDoublings));
  if (run.busy_passes > kMaxBusyPasses) {
    ended = std::move(run.selection);
    finish_sync(TW_FAIL(kBusy).error());
  }
}

void WritebackContext::end_waits() {
  for (const auto& flusher : flushers_) flusher->close();
  MutexLock guard(lock_);
  syncs_aborted_ = true;
  // A run that has begun is its flusher's until that has ended; nobody waits for it any more.
  for (const std::shared_ptr<SyncRun>& run : {running_sync_, queued_sync_}) {
    if (run == nullptr || run->state == SyncRun::State::kDone) continue;
    run->error = TW_FAIL(kShutDown).error();
    run->state = SyncRun::State::kDone;
  }
  queued_sync_ = nullptr;
  sync_changed_.notify_all();
  fsync_released_.notify_all();
}

// The flushers have ended.
void WritebackContext::drop_running_sync() {
  std::unique_ptr<Selection> ended;  // goes after the lock
  MutexLock guard(lock_);
  if (running_sync_ != nullptr) ended = std::move(running_sync_->selection);
  running_sync_ = nullptr;
}

}  // namespace tidewheel
