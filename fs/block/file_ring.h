// fs/block/file_ring.h: FileDevice's ring, for its two source files alone: liburing stays out of its header.
// Locks: the submission side belongs to FileDevice::lock_, the completion side to its completion thread.
#pragma once
#include <liburing.h>

#include "fs/block/file_device.h"

namespace tidewheel {

struct FileDevice::Ring {
  io_uring uring = {};
  bool made = false;
  ~Ring() {
    if (made) io_uring_queue_exit(&uring);
  }
};

}  // namespace tidewheel
