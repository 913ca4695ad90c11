// fs/tools/dump.h: what is on a device, decoded for people.
// Owns:      nothing; reads only.
// Threads:   one caller per dump.
// Errors:    `error` says why nothing (more) could be printed: the device's, or not a tidefs. Damage is no
//            error: each block is printed as it is, with the check that it fails, and counted.
#pragma once
#include <cstdint>
#include <string>

#include "fs/block/block_device.h"

namespace tidewheel::tools {

struct Dump {
  std::string text = {};
  std::uint64_t damaged = 0;  // blocks, inodes or log records that fail a check
  std::string error = {};     // empty: all was printed
};

Dump dump_super(BlockDevice& device);
Dump dump_group(BlockDevice& device, std::uint64_t ag);
Dump dump_inode(BlockDevice& device, std::uint64_t inode);
Dump dump_dir(BlockDevice& device, std::uint64_t inode);
Dump dump_log(BlockDevice& device);

}  // namespace tidewheel::tools
