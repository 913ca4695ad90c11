// inode/mapping_nodes.h: the nodes of a mapping's tree; for mapping*.cc alone.
// Invariant: a node that exists has a slot present; a tag bit is set exactly when a page below has the tag.
#pragma once
#include <cstdint>

#include "inode/mapping.h"

namespace tidewheel {

inline constexpr std::uint32_t kNodeBits = 6;
inline constexpr std::uint32_t kNodeSlots = 1U << kNodeBits;  // a bitmap is one word
inline constexpr std::uint32_t kArraySlots = 8;               // 32 KiB of file in 64 bytes
// 9 levels of 6 bits reach 2^54 pages; the largest file has 2^51.
inline constexpr std::uint32_t kMaxLevels = 9;

struct MappingNodes::Node {
  void* slots[kNodeSlots] = {};  // Page* when shift is 0, else Node*
  std::uint64_t present = 0;
  std::uint64_t tags[kPageTags] = {};
  Node* parent = nullptr;
  std::uint8_t shift = 0;   // this node's slot of an index: (index >> shift) & 63
  std::uint8_t offset = 0;  // its slot in the parent

  Node* child(std::uint32_t slot) const { return static_cast<Node*>(slots[slot]); }
  Page* page(std::uint32_t slot) const { return static_cast<Page*>(slots[slot]); }
  std::uint32_t slot_of(std::uint64_t index) const {
    return static_cast<std::uint32_t>(index >> shift) & (kNodeSlots - 1);
  }
  bool covers(std::uint64_t index) const { return (index >> shift) < kNodeSlots; }
};
static_assert(sizeof(MappingNodes::Node) == 560, "7 to a slab");

struct MappingNodes::Array {
  Page* slots[kArraySlots] = {};
};
static_assert(sizeof(MappingNodes::Array) == 64);

}  // namespace tidewheel
