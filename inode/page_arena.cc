#include "inode/page_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/assert.h"
#include "base/thread.h"
#include "inode/poison.h"

namespace tidewheel {

namespace {

LockClass magazine_class{"inode.arena_magazine", LockRank::kArena};
LockClass depot_class{"inode.arena_depot", LockRank::kArena};

constexpr std::uint64_t kHugeBytes = 2ULL << 20;
// While a page is free and has never been handed out since it was populated.
constexpr std::uint16_t kPageFresh = 1U << 15;

// Makes [memory, +bytes) resident and writable. False: the kernel has no memory.
bool populate_memory(std::byte* memory, std::uint64_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  // Before Linux 5.14: touch each page.
  for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
    *reinterpret_cast<volatile unsigned char*>(memory + at) = 0;
  }
  return true;
}

void* map(std::uint64_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

PageArena::Magazine::Magazine() : mutex(magazine_class) {}

void PageArena::Chain::push(Page& page) {
  page.next_free = head;
  head = &page;
  ++count;
}

Page* PageArena::Chain::pop() {
  Page* page = head;
  if (page != nullptr) {
    head = page->next_free;
    --count;
  }
  return page;
}

PageArena::PageArena(MemoryBudget& budget, const PageArenaOptions& options)
    : budget_(budget),
      options_(options),
      // At a small limit one chunk would be a large part of it, and others would find nothing meanwhile.
      chunk_pages_(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
          budget.limit_bytes() / kChargedPerPage / 64, kMagazinePages, kChunkPages))),
      depot_mutex_(depot_class) {}

Result<std::unique_ptr<PageArena>> PageArena::make(MemoryBudget& budget, const PageArenaOptions& options) {
  std::unique_ptr<PageArena> arena(new PageArena(budget, options));
  TW_TRY(arena->reserve_address_space());
  return arena;
}

Result<void> PageArena::reserve_address_space() {
  constexpr std::uint64_t kMaxBytes = (1ULL << 31) * kPageBytes;
  if (options_.max_bytes == 0 || options_.max_bytes > kMaxBytes) return TW_FAIL(kInvalidArgument);
  if (options_.reserve_bytes > options_.max_bytes) return TW_FAIL(kInvalidArgument);
  const std::uint64_t bytes =
      (options_.max_bytes + options_.reserve_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  max_pages_ = bytes / kPageBytes;
  reservation_bytes_ = bytes + kHugeBytes;
  reservation_ = map(reservation_bytes_);
  pages_ = static_cast<Page*>(map(max_pages_ * sizeof(Page)));
  if (reservation_ == nullptr || pages_ == nullptr) return TW_FAIL(kNoMemory);
  const auto address = reinterpret_cast<std::uintptr_t>(reservation_);
  memory_ = static_cast<std::byte*>(reservation_) +
            ((address + kHugeBytes - 1) / kHugeBytes * kHugeBytes - address);
  if (options_.huge_pages) {
    (void)madvise(memory_, bytes, MADV_HUGEPAGE);  // a wish: EINVAL where the kernel has none
  } else {
    (void)madvise(memory_, bytes, MADV_NOHUGEPAGE);
  }

  for (std::uint64_t left = (options_.reserve_bytes + kPageBytes - 1) / kPageBytes; left != 0;) {
    Chain chain = populate_untouched(static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kChunkPages)));
    if (chain.count == 0) return TW_FAIL(kNoMemory);
    left -= chain.count;
    MutexLock lock(depot_mutex_);
    while (Page* page = chain.pop()) reserve_.push(*page);
  }
  return {};
}

PageArena::~PageArena() {
  std::uint64_t populated = 0;
  {
    MutexLock lock(depot_mutex_);
    populated = populated_pages_;
  }
  budget_.uncharge(MemoryKind::kPages, populated * kChargedPerPage);
  if (reservation_ != nullptr) {
    unpoison_memory(reservation_, reservation_bytes_);
    munmap(reservation_, reservation_bytes_);
  }
  if (pages_ != nullptr) munmap(pages_, max_pages_ * sizeof(Page));
}

