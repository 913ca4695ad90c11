#include "inode/page_cache.h"

#include <array>
#include <bit>

#include "base/assert.h"
#include "base/clock.h"
#include "base/trace.h"

namespace tidewheel {

namespace {

LockClass room_class{"inode.room", LockRank::kLru};

// How much one round of reclaim asks for: a few slabs or magazines' worth, microseconds of work.
constexpr std::uint64_t kRoundBytes = 256ULL << 10;
// How much writeback is asked for when nothing is clean: a batch is 4 MiB.
constexpr std::uint64_t kWritebackBytes = 4ULL << 20;

Page& page_of(LruItem& item) {
  static_assert(offsetof(Page, lru) == 0);
  return reinterpret_cast<Page&>(item);
}

}  // namespace

PageCache::PageCache(PageArena& arena, DirtySink& sink, const PageCacheOptions& options)
    : arena_(arena),
      sink_(sink),
      nodes_(arena),
      policy_(make_reclaim_policy(options.reclaim)),
      room_mutex_(room_class) {
  arena_.budget().add_shrinker(*this);
  TW_ASSERT(policy_ != nullptr, "no such reclaim policy");
  TW_ASSERT(std::has_single_bit(options.stripes), "the number of stripes is a power of two");
  TW_ASSERT(options.stripes <= 65536, "a page keeps its stripe in 16 bits");
  stripes_.reserve(options.stripes);
  for (std::uint32_t i = 0; i < options.stripes; ++i) stripes_.push_back(std::make_unique<MappingStripe>());
}

PageCache::~PageCache() {
  arena_.budget().remove_shrinker(*this);
  TW_ASSERT(pages_.sum() == 0, "the page cache ends before its pages: drop the inodes first");
}

void PageCache::bind(Inode& inode) {
  // Multiplicative hashing: neighbouring numbers are written by the same thread at about the same time.
  const std::uint64_t hash = (inode.number() * 0x9E3779B97F4A7C15ULL) >> 32;
  const std::size_t stripe = hash & (stripes_.size() - 1);
  inode.mapping().bind(*stripes_[stripe], static_cast<std::uint16_t>(stripe));
}

Page* PageCache::allocate_page() {
  return allocate_with_room([this] { return arena_.allocate(); });
}

void PageCache::free_page(Page& page) {
  arena_.free(page);
  room_made();
}

void PageCache::room_made() {
  room_epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (room_waiters_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(room_mutex_);
  room_.notify_all();
}

// Inodes in proportion to their memory: were they spared until the last clean page is gone, they would
// squeeze the pages out for ever.
std::uint64_t PageCache::reclaim_round(std::uint64_t bytes) {
  const std::uint64_t page_bytes = policy_->counts().listed * kPageBytes;
  const std::uint64_t object_bytes = evictor_ == nullptr ? 0 : evictor_->reclaimable_bytes();
  if (page_bytes + object_bytes == 0) return 0;
  const auto for_pages = static_cast<std::uint64_t>(static_cast<unsigned __int128>(bytes) * page_bytes /
                                                    (page_bytes + object_bytes));
  std::uint64_t freed = 0;
  if (page_bytes != 0) freed += reclaim_pages(for_pages / kPageBytes + 1);
  if (object_bytes != 0) freed += evictor_->evict_objects((bytes - for_pages) / evictor_->object_bytes() + 1);
  if (freed != 0) nodes_.release_spares();
  return freed;
}

bool PageCache::make_room(std::uint64_t seen_epoch) {
  reclaim_rounds_.fetch_add(1, std::memory_order_relaxed);
  if (tracing()) {  // sums shards
    TW_TRACE(mm_vmscan_direct_reclaim_begin, kRoundBytes, policy_->counts().listed * kPageBytes);
  }
  const std::uint64_t freed = reclaim_round(kRoundBytes);
  TW_TRACE(mm_vmscan_direct_reclaim_end, freed, 0);
  if (freed != 0) return true;
  memory_waits_.fetch_add(1, std::memory_order_relaxed);
  bool writing = sink_.request_writeback(kWritebackBytes);
  // Looked at again and again: the last of the dirt may have been written and have freed nothing.
  for (Duration waited; waited < kNoProgressLimit; waited = waited + kNothingDirtyLimit) {
    if (wait_for_room(seen_epoch, kNothingDirtyLimit)) return true;
    // Nothing dirty: what is taken may be on its way into a mapping, in the hands of other writers. They get
    // one such moment to make it dirty before we give up.
    const bool still = sink_.request_writeback(kWritebackBytes);
    if (!writing && !still) return room_epoch_.load(std::memory_order_seq_cst) != seen_epoch;
    writing = still;
  }
  return false;
}

bool PageCache::wait_for_room(std::uint64_t seen_epoch, Duration patience) {
  MutexLock lock(room_mutex_);
  return room_.wait_until(room_mutex_, SteadyClock::instance().now() + patience, [&] {
    room_mutex_.assert_held();
    return room_epoch_.load(std::memory_order_seq_cst) != seen_epoch;
  });
}

std::uint64_t PageCache::shrink(std::uint64_t bytes) {
  std::uint64_t released = arena_.release(bytes);
  // Evicted inodes free a page only when a whole slab of them is free: a few rounds may give nothing.
  for (int idle = 0; released < bytes && idle < 8;) {
    if (reclaim_round(bytes - released) == 0) break;
    const std::uint64_t more = arena_.release(bytes - released);
    idle = more == 0 ? idle + 1 : 0;
    released += more;
  }
  return released;
}

std::uint64_t PageCache::reclaim_pages(std::uint64_t n) {
  std::array<LruItem*, kReclaimScan> items;
  std::uint64_t freed = 0;
  // So often that everything listed now has been looked at as often as a policy may pass it by, not for ever.
  std::uint64_t calls = kMostReclaimLooks * (policy_->counts().listed / kReclaimScan + 1);
  while (freed < n && calls-- != 0) {
    const std::size_t wanted = std::min<std::uint64_t>(items.size(), n - freed);
    const std::size_t count = policy_->isolate(std::span(items.data(), wanted));
    for (std::size_t i = 0; i < count; ++i) freed += evict_page(page_of(*items[i])) ? 1 : 0;
  }
  reclaimed_pages_.fetch_add(freed, std::memory_order_relaxed);
  if (freed != 0) room_made();
  return freed;
}

// While it is isolated the page can't be freed, so its stripe is the right one; whether it is still in the
// mapping is known under that stripe's lock.
bool PageCache::evict_page(Page& page) {
  LruVerdict verdict = LruVerdict::kKeep;
  {
    MutexLock lock(stripes_[page.stripe]->mutex);
    if (page.owner != nullptr) {
      page.owner->mutex().assert_held();
      if ((page.flags & kPageDirty) != 0) {
        verdict = LruVerdict::kOff;  // end_writeback lists it again
      } else if ((page.flags & (kPageLocked | kPageWriteback)) == 0 && page.readers == 0) {
        page.owner->erase_locked(page, nodes_);
        verdict = LruVerdict::kEvicted;
      }
    }
  }
  const LruPutBack put = policy_->put_back(page.lru, verdict);
  if (verdict == LruVerdict::kEvicted) pages_.add(-1);
  if (verdict != LruVerdict::kEvicted && put != LruPutBack::kDoomed) return false;
  arena_.free(page);
  return true;
}

PageCacheStats PageCache::stats() const {
  PageCacheStats s;
  s.read_misses = static_cast<std::uint64_t>(read_misses_.sum());
  const auto reads = static_cast<std::uint64_t>(reads_.sum());
  s.read_hits = reads > s.read_misses ? reads - s.read_misses : 0;
  s.pages = static_cast<std::uint64_t>(pages_.sum());
  s.dirty_pages = static_cast<std::uint64_t>(dirty_pages_.sum());
  s.writeback_pages = static_cast<std::uint64_t>(writeback_pages_.sum());
  s.reclaimed_pages = reclaimed_pages_.load(std::memory_order_relaxed);
  s.reclaim_rounds = reclaim_rounds_.load(std::memory_order_relaxed);
  s.memory_waits = memory_waits_.load(std::memory_order_relaxed);
  s.stable_page_waits = stable_page_waits_.load(std::memory_order_relaxed);
  s.lists = policy_->counts();
  return s;
}

}  // namespace tidewheel
