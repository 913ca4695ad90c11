// inode/page_cache.h: reading and writing file data through pages, and the memory limit.
// Owns:      the arena's pages that are in mappings, tree nodes, the pages' reclaim lists.
// Threads:   every method is thread-safe, except that writes and truncates of one inode are serialised by
//            the caller (reads, writeback and reclaim run beside them). The inode is held by the caller.
// Locks:     mapping stripes, reclaim shards, arena; none while data is copied, read, or memory waited for.
// Units:     bytes in the interface, page indexes in runs.
// Errors:    kNoMemory when the limit is reached, nothing is clean, and nothing gets written for
//            kNoProgressLimit; what InodeSource reports for a read; kFileTooLarge past 2^63 - 1.
// Invariant: (1) stable pages: a write to a page under writeback waits for its end. Copying instead was
//            rejected for now: it spends memory exactly when memory is short; see
//            docs/inode-and-page-cache.md. (2) a failed write leaves its pages dirty. (3) bytes past the end
//            of the file are zero in the last page.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.h"
#include "base/result.h"
#include "base/time.h"
#include "inode/dirty_sink.h"
#include "inode/inode.h"
#include "inode/inode_source.h"
#include "inode/page_arena.h"
#include "inode/reclaim.h"

namespace tidewheel {

// Pages under writeback, ascending; the memory is stable until end_writeback. Kept and used again by its
// owner, so that writing allocates nothing in the long run.
struct WritebackPages {
  std::vector<Page*> pages;
  bool more = false;             // the last call has left dirty pages: the outcome is kPartial
  std::uint64_t first_left = 0;  // with `more`: the index of the first of them
  // What it cost: pages looked at, and at most so many under one hold of the mapping's lock.
  std::uint64_t visited = 0;
  std::uint32_t most_per_hold = 0;

  void clear() {
    pages.clear();
    more = false;
    first_left = visited = most_per_hold = 0;
  }
  std::uint64_t bytes() const { return pages.size() * kPageBytes; }
};

// Calls fn(first_index, span of pages with consecutive indexes).
template <class Fn>
void for_each_run(std::span<Page* const> pages, Fn&& fn) {
  for (std::size_t first = 0; first < pages.size();) {
    std::size_t end = first + 1;
    while (end < pages.size() && pages[end]->index == pages[end - 1]->index + 1) ++end;
    fn(pages[first]->index, pages.subspan(first, end - first));
    first = end;
  }
}

struct PageCacheOptions {
  std::string_view reclaim = "two-list";
  std::uint32_t stripes = 1024;  // of mapping locks: 128 KiB; a power of two
};

struct PageCacheStats {
  std::uint64_t read_hits = 0, read_misses = 0;   // pages
  std::uint64_t pages = 0, dirty_pages = 0, writeback_pages = 0;
  std::uint64_t reclaimed_pages = 0;
  std::uint64_t reclaim_rounds = 0;     // allocations that found the limit reached
  std::uint64_t memory_waits = 0;       // of these, waits for writeback
  std::uint64_t stable_page_waits = 0;  // writes that waited for a page's writeback
  ReclaimCounts lists;
};

class PageCache final : public Shrinker {
 public:
  // How long an allocation waits without anything being freed before it answers kNoMemory.
  static constexpr Duration kNoProgressLimit = seconds(30);
  // The same while nothing is dirty either (all memory is in use, or in the hands of other writers).
  static constexpr Duration kNothingDirtyLimit = milliseconds(100);
  static constexpr std::uint64_t kMaxBytes = INT64_MAX;  // largest size of a file

  PageCache(PageArena& arena, DirtySink& sink, const PageCacheOptions& options);
  ~PageCache() override;  // asserts that no page is left
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  // ---- the file system above ----
  // Copies `data` in, extends the size, marks kDirtyData (and kDirtyMetadata when the size grew), and
  // throttles (`task`: DirtySink). Answers the bytes written: fewer than asked only when an error stopped it
  // after the first.
  Result<std::uint64_t> write(Inode& inode, std::uint64_t offset, std::span<const std::byte> data,
                              Instant now, TaskThrottle* task = nullptr);
  // Marks the inode dirty in its timestamps alone (an access time, an mtime without data), whose fields the
  // store has published: written within twelve hours, or with whatever else of the inode is written before
  // (EngineOptions::lazytime). Never waits; a load when it is marked already. Until then the inode stays.
  void touch(Inode& inode, Instant now) {
    if (!inode.covers(kDirtyTimestamps)) sink_.mark_dirty(inode, kDirtyTimestamps, now, nullptr);
  }
  // Up to the end of the file; answers the bytes copied.
  Result<std::uint64_t> read(Inode& inode, std::uint64_t offset, std::span<std::byte> into);
  // Drops pages past the new end, their dirt included, zeroes the rest of the last one. Waits for pages
  // under writeback. Fails only when the last page had to be read and could not be; the size is then kept.
  Result<void> truncate(Inode& inode, std::uint64_t new_size, Instant now);

  // ---- the writeback target ----
  // After begin_write(): dirty pages become pages under writeback, ascending, at most max_pages, appended to
  // `out`. Waits for writers that copy into such a page.
  // kDirty (background): begins where the last such pass of the file was cut off, and ends at the file's end:
  // a file whose front is dirtied all the time is written to its end too. The next one begins at the front.
  // kToWrite (sync, fsync): what tag_to_write() marked, and nothing that was dirtied since; from the front.
  void begin_writeback(Inode& inode, WritebackPages& out, std::uint32_t max_pages,
                       PageTag what = PageTag::kDirty);
  // Marks what is dirty now, up to the end that the file has now: an appender adds nothing to it. Answers
  // that size; it is on the device when what was marked is. `out`: the cost alone.
  std::uint64_t tag_to_write(Inode& inode, WritebackPages& out);
  // ok: clean and reclaimable. Not ok: dirty again. Then wakes who waits for pages or memory.
  void end_writeback(Inode& inode, std::span<Page* const> pages, bool ok);

