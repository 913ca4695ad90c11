// The table, reclaim, and what belongs to a target. I/O is in fs/buf/buffer_io.cc.
#include "fs/buf/buffer_cache.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tidewheel {

namespace {

LockClass hash_class("buffer-hash", LockRank::kBufferHash);
LockClass lru_class("buffer-lru", LockRank::kLru);
LockClass wait_class("buffer-wait", LockRank::kCompletion);
LockClass io_class("buffer-io", LockRank::kCompletion);

constexpr std::uint32_t kMaxLengthBlocks = 16;  // 64 KiB: what a buffer item's bitmap reaches
constexpr std::uint32_t kRetriedFailures = 3;

class DefaultPolicy final : public BufferPolicy {
 public:
  WriteErrorAction on_write_error(const Buffer&, Error, std::uint32_t failures_in_a_row) override {
    return failures_in_a_row <= kRetriedFailures ? WriteErrorAction::kRetry : WriteErrorAction::kGiveUp;
  }
  void on_lost_write(const Buffer&, Error) override {}
};

BufferPolicy* default_policy() {
  static DefaultPolicy policy;
  return &policy;
}

}  // namespace

BufferCache::HashShard::HashShard() : mutex(hash_class) {}
BufferCache::LruShard::LruShard() : mutex(lru_class) {}
BufferCache::WaitLock::WaitLock() : mutex(wait_class) {}

BufferTarget::BufferTarget(BufferCache& cache, BlockDevice& device, const disk::Geometry& geometry,
                           BufferPolicy* policy)
    : cache_(cache),
      device_(device),
      geometry_(geometry),
      policy_(policy != nullptr ? policy : default_policy()),
      id_(cache.next_target_id_.fetch_add(1, std::memory_order_relaxed)),
      blocks_(device.size_bytes() / kFsBlockBytes) {}

BufferTarget::~BufferTarget() {
  drain_io();
  cache_.free_target(*this);
}

void BufferTarget::drain_io() {
  MutexLock lock(cache_.io_lock_);
  while (in_flight_ != 0) cache_.io_idle_.wait(cache_.io_lock_);
}

BufferCache::BufferCache(MemoryBudget& budget, const BufferCacheOptions& options)
    : budget_(budget),
      options_(options),
      hash_shards_(std::make_unique<HashShard[]>(kHashShards)),
      lru_shards_(std::make_unique<LruShard[]>(kLruShards)),
      wait_locks_(std::make_unique<WaitLock[]>(kWaitLocks)),
      io_lock_(io_class) {
  const std::uint64_t per_shard =
      std::bit_ceil(std::clamp<std::uint64_t>(options.expected_buffers / kHashShards, 16, 1ULL << 24));
  bucket_mask_ = static_cast<std::uint32_t>(per_shard - 1);
  for (std::uint32_t i = 0; i < kHashShards; ++i) {
    HashShard& shard = hash_shards_[i];
    MutexLock lock(shard.mutex);
    shard.buckets = std::vector<Bucket>(per_shard);
  }
  budget_.add_shrinker(*this);
}

BufferCache::~BufferCache() {
  budget_.remove_shrinker(*this);
  TW_ASSERT(buffers_.load(std::memory_order_relaxed) == 0, "every target has ended before the cache");
}

std::uint32_t BufferCache::hash_of(std::uint32_t target_id, DeviceAddress address) {
  std::uint64_t z = address.value + (static_cast<std::uint64_t>(target_id) << 48);
  z = (z ^ (z >> 32)) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::uint32_t>(z >> 32);
}

Buffer* BufferCache::find_and_hold_locked(HashShard& shard, const BufferTarget& target, DeviceAddress address,
                                          std::uint32_t length_blocks, std::uint32_t hash) {
  for (Buffer& buffer : bucket_locked(shard, hash)) {
    if (buffer.address_ == address && buffer.target_ == &target && buffer.length_blocks_ == length_blocks) {
      // Raised under the lock that reclaim takes to look at it: a buffer with no holds is not dead.
      buffer.holds_.fetch_add(1, std::memory_order_relaxed);
      if (buffer.referenced_.load(std::memory_order_relaxed) == 0) {
        buffer.referenced_.store(1, std::memory_order_relaxed);
      }
      return &buffer;
    }
  }
  return nullptr;
}

