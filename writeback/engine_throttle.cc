// Thresholds, the hard limit, and writers that wait at it. Policies' pauses: engine_pause.cc.
#include <algorithm>

#include "base/thread.h"
#include "base/trace.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/engine.h"

namespace tidewheel {
namespace {

LockClass seat_class("throttle-seat", LockRank::kCompletion);

void note_first(Atomic<std::int64_t>& moment, Instant now) {
  std::int64_t never = INT64_MAX;
  moment.compare_exchange(never, now.ns, std::memory_order_acq_rel);
}

}  // namespace

// ---- the grant ----

DirtyGrant& DirtyGrant::operator=(DirtyGrant&& other) noexcept {
  if (this != &other) {
    end();
    engine_ = std::exchange(other.engine_, nullptr);
    context_ = std::exchange(other.context_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    overhead_ = std::exchange(other.overhead_, 0);
    paused_ = std::exchange(other.paused_, Duration{});
    task_ = std::exchange(other.task_, nullptr);
    charged_ = std::exchange(other.charged_, false);
  }
  return *this;
}

DirtyGrant::~DirtyGrant() { end(); }

void DirtyGrant::end() {
  if (engine_ == nullptr) return;
  const std::uint64_t unused = bytes_ + overhead_;
  if (charged_ && unused != 0) engine_->charge_task(-static_cast<std::int64_t>(unused), task_);
  engine_->give_back(*context_, unused);
}

DirtyGrant WritebackEngine::make_grant(WritebackContext& context, std::uint64_t need_bytes, Duration paused,
                                       TaskThrottle* task, bool charged) {
  DirtyGrant grant;
  grant.engine_ = this;
  grant.context_ = &context;
  grant.overhead_ = options_.object_overhead_bytes;
  grant.bytes_ = need_bytes - grant.overhead_;
  grant.paused_ = paused;
  grant.task_ = task;
  grant.charged_ = charged;
  return grant;
}

// ---- background ----

std::uint64_t WritebackEngine::background_excess_bytes() const {
  const std::int64_t claimed = background_claimed_.load(std::memory_order_seq_cst);
  const std::int64_t excess = static_cast<std::int64_t>(counts_.dirty()) - claimed -
                              static_cast<std::int64_t>(limits_.background_bytes);
  return excess > 0 ? static_cast<std::uint64_t>(excess) : 0;
}

// Sets aside up to `bytes` of the excess, over the engine's threshold or the context's own, whichever is
// more, for the caller's batch. Counted for both: it lowers both.
bool WritebackEngine::claim_background(WritebackContext& context, std::uint64_t& bytes) {
  for (;;) {
    std::int64_t claimed = background_claimed_.load(std::memory_order_seq_cst);
    const std::uint64_t excess = std::max(background_excess_bytes(), context.own_excess_bytes());
    if (excess == 0) return false;
    const std::uint64_t mine = std::min(bytes, excess);
    // First where only the context's own flushers look: one of them that is sent away by this finds the
    // excess again when it is taken back, since this one stays at it.
    context.own_claimed_.fetch_add(static_cast<std::int64_t>(mine), std::memory_order_seq_cst);
    if (background_claimed_.compare_exchange(claimed, claimed + static_cast<std::int64_t>(mine),
                                             std::memory_order_seq_cst)) {
      bytes = mine;
      return true;
    }
    context.own_claimed_.fetch_sub(static_cast<std::int64_t>(mine), std::memory_order_seq_cst);
  }
}

void WritebackEngine::unclaim_background(WritebackContext& context, std::uint64_t bytes) {
  background_claimed_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_seq_cst);
  context.own_claimed_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_seq_cst);
}

void WritebackEngine::look_at_own_background(WritebackContext& context) {
  // One load where there is nothing to be seen: charged() never lags behind what has been counted.
  if (context.allowance_->charged() <= context.background_bytes_) return;
  if (context.own_excess_bytes() != 0 &&
      context.own_background_armed_.exchange(1, std::memory_order_seq_cst) == 0) {
    context.kick();
  }
}

void WritebackEngine::look_at_background() {
  if (background_passed_ns_.load(std::memory_order_relaxed) == INT64_MAX &&
      counts_.total() > limits_.background_bytes) {
    note_first(background_passed_ns_, clock_->now());
  }
  if (background_excess_bytes() != 0 && background_armed_.exchange(1, std::memory_order_seq_cst) == 0) {
    driver_->kick_all();
  }
}

