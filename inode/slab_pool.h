// inode/slab_pool.h: objects of one type in pages of the arena, constructed once per slab.
// Owns:      its slabs (one arena page each) and the objects in them.
// Threads:   allocate() and free() are thread-safe.
// Locks:     one of kShards shard locks (rank kArena) by thread, free() that of its slab; never with an arena
//            lock.
// Errors:    allocate() answers null when the arena has no page: the caller reclaims and asks again.
// Invariant: a free object stays constructed; it is destroyed when its slab, wholly free, goes back to the
//            arena (each shard keeps one such slab). Nobody may look at a freed object: a memory type is
//            stable within a slab's life only.
#pragma once
#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "base/atomic.h"
#include "base/counter.h"
#include "base/sync.h"
#include "inode/page_arena.h"

namespace tidewheel {

class SlabPool {
 public:
  static constexpr std::uint32_t kShards = 16;
  struct Type {
    const char* name;
    std::uint32_t bytes;  // 63 .. 4032: a slab's free objects are the bits of one word
    void (*construct)(void* memory, void* context, std::uint8_t shard);
    void (*destroy)(void* object);
    void* context;
  };

  SlabPool(PageArena& arena, const Type& type);
  ~SlabPool();  // asserts that every object is free
  void* allocate();
  void free(void* object);

  std::uint64_t objects() const { return static_cast<std::uint64_t>(objects_.sum()); }  // in use
  // Relaxed: statistics.
  std::uint64_t slabs() const { return slabs_.load(std::memory_order_relaxed); }
  std::uint32_t objects_per_slab() const { return per_slab_; }
  std::uint64_t allocations() const;  // ever
  // Gives the slabs that are wholly free back to the arena; answers how many.
  std::uint64_t release_spares();

 private:
  struct Slab {
    using Hook =
        boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;
    Hook hook;
    std::uint64_t free_mask = 0;
    SlabPool* pool = nullptr;
    std::uint32_t shard = 0;
    std::uint32_t in_use = 0;
  };
  using SlabList =
      boost::intrusive::list<Slab, boost::intrusive::member_hook<Slab, Slab::Hook, &Slab::hook>,
                             boost::intrusive::constant_time_size<false>>;
  struct alignas(kCacheLine) Shard {
    Shard();
    mutable Mutex mutex;
    SlabList partial TW_GUARDED_BY(mutex);  // some objects free, some in use
    Slab* spare TW_GUARDED_BY(mutex) = nullptr;  // all free
    std::uint64_t allocations TW_GUARDED_BY(mutex) = 0;
  };
  static constexpr std::uint32_t kHeaderBytes = 64;
  static_assert(sizeof(Slab) <= kHeaderBytes);

  std::byte* object_at(Slab& slab, std::uint32_t n) const {
    return reinterpret_cast<std::byte*>(&slab) + kHeaderBytes + std::size_t{n} * stride_;
  }
  Slab* make_slab(std::uint32_t shard);
  void destroy_slab(Slab& slab);
  void keep_or_destroy(Shard& shard, Slab& slab);

  PageArena& arena_;
  const Type type_;
  std::uint32_t stride_ = 0;
  std::uint32_t per_slab_ = 0;
  std::uint64_t full_mask_ = 0;  // every object free
  ShardedCounter objects_;
  Atomic<std::uint64_t> slabs_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace tidewheel
