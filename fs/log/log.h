// fs/log/log.h: the journal: takes commits into memory, makes them durable in order, whole checkpoints at a
// time, and says when.
//
//   reserve() -> commit() [-> roll() -> commit() ...] -> end()        a transaction
//   commit() answers a sequence; force(sequence) returns when it is on stable storage      fsync
//
//   committers -> Cil -> (worker) closes it -> records in log buffers -> device -> (completion thread) items
//   enter the AIL, are unpinned, and the tail that the records carried frees log space
//
// One worker writes checkpoints, one after the other, so that they start and commit in the order of their
// sequences by construction; it waits for no I/O but for a free buffer, so that several are in flight. Each
// checkpoint has records of its own (docs/decisions/log-records.md): the last, which holds the commit
// operation, is the commit point. It is written after a flush that covers everything before it, and is
// itself stable when its write completes: one flush per checkpoint.
//
// Group commit: a force alone does not close the open checkpoint while a commit record is under way, since
// its own could not be submitted before that has been written. Whoever forces meanwhile shares the next one.
//
// The tail is sampled before that flush, so that what the AIL brought home by then is durable before the
// record that says so. Log space becomes free only when a record with the new tail is stable: nothing that
// an on-disk tail still covers is ever overwritten. Where somebody waits for space and no checkpoint is to
// be written, a record without operations publishes the tail.
//
// Owns:      its buffers, its worker and completion thread, the open checkpoint and those in flight.
// Threads:   every method from any thread; start(), unmount() and the destructor by the mount alone. Items
//            are told on the completion thread (log_item.h).
// Locks:     lock_ (kIclog): what is to be written, what is stable. Its parts' own: grant.h, cil.h, iclog.h.
// Units:     bytes; LSNs in sectors.
// Errors:    kShutDown once a write has failed or shut_down() was called: reservations are refused, forces
//            end, what was not stable is aborted (LogItem::unpin(true)). Commits of transactions that are
//            under way still succeed, and are aborted with the rest.
// Invariant: (1) stable_sequence() rises by one checkpoint at a time; (2) at rest (no ticket out, nothing in
//            the CIL or in flight) both grant heads count what lies between tail and head, and own space;
//            (3) the worker never waits for log space: a checkpoint brings its own.
// Progress:  a reservation that waits makes the worker close the open checkpoint, tells the AIL how much must
//            become free, and has the tail published when it has moved: docs/log.md.
// Source:    delayed logging in the manner of XFS, from public documentation; its later forms (order ids,
//            byte grant heads, one flush per checkpoint, whiteouts).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "base/result.h"
#include "base/sync.h"
#include "base/thread.h"
#include "base/time.h"
#include "fs/ail/ail.h"
#include "fs/format/log_sizes.h"
#include "fs/log/cil.h"
#include "fs/log/grant.h"
#include "fs/log/iclog.h"

namespace tidewheel {

struct LogOptions {
  std::uint32_t buffers = 8;
  std::uint32_t buffer_bytes = disk::kDefaultLogBufferBytes;  // a multiple of the write unit
  std::uint64_t soft_bytes = 0;             // 0: disk::soft_checkpoint_bytes()
  Duration worker_interval = seconds(30);   // the age at which metadata is written; 0, Duration::max(): never
  MemoryBudget* budget = nullptr;           // charged for images (kLog); null: only bounded
  Duration memory_patience = seconds(10);   // how long a reservation waits for the budget
};

// Where the log goes on: from mkfs or recovery.
struct LogPosition {
  Lsn tail;                       // everything before it is at home
  Lsn head;                       // of the next record
  std::uint32_t previous_sector = UINT32_MAX;
  std::uint64_t next_sequence = 1;
};

// Told once when the log has died, on the thread that noticed; takes no lock of the log's callers. Items are
// aborted only when it has returned: from then on nothing may go home.
class LogShutdownListener {
 public:
  virtual void log_shut_down(Error error) = 0;

 protected:
  ~LogShutdownListener() = default;
};

struct LogStats {
  CilStats cil;
  IclogStats buffers;
  FlushTicketStats flushes;
  std::uint64_t forces = 0, checkpoints = 0, tail_records = 0, throttled = 0, waits_for_space = 0;
  std::uint64_t aborted_checkpoints = 0;
  std::uint64_t waits_for_memory = 0;
};

class Log final : public LogForcer, public TailListener, private GrantHead::Queued, private RecordOwner {
 public:
  Log(BlockDevice& device, const LogPlace& place, const LogPosition& position, const LogOptions& options,
      LogShutdownListener& listener);
  // After unmount() or shut_down(). No ticket is out.
  ~Log();
  // The AIL exists now; it ends after stop() or the destructor.
  void start(Ail& ail);

