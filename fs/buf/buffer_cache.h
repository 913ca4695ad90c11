// fs/buf/buffer_cache.h: metadata blocks by (target, address, length).
// Owns:      the buffers, charged to the MemoryBudget (kBuffers); not the devices.
// Threads:   every method is thread-safe, except attach and detach of one target against its own use.
// Locks:     a hash shard (rank kBufferHash): found and held under it, nothing else; an LRU shard (kLru);
//            wait locks and the count of requests in flight (kCompletion). A miss allocates with none held.
// Units:     blocks of 4 KiB.
// Errors:    kNoMemory (the budget), kOutOfRange, kCorrupt (the verifier; detail: disk::Fault), kShutDown,
//            and the device's. After an error the caller has neither hold nor lock.
// Invariant: a look-up that hits takes one lock, raises one count and allocates nothing. Of two threads that
//            miss the same block, both get the one buffer that went into the table first.
// Source:    docs/buffer-cache.md
#pragma once
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/slist.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/counter.h"
#include "base/memory_budget.h"
#include "fs/buf/buffer.h"

namespace tidewheel {

// Mount option buffer_lookup. kAllocateFirst is what the hit-first path replaced: a buffer is allocated
// before the table is asked, and freed again when it hits.
enum class BufferLookup : std::uint8_t { kHit, kAllocateFirst };

struct BufferCacheOptions {
  BufferLookup lookup = BufferLookup::kHit;
  std::uint64_t expected_buffers = 1 << 16;  // sizes the table: about one per bucket; more only slow it down
  Duration memory_patience = seconds(10);    // how long a miss waits for the budget
};

struct BufferStats {
  std::uint64_t lookups = 0, hits = 0, misses = 0;
  std::uint64_t allocations = 0;  // of buffers, thrown away ones included
  std::uint64_t lost_races = 0;   // misses that found another's buffer at the insert
  std::uint64_t reads = 0, read_aheads = 0, read_aheads_dropped = 0;
  std::uint64_t writes = 0;       // of buffers
  std::uint64_t runs = 0;         // writes of the device that several of them shared
  std::uint64_t failed_runs = 0;
  std::uint64_t read_errors = 0, write_errors = 0, corrupt_reads = 0, corrupt_writes = 0;
  std::uint64_t reclaimed = 0;
  std::uint64_t buffers = 0;  // in memory now
};

enum class WriteErrorAction : std::uint8_t { kRetry, kGiveUp };

// What a mount says about its buffers. Called on the completion thread; must not block.
class BufferPolicy {
 public:
  virtual WriteErrorAction on_write_error(const Buffer& buffer, Error error,
                                          std::uint32_t failures_in_a_row) = 0;
  // A write was given up, or a block that is wrong in memory was about to be written: shut down.
  virtual void on_lost_write(const Buffer& buffer, Error error) = 0;

 protected:
  ~BufferPolicy() = default;
};

// One device under the cache. Made before the first use of it, and drained before it ends.
class BufferTarget {
 public:
  // `policy` may be null: three failures in a row are retried, then the write is given up. A write that
  // nobody waits for, of a buffer without a client, has nobody to retry it: it is given up at once.
  BufferTarget(BufferCache& cache, BlockDevice& device, const disk::Geometry& geometry,
               BufferPolicy* policy = nullptr);
  // Waits for requests in flight, then frees every buffer of this target; asserts that nobody has a hold.
  ~BufferTarget();
  BufferTarget(const BufferTarget&) = delete;
  BufferTarget& operator=(const BufferTarget&) = delete;

  BlockDevice& device() const { return device_; }
  const disk::Geometry& geometry() const { return geometry_; }
  BufferCache& cache() const { return cache_; }
  std::uint32_t id() const { return id_; }
  // The log's head: what is read may not be newer. Before recovery knows it: kNewestLsn.
  void set_newest_lsn(Lsn lsn) { newest_lsn_.store(lsn.value, std::memory_order_release); }
  Lsn newest_lsn() const { return {newest_lsn_.load(std::memory_order_acquire)}; }
  // From now on nothing reaches the device: reads and writes end with kShutDown.
  void shut_down() { shut_down_.store(true, std::memory_order_release); }
  bool is_shut_down() const { return shut_down_.load(std::memory_order_acquire); }
  // Returns when no request is in flight. New ones are the caller's to prevent.
  void drain_io();

