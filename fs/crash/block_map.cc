#include "fs/crash/block_map.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fs/block/block_device.h"

namespace tidewheel {

std::uint64_t hash_of_block(std::uint64_t block, const std::byte* bytes) {
  if (bytes == nullptr || all_zero({bytes, kCrashBlockBytes})) return 0;
  return XXH3_64bits_withSeed(bytes, kCrashBlockBytes, block + 1);
}

std::uint64_t hash_of_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t mix_hash(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[2] = {a, b};
  return XXH3_64bits(both, sizeof both);
}

BlockMap::Entry& BlockMap::set(std::uint64_t block, BlockRef ref, std::byte* own) {
  if (Entry* found = find(block); found != nullptr) {
    found->ref = ref;
    found->own = own;
    return *found;
  }
  if ((entries_.size() + 1) * 2 > slots_.size()) grow();
  std::size_t at = place(block);
  while (slots_[at] != kNone) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = static_cast<std::uint32_t>(entries_.size());
  return entries_.emplace_back(Entry{block, ref, own});
}

void BlockMap::grow() {
  slots_.assign(slots_.size() * 2, kNone);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t at = place(entries_[i].block);
    while (slots_[at] != kNone) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = static_cast<std::uint32_t>(i);
  }
}

void BlockMap::clear() {
  // One by one, since the table may have grown large for one image of many; by the last slot that a block's
  // search can end at.
  if (entries_.size() * 8 > slots_.size()) {
    slots_.assign(slots_.size(), kNone);
  } else {
    for (const Entry& entry : entries_) {
      for (std::size_t at = place(entry.block); slots_[at] != kNone; at = (at + 1) & (slots_.size() - 1)) {
        slots_[at] = kNone;
      }
    }
  }
  entries_.clear();
}

}  // namespace tidewheel