Page* PageArena::allocate(AllocateFor purpose) {
  Magazine& own = magazines_[thread_number() % kMagazines];
  Page* page = nullptr;
  {
    MutexLock lock(own.mutex);
    if (own.loaded.count == 0) std::swap(own.loaded, own.previous);
    page = own.loaded.pop();
    if (page != nullptr) ++((page->flags & kPageFresh) != 0 ? own.fresh : own.reused);
  }
  if (page == nullptr) page = allocate_slow(own, purpose);
  if (page == nullptr) return nullptr;
  unpoison_memory(page->data, kPageBytes);
  page->owner = nullptr;
  page->index = 0;
  page->flags = 0;
  page->readers = 0;
  page->lru.forget();
  return page;
}

Page* PageArena::allocate_slow(Magazine& own, AllocateFor purpose) {
  Chain chain = refill(own);
  if (chain.count == 0) return purpose == AllocateFor::kWriteback ? take_reserve() : nullptr;
  // One page is ours before the rest can be seen: a refill that worked never ends in null.
  Page* page = chain.pop();
  if (chain.count != 0) {
    MutexLock lock(own.mutex);
    if (own.loaded.count == 0) {
      own.loaded = std::exchange(chain, Chain{});
    } else if (own.previous.count == 0) {
      own.previous = std::exchange(chain, Chain{});
    }
  }
  if (chain.count != 0) depot_push(chain);
  MutexLock lock(own.mutex);
  ++((page->flags & kPageFresh) != 0 ? own.fresh : own.reused);
  return page;
}

void PageArena::free(Page& page) {
  TW_DASSERT(page.lru.place() == LruPlace::kOff, "a page is freed on a reclaim list");
  TW_DASSERT(page.readers == 0 && (page.flags & (kPageLocked | kPageWriteback)) == 0, "a busy page is freed");
  page.flags = 0;
  poison_memory(page.data, kPageBytes);
  if (reserve_missing_.load(std::memory_order_relaxed) != 0) {
    MutexLock lock(depot_mutex_);
    const std::uint32_t missing = reserve_missing_.load(std::memory_order_relaxed);
    if (missing != 0) {
      reserve_missing_.store(missing - 1, std::memory_order_relaxed);
      reserve_.push(page);
      return;
    }
  }
  Magazine& own = magazines_[thread_number() % kMagazines];
  Chain full;
  {
    MutexLock lock(own.mutex);
    if (own.loaded.count == kMagazinePages) {
      std::swap(own.loaded, own.previous);
      if (own.loaded.count != 0) {
        full = own.loaded;
        own.loaded = Chain{};
      }
    }
    own.loaded.push(page);
  }
  if (full.count != 0) depot_push(full);
}

PageArena::Chain PageArena::refill(const Magazine& own) {
  Chain chain = depot_pop();
  if (chain.count == 0) {
    chain = populate_untouched(chunk_pages_);
    keep_one_magazine(chain);
  }
  if (chain.count == 0) chain = populate_dry(kMagazinePages);
  if (chain.count == 0) chain = steal(own);
  // Memory may have come to the depot while we looked elsewhere.
  if (chain.count == 0) chain = depot_pop();
  return chain;
}

