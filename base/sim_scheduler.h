// base/sim_scheduler.h: the inside of the simulator: one run of fibers under one seeded scheduler. Tests
// include base/sim.h.
// Owns:      the run's fibers, their stacks (from a pool) and the virtual clock.
// Threads:   one OS thread; fibers switch only inside calls of this class.
// Units:     virtual nanoseconds. A scheduling point takes kPointNs; time jumps to the next timer when
//            nothing can run.
// Errors:    fail() ends the run: the fibers are abandoned where they stand, their stacks kept for good.
// Invariant: a run is a function of (seed, strategy, memory, body): no address and no real clock steers it.
//            Nothing here may be touched by the thread sanitizer's model, which would see the scheduler's
//            own state as racing between fibers: every entry ignores memory accesses (TsanIgnore).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "base/sim.h"
#include "base/sim_hooks.h"
#include "base/sim_stack.h"
#include "base/thread_state.h"

#if TW_SIM

namespace tidewheel::sim {

// What a fiber knows of the others' stores: one counter per fiber.
using View = std::vector<std::uint32_t>;

enum class FiberState : std::uint8_t { kRunnable, kBlocked, kFinished };
enum class WaitKind : std::uint8_t { kNone, kLock, kSharedLock, kCondition, kJoin, kSleep };

struct Fiber {
  std::uint32_t id = 0;
  std::string name;
  std::function<void()> body;
  FiberState state = FiberState::kRunnable;
  std::uint32_t runnable_index = 0;
  std::uint64_t priority = 0;  // PCT: the highest runnable one runs
  std::uint32_t cpu = 0;
  std::uint32_t number = 0;     // thread_number(): the smallest that no living fiber has

  // While blocked.
  WaitKind wait_kind = WaitKind::kNone;
  const void* wait_object = nullptr;
  const char* wait_name = "";
  std::int64_t wait_since_ns = 0;
  std::int64_t wake_ns = kNever;
  bool idle = false;
  bool timed_out = false;
  // From cond_wait's start until it has the lock again.
  const void* condition = nullptr;
  bool notified = false;

  ThreadState thread;
  View view;                // weak memory: what happened before this point
  View acquire_fence_view;  // what relaxed loads would have brought, for a later acquire fence
  View release_fence_view;  // the view at the last release fence

  Stack stack;
  void* context = nullptr;  // fcontext_t while not running
  void* asan_fake_stack = nullptr;
  const void* stack_low = nullptr;
  std::size_t stack_bytes = 0;
  void* tsan_fiber = nullptr;
  void* exceptions_caught = nullptr;  // the C++ runtime's per-thread state, kept per fiber
  unsigned exceptions_uncaught = 0;
};

class Scheduler {
 public:
  Scheduler(const Options& options, const Schedule& schedule);
  ~Scheduler();

  // Runs body as fiber 0 to its end or its failure.
  void run(const std::function<void()>& body);

