#include <bit>

#include "base/assert.h"
#include "inode/mapping.h"
#include "inode/mapping_nodes.h"

namespace tidewheel {

namespace {

// The shift of the smallest root that covers the index.
std::uint32_t root_shift(std::uint64_t index) {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(index | 1));
  return (bits - 1) / kNodeBits * kNodeBits;
}

}  // namespace

Page* Mapping::tree_find(std::uint64_t index) const {
  const Node* node = root_;
  if (!node->covers(index)) return nullptr;
  while (node->shift != 0) {
    node = node->child(node->slot_of(index));
    if (node == nullptr) return nullptr;
  }
  return node->page(node->slot_of(index));
}

// Turns the one page, or the array, into a tree of the same pages.
bool Mapping::make_tree(MappingNodes& nodes) {
  if (shape_ == Shape::kOne) {
    Page* page = one_;
    root_ = nullptr;
    if (!tree_insert(page->index, *page, nodes)) {
      one_ = page;
      return false;
    }
    shape_ = Shape::kTree;
    for (std::uint32_t tag = 0; tag < kPageTags; ++tag) {
      if (page->tagged(static_cast<PageTag>(tag))) tree_tag(page->index, static_cast<PageTag>(tag), true);
    }
    return true;
  }
  Node* leaf = nodes.allocate_node();
  if (leaf == nullptr) return false;
  leaf->shift = 0;
  for (std::uint32_t slot = 0; slot < kArraySlots; ++slot) {
    Page* page = array_->slots[slot];
    if (page == nullptr) continue;
    array_->slots[slot] = nullptr;
    leaf->slots[slot] = page;
    leaf->present |= 1ULL << slot;
    for (std::uint32_t tag = 0; tag < kPageTags; ++tag) {
      if (page->tagged(static_cast<PageTag>(tag))) leaf->tags[tag] |= 1ULL << slot;
    }
  }
  nodes.free(array_);
  root_ = leaf;
  shape_ = Shape::kTree;
  return true;
}

// All nodes are taken before the first is linked: without memory nothing has changed.
bool Mapping::tree_insert(std::uint64_t index, Page& page, MappingNodes& nodes) {
  const std::uint32_t shift = root_shift(index);
  std::uint32_t wanted = 0;
  Node* at = root_;
  if (root_ == nullptr) {
    wanted = shift / kNodeBits + 1;
  } else if (root_->shift < shift) {
    // Roots above the present one, then a branch down to the leaf beside it.
    wanted = (shift - root_->shift) / kNodeBits + shift / kNodeBits;
  } else {
    while (at->shift != 0) {
      Node* next = at->child(at->slot_of(index));
      if (next == nullptr) break;
      at = next;
    }
    wanted = at->shift / kNodeBits;
  }
  Node* fresh[2 * kMaxLevels];
  TW_ASSERT(wanted <= 2 * kMaxLevels, "a page index is past the largest file");
  for (std::uint32_t i = 0; i < wanted; ++i) {
    fresh[i] = nodes.allocate_node();
    if (fresh[i] == nullptr) {
      while (i-- > 0) nodes.free(fresh[i]);
      return false;
    }
  }

  std::uint32_t used = 0;
  if (root_ == nullptr) {
    root_ = fresh[used++];
    root_->shift = static_cast<std::uint8_t>(shift);
    at = root_;
  } else if (root_->shift < shift) {
    while (root_->shift < shift) {
      Node* above = fresh[used++];
      above->shift = static_cast<std::uint8_t>(root_->shift + kNodeBits);
      above->slots[0] = root_;
      above->present = 1;
      for (std::uint32_t tag = 0; tag < kPageTags; ++tag) above->tags[tag] = root_->tags[tag] != 0 ? 1 : 0;
      root_->parent = above;
      root_->offset = 0;
      root_ = above;
    }
    at = root_;
  }
  while (at->shift != 0) {
    const std::uint32_t slot = at->slot_of(index);
    Node* below = fresh[used++];
    below->shift = static_cast<std::uint8_t>(at->shift - kNodeBits);
    below->parent = at;
    below->offset = static_cast<std::uint8_t>(slot);
    at->slots[slot] = below;
    at->present |= 1ULL << slot;
    at = below;
  }
  const std::uint32_t slot = at->slot_of(index);
  at->slots[slot] = &page;
  at->present |= 1ULL << slot;
  TW_ASSERT(used == wanted, "tree nodes were taken and not used");
  return true;
}

void Mapping::tree_erase(std::uint64_t index, MappingNodes& nodes) {
  Node* node = root_;
  while (node->shift != 0) node = node->child(node->slot_of(index));
  std::uint32_t slot = node->slot_of(index);
  for (;;) {
    node->slots[slot] = nullptr;
    node->present &= ~(1ULL << slot);
    if (node->present != 0) return;
    Node* parent = node->parent;
    slot = node->offset;
    nodes.free(node);
    if (parent == nullptr) {
      root_ = nullptr;
      return;
    }
    node = parent;
  }
}

void Mapping::tree_tag(std::uint64_t index, PageTag tag, bool set) {
  const auto number = static_cast<unsigned>(tag);
  Node* node = root_;
  while (node->shift != 0) {
    if (set) node->tags[number] |= 1ULL << node->slot_of(index);
    node = node->child(node->slot_of(index));
  }
  if (set) {
    node->tags[number] |= 1ULL << node->slot_of(index);
    return;
  }
  for (std::uint32_t slot = node->slot_of(index);; slot = node->offset, node = node->parent) {
    node->tags[number] &= ~(1ULL << slot);
    if (node->tags[number] != 0 || node->parent == nullptr) return;
  }
}

// The recursion is as deep as the tree: at most kMaxLevels.
Page* Mapping::tree_next(const Node& node, std::uint64_t from, int tag) {
  const std::uint32_t first = node.slot_of(from);
  std::uint64_t candidates = (tag < 0 ? node.present : node.tags[tag]) & (~0ULL << first);
  for (; candidates != 0; candidates &= candidates - 1) {
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(candidates));
    if (node.shift == 0) return node.page(slot);
    // Past the slot where `from` lies everything counts.
    if (Page* page = tree_next(*node.child(slot), slot == first ? from : 0, tag)) return page;
  }
  return nullptr;
}

void Mapping::tree_check(const Node& node) {
  TW_ASSERT(node.present != 0, "a tree node is empty");
  for (std::uint32_t slot = 0; slot < kNodeSlots; ++slot) {
    const bool present = (node.present >> slot & 1) != 0;
    TW_ASSERT(present == (node.slots[slot] != nullptr), "a slot and its bit differ");
    if (!present) {
      for (const std::uint64_t tags : node.tags) {
        TW_ASSERT((tags >> slot & 1) == 0, "an empty slot is tagged");
      }
      continue;
    }
    if (node.shift == 0) continue;
    const Node& below = *node.child(slot);
    TW_ASSERT(below.parent == &node, "a node names another parent");
    TW_ASSERT(below.offset == slot, "a node names another slot");
    TW_ASSERT(below.shift + kNodeBits == node.shift, "a level is missing");
    for (std::uint32_t tag = 0; tag < kPageTags; ++tag) {
      TW_ASSERT((node.tags[tag] >> slot & 1) == (below.tags[tag] != 0 ? 1U : 0U),
                "a tag does not reach the root");
    }
    tree_check(below);
  }
}

}  // namespace tidewheel
