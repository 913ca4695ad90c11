// writeback/engine.h: the writeback engine: keeps dirty objects by context, decides when what is written,
// holds writers to the limits, and tells of errors. What a program that embeds it needs is here, in
// target.h (to be implemented) and in driver.h (who runs it).
// Owns:      its contexts with their lists, batches and flushers; never an object, never a target.
// Threads:   every method from any thread, with the exceptions named. Targets are called on flushers, and
//            on the caller's thread by fsync() and sync().
// Locks:     contexts_lock_ (kEngine) when contexts come and go, not while one's end is waited for;
//            throttle_lock_ and the seats' (kCompletion, never both); the contexts' own (kContext). None is
//            held while a target is called. mark_dirty(), the account functions and dropping a grant take
//            nothing above rank kListShard, so they may be called under mapping locks.
// Units:     bytes; Instants and Durations of EngineOptions::clock.
// Errors:    kShutDown once stop() has begun; a target's errors as they came.
// Invariant: (1) dirty + writeback + granted bytes never exceed dirty_bytes, account_dirtied() without a
//            grant aside; (2) a writer that waits implies a flusher that is armed and has something to
//            write, or I/O in flight, or a grant in use, or a retry that is due later: neither a request
//            nor the background threshold is more than half of the limit, so what makes it wait is more
//            than the threshold; (3) every counter is 0 when nothing is dirty and no grant is held.
//
//   writer:   grant = engine.balance_dirty_pages(context, bytes)      may wait; before anything is locked
//             ... copy data, tag pages dirty ...
//             engine.account_dirtied(grant, newly_dirty_bytes)
//             engine.mark_dirty(object, kDirtyData | kDirtyMetadata, now, &grant)
//             (the rest of the grant goes back when it is destroyed; what was accounted must be marked
//             before the thread asks again: what is not listed can't be written to make room)
//   target:   write_batch: account_writeback_started(context, bytes)
//             end_batch:   written: account_cleaned(context, bytes); failed: account_redirtied(context,
//             bytes)
//   deletion: engine.cancel(object); account_cancelled(context, bytes that were dirty)
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/result.h"
#include "base/sync.h"
#include "writeback/byte_counts.h"
#include "writeback/dirty_allowance.h"
#include "writeback/dirty_grant.h"
#include "writeback/dirty_list.h"
#include "writeback/engine_options.h"
#include "writeback/error_sequence.h"
#include "writeback/stats.h"
#include "writeback/target.h"
#include "writeback/task_throttle.h"
#include "writeback/throttle.h"
#include "writeback/work_policy.h"

namespace tidewheel {

class Driver;
class WritebackContext;
class WritebackEngine;

class WritebackEngine {
 public:
  // Reasons: kInvalidArgument (a design or throttle that is not registered, a limit of nothing).
  static Result<std::unique_ptr<WritebackEngine>> make(const EngineOptions& options,
                                                       std::unique_ptr<Driver> driver);
  // Stops. Every context's objects must be clean or cancelled.
  ~WritebackEngine();

  // ---- contexts ---- (docs/writeback-engine.md: how many)
  static constexpr std::uint16_t kMaxContexts = 1024;
  // The target outlives the context. Null, with the reason in `why`: kBusy (there are max_contexts),
  // kShutDown, kNoThread, kInvalidArgument (the device is another engine's, or asks for more than others'
  // least parts leave; a limit of nothing).
  WritebackContext* add_context(WritebackTarget& target, const ContextOptions& options = {},
                                Error* why = nullptr);
  // Writes everything (as sync) and removes the context; writers must have ended. An error means that
  // the context is still there with what could not be written: cancel() those objects, or try again.
  Result<void> remove_context(WritebackContext& context);
  // Null: there is none. Of an owner that was retired: its heir.
  WritebackContext* context(std::uint16_t id) const;