// ---- giving back ----

void WritebackEngine::give_back(WritebackContext& context, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (context.allowance_ != nullptr) context.allowance_->give_back(bytes);
  allowance_.give_back(bytes);
  look_for_waiters(context);
}

// Whether a writer of this context has to queue.
bool WritebackEngine::anybody_before(const WritebackContext& context) const {
  return waiting_.load(std::memory_order_seq_cst) != 0 ||
         context.own_waiting_.load(std::memory_order_seq_cst) != 0;
}

void WritebackEngine::look_for_waiters(const WritebackContext& context) {
  if (anybody_before(context) && ending_batches_.load(std::memory_order_seq_cst) == 0) serve_waiters();
}

void WritebackEngine::take_over(WritebackContext& context, std::uint64_t bytes) {
  if (context.allowance_ != nullptr) context.allowance_->take_over(bytes);
  allowance_.take_over(bytes);
}

WritebackEngine::Take WritebackEngine::take(WritebackContext& context, std::uint64_t bytes, bool thoroughly) {
  if (freezing_.load(std::memory_order_seq_cst)) return Take::kLimit;
  const auto take_of = [&](DirtyAllowance& of) {
    return thoroughly ? of.take_thoroughly(bytes) : of.take(bytes);
  };
  if (context.allowance_ != nullptr && !take_of(*context.allowance_)) return Take::kOwnLimit;
  if (take_of(allowance_)) return Take::kTaken;
  if (context.allowance_ != nullptr) context.allowance_->give_back(bytes);
  return Take::kLimit;
}

void WritebackEngine::ended_batch() {
  ending_batches_.fetch_sub(1, std::memory_order_seq_cst);
  if (queued_.load(std::memory_order_seq_cst) != 0) {
    serve_waiters(Served::kAtBatchEnd);
  } else if (turn_.load(std::memory_order_relaxed) != 0) {
    turn_.store(0, std::memory_order_relaxed);
  }
}

bool WritebackEngine::passes_turn(std::uint64_t turn, TaskThrottle& task, std::uint64_t bytes) const {
  const std::uint64_t number = turn >> kTurnShareBits;
  if (task.turn_ != number) {
    task.turn_ = number;
    task.turn_bytes_ = 0;
  }
  task.turn_bytes_ += bytes;
  return task.turn_bytes_ / kTurnUnit > (turn & ((std::uint64_t{1} << kTurnShareBits) - 1));
}

WritebackEngine::Seat::Seat() : lock(seat_class) {}

void WritebackEngine::leave_queue(ThrottleWaiter& waiter) {
  if (!waiter.own_limit) waiting_.fetch_sub(1, std::memory_order_seq_cst);
  waiter.context->own_waiting_.fetch_sub(1, std::memory_order_seq_cst);
  queued_.fetch_sub(1, std::memory_order_seq_cst);
}

// Keeps the counts true to which limit it waits at. Counted before it gathers, so that who gives back sees
// it: when it comes to wait at the engine's limit it tries again.
WritebackEngine::Take WritebackEngine::take_for(ThrottleWaiter& waiter) {
  Take taken = take(*waiter.context, waiter.need_bytes, true);
  if (taken == Take::kLimit && waiter.own_limit) {
    waiter.own_limit = false;
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    taken = take(*waiter.context, waiter.need_bytes, true);
  }
  return taken;
}