BufferHold BufferCache::find(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks) {
  const std::uint32_t hash = hash_of(target.id_, address);
  HashShard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  Buffer* const found = find_and_hold_locked(shard, target, address, length_blocks, hash);
  ++(found != nullptr ? shard.hits : shard.misses);
  return BufferHold(found);
}

Result<BufferHold> BufferCache::hold(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks,
                                     ChargeBy by) {
  TW_TRY(check_range(target, address, length_blocks));
  const std::uint32_t hash = hash_of(target.id_, address);
  HashShard& shard = shard_of(hash);
  Buffer* fresh = nullptr;
  // The seed's difference is these lines: whether a buffer is made before the table is asked.
  if (options_.lookup == BufferLookup::kAllocateFirst) {
    auto made = allocate_buffer(by);
    if (!made) return Unexpected(made.error());
    fresh = *made;
  }
  Buffer* found = nullptr;
  {
    MutexLock lock(shard.mutex);
    found = find_and_hold_locked(shard, target, address, length_blocks, hash);
    ++(found != nullptr ? shard.hits : shard.misses);
  }
  if (found != nullptr) {
    if (fresh != nullptr) free_buffer(fresh);
    return BufferHold(found);
  }
  if (fresh == nullptr) {
    auto made = allocate_buffer(by);
    if (!made) return Unexpected(made.error());
    fresh = *made;
  }
  // Outside every lock, and before it is in the table: nobody meets a half-made buffer, nor one whose memory
  // was not to be had.
  if (auto memory = allocate_memory(*fresh, length_blocks, by); !memory) {
    free_buffer(fresh);
    return Unexpected(memory.error());
  }
  initialise(*fresh, target, address, hash);
  {
    MutexLock lock(shard.mutex);
    found = find_and_hold_locked(shard, target, address, length_blocks, hash);
    if (found != nullptr) {
      ++shard.lost_races;
    } else {
      bucket_locked(shard, hash).push_front(*fresh);
    }
  }
  if (found != nullptr) {
    free_buffer(fresh);
    return BufferHold(found);
  }
  LruShard& lru = lru_of(*fresh);
  MutexLock lock(lru.mutex);
  lru.list.push_back(*fresh);
  ++lru.count;
  return BufferHold(fresh);
}

Result<LockedBuffer> BufferCache::get_for_overwrite(BufferTarget& target, DeviceAddress address,
                                                    std::uint32_t length_blocks) {
  auto held = hold(target, address, length_blocks);
  if (!held) return Unexpected(held.error());
  (*held)->lock();
  (*held)->stale_ = false;
  return LockedBuffer(held->detach());
}

// ---- memory ----

bool BufferCache::allocation_fails_for_test() {
  std::uint32_t left = fail_allocation_.load(std::memory_order_relaxed);
  while (left != 0) {
    if (fail_allocation_.compare_exchange(left, left - 1, std::memory_order_relaxed)) return left == 1;
  }
  return false;
}

Result<void> BufferCache::charge(std::uint64_t bytes, ChargeBy by) {
  if (allocation_fails_for_test()) return TW_FAIL(kNoMemory);
  if (budget_.try_charge(MemoryKind::kBuffers, bytes, by)) return {};
  return budget_.charge(MemoryKind::kBuffers, bytes, by, options_.memory_patience);
}

