// Locks and conditions inside a simulation, and the functions of base/sim_hooks.h.
#include <algorithm>
#include <utility>

#include "base/sim_sanitizers.h"
#include "base/sim_scheduler.h"

#if TW_SIM

namespace tidewheel::sim {

// Whoever asks first after a release gets the lock: real mutexes let a running thread overtake a sleeper,
// and fairness would hide starvation and handover races. A sleeping fiber is only made runnable.

// For the thread sanitizer and for weak memory a lock is two places: readers wait for writers, writers for
// both, and readers do not order each other.

void Scheduler::forget_lock(const SimLock& lock) {
  const TsanIgnore ignore;
  lock_views_.erase(&lock.owner);
  lock_views_.erase(&lock.readers);
  readers_.erase(&lock);
}

// ---- exclusive ----

void Scheduler::take_exclusive(SimLock& lock, const char* name, bool& waited) {
  while (lock.owner != nullptr || lock.readers != 0) {
    waited = true;
    block(WaitKind::kLock, &lock, name, kNever, false);
  }
  lock.owner = current_;
  if (weak_) {
    join_view(current_->view, lock_views_[&lock.owner]);
    join_view(current_->view, lock_views_[&lock.readers]);
  }
}

bool Scheduler::lock_exclusive(SimLock& lock, const char* name) {
  bool waited = false;
  {
    const TsanIgnore ignore;
    take_exclusive(lock, name, waited);
  }
  tsan_acquire(&lock.owner);
  tsan_acquire(&lock.readers);
  point(Op::kLock, &lock);
  return waited;
}

bool Scheduler::try_lock_exclusive(SimLock& lock) {
  bool taken = false;
  {
    const TsanIgnore ignore;
    if (lock.owner == nullptr && lock.readers == 0) {
      bool waited = false;
      take_exclusive(lock, "", waited);
      taken = true;
    }
  }
  if (!taken) {
    yield(Op::kTryLockFailed);
    return false;
  }
  tsan_acquire(&lock.owner);
  tsan_acquire(&lock.readers);
  point(Op::kLock, &lock);
  return true;
}

void Scheduler::release_exclusive(SimLock& lock) {
  if (weak_) {
    new_epoch(*current_);
    lock_views_[&lock.owner] = current_->view;
  }
  lock.owner = nullptr;
  release_waiters(&lock);
}

void Scheduler::unlock_exclusive(SimLock& lock) {
  tsan_release(&lock.owner);
  {
    const TsanIgnore ignore;
    if (lock.owner != current_) {
      fail(Failure::kAssertion, "a lock is released by a thread that does not hold it");
    }
    release_exclusive(lock);
  }
  point(Op::kUnlock, &lock);
}

// ---- shared ----

bool Scheduler::lock_shared(SimLock& lock, const char* name) {
  bool waited = false;
  {
    const TsanIgnore ignore;
    while (lock.owner != nullptr) {
      waited = true;
      block(WaitKind::kSharedLock, &lock, name, kNever, false);
    }
    ++lock.readers;
    readers_[&lock].push_back(current_);
    if (weak_) join_view(current_->view, lock_views_[&lock.owner]);
  }
  tsan_acquire(&lock.owner);
  point(Op::kLockShared, &lock);
  return waited;
}

bool Scheduler::try_lock_shared(SimLock& lock) {
  bool taken = false;
  {
    const TsanIgnore ignore;
    taken = lock.owner == nullptr;
  }
  if (taken) {
    lock_shared(lock, "");
    return true;
  }
  yield(Op::kTryLockFailed);
  return false;
}

void Scheduler::unlock_shared(SimLock& lock) {
  tsan_release(&lock.readers);
  {
    const TsanIgnore ignore;
    std::vector<const Fiber*>& readers = readers_[&lock];
    const auto me = std::find(readers.begin(), readers.end(), current_);
    if (me == readers.end()) {
      fail(Failure::kAssertion, "a shared lock is released by a thread that does not hold it");
    }
    readers.erase(me);
    if (weak_) {
      new_epoch(*current_);
      join_view(lock_views_[&lock.readers], current_->view);
    }
    if (--lock.readers == 0) release_waiters(&lock);
  }
  point(Op::kUnlockShared, &lock);
}

// Follows "waits for a lock held by" from the fiber that is about to wait.
void Scheduler::find_lock_cycle(const Fiber& start) {
  std::vector<const Fiber*> path{&start};
  std::vector<const Fiber*> visited;
  const std::function<bool(const Fiber&)> reaches_start = [&](const Fiber& fiber) {
    std::vector<const Fiber*> holders;
    const auto* const lock = static_cast<const SimLock*>(fiber.wait_object);
    if (lock->owner != nullptr) holders.push_back(static_cast<const Fiber*>(lock->owner));
    if (const auto found = readers_.find(lock);
        found != readers_.end() && fiber.wait_kind == WaitKind::kLock) {
      holders.insert(holders.end(), found->second.begin(), found->second.end());
    }
    for (const Fiber* holder : holders) {
      if (holder == &start) return true;
      if (std::find(visited.begin(), visited.end(), holder) != visited.end()) continue;
      visited.push_back(holder);
      const bool waits = holder->state == FiberState::kBlocked &&
                         (holder->wait_kind == WaitKind::kLock || holder->wait_kind == WaitKind::kSharedLock);
      if (!waits) continue;
      path.push_back(holder);
      if (reaches_start(*holder)) return true;
      path.pop_back();
    }
    return false;
  };
  if (!reaches_start(start)) return;
  std::string message = "threads wait for each other's locks:";
  for (const Fiber* fiber : path) message += " '" + fiber->name + "' waits for '" + fiber->wait_name + "';";
  fail(Failure::kLockCycle, message);
}

// ---- conditions ----

bool Scheduler::cond_wait(const void* cond, SimLock& lock, const char* lock_name, std::int64_t deadline_ns,
                          bool idle) {
  tsan_release(&lock.owner);
  bool notified = false;
  {
    const TsanIgnore ignore;
    Fiber& me = *current_;
    if (lock.owner != &me) fail(Failure::kAssertion, "a condition is waited on without its lock");
    me.condition = cond;
    me.notified = false;
    release_exclusive(lock);
    bool spurious = false;
    if (spurious_ && rng_.below(16) == 0) {
      spurious = true;
      yield(Op::kYield);
    } else if (deadline_ns <= now_ns_) {
      yield(Op::kYield);
    } else {
      block(WaitKind::kCondition, cond, lock_name, deadline_ns, idle);
    }
    bool waited = false;
    take_exclusive(lock, lock_name, waited);
    // Until its next wait the fiber still counts as waiting on this condition, see cond_notify.
    notified = me.notified || spurious;
  }
  tsan_acquire(&lock.owner);
  tsan_acquire(&lock.readers);
  point(Op::kWait, cond);
  return notified;
}

void Scheduler::cond_notify(const void* cond, bool all) {
  {
    const TsanIgnore ignore;
    std::vector<Fiber*> sleepers;
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      if (fiber->condition != cond || fiber->state == FiberState::kFinished) continue;
      if (fiber->state == FiberState::kBlocked && fiber->wait_kind == WaitKind::kCondition) {
        sleepers.push_back(fiber.get());
      } else {
        fiber->notified = true;  // its deadline came first, by a hair: no lost wake-up
      }
    }
    std::erase_if(suspects_, [&](const Suspect& suspect) { return suspect.cond == cond; });
    if (!all && sleepers.size() > 1) {
      Fiber* const chosen = sleepers[rng_.below(sleepers.size())];
      decided(chosen->id);
      sleepers.assign(1, chosen);
    }
    for (Fiber* fiber : sleepers) {
      fiber->notified = true;
      make_runnable(*fiber);
    }
  }
  point(Op::kNotify, cond);
}

