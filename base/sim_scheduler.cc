// Fibers, the choice of who runs, virtual time, and how a run ends.
#include "base/sim_scheduler.h"

#if TW_SIM

#include <cxxabi.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/assert.h"
#include "base/sim_sanitizers.h"

namespace tidewheel::sim {

constinit thread_local Scheduler* running = nullptr;

namespace {

namespace context = boost::context::detail;

// The C++ runtime keeps the exceptions that are being handled per OS thread; its layout is fixed by the ABI.
struct ExceptionGlobals {
  void* caught;
  unsigned uncaught;
};
ExceptionGlobals& exception_globals() {
  return *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
}

// Fibers of failed runs: what their frames point to must stay reachable.
std::vector<std::unique_ptr<Fiber>>& abandoned_fibers() {
  static auto* const fibers = new std::vector<std::unique_ptr<Fiber>>;
  return *fibers;
}

// Making a fiber known to the thread sanitizer takes a millisecond, so they are used again, in later runs
// only: what a fiber did in an earlier run lies before everything in this one.
std::vector<void*>& spare_tsan_fibers() {
  static thread_local std::vector<void*> fibers;
  return fibers;
}
void* tsan_take_fiber() {
  std::vector<void*>& spare = spare_tsan_fibers();
  if (spare.empty()) return tsan_make_fiber();
  void* const fiber = spare.back();
  spare.pop_back();
  return fiber;
}
void tsan_return_fiber(void* fiber) {
  if (fiber != nullptr) spare_tsan_fibers().push_back(fiber);
}

const char* name_of(Op op) {
  switch (op) {
    case Op::kStart: return "start";
    case Op::kLoad: return "load";
    case Op::kStore: return "store";
    case Op::kReadModifyWrite: return "read-modify-write";
    case Op::kFence: return "fence";
    case Op::kLock: return "lock";
    case Op::kTryLockFailed: return "try-lock failed";
    case Op::kUnlock: return "unlock";
    case Op::kLockShared: return "lock shared";
    case Op::kUnlockShared: return "unlock shared";
    case Op::kWait: return "woke from wait";
    case Op::kNotify: return "notify";
    case Op::kSpawn: return "spawn";
    case Op::kJoin: return "join";
    case Op::kSleep: return "slept";
    case Op::kYield: return "yield";
    case Op::kTimeout: return "timer fired";
  }
  return "?";
}

bool log_every_point() {
  static const bool on = std::getenv("TIDEWHEEL_SIM_LOG") != nullptr;
  return on;
}

}  // namespace

// A fiber's first frame, never left: with the sanitizer's instrumentation its copy of the call stack would
// grow with each use of a fiber.
TW_NO_TSAN void run_fiber(void* from_context, void* from_fiber) {
  Scheduler* scheduler = nullptr;
  Fiber* me = nullptr;
  {
    const TsanIgnore ignore;
    scheduler = running;
    me = scheduler->current_;
    auto* const from = static_cast<Fiber*>(from_fiber);
    from->context = from_context;
    asan_finish_switch(nullptr, &from->stack_low, &from->stack_bytes);
  }
  tsan_acquire(me);
  std::string thrown;
  try {
    me->body();
    me->body = nullptr;
  } catch (const std::exception& e) {
    thrown = std::string("an exception left the body of a thread: ") + e.what();
  } catch (...) {
    thrown = "an exception left the body of a thread";
  }
  if (!thrown.empty()) scheduler->fail(Failure::kException, thrown);
  tsan_release(me);
  scheduler->finish_current();
}

namespace {

TW_NO_TSAN void fiber_entry(context::transfer_t from) { run_fiber(from.fctx, from.data); }

}  // namespace

Scheduler::Scheduler(const Options& options, const Schedule& schedule)
    : options_(options),
      schedule_(schedule),
      weak_(schedule.memory == Memory::kWeak),
      spurious_(options.spurious_wakeups && Rng(schedule.seed ^ 0x5B0).below(4) == 0),
      rng_(schedule.seed * 4 + (weak_ ? 2 : 0) + (schedule.strategy == Strategy::kPct ? 1 : 0)),
      low_priority_(1ULL << 32) {
  events_.resize(kKeptEvents);
  if (schedule.strategy == Strategy::kRandom) {
    constexpr std::uint32_t kChances[] = {1, 2, 4, 12};
    preempt_one_in_ = kChances[rng_.below(std::size(kChances))];
  } else {
    for (std::uint32_t i = 1; i < options.pct_depth; ++i) {
      change_points_.push_back(rng_.below(std::max<std::uint64_t>(schedule.length, 16)));
    }
    std::sort(change_points_.begin(), change_points_.end());
  }
}

Scheduler::~Scheduler() {
  for (std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->state == FiberState::kFinished) {
      return_stack(fiber->stack);
      tsan_return_fiber(fiber->tsan_fiber);
    } else {
      abandon_stack(fiber->stack);
      abandoned_fibers().push_back(std::move(fiber));
    }
  }
}

