// fs/block/sim_device.h: a disk with a volatile cache, in memory: completions in any order, and power cuts.
// Owns:      its content, sparse, in blocks of 4 KiB: what is durable, and what is in the cache on top of it.
// Threads:   submit() from any thread. One thread of the device runs all completions, in virtual time inside
//            the simulator and in real time outside; with a clock handed in there is no thread, and run_due()
//            completes on its caller. power_cut() from any thread, but not from a completion.
// Locks:     lock_ (rank kDevice), held while content is copied, never while a completion runs.
// Units:     bytes; nanoseconds of the clock in use.
// Errors:    kIo for what is in flight at a power cut and for all that comes until power_on(); the usual
//            refusals.
//
// Time: bytes pass one after the other at bytes_per_s; then each request takes a latency of its own, drawn
// from latency … latency + spread, which is what puts completions out of order. A flush takes a latency, a
// preflush one more than its write. The seed decides every draw, in the order of submission.
// Source:   the model of block_device.h's invariants, without anything that a disk does beyond them: nothing
//           becomes durable by itself, so a missing flush shows at the first power cut.
#pragma once
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "base/sync.h"
#include "base/thread.h"
#include "fs/block/block_device.h"
#include "fs/block/io_counts.h"

namespace tidewheel {

struct SimDeviceOptions {
  std::uint64_t size_bytes = 64ULL << 20;
  std::uint64_t seed = 1;
  std::uint64_t bytes_per_s = 0;  // 0: no limit
  Duration latency = microseconds(20);
  Duration spread = microseconds(80);  // 0: completions come in order, but for flushes
};

class SimDevice final : public BlockDevice {
 public:
  static constexpr std::uint32_t kBlockBytes = 4096;

  explicit SimDevice(const SimDeviceOptions& options);
  // The clock outlives the device.
  SimDevice(const SimDeviceOptions& options, const Clock& stepped);
  ~SimDevice() override;

  std::string_view name() const override { return "simulated"; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::uint32_t block_bytes() const override { return kBlockBytes; }
  std::uint32_t memory_alignment() const override { return 1; }
  void submit(IoRequest& request) override TW_EXCLUDES(lock_);
  DeviceStats stats() const override { return counts_.stats(); }
  Result<bool> holds_data() override TW_EXCLUDES(lock_);
  Result<void> lose_unflushed() override TW_EXCLUDES(lock_);

  // Content from before time began: durable, at once. Whole blocks; while no request is in flight.
  void preload(std::uint64_t offset_bytes, std::span<const std::byte> content) TW_EXCLUDES(lock_);
  // Off: of the writes that no flush covers, in flight ones included, any subset is stored, each whole or
  // some of its sectors, as `seed` says; the rest is gone. What is in flight completes with kIo before this
  // returns.
  void power_cut(std::uint64_t seed) TW_EXCLUDES(lock_);
  void power_on() TW_EXCLUDES(lock_);
  std::size_t unflushed_writes() const TW_EXCLUDES(lock_);

  // ---- virtual time ----
  Instant next_due() const TW_EXCLUDES(lock_);  // Instant::max() when nothing is in flight
  // Completes what is due by the clock, and what such completions submit and is due at once. How many.
  std::size_t run_due() TW_EXCLUDES(lock_);

 private:
  using Block = std::array<std::byte, kBlockBytes>;
  using Blocks = std::unordered_map<std::uint64_t, std::unique_ptr<Block>>;
  struct Flight {
    IoRequest* request = nullptr;
    Instant due;
    std::uint64_t sequence = 0;
    std::uint64_t covers = 0;  // of a flush or preflush: completions before its submission
  };
  // A completed write that no flush has covered.
  struct Cached {
    std::uint64_t completion = 0;  // its place in the order of completions, from 1
    std::uint64_t submitted_after = 0;  // completions before its submission
    std::uint64_t offset_bytes = 0;
    std::vector<std::byte> content;
    std::vector<bool> live;  // by sector: no durable write has come over it
  };
  struct Later;  // orders the heap

  Duration draw_latency_locked() TW_REQUIRES(lock_);
  Instant due_locked(const IoRequest& request, Instant now) TW_REQUIRES(lock_);
  bool pop_due_locked(Instant now, Flight& flight) TW_REQUIRES(lock_);
  // What the request does to content, at its completion.
  void carry_out_locked(const Flight& flight) TW_REQUIRES(lock_);
  void make_durable_locked(std::uint64_t covers) TW_REQUIRES(lock_);
  Cached cached_of_locked(const Flight& flight) TW_REQUIRES(lock_);
  void store_locked(Blocks& blocks, const Cached& write, const std::vector<bool>& sectors) TW_REQUIRES(lock_);
  void complete(const Flight& flight, Result<void> result) TW_EXCLUDES(lock_);
  void run_timer() TW_EXCLUDES(lock_);

  // ---- constant after construction ----
  const std::uint64_t size_bytes_;
  const SimDeviceOptions options_;
  const Clock& clock_;
  const bool stepped_;

  // ---- under lock_ ----
  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankArena) TW_ACQUIRED_BEFORE(kRankCompletion);
  CondVar timer_;  // the heap has a new first, or stop_
  Rng rng_ TW_GUARDED_BY(lock_);
  std::vector<Flight> heap_ TW_GUARDED_BY(lock_);
  std::vector<Cached> cached_ TW_GUARDED_BY(lock_);  // in the order of completion
  Blocks durable_ TW_GUARDED_BY(lock_);
  Blocks newest_ TW_GUARDED_BY(lock_);  // what a read finds; absent: as durable_
  std::uint64_t completions_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t next_sequence_ TW_GUARDED_BY(lock_) = 0;
  Instant pipe_free_ TW_GUARDED_BY(lock_) = Instant::min();
  bool off_ TW_GUARDED_BY(lock_) = false;
  bool stop_ TW_GUARDED_BY(lock_) = false;

  IoCounts counts_;
  Thread thread_;
};

}  // namespace tidewheel
