// Reading and writing: copies between callers and pages, and filling absent pages from the source.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "inode/page_cache.h"

namespace tidewheel {

namespace {

constexpr std::uint32_t kReadBatch = 16;  // pages pinned per hold of the mapping lock
constexpr std::uint32_t kFillBatch = 32;  // pages read in by one call of the source: 128 KiB

std::uint64_t pages_spanned(std::uint64_t offset, std::uint64_t bytes) {
  return (offset + bytes + kPageBytes - 1) / kPageBytes - offset / kPageBytes;
}

}  // namespace

Page* PageCache::find_quiet_locked(Mapping& mapping, std::uint64_t index) {
  for (bool counted = false;;) {
    Page* page = mapping.find_locked(index);
    if (page == nullptr) return nullptr;
    if ((page->flags & (kPageLocked | kPageWriteback)) == 0 && page->readers == 0) return page;
    if ((page->flags & kPageWriteback) != 0 && !counted) {
      counted = true;
      stable_page_waits_.fetch_add(1, std::memory_order_relaxed);
    }
    mapping.wait_locked();
  }
}

Result<std::uint64_t> PageCache::write(Inode& inode, std::uint64_t offset, std::span<const std::byte> data,
                                       Instant now, TaskThrottle* task) {
  if (offset > kMaxBytes || data.size() > kMaxBytes - offset) return TW_FAIL(kFileTooLarge);
  TW_DASSERT(inode.holds() != 0, "an inode is written that nobody holds");
  std::uint64_t done = 0;
  while (done < data.size()) {
    const std::uint64_t pages = pages_spanned(offset + done, data.size() - done);
    auto ticket = sink_.balance_dirty_pages(inode, pages * kPageBytes, task);
    if (!ticket) {
      if (done != 0) return done;
      return Unexpected(ticket.error());
    }
    // At least one page per ticket, whatever was granted: else a small limit would stop the writer for good.
    std::uint64_t allowed = std::max<std::uint64_t>(1, std::min(pages, ticket->bytes / kPageBytes));
    for (; allowed != 0 && done < data.size(); --allowed) {
      const std::uint64_t at = offset + done;
      const auto first_byte = static_cast<std::uint32_t>(at % kPageBytes);
      const std::uint64_t len = std::min<std::uint64_t>(kPageBytes - first_byte, data.size() - done);
      const PagePart part{at / kPageBytes, first_byte, data.subspan(done, len)};
      if (auto written = write_part(inode, part, now, *ticket); !written) {
        if (done != 0) return done;
        return Unexpected(written.error());
      }
      done += len;
    }
  }
  return done;
}

Result<void> PageCache::write_part(Inode& inode, const PagePart& part, Instant now, DirtyTicket& ticket) {
  const std::uint64_t old_size = inode.size();
  for (bool first_use = false;;) {
    if (overwrite(inode, part, &ticket, first_use) == Presence::kDone) break;
    // Nothing of an absent page is needed when all of it up to the end of the file is replaced.
    const std::uint64_t start = part.index * kPageBytes;
    const bool replaced = start >= old_size || (part.first_byte == 0 &&
                                                (part.data.size() == kPageBytes || part.end() >= old_size));
    if (replaced) {
      auto inserted = insert_dirty(inode, part, ticket);
      if (!inserted) return Unexpected(inserted.error());
      if (*inserted == Presence::kDone) break;
    } else {
      TW_TRY(fill(inode, part.index, 1));
      first_use = true;
    }
  }
  const bool grew = part.end() > old_size;
  sink_.mark_dirty(inode, kDirtyData | (grew ? kDirtyMetadata : 0U), now, &ticket);
  return {};
}

// Copies into a page that is there; the page is locked meanwhile, the mapping is not.
PageCache::Presence PageCache::overwrite(Inode& inode, const PagePart& part, DirtyTicket* ticket,
                                         bool first_use) {
  Mapping& mapping = inode.mapping();
  Page* page = nullptr;
  bool was_dirty = false;
  {
    MutexLock lock(mapping.mutex());
    page = find_quiet_locked(mapping, part.index);
    if (page == nullptr) return Presence::kAbsent;
    page->flags |= kPageLocked;
    was_dirty = page->tagged(PageTag::kDirty);  // stays so: begin_writeback waits for the lock
  }
  std::memcpy(page->data + part.first_byte, part.data.data(), part.data.size());
  MutexLock lock(mapping.mutex());
  // Before the tag: a flusher that sees the tag accounts the page as written at once.
  if (!was_dirty) {
    sink_.account_dirtied(inode, kPageBytes, ticket);
    dirty_pages_.add(1);
  }
  mapping.set_tag_locked(*page, PageTag::kDirty);
  page->flags &= static_cast<std::uint16_t>(~kPageLocked);
  if (!first_use) page->lru.touch();
  if (part.end() > inode.size()) inode.set_size(part.end());
  mapping.wake_locked();
  return Presence::kDone;
}

// A page that is wholly replaced is filled before anybody can see it: one hold of the mapping lock in all.
Result<PageCache::Presence> PageCache::insert_dirty(Inode& inode, const PagePart& part, DirtyTicket& ticket) {
  Page* page = allocate_page();
  if (page == nullptr) return TW_FAIL(kNoMemory);
  const std::uint32_t end = part.first_byte + static_cast<std::uint32_t>(part.data.size());
  std::memset(page->data, 0, part.first_byte);
  std::memcpy(page->data + part.first_byte, part.data.data(), part.data.size());
  std::memset(page->data + end, 0, kPageBytes - end);
  Mapping& mapping = inode.mapping();
  bool present = false;
  // A pointer as the allocation's answer: non-null also when somebody else's page is there.
  Page* inserted = allocate_with_room([&]() -> Page* {
    MutexLock lock(mapping.mutex());
    if (Page* there = mapping.find_locked(part.index)) {
      present = true;
      return there;
    }
    if (!mapping.insert_locked(part.index, *page, nodes_)) return nullptr;
    pages_.add(1);
    dirty_pages_.add(1);
    sink_.account_dirtied(inode, kPageBytes, &ticket);  // before the tag, as in overwrite()
    mapping.set_tag_locked(*page, PageTag::kDirty);
    if (part.end() > inode.size()) inode.set_size(part.end());
    return page;
  });
  if (inserted == page && !present) return Presence::kDone;
  free_page(*page);
  if (inserted == nullptr) return TW_FAIL(kNoMemory);
  return Presence::kAbsent;  // a reader brought the page in: overwrite that one
}

Result<std::uint32_t> PageCache::fill(Inode& inode, std::uint64_t first_index, std::uint32_t pages) {
  TW_ASSERT(source_ != nullptr, "a page is absent and there is no source to read it from");
  std::array<Page*, kFillBatch> run;
  const std::uint32_t wanted = std::min(pages, kFillBatch);
  std::uint32_t have = 0;
  for (; have < wanted; ++have) {
    // One page is needed; more are only worth having while memory is there.
    run[have] = have == 0 ? allocate_page() : arena_.allocate();
    if (run[have] == nullptr) break;
  }
  if (have == 0) return TW_FAIL(kNoMemory);

  // Placeholders first, so that nobody else can read, write or evict these indexes before the data is in:
  // a reader that inserted its page afterwards could bring back data from before a write.
  Mapping& mapping = inode.mapping();
  std::uint32_t placed = 0;
  bool present = false;
  allocate_with_room([&]() -> Page* {
    MutexLock lock(mapping.mutex());
    for (placed = 0; placed < have; ++placed) {
      if (mapping.find_locked(first_index + placed) != nullptr) {
        present = true;
        break;
      }
      if (!mapping.insert_locked(first_index + placed, *run[placed], nodes_)) break;
      run[placed]->flags |= kPageLocked;
    }
    return placed != 0 || present ? run[0] : nullptr;
  });
  for (std::uint32_t i = placed; i < have; ++i) free_page(*run[i]);
  if (placed == 0) {
    if (present) return placed;
    return TW_FAIL(kNoMemory);
  }
  pages_.add(placed);
  read_misses_.add(placed);

  const std::span<Page* const> filled(run.data(), placed);
  const Result<void> read = source_->read_pages(inode, first_index, filled);
  if (read) {
    // Before they are unlocked: a locked page can be listed but not freed.
    std::array<LruItem*, kFillBatch> items;
    for (std::uint32_t i = 0; i < placed; ++i) items[i] = &run[i]->lru;
    policy_->insert(std::span(items.data(), placed));
  }
  {
    MutexLock lock(mapping.mutex());
    for (Page* page : filled) {
      page->flags &= static_cast<std::uint16_t>(~kPageLocked);
      if (!read) mapping.erase_locked(*page, nodes_);
    }
    mapping.wake_locked();
  }
  if (!read) {
    pages_.add(-static_cast<std::int64_t>(placed));
    for (Page* page : filled) free_page(*page);
    return Unexpected(read.error());
  }
  return placed;
}

std::uint32_t PageCache::pin_for_read(Inode& inode, std::uint64_t first_index, std::span<Page*> out,
                                      std::uint32_t just_filled) {
  Mapping& mapping = inode.mapping();
  MutexLock lock(mapping.mutex());
  std::uint32_t count = 0;
  while (count < out.size()) {
    Page* page = mapping.find_locked(first_index + count);
    if (page == nullptr) break;
    if ((page->flags & kPageLocked) != 0) {
      if (count != 0) break;  // copy what we have rather than wait with pages pinned
      mapping.wait_locked();
      continue;
    }
    TW_ASSERT(page->readers != UINT16_MAX, "too many readers of one page");
    ++page->readers;
    if (count >= just_filled) page->lru.touch();
    out[count++] = page;
  }
  return count;
}

void PageCache::unpin(Inode& inode, std::span<Page* const> pages) {
  Mapping& mapping = inode.mapping();
  MutexLock lock(mapping.mutex());
  bool last = false;
  for (Page* page : pages) last |= --page->readers == 0;
  if (last) mapping.wake_locked();
}

Result<std::uint64_t> PageCache::read(Inode& inode, std::uint64_t offset, std::span<std::byte> into) {
  std::uint64_t done = 0;
  std::array<Page*, kReadBatch> pages;
  std::uint32_t just_filled = 0;
  while (done < into.size()) {
    const std::uint64_t at = offset + done;
    const std::uint64_t size = inode.size();
    if (at >= size) break;
    const std::uint64_t left = std::min<std::uint64_t>(into.size() - done, size - at);
    const std::uint64_t needed = pages_spanned(at, left);
    const std::uint32_t count = pin_for_read(
        inode, at / kPageBytes, std::span(pages.data(), std::min<std::uint64_t>(needed, kReadBatch)),
        just_filled);
    if (count == 0) {
      const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(needed, kFillBatch));
      const Result<std::uint32_t> filled = fill(inode, at / kPageBytes, wanted);
      if (!filled) {
        if (done != 0) break;
        return Unexpected(filled.error());
      }
      just_filled = *filled;
      continue;
    }
    const std::uint64_t end =
        std::min<std::uint64_t>(done + left, done + count * kPageBytes - at % kPageBytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t in_page = (offset + done) % kPageBytes;
      const std::uint64_t len = std::min<std::uint64_t>(kPageBytes - in_page, end - done);
      std::memcpy(into.data() + done, pages[i]->data + in_page, len);
      done += len;
    }
    unpin(inode, std::span<Page* const>(pages.data(), count));
    reads_.add(count);
    just_filled -= std::min(just_filled, count);
  }
  return done;
}

