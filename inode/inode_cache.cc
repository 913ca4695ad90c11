#include "inode/inode_cache.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/assert.h"
#include "writeback/error_sequence.h"

namespace tidewheel {

namespace {

LockClass hash_class{"inode.hash", LockRank::kInodeHash};

}  // namespace

// ---- holds ----

void InodeHold::reset() {
  if (inode_ == nullptr) return;
  Inode* inode = inode_;
  inode_ = nullptr;
  inode->cache().put(*inode);
}

InodeHold InodeHold::clone() const {
  if (inode_ == nullptr) return {};
  // Relaxed: we hold it, so it can't go; nothing is published by holding it twice.
  inode_->holds_.fetch_add(1, std::memory_order_relaxed);
  return InodeHold(inode_);
}

// ---- construction ----

InodeCache::BucketLock::BucketLock() : mutex(hash_class) {}

InodeCache::InodeCache(PageCache& pages, InodeSource& source, const InodeCacheOptions& options)
    : pages_(pages),
      source_(source),
      pool_(pages.arena(),
            SlabPool::Type{.name = "inode",
                           .bytes = sizeof(Inode),
                           .construct =
                               [](void* memory, void* cache, std::uint8_t shard) {
                                 Inode* inode = new (memory) Inode;
                                 inode->cache_ = static_cast<InodeCache*>(cache);
                                 inode->lru_.shard = shard;
                               },
                           .destroy = [](void* inode) { static_cast<Inode*>(inode)->~Inode(); },
                           .context = this}),
      policy_(make_reclaim_policy(options.reclaim)),
      table_(nullptr, std::free),
      locks_(std::make_unique<BucketLock[]>(kBucketLocks)) {
  TW_ASSERT(policy_ != nullptr, "no such reclaim policy");
  std::uint64_t buckets =
      std::bit_ceil(std::max<std::uint64_t>(options.memory_limit_bytes / kBytesPerBucket, kBucketLocks));
  // A smaller table rather than none: chains get longer. Never fewer buckets than locks, so that all that
  // share a bucket share its lock.
  while (buckets > kBucketLocks &&
         !pages.arena().budget().try_charge(MemoryKind::kInodes, buckets * sizeof(Inode*))) {
    buckets /= 2;
  }
  if (buckets > kBucketLocks) table_bytes_ = buckets * sizeof(Inode*);
  // Touched here, not at first use: a page fault costs microseconds, and would be taken under a bucket lock.
  table_.reset(static_cast<Inode**>(std::malloc(buckets * sizeof(Inode*))));
  TW_ASSERT(table_ != nullptr, "no address space for the inode table");
  std::fill_n(table_.get(), buckets, nullptr);
  mask_ = buckets - 1;
  pages_.set_source(source);
  pages_.set_evictor(this);
}

InodeCache::~InodeCache() {
  while (pool_.objects() != 0 && evict(UINT64_MAX) != 0) {
  }
  TW_ASSERT(pool_.objects() == 0, "the inode cache ends while an inode is held or dirty");
  pages_.set_evictor(nullptr);
  pages_.arena().budget().uncharge(MemoryKind::kInodes, table_bytes_);
}

// ---- the table ----

std::uint64_t InodeCache::hash_of(InodeNumber number) const {
  std::uint64_t h = number * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 32);
}

void InodeCache::hash_locked(Inode& inode) {
  Inode*& head = bucket_of(inode.number_);
  inode.hash_next_ = head;
  head = &inode;
}

void InodeCache::unhash_locked(Inode& inode) {
  Inode** at = &bucket_of(inode.number_);
  while (*at != &inode) at = &(*at)->hash_next_;
  *at = inode.hash_next_;
  inode.hash_next_ = nullptr;
}

InodeCache::Found InodeCache::find_locked(BucketLock& lock, InodeNumber number, Inode*& out) {
  for (;;) {
    Inode* inode = bucket_of(number);
    while (inode != nullptr && inode->number_ != number) inode = inode->hash_next_;
    out = inode;
    if (inode == nullptr) return Found::kMiss;
    if (inode->life_ == InodeLife::kLive) return Found::kHit;
    if (inode->life_ != InodeLife::kNew) return Found::kGone;
    lock.wait();  // being loaded by another thread
  }
}

