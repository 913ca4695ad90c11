// fs/block/null_device.h: a device that takes writes and drops them.
// Threads:   submit() from any thread; completes on the submitter. How long it takes is LimitedDevice's.
// Errors:    kUnsupported by completion for reads; the usual refusals.
#pragma once
#include "fs/block/block_device.h"
#include "fs/block/io_counts.h"

namespace tidewheel {

class NullDevice final : public BlockDevice {
 public:
  static constexpr std::uint32_t kBlockBytes = 4096;

  explicit NullDevice(std::uint64_t size_bytes) : size_bytes_(size_bytes - size_bytes % kBlockBytes) {}

  std::string_view name() const override { return "null"; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::uint32_t block_bytes() const override { return kBlockBytes; }
  std::uint32_t memory_alignment() const override { return 1; }
  void submit(IoRequest& request) override;
  DeviceStats stats() const override { return counts_.stats(); }
  bool keeps_data() const override { return false; }

 private:
  const std::uint64_t size_bytes_;
  IoCounts counts_;
};

}  // namespace tidewheel
