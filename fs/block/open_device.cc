#include "fs/block/open_device.h"

#include <utility>

#include "fs/block/file_device.h"
#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"

namespace tidewheel {

namespace {

Result<std::unique_ptr<BlockDevice>> open_unlimited(const DeviceSpec& spec) {
  switch (spec.kind) {
    case DeviceSpec::Kind::kFile: {
      auto file = FileDevice::open({.path = spec.path,
                                    .size_bytes = spec.size_bytes,
                                    .create = spec.create,
                                    .read_only = spec.read_only});
      if (!file) return Unexpected(file.error());
      return std::unique_ptr<BlockDevice>(std::move(file).value());
    }
    case DeviceSpec::Kind::kRam: {
      auto ram = RamDevice::make(spec.size_bytes - spec.size_bytes % RamDevice::kBlockBytes);
      if (!ram) return Unexpected(ram.error());
      return std::unique_ptr<BlockDevice>(std::move(ram).value());
    }
    case DeviceSpec::Kind::kNull:
      if (spec.size_bytes < NullDevice::kBlockBytes) return TW_FAIL(kInvalidArgument);
      return std::unique_ptr<BlockDevice>(std::make_unique<NullDevice>(spec.size_bytes));
  }
  return TW_FAIL(kInvalidArgument);
}

}  // namespace

Result<std::unique_ptr<BlockDevice>> open_device(const DeviceSpec& spec) {
  auto device = open_unlimited(spec);
  if (!device || !spec.limits.any()) return device;
  auto limited = LimitedDevice::make(std::move(device).value(), spec.limits);
  if (!limited) return Unexpected(limited.error());
  return std::unique_ptr<BlockDevice>(std::move(limited).value());
}

}  // namespace tidewheel
