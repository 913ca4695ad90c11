// Policies: which is in force, what it is told, and the pauses that it asks for.
#include <algorithm>

#include "base/trace.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/engine.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

// What a writer without a TaskThrottle may dirty before it is looked at, until a policy has said.
constexpr std::int64_t kFirstLookBytes = 32 * static_cast<std::int64_t>(kPageBytes);

void note_first(Atomic<std::int64_t>& moment, Instant now) {
  std::int64_t never = INT64_MAX;
  moment.compare_exchange(never, now.ns, std::memory_order_acq_rel);
}

}  // namespace

// ---- which policy ----

void WritebackEngine::put_in_force(const ThrottlePolicy& policy) {
  MutexLock guard(throttle_lock_);
  const InForce* found = nullptr;
  for (const auto& each : policies_) {
    if (each->policy->name() == policy.name) found = each.get();
  }
  if (found == nullptr) {
    auto made = std::make_unique<InForce>();
    made->policy = policy.make();
    made->free_run_bytes = std::min(made->policy->free_run_bytes(limits_), limits_.dirty_limit_bytes);
    made->strict_limit = made->policy->knows_strict_limit();
    made->pauses = made->strict_limit || made->free_run_bytes < limits_.dirty_limit_bytes;
    found = made.get();
    policies_.push_back(std::move(made));
  }
  in_force_.store(found, std::memory_order_release);
  pauses_end_.notify_all();
}

Result<void> WritebackEngine::set_throttle(std::string_view name) {
  const ThrottlePolicy* policy = find_throttle_policy(name);
  if (policy == nullptr) return TW_FAIL(kInvalidArgument);
  put_in_force(*policy);
  return {};
}

// ---- what a task owes ----

bool WritebackEngine::context_is_strict(const WritebackContext& context) {
  return context.device().strict_limit();
}

bool WritebackEngine::has_credit(const WritebackContext& context, std::uint64_t need_bytes,
                                 const TaskThrottle* task) const {
  const auto need = static_cast<std::int64_t>(need_bytes);
  if (task != nullptr) {
    return task->rates_.dirtied_bytes + need < static_cast<std::int64_t>(task->rates_.pause_after_bytes);
  }
  return debts_.local_bytes() + need < static_cast<std::int64_t>(context.device().pause_after_bytes());
}

void WritebackEngine::charge_task(std::int64_t bytes, TaskThrottle* task) {
  if (task != nullptr) {
    task->rates_.dirtied_bytes += bytes;
  } else {
    debts_.add(bytes);
  }
}

// ---- what a policy is told ----

ThrottleInputs WritebackEngine::throttle_inputs(Instant now) const {
  ThrottleInputs in;
  in.now = now;
  in.limits = limits_;
  in.control_limit_bytes = limits_.dirty_limit_bytes;
  // Both from one reading of the sum: what goes under writeback between two readings would be in neither.
  const std::uint64_t total = counts_.total();
  in.writeback_bytes = std::min(counts_.writeback(), total);
  in.dirty_bytes = total - in.writeback_bytes;
  in.waiting_writers = queued_.load(std::memory_order_relaxed);
  return in;
}

ThrottleOwner WritebackEngine::throttle_owner(const WritebackContext& context) {
  ThrottleOwner owner;
  owner.limits = context.own_limits();
  if (owner.limits.dirty_limit_bytes != 0) owner.dirty_bytes = context.counts().total();
  return owner;
}

bool WritebackEngine::owner_runs_free(const InForce& force, const WritebackContext& context,
                                      std::uint64_t need_bytes) {
  const ThrottleLimits own = context.own_limits();
  return own.dirty_limit_bytes == 0 ||
         context.allowance_->charged() + need_bytes <=
             std::min(force.policy->free_run_bytes(own), own.dirty_limit_bytes);
}

namespace {

struct Asker {
  const Throttle* policy;
  ThrottleInputs inputs;
};

DirtyRates ask_next_rates(const void* asker, const ThrottleDevice& device, const RateSample& sample) {
  const auto& mine = *static_cast<const Asker*>(asker);
  ThrottleInputs in = mine.inputs;
  in.device = device;
  return mine.policy->next_rates(in, sample);
}

}  // namespace

ThrottleDecision WritebackEngine::decide(const InForce& force, WritebackContext& context,
                                         std::uint64_t need_bytes, const TaskRates& task) {
  BackingDevice& device = context.device();
  Asker asker{force.policy.get(), throttle_inputs(clock_->now())};
  ThrottleInputs& in = asker.inputs;
  in.request_bytes = need_bytes;
  in.task = task;
  in.owner = throttle_owner(context);
  in.device = device.look({in.now, limits_, &ask_next_rates, &asker});
  if (force.strict_limit && in.device.strict_limit) start_strict_background(context, in.device);
  ThrottleDecision decision;
  // Read before each answer, and stored where the answer says, if it still stands there.
  std::int64_t devices = device.last_wakeup_ns.load(std::memory_order_seq_cst);
  std::int64_t owners = context.last_wakeup_ns_.load(std::memory_order_seq_cst);
  const auto placed = [&] {
    if (decision.last_wakeup == Instant::min()) return true;
    return decision.last_wakeup_is_owners
               ? context.last_wakeup_ns_.compare_exchange(owners, decision.last_wakeup.ns,
                                                          std::memory_order_seq_cst)
               : device.last_wakeup_ns.compare_exchange(devices, decision.last_wakeup.ns,
                                                        std::memory_order_seq_cst);
  };
  do {
    in.last_wakeup = Instant{devices};
    in.owner.last_wakeup = Instant{owners};
    decision = force.policy->decide(in);
  } while (!placed());
  decision.pause = std::clamp(decision.pause, Duration{0}, force.policy->longest_pause());
  return decision;
}