  bool failed() const { return kind_ != Failure::kNone; }
  Failure kind() const { return kind_; }
  const std::string& message() const { return message_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t decisions() const { return decision_hash_; }
  std::int64_t now_ns() const { return now_ns_; }

  // ---- what base/sim_hooks.h calls ----
  void point(Op op, const void* object);
  void yield(Op op);
  void charge(std::int64_t ns);
  bool lock_exclusive(SimLock& lock, const char* name);
  bool lock_shared(SimLock& lock, const char* name);
  bool try_lock_exclusive(SimLock& lock);
  bool try_lock_shared(SimLock& lock);
  void unlock_exclusive(SimLock& lock);
  void unlock_shared(SimLock& lock);
  void forget_lock(const SimLock& lock);
  bool cond_wait(const void* cond, SimLock& lock, const char* lock_name, std::int64_t deadline_ns, bool idle);
  void cond_notify(const void* cond, bool all);
  void timed_wait_found_true(const void* cond, const char* lock_name);
  Fiber* spawn(std::string name, std::function<void()> body);
  void join(Fiber* fiber);
  void sleep_until(std::int64_t ns);
  std::int64_t read_clock();
  std::uint32_t current_cpu();
  std::uint32_t cpus() const { return options_.cpus; }
  Fiber* current() const { return current_; }
  [[noreturn]] void fail(Failure kind, std::string message);

  bool weak_memory() const { return weak_; }
  std::uint64_t weak_load(const void* location, std::uint64_t newest, std::memory_order order);
  void weak_read_newest(const void* location, std::uint64_t newest, std::memory_order order);
  void weak_store(const void* location, std::uint64_t before, std::uint64_t after, std::memory_order order,
                  bool read_modify_write);
  void weak_fence(std::memory_order order);
  void weak_forget(const void* location);

 private:
  static constexpr std::int64_t kPointNs = 20;       // about one uncontended atomic or lock
  static constexpr std::uint64_t kAloneSteps = 2000;  // PCT: a spinning favourite steps back
  static constexpr std::int64_t kClockReadNs = 20;   // a loop that only reads the clock gets on
  static constexpr std::int64_t kStartNs = 1'000'000'000'000;
  static constexpr std::size_t kKeptEvents = 48;
  static constexpr std::size_t kKeptStores = 8;
  static constexpr std::uint64_t kStoreDelaySteps = 400;  // every store is seen by all after so many points

  struct Event {
    std::uint32_t fiber = 0;
    Op op = Op::kStart;
    const void* object = nullptr;
    std::int64_t at_ns = 0;
  };
  struct Suspect {
    const void* cond;
    const char* lock_name;
    std::string fiber;
  };
  struct Store {
    std::uint64_t bits = 0;
    std::uint32_t fiber = 0;
    std::uint32_t epoch = 0;  // 0: known to all
    std::uint64_t step = 0;
    bool seq_cst = false;
    View released;            // empty: a relaxed store
  };
  struct Seen {
    std::uint64_t number = 0;  // in modification order
    std::uint32_t epoch = 0;   // of the fiber that read or wrote it, then
  };
  struct Location {
    std::vector<Store> stores;  // the last kKeptStores in modification order
    std::uint64_t first = 0;    // number of stores[0] in modification order
    std::vector<Seen> seen;     // per fiber: the newest that it has read or written
  };

  // ---- scheduling (sim_scheduler.cc) ----
  void record(Op op, const void* object);
  void make_runnable(Fiber& fiber);
  void make_unrunnable(Fiber& fiber);
  Fiber* choose_at_point();
  Fiber* choose_any();
  void decided(std::uint64_t what) { decision_hash_ = (decision_hash_ ^ what) * 0x100000001B3ULL; }
  void switch_to(Fiber& next);
  void fire_timers();
  void advance_time();
  void take_exclusive(SimLock& lock, const char* name, bool& waited);
  void release_exclusive(SimLock& lock);
  void block(WaitKind kind, const void* object, const char* name, std::int64_t wake_ns, bool idle);
  [[noreturn]] void finish_current();
  [[noreturn]] void report_lost_wakeup();
  Fiber& choose_after_end(Fiber& me);
  Fiber& choose_other();  // the current fiber cannot go on; may pass time
  void find_lock_cycle(const Fiber& start);
  std::string describe() const;
  void release_waiters(const void* object);

  // ---- weak memory (sim_memory.cc) ----
  Location& location(const void* address, std::uint64_t newest);
  void saw(Location& location, std::uint64_t number);
  // The newest that a load of the current fiber must know, by what was read or written before it.
  std::uint64_t coherent_from(const Location& location) const;
  static void join_view(View& into, const View& from);
  static bool knows(const View& view, std::uint32_t fiber, std::uint32_t epoch);
  void acquired(const Store& store, std::memory_order order);
  static std::uint32_t new_epoch(Fiber& fiber);

  friend void run_fiber(void* from_context, void* from_fiber);

  const Options& options_;
  const Schedule schedule_;
  const bool weak_;
  const bool spurious_;       // some waits return early for no reason
  std::uint32_t preempt_one_in_ = 1;
  Rng rng_;

  Fiber main_;                // explore()'s own stack
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> runnable_;
  std::vector<std::uint64_t> change_points_;  // PCT, ascending
  std::size_t next_change_ = 0;
  std::uint64_t low_priority_;
  std::uint64_t steps_ = 0;
  std::uint64_t steps_alone_ = 0;
  std::int64_t now_ns_ = kStartNs;
  std::int64_t next_wake_ns_ = kNever;
  std::uint64_t decision_hash_ = 0xCBF29CE484222325ULL;

  std::vector<Event> events_;
  std::uint64_t event_count_ = 0;
  std::vector<Suspect> suspects_;
  // Who holds a lock: owner in SimLock; readers here, for the cycle check.
  std::unordered_map<const void*, std::vector<const Fiber*>> readers_;

  std::unordered_map<const void*, Location> locations_;
  std::unordered_map<const void*, View> lock_views_;
  View seq_cst_fence_view_;
  std::uint64_t visible_to_all_ = 0;  // stores of earlier steps are

  Failure kind_ = Failure::kNone;
  std::string message_;
};

}  // namespace tidewheel::sim

#endif
