// writeback/context.h: one target's dirty objects with what writes them: list, batches, flushers, syncs.
// Owns:      its list, its table of batches, its flushers.
// Threads:   all methods from any thread, those of the sync run named for flushers from the flusher that
//            runs it. Contexts share nothing but the engine's byte counts: a dead target hangs its own
//            context only.
// Locks:     lock_ (kContext): batches in flight, syncs. Not held while list or target are called.
// Units:     bytes; nanoseconds of the engine's clock.
// Invariant: (1) a batch is `active` from before its first claim until after its last end_write, so that
//            what a sync does not find on the list it finds in an active batch; (2) armed_ is false only
//            while a flusher sleeps that a new listing must wake.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/sync.h"
#include "writeback/byte_counts.h"
#include "writeback/dirty_list.h"
#include "writeback/engine.h"
#include "writeback/error_sequence.h"
#include "writeback/object_waiters.h"

namespace tidewheel {

class Flusher;

// A batch of one, for fsync: written and ended on the thread that called it.
struct FsyncBatch {
  Batch batch;
  CondVar done;
  bool completed = false;  // under the context's lock_
};

// One pass over everything dirty at t0, for every caller of sync() who came before it began.
//   queued --begin_sync--> writing --end_sync--> written --a caller flushes--> flushing --> done
struct SyncRun {
  enum class State : std::uint8_t { kQueued, kWriting, kWritten, kFlushing, kDone };
  State state = State::kQueued;
  Instant t0 =
      Instant::min();  // the latest of its callers' moments; then the selection's, which is not before
  Error error;                  // the first
  std::uint64_t sequence = 0;   // batches before this were active when the selection was made
  std::uint64_t came_back = 0;  // batches that have put back, or ended with, something dirty since t0
  std::uint32_t held = 0;       // by sync_all(), until every context of the target has been told
  bool waiting = false;         // nothing to claim until a batch ends
  bool for_policy = false;      // nobody has called: a work policy's drain
  std::uint32_t busy_passes = 0;  // in a row, that met only busy objects
  Instant retry_at = Instant::max();  // not before this, after such a pass
  Flusher* flusher = nullptr;
  std::unique_ptr<Selection> selection;  // the flusher's
};

class WritebackContext {
 public:
  // Batches for fsync, beside the flushers': so many objects are fsynced at once, more wait their turn.
  static constexpr std::uint32_t kFsyncBatches = 64;

  WritebackContext(WritebackEngine& engine, WritebackTarget& target, const ContextOptions& options,
                   std::uint16_t id, std::unique_ptr<DirtyList> list);
  ~WritebackContext();

  std::uint16_t id() const { return id_; }
  const std::string& name() const { return name_; }
  WritebackEngine& engine() { return engine_; }
  WritebackTarget& target() { return target_; }
  BackingDevice& device() { return *device_; }
  const BackingDevice& device() const { return *device_; }
  DirtyList& list() { return *list_; }
  const DirtyList& list() const { return *list_; }
  const ByteCounts& counts() const { return counts_; }
  ErrorWord& write_errors() { return write_errors_; }
  std::span<const std::unique_ptr<Flusher>> flushers() const { return flushers_; }
  // For a failing context: nothing that is dirty waits for its first write, or is being written. Where
  // failures are filed among the rest (no back-off): there were twice as many failures lately as it has
  // objects.
  bool all_tried(std::uint64_t failures) const;
  // Its own thresholds; ContextOptions::kNone: it has none.
  std::uint64_t background_bytes() const { return background_bytes_; }
  std::uint64_t dirty_limit_bytes() const { return dirty_limit_bytes_; }
  // As a throttle is told of them; 0 where it has none.
  ThrottleLimits own_limits() const {
    if (dirty_limit_bytes_ == ContextOptions::kNone) return {};
    return {background_bytes_, dirty_limit_bytes_};
  }
  // What lies above its own background threshold and is not claimed yet.
  std::uint64_t own_excess_bytes() const;
  // Who has its objects now that it is retired; null: itself.
  WritebackContext* heir() const { return heir_.load(std::memory_order_seq_cst); }
  // The least stamp of all its objects that are listed, on the ladder or in batches until their write has
  // ended, exactly: DirtyList::oldest_stamp() says what that means beside writers and flushers. What waits on
  // the ring of timestamps doesn't count. Takes every shard's lock; not to be called under one of rank
  // kContext or below, nor in what the target does for begin_switch() or end_switch().
  Instant oldest_dirty() const;

