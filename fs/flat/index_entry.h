// fs/flat/index_entry.h: one file in 16 bytes.
// Locks:     under the lock of its FileIndex shard.
// Units:     size in bytes (48 bits); blocks of 4 KiB.
// Invariant: blocks = 0 or one extent from page 0, or kTable and a FileExtents that the entry owns.
#pragma once
#include <cstdint>

#include "fs/flat/file_index.h"

namespace tidewheel {

struct FileIndex::Entry {
  static constexpr std::uint64_t kLive = 1ULL << 48;      // can be found
  static constexpr std::uint64_t kCreating = 1ULL << 49;  // not yet
  static constexpr std::uint64_t kUnlinked = 1ULL << 50;  // not any more, but still open
  static constexpr std::uint64_t kTable = 1ULL << 51;
  static constexpr std::uint64_t kWriter = 1ULL << 52;    // somebody is between begin_write and end_write
  static constexpr unsigned kErrorShift = 53;  // 8 bits: a Reason that nobody has been told
  static constexpr std::uint64_t kSizeMask = (1ULL << 48) - 1;
  static constexpr std::uint64_t kSingleMost = (1ULL << 24) - 1;

  std::uint64_t size_and_flags = 0;
  std::uint64_t place = 0;  // block:40 | blocks:24, or the table

  bool has(std::uint64_t any_of) const { return (size_and_flags & any_of) != 0; }
  void set(std::uint64_t flags) { size_and_flags |= flags; }
  void clear(std::uint64_t flags) { size_and_flags &= ~flags; }
  std::uint64_t size() const { return size_and_flags & kSizeMask; }
  void set_size(std::uint64_t bytes) { size_and_flags = (size_and_flags & ~kSizeMask) | bytes; }

  Reason error() const { return static_cast<Reason>((size_and_flags >> kErrorShift) & 0xFF); }
  void set_error(Reason reason) {
    size_and_flags &= ~(0xFFULL << kErrorShift);
    set(static_cast<std::uint64_t>(reason) << kErrorShift);
  }

  std::uint64_t single_block() const { return has(kTable) ? 0 : place >> 24; }
  std::uint64_t single_blocks() const { return has(kTable) ? 0 : place & kSingleMost; }
  FileExtents* table() const { return reinterpret_cast<FileExtents*>(place); }
  void set_table(FileExtents* table) {
    place = reinterpret_cast<std::uint64_t>(table);
    set(kTable);
  }
  bool blockless() const { return place == 0; }
  std::uint64_t extents() const { return has(kTable) ? table()->all().size() : single_blocks() != 0 ? 1 : 0; }
  // False: one extent from page 0 cannot say it.
  bool append_single(const FileExtent& extent) {
    const std::uint64_t blocks = single_blocks();
    if (extent.page != blocks || blocks + extent.pages > kSingleMost) return false;
    if (blocks != 0 && single_block() + blocks != extent.block) return false;
    place = ((blocks == 0 ? extent.block : single_block()) << 24) | (blocks + extent.pages);
    return true;
  }
  FileExtent find(std::uint64_t page, std::uint64_t most) const {
    if (has(kTable)) return table()->find(page, most);
    const std::uint64_t blocks = single_blocks();
    if (page < blocks) return {page, single_block() + page, most < blocks - page ? most : blocks - page};
    return {page, 0, most};
  }
};

}  // namespace tidewheel
