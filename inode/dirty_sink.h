// inode/dirty_sink.h: what the page cache tells the writeback engine, and asks of it.
// Threads:   every method is thread-safe. Locks: called with none of inode/'s locks held.
// Rejected:  calling the engine directly: this floor's tests then need threads and a target.
#pragma once
#include <cstdint>

#include "base/time.h"

namespace tidewheel {

class Inode;

class DirtySink {
 public:
  virtual ~DirtySink() = default;
  // The tags or fields are published already (see inode/mapping.h).
  virtual void mark_dirty(Inode& inode, std::uint32_t classes, Instant now) = 0;
  // Bytes became dirty; bytes are clean again (written, or dropped by truncate).
  virtual void account_dirtied(Inode& inode, std::uint64_t bytes) = 0;
  virtual void account_cleaned(Inode& inode, std::uint64_t bytes) = 0;
  // After a write, with nothing held: may sleep while too much is dirty.
  virtual void balance_dirty_pages(Inode& inode) = 0;
  // The inode is dirty no more when this returns; waits while it is being written.
  virtual void cancel(Inode& inode) = 0;
  // Memory is short: write some `bytes` soon. False: nothing is dirty or being written.
  virtual bool request_writeback(std::uint64_t bytes) = 0;
};

}  // namespace tidewheel
