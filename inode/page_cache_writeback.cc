// What a writeback target does with an inode's pages.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "inode/page_cache.h"

namespace tidewheel {

namespace {
constexpr std::uint32_t kPagesPerHold = 64;  // about 2 us of tags; writers of 1 in 1,024 inodes wait for it

void note_hold(WritebackPages& out, std::uint32_t visited) {
  out.visited += visited;
  out.most_per_hold = std::max(out.most_per_hold, visited);
}
}  // namespace

std::uint64_t PageCache::tag_to_write(Inode& inode, WritebackPages& out) {
  Mapping& mapping = inode.mapping();
  std::uint64_t size = 0;
  std::uint64_t end = 1;
  for (std::uint64_t from = 0; from < end;) {
    MutexLock lock(mapping.mutex());
    if (from == 0) {
      size = inode.size();
      // What lies past it (a truncate is about to drop it) need not be written.
      end = (size + kPageBytes - 1) / kPageBytes;
    }
    const std::uint32_t before = mapping.to_write_pages_locked();
    from = mapping.tag_to_write_locked(from, end, kPagesPerHold);
    note_hold(out, mapping.to_write_pages_locked() - before);
  }
  return size;
}

void PageCache::begin_writeback(Inode& inode, WritebackPages& out, std::uint32_t max_pages, PageTag what) {
  TW_DASSERT(what != PageTag::kWriteback, "pages under writeback are begun already");
  Mapping& mapping = inode.mapping();
  const bool cyclic = what == PageTag::kDirty;
  std::uint64_t start = 0;
  std::uint64_t from = 0;
  std::uint32_t taken = 0;
  bool begun = false;
  for (bool ended = false; !ended;) {
    MutexLock lock(mapping.mutex());
    if (cyclic && !begun) start = from = mapping.writeback_index_locked();
    begun = true;
    std::uint32_t held = 0;
    while (held < kPagesPerHold && !ended) {
      Page* page = mapping.next_tagged_locked(from, what);
      if (page == nullptr && taken == 0 && start != 0) {
        // Nothing from there on (any more). A pass without a page would be no progress.
        start = from = 0;
        continue;
      }
      if (page == nullptr || taken == max_pages) {
        // No wrap: a store gets ascending indexes. What lies before `start` is the next pass's.
        if (cyclic) mapping.set_writeback_index_locked(page == nullptr ? 0 : from);
        if (start != 0) page = mapping.next_tagged_locked(0, PageTag::kDirty);
        out.more = page != nullptr;
        if (out.more) out.first_left = page->index;
        ended = true;
        break;
      }
      ++held;
      if ((page->flags & kPageLocked) != 0) {
        mapping.wait_locked();  // a copy into it: the page is dirty, so nobody is reading it in
        continue;
      }
      mapping.clear_tag_locked(*page, PageTag::kToWrite);
      mapping.clear_tag_locked(*page, PageTag::kDirty);
      mapping.set_tag_locked(*page, PageTag::kWriteback);
      out.pages.push_back(page);
      from = page->index + 1;
      ++taken;
    }
    note_hold(out, held);
  }
  dirty_pages_.add(-static_cast<std::int64_t>(taken));
  writeback_pages_.add(taken);
  if (taken != 0) sink_.account_writeback_started(inode, std::uint64_t{taken} * kPageBytes);
}

void PageCache::end_writeback(Inode& inode, std::span<Page* const> pages, bool ok) {
  if (pages.empty()) return;
  const auto count = static_cast<std::int64_t>(pages.size());
  const std::uint64_t bytes = pages.size() * kPageBytes;
  // Before the tags go: redirtied pages may be written again at once, cleaned ones dropped and used again.
  writeback_pages_.add(-count);
  if (ok) {
    sink_.account_cleaned(inode, bytes);
  } else {
    sink_.account_redirtied(inode, bytes);
    dirty_pages_.add(count);
  }

  Mapping& mapping = inode.mapping();
  for (std::size_t first = 0; first < pages.size(); first += kPagesPerHold) {
    const auto part = pages.subspan(first, std::min<std::size_t>(kPagesPerHold, pages.size() - first));
    if (ok) {
      // While they are under writeback they can be listed but not freed.
      std::array<LruItem*, kPagesPerHold> items;
      for (std::size_t i = 0; i < part.size(); ++i) items[i] = &part[i]->lru;
      policy_->insert(std::span(items.data(), part.size()));
    }
    MutexLock lock(mapping.mutex());
    for (Page* page : part) {
      TW_DASSERT(page->owner == &mapping, "a page under writeback changed its file");
      mapping.clear_tag_locked(*page, PageTag::kWriteback);
      if (!ok) mapping.set_tag_locked(*page, PageTag::kDirty);
    }
    mapping.wake_locked();
  }
  if (ok) room_made();
}

}  // namespace tidewheel
