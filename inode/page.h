// inode/page.h: the descriptor of one page of file data. Its 4 KiB of memory belong to the PageArena.
// Owns:      nothing. Exactly one of: free (arena), in a Mapping, or held by who just allocated it.
// Locks:     owner, index, flags and readers by the lock of the mapping it is in (Mapping::mutex());
//            lru by the reclaim policy; next_free and next_chain by the arena.
// Units:     index in pages of kPageBytes from the start of the file.
// Invariant: (1) kPageLocked: one thread fills it or copies into it, outside the mapping lock;
//            (2) kPageWriteback: its memory does not change (stable pages), it is never locked then;
//            (3) a page in a mapping that is not locked is up to date;
//            (4) dirty and writeback exclude each other, since a write to a page under writeback waits.
// Larger folios: `order` is their place (a folio is 2^order pages with one descriptor); only 0 today.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "inode/reclaim.h"

namespace tidewheel {

class Mapping;

// Tags come first: they are the indexes of the tag bitmaps in the mapping's tree too.
enum class PageTag : std::uint8_t { kDirty = 0, kWriteback = 1, kToWrite = 2 };
inline constexpr std::uint32_t kPageTags = 3;
constexpr std::uint16_t page_tag_bit(PageTag tag) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(tag));
}

inline constexpr std::uint16_t kPageDirty = page_tag_bit(PageTag::kDirty);
inline constexpr std::uint16_t kPageWriteback = page_tag_bit(PageTag::kWriteback);
inline constexpr std::uint16_t kPageToWrite = page_tag_bit(PageTag::kToWrite);
inline constexpr std::uint16_t kPageLocked = 1U << 3;

struct Page {
  LruItem lru;
  std::byte* data = nullptr;  // kPageBytes, aligned so; constant
  union {
    Mapping* owner = nullptr;  // in a mapping
    Page* next_free;           // in a free chain
  };
  union {
    std::uint64_t index = 0;  // in a mapping
    Page* next_chain;         // first of a free chain: the next chain of the depot
  };
  std::uint16_t flags = 0;
  std::uint16_t stripe = 0;   // the lock stripe of its mapping: valid while on the reclaim lists
  std::uint16_t readers = 0;  // copying out of it, outside the mapping lock
  std::uint8_t order = 0;

  bool tagged(PageTag tag) const { return (flags & page_tag_bit(tag)) != 0; }
};
#if !TW_SIM
static_assert(sizeof(Page) <= 56, "1.4% of the memory it describes");
#endif

}  // namespace tidewheel
