// inode/inode_source.h: where inodes and their data come from when they are not in memory: the store below.
// Threads:   thread-safe; different inodes and different pages at once.
// Locks:     called with none of inode/'s locks held; may do I/O and wait.
#pragma once
#include <cstdint>
#include <span>

#include "base/result.h"
#include "inode/page.h"

namespace tidewheel {

class Inode;

class InodeSource {
 public:
  virtual ~InodeSource() = default;
  // Fills size, links, context and store_data of a new inode with this number. kNotFound: there is none.
  virtual Result<void> load(Inode& inode) = 0;
  // Fills consecutive pages (locked, not seen by others yet). Holes, and bytes past the end of the file, are
  // zeroed by it. All or nothing.
  virtual Result<void> read_pages(Inode& inode, std::uint64_t first_index, std::span<Page* const> pages) = 0;
  // The file now ends at new_size, smaller than before; no page past it is in memory or under writeback. What
  // was stored past it must not come back, neither by read_pages after the file grows again nor by load.
  virtual void truncate(Inode& inode, std::uint64_t new_size) = 0;
  // The inode is clean and leaves memory; load() must bring the same back, possibly before this returns.
  // For freeing what store_data points to, and for keeping a write error that nobody has been told
  // (ErrorSequence::untold): load() records it again. In that case no load() begins before this returns.
  virtual void evict(Inode& inode) = 0;
  // The last hold of an unlinked inode is gone, its pages are dropped: frees its space.
  virtual void inactivate(Inode& inode) = 0;
};

}  // namespace tidewheel
