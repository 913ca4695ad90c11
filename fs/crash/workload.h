// fs/crash/workload.h: what the crash enumerator asks of the program whose crashes it explores.
// Owns:      a workload owns what it must remember of its run, to check against; one object per run.
// Threads:   format() and run() once, on one thread. Afterwards recover() and check() on many threads at
//            once, each with a device of its own: they only read the object.
// Errors:    an error of format() or run() ends the exploration: the workload is broken, not the store. An
//            error of recover() is a failed state. check() answers with what it found.
// Invariant: repeatable. The same seed makes the same requests in the same order, and recover() does too for
//            the same content (one thread, or workers that are stepped in a fixed order): a state is named by
//            where in that order it lies. The trace's hash in a replay string shows when it is not.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "fs/block/recorded_device.h"
#include "fs/block/sim_device.h"

namespace tidewheel {

// What a workload has been promised, or has begun, in order; the meaning of both numbers is its own.
using Ack = IoTrace::Note;
using Acks = std::span<const Ack>;

// Written while a run is recorded. add() from any thread, after the promise was received ("fsync of
// transaction 7 returned"), or before a step begins ("transaction 8 issued").
class AckLog {
 public:
  explicit AckLog(RecordedDevice& device) : device_(device) {}
  void add(std::uint64_t what, std::uint64_t value = 0) { device_.note(what, value); }

 private:
  RecordedDevice& device_;
};

struct CheckFailure {
  std::string oracle;  // a short name, the same for each failure of this kind: "lost acknowledged record"
  std::string detail;
};
using CheckResult = std::optional<CheckFailure>;

class CrashWorkload {
 public:
  virtual ~CrashWorkload() = default;

  // A multiple of 4096.
  virtual std::uint64_t image_bytes() const = 0;
  // What the run finds: durable before it begins, and not cut. On a blank device that completes at once.
  virtual Result<void> format(BlockDevice& device) = 0;
  // The device of the run when it is to complete in another order than requests come: a SimDevice, stepped
  // by a clock of the workload's; format()'s content is put on it. Null: one that completes at once.
  virtual std::unique_ptr<SimDevice> make_device() { return nullptr; }
  virtual Result<void> run(BlockDevice& device, AckLog& acks) = 0;
  // The trace of a run that took place elsewhere, on a device that began as format() left this one: in a
  // simulation, whose devices live and end with it. Acknowledgements are notes in it. Null: run() was
  // recorded.
  virtual const IoTrace* own_trace() const { return nullptr; }
  // Mounts what a crash left, as far as it writes: replays, repairs, and is durable at its end.
  virtual Result<void> recover(BlockDevice& device) const = 0;
  // After recover(). `acks`: those from before the cut. What it writes goes nowhere.
  virtual CheckResult check(BlockDevice& device, Acks acks) const = 0;
  // A second recovery of a recovered image changes no byte. Where it may, return false: it must then only
  // succeed and pass check().
  virtual bool recovers_to_same_bytes() const { return true; }
};

using WorkloadFactory = std::function<std::unique_ptr<CrashWorkload>(std::uint64_t seed)>;

}  // namespace tidewheel