PageArena::Chain PageArena::populate_untouched(std::uint32_t pages) {
  std::uint32_t charged = pages;
  while (charged != 0 && !budget_.try_charge(MemoryKind::kPages, charged * kChargedPerPage)) charged /= 2;
  if (charged == 0) return {};
  std::uint64_t first = 0;
  std::uint32_t taken = 0;
  {
    MutexLock lock(depot_mutex_);
    first = next_untouched_;
    taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(charged, max_pages_ - first));
    next_untouched_ += taken;
    populated_pages_ += taken;
    if (taken != 0) ++populate_calls_;
  }
  if (taken != charged) budget_.uncharge(MemoryKind::kPages, (charged - taken) * kChargedPerPage);
  if (taken == 0) return {};

  std::byte* const memory = memory_ + first * kPageBytes;
  const bool resident = populate_memory(memory, taken * kPageBytes);
  Chain chain;
  for (std::uint64_t i = taken; i-- > 0;) {  // so that the lowest address comes out first
    Page* page = new (&pages_[first + i]) Page;
    page->data = memory + i * kPageBytes;
    page->flags = kPageFresh;
    page->lru.shard = static_cast<std::uint8_t>((first + i) / kChunkPages % kLruShards);
    poison_memory(page->data, kPageBytes);
    chain.push(*page);
  }
  if (resident) return chain;
  // The kernel refused: the range stays ours, as released pages. What it may have given goes back, for it is
  // not charged.
  (void)madvise(memory, taken * kPageBytes, MADV_DONTNEED);
  {
    MutexLock lock(depot_mutex_);
    while (Page* page = chain.pop()) dry_.push(*page);
    populated_pages_ -= taken;
  }
  budget_.uncharge(MemoryKind::kPages, taken * kChargedPerPage);
  return {};
}

PageArena::Chain PageArena::populate_dry(std::uint32_t pages) {
  std::uint32_t charged = pages;
  while (charged != 0 && !budget_.try_charge(MemoryKind::kPages, charged * kChargedPerPage)) charged /= 2;
  if (charged == 0) return {};
  Chain chain;
  {
    MutexLock lock(depot_mutex_);
    while (chain.count < charged && dry_.count != 0) chain.push(*dry_.pop());
    populated_pages_ += chain.count;
    if (chain.count != 0) ++populate_calls_;
  }
  if (chain.count != charged) budget_.uncharge(MemoryKind::kPages, (charged - chain.count) * kChargedPerPage);
  Chain resident;
  Chain refused;
  while (Page* page = chain.pop()) {
    unpoison_memory(page->data, kPageBytes);
    const bool done = populate_memory(page->data, kPageBytes);
    poison_memory(page->data, kPageBytes);
    page->flags = kPageFresh;
    (done ? resident : refused).push(*page);
  }
  if (refused.count != 0) {
    const std::uint64_t bytes = refused.count * kChargedPerPage;
    {
      MutexLock lock(depot_mutex_);
      populated_pages_ -= refused.count;
      while (Page* page = refused.pop()) dry_.push(*page);
    }
    budget_.uncharge(MemoryKind::kPages, bytes);
  }
  return resident;
}

PageArena::Chain PageArena::steal(const Magazine& own) {
  for (Magazine& other : magazines_) {
    if (&other == &own) continue;
    MutexLock lock(other.mutex);
    Chain& from = other.previous.count != 0 ? other.previous : other.loaded;
    if (from.count != 0) return std::exchange(from, Chain{});
  }
  return {};
}

void PageArena::keep_one_magazine(Chain& chain) {
  Chain keep;
  while (keep.count < kMagazinePages && chain.count != 0) keep.push(*chain.pop());
  while (chain.count != 0) {
    Chain next;
    while (next.count < kMagazinePages && chain.count != 0) next.push(*chain.pop());
    depot_push(next);
  }
  chain = keep;
}

void PageArena::depot_push(Chain chain) {
  MutexLock lock(depot_mutex_);
  chain.head->next_chain = depot_;
  chain.head->readers = static_cast<std::uint16_t>(chain.count);  // a free page has no readers
  depot_ = chain.head;
  depot_pages_ += chain.count;
}

PageArena::Chain PageArena::depot_pop() {
  MutexLock lock(depot_mutex_);
  if (depot_ == nullptr) return {};
  Chain chain{depot_, depot_->readers};
  depot_ = depot_->next_chain;
  chain.head->readers = 0;
  depot_pages_ -= chain.count;
  return chain;
}

