// tests/fs/buf_rig.h: a cache over a device in memory that can be told to fail, with mock blocks on it.
#pragma once
#include <memory>
#include <vector>

#include "fs/block/faulty_device.h"
#include "fs/block/limited_device.h"
#include "fs/block/ram_device.h"
#include "fs/buf/buffer_cache.h"
#include "fs/buf/delwri_queue.h"
#include "tests/fs/format_rig.h"
#include "tests/fs/io.h"

namespace tidewheel {

inline constexpr disk::BlockType kMockType = disk::BlockType::kMock;

inline void fill_mock(std::span<std::byte> block, const disk::Geometry& geometry, DeviceAddress address,
                      std::uint64_t version) {
  disk::start_block(block, disk::kMockMagic, geometry.uuid, address, address.value);
  disk::view<disk::MockBlock>(block).version = version;
}
inline std::uint64_t version_of(std::span<const std::byte> block) {
  return disk::view<disk::MockBlock>(block).version;
}

struct BufRigOptions {
  BufferCacheOptions cache = {};
  std::uint64_t budget_bytes = 16 << 20;
  BufferPolicy* policy = nullptr;
  bool asynchronous = false;  // completions come from a thread of the device, 10 us later
};

struct BufRig {
  explicit BufRig(const BufRigOptions& options = {}) : budget(options.budget_bytes, 0) {
    std::unique_ptr<BlockDevice> beneath = RamDevice::make(geometry.device_blocks * kFsBlockBytes).value();
    if (options.asynchronous) {
      beneath = std::make_unique<LimitedDevice>(std::move(beneath),
                                                DeviceLimits{.bytes_per_s = 0, .latency = microseconds(10)});
    }
    device = std::make_unique<FaultyDevice>(std::move(beneath));
    cache = std::make_unique<BufferCache>(budget, options.cache);
    target = std::make_unique<BufferTarget>(*cache, *device, geometry, options.policy);
  }
  // A mock block on the device itself.
  void put(DeviceAddress address, std::uint64_t version) {
    AlignedBytes block(kFsBlockBytes);
    fill_mock(block.span(), geometry, address, version);
    disk::stamp_block(block.span(), kNoLsn);
    if (!device->write(address.bytes(), block.span())) std::abort();
  }
  std::uint64_t on_device(DeviceAddress address) {
    AlignedBytes block(kFsBlockBytes);
    if (!device->read(address.bytes(), block.span())) std::abort();
    const disk::VerifyContext context{.geometry = &geometry, .address = address, .newest = kNewest};
    return disk::verify_read(kMockType, block.span(), context).good() ? version_of(block.span()) : UINT64_MAX;
  }
  Result<LockedBuffer> read(DeviceAddress address) { return cache->read(*target, address, 1, kMockType); }
  // Locked, filled, ready to be written.
  LockedBuffer make(DeviceAddress address, std::uint64_t version) {
    LockedBuffer buffer = std::move(cache->get_for_overwrite(*target, address, 1).value());
    fill_mock(buffer->bytes(), geometry, address, version);
    buffer->set_type(kMockType);
    buffer->set_done();
    return buffer;
  }

  static constexpr Lsn kNewest = disk::kNewestLsn;
  disk::Geometry geometry = disk::small_geometry();
  MemoryBudget budget;
  std::unique_ptr<FaultyDevice> device;
  std::unique_ptr<BufferCache> cache;
  std::unique_ptr<BufferTarget> target;
};

// Counts what it hears.
class CountingClient final : public BufferClient {
 public:
  void written(Buffer&) override { writes.fetch_add(1, std::memory_order_relaxed); }
  void write_failed(Buffer&, Error, bool retry) override {
    (retry ? retries : losses).fetch_add(1, std::memory_order_relaxed);
  }
  Atomic<std::uint32_t> writes{0}, retries{0}, losses{0};
};

class CountingPolicy final : public BufferPolicy {
 public:
  WriteErrorAction on_write_error(const Buffer&, Error, std::uint32_t failures) override {
    return failures <= retried ? WriteErrorAction::kRetry : WriteErrorAction::kGiveUp;
  }
  void on_lost_write(const Buffer&, Error) override { lost.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t retried = 3;
  Atomic<std::uint32_t> lost{0};
};

}  // namespace tidewheel
