// The worker: closes checkpoints and lays them out as records, publishes tails, ages what is in memory.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread_state.h"
#include "fs/log/log.h"

namespace tidewheel {

// Operations into records, as many as they fill. The record that takes the commit operation is the last.
class Log::OperationStream {
 public:
  OperationStream(Log& log, Checkpoint& checkpoint)
      : log_(log), checkpoint_(checkpoint), record_(&log.ring_->acquire()) {}

  void add(std::uint8_t flags, std::span<const std::byte> bytes) {
    std::uint8_t continued = 0;
    for (;;) {
      if (record_->room_bytes() <= sizeof(disk::LogOp)) next_record();
      const std::size_t room = record_->room_bytes() - sizeof(disk::LogOp);
      const std::size_t some = std::min(room, bytes.size());
      const std::uint8_t continues = some < bytes.size() ? disk::kOpContinues : 0;
      append(flags | continued | continues, bytes.first(some));
      bytes = bytes.subspan(some);
      if (bytes.empty()) return;
      continued = disk::kOpContinued;
    }
  }
  // In one piece.
  void add_whole(std::uint8_t flags, std::span<const std::byte> bytes) {
    if (record_->room_bytes() < sizeof(disk::LogOp) + bytes.size()) next_record();
    append(flags, bytes);
  }
  Iclog& last() { return *record_; }
  void count(const Iclog& record) {
    checkpoint_.granted_bytes -= static_cast<std::int64_t>(record.bytes());
    TW_ASSERT(checkpoint_.granted_bytes >= 0, "a checkpoint takes more log space than its tickets gave");
  }

 private:
  void append(unsigned flags, std::span<const std::byte> bytes) {
    const auto checkpoint = static_cast<std::uint32_t>(checkpoint_.sequence);
    record_->append(checkpoint, static_cast<std::uint8_t>(flags), bytes);
  }
  void next_record() {
    log_.lay_out(*record_);
    count(*record_);
    log_.ring_->seal(*record_);
    record_ = &log_.ring_->acquire();
  }

