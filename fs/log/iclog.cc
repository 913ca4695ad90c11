#include "fs/log/iclog.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "base/thread_state.h"
#include "fs/format/log_record.h"
#include "fs/log/checkpoint.h"

namespace tidewheel {
namespace {

constexpr std::align_val_t kAlignment{4096};

LockClass iclog_class{"iclog", LockRank::kIclog};
LockClass iclog_completion_class{"iclog-completion", LockRank::kCompletion};

}  // namespace

void Iclog::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

// ---- one buffer ----

void Iclog::append(std::uint32_t checkpoint, std::uint8_t flags, std::span<const std::byte> bytes) {
  TW_DASSERT(sizeof(disk::LogOp) + bytes.size() <= room_bytes(), "a log buffer overflows");
  std::byte* const at = memory_.get() + header_bytes_ + payload_bytes_;
  auto& op = *reinterpret_cast<disk::LogOp*>(at);
  op = disk::LogOp{};
  op.checkpoint = checkpoint;
  op.bytes = static_cast<std::uint32_t>(bytes.size());
  op.flags = flags;
  std::memcpy(at + sizeof op, bytes.data(), bytes.size());
  payload_bytes_ += static_cast<std::uint32_t>(sizeof op + bytes.size());
  ++operations_;
}

void Iclog::finish(const LogPlace& place, Lsn lsn, Lsn tail, std::uint32_t previous_sector) {
  sectors_ = disk::log_record_sectors(payload_bytes_);
  TW_ASSERT(bytes() <= capacity_bytes_, "a record outgrows its buffer");
  lsn_ = lsn;
  tail_ = tail;
  // A short record may need fewer headers than were kept free for a full buffer.
  std::byte* const start = memory_.get();
  std::byte* const payload = start + disk::log_header_sectors(sectors_) * kLogSectorBytes;
  if (payload != start + header_bytes_) std::memmove(payload, start + header_bytes_, payload_bytes_);
  disk::seal_log_record({start, bytes()},
                        {.uuid = place.uuid,
                         .lsn = lsn,
                         .tail_lsn = tail,
                         .payload_bytes = payload_bytes_,
                         .operation_count = operations_,
                         .previous_sector = previous_sector,
                         .buffer_bytes = capacity_bytes_},
                        place.sectors);
}

// ---- the ring ----

IclogRing::IclogRing(BlockDevice& device, FlushTickets& tickets, const LogPlace& place, std::uint32_t buffers,
                     std::uint32_t buffer_bytes, RecordOwner& owner)
    : device_(device),
      tickets_(tickets),
      place_(place),
      owner_(owner),
      buffers_(buffers),
      lock_(iclog_class),
      completion_lock_(iclog_completion_class) {
  TW_ASSERT(buffers >= 2, "a log needs two buffers: one is filled while the other is written");
  for (Iclog& buffer : buffers_) {
    buffer.memory_.reset(static_cast<std::byte*>(::operator new(buffer_bytes, kAlignment)));
    buffer.capacity_bytes_ = buffer_bytes;
    buffer.header_bytes_ = disk::log_header_sectors(buffer_bytes / kLogSectorBytes) * kLogSectorBytes;
    buffer.payload_capacity_ = buffer_bytes - buffer.header_bytes_;
    buffer.ring_ = this;
  }
  completed_.reserve(buffers);
  thread_ = Thread("log-completion", [this] { run_completions(); });
}

IclogRing::~IclogRing() {
  wait_idle();
  {
    MutexLock hold(completion_lock_);
    ending_ = true;
    has_completed_.notify_one();
  }
  thread_.join();
  while (completing_.load(std::memory_order_acquire) != 0) yield_thread();
}

Iclog& IclogRing::acquire() {
  MutexLock hold(lock_);
  Iclog& record = at(next_fill_);
  if (record.state_ != Iclog::State::kFree) ++stats_.waits_for_buffer;
  while (record.state_ != Iclog::State::kFree) retired_.wait(lock_);
  ++next_fill_;
  record.state_ = Iclog::State::kFilling;
  record.failed_ = false;
  record.submitted_ = false;
  record.payload_bytes_ = 0;
  record.operations_ = 0;
  record.flushes = false;
  record.purpose = Iclog::Purpose::kCheckpoint;
  return record;
}

// A record that flushes must find everything before it completed: its flush covers only that.
bool IclogRing::may_submit_locked(const Iclog& record) const {
  if (!record.flushes) return true;
  for (std::uint64_t number = next_retire_; number < next_fill_; ++number) {
    const Iclog& before = at(number);
    if (&before == &record) return true;
    if (before.state_ != Iclog::State::kDone && before.state_ != Iclog::State::kRetiring) return false;
  }
  return true;
}

void IclogRing::seal(Iclog& record) {
  bool ready = false;
  bool failed = false;
  {
    MutexLock hold(lock_);
    TW_ASSERT(record.state_ == Iclog::State::kFilling, "a log buffer is sealed that was not being filled");
    record.state_ = Iclog::State::kSealed;
    failed = failed_;
    ready = !failed && may_submit_locked(record);
    if (ready) begin_write_locked(record);
    ++stats_.records;
    stats_.bytes += record.bytes();
    if (record.flushes) ++stats_.flushes;
  }
  if (ready) submit(record);
  if (failed) {
    MutexLock hold(completion_lock_);
    look_again_ = true;
    has_completed_.notify_one();
  }
}

void IclogRing::begin_write_locked(Iclog& record) {
  record.state_ = Iclog::State::kWriting;
  record.submitted_ = true;
}

void IclogRing::submit(Iclog& record) {
  const std::uint32_t first = std::min(record.sectors_, place_.sectors - record.lsn_.block());
  const std::uint32_t parts = first < record.sectors_ ? 2 : 1;
  record.error_.store(false, std::memory_order_relaxed);
  // Before the first is submitted: it may complete at once.
  record.pending_.store(parts, std::memory_order_release);
  std::uint64_t done_bytes = 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint64_t bytes =
        std::uint64_t{part == 0 ? first : record.sectors_ - first} * kLogSectorBytes;
    record.segments_[part] = {record.memory_.get() + done_bytes, bytes};
    IoRequest& request = record.requests_[part];
    request = IoRequest{};
    request.op = IoOp::kWrite;
    request.cause = IoCause::kLog;
    request.preflush = record.flushes && part == 0;
    request.fua = record.flushes;
    request.offset_bytes =
        place_.offset_bytes + (part == 0 ? std::uint64_t{record.lsn_.block()} * kLogSectorBytes : 0);
    request.segments = {&record.segments_[part], 1};
    request.done = request_done;
    request.owner = &record;
    done_bytes += bytes;
  }
  if (record.flushes) record.flush_number_ = tickets_.began();
  // The last request may complete, and the record be filled anew, before submit() has returned: nothing of
  // the record is touched after its last part.
  for (std::uint32_t part = 0; part < parts; ++part) device_.submit(record.requests_[part]);
}

