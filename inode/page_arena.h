// inode/page_arena.h: memory for pages, in one reservation of address space, populated in chunks and then
// used again for ever. Slabs of inodes and tree nodes take their memory here too, so one limit bounds all.
// Owns:      the reservation and the Page descriptors (one per page, at constant addresses).
// Threads:   every method is thread-safe.
// Locks:     a magazine's lock, then the depot's (both rank kArena). No lock is held while the kernel
//            populates memory.
// Units:     pages of kPageBytes; charged bytes are kPageBytes + sizeof(Page) per resident page.
// Errors:    allocate() answers null at the limit; the page cache then reclaims and waits.
// Invariant: charged (MemoryKind::kPages) = populated pages, free ones included: what is charged is resident.
//            Memory goes back to the kernel only by release(), for other consumers of the budget.
// Limits:    2^31 pages (8 TiB). Near the limit up to one huge page (2 MiB) more than charged is resident.
// Source:    magazines and depot as in Bonwick and Adams, "Magazines and Vmem" (2001).
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_budget.h"
#include "base/result.h"
#include "base/sync.h"
#include "inode/page.h"

namespace tidewheel {

struct PageArenaOptions {
  std::uint64_t max_bytes = 1ULL << 30;      // of pages; address space, not memory
  std::uint64_t reserve_bytes = 4ULL << 20;  // for AllocateFor::kWriteback alone; populated at the start
  bool huge_pages = true;                    // madvise; ignored where the kernel has none
};

enum class AllocateFor : std::uint8_t { kData, kWriteback };

struct PageArenaStats {
  std::uint64_t populated_pages = 0;  // resident
  std::uint64_t free_pages = 0;       // of these, free (the reserve included)
  std::uint64_t populate_calls = 0;   // into the kernel
  std::uint64_t reused_pages = 0;     // allocations served from memory that was touched before
  std::uint64_t fresh_pages = 0;      // allocations served for the first time
  std::uint64_t released_pages = 0;   // given back to the kernel, ever
};

class PageArena {
 public:
  static constexpr std::uint32_t kMagazines = 16;       // picked by thread
  static constexpr std::uint32_t kMagazinePages = 32;
  static constexpr std::uint32_t kChunkPages = 512;     // one huge page: 0.2 to 1 ms to populate
  static constexpr std::uint64_t kChargedPerPage = kPageBytes + sizeof(Page);

  static Result<std::unique_ptr<PageArena>> make(MemoryBudget& budget, const PageArenaOptions& options);
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  // The content is whatever it was. Null at the limit (the reserve is left to kWriteback).
  Page* allocate(AllocateFor purpose = AllocateFor::kData);
  void free(Page& page);  // belongs to no mapping, is on no list

  // Touches up to `bytes` ahead of use, as far as the budget allows; answers how many it did.
  std::uint64_t populate_ahead(std::uint64_t bytes);
  // Gives up to `bytes` of free pages back to the kernel and to the budget; answers how many.
  std::uint64_t release(std::uint64_t bytes);

  // The descriptor of the page that holds this address (for slabs).
  Page& page_of(const void* address) const;
  bool contains(const void* address) const;
  std::uint64_t max_pages() const { return max_pages_; }
  MemoryBudget& budget() const { return budget_; }
  PageArenaStats stats() const;
  void check_invariants() const;  // at rest

 private:
  struct Chain {  // a stack of free pages through next_free
    Page* head = nullptr;
    std::uint32_t count = 0;
    void push(Page& page);
    Page* pop();
  };
  struct alignas(kCacheLine) Magazine {
    Magazine();
    mutable Mutex mutex;
    Chain loaded TW_GUARDED_BY(mutex);
    Chain previous TW_GUARDED_BY(mutex);
    std::uint64_t reused TW_GUARDED_BY(mutex) = 0;
    std::uint64_t fresh TW_GUARDED_BY(mutex) = 0;
  };

  PageArena(MemoryBudget& budget, const PageArenaOptions& options);
  Result<void> reserve_address_space();
  Page* allocate_slow(Magazine& own, AllocateFor purpose);
  // A chain from the depot, else from the kernel, else from another magazine. Empty: the limit.
  Chain refill(const Magazine& own);
  Chain populate_untouched(std::uint32_t pages);
  Chain populate_dry(std::uint32_t pages);
  Chain steal(const Magazine& own);
  // Keeps one magazine of `chain` and leaves the rest in the depot.
  void keep_one_magazine(Chain& chain);
  void depot_push(Chain chain);
  Chain depot_pop();
  Page* take_reserve();

  MemoryBudget& budget_;
  const PageArenaOptions options_;
  const std::uint32_t chunk_pages_;
  std::uint64_t max_pages_ = 0;
  std::byte* memory_ = nullptr;  // aligned to a huge page
  Page* pages_ = nullptr;
  void* reservation_ = nullptr;
  std::uint64_t reservation_bytes_ = 0;

  std::array<Magazine, kMagazines> magazines_;
  alignas(kCacheLine) mutable Mutex depot_mutex_;
  Page* depot_ TW_GUARDED_BY(depot_mutex_) = nullptr;  // chains, through next_chain
  std::uint64_t depot_pages_ TW_GUARDED_BY(depot_mutex_) = 0;
  Chain reserve_ TW_GUARDED_BY(depot_mutex_);
  Chain dry_ TW_GUARDED_BY(depot_mutex_);  // released: not resident, not charged
  std::uint64_t next_untouched_ TW_GUARDED_BY(depot_mutex_) = 0;
  std::uint64_t populated_pages_ TW_GUARDED_BY(depot_mutex_) = 0;
  std::uint64_t populate_calls_ TW_GUARDED_BY(depot_mutex_) = 0;
  std::uint64_t released_pages_ TW_GUARDED_BY(depot_mutex_) = 0;
  // Pages that free() owes the reserve. Relaxed: a hint; the reserve itself is under depot_mutex_.
  alignas(kCacheLine) Atomic<std::uint32_t> reserve_missing_{0};
};

}  // namespace tidewheel
