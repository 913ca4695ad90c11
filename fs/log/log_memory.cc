// Memory for images: charged in steps before it is used, so that a commit, which can't fail, finds it; who
// would begin a transaction beyond that waits for what is being written.
#include <algorithm>

#include "base/assert.h"
#include "fs/log/log.h"

namespace tidewheel {

bool Log::charge_step_locked() {
  if (memory_charged_bytes() + memory_step_ > memory_limit_) return false;
  if (!options_.budget->try_charge(MemoryKind::kLog, static_cast<std::uint64_t>(memory_step_))) return false;
  memory_charged_.fetch_add(memory_step_, std::memory_order_relaxed);
  return true;
}

// Nothing is held: neither log space nor an object. What frees memory, the worker and the device, waits for
// neither of these.
Result<void> Log::wait_for_memory() {
  bool waited = false;
  for (;;) {
    // Outside lock_: the CIL's locks stand above it.
    const std::uint64_t last_used = cil_.last_used_sequence();
    {
      MutexLock hold(lock_);
      if (is_shut_down()) return TW_FAIL(kShutDown);
      if (memory_admits()) return {};
      if (options_.budget != nullptr && charge_step_locked()) continue;
      if (last_used > stable_sequence_) {
        if (!waited) ++waits_for_memory_;
        waited = true;
        const std::uint64_t stable = stable_sequence_;
        want_locked(last_used);
        while (stable_sequence_ == stable && !is_shut_down()) changed_.wait(lock_);
        continue;
      }
    }
    // Nothing is in memory but what is spare.
    cil_.drop_spare();
    if (memory_admits() || options_.budget == nullptr) return {};
    TW_TRY(options_.budget->charge(MemoryKind::kLog, static_cast<std::uint64_t>(memory_step_),
                                   ChargeBy::kAnyone, options_.memory_patience));
    memory_charged_.fetch_add(memory_step_, std::memory_order_relaxed);
  }
}

// A checkpoint is over. What stays charged is what images take now, and a step for those to come.
void Log::give_memory_back_locked() {
  if (options_.budget == nullptr) return;
  const std::int64_t needed = std::max<std::int64_t>(cil_.memory_bytes(), 0) + memory_margin_ + memory_step_;
  const std::int64_t too_much = memory_charged_bytes() - needed;
  if (too_much < memory_step_) return;
  const std::int64_t back = too_much / memory_step_ * memory_step_;
  memory_charged_.fetch_sub(back, std::memory_order_relaxed);
  options_.budget->uncharge(MemoryKind::kLog, static_cast<std::uint64_t>(back));
}

}  // namespace tidewheel
