#include "fs/flat/file_extents.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace tidewheel {

void append_extent(std::vector<FileExtent>& extents, const FileExtent& extent) {
  if (!extents.empty()) {
    FileExtent& last = extents.back();
    if (last.page + last.pages == extent.page && last.block + last.pages == extent.block) {
      last.pages += extent.pages;
      return;
    }
  }
  extents.push_back(extent);
}

void FileExtents::add(std::span<const FileExtent> fresh) {
  if (fresh.empty()) return;
  if (extents_.empty() || extents_.back().page < fresh.front().page) {
    for (const FileExtent& extent : fresh) {
      TW_ASSERT(extents_.empty() || extents_.back().page + extents_.back().pages <= extent.page,
                "an extent covers what is mapped already");
      append_extent(extents_, extent);
    }
    return;
  }
  std::vector<FileExtent> merged;
  merged.reserve(extents_.size() + fresh.size());
  std::size_t i = 0, j = 0;
  while (i < extents_.size() || j < fresh.size()) {
    const bool old = j == fresh.size() || (i < extents_.size() && extents_[i].page < fresh[j].page);
    const FileExtent& next = old ? extents_[i++] : fresh[j++];
    TW_ASSERT(merged.empty() || merged.back().page + merged.back().pages <= next.page,
              "an extent covers what is mapped already");
    append_extent(merged, next);
  }
  extents_ = std::move(merged);
}

FileExtent FileExtents::find(std::uint64_t page, std::uint64_t most) const {
  auto after = std::upper_bound(extents_.begin(), extents_.end(), page,
                                [](std::uint64_t p, const FileExtent& extent) { return p < extent.page; });
  if (after != extents_.begin()) {
    const FileExtent& extent = *std::prev(after);
    const std::uint64_t skip = page - extent.page;
    if (skip < extent.pages) return {page, extent.block + skip, std::min(most, extent.pages - skip)};
  }
  if (after != extents_.end()) most = std::min(most, after->page - page);
  return {page, 0, most};
}

std::uint64_t FileExtents::blocks() const {
  std::uint64_t total = 0;
  for (const FileExtent& extent : extents_) total += extent.pages;
  return total;
}

}  // namespace tidewheel
