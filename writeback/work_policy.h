// writeback/work_policy.h: how a device's dirt is written while nobody asks for it: at what age, over the
// background threshold or not, and whether all of it in one go.
// Owns:      nothing.
// Threads:   a policy is asked by every flusher at once, and has no state.
// Units:     nanoseconds of the engine's clock.
// Errors:    none.
// Policies are pure: they are handed `now` and what they may know, sleep never and read no clock. Swapped
// while the engine runs: WritebackEngine::set_work_policy().
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace tidewheel {

struct WorkFacts {
  Instant now;
  Duration expire;    // EngineOptions::expire, interval
  Duration interval;
  // Of the device: the end of the last I/O that was not a drain's (a sync's, an fsync's, periodic work's
  // ...), or what the program told by note_activity(). Instant::min(): never.
  Instant last_activity = Instant::min();
  bool writers_held = false;  // some writer waits, or pauses
};

struct WorkRules {
  Duration expire;
  Duration interval;       // 0: nothing is written for its age
  // Whether work may start over the background threshold. A policy must say yes while writers are held.
  bool background = true;
  // From then on everything that is dirty is written, timestamps alone included, once for each
  // last_activity; it ends though writers go on. Instant::max(): not. Long past: the device may have gone to
  // sleep since; not either.
  Instant drain_at = Instant::max();
};

class WorkPolicy {
 public:
  virtual ~WorkPolicy() = default;
  virtual std::string_view name() const = 0;
  virtual WorkRules rules(const WorkFacts& facts) const = 0;
  // Whether last_activity is of use; else it is not kept.
  virtual bool watches_activity() const { return false; }
};

// `steady` (the default): age and threshold as the options say. `batching`: see there.
struct WorkPolicyChoice {
  std::string name;
  std::string summary;
  std::unique_ptr<WorkPolicy> (*make)() = nullptr;
};
const std::vector<WorkPolicyChoice>& work_policies();
const WorkPolicyChoice* find_work_policy(std::string_view name);
// Before threads start. False: the name is taken, or there is no factory.
bool register_work_policy(WorkPolicyChoice policy);

// How long the device must have had nothing else to do before `batching` writes everything.
inline constexpr Duration kBatchingQuiet = seconds(5);

}  // namespace tidewheel