void IclogRing::request_done(IoRequest& request, Result<void> result) {
  auto& record = *static_cast<Iclog*>(request.owner);
  IclogRing& ring = *record.ring_;
  ring.completing_.fetch_add(1, std::memory_order_relaxed);
  if (!result) record.error_.store(true, std::memory_order_relaxed);
  if (record.pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (record.flushes) {
      ring.tickets_.ended(record.flush_number_, !record.error_.load(std::memory_order_relaxed));
    }
    ring.hand_to_completion(record);
  }
  ring.completing_.fetch_sub(1, std::memory_order_release);
}

void IclogRing::hand_to_completion(Iclog& record) {
  MutexLock hold(completion_lock_);
  completed_.push_back(&record);
  has_completed_.notify_one();
}

void IclogRing::run_completions() {
  this_thread_state().frees_log_space = true;
  std::vector<Iclog*> completed;
  completed.reserve(buffers_.size());
  for (;;) {
    {
      MutexLock hold(completion_lock_);
      while (completed_.empty() && !look_again_ && !ending_) {
        has_completed_.wait(completion_lock_, CondVar::For::kWork);
      }
      if (completed_.empty() && !look_again_) return;
      look_again_ = false;
      completed.swap(completed_);
    }
    settle(completed);
    completed.clear();
    retire();
  }
}

// Notes what has completed, and submits the record that waited for it.
void IclogRing::settle(std::vector<Iclog*>& completed) {
  Iclog* ready = nullptr;
  bool tell = false;
  std::uint32_t flushed = 0;
  {
    MutexLock hold(lock_);
    for (Iclog* const record : completed) {
      record->state_ = Iclog::State::kDone;
      if (record->error_.load(std::memory_order_relaxed)) failed_ = true;
      if (record->flushes && !failed_) ++flushed;
    }
    // Behind a hole nothing can be found by recovery, however well it was written.
    bool hole = false;
    for (std::uint64_t number = next_retire_; number < next_fill_ && failed_; ++number) {
      Iclog& record = at(number);
      if (record.state_ == Iclog::State::kSealed) record.state_ = Iclog::State::kDone;
      if (record.state_ == Iclog::State::kDone) {
        hole = hole || !record.submitted_ || record.error_.load(std::memory_order_relaxed);
      }
      record.failed_ = record.failed_ || hole;
    }
    if (failed_ && !told_failure_) tell = told_failure_ = true;
    for (std::uint64_t number = next_retire_; number < next_fill_ && !failed_; ++number) {
      Iclog& record = at(number);
      if (record.state_ == Iclog::State::kDone) continue;
      if (record.state_ == Iclog::State::kSealed) {
        begin_write_locked(record);
        ready = &record;
      }
      break;
    }
  }
  if (tell) owner_.record_failed(Error{Reason::kIo, static_cast<std::uint16_t>(__LINE__), 0});
  if (ready != nullptr) submit(*ready);
  for (; flushed != 0; --flushed) owner_.commit_record_written();
}

void IclogRing::retire() {
  for (;;) {
    Iclog* record = nullptr;
    bool stable = false;
    {
      MutexLock hold(lock_);
      if (next_retire_ == next_fill_ || at(next_retire_).state_ != Iclog::State::kDone) return;
      record = &at(next_retire_);
      record->state_ = Iclog::State::kRetiring;
      stable = !record->failed_;
    }
    owner_.record_retired(*record, stable);
    MutexLock hold(lock_);
    record->state_ = Iclog::State::kFree;
    ++next_retire_;
    retired_.notify_all();
  }
}

void IclogRing::fail() {
  {
    MutexLock hold(lock_);
    failed_ = true;
    told_failure_ = true;  // who calls knows
  }
  MutexLock hold(completion_lock_);
  look_again_ = true;
  has_completed_.notify_one();
}

void IclogRing::wait_idle() {
  MutexLock hold(lock_);
  while (next_retire_ != next_fill_) retired_.wait(lock_);
}

IclogStats IclogRing::stats() const {
  MutexLock hold(lock_);
  return stats_;
}

}  // namespace tidewheel
