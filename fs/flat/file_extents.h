// fs/flat/file_extents.h: where the pages of one file lie, when one run of blocks does not say it.
// Owns:      a sorted array, on the heap. Files with one extent from page 0 have none (FileIndex).
// Threads:   under the lock of the index shard that the file belongs to.
// Units:     pages of the file and blocks of the device, both 4 KiB. 24 bytes per extent.
// Invariant: sorted by page, no overlap, and neighbours that continue each other in both are one.
// Limits:    adding a batch's extents costs the length of the array: meant for files written in large
//            pieces. A file of very many scattered pages pays that per batch.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fs/flat/block_allocator.h"

namespace tidewheel {

struct FileExtent {
  std::uint64_t page = 0;
  std::uint64_t block = 0;
  std::uint64_t pages = 0;
  friend bool operator==(const FileExtent&, const FileExtent&) = default;
};

class FileExtents {
 public:
  // `fresh` is sorted, and overlaps neither itself nor what is here.
  void add(std::span<const FileExtent> fresh);
  // The part of the file from `page` on: a mapped extent that begins there (cut), or a hole with block 0.
  // pages is at least 1, and at most `most`.
  FileExtent find(std::uint64_t page, std::uint64_t most) const;
  std::span<const FileExtent> all() const { return extents_; }
  std::uint64_t blocks() const;
  std::uint64_t memory_bytes() const { return sizeof(*this) + extents_.capacity() * sizeof(FileExtent); }

 private:
  std::vector<FileExtent> extents_;
};

// Appends, or lengthens the last when it goes on there.
void append_extent(std::vector<FileExtent>& extents, const FileExtent& extent);

}  // namespace tidewheel
