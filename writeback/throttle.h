// writeback/throttle.h: how long a writer must wait before it may dirty more. One file per policy, in
// throttles/.
// Owns:      nothing: a policy has no state. What it needs to know is handed to it, and what it wants to
//            know the next time is in its answer.
// Threads:   a Throttle is asked by many threads at once: pure functions of what they are handed.
// Locks:     decide() is called with none held, next_rates() under a device's.
// Units:     bytes, nanoseconds, bytes per second. Bytes are counted as the thresholds count them: data,
//            and object_overhead_bytes for each dirty object.
// Errors:    none.
// Invariant: no policy can lift the hard limit: whatever it answers, the engine admits a writer only while
//            dirty + writeback + what other writers have set aside stays within dirty_limit_bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "writeback/bandwidth_estimate.h"

namespace tidewheel {

struct ThrottleLimits {
  std::uint64_t background_bytes = 0;
  std::uint64_t dirty_limit_bytes = 0;
};

// What one task has dirtied and been charged for (writeback/task_throttle.h keeps it).
struct TaskRates {
  std::int64_t dirtied_bytes = 0;           // since its last pause; below 0: it paid for more
  std::uint64_t pause_after_bytes = 0;      // it isn't looked at before it has dirtied so much
  Instant paused_when = Instant::min();     // when its last pause ended; min(): it never paused
  bool nobody_keeps = false;  // only dirtied_bytes of the answer is kept: what is not paid must stay in it
};

// The device of the writer's context.
struct ThrottleDevice {
  BandwidthEstimate estimate;
  std::uint64_t dirty_bytes = 0;            // dirty + writeback, of all its contexts
  std::uint64_t dirty_limit_bytes = 0;      // its share of the limit
  std::uint64_t background_bytes = 0;       // its share of the background threshold
  bool strict_limit = false;                // held to its share also while little is dirty altogether
  Duration stalled_for;                     // under writeback, and nothing has completed for so long
};

// Limits of the writer's context alone; 0: it has none.
struct ThrottleOwner {
  ThrottleLimits limits;
  std::uint64_t dirty_bytes = 0;            // dirty + writeback
  Instant last_wakeup = Instant::min();     // of the owner's writers, as ThrottleInputs::last_wakeup
};

// Everything a policy may look at.
struct ThrottleInputs {
  Instant now;
  ThrottleLimits limits;
  // The limit for control: follows dirty_limit_bytes up at once and down slowly (DirtyLimit).
  std::uint64_t control_limit_bytes = 0;
  std::uint64_t dirty_bytes = 0;            // dirty, writeback not counted
  std::uint64_t writeback_bytes = 0;
  std::uint64_t request_bytes = 0;          // what the writer wants to dirty, overhead included
  std::uint32_t waiting_writers = 0;        // at the hard limit
  ThrottleDevice device;
  ThrottleOwner owner;
  TaskRates task;                           // the request is in dirtied_bytes already
  Instant last_wakeup = Instant::min();     // of the device's writers: the latest end of a pause given out

  std::uint64_t total_bytes() const { return dirty_bytes + writeback_bytes; }
};

// What is to be done about a writer, and what to remember.
struct ThrottleDecision {
  Duration pause;                           // from `now`
  bool again = false;                       // nothing may be dirtied after it: ask again
  TaskRates task;
  // Instant::min(): leave it. Else the engine stores it where last_wakeup came from, if that has not changed
  // meanwhile; if it has, it asks again at once.
  Instant last_wakeup = Instant::min();
  bool last_wakeup_is_owners = false;       // the owner's is meant, not the device's
};

// A pause is slept before the writer is admitted; it also ends when the engine stops, when its waiters are
// interrupted and when another policy is put in force. Beyond a pause the hard limit itself makes writers
// wait, first come first served, until something has been cleaned.
class Throttle {
 public:
  static constexpr Duration kLongestPause = milliseconds(200);

  virtual ~Throttle() = default;
  virtual std::string_view name() const = 0;
  // Below this many bytes (dirty + writeback) the policy need not be asked.
  virtual std::uint64_t free_run_bytes(const ThrottleLimits& limits) const = 0;
  // Whether writers of a device with strict_limit are asked about although little is dirty altogether.
  virtual bool knows_strict_limit() const { return false; }
  virtual ThrottleDecision decide(const ThrottleInputs& inputs) const = 0;
  // At most every 200 ms, and only from a writer that is being looked at: the rates at which the device's
  // tasks may dirty from now on. `inputs` has no task and no request, and the rates that held for `sample`.
  virtual DirtyRates next_rates(const ThrottleInputs& inputs, const RateSample& sample) const;
  // An answer's pause is cut to this.
  virtual Duration longest_pause() const { return kLongestPause; }
};

struct ThrottlePolicy {
  std::string name;
  std::string summary;
  std::unique_ptr<Throttle> (*make)() = nullptr;
};
const std::vector<ThrottlePolicy>& throttle_policies();
const ThrottlePolicy* find_throttle_policy(std::string_view name);
// Before threads start. False: the name is taken.
bool register_throttle_policy(ThrottlePolicy policy);

std::unique_ptr<Throttle> make_hard_limit_throttle();   // throttles/hard_limit.cc
std::unique_ptr<Throttle> make_linux_throttle();        // throttles/linux.cc
std::unique_ptr<Throttle> make_delay_curve_throttle();  // throttles/delay_curve.cc

}  // namespace tidewheel
