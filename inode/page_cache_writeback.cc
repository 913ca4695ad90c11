// What a writeback target does with an inode's pages.
#include <array>

#include "base/assert.h"
#include "inode/page_cache.h"

namespace tidewheel {

namespace {
constexpr std::uint32_t kPagesPerHold = 64;  // about 2 us of tags; writers of 1 in 1,024 inodes wait for it
}  // namespace

void PageCache::tag_to_write(Inode& inode) {
  MutexLock lock(inode.mapping().mutex());
  inode.mapping().tag_to_write_locked();
}

void PageCache::begin_writeback(Inode& inode, WritebackPages& out, std::uint32_t max_pages, PageTag what) {
  TW_DASSERT(what != PageTag::kWriteback, "pages under writeback are begun already");
  Mapping& mapping = inode.mapping();
  std::uint64_t from = 0;
  std::uint32_t taken = 0;
  out.more = false;
  for (bool ended = false; !ended;) {
    MutexLock lock(mapping.mutex());
    for (std::uint32_t held = 0; held < kPagesPerHold && !ended;) {
      Page* page = mapping.next_tagged_locked(from, what);
      if (page == nullptr || taken == max_pages) {
        out.more = page != nullptr;
        ended = true;
        break;
      }
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
      ++held;
    }
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
