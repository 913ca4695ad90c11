// The work policy in force, and the activity of devices that it may wait for.
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/engine.h"

namespace tidewheel {

Result<void> WritebackEngine::set_work_policy(std::string_view name) {
  const WorkPolicyChoice* choice = find_work_policy(name);
  if (choice == nullptr) return TW_FAIL(kInvalidArgument);
  {
    MutexLock guard(throttle_lock_);
    const WorkPolicy* found = nullptr;
    for (const auto& each : work_policies_) {
      if (each->name() == name) found = each.get();
    }
    if (found == nullptr) {
      work_policies_.push_back(choice->make());
      found = work_policies_.back().get();
    }
    // Of a time that nobody has watched.
    activity_armed_.store(false, std::memory_order_seq_cst);
    work_policy_.store(found, std::memory_order_release);
  }
  driver_->kick_all();
  return {};
}

void WritebackEngine::note_activity(WritebackContext& context, Instant now) {
  if (!work_policy_in_force().watches_activity()) return;
  Atomic<std::int64_t>& last = context.device_->last_activity_ns;
  std::int64_t was = last.load(std::memory_order_seq_cst);
  // Also when the clock was set back: whoever waits for a quiet device would wait for the old time.
  while (was != now.ns && !last.compare_exchange(was, now.ns, std::memory_order_seq_cst)) {
  }
  if (!activity_armed_.exchange(true, std::memory_order_seq_cst)) driver_->kick_all();
}

}  // namespace tidewheel