Result<void> PageCache::truncate(Inode& inode, std::uint64_t new_size, Instant now) {
  if (new_size > kMaxBytes) return TW_FAIL(kFileTooLarge);
  const std::uint64_t old_size = inode.size();
  if (new_size == old_size) return {};
  if (new_size < old_size && new_size % kPageBytes != 0) TW_TRY(zero_tail(inode, new_size));
  {
    MutexLock lock(inode.mapping().mutex());
    inode.set_size(new_size);
  }
  if (new_size < old_size) {
    drop_from(inode, (new_size + kPageBytes - 1) / kPageBytes);
    // Before the file can grow again: what the store has past the end would be read in as its content.
    source_->truncate(inode, new_size);
  }
  sink_.mark_dirty(inode, new_size < old_size ? kDirtyMetadata | kDirtyData : kDirtyMetadata, now, nullptr);
  return {};
}

// What lies past the new end in the last page would come back if the file grew again.
Result<void> PageCache::zero_tail(Inode& inode, std::uint64_t new_size) {
  static constexpr std::array<std::byte, kPageBytes> kZeros{};
  const auto first_byte = static_cast<std::uint32_t>(new_size % kPageBytes);
  const std::uint64_t index = new_size / kPageBytes;
  const std::uint64_t end = std::min<std::uint64_t>(inode.size(), (index + 1) * kPageBytes);
  const PagePart tail{index, first_byte, std::span(kZeros).first(end - new_size)};
  while (overwrite(inode, tail, nullptr) == Presence::kAbsent) TW_TRY(fill(inode, index, 1));
  return {};
}