  Log& log_;
  Checkpoint& checkpoint_;
  Iclog* record_;
};

void Log::run_worker() {
  this_thread_state().frees_log_space = true;
  const Duration interval = options_.worker_interval;
  const bool ticks = interval.ns > 0 && interval != Duration::max();
  tick_at_ = ticks ? SteadyClock::instance().now() + interval : Instant::max();
  for (;;) {
    switch (next_task()) {
      case Task::kCheckpoint:
        write_next_checkpoint();
        break;
      case Task::kTailRecord:
        write_tail_record();
        break;
      case Task::kUnmount:
        write_unmount_record();
        break;
      case Task::kStop:
        return;
    }
  }
}

// The commit record of what is closed now would wait for those under way, and whoever forces meanwhile would
// need another one. A large checkpoint is closed all the same: its other records need not wait.
bool Log::force_closes_locked() const {
  return commit_records_ == 0 || cil_.open_bytes() >= early_close_bytes_;
}

bool Log::task_locked(Task& task) {
  if (wanted_sequence_ > closed_sequence_ ||
      (forced_sequence_ > closed_sequence_ && force_closes_locked())) {
    task = Task::kCheckpoint;
  } else if (tail_record_wanted_ && !is_shut_down()) {
    task = Task::kTailRecord;
  } else if (unmount_wanted_ && !is_shut_down()) {
    task = Task::kUnmount;
  } else {
    return false;
  }
  return true;
}

Log::Task Log::next_task() {
  bool ends = false;  // dead or stopping, before the CIL was looked into
  for (;;) {
    // Outside lock_: the CIL's context stands above it.
    const std::uint64_t last_used = ends ? cil_.settled_sequence() : cil_.last_used_sequence();
    bool look = false;
    bool ticked = false;
    {
      MutexLock hold(lock_);
      // Nobody waits for what a dead log holds, and a log that stops leaves nothing behind. What was
      // committed between the look and the end has woken nobody: only a look after the end sees all.
      if (!ends && (is_shut_down() || stopping_)) {
        ends = true;
        continue;
      }
      if (ends) want_locked(last_used);
      Task task{};
      if (task_locked(task)) return task;
      if (stopping_) return Task::kStop;
      look = space_asked_ && !is_shut_down();
      space_asked_ = false;
      if (!look) {
        const bool dead = is_shut_down();
        if (tick_at_ == Instant::max() || dead) {
          worker_.wait(lock_, CondVar::For::kWork);
        } else if (SteadyClock::instance().now() < tick_at_) {
          worker_.wait_until(lock_, tick_at_);
        } else {
          ticked = true;
        }
      }
    }
    if (look) look_for_space();
    if (ticked) tick();
  }
}

// Metadata is not left in memory for longer than this, and an idle log is left with little to recover.
void Log::tick() {
  tick_at_ = SteadyClock::instance().now() + options_.worker_interval;
  const std::uint64_t last_used = cil_.last_used_sequence();
  ail_->push_all();
  const Lsn tail = ail_->tail_lsn();
  MutexLock hold(lock_);
  if (last_used > closed_sequence_) {
    want_locked(last_used);
  } else {
    tail_record_wanted_ = tail_record_pays_locked(tail);
  }
}

// Somebody waits for log space, or did. Space comes back as tickets end, by itself; as the tail moves, when
// that has been published; and from the open checkpoint, when it has been written and its items are home.
void Log::look_for_space() {
  const std::uint64_t need = std::max(reserve_head_.first_need_bytes(), write_head_.first_need_bytes());
  ail_->set_needed_tail(need == 0 ? kNoLsn : tail_for(need));
  const std::uint64_t last_used = cil_.last_used_sequence();
  const Lsn tail = ail_->tail_lsn();
  MutexLock hold(lock_);
  need_told_ = need != 0;
  if (need == 0) return;
  // A record of a checkpoint in flight publishes as well, and its end looks again.
  if (closed_sequence_ != stable_sequence_ || tail_record_in_flight_) return;
  if (tail_record_pays_locked(tail)) {
    tail_record_wanted_ = true;
  } else if (last_used > closed_sequence_) {
    want_locked(last_used);
  }
}

// Where the tail must be for so many bytes to fit beside what tickets hold.
Lsn Log::tail_for(std::uint64_t need_bytes) const {
  const std::int64_t granted = reserve_granted_bytes();
  MutexLock hold(lock_);
  const auto in_use = static_cast<std::int64_t>(log_distance_bytes(published_tail_, head_, place_.sectors));
  const std::int64_t may_use =
      static_cast<std::int64_t>(size_bytes()) - kOwnBytes - granted - static_cast<std::int64_t>(need_bytes);
  if (in_use <= may_use) return kNoLsn;
  // The record that publishes the tail takes some of what it frees.
  const std::int64_t too_many = in_use - std::max<std::int64_t>(may_use, 0) + kTailRecordBytes;
  const std::uint64_t sectors = static_cast<std::uint64_t>(too_many) / kLogSectorBytes;
  return log_advance(published_tail_, sectors + 1, place_.sectors);
}

// Whether a record without operations would free more than it takes, alone or with the one after it. Nothing
// else is on its way that could publish the tail first.
bool Log::tail_record_pays_locked(Lsn tail) const {
  if (closed_sequence_ != stable_sequence_ || tail_record_in_flight_) return false;
  if (log_distance_bytes(published_tail_, tail, place_.sectors) > kTailRecordBytes) return true;
  // All is home, and the tail is the start of the newest checkpoint. A record becomes the tail itself when it
  // is stable, and the next one says so: two free the newest checkpoint, where nobody could commit another.
  return ail_->empty() && log_distance_bytes(published_tail_, head_, place_.sectors) > 2 * kTailRecordBytes;
}

void Log::space_wanted() {
  MutexLock hold(lock_);
  space_asked_ = true;
  worker_.notify_one();
}

void Log::tail_moved() {
  if (!reserve_head_.has_waiters() && !write_head_.has_waiters()) return;
  space_wanted();
}

// Gives the record its place and its tail. Only the worker moves the head.
void Log::lay_out(Iclog& record) {
  Lsn lsn;
  Lsn tail;
  std::uint32_t previous = 0;
  // What has come home by now is durable once the flush that precedes this record is over; without a flush
  // only what an earlier record has said already.
  const Lsn sampled = ail_->tail_lsn();
  {
    MutexLock hold(lock_);
    lsn = head_;
    tail = record.flushes ? sampled : published_tail_;
    previous = previous_sector_;
  }
  record.finish(place_, lsn, tail, previous);
  MutexLock hold(lock_);
  head_ = log_advance(lsn, record.sectors(), place_.sectors);
  previous_sector_ = lsn.block();
  if (record.flushes) ++commit_records_;
}

void Log::write_next_checkpoint() {
  std::unique_ptr<Checkpoint> checkpoint = cil_.close();
  TW_ASSERT(checkpoint != nullptr, "a checkpoint is to be closed that holds nothing");
  {
    MutexLock hold(lock_);
    closed_sequence_ = checkpoint->sequence;
    changed_.notify_all();
    checkpoint->start = head_;
  }
  if (is_shut_down()) {
    ring_->wait_idle();  // items are told by one thread at a time
    give_back(checkpoint->granted_bytes);
    end_checkpoint(*checkpoint, false);
    return;
  }

  OperationStream stream(*this, *checkpoint);
  disk::LogCheckpoint start{};
  start.magic = disk::kLogCheckpointMagic;
  std::uint32_t written = 0;
  for (const auto& entry : checkpoint->entries) {
    // An item may go with a checkpoint without anything in the log (an ordered buffer).
    written += entry->whiteout || entry->image->used == 0 ? 0 : 1;
  }
  start.item_count = written;
  start.sequence = checkpoint->sequence;
  stream.add_whole(disk::kOpStart, std::as_bytes(std::span(&start, 1)));
  for (const auto& entry : checkpoint->entries) {
    if (entry->whiteout) continue;
    const LogImage& image = *entry->image;
    for (std::uint32_t at = 0; at < image.used;) {
      const auto& op = *reinterpret_cast<const disk::LogOp*>(image.data() + at);
      at += LogVectorWriter::kOpBytes;
      stream.add(op.flags, {image.data() + at, op.bytes});
      at += op.bytes;
    }
  }
  cil_.written(*checkpoint);
  disk::LogCommit commit{};
  commit.sequence = checkpoint->sequence;
  commit.start_lsn = checkpoint->start.value;
  stream.add_whole(disk::kOpCommit, std::as_bytes(std::span(&commit, 1)));

  // The commit point: when this record is stable, all of the checkpoint is, and before that none of it.
  Iclog& last = stream.last();
  last.flushes = true;
  lay_out(last);
  stream.count(last);
  give_back(std::exchange(checkpoint->granted_bytes, 0));
  last.ends = std::move(checkpoint);
  ring_->seal(last);
}

void Log::write_tail_record() {
  const Lsn tail = ail_->tail_lsn();
  {
    MutexLock hold(lock_);
    tail_record_wanted_ = false;
    // A checkpoint that was closed meanwhile publishes the tail as well, and when it ends it is looked again.
    if (!tail_record_pays_locked(tail)) return;
    tail_record_in_flight_ = true;
    ++tail_records_;
  }
  Iclog& record = ring_->acquire();
  record.flushes = true;
  record.purpose = Iclog::Purpose::kTail;
  lay_out(record);
  ring_->seal(record);
}

void Log::write_unmount_record() {
  disk::LogUnmount unmount{};
  unmount.magic = disk::kLogUnmountMagic;
  {
    MutexLock hold(lock_);
    unmount_wanted_ = false;
    unmount.next_sequence = closed_sequence_ + 1;
  }
  Iclog& record = ring_->acquire();
  record.append(0, disk::kOpUnmount, std::as_bytes(std::span(&unmount, 1)));
  record.flushes = true;
  record.purpose = Iclog::Purpose::kUnmount;
  lay_out(record);
  // It lies in own space, for good: what is own stays own. Nobody can be waiting.
  reserve_head_.take_unchecked(kTailRecordBytes);
  write_head_.take_unchecked(kTailRecordBytes);
  ring_->seal(record);
}

}  // namespace tidewheel