  // ---- owners ---- (writeback/owner.h; contexts of one target)
  enum class Switched : std::uint8_t {
    kDone,
    kAlready,
    kBusy,  // it is being written, or a sync of its context has to find it there: later
  };
  // Re-files an object in another owner's context, in O(1) and with its stamp; what of it is dirty is counted
  // there from then on. Beside writers, flushers, syncs and cancels. The object can't be freed meanwhile.
  Switched switch_owner(DirtyObject& object, WritebackContext& to);
  // Ends an owner: what is dirty of it goes to the heir's context, what is clean follows when it is next
  // dirtied, and who names it is led to the heir. Waits for what is being written, and for its syncs. The
  // context keeps its place among max_contexts until forget_context().
  Result<void> retire_context(WritebackContext& context, WritebackContext& heir);
  // Promised: no object names the retired context any more, and no call with it is under way. What writers
  // had accounted there while it was retired, and marked in the heir's, is the heir's from here on.
  void forget_context(WritebackContext& context);
  // Sync of every context of one target at one moment: an object that changes owner meanwhile is in one of
  // them. (One sync after the other could miss it in each.) The target is flushed once.
  Result<void> sync_all(WritebackTarget& target);

  // ---- writers ----
  // Marks classes of an object dirty (its context set by set_context). No lock and no store when they are
  // marked already. `now` is the reading that feeds mtime. Data: publish the tag first (dirty_object.h).
  // True when a clean object became listed, which charges object_overhead_bytes (to the grant, if given).
  bool mark_dirty(DirtyObject& object, std::uint32_t classes, Instant now, DirtyGrant* grant = nullptr) {
    if (now.ns % kMarkDirtySampling == 0) [[unlikely]] return mark_dirty_timed(object, classes, now, grant);
    if (object.covers(classes)) return false;
    return mark_dirty_slow(object, classes, now, grant);
  }
  // Before anything is dirtied or locked: waits until `bytes` more may become dirty and sets them aside,
  // with the overhead of one object. Fails with kShutDown, kInterrupted, and a failing context's error:
  // A context fails when an object's write fails that had failed before, and nothing but failures has come
  // from its writes for kFailingRetries * retry_first; until one succeeds (a retry, a sync's, an fsync's). A
  // writer that would have to wait is refused when what failing contexts hold, all of it tried, leaves no
  // room for it, so that nobody else's writing could admit it: with its context's error, or, if that doesn't
  // fail, another's. Nothing is dropped: what is dirty stays dirty and is tried again. A failure that passes
  // sooner is waited out.
  static constexpr std::int64_t kFailingRetries = 3;
  // `task`: the writer's, if it keeps one: its pauses are then its own, and credit for the time it thinks.
  Result<DirtyGrant> balance_dirty_pages(WritebackContext& context, std::uint64_t bytes,
                                         TaskThrottle* task = nullptr);
  // `owner`: the context id of whose task it is, for targets that find foreign dirt (owner_vote.h).
  TaskThrottle make_task(std::uint16_t owner = kNoContext) { return TaskThrottle(debts_, owner); }
  // At the limit: the task has had as much of what the last batch gave back as each of those who waited for
  // it. Those still there may not have run yet: balance_dirty_pages() lets them, by giving up the CPU (never
  // by waiting); who asks in steps does what it can. Counts `bytes` for the task.
  bool has_had_its_turn(TaskThrottle& task, std::uint64_t bytes) const {
    const std::uint64_t turn = turn_.load(std::memory_order_relaxed);
    return turn != 0 && passes_turn(turn, task, bytes);
  }
  // The same in steps, for writers that can't block. First begin_pause(): the caller does not go on for
  // pause.length, calls end_pause(), and begins again while pause.again. (A pause is over early when
  // pause_is_over(), which nobody tells it; it is at most longest_pause() long.) Then begin_balance(). False:
  // not now; the waiter is queued and its wake() is called when finish_balance() will answer. `pause`: what
  // end_pause() has left.
  void begin_pause(WritebackContext& context, std::uint64_t bytes, ThrottlePause& pause,
                   TaskThrottle* task = nullptr);
  bool pause_is_over(const ThrottlePause& pause) const;
  void end_pause(ThrottlePause& pause);
  bool begin_balance(WritebackContext& context, std::uint64_t bytes, ThrottleWaiter& waiter,
                     const ThrottlePause* pause = nullptr);
  Result<DirtyGrant> finish_balance(WritebackContext& context, ThrottleWaiter& waiter);
  // Writers that wait, or pause, and all that would have to from here on, fail with kInterrupted; who needn't
  // wait is still granted, and everything else goes on: what is dirty can be synced or cancelled afterwards.
  // Until end_interrupt(). From any thread that holds none of the engine's locks; not from a signal handler.
  void interrupt_waiters();
  void end_interrupt() { interrupted_.store(false, std::memory_order_seq_cst); }
  // Puts another policy in force, at any moment: who pauses by the old one's word asks the new one at once.
  // Reason: kInvalidArgument (no such policy).
  Result<void> set_throttle(std::string_view name);
  std::string_view throttle() const { return in_force().policy->name(); }