// First come, first served: a large request is not starved by small ones. Who waits at a limit of his own
// context holds up those behind him in it, and nobody else. Each is served one request; what is left then is
// anybody's, and whoever has the CPU would take it all before the others run: hence the turns.
void WritebackEngine::serve_waiters(Served when) {
  ThrottleWaiter* first = nullptr;
  std::uint64_t served = 0;
  {
    MutexLock guard(throttle_lock_);
    const std::uint64_t pass = ++serving_passes_;
    ThrottleWaiter** link = &first;
    ThrottleWaiter* last = nullptr;  // that stays
    for (ThrottleWaiter* waiter = waiters_head_; waiter != nullptr;) {
      ThrottleWaiter* next = waiter->next;
      const bool blocked = waiter->context->blocked_in_pass_ == pass;
      const Take taken = blocked ? Take::kOwnLimit : take_for(*waiter);
      if (taken == Take::kLimit) break;
      if (taken == Take::kOwnLimit) {
        if (!waiter->own_limit) waiting_.fetch_sub(1, std::memory_order_seq_cst);
        waiter->own_limit = true;
        waiter->context->blocked_in_pass_ = pass;
        last = waiter;
        waiter = next;
        continue;
      }
      (last == nullptr ? waiters_head_ : last->next) = next;
      if (next == nullptr) waiters_tail_ = last;
      leave_queue(*waiter);
      waiter->state = ThrottleWaiter::State::kGranted;
      waiter->next = nullptr;
      *link = waiter;
      link = &waiter->next;
      waiter = next;
      ++served;
    }
    if (when == Served::kAtBatchEnd && served != 0) {
      const std::uint64_t room =
          limits_.dirty_limit_bytes - std::min(allowance_.charged(), limits_.dirty_limit_bytes);
      const std::uint64_t share = std::min<std::uint64_t>(room / served / kTurnUnit, UINT32_MAX);
      turn_.store(pass << kTurnShareBits | share, std::memory_order_relaxed);
    }
  }
  wake_all(first);
}

// Behind whom a new request would stand: nobody (kTaken) if all who wait do so at limits of other contexts.
WritebackEngine::Take WritebackEngine::stands_behind(const WritebackContext& context) const {
  Take behind = Take::kTaken;
  for (const ThrottleWaiter* waiter = waiters_head_; waiter != nullptr; waiter = waiter->next) {
    if (!waiter->own_limit) return Take::kLimit;
    if (waiter->context == &context) behind = Take::kOwnLimit;
  }
  return behind;
}

void WritebackEngine::wake_all(ThrottleWaiter* first) {
  while (first != nullptr) {
    ThrottleWaiter* waiter = first;
    first = waiter->next;  // first: a waiter that has been woken may be gone
    waiter->wake(*waiter);
  }
}

// Nobody may wait any more: those who do are sent away.
void WritebackEngine::refuse_waiters(Reason why) {
  ThrottleWaiter* refused = nullptr;
  {
    MutexLock guard(throttle_lock_);
    refused = std::exchange(waiters_head_, nullptr);
    waiters_tail_ = nullptr;
    for (ThrottleWaiter* waiter = refused; waiter != nullptr; waiter = waiter->next) {
      waiter->state = ThrottleWaiter::State::kRefused;
      waiter->refusal = Error{why, __LINE__, 0};
      leave_queue(*waiter);
    }
    pauses_end_.notify_all();
  }
  wake_all(refused);
}

void WritebackEngine::set_failing(WritebackContext& context, Error error) {
  MutexLock guard(throttle_lock_);
  std::erase_if(failing_, [&](const Failing& each) { return each.context == &context; });
  if (error.code != Reason::kOk) failing_.push_back({&context, error});
  failing_contexts_.store(static_cast<std::uint32_t>(failing_.size()), std::memory_order_seq_cst);
}

// Looked at when a writer queues and whenever a failing context's batch ends.
void WritebackEngine::refuse_hopeless_waiters() {
  if (failing_contexts_.load(std::memory_order_seq_cst) == 0) return;
  ThrottleWaiter* refused = nullptr;
  {
    MutexLock guard(throttle_lock_);
    const std::uint64_t failures = failures_.load(std::memory_order_relaxed);
    const auto stuck_bytes = [&](const ThrottleWaiter& waiter) TW_REQUIRES(throttle_lock_) {
      std::uint64_t bytes = 0;
      for (const Failing& each : failing_) {
        if (each.context->all_tried(failures - waiter.failures_before)) {
          bytes += each.context->counts().total();
        }
      }
      return bytes;
    };
    // At its own context's limit, nobody else's writing makes room.
    const auto own_stuck = [&](const ThrottleWaiter& waiter) TW_REQUIRES(throttle_lock_) {
      const bool fails = std::any_of(failing_.begin(), failing_.end(),
                                     [&](const Failing& each) { return each.context == waiter.context; });
      return fails && waiter.context->dirty_limit_bytes() != ContextOptions::kNone &&
             waiter.context->all_tried(failures - waiter.failures_before) &&
             waiter.context->counts().total() + waiter.need_bytes > waiter.context->dirty_limit_bytes();
    };
    ThrottleWaiter* last = nullptr;  // that stays
    ThrottleWaiter** refused_link = &refused;
    for (ThrottleWaiter* waiter = waiters_head_; waiter != nullptr;) {
      ThrottleWaiter* next = waiter->next;
      const bool hopeless =
          !failing_.empty() &&
          (stuck_bytes(*waiter) + waiter->need_bytes > limits_.dirty_limit_bytes || own_stuck(*waiter));
      if (!hopeless) {
        last = waiter;
      } else {
        (last == nullptr ? waiters_head_ : last->next) = next;
        waiter->refusal = failing_.back().error;
        for (const Failing& each : failing_) {
          if (each.context == waiter->context) waiter->refusal = each.error;
        }
        waiter->state = ThrottleWaiter::State::kRefused;
        waiter->next = nullptr;
        leave_queue(*waiter);
        *refused_link = waiter;
        refused_link = &waiter->next;
      }
      waiter = next;
    }
    waiters_tail_ = last;
  }
  if (refused == nullptr) return;
  wake_all(refused);
  serve_waiters();  // a smaller request may have stood behind a larger one
}