 private:
  friend class WritebackEngine;
  friend class Flusher;
  friend class OwnerSwitch;

  // ---- owners (owner.cc) ----
  // Files what the caller has claimed for `batch` in another context; false: a sync waits for it here, so it
  // was put back.
  bool hand_over(Batch& batch, DirtyObject& object, WritebackContext& to, Instant now);
  // What is stamped at or before this must not leave: a sync that was called has to find it here.
  Instant sync_covers() const TW_REQUIRES(lock_);
  DirtyList::EndWrite end_write(WriteSlot& slot, WorkKind kind, Instant now);
  bool drained_for_heir();
  void tick_at_once();

  // ---- batches (context_batches.cc) ----
  FsyncBatch* acquire_fsync_batch();  // may wait; null: the context ends
  void release_fsync_batch(FsyncBatch& fsync);
  void begin_batch(Batch& batch, WorkKind kind);
  void settle_batch(Batch& batch, Instant oldest);  // all is claimed: these are its objects
  // Writes what was claimed. On return the target has it, and complete() may have come already.
  void submit_batch(Batch& batch, Instant now);
  // After complete(): tells the target, ends each object's write, wakes, counts, makes it inactive.
  // True: something was written, or waits for a back-off; the same work won't meet just the same again.
  bool finish_batch(Batch& batch, Instant now);
  void end_batch(Batch& batch, bool objects_came_back);
  // Of a batch: whether anything was written, what failed if something did, and whether it had failed before.
  void note_outcome(bool wrote, Error failed, bool failed_again, Instant now);
  void wake(const DirtyObject* object) { object_waiters_.wake(object); }
  void put_back(Batch& batch, DirtyObject& object, Instant now);
  static void complete_fsync(Batch& batch);

  // ---- arming ----
  // An object was listed: wakes the flushers if they count on being told.
  void note_listed() {
    if (!armed_.load(std::memory_order_seq_cst)) arm();
  }
  // Something was put on the ring of timestamps: the same.
  void note_lazy() {
    if (!lazy_armed_.load(std::memory_order_seq_cst)) arm_lazy();
  }
  void arm();
  void arm_lazy() {
    if (!lazy_armed_.exchange(true, std::memory_order_seq_cst)) kick();
  }
  void kick();

  // ---- sync (context_sync.cc) ----
  Result<void> sync(ErrorCursor* handle, Instant deadline);
  // The two halves of sync_all(): the run that covers what is dirty now, held; null: no more syncs here.
  std::shared_ptr<SyncRun> announce_sync();
  void release_sync(SyncRun& run);
  Error await_written(SyncRun& run);
  // False: the object belongs to another context by now.
  bool fsync(DirtyObject& object, ErrorCursor* handle, Result<void>& result);
  Result<void> write_one(DirtyObject& object, bool& elsewhere);
  void run_fsync_batch(FsyncBatch& fsync, DirtyObject& object);
  // For the flusher at `now`: whether a sync is there for it; if none is running a queued one begins.
  bool sync_ready(Flusher& flusher, Instant now, Instant& retry_at);
  std::uint64_t came_back() const;
  Selection* sync_selection() const;
  void sync_found_nothing(Flusher& flusher, std::uint64_t came_back_before);
  // A sync that nobody waits for, of everything dirty now.
  void begin_drain();
  void sync_failed(const WriteSlot& slot);
  void sync_wrote(bool progress, Instant now);
  // Who waits in sync(), or in fsync() for its turn, is sent away; the flushers begin nothing more. Waits for
  // nothing.
  void end_waits();
  // Ends the flushers (waiting for what is in flight), and waits for those in sync() or fsync(). Who comes
  // second waits until the first is done.
  void retire();
  void drop_running_sync();
  bool matters_to_sync(const Batch& batch) const TW_REQUIRES(lock_);
  void finish_sync(Error error) TW_REQUIRES(lock_);
  void raise_reclaim(std::uint64_t bytes);

