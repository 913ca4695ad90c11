// inode/inode_cache.h: inodes in memory, by number.
// Owns:      the inodes (slab pool on the arena), the hash table, the inodes' reclaim lists.
// Threads:   every method is thread-safe.
// Locks:     bucket locks (rank kInodeHash), kBucketLocks for all buckets. A hold is taken under it, so
//            that eviction, which checks and unhashes under it, can't miss one. A hit takes that lock only.
// Errors:    kNotFound, kExists, kNoMemory; what InodeSource::load reports.
// Invariant: (1) at most one inode per number is hashed; (2) a hit allocates nothing; (3) hashed, unheld and
//            clean => on the reclaim lists, or isolated by a reclaimer; (4) dirty => in memory.
// Limits:    the table has one bucket per kBytesPerBucket of the memory limit and does not grow: at the
//            limit, with nothing but inodes, chains are about 4 long (8 MiB of table per GiB).
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "inode/inode.h"
#include "inode/inode_source.h"
#include "inode/page_cache.h"

namespace tidewheel {

// A counted reference. Moves; copies only by clone().
class InodeHold {
 public:
  InodeHold() = default;
  InodeHold(InodeHold&& other) noexcept : inode_(other.inode_) { other.inode_ = nullptr; }
  InodeHold& operator=(InodeHold&& other) noexcept {
    if (this != &other) {
      reset();
      inode_ = other.inode_;
      other.inode_ = nullptr;
    }
    return *this;
  }
  ~InodeHold() { reset(); }
  void reset();  // the last one of an unlinked inode frees it: may wait for its writeback
  InodeHold clone() const;

  explicit operator bool() const { return inode_ != nullptr; }
  Inode& operator*() const { return *inode_; }
  Inode* operator->() const { return inode_; }
  Inode* get() const { return inode_; }

 private:
  friend class InodeCache;
  explicit InodeHold(Inode* inode) : inode_(inode) {}
  Inode* inode_ = nullptr;
};

struct InodeCacheOptions {
  std::uint64_t memory_limit_bytes = 1ULL << 30;  // sizes the table
  std::string_view reclaim = "two-list";
};

struct InodeCacheStats {
  std::uint64_t inodes = 0;    // in memory
  std::uint64_t bytes = 0;     // of slabs
  std::uint64_t hits = 0, misses = 0, creates = 0, evictions = 0, frees = 0;
  std::uint64_t allocations = 0;  // of inodes from their pool, ever
  ReclaimCounts lists;
};

class InodeCache final : private PageCache::Evictor {
 public:
  static constexpr std::uint32_t kBucketLocks = 256;
  static constexpr std::uint64_t kBytesPerBucket = 1024;

  InodeCache(PageCache& pages, InodeSource& source, const InodeCacheOptions& options);
  ~InodeCache();  // evicts; asserts that nothing is held or dirty
  InodeCache(const InodeCache&) = delete;
  InodeCache& operator=(const InodeCache&) = delete;

  // In memory or null. Waits while it is being loaded. Allocates nothing.
  InodeHold find(InodeNumber number);
  // In memory, or loaded: one load at a time per number, others wait for it.
  Result<InodeHold> get(InodeNumber number);
  // A new inode, size 0, clean. The caller knows that the store has none of this number; kExists if one
  // is in memory, kBusy while an unlinked one is still held. Waits for one that is being freed.
  Result<InodeHold> create(InodeNumber number, std::uint16_t context);
  // Not found any more; freed with its last hold, without being written.
  void unlink(Inode& inode);

  // For WritebackTarget::end_batch, once per slot, after end_writeback: an unheld inode that becomes clean
  // joins the reclaim lists here.
  void end_write(Inode& inode);

  // Evicts up to n clean unheld inodes, their pages with them; answers how many left.
  std::uint64_t evict(std::uint64_t n);
  InodeCacheStats stats() const;
  PageCache& pages() { return pages_; }
  void check_invariants();  // at rest

 private:
  friend class InodeHold;
  struct alignas(kCacheLine) BucketLock {
    BucketLock();
    Mutex mutex;
    CondVar changed;  // something here became live, or has gone
    std::uint32_t waiters TW_GUARDED_BY(mutex) = 0;
    std::uint64_t hits TW_GUARDED_BY(mutex) = 0;
    std::uint64_t misses TW_GUARDED_BY(mutex) = 0;

    void wait() TW_REQUIRES(mutex) {
      ++waiters;
      changed.wait(mutex);
      --waiters;
    }
    void wake() TW_REQUIRES(mutex) {
      if (waiters != 0) changed.notify_all();
    }
  };
  enum class Found : std::uint8_t { kHit, kMiss, kGone };

  std::uint64_t hash_of(InodeNumber number) const;
  BucketLock& lock_of(InodeNumber number) { return locks_[hash_of(number) % kBucketLocks]; }
  Inode*& bucket_of(InodeNumber number) { return table_[hash_of(number) & mask_]; }
  // kHit: live, waited for if new. kGone: unlinked or being freed.
  Found find_locked(BucketLock& lock, InodeNumber number, Inode*& out) TW_REQUIRES(lock.mutex);
  // A hold on a live inode, under its bucket lock.
  InodeHold hold_locked(BucketLock& lock, Inode& inode) TW_REQUIRES(lock.mutex);
  void hash_locked(Inode& inode);
  void unhash_locked(Inode& inode);
  Inode* allocate(InodeNumber number);
  void free_memory(Inode& inode);
  void put(Inode& inode);
  void free_unlinked(Inode& inode);
  bool try_evict(Inode& inode);
  // PageCache::Evictor
  std::uint64_t reclaimable_bytes() const override;
  std::uint64_t evict_objects(std::uint64_t objects) override;
  std::uint32_t object_bytes() const override;

  PageCache& pages_;
  InodeSource& source_;
  SlabPool pool_;
  std::unique_ptr<ReclaimPolicy> policy_;
  std::uint64_t mask_ = 0;
  std::unique_ptr<Inode*[], void (*)(void*)> table_;  // heads of chains through hash_next_; bucket locks
  std::uint64_t table_bytes_ = 0;
  std::unique_ptr<BucketLock[]> locks_;
  ShardedCounter creates_, evictions_, frees_;
};

}  // namespace tidewheel