InodeHold InodeCache::hold_locked(BucketLock& lock, Inode& inode) {
  ++lock.hits;
  inode.holds_.fetch_add(1, std::memory_order_seq_cst);
  inode.lru_.touch();
  return InodeHold(&inode);
}

// ---- looking up and making ----

InodeHold InodeCache::find(InodeNumber number) {
  BucketLock& bucket = lock_of(number);
  MutexLock lock(bucket.mutex);
  Inode* inode = nullptr;
  if (find_locked(bucket, number, inode) == Found::kHit) return hold_locked(bucket, *inode);
  return {};
}

Inode* InodeCache::allocate(InodeNumber number) {
  auto* inode = static_cast<Inode*>(pages_.allocate_with_room([this] { return pool_.allocate(); }));
  if (inode == nullptr) return nullptr;
  inode->number_ = number;
  inode->lru_.identity = reclaim_identity(number, 0);
  // Where a dirty list spreads its objects by hash: neighbours in number.
  inode->set_hash(static_cast<std::uint8_t>(1 + number % 255));
  inode->life_ = InodeLife::kNew;
  pages_.bind(*inode);
  return inode;
}

Result<InodeHold> InodeCache::get(InodeNumber number) {
  BucketLock& bucket = lock_of(number);
  Inode* inode = nullptr;
  {
    MutexLock lock(bucket.mutex);
    switch (find_locked(bucket, number, inode)) {
      case Found::kHit: return hold_locked(bucket, *inode);
      case Found::kGone: return TW_FAIL(kNotFound);
      case Found::kMiss: ++bucket.misses;
    }
  }
  Inode* fresh = allocate(number);
  if (fresh == nullptr) return TW_FAIL(kNoMemory);
  {
    MutexLock lock(bucket.mutex);
    const Found found = find_locked(bucket, number, inode);
    if (found != Found::kMiss) {
      InodeHold hold;
      if (found == Found::kHit) hold = hold_locked(bucket, *inode);
      lock.unlock();
      free_memory(*fresh);
      if (found == Found::kGone) return TW_FAIL(kNotFound);
      return hold;
    }
    fresh->holds_.store(1, std::memory_order_seq_cst);
    hash_locked(*fresh);
  }
  const Result<void> loaded = source_.load(*fresh);
  {
    MutexLock lock(bucket.mutex);
    if (loaded) {
      fresh->life_ = InodeLife::kLive;
    } else {
      unhash_locked(*fresh);
      fresh->holds_.store(0, std::memory_order_seq_cst);
    }
    bucket.wake();
  }
  if (loaded) return InodeHold(fresh);
  free_memory(*fresh);
  return Unexpected(loaded.error());
}

Result<InodeHold> InodeCache::create(InodeNumber number, std::uint16_t context) {
  Inode* fresh = allocate(number);
  if (fresh == nullptr) return TW_FAIL(kNoMemory);
  fresh->set_context(context);
  BucketLock& bucket = lock_of(number);
  MutexLock lock(bucket.mutex);
  for (;;) {
    Inode* inode = nullptr;
    const Found found = find_locked(bucket, number, inode);
    if (found == Found::kMiss) break;
    if (found == Found::kGone && inode->life_ == InodeLife::kFreeing) {
      bucket.wait();
      continue;
    }
    lock.unlock();
    free_memory(*fresh);
    if (found == Found::kHit) return TW_FAIL(kExists);
    return TW_FAIL(kBusy);
  }
  fresh->life_ = InodeLife::kLive;
  fresh->holds_.store(1, std::memory_order_seq_cst);
  hash_locked(*fresh);
  creates_.add(1);
  return InodeHold(fresh);
}

// ---- letting go ----