// A batch has ended: the device's bandwidth, measured also while no writer is held back.
void WritebackEngine::update_device(WritebackContext& context, Instant now) {
  context.device().batch_ended({now, limits_});
}

// A device that is held to its share of the limit writes from its share of the background threshold on, also
// while little is dirty altogether: else its writers would wait for what nobody writes.
void WritebackEngine::start_strict_background(const WritebackContext& context, const ThrottleDevice& device) {
  if (device.dirty_bytes <= device.background_bytes) return;
  ReaderLock guard(contexts_lock_);
  for (std::uint32_t i = 0; i < contexts_added_; ++i) {
    WritebackContext* each = contexts_[i].load(std::memory_order_acquire);
    if (each == nullptr || &each->device() != &context.device()) continue;
    const std::uint64_t excess =
        std::min(each->counts().dirty(), device.dirty_bytes - device.background_bytes);
    if (excess != 0) each->raise_reclaim(excess);
  }
}

// ---- pauses ----

void WritebackEngine::begin_pause(WritebackContext& context, std::uint64_t bytes, ThrottlePause& pause,
                                  TaskThrottle* task) {
  const bool first = !pause.again;
  const InForce& force = in_force();
  pause.length = {};
  pause.again = false;
  pause.task = task;
  pause.asked = &force;
  const std::uint64_t need = piece_bytes(context, bytes);
  if (first) pause.charged = false;
  if (!force.pauses || runs_free(force, context, need) || stopping()) return;
  if (!pause.charged) charge_task(static_cast<std::int64_t>(need), task);
  pause.charged = true;

  // Debts that tasks left behind are taken over by who comes next.
  TaskRates rates = task != nullptr ? task->rates_ : TaskRates{.nobody_keeps = true};
  const std::int64_t due =
      task != nullptr ? static_cast<std::int64_t>(rates.pause_after_bytes)
                      : std::max(static_cast<std::int64_t>(context.device().pause_after_bytes()),
                                 kFirstLookBytes);
  const std::int64_t own = task != nullptr ? 0 : static_cast<std::int64_t>(need);
  rates.dirtied_bytes += debts_.take(std::max({due, own, kFirstLookBytes}));
  if (task != nullptr && rates.dirtied_bytes < due && !context_is_strict(context)) {
    task->rates_ = rates;
    return;
  }
  const ThrottleDecision decision = decide(force, context, need, rates);
  if (task != nullptr) {
    task->rates_ = decision.task;
  } else {
    context.device().set_pause_after(decision.task.pause_after_bytes);
    debts_.add(decision.task.dirtied_bytes);
  }
  if (decision.pause.ns == 0) return;
  pause.length = decision.pause;
  pause.again = decision.again;
  pause.since = clock_->now();
  pause.counted = true;
  note_first(first_throttled_ns_, pause.since);
  throttle_pauses_.fetch_add(1, std::memory_order_relaxed);
  throttled_.fetch_add(1, std::memory_order_relaxed);
  driver_->kick_all();
}

bool WritebackEngine::pause_is_over(const ThrottlePause& pause) const {
  return no_waiting() != Reason::kOk || pause.asked != &in_force() ||
         clock_->now() >= pause.since + pause.length;
}

void WritebackEngine::end_pause(ThrottlePause& pause) {
  if (!std::exchange(pause.counted, false)) return;
  throttled_.fetch_sub(1, std::memory_order_relaxed);
  const Duration slept = clock_->now() - pause.since;
  const auto slept_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(slept.ns, 0));
  throttle_ns_.fetch_add(slept_ns, std::memory_order_relaxed);
  throttle_pause_ns_.record(slept_ns);
  TW_TRACE(balance_dirty_pages, 0, counts_.total(), slept_ns, limits_.dirty_limit_bytes);
  // The new policy is asked at once. Where a context fails, the queue at the limit knows whether to refuse.
  if (pause.asked != &in_force()) pause.again = true;
  if (failing_contexts_.load(std::memory_order_seq_cst) != 0 || no_waiting() != Reason::kOk) {
    pause.again = false;
  }
}

// Not kOk: it ended for that reason.
Reason WritebackEngine::sleep_pause(const ThrottlePause& pause) {
  MutexLock guard(throttle_lock_);
  for (;;) {
    if (const Reason why = no_waiting(); why != Reason::kOk) return why;
    const Duration left = pause.since + pause.length - clock_->now();
    if (left.ns <= 0 || pause.asked != &in_force()) return Reason::kOk;
    driver_->wait(throttle_lock_, pauses_end_, left);
  }
}

}  // namespace tidewheel
