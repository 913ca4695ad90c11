// inode/inode.h: an inode in memory: a dirty object with an identity, a size, pages and a life.
// Owns:      nothing by itself; memory from the InodeCache's pool, pages from the page cache.
// Threads:   see each group. A Hold (inode_cache.h) keeps it alive; so does being dirty or hashed.
// Locks:     life_ and hash_next_ by its hash bucket's lock; links_ by the file system above (writes and
//            truncates of one inode are serialised there: rank kInodeIo).
// Units:     size in bytes; numbers are 64 bits and know no device.
// Invariant: (1) dirtied only by who holds it; (2) evicted only when live, unheld, clean, with no page under
//            writeback; (3) unlinked ones are not found, and freed with their last hold, dirt dropped.
//
//   life:  new --publish--> live --unlink--> unlinked --last put--> freeing --> memory free
//           |                 +---- evict (unheld, clean) ------------^   (new for a moment, while the
//           |                                                         |    store keeps its untold error)
//           +--- load failed -----------------------------------------^
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "inode/mapping.h"
#include "writeback/dirty_object.h"
#include "writeback/owner_vote.h"

namespace tidewheel {

using InodeNumber = std::uint64_t;
class InodeCache;

enum class InodeLife : std::uint8_t { kFree, kNew, kLive, kUnlinked, kFreeing };

class Inode : public DirtyObject {
 public:
  Inode() : mapping_(*this) {}

  InodeNumber number() const { return number_; }
  Mapping& mapping() { return mapping_; }
  const Mapping& mapping() const { return mapping_; }
  InodeCache& cache() const { return *cache_; }

  // Written under mapping().mutex(), after the page that reaches there is in the mapping (release, pairs
  // with the acquire here): who sees the size sees the data.
  std::uint64_t size() const { return size_.load(std::memory_order_acquire); }
  void set_size(std::uint64_t bytes) { size_.store(bytes, std::memory_order_release); }

  std::uint32_t holds() const { return holds_.load(std::memory_order_seq_cst); }
  static Inode& from(DirtyObject& object) { return static_cast<Inode&>(object); }
  static const Inode& from(const DirtyObject& object) { return static_cast<const Inode&>(object); }

  // The store's own (extents, or a pointer); constructed zero, zero again for the next use of the memory.
  std::uint64_t store_data[2] = {};
  std::uint32_t links = 1;  // the store's own; unlink() of the cache sets 0
  OwnerVote owner_vote;     // a vote per page dirtied; the store asks when a write ends

 private:
  friend class InodeCache;
  friend class InodeHold;

  static std::size_t lru_offset();

  InodeNumber number_ = 0;       // constant while hashed
  InodeCache* cache_ = nullptr;  // constant
  Inode* hash_next_ = nullptr;   // bucket lock
  Atomic<std::uint64_t> size_{0};
  // Raised from 0 only under the bucket lock; seq_cst beside the state word (InodeCache::put).
  Atomic<std::uint32_t> holds_{0};
  InodeLife life_ = InodeLife::kFree;  // bucket lock
  LruItem lru_;                        // reclaim policy
  Mapping mapping_;
};
// Not standard layout (the base has members too), but a fixed offset with every compiler we build with.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
inline std::size_t Inode::lru_offset() { return offsetof(Inode, lru_); }
#pragma GCC diagnostic pop
#if !TW_SIM
static_assert(sizeof(Inode) <= 224, "the bar is 600 bytes per cached clean inode, the aim 400");
#endif

}  // namespace tidewheel