  // ---- accounting, by writers and targets ----
  void account_dirtied(DirtyGrant& grant, std::uint64_t bytes);  // bytes <= grant.bytes()
  // Where owners are switched beside writers: counted for the context that the object is in, whichever the
  // grant was for. Under the lock that WritebackTarget::begin_switch() takes.
  void account_dirtied(DirtyObject& object, DirtyGrant& grant, std::uint64_t bytes);
  void account_dirtied(WritebackContext& context, std::uint64_t bytes);  // can't be refused: beyond the limit
  void account_writeback_started(WritebackContext& context, std::uint64_t bytes);  // dirty -> writeback
  void account_cleaned(WritebackContext& context, std::uint64_t bytes);            // writeback -> clean
  void account_redirtied(WritebackContext& context, std::uint64_t bytes);          // writeback -> dirty
  void account_cancelled(WritebackContext& context, std::uint64_t bytes);          // dirty -> gone
  void account_cancelled(DirtyObject& object, std::uint64_t bytes);  // as account_dirtied(object)

  // ---- integrity ----
  // Everything of the context that was dirty or being written at the call is on stable storage, or the
  // first error is returned and what failed is still dirty and tried again. Ends although writers go on.
  // With a cursor: also the context's errors since then that the handle has not been told (syncfs).
  // kTimedOut: the deadline, of clock(), came first. What was written stays so, the rest goes on being
  // written; nothing is told to the handle. A target's flush() that the call has begun is waited for.
  Result<void> sync(WritebackContext& context, ErrorCursor* handle = nullptr,
                    Instant deadline = Instant::max());
  // The same for one object; waits only for it. With a cursor: also what other writeback of it met.
  Result<void> fsync(DirtyObject& object, ErrorCursor* handle = nullptr);
  // Makes the object clean without writing it, waiting if it is just being written. Its memory may be freed
  // afterwards. True if it was dirty. Not from a target's methods, nor from a completion.
  bool cancel(DirtyObject& object);
  // Asks for `bytes` of the oldest dirty data to be written soon; requests add up to one (the largest).
  void reclaim(WritebackContext& context, std::uint64_t bytes);

  // Another policy of when dirt is written that nobody asks for (writeback/work_policy.h), at any moment:
  // flushers look at once. Reason: kInvalidArgument (no such policy).
  Result<void> set_work_policy(std::string_view name);
  std::string_view work_policy() const { return work_policy_in_force().name(); }
  // The context's device does something that the engine doesn't see (reads): policies that wait for a quiet
  // device start anew. A load where the policy in force does not watch; no lock beyond rank kCompletion.
  void note_activity(WritebackContext& context) { note_activity(context, clock_->now()); }

  // ---- life ----
  // Waiting writers, syncs and fsyncs end with kShutDown; batches in flight are waited for; nothing more is
  // written. Objects stay dirty and can be cancelled. Harmless twice.
  void stop();
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  // Everything is written, and writers wait (balance_dirty_pages) until thaw(): in between nothing is dirty
  // and nothing is written. Waits for grants in use. An error of a sync undoes it. Not held: dirt that asks
  // for no grant. kBusy: it is frozen already. While it is, charged_bytes() is the limit.
  Result<void> freeze();
  // Does nothing while freeze() has not returned, or twice.
  void thaw();