Result<Buffer*> BufferCache::allocate_buffer(ChargeBy by) {
  TW_TRY(charge(sizeof(Buffer), by));
  auto* const buffer = new (std::nothrow) Buffer;
  if (buffer == nullptr) {
    budget_.uncharge(MemoryKind::kBuffers, sizeof(Buffer));
    return TW_FAIL(kNoMemory);
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  buffers_.fetch_add(1, std::memory_order_relaxed);
  return buffer;
}

Result<void> BufferCache::allocate_memory(Buffer& buffer, std::uint32_t length_blocks, ChargeBy by) {
  const std::uint64_t bytes = std::uint64_t{length_blocks} * kFsBlockBytes;
  TW_TRY(charge(bytes, by));
  buffer.memory_ = static_cast<std::byte*>(std::aligned_alloc(kFsBlockBytes, bytes));
  if (buffer.memory_ == nullptr) {
    budget_.uncharge(MemoryKind::kBuffers, bytes);
    return TW_FAIL(kNoMemory);
  }
#if defined(TW_DASSERT_ON)
  // What a new block does not set itself shows: an LSN, a record beyond the count.
  std::memset(buffer.memory_, 0xA5, bytes);
#endif
  buffer.length_blocks_ = length_blocks;
  return {};
}

void BufferCache::initialise(Buffer& buffer, BufferTarget& target, DeviceAddress address,
                             std::uint32_t hash) {
  TW_DASSERT(buffer.memory_ != nullptr, "memory comes first");
  buffer.target_ = &target;
  buffer.cache_ = this;
  buffer.address_ = address;
  buffer.hash_ = hash;
  buffer.holds_.store(1, std::memory_order_relaxed);
}

void BufferCache::free_buffer(Buffer* buffer) {
  TW_ASSERT(!buffer->hash_hook_.is_linked(), "a buffer is freed that the table names");
  TW_ASSERT(!buffer->lru_hook_.is_linked(), "a buffer is freed that reclaim would meet");
  TW_ASSERT(!buffer->delwri_hook_.is_linked(), "a buffer is freed that is on a queue");
  TW_ASSERT(buffer->pins_.load(std::memory_order_relaxed) == 0, "a buffer is freed that is pinned");
  const std::uint64_t bytes = sizeof(Buffer) + std::uint64_t{buffer->length_blocks_} * kFsBlockBytes;
  std::free(buffer->memory_);
  delete buffer;
  buffers_.fetch_sub(1, std::memory_order_relaxed);
  budget_.uncharge(MemoryKind::kBuffers, bytes);
}

// ---- reclaim ----

// Isolated: on no LRU list, and so ours alone to put back or free. The bucket's lock decides: with no holds
// under it nobody can find the buffer any more.
std::uint64_t BufferCache::evict_if_idle(Buffer& buffer) {
  HashShard& shard = shard_of(buffer.hash_);
  {
    MutexLock lock(shard.mutex);
    if (buffer.holds_.load(std::memory_order_acquire) == 0) {
      Bucket& bucket = bucket_locked(shard, buffer.hash_);
      bucket.erase(bucket.iterator_to(buffer));
    } else {
      lock.unlock();
      LruShard& lru = lru_of(buffer);
      MutexLock lru_lock(lru.mutex);
      lru.list.push_back(buffer);
      ++lru.count;
      return 0;
    }
  }
  const std::uint64_t bytes = sizeof(Buffer) + buffer.length_bytes();
  free_buffer(&buffer);
  return bytes;
}

// Twice round at most: a buffer that has been hit since the last look is passed over once. Each shard is gone
// round by at most as many as it has; what is taken off its list in one hold is bounded too.
std::uint64_t BufferCache::shrink(std::uint64_t bytes) {
  std::uint64_t freed = 0;
  for (std::uint32_t i = 0; i < 2 * kLruShards && freed < bytes; ++i) {
    LruShard& lru = lru_shards_[reclaim_cursor_.fetch_add(1, std::memory_order_relaxed) % kLruShards];
    std::uint64_t to_scan = UINT64_MAX;
    while (to_scan != 0 && freed < bytes) {
      LruList idle;
      {
        MutexLock lock(lru.mutex);
        to_scan = std::min(to_scan, lru.count);
        std::uint64_t pending = freed;
        for (std::uint32_t n = 0; n < kScanPerHold && to_scan != 0 && pending < bytes; ++n, --to_scan) {
          Buffer& buffer = lru.list.front();
          lru.list.pop_front();
          const bool busy = buffer.holds_.load(std::memory_order_relaxed) != 0;
          if (busy || buffer.referenced_.load(std::memory_order_relaxed) != 0) {
            buffer.referenced_.store(0, std::memory_order_relaxed);
            lru.list.push_back(buffer);
          } else {
            --lru.count;
            idle.push_back(buffer);
            pending += sizeof(Buffer) + buffer.length_bytes();
          }
        }
      }
      while (!idle.empty()) {
        Buffer& buffer = idle.front();
        idle.pop_front();
        const std::uint64_t got = evict_if_idle(buffer);
        if (got != 0) reclaimed_.fetch_add(1, std::memory_order_relaxed);
        freed += got;
      }
    }
  }
  return freed;
}

// No look-ups of this target any more; a shrinker may still be at work on its buffers, and then has them
// isolated: what is not on the lists is waited for.
void BufferCache::free_target(BufferTarget& target) {
  for (;;) {
    LruList mine;
    for (std::uint32_t i = 0; i < kLruShards; ++i) {
      LruShard& lru = lru_shards_[i];
      MutexLock lock(lru.mutex);
      for (auto at = lru.list.begin(); at != lru.list.end();) {
        Buffer& buffer = *at;
        if (buffer.target_ != &target) {
          ++at;
          continue;
        }
        at = lru.list.erase(at);
        --lru.count;
        mine.push_back(buffer);
      }
    }
    while (!mine.empty()) {
      Buffer& buffer = mine.front();
      mine.pop_front();
      TW_ASSERT(buffer.holds_.load(std::memory_order_acquire) == 0,
                "a buffer is held after its target ended");
      evict_if_idle(buffer);
    }
    // A buffer in the table and on no list is a shrinker's.
    bool left = false;
    for (std::uint32_t i = 0; i < kHashShards && !left; ++i) {
      HashShard& shard = hash_shards_[i];
      MutexLock lock(shard.mutex);
      for (Bucket& bucket : shard.buckets) {
        for (const Buffer& buffer : bucket) left = left || buffer.target_ == &target;
      }
    }
    if (!left) return;
    yield_thread();
  }
}

BufferStats BufferCache::stats() const {
  BufferStats stats;
  for (std::uint32_t i = 0; i < kHashShards; ++i) {
    const HashShard& shard = hash_shards_[i];
    MutexLock lock(shard.mutex);
    stats.hits += shard.hits;
    stats.misses += shard.misses;
    stats.lost_races += shard.lost_races;
  }
  stats.lookups = stats.hits + stats.misses;
  stats.allocations = allocations_.load(std::memory_order_relaxed);
  stats.reads = reads_.load(std::memory_order_relaxed);
  stats.read_aheads = read_aheads_.load(std::memory_order_relaxed);
  stats.read_aheads_dropped = read_aheads_dropped_.load(std::memory_order_relaxed);
  stats.writes = writes_.load(std::memory_order_relaxed);
  stats.runs = runs_.load(std::memory_order_relaxed);
  stats.failed_runs = failed_runs_.load(std::memory_order_relaxed);
  stats.read_errors = read_errors_.load(std::memory_order_relaxed);
  stats.write_errors = write_errors_.load(std::memory_order_relaxed);
  stats.corrupt_reads = corrupt_reads_.load(std::memory_order_relaxed);
  stats.corrupt_writes = corrupt_writes_.load(std::memory_order_relaxed);
  stats.reclaimed = reclaimed_.load(std::memory_order_relaxed);
  stats.buffers = buffers_.load(std::memory_order_relaxed);
  return stats;
}

Result<void> BufferCache::check_range(const BufferTarget& target, DeviceAddress address,
                                      std::uint32_t length_blocks) const {
  const std::uint64_t blocks = target.blocks_;
  if (length_blocks == 0 || length_blocks > kMaxLengthBlocks) return TW_FAIL(kInvalidArgument);
  if (address.value >= blocks || blocks - address.value < length_blocks) return TW_FAIL(kOutOfRange);
  return {};
}

}  // namespace tidewheel