 private:
  friend class BufferCache;
  BufferCache& cache_;
  BlockDevice& device_;
  const disk::Geometry geometry_;
  BufferPolicy* const policy_;
  const std::uint32_t id_;
  const std::uint64_t blocks_;  // of the device, as it was when this was made: a look-up asks no device
  Atomic<std::uint64_t> newest_lsn_{UINT64_MAX};
  Atomic<bool> shut_down_{false};
  std::uint64_t in_flight_ = 0;  // under the cache's io_lock_
};

class BufferCache final : public Shrinker {
 public:
  BufferCache(MemoryBudget& budget, const BufferCacheOptions& options);
  ~BufferCache() override;  // every target has ended

  // Held, not locked, not read: the look-up itself. Allocates on a miss.
  Result<BufferHold> hold(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks,
                          ChargeBy by = ChargeBy::kAnyone);
  // Only what is there already; null otherwise.
  BufferHold find(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks);
  // Locked, content as it happens to be: for a caller who fills all of it and says set_done().
  Result<LockedBuffer> get_for_overwrite(BufferTarget& target, DeviceAddress address,
                                         std::uint32_t length_blocks);
  // Locked, read and verified.
  Result<LockedBuffer> read(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks,
                            disk::BlockType type, std::uint64_t owner = disk::kAnyOwner);
  // Starts a read that nobody waits for; does nothing where the buffer is there, or locked, or memory is
  // short.
  void read_ahead(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks,
                  disk::BlockType type, std::uint64_t owner = disk::kAnyOwner);
  // In no table: found by nobody else, freed with its last hold. Locked.
  Result<LockedBuffer> make_uncached(BufferTarget& target, DeviceAddress address,
                                     std::uint32_t length_blocks);
  Result<void> read_uncached(Buffer& buffer);  // locked; verified as its type says

  // Verified, stamped and on the device when it returns; the buffer stays locked. Not pinned.
  Result<void> write(Buffer& buffer);
  // The same, but returns at once: the lock and one hold of the caller's go with the request.
  void write_async(LockedBuffer buffer);

  // Frees clean buffers that nobody holds, oldest first.
  const char* name() const override { return "buffers"; }
  std::uint64_t shrink(std::uint64_t bytes) override;

  MemoryBudget& budget() const { return budget_; }
  BufferStats stats() const;
  // The n-th allocation from now on fails (0: none); buffers and their memory count each.
  void fail_allocation_for_test(std::uint32_t nth) { fail_allocation_.store(nth, std::memory_order_relaxed); }

 private:
  friend class Buffer;
  friend class BufferTarget;
  friend class DelwriQueue;
  using Bucket =
      boost::intrusive::slist<Buffer,
                              boost::intrusive::member_hook<Buffer, Buffer::HashHook, &Buffer::hash_hook_>,
                              boost::intrusive::constant_time_size<false>>;
  using LruList =
      boost::intrusive::list<Buffer,
                             boost::intrusive::member_hook<Buffer, Buffer::ListHook, &Buffer::lru_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  static constexpr std::uint32_t kHashShards = 64;
  static constexpr std::uint32_t kLruShards = 16;
  static constexpr std::uint32_t kWaitLocks = 64;
  static constexpr std::uint32_t kScanPerHold = 32;

  struct alignas(kCacheLine) HashShard {
    HashShard();
    mutable Mutex mutex TW_ACQUIRED_AFTER(kRankGrant) TW_ACQUIRED_BEFORE(kRankInodeHash);
    std::vector<Bucket> buckets TW_GUARDED_BY(mutex);
    std::uint64_t hits TW_GUARDED_BY(mutex) = 0;
    std::uint64_t misses TW_GUARDED_BY(mutex) = 0;
    std::uint64_t lost_races TW_GUARDED_BY(mutex) = 0;
  };
  struct alignas(kCacheLine) LruShard {
    LruShard();
    mutable Mutex mutex TW_ACQUIRED_AFTER(kRankRetry) TW_ACQUIRED_BEFORE(kRankArena);
    LruList list TW_GUARDED_BY(mutex);  // least recently made or passed over first
    std::uint64_t count TW_GUARDED_BY(mutex) = 0;
  };
  struct alignas(kCacheLine) WaitLock {
    WaitLock();
    Mutex mutex TW_ACQUIRED_AFTER(kRankDevice) TW_ACQUIRED_BEFORE(kRankStatistics);
  };

