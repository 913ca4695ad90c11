// Completion: records become stable in order; their checkpoints' items go to the AIL; tails free space.
#include "base/assert.h"
#include "fs/log/log.h"

namespace tidewheel {

// Before the items of its checkpoint are told, who may be many: the next one is laid out meanwhile.
void Log::commit_record_written() {
  MutexLock hold(lock_);
  TW_ASSERT(commit_records_ != 0, "a commit record is written that was not laid out");
  --commit_records_;
  if (forced_sequence_ > closed_sequence_) worker_.notify_one();
}

void Log::record_retired(Iclog& record, bool stable) {
  const bool tail_record = record.purpose == Iclog::Purpose::kTail;
  if (stable && record.flushes) publish_tail(record.tail(), tail_record ? kTailRecordBytes : 0);
  if (record.ends != nullptr) {
    const std::unique_ptr<Checkpoint> checkpoint = std::move(record.ends);
    end_checkpoint(*checkpoint, stable);
    return;
  }
  if (record.purpose == Iclog::Purpose::kCheckpoint) return;
  if (tail_record && !stable) {
    // It has its place in own space, and frees nothing that this could be taken back from.
    reserve_head_.take_unchecked(kTailRecordBytes);
    write_head_.take_unchecked(kTailRecordBytes);
  }
  // With nothing in the AIL the tail goes on to this very record.
  if (stable && tail_record) ail_->checkpoint_stable(record.lsn());
  MutexLock hold(lock_);
  if (tail_record) {
    tail_record_in_flight_ = false;
    space_asked_ = true;
    worker_.notify_one();
  } else if (stable) {
    unmount_stable_ = true;
    changed_.notify_all();
  }
}

void Log::record_failed(Error error) { shut_down(error); }

// The record that is stable now says that recovery starts at `tail`: what lies before it may be overwritten.
// A tail record has used own space, which is taken back from what it freed, where it frees more.
void Log::publish_tail(Lsn tail, std::int64_t own_bytes) {
  std::int64_t freed = 0;
  {
    MutexLock hold(lock_);
    TW_ASSERT(tail >= published_tail_, "a later record carries an earlier tail");
    freed = static_cast<std::int64_t>(log_distance_bytes(published_tail_, tail, place_.sectors));
    published_tail_ = tail;
    if (need_told_) {
      space_asked_ = true;
      worker_.notify_one();
    }
  }
  if (freed < own_bytes) {
    // The first of two: the second frees what lies before this one.
    reserve_head_.take_unchecked(static_cast<std::uint64_t>(own_bytes - freed));
    write_head_.take_unchecked(static_cast<std::uint64_t>(own_bytes - freed));
  } else {
    give_back(freed - own_bytes);
  }
}

void Log::end_checkpoint(Checkpoint& checkpoint, bool stable) {
  if (!stable) {
    // An item that is unpinned can go home. What will never be in the log must not: the listener is who stops
    // that, and whoever has found the log's end may be on the way to it.
    MutexLock hold(lock_);
    while (!told_) changed_.wait(lock_);
  }
  if (stable) {
    // Before its items: they may be home, and out again, before all of them are in.
    ail_->checkpoint_stable(checkpoint.start);
    entering_.clear();
    for (const auto& entry : checkpoint.entries) {
      if (entry->whiteout) continue;
      const Lsn lsn = entry->item->committed(checkpoint.start);
      if (lsn == checkpoint.start) {
        entering_.push_back(entry->item);
      } else if (lsn != kNeverLsn) {
        LogItem* const one[] = {entry->item};
        ail_->insert(one, lsn);
      }
    }
    ail_->insert(entering_, checkpoint.start);
  }
  for (const auto& entry : checkpoint.entries) {
    if (!stable) entry->item->set(LogItem::kAborted);
    entry->item->unpin(!stable);
  }
  cil_.ended(checkpoint);
  MutexLock hold(lock_);
  give_memory_back_locked();
  if (stable) {
    TW_ASSERT(checkpoint.sequence == stable_sequence_ + 1, "checkpoints become stable out of order");
    stable_sequence_ = checkpoint.sequence;
    ++checkpoints_;
    if (need_told_) {
      space_asked_ = true;
      worker_.notify_one();
    }
  } else {
    ++aborted_;
  }
  changed_.notify_all();
}

}  // namespace tidewheel
