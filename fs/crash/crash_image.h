// fs/crash/crash_image.h: the disk that a crash left, as a device: copy on write over shared content.
// Owns:      the blocks that were written to it. Base, durable content and the writes of a state are
//            pointed to, and outlive its use.
// Threads:   submit() from any thread; the copy and the completion run on the submitter.
// Locks:     lock_ (rank kDevice), held while blocks are copied.
// Units:     blocks of 4 KiB; memory_alignment() 1.
// Errors:    kIo for everything once as many requests have come as set_operation_limit() allows, so that a
//            recovery that never ends does end; the usual refusals.
// Note:      reset() keeps all memory: a state costs the blocks that it changes.
#pragma once
#include "base/sync.h"
#include "fs/block/block_device.h"
#include "fs/block/io_counts.h"
#include "fs/crash/block_map.h"
#include "fs/crash/crash_state.h"

namespace tidewheel {

class CrashImage final : public BlockDevice {
 public:
  CrashImage();
  ~CrashImage() override = default;

  // Between requests. The image of a state; answers with its content hash.
  std::uint64_t reset(const BaseImage& base, const Cut& cut, const StateSpec& spec) TW_EXCLUDES(lock_);
  // The base alone.
  void reset(const BaseImage& base) TW_EXCLUDES(lock_);
  // Of the whole image as it is now.
  std::uint64_t content_hash() TW_EXCLUDES(lock_);
  bool is_exhausted() const TW_EXCLUDES(lock_);
  void set_operation_limit(std::uint64_t limit) TW_EXCLUDES(lock_);

  std::string_view name() const override { return "crashed"; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::uint32_t block_bytes() const override { return kCrashBlockBytes; }
  std::uint32_t memory_alignment() const override { return 1; }
  void submit(IoRequest& request) override TW_EXCLUDES(lock_);
  DeviceStats stats() const override { return counts_.stats(); }

 private:
  Result<void> transfer_locked(const IoRequest& request) TW_REQUIRES(lock_);
  BlockRef find_locked(std::uint64_t block) const TW_REQUIRES(lock_);

  std::uint64_t size_bytes_ = 0;  // changed between requests alone

  mutable Mutex lock_ TW_ACQUIRED_AFTER(kRankArena) TW_ACQUIRED_BEFORE(kRankCompletion);
  const BaseImage* base_ TW_GUARDED_BY(lock_) = nullptr;
  const BlockMap* durable_ TW_GUARDED_BY(lock_) = nullptr;
  BlockMap over_ TW_GUARDED_BY(lock_);  // an entry with `own` memory was written here: its hash is stale
  BlockArena arena_ TW_GUARDED_BY(lock_);
  std::uint64_t hash_beneath_ TW_GUARDED_BY(lock_) = 0;  // of base and durable
  std::uint64_t operations_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t operation_limit_ TW_GUARDED_BY(lock_) = UINT64_MAX;
  IoCounts counts_;
};

// Everything on a device that completes at once, as the base of states.
Result<void> read_base(BlockDevice& device, BaseImage& base);

}  // namespace tidewheel