void Scheduler::run(const std::function<void()>& body) {
  TW_ASSERT(running == nullptr, "a simulation is started inside a simulation");
  main_.name = "explore";
  main_.tsan_fiber = tsan_this_fiber();
  current_ = &main_;
  running = this;
  spawn("main", body);
  Fiber& first = *fibers_.front();
  switch_to(first);
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->state != FiberState::kFinished) {
      tsan_release_as(fiber->tsan_fiber, main_.tsan_fiber, fiber.get());
    }
    tsan_acquire(fiber.get());
  }
  running = nullptr;
}

Fiber* Scheduler::spawn(std::string name, std::function<void()> body) {
  Fiber* fiber = nullptr;
  {
    const TsanIgnore ignore;
    auto made = std::make_unique<Fiber>();
    fiber = made.get();
    fiber->id = static_cast<std::uint32_t>(fibers_.size());
    fiber->name = std::move(name);
    fiber->priority = rng_.next() | (1ULL << 63);
    fiber->cpu = fiber->id % options_.cpus;
    for (bool taken = true; taken;) {
      taken = false;
      for (const std::unique_ptr<Fiber>& other : fibers_) {
        if (other->state != FiberState::kFinished && other->number == fiber->number) taken = true;
      }
      if (taken) ++fiber->number;
    }
    fiber->stack = take_stack();
    fiber->stack_low = fiber->stack.low;
    fiber->stack_bytes = fiber->stack.bytes;
    fiber->context = context::make_fcontext(fiber->stack.top(), fiber->stack.bytes, &fiber_entry);
    fiber->tsan_fiber = tsan_take_fiber();
    if (weak_ && current_ != &main_) fiber->view = current_->view;
    make_runnable(*fiber);
    fibers_.push_back(std::move(made));
  }
  fiber->body = std::move(body);
  tsan_release(fiber);
  if (current_ != &main_) point(Op::kSpawn, fiber);
  return fiber;
}

TW_NO_TSAN void Scheduler::finish_current() {
  // A sanitizer's fiber may not end with an ignore scope open: the switch is outside of it.
  switch_to(choose_after_end(*current_));
  __builtin_unreachable();
}

Fiber& Scheduler::choose_after_end(Fiber& me) {
  const TsanIgnore ignore;
  if (me.thread.held_count != 0) {
    fail(Failure::kLeak, "thread '" + me.name + "' ended with lock '" + me.thread.held[0].name + "' held");
  }
  if (me.id == 0) {
    std::string left;
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      if (fiber.get() != &me && fiber->state != FiberState::kFinished) left += " '" + fiber->name + "'";
    }
    if (!left.empty()) fail(Failure::kLeak, "the body ended before these threads:" + left);
    if (!suspects_.empty()) report_lost_wakeup();
  }
  make_unrunnable(me);
  me.state = FiberState::kFinished;
  if (me.id == 0) return main_;
  release_waiters(&me);
  return choose_other();
}

TW_NO_TSAN void Scheduler::switch_to(Fiber& next) {
  Fiber& me = *current_;
  if (&next == &me) return;
  ExceptionGlobals& globals = exception_globals();
  me.exceptions_caught = globals.caught;
  me.exceptions_uncaught = globals.uncaught;
  globals = ExceptionGlobals{next.exceptions_caught, next.exceptions_uncaught};
  current_ = &next;
  asan_start_switch(me.state == FiberState::kFinished ? nullptr : &me.asan_fake_stack, next.stack_low,
                    next.stack_bytes);
  tsan_switch(next.tsan_fiber);
  const context::transfer_t from = context::jump_fcontext(next.context, &me);
  auto* const from_fiber = static_cast<Fiber*>(from.data);
  from_fiber->context = from.fctx;
  asan_finish_switch(me.asan_fake_stack, &from_fiber->stack_low, &from_fiber->stack_bytes);
}

// ---- who runs ----

void Scheduler::make_runnable(Fiber& fiber) {
  fiber.state = FiberState::kRunnable;
  fiber.runnable_index = static_cast<std::uint32_t>(runnable_.size());
  runnable_.push_back(&fiber);
}

