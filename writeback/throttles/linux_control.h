// writeback/throttles/linux_control.h: the formulas of the linux policy, each a pure function.
// Units:     bytes, bytes per second, nanoseconds; ratios in fixed point: kOne is 1.
// Source:    published descriptions of Linux's dirty throttling without I/O by the writer (papers, LWN,
//            documentation); docs/throttling.md has the formulas, docs/deviations.md what is otherwise here.
#pragma once
#include <cstdint>

#include "base/config.h"
#include "base/time.h"
#include "writeback/throttle.h"

namespace tidewheel::linux_control {

inline constexpr std::int64_t kOne = 1 << 10;                   // Q10
inline constexpr std::int64_t kMostPosition = 2 * kOne;         // of the curve alone
inline constexpr std::int64_t kDeviceFloor = 4;                 // the device's line divides by this at most
inline constexpr std::int64_t kReserveBoost = 8;                // and its reserve multiplies by this at most
inline constexpr std::uint64_t kSpanSeconds = 8;                // the line's width in seconds of writing
inline constexpr std::uint64_t kFewPages = 8;                   // that a device may always have dirty
inline constexpr std::uint64_t kPollPages = 32;                 // pauses are not for fewer, if possible
inline constexpr std::uint64_t kExceededPages = 8;              // ... unless its device is over its share
// A device that has completed nothing for so long, and has more than its share dirty, is given no more: the
// limit is exact here, and what a dead device holds of it nobody else has.
inline constexpr Duration kStalled = seconds(1);
inline constexpr Duration kMostThinkTime = seconds(1);          // that counts as credit
inline constexpr Duration kShortPause = milliseconds(10);

// Below this nobody is throttled.
constexpr std::uint64_t free_run_ceiling(std::uint64_t threshold, std::uint64_t background) {
  return threshold / 2 + background / 2 + (threshold & background & 1);
}

// 1 + ((setpoint - dirty) / (limit - setpoint))^3 within 0 and 2: 2 at free run and below, 1 at the
// set-point, 0 at the limit and above. setpoint < limit; if not, it is 2 below the limit.
std::int64_t position_curve(std::uint64_t setpoint, std::uint64_t dirty, std::uint64_t limit);

// Of one device.
struct DevicePosition {
  std::uint64_t dirty_bytes = 0;
  std::uint64_t dirty_limit_bytes = 0;  // its share of the threshold
  std::uint64_t background_bytes = 0;
  std::uint64_t write_bandwidth = 0;
  bool strict_limit = false;
};
struct Position {
  std::uint64_t dirty_bytes = 0;      // of all devices
  std::uint64_t threshold_bytes = 0;
  std::uint64_t background_bytes = 0;
  std::uint64_t limit_bytes = 0;      // at least the threshold
  DevicePosition device;
};
// The share that the device's line goes by: at most the threshold, and at least an eighth of what is still
// free, so that a device that begins is not held to nothing.
std::uint64_t device_share(const Position& position);
// What the device's own dirt makes of `ratio`: a line from the set-point's share over a span of 8 s of
// writing (one device) to the share itself (many), down to a quarter; and up to eight times it while the
// device has less than half of its share dirty, so that it doesn't run dry.
std::int64_t device_line(std::int64_t ratio, const Position& position);
// All of it: what a task's rate is multiplied with. 0: nothing may be dirtied.
std::int64_t position_ratio(const Position& position);

// The next rates, from those before, when the sample's tasks ran at position `ratio`. The base rate moves
// towards the balanced one (by which the device's bandwidth would be dirtied), by an eighth of a step that
// is the smaller the better it fits already, and only when the balanced rate, the one before and the rate
// the tasks were held to all lie on the side to which what is dirty should be brought.
DirtyRates next_rates(DirtyRates before, const RateSample& sample, std::int64_t ratio,
                      std::uint64_t average_write_bandwidth, std::uint64_t dirty, std::uint64_t setpoint);

// ---- pauses ----

// No longer than it takes to write an eighth of what is dirty (with a tiny limit the device would run dry
// meanwhile), nor than 200 ms.
Duration longest_pause(std::uint64_t device_dirty_bytes, std::uint64_t average_write_bandwidth);
// What a task may dirty without being looked at while `room` is left to the limit: the square root of it, in
// pages, so that as many tasks as that can come at once without reaching the limit unseen.
std::uint64_t poll_interval_bytes(std::uint64_t room_bytes);
struct PauseLength {
  Duration target;                     // what a pause should last
  Duration least;                      // less than this is not slept but remembered
  std::uint64_t pause_after_bytes = 0; // what the task may dirty until then
};
// 10 ms, and 10 ms more for each halving from the bandwidth to the base rate (more writers: longer pauses, so
// that there are not more of them), at most half of the longest. When that is less than kPollPages, as long
// as it takes to pay for so many, or the longest. Payment is put off for at most half of `poll_bytes`.
PauseLength pause_length(const BandwidthEstimate& estimate, std::uint64_t task_ratelimit, Duration longest,
                         std::uint64_t poll_bytes);
// What the task owes for what it has dirtied, less what it has thought since its last pause.
ThrottleDecision pay(const TaskRates& task, Instant now, std::uint64_t task_ratelimit, Duration longest,
                     const PauseLength& length);

}  // namespace tidewheel::linux_control