  // ---- transactions ----
  // Space for `units` commits of up to payload_bytes each (LogItem sizes, operation headers included). Waits
  // for space: no object that pins the tail may be held. `rolls`: roll() will be called.
  // It waits for memory, too, while images take as much as they may (docs/log.md).
  // kNoSpace: more than half of the log could ever give; kNoMemory: the budget has had nothing for so long;
  // kShutDown.
  Result<LogTicket> reserve(std::uint32_t payload_bytes, std::uint32_t units, bool rolls) TW_EXCLUDES(lock_);
  // Answers the sequence for force(). May wait, with nothing held, until a checkpoint that is full is closed.
  std::uint64_t commit(std::span<LogItem* const> items, LogTicket& ticket) TW_EXCLUDES(lock_);
  // Gives back what the last commit left and takes the next unit: one that was reserved, else it waits,
  // before all who have not begun. What the caller keeps locked meanwhile it must relog with the next commit.
  // For memory it does not wait: it holds objects. A chain of any length stays within memory_limit_bytes(),
  // and what each thread has reserved, all the same, for its commits wait as all do: the open checkpoint
  // takes two parts of the five, then they wait for the switch, which the worker makes when the one before
  // has been laid out, and its images are spare.
  Result<void> roll(LogTicket& ticket) TW_EXCLUDES(lock_);
  void end(LogTicket& ticket);

  // ---- durability ----
  // Returns when the checkpoint with this sequence, which a commit has answered, is on stable storage. 0: at
  // once.
  Result<void> force(std::uint64_t sequence) TW_EXCLUDES(lock_);
  // The same for everything committed before the call.
  Result<void> force_all() { return force(cil_.last_used_sequence()); }
  void force(ForceMode mode) override;  // LogForcer
  std::uint64_t stable_sequence() const TW_EXCLUDES(lock_);
  // For data on the log's device, which is written in place: a ticket is taken when the write has completed,
  // and flush() returns when it is durable. The flush before a commit record serves as well: an fsync that
  // commits (ticket, commit, force, flush) sends none of its own.
  FlushTicket flush_ticket() const { return tickets_.take(); }
  Result<void> flush(FlushTicket ticket) { return tickets_.flush(ticket); }

  // ---- life ----
  // Writes the record that says that nothing is to be recovered. Everything has been forced, the AIL is
  // empty, no ticket is out. The log takes no more reservations.
  Result<void> unmount() TW_EXCLUDES(lock_);
  // Nothing more is written. Harmless twice.
  void shut_down(Error error) TW_EXCLUDES(lock_);
  bool is_shut_down() const { return dead_.load(std::memory_order_acquire); }
  // Ends the threads: what is in flight is waited for; after a shutdown, what has been committed is aborted.
  void stop() TW_EXCLUDES(lock_);

  // ---- where it stands ----
  // Charged for images ahead of their use, and the most that ever is.
  std::int64_t memory_charged_bytes() const { return memory_charged_.load(std::memory_order_relaxed); }
  std::int64_t memory_limit_bytes() const { return memory_limit_; }
  const Cil& cil() const { return cil_; }
  Lsn published_tail() const TW_EXCLUDES(lock_);
  Lsn head() const TW_EXCLUDES(lock_);
  std::uint64_t size_bytes() const { return std::uint64_t{place_.sectors} * kLogSectorBytes; }
  // Bytes that tickets hold, by each head; 0 at rest.
  std::int64_t reserve_granted_bytes() const;
  std::int64_t write_granted_bytes() const;
  LogStats stats() const TW_EXCLUDES(lock_);

 private:
  static constexpr std::int64_t kTailRecordBytes = disk::kLogWriteUnitBytes;
  static constexpr std::int64_t kOwnBytes = 4 * kTailRecordBytes;  // for tail and unmount records

  // GrantHead::Queued, RecordOwner, TailListener
  void space_wanted() override;
  void tail_moved() override;
  void commit_record_written() override;
  void record_retired(Iclog& record, bool stable) override;
  void record_failed(Error error) override;