void InodeCache::put(Inode& inode) {
  std::uint32_t holds = inode.holds_.load(std::memory_order_relaxed);
  while (holds > 1) {
    // Release: what this holder did is seen by who frees it (the last put, under the bucket lock).
    if (inode.holds_.compare_exchange(holds, holds - 1, std::memory_order_acq_rel)) return;
  }
  BucketLock& bucket = lock_of(inode.number_);
  {
    MutexLock lock(bucket.mutex);
    // seq_cst beside end_write(): it reads holds while the phase is kWriting, we write holds and then read
    // the phase. If it saw us holding, we see kWriting or later.
    if (inode.holds_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
    if (inode.life_ == InodeLife::kLive) {
      const DirtyPhase phase = inode.state().phase();
      const bool will_be_written = phase == DirtyPhase::kListed || phase == DirtyPhase::kLazy ||
                                   phase == DirtyPhase::kRetry || phase == DirtyPhase::kClaimed;
      // Listed already: a reclaimer that takes it off decides under this lock, and sees that it is not held.
      if (!will_be_written && !inode.lru_.listed()) {
        LruItem* item = &inode.lru_;
        policy_->insert(std::span(&item, 1));
      }
      return;
    }
    TW_ASSERT(inode.life_ == InodeLife::kUnlinked, "an inode is let go that is neither live nor unlinked");
    inode.life_ = InodeLife::kFreeing;
  }
  free_unlinked(inode);
}

void InodeCache::unlink(Inode& inode) {
  BucketLock& bucket = lock_of(inode.number_);
  MutexLock lock(bucket.mutex);
  TW_ASSERT(inode.life_ == InodeLife::kLive, "only a live inode is unlinked");
  TW_DASSERT(inode.holds() != 0, "an inode is unlinked that nobody holds");
  inode.life_ = InodeLife::kUnlinked;
  inode.links = 0;
}

// Still hashed, so that create() of the same number waits; found by nobody.
void InodeCache::free_unlinked(Inode& inode) {
  pages_.sink().cancel(inode);
  pages_.drop_all(inode);
  source_.inactivate(inode);
  BucketLock& bucket = lock_of(inode.number_);
  {
    MutexLock lock(bucket.mutex);
    unhash_locked(inode);
    bucket.wake();
  }
  frees_.add(1);
  if (policy_->remove(inode.lru_)) free_memory(inode);  // else its reclaimer does
}

void InodeCache::free_memory(Inode& inode) {
  TW_ASSERT(inode.state().clean(), "a dirty inode is freed");
  TW_ASSERT(inode.mapping_.pages() == 0, "an inode is freed before its pages");
  inode.life_ = InodeLife::kFree;
  inode.number_ = 0;
  inode.links = 1;
  inode.store_data[0] = 0;
  inode.store_data[1] = 0;
  inode.set_size(0);
  inode.set_context(kNoContext);
  inode.owner_vote.reset();
  inode.write_errors.store(0, std::memory_order_relaxed);
  inode.lru_.forget();
  pool_.free(&inode);
  pages_.room_made();
}

void InodeCache::end_write(Inode& inode) {
  if (inode.holds() != 0) return;  // put() lists it
  BucketLock& bucket = lock_of(inode.number_);
  MutexLock lock(bucket.mutex);
  if (inode.life_ != InodeLife::kLive || inode.holds() != 0) return;
  LruItem* item = &inode.lru_;
  policy_->insert(std::span(&item, 1));
}

// ---- eviction ----

std::uint64_t InodeCache::evict(std::uint64_t n) {
  std::array<LruItem*, kReclaimScan> items;
  std::uint64_t evicted = 0;
  std::uint64_t calls = kMostReclaimLooks * (policy_->counts().listed / kReclaimScan + 1);
  while (evicted < n && calls-- != 0) {
    const std::size_t wanted = std::min<std::uint64_t>(items.size(), n - evicted);
    const std::size_t count = policy_->isolate(std::span(items.data(), wanted));
    for (std::size_t i = 0; i < count; ++i) {
      auto& inode = *reinterpret_cast<Inode*>(reinterpret_cast<std::byte*>(items[i]) - Inode::lru_offset());
      evicted += try_evict(inode) ? 1 : 0;
    }
  }
  return evicted;
}

// It is isolated, so its memory stays an inode, with its number, until we put it back.
bool InodeCache::try_evict(Inode& inode) {
  LruVerdict verdict = LruVerdict::kKeep;
  bool keeps_error = false;
  BucketLock& bucket = lock_of(inode.number_);
  {
    MutexLock lock(bucket.mutex);
    if (inode.life_ != InodeLife::kLive) {
      verdict = LruVerdict::kOff;  // it is freed with its last hold, which needs no list
    } else if (inode.holds() == 0 && inode.mapping_.writeback_pages() == 0) {
      const DirtyPhase phase = inode.state().phase();
      if (phase == DirtyPhase::kClean) {
        // Nobody holds it, so nobody can dirty it; unhashed, nobody can come to hold it.
        TW_DASSERT(inode.mapping_.dirty_pages() == 0, "a clean inode has dirty pages");
        verdict = LruVerdict::kEvicted;
        keeps_error = ErrorSequence::untold(inode.write_errors) != Reason::kOk;
        if (keeps_error) {
          inode.life_ = InodeLife::kNew;  // who looks for it waits: the store must have the error first
        } else {
          inode.life_ = InodeLife::kFreeing;
          unhash_locked(inode);
        }
      } else if (phase != DirtyPhase::kWriting) {
        verdict = LruVerdict::kOff;  // it will be written: end_write() lists it again
      }
    }
  }
  if (verdict != LruVerdict::kEvicted) {
    if (policy_->put_back(inode.lru_, verdict) == LruPutBack::kDoomed) free_memory(inode);
    return false;
  }
  source_.evict(inode);
  if (keeps_error) {
    MutexLock lock(bucket.mutex);
    inode.life_ = InodeLife::kFreeing;
    unhash_locked(inode);
    bucket.wake();
  }
  pages_.drop_all(inode);
  policy_->put_back(inode.lru_, LruVerdict::kEvicted);
  evictions_.add(1);
  free_memory(inode);
  return true;
}

std::uint64_t InodeCache::evict_objects(std::uint64_t objects) {
  const std::uint64_t evicted = evict(objects);
  pool_.release_spares();
  return evicted;
}

std::uint64_t InodeCache::reclaimable_bytes() const { return policy_->counts().listed * object_bytes(); }
std::uint32_t InodeCache::object_bytes() const {
  return static_cast<std::uint32_t>(kPageBytes / pool_.objects_per_slab());
}

InodeCacheStats InodeCache::stats() const {
  InodeCacheStats s;
  s.inodes = pool_.objects();
  s.bytes = pool_.slabs() * PageArena::kChargedPerPage;
  for (std::uint32_t i = 0; i < kBucketLocks; ++i) {
    MutexLock lock(locks_[i].mutex);
    s.hits += locks_[i].hits;
    s.misses += locks_[i].misses;
  }
  s.creates = static_cast<std::uint64_t>(creates_.sum());
  s.evictions = static_cast<std::uint64_t>(evictions_.sum());
  s.frees = static_cast<std::uint64_t>(frees_.sum());
  s.allocations = pool_.allocations();
  s.lists = policy_->counts();
  return s;
}

void InodeCache::check_invariants() {
  std::uint64_t hashed = 0;
  for (std::uint64_t bucket = 0; bucket <= mask_; ++bucket) {
    for (Inode* inode = table_[bucket]; inode != nullptr; inode = inode->hash_next_) {
      TW_ASSERT((hash_of(inode->number_) & mask_) == bucket, "an inode is in the wrong bucket");
      TW_ASSERT(inode->life_ != InodeLife::kFree, "a free inode is hashed");
      if (inode->holds() == 0 && inode->state().clean()) {
        TW_ASSERT(inode->lru_.listed(), "a clean unheld inode is on no reclaim list");
      }
      MutexLock lock(inode->mapping_.mutex());
      inode->mapping_.check_invariants_locked();
      ++hashed;
    }
  }
  TW_ASSERT(hashed == pool_.objects(), "an inode in memory is not hashed");
}

}  // namespace tidewheel
