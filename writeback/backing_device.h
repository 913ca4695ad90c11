// writeback/backing_device.h: what writeback knows of one device: how fast it writes, how fast its writers
// may dirty, and its share of the thresholds. Not the device that does the I/O (fs/block). Contexts (owners)
// on one device share it.
// Owns:      its estimate; not its contexts, whose byte counts it reads while they are attached.
// Threads:   every method from any thread.
// Locks:     lock_ (kCompletion): taken once per batch and per look of a writer above free run. Below it the
//            shares' lock.
// Units:     bytes, bytes per second, nanoseconds of the engine's clock; parts of shares in millionths.
// Invariant: (1) written_bytes() never falls; (2) time in which nothing was under writeback for more than a
//            second is in no sample.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "base/sync.h"
#include "base/time.h"
#include "writeback/bandwidth_estimate.h"
#include "writeback/byte_counts.h"
#include "writeback/completion_shares.h"
#include "writeback/throttle.h"

namespace tidewheel {

struct BackingDeviceOptions {
  std::string name = "device";
  // Of the thresholds, in millionths: what it always has, and what it never gets more of. The least parts of
  // all devices of an engine add up to less than the whole.
  std::uint32_t least_part = 0;
  std::uint32_t most_part = 1'000'000;
  // Held to its share also while little is dirty altogether (a server that may die, a slow stick).
  bool strict_limit = false;
};

class BackingDevice {
 public:
  static constexpr std::uint32_t kWholePart = 1'000'000;

  explicit BackingDevice(BackingDeviceOptions options);
  BackingDevice(const BackingDevice&) = delete;
  BackingDevice& operator=(const BackingDevice&) = delete;
  ~BackingDevice();

  const std::string& name() const { return options_.name; }
  const BackingDeviceOptions& options() const { return options_; }
  bool strict_limit() const { return options_.strict_limit; }
  BandwidthEstimate estimate() const;
  std::uint64_t written_bytes() const { return written_.load(std::memory_order_relaxed); }

  // ---- for the engine ----
  // The devices of one engine, as far as they have to know of each other.
  struct Domain {
    CompletionShares shares;
    Atomic<std::uint32_t> least_parts{0};  // their sum; relaxed: a figure
  };
  // A context's counts; the first one makes it a part of the domain. False: another engine's device, or the
  // least parts would add up to the whole.
  bool attach(const ByteCounts& counts, Domain& domain);
  void detach(const ByteCounts& counts);

  // Something was written, or its dirt dropped: no lock, from target's end_batch.
  void account_written(std::uint64_t bytes) { written_.fetch_add(bytes, std::memory_order_relaxed); }
  void batch_started(Instant now);
  // Asks what the throttle in force makes of a sample, under lock_.
  using NextRates = DirtyRates (*)(const void* asker, const ThrottleDevice& device, const RateSample& sample);
  struct Update {
    Instant now;
    ThrottleLimits limits;
    NextRates next_rates = nullptr;  // null: rates stay (no writer is held to them now)
    const void* asker = nullptr;
  };
  void batch_ended(const Update& update);
  // What a policy is told, after an update when one is due.
  ThrottleDevice look(const Update& update);
  ThrottleDevice look(Instant now, const ThrottleLimits& limits) const;
  // For writers who keep no TaskThrottle: what the last of them may dirty before it is looked at.
  std::uint64_t pause_after_bytes() const { return pause_after_.load(std::memory_order_relaxed); }
  void set_pause_after(std::uint64_t bytes) { pause_after_.store(bytes, std::memory_order_relaxed); }
  // ThrottleInputs::last_wakeup. seq_cst, by compare and exchange: who gets a place after it has it alone.
  Atomic<std::int64_t> last_wakeup_ns{INT64_MIN};
  // WorkFacts::last_activity. seq_cst: raised, and then the engine's activity_armed_ is read; a flusher
  // clears that and then reads this.
  Atomic<std::int64_t> last_activity_ns{INT64_MIN};

 private:
  ThrottleDevice look_locked(Instant now, const ThrottleLimits& limits) const TW_REQUIRES(lock_);
  void update_locked(const Update& update) TW_REQUIRES(lock_);
  void update_rates_locked(const Update& update) TW_REQUIRES(lock_);
  std::uint64_t dirty_locked() const TW_REQUIRES(lock_);
  void begin_sample_locked(Instant now) TW_REQUIRES(lock_);

  const BackingDeviceOptions options_;
  Atomic<std::uint64_t> written_{0};      // relaxed: sampled
  Atomic<std::uint64_t> pause_after_{0};  // relaxed: a hint
  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
  std::vector<const ByteCounts*> counts_ TW_GUARDED_BY(lock_);
  Domain* domain_ TW_GUARDED_BY(lock_) = nullptr;
  mutable CompletionShares::Part part_ TW_GUARDED_BY(lock_);
  BandwidthEstimate estimate_ TW_GUARDED_BY(lock_);
  std::uint32_t batches_ TW_GUARDED_BY(lock_) = 0;  // under writeback
  Instant moved_at_ TW_GUARDED_BY(lock_) = Instant::min();  // a batch ended, or the first one began
  Instant sampled_at_ TW_GUARDED_BY(lock_) = Instant::min();
  std::uint64_t sampled_written_ TW_GUARDED_BY(lock_) = 0;
  Instant rated_at_ TW_GUARDED_BY(lock_) = Instant::min();
  std::uint64_t rated_written_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t rated_dirtied_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t shared_written_ TW_GUARDED_BY(lock_) = 0;  // up to here the domain knows
};

// The device's share of a threshold: its part of what others' least parts leave, between its own least and
// most parts.
std::uint64_t share_of_threshold(std::uint64_t threshold, std::uint64_t share,
                                 const BackingDeviceOptions& options, std::uint32_t least_parts);

}  // namespace tidewheel