  // ---- what is going on ----
  WritebackStats stats() const;
  WritebackStats stats(const WritebackContext& context) const;
  // Of one mark_dirty() in kMarkDirtySampling, whatever path it took. The caller's clock reading picks them:
  // its low bits are as good as random, and no counter has to be kept for it.
  LatencySummary mark_dirty_times() const { return mark_dirty_ns_.summary(); }
  LatencySummary throttle_pauses() const { return throttle_pause_ns_.summary(); }  // how long writers waited
  std::uint64_t dirty_and_writeback_bytes() const;  // exact when nothing moves; not what is only granted
  std::uint64_t dirty_bytes() const;                // writeback not counted
  // An upper bound of dirty + writeback + granted at this very moment. Never above the limit, dirt that
  // could not be refused aside. One load.
  std::uint64_t charged_bytes() const { return allowance_.charged(); }
  std::uint32_t throttled_threads() const { return throttled_.load(std::memory_order_relaxed); }
  // When dirty + writeback first passed the background threshold, and when a writer was first held back;
  // Instant::max() while they haven't. start_observation() forgets both (a new measured run).
  Instant background_passed_at() const {
    return Instant{background_passed_ns_.load(std::memory_order_acquire)};
  }
  Instant first_throttled_at() const { return Instant{first_throttled_ns_.load(std::memory_order_acquire)}; }
  void start_observation();
  const EngineOptions& options() const { return options_; }
  const Clock& clock() const { return *clock_; }
  Driver& driver() { return *driver_; }
  // How much of the dirty data background work should write now: what lies above the threshold and no
  // flusher has claimed yet.
  std::uint64_t background_excess_bytes() const;

 private:
  friend class DirtyGrant;
  friend class WritebackContext;
  friend class Flusher;
  WritebackEngine(const EngineOptions& options, std::unique_ptr<Driver> driver,
                  const ThrottlePolicy& policy);

  static constexpr std::int64_t kMarkDirtySampling = 64;
  bool mark_dirty_timed(DirtyObject& object, std::uint32_t classes, Instant now, DirtyGrant* grant);
  bool mark_dirty_slow(DirtyObject& object, std::uint32_t classes, Instant now, DirtyGrant* grant);
  void count_dirty(WritebackContext& context, std::uint64_t bytes, std::int64_t objects);
  void trace_dirty_state() const;  // sums shards: only while tracing is on
  void object_cancelled(WritebackContext& context);
  void batch_cleaned(WritebackContext& context, std::uint64_t written, std::uint64_t clean);
  void charge_object(WritebackContext& context, DirtyGrant* grant);
  WritebackContext* raw_context(std::uint16_t id) const {
    return contexts_[id].load(std::memory_order_acquire);
  }
  bool acceptable(const ContextOptions& options) const;
  bool switch_clean(DirtyObject& object, WritebackContext& from, WritebackContext& to);
  void inherit_counts(WritebackContext& context);
  void move_counts(WritebackContext& from, WritebackContext& to, std::uint64_t bytes, std::int64_t objects);
  // Of the context's own limit and the engine's.
  enum class Take : std::uint8_t { kTaken, kOwnLimit, kLimit };
  Take take(WritebackContext& context, std::uint64_t bytes, bool thoroughly);
  void move_charge(WritebackContext& from, WritebackContext& to, std::uint64_t bytes);
  void take_over(WritebackContext& context, std::uint64_t bytes);
  void give_back(WritebackContext& context, std::uint64_t bytes);
  // After anything that gives credit back, or puts it where a waiter can gather it, in this context and so in
  // the engine.
  void look_for_waiters(const WritebackContext& context);
  bool anybody_before(const WritebackContext& context) const;
  void leave_queue(ThrottleWaiter& waiter) TW_REQUIRES(throttle_lock_);
  Take take_for(ThrottleWaiter& waiter) TW_REQUIRES(throttle_lock_);
  // Around the end of a batch: what its objects give back is handed to the waiters at once when all of it is
  // there. One by one, each object of a thousand would wake one writer for one page.
  void begin_ending_batch() { ending_batches_.fetch_add(1, std::memory_order_seq_cst); }
  void ended_batch();
  enum class Served : std::uint8_t { kBetween, kAtBatchEnd };
  void serve_waiters(Served when = Served::kBetween);
  bool passes_turn(std::uint64_t turn, TaskThrottle& task, std::uint64_t bytes) const;
  static void wake_all(ThrottleWaiter* first);
  void look_at_background();
  void look_at_own_background(WritebackContext& context);
  bool claim_background(WritebackContext& context, std::uint64_t& bytes);
  void unclaim_background(WritebackContext& context, std::uint64_t bytes);
  Take stands_behind(const WritebackContext& context) const TW_REQUIRES(throttle_lock_);
  DirtyGrant make_grant(WritebackContext& context, std::uint64_t need_bytes, Duration paused,
                        TaskThrottle* task, bool charged);
  std::uint64_t piece_bytes(const WritebackContext& context, std::uint64_t bytes) const;
  ThrottleInputs throttle_inputs(Instant now) const;
  Result<DirtyGrant> balance_slow(WritebackContext& context, std::uint64_t bytes, TaskThrottle* task);
  // A policy, as it is in force.
  struct InForce {
    std::unique_ptr<Throttle> policy;
    std::uint64_t free_run_bytes = 0;
    bool pauses = false;  // at all
    bool strict_limit = false;
  };
  const InForce& in_force() const { return *in_force_.load(std::memory_order_acquire); }
  void put_in_force(const ThrottlePolicy& policy) TW_EXCLUDES(throttle_lock_);
  // Whether a writer need not be looked at: little is dirty, or it hasn't dirtied much since it was.
  bool runs_free(const InForce& force, const WritebackContext& context, std::uint64_t need_bytes) const {
    return !(force.strict_limit && context_is_strict(context)) &&
           allowance_.charged() + need_bytes <= force.free_run_bytes &&
           owner_runs_free(force, context, need_bytes);
  }
  static bool owner_runs_free(const InForce& force, const WritebackContext& context,
                              std::uint64_t need_bytes);
  static ThrottleOwner throttle_owner(const WritebackContext& context);
  static bool context_is_strict(const WritebackContext& context);
  bool has_credit(const WritebackContext& context, std::uint64_t need_bytes, const TaskThrottle* task) const;
  void charge_task(std::int64_t bytes, TaskThrottle* task);
  ThrottleDecision decide(const InForce& force, WritebackContext& context, std::uint64_t need_bytes,
                          const TaskRates& task);
  void start_strict_background(const WritebackContext& context, const ThrottleDevice& device);
  void update_device(WritebackContext& context, Instant now);
  // Why nobody may wait any more; kOk: everybody may.
  Reason no_waiting() const {
    if (stopping()) return Reason::kShutDown;
    return interrupted_.load(std::memory_order_seq_cst) ? Reason::kInterrupted : Reason::kOk;
  }
  const WorkPolicy& work_policy_in_force() const {
    return *work_policy_.load(std::memory_order_acquire);
  }
  void note_activity(WritebackContext& context, Instant now);
  void refuse_waiters(Reason why);
  // kOk: it fails no more.
  void set_failing(WritebackContext& context, Error error);
  void refuse_hopeless_waiters();
  Reason sleep_pause(const ThrottlePause& pause);
  // A clock that is set back by no more than this may be one that is being corrected: nothing is written
  // early for it.
  static constexpr Duration kLateReading = {1LL << 30};
  // From each step of a flusher; `before`: its reading at the last one.
  void note_reading(Instant now, Instant before);
  void add_stats(const WritebackContext& context, WritebackStats& into) const;

