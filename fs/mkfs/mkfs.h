// fs/mkfs/mkfs.h: puts a new, empty file system on a device.
// Owns:      nothing.
// Threads:   one at a time per device, which nobody else uses.
// Units:     blocks of 4 KiB.
// Errors:    those of the device. After one the device holds no file system, or (a crash after the commit
//            point alone) the new one.
// Invariant: the first superblock is the commit point: it is written last, when everything else has been
//            flushed, and an old one is wiped and flushed before anything is written. A crash in between
//            leaves a device that nobody takes for a file system.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "fs/block/block_device.h"
#include "fs/mkfs/plan.h"

namespace tidewheel::mkfs {

struct Options {
  Uuid uuid;                     // not null
  std::int64_t created_ns = 0;   // since 1970
  std::string label;             // at most 31 bytes of UTF-8
  bool preallocate_log = false;  // write the log's zeros, so that the host has given it room
  bool blank = false;            // the device holds nothing but zeros: the log need not be cleared
  // Called now and then, with what is written and what there is to write.
  std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)> progress = {};
};

// `geometry` from plan(); the device is at least as large.
Result<void> make(BlockDevice& device, disk::Geometry geometry, const Options& options);

}  // namespace tidewheel::mkfs
