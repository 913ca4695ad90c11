// fs/crash/block_map.h: images as layers of 4 KiB blocks that are shared until they are written.
// Owns:      BaseImage and BlockArena own memory; a BlockMap points into theirs and into traces.
// Threads:   one owner each; many may read a BaseImage or a BlockMap that nobody changes.
// Units:     blocks of kCrashBlockBytes. A content hash is the sum over blocks of a hash of (place, content)
//            in which zeros count as 0: it follows a change of one block without looking at the others, and
//            two images are equal exactly when their hashes are, up to chance (n states: n^2 / 2^65).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace tidewheel {

inline constexpr std::uint64_t kCrashBlockBytes = 4096;

struct BlockRef {
  const std::byte* bytes = nullptr;  // null: zeros
  std::uint64_t hash = 0;
};

std::uint64_t hash_of_block(std::uint64_t block, const std::byte* bytes);
std::uint64_t mix_hash(std::uint64_t a, std::uint64_t b);
std::uint64_t hash_of_bytes(std::span<const std::byte> bytes, std::uint64_t seed);

// Blocks that stay where they are until reset().
class BlockArena {
 public:
  std::byte* take() {
    if (used_ == blocks_.size()) blocks_.emplace_back();
    return blocks_[used_++].data();
  }
  void reset() { used_ = 0; }

 private:
  std::deque<std::array<std::byte, kCrashBlockBytes>> blocks_;
  std::size_t used_ = 0;
};

// Sparse: block number to content. Open addressing; cleared in the time of what is in it.
class BlockMap {
 public:
  struct Entry {
    std::uint64_t block = 0;
    BlockRef ref;
    std::byte* own = nullptr;  // the same memory when it may be written: the map's owner's, not shared
  };
  BlockMap() : slots_(kFewest, kNone) {}

  const Entry* find(std::uint64_t block) const {
    for (std::size_t at = place(block);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == kNone) return nullptr;
      if (entries_[slots_[at]].block == block) return &entries_[slots_[at]];
    }
  }
  Entry* find(std::uint64_t block) {
    return const_cast<Entry*>(static_cast<const BlockMap*>(this)->find(block));
  }
  // The entry, new or as it was. Valid until the next set() of a new block.
  Entry& set(std::uint64_t block, BlockRef ref, std::byte* own = nullptr);
  void clear();
  // In the order in which blocks were first set.
  std::span<const Entry> entries() const { return entries_; }
  std::span<Entry> entries() { return entries_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kFewest = 32;
  std::size_t place(std::uint64_t block) const {
    return static_cast<std::size_t>((block * 0x9E3779B97F4A7C15ULL) >> 32) & (slots_.size() - 1);
  }
  void grow();

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // indices of entries_; a power of two of them, at most half full
};

// The whole image that all states of a run have beneath them.
struct BaseImage {
  std::uint64_t size_bytes = 0;
  std::vector<BlockRef> blocks;
  std::uint64_t hash = 0;
  BlockArena memory;
};

// What lies at a place: the uppermost layer that has it.
inline BlockRef look_up(const BaseImage& base, const BlockMap& durable, std::uint64_t block) {
  const BlockMap::Entry* entry = durable.find(block);
  return entry != nullptr ? entry->ref : base.blocks[block];
}

}  // namespace tidewheel