void WritebackEngine::interrupt_waiters() {
  interrupted_.store(true, std::memory_order_seq_cst);
  refuse_waiters(Reason::kInterrupted);
}

// ---- asking ----

std::uint64_t WritebackEngine::piece_bytes(const WritebackContext& context, std::uint64_t bytes) const {
  const std::uint64_t limit = std::min(limits_.dirty_limit_bytes, context.dirty_limit_bytes());
  return std::min(std::min(bytes, limit) + options_.object_overhead_bytes, limit / 2);
}

Result<DirtyGrant> WritebackEngine::balance_dirty_pages(WritebackContext& context, std::uint64_t bytes,
                                                        TaskThrottle* task) {
  const std::uint64_t need = piece_bytes(context, bytes);
  if (task != nullptr && has_had_its_turn(*task, need)) [[unlikely]] yield_thread();
  const InForce& force = in_force();
  const bool free = runs_free(force, context, need);
  if ((free || has_credit(context, need, task)) && !anybody_before(context) &&
      !stopping() && take(context, need, false) == Take::kTaken) {
    if (!free) charge_task(static_cast<std::int64_t>(need), task);
    // It may have put a chunk into its shard, and a waiter may have gathered before that: he counts himself
    // first, so one of us sees the other.
    look_for_waiters(context);
    return make_grant(context, need, {}, task, !free);
  }
  return balance_slow(context, bytes, task);
}

bool WritebackEngine::begin_balance(WritebackContext& context, std::uint64_t bytes, ThrottleWaiter& waiter,
                                    const ThrottlePause* pause) {
  waiter.context = &context;
  waiter.need_bytes = piece_bytes(context, bytes);
  waiter.own_limit = false;
  waiter.next = nullptr;
  const Instant since = clock_->now();
  waiter.since = since;
  waiter.task = pause == nullptr ? nullptr : pause->task;
  waiter.charged = pause != nullptr && pause->charged;
  bool own_limit = false;
  {
    MutexLock guard(throttle_lock_);
    waiter.queued = false;
    if (stopping()) {
      waiter.state = ThrottleWaiter::State::kRefused;
      waiter.refusal = TW_FAIL(kShutDown).error();
      return true;
    }
    // Counted first, at either limit, so that who gives back from here on looks for waiters.
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    context.own_waiting_.fetch_add(1, std::memory_order_seq_cst);
    queued_.fetch_add(1, std::memory_order_seq_cst);
    Take taken = stands_behind(context);
    if (taken == Take::kTaken) {
      taken = take(context, waiter.need_bytes, true);
      if (taken == Take::kTaken) {
        leave_queue(waiter);
        waiter.state = ThrottleWaiter::State::kGranted;
        return true;
      }
    }
    if (const Reason why = no_waiting(); why != Reason::kOk) {
      leave_queue(waiter);
      waiter.state = ThrottleWaiter::State::kRefused;
      waiter.refusal = Error{why, __LINE__, 0};
      return true;
    }
    own_limit = waiter.own_limit = taken == Take::kOwnLimit;
    if (own_limit) waiting_.fetch_sub(1, std::memory_order_seq_cst);
    waiter.state = ThrottleWaiter::State::kWaiting;
    waiter.failures_before = failures_.load(std::memory_order_relaxed);
    waiter.queued = true;
    if (waiters_head_ == nullptr) {
      waiters_head_ = &waiter;
    } else {
      waiters_tail_->next = &waiter;
    }
    waiters_tail_ = &waiter;
    // Before the waiter can be woken: from then on it may finish, which takes it off again, and be gone.
    throttled_.fetch_add(1, std::memory_order_relaxed);
  }
  note_first(first_throttled_ns_, since);
  throttle_pauses_.fetch_add(1, std::memory_order_relaxed);
  // Whose pages hold it up is to write them: one context, or whoever has some.
  if (own_limit) {
    context.kick();
  } else {
    driver_->kick_all();
  }
  refuse_hopeless_waiters();
  return false;
}