  // ---- the worker (log_worker.cc) ----
  enum class Task : std::uint8_t { kCheckpoint, kTailRecord, kUnmount, kStop };
  void run_worker();
  Task next_task() TW_EXCLUDES(lock_);
  bool task_locked(Task& task) TW_REQUIRES(lock_);
  bool force_closes_locked() const TW_REQUIRES(lock_);
  void look_for_space() TW_EXCLUDES(lock_);
  Lsn tail_for(std::uint64_t need_bytes) const TW_EXCLUDES(lock_);
  bool tail_record_pays_locked(Lsn tail) const TW_REQUIRES(lock_);
  void tick() TW_EXCLUDES(lock_);
  void want_locked(std::uint64_t sequence) TW_REQUIRES(lock_);
  void want_forced_locked(std::uint64_t sequence) TW_REQUIRES(lock_);
  void write_next_checkpoint() TW_EXCLUDES(lock_);
  void write_tail_record() TW_EXCLUDES(lock_);
  void write_unmount_record() TW_EXCLUDES(lock_);
  void lay_out(Iclog& record) TW_EXCLUDES(lock_);
  class OperationStream;

  // ---- completion (log_completion.cc) ----
  void end_checkpoint(Checkpoint& checkpoint, bool stable);
  void publish_tail(Lsn tail, std::int64_t own_bytes) TW_EXCLUDES(lock_);
  std::int64_t granted_bytes(const GrantHead& head) const TW_EXCLUDES(lock_);
  void give_back(std::int64_t bytes);

  // ---- memory (log_memory.cc) ----
  bool memory_admits() const {
    return cil_.memory_bytes() + memory_margin_ <= memory_charged_.load(std::memory_order_relaxed);
  }
  Result<void> wait_for_memory() TW_EXCLUDES(lock_);
  bool charge_step_locked() TW_REQUIRES(lock_);
  void give_memory_back_locked() TW_REQUIRES(lock_);

  // ---- constant after start() ----
  const LogPlace place_;
  const LogOptions options_;
  LogShutdownListener& listener_;
  Ail* ail_ = nullptr;

  GrantHead reserve_head_;
  GrantHead write_head_;
  FlushTickets tickets_;
  std::unique_ptr<IclogRing> ring_;
  const RecordCosts costs_;
  const CilLimits limits_;
  Cil cil_;
  const std::uint64_t early_close_bytes_;  // a force closes so large a checkpoint at once
  const std::int64_t memory_limit_;
  const std::int64_t memory_step_;    // charged at a time
  const std::int64_t memory_margin_;  // what the count of images may lag behind

  Atomic<bool> dead_{false};  // acquire and release: who sees it sees why
  Atomic<bool> unmounted_{false};  // release in unmount(), acquire in reserve()
  Atomic<std::uint64_t> forces_{0};
  Atomic<std::int64_t> memory_charged_{0};  // relaxed: a sum

  // ---- under lock_ ----
  alignas(kCacheLine) mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankIclog) TW_ACQUIRED_BEFORE(kRankAil);
  Lsn head_ TW_GUARDED_BY(lock_);               // moved by the worker alone
  std::uint32_t previous_sector_ TW_GUARDED_BY(lock_);
  Lsn published_tail_ TW_GUARDED_BY(lock_);     // in a record that is stable
  std::uint64_t wanted_sequence_ TW_GUARDED_BY(lock_) = 0;  // checkpoints up to this are to be closed at once
  std::uint64_t forced_sequence_ TW_GUARDED_BY(lock_) = 0;  // the same, once no commit record is under way
  std::uint32_t commit_records_ TW_GUARDED_BY(lock_) = 0;   // laid out and not written, tail records too
  std::uint64_t stable_sequence_ TW_GUARDED_BY(lock_);
  std::uint64_t closed_sequence_ TW_GUARDED_BY(lock_);      // the last that was closed
  bool tail_record_in_flight_ TW_GUARDED_BY(lock_) = false;
  bool tail_record_wanted_ TW_GUARDED_BY(lock_) = false;
  bool space_asked_ TW_GUARDED_BY(lock_) = false;  // somebody waits for space, or there may be some
  bool need_told_ TW_GUARDED_BY(lock_) = false;    // the AIL pushes for those who wait
  bool unmount_wanted_ TW_GUARDED_BY(lock_) = false;
  bool unmount_stable_ TW_GUARDED_BY(lock_) = false;
  bool stopping_ TW_GUARDED_BY(lock_) = false;
  bool told_ TW_GUARDED_BY(lock_) = false;  // the listener knows that the log is dead
  std::uint64_t checkpoints_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t aborted_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t tail_records_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t throttled_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t waits_for_memory_ TW_GUARDED_BY(lock_) = 0;
  CondVar worker_;   // there is something for the worker
  CondVar changed_;  // stable_sequence_, closed_sequence_, or the log has died

  std::vector<LogItem*> entering_;  // the completion thread's: items on their way into the AIL
  Instant tick_at_;                 // the worker's
  Thread thread_;
};

}  // namespace tidewheel