void Scheduler::make_unrunnable(Fiber& fiber) {
  Fiber* const last = runnable_.back();
  runnable_[fiber.runnable_index] = last;
  last->runnable_index = fiber.runnable_index;
  runnable_.pop_back();
}

void Scheduler::record(Op op, const void* object) {
  events_[event_count_++ % kKeptEvents] = Event{current_->id, op, object, now_ns_};
  if (__builtin_expect(log_every_point(), 0)) {
    std::fprintf(stderr, "sim %8lu %12ld ns  %-16s %s %p\n", static_cast<unsigned long>(steps_),
                 static_cast<long>(now_ns_ - kStartNs), current_->name.c_str(), name_of(op), object);
  }
}

void Scheduler::point(Op op, const void* object) {
  const TsanIgnore ignore;
  record(op, object);
  now_ns_ += kPointNs;
  if (++steps_ > options_.max_steps) {
    fail(Failure::kEndless, "no end after " + std::to_string(options_.max_steps) + " scheduling points");
  }
  if (now_ns_ >= next_wake_ns_) fire_timers();
  if (runnable_.size() > 1) switch_to(*choose_at_point());
}

Fiber* Scheduler::choose_at_point() {
  Fiber* chosen = current_;
  if (schedule_.strategy == Strategy::kRandom) {
    if (preempt_one_in_ == 1 || rng_.below(preempt_one_in_) == 0) {
      chosen = runnable_[rng_.below(runnable_.size())];
    }
  } else {
    if (next_change_ < change_points_.size() && steps_ >= change_points_[next_change_]) {
      ++next_change_;
      current_->priority = --low_priority_;
    }
    if (++steps_alone_ > kAloneSteps) current_->priority = --low_priority_;
    chosen = choose_any();
  }
  if (chosen != current_) steps_alone_ = 0;
  decided(chosen->id);
  return chosen;
}

Fiber* Scheduler::choose_any() {
  if (schedule_.strategy == Strategy::kRandom) return runnable_[rng_.below(runnable_.size())];
  Fiber* best = runnable_.front();
  for (Fiber* fiber : runnable_) {
    if (fiber->priority > best->priority) best = fiber;
  }
  return best;
}

void Scheduler::yield(Op op) {
  const TsanIgnore ignore;
  record(op, nullptr);
  now_ns_ += kPointNs;
  if (++steps_ > options_.max_steps) {
    fail(Failure::kEndless, "no end after " + std::to_string(options_.max_steps) + " scheduling points");
  }
  if (now_ns_ >= next_wake_ns_) fire_timers();
  if (runnable_.size() == 1) {
    // Polling for something that only a timer will bring: time passes as if others had run.
    if (next_wake_ns_ != kNever && rng_.below(16) == 0) {
      now_ns_ = next_wake_ns_;
      fire_timers();
    }
    if (runnable_.size() == 1) return;
  }
  current_->priority = --low_priority_;
  Fiber* chosen = current_;
  while (chosen == current_) chosen = choose_any();
  steps_alone_ = 0;
  decided(chosen->id);
  switch_to(*chosen);
}

Fiber& Scheduler::choose_other() {
  if (runnable_.empty()) advance_time();
  Fiber* const chosen = choose_any();
  if (runnable_.size() > 1) decided(chosen->id);
  steps_alone_ = 0;
  return *chosen;
}

void Scheduler::block(WaitKind kind, const void* object, const char* name, std::int64_t wake_ns, bool idle) {
  Fiber& me = *current_;
  me.wait_kind = kind;
  me.wait_object = object;
  me.wait_name = name;
  me.wait_since_ns = now_ns_;
  me.wake_ns = wake_ns;
  me.idle = idle;
  me.timed_out = false;
  if (kind == WaitKind::kLock || kind == WaitKind::kSharedLock) find_lock_cycle(me);
  make_unrunnable(me);
  me.state = FiberState::kBlocked;
  next_wake_ns_ = std::min(next_wake_ns_, wake_ns);
  switch_to(choose_other());
  me.wait_kind = WaitKind::kNone;
  me.wake_ns = kNever;
}

void Scheduler::release_waiters(const void* object) {
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->state == FiberState::kBlocked && fiber->wait_object == object) make_runnable(*fiber);
  }
}

// ---- time ----

void Scheduler::fire_timers() {
  std::int64_t next = kNever;
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->state != FiberState::kBlocked) continue;
    if (fiber->wake_ns <= now_ns_) {
      fiber->timed_out = true;
      make_runnable(*fiber);
    } else {
      next = std::min(next, fiber->wake_ns);
    }
  }
  next_wake_ns_ = next;
}