Page* PageArena::take_reserve() {
  MutexLock lock(depot_mutex_);
  Page* page = reserve_.pop();
  if (page != nullptr) reserve_missing_.fetch_add(1, std::memory_order_relaxed);
  return page;
}

std::uint64_t PageArena::populate_ahead(std::uint64_t bytes) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t left = (bytes - done + kPageBytes - 1) / kPageBytes;
    Chain chain = populate_untouched(static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kChunkPages)));
    if (chain.count == 0) break;
    done += std::uint64_t{chain.count} * kPageBytes;
    keep_one_magazine(chain);
    depot_push(chain);
  }
  return done;
}

std::uint64_t PageArena::release(std::uint64_t bytes) {
  std::uint64_t released = 0;
  while (released < bytes) {
    // Whole chains up to 512 pages, so that neighbours go back in one call.
    std::array<Page*, kChunkPages> batch;
    std::size_t count = 0;
    const std::size_t wanted =
        std::min<std::uint64_t>(batch.size(), (bytes - released + kPageBytes - 1) / kPageBytes);
    while (count < wanted) {
      Chain chain = depot_pop();
      if (chain.count == 0) chain = steal(magazines_[thread_number() % kMagazines]);
      if (chain.count == 0) break;
      Page* page = nullptr;
      while (count < wanted && (page = chain.pop()) != nullptr) batch[count++] = page;
      if (chain.count != 0) depot_push(chain);
    }
    if (count == 0) break;
    std::sort(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t first = 0; first < count;) {
      std::size_t end = first + 1;
      while (end < count && batch[end] == batch[end - 1] + 1) ++end;
      (void)madvise(batch[first]->data, (end - first) * kPageBytes, MADV_DONTNEED);
      first = end;
    }
    {
      MutexLock lock(depot_mutex_);
      for (std::size_t i = count; i-- > 0;) dry_.push(*batch[i]);
      populated_pages_ -= count;
      released_pages_ += count;
    }
    budget_.uncharge(MemoryKind::kPages, count * kChargedPerPage);
    released += count * kPageBytes;
  }
  return released;
}

bool PageArena::contains(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= memory_ && at < memory_ + max_pages_ * kPageBytes;
}

Page& PageArena::page_of(const void* address) const {
  TW_DASSERT(contains(address), "the address is not in the arena");
  return pages_[static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - memory_) / kPageBytes];
}

PageArenaStats PageArena::stats() const {
  PageArenaStats s;
  for (const Magazine& magazine : magazines_) {
    MutexLock lock(magazine.mutex);
    s.free_pages += magazine.loaded.count + magazine.previous.count;
    s.reused_pages += magazine.reused;
    s.fresh_pages += magazine.fresh;
  }
  MutexLock lock(depot_mutex_);
  s.free_pages += depot_pages_ + reserve_.count;
  s.populated_pages = populated_pages_;
  s.populate_calls = populate_calls_;
  s.released_pages = released_pages_;
  return s;
}

void PageArena::check_invariants() const {
  for (const Magazine& magazine : magazines_) {
    MutexLock lock(magazine.mutex);
    for (const Chain* chain : {&magazine.loaded, &magazine.previous}) {
      std::uint32_t n = 0;
      for (const Page* page = chain->head; page != nullptr && n < chain->count; page = page->next_free) ++n;
      TW_ASSERT(n == chain->count, "a magazine's count is wrong");
    }
  }
  MutexLock lock(depot_mutex_);
  std::uint64_t in_depot = 0;
  for (const Page* head = depot_; head != nullptr; head = head->next_chain) {
    const Page* page = head;
    for (std::uint32_t i = 0; i < head->readers; ++i, page = page->next_free) {
      TW_ASSERT(page != nullptr, "a depot chain is short");
    }
    in_depot += head->readers;
  }
  TW_ASSERT(in_depot == depot_pages_, "the depot's count is wrong");
  TW_ASSERT(populated_pages_ + dry_.count == next_untouched_, "a page is neither resident nor released");
}

}  // namespace tidewheel