// The notifier changes the condition under the lock and may notify after releasing it, so this is only a
// suspicion until nothing can run any more (advance_time) or the run ends.
void Scheduler::timed_wait_found_true(const void* cond, const char* lock_name) {
  const TsanIgnore ignore;
  if (current_->notified) return;
  suspects_.push_back(Suspect{cond, lock_name, current_->name});
}

// ---- base/sim_hooks.h ----

void point(Op op, const void* object) { running->point(op, object); }
void yield() { running->yield(Op::kYield); }
void charge(std::int64_t ns) {
  if (running != nullptr) running->charge(ns);
}
bool lock_exclusive(SimLock& lock, const char* name) { return running->lock_exclusive(lock, name); }
bool lock_shared(SimLock& lock, const char* name) { return running->lock_shared(lock, name); }
bool try_lock_exclusive(SimLock& lock) { return running->try_lock_exclusive(lock); }
bool try_lock_shared(SimLock& lock) { return running->try_lock_shared(lock); }
void unlock_exclusive(SimLock& lock) { running->unlock_exclusive(lock); }
void unlock_shared(SimLock& lock) { running->unlock_shared(lock); }
bool cond_wait(const void* cond, SimLock& lock, const char* lock_name, std::int64_t deadline_ns, bool idle) {
  return running->cond_wait(cond, lock, lock_name, deadline_ns, idle);
}
void cond_notify(const void* cond, bool all) { running->cond_notify(cond, all); }
void timed_wait_found_true(const void* cond, const char* lock_name) {
  running->timed_wait_found_true(cond, lock_name);
}
void* spawn(std::string name, std::function<void()> body) {
  return running->spawn(std::move(name), std::move(body));
}
void join(void* fiber) { running->join(static_cast<Fiber*>(fiber)); }
void sleep_until(std::int64_t ns) { running->sleep_until(ns); }
std::int64_t now_ns() { return running->read_clock(); }
std::uint32_t current_cpu() { return running->current_cpu(); }
std::uint32_t cpu_count() { return running->cpus(); }
std::uint32_t thread_number() { return running->current()->number; }
ThreadState& thread_state() { return running->current()->thread; }
void forget_lock(const SimLock* lock) { running->forget_lock(*lock); }
bool weak_memory() { return running->weak_memory(); }
std::uint64_t weak_load(const void* location, std::uint64_t newest, std::memory_order order) {
  return running->weak_load(location, newest, order);
}
void weak_read_newest(const void* location, std::uint64_t newest, std::memory_order order) {
  running->weak_read_newest(location, newest, order);
}
void weak_store(const void* location, std::uint64_t before, std::uint64_t after, std::memory_order order) {
  running->weak_store(location, before, after, order, false);
}
void weak_read_modify_write(const void* location, std::uint64_t before, std::uint64_t after,
                            std::memory_order order) {
  running->weak_store(location, before, after, order, true);
}
void weak_fence(std::memory_order order) { running->weak_fence(order); }
void weak_forget(const void* location) { running->weak_forget(location); }

}  // namespace tidewheel::sim

#endif