void Scheduler::advance_time() {
  while (runnable_.empty()) {
    if (!suspects_.empty()) report_lost_wakeup();
    std::int64_t next = kNever;
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      if (fiber->state == FiberState::kBlocked) next = std::min(next, fiber->wake_ns);
    }
    if (next == kNever) fail(Failure::kDeadlock, "threads wait, none can run, and no timer is set");
    now_ns_ = std::max(now_ns_, next);
    visible_to_all_ = steps_;
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      const bool waits = fiber->wait_kind == WaitKind::kLock || fiber->wait_kind == WaitKind::kSharedLock ||
                         fiber->wait_kind == WaitKind::kCondition;
      if (fiber->state != FiberState::kBlocked || !waits || fiber->idle || fiber->wake_ns != kNever) continue;
      if (now_ns_ - fiber->wait_since_ns > options_.no_progress.ns) {
        fail(Failure::kNoProgress, "thread '" + fiber->name + "' has waited for '" + fiber->wait_name +
                                       "' for more than " +
                                       std::to_string(options_.no_progress.ns / 1'000'000'000) +
                                       " virtual seconds");
      }
    }
    fire_timers();
  }
}

void Scheduler::sleep_until(std::int64_t ns) {
  if (ns <= now_ns_) return yield(Op::kYield);
  {
    const TsanIgnore ignore;
    block(WaitKind::kSleep, nullptr, "sleep", ns, true);
  }
  point(Op::kSleep, nullptr);
}

void Scheduler::join(Fiber* fiber) {
  {
    const TsanIgnore ignore;
    while (fiber->state != FiberState::kFinished) {
      block(WaitKind::kJoin, fiber, fiber->name.c_str(), kNever, true);
    }
    if (weak_) join_view(current_->view, fiber->view);
  }
  tsan_acquire(fiber);
  point(Op::kJoin, fiber);
}

std::int64_t Scheduler::read_clock() {
  const TsanIgnore ignore;
  return now_ns_ += kClockReadNs;
}

void Scheduler::charge(std::int64_t ns) {
  const TsanIgnore ignore;
  now_ns_ += ns;
}

std::uint32_t Scheduler::current_cpu() {
  const TsanIgnore ignore;
  // A thread moves now and then, also between asking and using the answer.
  if (rng_.below(16) == 0) current_->cpu = static_cast<std::uint32_t>(rng_.below(options_.cpus));
  return current_->cpu;
}

// ---- the end of a run ----

std::string Scheduler::describe() const {
  std::string text;
  char line[256];
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    const char* state = "can run";
    if (fiber->state == FiberState::kFinished) state = "has ended";
    if (fiber->state == FiberState::kBlocked) {
      constexpr const char* kWaits[] = {"?", "waits for lock", "waits for lock (shared)",
                                        "waits on a condition with lock", "joins", "sleeps:"};
      state = kWaits[static_cast<int>(fiber->wait_kind)];
    }
    std::snprintf(line, sizeof line, "  thread %u '%s'%s %s%s%s\n", fiber->id, fiber->name.c_str(),
                  fiber.get() == current_ ? " (running)" : "", state,
                  fiber->state == FiberState::kBlocked ? " " : "",
                  fiber->state == FiberState::kBlocked ? fiber->wait_name : "");
    text += line;
    for (std::uint32_t i = 0; i < fiber->thread.held_count; ++i) {
      text += std::string("    holds lock ") + fiber->thread.held[i].name + "\n";
    }
  }
  const std::uint64_t first = event_count_ > kKeptEvents ? event_count_ - kKeptEvents : 0;
  text += "  last scheduling points (virtual ns, thread, what, object):\n";
  for (std::uint64_t i = first; i < event_count_; ++i) {
    const Event& event = events_[i % kKeptEvents];
    std::snprintf(line, sizeof line, "    %12ld  %-16s %s %p\n", static_cast<long>(event.at_ns - kStartNs),
                  fibers_[event.fiber]->name.c_str(), name_of(event.op), event.object);
    text += line;
  }
  return text;
}

void Scheduler::report_lost_wakeup() {
  const Suspect& suspect = suspects_.front();
  fail(Failure::kLostWakeup, "thread '" + suspect.fiber + "' waited on a condition with lock '" +
                                 suspect.lock_name +
                                 "' until its deadline and found the condition true: nobody notified it");
}

void Scheduler::fail(Failure kind, std::string message) {
  const TsanIgnore ignore;
  TW_ASSERT(current_ != &main_, "the simulator itself failed");
  kind_ = kind;
  message_ = std::move(message) + "\n" + describe();
  switch_to(main_);
  __builtin_unreachable();
}

}  // namespace tidewheel::sim

#endif