  static std::uint32_t hash_of(std::uint32_t target_id, DeviceAddress address);
  HashShard& shard_of(std::uint32_t hash) { return hash_shards_[hash % kHashShards]; }
  LruShard& lru_of(const Buffer& buffer) { return lru_shards_[buffer.hash_ % kLruShards]; }
  Mutex& wait_lock_of(const Buffer& buffer) { return wait_locks_[buffer.hash_ % kWaitLocks].mutex; }
  Buffer* find_and_hold_locked(HashShard& shard, const BufferTarget& target, DeviceAddress address,
                               std::uint32_t length_blocks, std::uint32_t hash) TW_REQUIRES(shard.mutex);
  Bucket& bucket_locked(HashShard& shard, std::uint32_t hash) TW_REQUIRES(shard.mutex) {
    return shard.buckets[hash / kHashShards & bucket_mask_];
  }

  Result<Buffer*> allocate_buffer(ChargeBy by);
  Result<void> allocate_memory(Buffer& buffer, std::uint32_t length_blocks, ChargeBy by);
  Result<void> charge(std::uint64_t bytes, ChargeBy by);
  bool allocation_fails_for_test();
  void initialise(Buffer& buffer, BufferTarget& target, DeviceAddress address, std::uint32_t hash);
  void free_buffer(Buffer* buffer);
  std::uint64_t evict_if_idle(Buffer& buffer);
  void free_target(BufferTarget& target);

  // I/O (fs/buf/buffer_io.cc)
  Result<void> check_range(const BufferTarget& target, DeviceAddress address,
                           std::uint32_t length_blocks) const;
  disk::VerifyContext context_of(const Buffer& buffer) const;
  void start(Buffer& buffer, Buffer::Direction direction, bool sync);
  bool prepare(Buffer& buffer, Buffer::Direction direction, bool sync);
  void send(Buffer& buffer);
  // Neighbours in the order of their places, each locked, with a hold for the request: one write of the
  // device.
  struct Run;
  void write_run(std::span<Buffer* const> buffers);
  void send_run(Run& run, std::span<Buffer* const> buffers);
  static void run_done(IoRequest& request, Result<void> result);
  void finish_of_failed_run(Buffer& buffer, Error error);
  void end_request(BufferTarget& target);
  Result<void> wait_io(Buffer& buffer);
  static void io_done(IoRequest& request, Result<void> result);
  void finish(Buffer& buffer, Result<void> result);
  Result<void> finish_read(Buffer& buffer, Result<void> result);
  Result<void> finish_write(Buffer& buffer, Result<void> result);
  Result<void> read_locked_buffer(Buffer& buffer, disk::BlockType type, std::uint64_t owner);
  void lose_write(Buffer& buffer, Error error);

  // ---- constant ----
  MemoryBudget& budget_;
  const BufferCacheOptions options_;
  std::uint32_t bucket_mask_ = 0;

  std::unique_ptr<HashShard[]> hash_shards_;
  std::unique_ptr<LruShard[]> lru_shards_;
  std::unique_ptr<WaitLock[]> wait_locks_;

  Mutex io_lock_ TW_ACQUIRED_AFTER(kRankDevice) TW_ACQUIRED_BEFORE(kRankStatistics);
  CondVar io_idle_;  // a target's last request is over

  // relaxed: statistics, and where reclaim goes on
  Atomic<std::uint32_t> next_target_id_{1};
  Atomic<std::uint32_t> reclaim_cursor_{0};
  Atomic<std::uint32_t> fail_allocation_{0};
  Atomic<std::uint64_t> allocations_{0}, buffers_{0}, reads_{0}, read_aheads_{0}, read_aheads_dropped_{0},
      writes_{0}, runs_{0}, failed_runs_{0}, read_errors_{0}, write_errors_{0}, corrupt_reads_{0},
      corrupt_writes_{0}, reclaimed_{0};
};

}  // namespace tidewheel