void WritebackEngine::trace_dirty_state() const {
  TW_TRACE(global_dirty_state, counts_.dirty(), counts_.writeback(), limits_.background_bytes,
           limits_.dirty_limit_bytes);
}

Result<DirtyGrant> WritebackEngine::finish_balance(WritebackContext& context, ThrottleWaiter& waiter) {
  const Duration paused = clock_->now() - waiter.since;
  TW_TRACE(balance_dirty_pages, context.id(), counts_.total(), static_cast<std::uint64_t>(paused.ns),
           limits_.dirty_limit_bytes);
  if (tracing()) trace_dirty_state();
  if (waiter.queued) {
    waiter.queued = false;
    throttled_.fetch_sub(1, std::memory_order_relaxed);
    throttle_ns_.fetch_add(static_cast<std::uint64_t>(paused.ns), std::memory_order_relaxed);
    throttle_pause_ns_.record(static_cast<std::uint64_t>(paused.ns));
  }
  if (waiter.state == ThrottleWaiter::State::kRefused) {
    if (waiter.charged) charge_task(-static_cast<std::int64_t>(waiter.need_bytes), waiter.task);
    return Unexpected(waiter.refusal);
  }
  TW_ASSERT(waiter.state == ThrottleWaiter::State::kGranted, "finish_balance before the waiter was woken");
  waiter.state = ThrottleWaiter::State::kIdle;
  return make_grant(context, waiter.need_bytes, paused, waiter.task, waiter.charged);
}

Result<DirtyGrant> WritebackEngine::balance_slow(WritebackContext& context, std::uint64_t bytes,
                                                 TaskThrottle* task) {
  struct Sleeper : ThrottleWaiter {
    explicit Sleeper(Seat& its_seat) : seat(its_seat) {}
    Seat& seat;
    bool woken = false;  // under the seat's lock
  };
  Sleeper sleeper(seats_[thread_number() % kSeats]);
  sleeper.wake = [](ThrottleWaiter& waiter) {
    auto& mine = static_cast<Sleeper&>(waiter);
    Seat& its_seat = mine.seat;
    {
      MutexLock guard(its_seat.lock);
      mine.woken = true;
    }
    its_seat.woken.notify_all();
  };
  if (stopping()) return TW_FAIL(kShutDown);

  const Instant began = clock_->now();
  ThrottlePause pause;
  do {
    begin_pause(context, bytes, pause, task);
    if (pause.length.ns == 0) break;
    const Reason cut_short = sleep_pause(pause);
    end_pause(pause);
    if (cut_short != Reason::kOk) {
      if (pause.charged) charge_task(-static_cast<std::int64_t>(piece_bytes(context, bytes)), task);
      return Unexpected(Error{cut_short, __LINE__, 0});
    }
  } while (pause.again);
  if (!begin_balance(context, bytes, sleeper, &pause)) {
    Instant looked = clock_->now();
    Mutex& lock = sleeper.seat.lock;
    lock.lock();
    while (!sleeper.woken) {
      driver_->wait(lock, sleeper.seat.woken, options_.writer_recheck);
      const Instant now = clock_->now();
      if (sleeper.woken || now - looked < options_.writer_recheck) continue;
      looked = now;
      throttle_pauses_.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      driver_->kick_all();
      lock.lock();
    }
    lock.unlock();
  }
  Result<DirtyGrant> grant = finish_balance(context, sleeper);
  if (grant) grant->paused_ = clock_->now() - began;
  return grant;
}

}  // namespace tidewheel