  // ---- constant after construction ----
  WritebackEngine& engine_;
  WritebackTarget& target_;
  const std::string name_;
  const std::uint16_t id_;
  const std::unique_ptr<DirtyList> list_;
  const std::shared_ptr<BackingDevice> device_;
  const std::uint64_t dirty_limit_bytes_;
  const std::uint64_t background_bytes_;
  const std::unique_ptr<DirtyAllowance> allowance_;  // null: no threshold of its own
  std::vector<std::unique_ptr<Batch>> batches_;  // the flushers'
  std::vector<std::unique_ptr<FsyncBatch>> fsync_batches_;
  std::vector<Batch*> batch_table_;
  std::vector<std::unique_ptr<Flusher>> flushers_;
  std::uint32_t batch_objects_ = 0;
  std::uint64_t batch_bytes_ = 0;

  // ---- counts ----
  ByteCounts counts_;
  ErrorWord write_errors_{0};
  Atomic<std::uint64_t> works_{0}, objects_written_{0}, pages_{0}, io_bytes_{0}, ios_{0}, batches_done_{0};
  Atomic<std::uint64_t> failed_writes_{0}, given_up_{0};
  Atomic<std::int64_t> oldest_age_max_ns_{0};
  Atomic<std::uint64_t> reclaim_bytes_{0};
  // Completions that are still on their way out of complete(): the context must not go before.
  Atomic<std::uint32_t> completing_{0};
  // stop() is at work on it: it must not go before. Raised under contexts_lock_ while the context is in the
  // table. release by who lowers it pairs with acquire in remove_context().
  Atomic<std::uint32_t> pins_{0};

  // seq_cst: stored before the list is closed; a writer that finds that closed then looks here.
  Atomic<WritebackContext*> heir_{nullptr};
  // For which of its device's activities everything has been written, or was begun to. By compare and
  // exchange: one flusher begins.
  Atomic<std::int64_t> drained_activity_ns_{INT64_MIN};
  // As the engine's of the same names, for the context's own threshold.
  Atomic<std::uint32_t> own_background_armed_{0};
  Atomic<std::int64_t> own_claimed_{0};
  // BackingDevice::last_wakeup_ns of the owner's own queue, for a policy that delays by its limits.
  Atomic<std::int64_t> last_wakeup_ns_{INT64_MIN};
  Atomic<std::uint32_t> own_waiting_{0};  // WritebackEngine::waiting_ says what it is for
  std::uint64_t blocked_in_pass_ = 0;  // under the engine's throttle_lock_
  // seq_cst: a flusher stores false and then takes every shard lock (DirtyList::any_listed); a writer lists
  // under a shard lock and then reads this. One of the two sees the other.
  alignas(kCacheLine) Atomic<bool> armed_{false};
  // The same for the ring of timestamps (DirtyList::any_lazy).
  Atomic<bool> lazy_armed_{false};

  // ---- under lock_ ----
  alignas(kCacheLine) mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankStore);
  std::vector<bool> active_ TW_GUARDED_BY(lock_);  // by Batch::id_
  std::vector<FsyncBatch*> free_fsync_ TW_GUARDED_BY(lock_);
  std::uint64_t next_sequence_ TW_GUARDED_BY(lock_) = 1;
  std::shared_ptr<SyncRun> queued_sync_ TW_GUARDED_BY(lock_);
  std::shared_ptr<SyncRun> running_sync_ TW_GUARDED_BY(lock_);
  std::uint32_t callers_ TW_GUARDED_BY(lock_) = 0;  // in sync() or fsync()
  enum class Life : std::uint8_t { kAlive, kRetiring, kRetired };
  Life life_ TW_GUARDED_BY(lock_) = Life::kAlive;
  bool syncs_aborted_ TW_GUARDED_BY(lock_) = false;
  // The first failure since the last success; Instant::max(): there was none.
  Instant failing_since_ TW_GUARDED_BY(lock_) = Instant::max();
  bool failing_ TW_GUARDED_BY(lock_) = false;  // and the engine has been told
  // Whether failing_since_ is a moment, so that a success need not ask. Relaxed: a success that misses a
  // failure of the same moment came before it as well as after it.
  Atomic<bool> only_failures_{false};
  Atomic<bool> retries_at_once_{false};     // its list has no back-off for failures
  Atomic<std::uint32_t> active_batches_{0};  // in active_, for all_tried()
  CondVar sync_changed_;    // a sync run moved on
  CondVar fsync_released_;  // an fsync batch came free
  CondVar caller_left_;     // and: life_ is kRetired

  ObjectWaiters object_waiters_;
};

}  // namespace tidewheel