void PageCache::drop_all(Inode& inode) { drop_from(inode, 0); }

void PageCache::drop_from(Inode& inode, std::uint64_t first_index) {
  Mapping& mapping = inode.mapping();
  std::array<Page*, kFillBatch> dropped;
  for (;;) {
    std::uint32_t count = 0;
    std::uint32_t dirty = 0;
    {
      MutexLock lock(mapping.mutex());
      while (count < dropped.size()) {
        Page* page = mapping.next_locked(first_index);
        if (page == nullptr) break;
        if ((page->flags & (kPageLocked | kPageWriteback)) != 0 || page->readers != 0) {
          if (count != 0) break;  // free what we have before we wait
          mapping.wait_locked();
          continue;
        }
        dirty += page->tagged(PageTag::kDirty) ? 1 : 0;
        mapping.erase_locked(*page, nodes_);
        dropped[count++] = page;
      }
      if (dirty != 0) sink_.account_cancelled(inode, dirty * kPageBytes);
    }
    if (count == 0) return;
    pages_.add(-static_cast<std::int64_t>(count));
    if (dirty != 0) dirty_pages_.add(-static_cast<std::int64_t>(dirty));
    for (std::uint32_t i = 0; i < count; ++i) {
      if (policy_->remove(dropped[i]->lru)) arena_.free(*dropped[i]);  // else its reclaimer frees it
    }
    room_made();
  }
}

}  // namespace tidewheel