  // ---- constant after construction ----
  const EngineOptions options_;
  const Clock* const clock_;
  const ThrottleLimits limits_;
  std::unique_ptr<Driver> driver_;

  // ---- bytes ----
  DirtyAllowance allowance_;
  ByteCounts counts_;
  DebtPool debts_;
  BackingDevice::Domain devices_;

  // ---- writers that wait ----
  // Those who are granted something are taken off the queue under throttle_lock_ and woken after it, each at
  // its seat (by thread; who shares one wakes for nothing now and then), and there too after the lock: woken
  // under a lock, they would run into it, above all where the woken thread takes the waker's CPU. The seat
  // outlives the waiter, which is on a stack.
  struct alignas(kCacheLine) Seat {
    Seat();
    Mutex lock TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
    CondVar woken;
  };
  static constexpr std::uint32_t kSeats = 64;
  std::array<Seat, kSeats> seats_;
  alignas(kCacheLine) Mutex throttle_lock_ TW_ACQUIRED_AFTER(kRankCompletion)
      TW_ACQUIRED_BEFORE(kRankStatistics);
  ThrottleWaiter* waiters_head_ TW_GUARDED_BY(throttle_lock_) = nullptr;
  ThrottleWaiter* waiters_tail_ TW_GUARDED_BY(throttle_lock_) = nullptr;
  std::uint64_t serving_passes_ TW_GUARDED_BY(throttle_lock_) = 0;
  struct Failing {
    WritebackContext* context = nullptr;
    Error error;
  };
  std::vector<Failing> failing_ TW_GUARDED_BY(throttle_lock_);
  // Its size. seq_cst: raised under the lock; who queues then looks here, and lets go of the lock in between.
  Atomic<std::uint32_t> failing_contexts_{0};
  Atomic<std::uint64_t> failures_{0};  // object writes that failed, of all contexts
  CondVar pauses_end_;  // for those who sleep a policy's pause
  // Each policy that was ever in force, kept to the engine's end: who read the pointer may still use it.
  std::vector<std::unique_ptr<InForce>> policies_ TW_GUARDED_BY(throttle_lock_);
  // Stored under throttle_lock_. release there pairs with acquire in in_force().
  Atomic<const InForce*> in_force_{nullptr};
  // The same of work policies.
  std::vector<std::unique_ptr<WorkPolicy>> work_policies_ TW_GUARDED_BY(throttle_lock_);
  Atomic<const WorkPolicy*> work_policy_{nullptr};
  // False: a flusher may sleep without a moment for a drain. seq_cst, as BackingDevice::last_activity_ns.
  Atomic<bool> activity_armed_{false};
  // seq_cst: a waiter counts itself and then gathers credit; who gives, or takes and puts a chunk into its
  // shard, then looks here.
  // Those who wait at a limit of their own context are not in waiting_ but in that context's own_waiting_, so
  // that writers of others go by without a lock; own_waiting_ counts the context's whole part of the queue.
  Atomic<std::uint32_t> waiting_{0};
  Atomic<std::uint32_t> queued_{0};  // all of them; seq_cst: as waiting_, for who ends a batch
  // Batches whose end is under way. seq_cst: who gives back and sees one here leaves the waiters to it; it
  // takes itself off and then gathers what was given back.
  Atomic<std::uint32_t> ending_batches_{0};
  // Of the last batch end that found writers waiting: its number, and each one's part of what it gave back,
  // in kTurnUnit; 0: none waited. Relaxed: a hint, by which a writer yields or does not.
  static constexpr std::uint64_t kTurnUnit = 1024;
  static constexpr std::uint32_t kTurnShareBits = 32;
  Atomic<std::uint64_t> turn_{0};
  Atomic<std::uint32_t> throttled_{0};
  Atomic<std::uint64_t> throttle_pauses_{0};
  Atomic<std::uint64_t> throttle_ns_{0};
  SharedLatencyHistogram throttle_pause_ns_;
  SharedLatencyHistogram mark_dirty_ns_;

