// fs/block/faulty_device.h: makes another device fail on command, for tests and for demonstrations.
// Owns:      the device beneath and the requests it holds back.
// Threads:   all methods from any thread. Injected errors complete on the submitter, but for those of kShort
//            and kTorn, which first read what is there (on the submitter, waiting) and then write.
// Locks:     lock_ (rank kDevice), never held across the device beneath nor across a completion.
// Errors:    as told by FaultEffect; otherwise those of the device beneath.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "fs/block/block_device.h"

namespace tidewheel {

enum class FaultEffect : std::uint8_t {
  kIoError,  // kIo, and nothing of it is moved
  kNoSpace,  // kNoSpace, and nothing of it is moved
  kStall,    // no answer: held back until release_stalled()
  kShort,    // kShortIo, and of a write the first few sectors are stored (not all); a read moves nothing
  kTorn,     // kIo, and of a write some sectors are stored (any, not all); a read moves nothing
  kDropped,  // answered as done, and nothing of it is moved; a dropped flush covers nothing
  kLoseUnflushed,  // goes on as usual, after the device beneath has silently lost what no flush covered
};

// Acts on the requests of `op` that count from `first` (the first one after add() is 0), `count` of them.
struct FaultRule {
  static constexpr std::uint64_t kForEver = UINT64_MAX;
  IoOp op = IoOp::kWrite;
  FaultEffect effect = FaultEffect::kIoError;
  std::uint64_t first = 0;
  std::uint64_t count = 1;
  std::uint64_t seed = 1;  // kShort, kTorn: which sectors, a new draw for each request
};

class FaultyDevice final : public BlockDevice {
 public:
  explicit FaultyDevice(std::unique_ptr<BlockDevice> beneath);
  ~FaultyDevice() override;

  void add(FaultRule rule) TW_EXCLUDES(lock_);
  void clear_rules() TW_EXCLUDES(lock_);
  std::size_t stalled() const TW_EXCLUDES(lock_);
  // Blocks until at least n requests are held back.
  void wait_stalled(std::size_t n) TW_EXCLUDES(lock_);
  // Sends on what was held back, in the order in which it came. How many.
  std::size_t release_stalled() TW_EXCLUDES(lock_);
  std::uint64_t injected() const TW_EXCLUDES(lock_);

  std::string_view name() const override { return name_; }
  std::uint64_t size_bytes() const override { return beneath_->size_bytes(); }
  std::uint32_t block_bytes() const override { return beneath_->block_bytes(); }
  std::uint32_t memory_alignment() const override { return beneath_->memory_alignment(); }
  void submit(IoRequest& request) override TW_EXCLUDES(lock_);
  DeviceStats stats() const override TW_EXCLUDES(lock_);
  bool keeps_data() const override { return beneath_->keeps_data(); }
  Result<void> grow(std::uint64_t size_bytes) override { return beneath_->grow(size_bytes); }
  Result<bool> holds_data() override { return beneath_->holds_data(); }
  Result<void> renew(std::uint64_t size_bytes) override { return beneath_->renew(size_bytes); }
  Result<void> lose_unflushed() override { return beneath_->lose_unflushed(); }

  BlockDevice& beneath() { return *beneath_; }

 private:
  struct Armed {
    FaultRule rule;
    std::uint64_t seen = 0;
  };
  struct Partial;  // a write of which some sectors are stored
  void store_part(IoRequest& request, FaultEffect effect, std::uint64_t seed) TW_EXCLUDES(lock_);
  void answer(IoRequest& request, FaultEffect effect) TW_EXCLUDES(lock_);

  const std::unique_ptr<BlockDevice> beneath_;
  const std::string name_;

  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankArena) TW_ACQUIRED_BEFORE(kRankCompletion);
  CondVar held_;
  std::vector<Armed> rules_ TW_GUARDED_BY(lock_);
  std::vector<IoRequest*> stalled_ TW_GUARDED_BY(lock_);
  std::uint64_t injected_ TW_GUARDED_BY(lock_) = 0;  // errors made here
};

}  // namespace tidewheel