  // ---- memory ----
  // A page for this cache's own use; reclaims and waits at the limit. Null: kNoMemory.
  Page* allocate_page();
  void free_page(Page& page);
  // Runs `attempt` (an allocation out of the arena that answers null at the limit) until it succeeds or
  // nothing can help. Null: kNoMemory. Holds nothing while it waits.
  template <class Attempt>
  auto allocate_with_room(Attempt&& attempt) -> decltype(attempt()) {
    if (auto* memory = attempt()) return memory;
    RoomWaiter waiter(*this);  // announced first: what is freed from here on is either seen or told
    for (;;) {
      const std::uint64_t epoch = room_epoch_.load(std::memory_order_seq_cst);
      if (auto* memory = attempt()) return memory;
      // Once more: another thread may have brought memory into the arena, which is no event.
      if (!make_room(epoch)) return attempt();
    }
  }
  void room_made();  // after memory was freed or became clean: wakes who waits for it
  // Shrinker, for other consumers of the budget: gives about `bytes` of free pages, clean pages and unused
  // inodes back to the system.
  const char* name() const override { return "page cache"; }
  std::uint64_t shrink(std::uint64_t bytes) override;
  // Frees up to n clean pages; answers how many.
  std::uint64_t reclaim_pages(std::uint64_t n);
  // What else keeps memory of the arena (the inode cache): asked in proportion to it.
  struct Evictor {
    virtual ~Evictor() = default;
    virtual std::uint64_t reclaimable_bytes() const = 0;
    virtual std::uint64_t evict_objects(std::uint64_t objects) = 0;  // answers how many left memory
    virtual std::uint32_t object_bytes() const = 0;
  };
  void set_evictor(Evictor* evictor) { evictor_ = evictor; }  // before threads start

  // For the inode cache: drops every page. Clean ones when evicting (nobody else knows the inode by then).
  void drop_all(Inode& inode);
  void bind(Inode& inode);  // gives the mapping its lock stripe
  PageArena& arena() { return arena_; }
  DirtySink& sink() { return sink_; }
  void set_source(InodeSource& source) { source_ = &source; }  // before the first read
  PageCacheStats stats() const;

 private:
  struct RoomWaiter {
    explicit RoomWaiter(PageCache& cache) : cache_(cache) {
      cache_.room_waiters_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~RoomWaiter() { cache_.room_waiters_.fetch_sub(1, std::memory_order_relaxed); }
    PageCache& cache_;
  };
  // What part of one page a write replaces.
  struct PagePart {
    std::uint64_t index;
    std::uint32_t first_byte;
    std::span<const std::byte> data;
    std::uint64_t end() const { return index * kPageBytes + first_byte + data.size(); }
  };
  enum class Presence : std::uint8_t { kDone, kAbsent };
  Result<void> write_part(Inode& inode, const PagePart& part, Instant now, DirtyTicket& ticket);
  // first_use: it has been read in for this; only a second use is what reclaim calls a reference.
  Presence overwrite(Inode& inode, const PagePart& part, DirtyTicket* ticket, bool first_use = false);
  Result<Presence> insert_dirty(Inode& inode, const PagePart& part, DirtyTicket& ticket);
  // At the index's page, once it is neither locked, nor under writeback, nor being read; null: absent.
  Page* find_quiet_locked(Mapping& mapping, std::uint64_t index) TW_REQUIRES(mapping.mutex());
  bool make_room(std::uint64_t seen_epoch);
  // Of clean pages and unused inodes, in proportion to what they take; answers how many of either.
  std::uint64_t reclaim_round(std::uint64_t bytes);
  bool wait_for_room(std::uint64_t seen_epoch, Duration patience);  // false: nothing was freed meanwhile
  // Reads up to `pages` absent pages in from the source, until the first that is there. Answers how many.
  Result<std::uint32_t> fill(Inode& inode, std::uint64_t first_index, std::uint32_t pages);
  // The first `just_filled` are used for the first time: no reference.
  std::uint32_t pin_for_read(Inode& inode, std::uint64_t first_index, std::span<Page*> out,
                             std::uint32_t just_filled);
  void unpin(Inode& inode, std::span<Page* const> pages);
  Result<void> zero_tail(Inode& inode, std::uint64_t new_size);
  void drop_from(Inode& inode, std::uint64_t first_index);
  bool evict_page(Page& page);  // isolated

  PageArena& arena_;
  DirtySink& sink_;
  InodeSource* source_ = nullptr;
  Evictor* evictor_ = nullptr;
  MappingNodes nodes_;
  std::unique_ptr<ReclaimPolicy> policy_;
  std::vector<std::unique_ptr<MappingStripe>> stripes_;

  // Event count: a waiter counts itself, reads the epoch and tries again; who made room raises the epoch and
  // then looks for waiters. All seq_cst: either the waiter's attempt finds the memory, or it is woken.
  alignas(kCacheLine) Atomic<std::uint64_t> room_epoch_{0};
  Atomic<std::uint32_t> room_waiters_{0};
  Mutex room_mutex_;
  CondVar room_;

  ShardedCounter pages_, dirty_pages_, writeback_pages_, reads_, read_misses_;
  // Relaxed: statistics.
  Atomic<std::uint64_t> reclaimed_pages_{0}, reclaim_rounds_{0}, memory_waits_{0}, stable_page_waits_{0};
};

}  // namespace tidewheel
