// fs/block/open_device.h: makes the device that a program's flags describe.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fs/block/block_device.h"
#include "fs/block/limited_device.h"

namespace tidewheel {

struct DeviceSpec {
  enum class Kind : std::uint8_t { kFile, kRam, kNull };
  Kind kind = Kind::kFile;
  std::string path;              // kFile: an image file, made if missing and `create`; or a block device
  std::uint64_t size_bytes = 0;  // kFile: 0 = as large as it is; kRam, kNull: required
  bool create = true;
  bool read_only = false;
  DeviceLimits limits = {};      // in real time
};

// Errors: those of FileDevice::open and RamDevice::make; kInvalidArgument for a size of 0 where one is
// required. A size that is no multiple of the block is rounded down, and must leave one block.
Result<std::unique_ptr<BlockDevice>> open_device(const DeviceSpec& spec);

}  // namespace tidewheel
