// writeback/throttle.h: how long a writer must wait before it may dirty more. One file per policy.
// Threads:   a Throttle is asked by many threads at once: pure functions of what they are handed.
// Locks:     none; called with none held.
// Units:     bytes, nanoseconds, bytes per second.
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

namespace tidewheel {

struct ThrottleLimits {
  std::uint64_t background_bytes = 0;
  std::uint64_t dirty_limit_bytes = 0;
};

// Everything a policy may look at.
struct ThrottleInputs {
  Instant now;
  ThrottleLimits limits;
  std::uint64_t dirty_bytes = 0;      // dirty, writeback not counted
  std::uint64_t writeback_bytes = 0;
  std::uint64_t request_bytes = 0;    // what the writer wants to dirty, overhead included
  std::uint64_t context_dirty_bytes = 0;
  std::uint64_t context_writeback_bytes = 0;
  std::uint64_t write_bandwidth = 0;  // of the writer's context; 0: not known
  std::uint32_t waiting_writers = 0;
};

// A pause is slept before the writer is admitted; it also ends when the engine stops. Beyond a pause the
// hard limit itself makes writers wait, first come first served, until something has been cleaned.
class Throttle {
 public:
  static constexpr Duration kLongestPause = milliseconds(200);  // a policy's answer is cut to this

  virtual ~Throttle() = default;
  virtual std::string_view name() const = 0;
  // Below this many bytes (dirty + writeback) the policy need not be asked.
  virtual std::uint64_t free_run_bytes(const ThrottleLimits& limits) const = 0;
  virtual Duration pause(const ThrottleInputs& inputs) const = 0;
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

std::unique_ptr<Throttle> make_hard_limit_throttle();  // throttle_hard_limit.cc

}  // namespace tidewheel