  // 1: background flushers are at work or have been told to look. seq_cst: a flusher stores 0 and then
  // reads the counters; a writer counts and then reads this. One of the two sees the other.
  alignas(kCacheLine) Atomic<std::uint32_t> background_armed_{0};
  // Bytes that background batches are about to take: what one flusher has claimed the others leave.
  Atomic<std::int64_t> background_claimed_{0};
  Atomic<std::int64_t> background_passed_ns_{INT64_MAX};
  Atomic<std::int64_t> first_throttled_ns_{INT64_MAX};
  // seq_cst, both: stored, and then the queue is emptied under its lock; who queues looks under that lock.
  Atomic<bool> stopping_{false};
  Atomic<bool> interrupted_{false};
  // seq_cst: cleared, and then the waiters are served; who queues counts himself first and looks here then.
  Atomic<bool> freezing_{false};
  Atomic<bool> frozen_{false};  // seq_cst: the whole limit is taken, and who clears it gives it back

  // The highest reading of any flusher since the clock was last set back. Relaxed: only for finding out who
  // notices that first.
  Atomic<std::int64_t> highest_reading_ns_{INT64_MIN};

  // ---- contexts ----
  // Null: `why`, and perhaps a context that could not be run, for its flushers.
  WritebackContext* try_add_context(WritebackTarget& target, const ContextOptions& options,
                                    std::unique_ptr<WritebackContext>& refused, Error& why)
      TW_EXCLUDES(contexts_lock_);
  mutable SharedMutex contexts_lock_ TW_ACQUIRED_AFTER(kRankEngine) TW_ACQUIRED_BEFORE(kRankContext);
  std::uint32_t contexts_added_ TW_GUARDED_BY(contexts_lock_) = 0;
  // Written under contexts_lock_. release in add_context pairs with acquire in context().
  std::array<Atomic<WritebackContext*>, kMaxContexts> contexts_;
};

}  // namespace tidewheel
