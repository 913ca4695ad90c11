#include "inode/slab_pool.h"

#include <bit>
#include <new>

#include "base/assert.h"
#include "base/thread.h"
#include "inode/poison.h"

namespace tidewheel {

namespace {
LockClass slab_class{"inode.slab", LockRank::kArena};
}  // namespace

SlabPool::Shard::Shard() : mutex(slab_class) {}

SlabPool::SlabPool(PageArena& arena, const Type& type) : arena_(arena), type_(type) {
  stride_ = (type.bytes + 7) / 8 * 8;
  per_slab_ = (kPageBytes - kHeaderBytes) / stride_;
  TW_ASSERT(per_slab_ >= 1 && per_slab_ <= 64, "a slab holds 1 to 64 objects");
  full_mask_ = per_slab_ == 64 ? ~0ULL : (1ULL << per_slab_) - 1;
}

SlabPool::~SlabPool() {
  TW_ASSERT(objects() == 0, "a pool ends before its objects");
  for (Shard& shard : shards_) {
    Slab* spare = nullptr;
    {
      MutexLock lock(shard.mutex);
      TW_ASSERT(shard.partial.empty(), "a slab has objects in use");
      spare = shard.spare;
      shard.spare = nullptr;
    }
    if (spare != nullptr) destroy_slab(*spare);
  }
}

SlabPool::Slab* SlabPool::make_slab(std::uint32_t shard) {
  Page* page = arena_.allocate();
  if (page == nullptr) return nullptr;
  Slab* slab = new (page->data) Slab;
  slab->free_mask = full_mask_;
  slab->pool = this;
  slab->shard = shard;
  for (std::uint32_t n = 0; n < per_slab_; ++n) {
    type_.construct(object_at(*slab, n), type_.context, static_cast<std::uint8_t>(shard));
    poison_memory(object_at(*slab, n), stride_);
  }
  slabs_.fetch_add(1, std::memory_order_relaxed);
  return slab;
}

void SlabPool::destroy_slab(Slab& slab) {
  for (std::uint32_t n = 0; n < per_slab_; ++n) {
    unpoison_memory(object_at(slab, n), stride_);
    type_.destroy(object_at(slab, n));
  }
  Page& page = arena_.page_of(&slab);
  slab.~Slab();
  slabs_.fetch_sub(1, std::memory_order_relaxed);
  arena_.free(page);
}

void* SlabPool::allocate() {
  const std::uint32_t number = thread_number() % kShards;
  Shard& shard = shards_[number];
  Slab* fresh = nullptr;
  void* object = nullptr;
  for (;;) {
    MutexLock lock(shard.mutex);
    if (shard.partial.empty()) {
      if (shard.spare == nullptr && fresh == nullptr) {
        lock.unlock();  // the arena may populate memory
        fresh = make_slab(number);
        if (fresh == nullptr) return nullptr;
        continue;
      }
      Slab* slab = shard.spare != nullptr ? shard.spare : std::exchange(fresh, nullptr);
      if (slab == shard.spare) shard.spare = nullptr;
      shard.partial.push_front(*slab);
    }
    Slab& slab = shard.partial.front();
    const auto n = static_cast<std::uint32_t>(std::countr_zero(slab.free_mask));
    slab.free_mask &= slab.free_mask - 1;
    ++slab.in_use;
    if (slab.free_mask == 0) shard.partial.pop_front();
    ++shard.allocations;
    object = object_at(slab, n);
    break;
  }
  unpoison_memory(object, stride_);
  objects_.add(1);
  if (fresh != nullptr) keep_or_destroy(shard, *fresh);
  return object;
}

void SlabPool::keep_or_destroy(Shard& shard, Slab& slab) {
  {
    MutexLock lock(shard.mutex);
    if (shard.spare == nullptr) {
      shard.spare = &slab;
      return;
    }
  }
  destroy_slab(slab);
}

void SlabPool::free(void* object) {
  auto* const slab = reinterpret_cast<Slab*>(reinterpret_cast<std::uintptr_t>(object) & ~(kPageBytes - 1));
  TW_DASSERT(slab->pool == this, "an object goes back to another pool than its own");
  const auto n = static_cast<std::uint32_t>(
      (static_cast<std::byte*>(object) - object_at(*slab, 0)) / static_cast<std::ptrdiff_t>(stride_));
  poison_memory(object, stride_);
  Shard& shard = shards_[slab->shard];
  Slab* empty = nullptr;
  {
    MutexLock lock(shard.mutex);
    const std::uint64_t bit = 1ULL << n;
    TW_ASSERT((slab->free_mask & bit) == 0, "an object is freed twice");
    if (slab->free_mask == 0) shard.partial.push_front(*slab);
    slab->free_mask |= bit;
    --slab->in_use;
    if (slab->free_mask == full_mask_) {
      shard.partial.erase(shard.partial.iterator_to(*slab));
      if (shard.spare == nullptr) {
        shard.spare = slab;
      } else {
        empty = slab;
      }
    }
  }
  objects_.add(-1);
  if (empty != nullptr) destroy_slab(*empty);
}

std::uint64_t SlabPool::allocations() const {
  std::uint64_t sum = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    sum += shard.allocations;
  }
  return sum;
}

std::uint64_t SlabPool::release_spares() {
  std::uint64_t released = 0;
  for (Shard& shard : shards_) {
    Slab* spare = nullptr;
    {
      MutexLock lock(shard.mutex);
      spare = shard.spare;
      shard.spare = nullptr;
    }
    if (spare == nullptr) continue;
    destroy_slab(*spare);
    ++released;
  }
  return released;
}

}  // namespace tidewheel
