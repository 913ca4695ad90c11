#include "inode/mapping.h"

#include <new>

#include "base/assert.h"
#include "inode/inode.h"
#include "inode/mapping_nodes.h"

namespace tidewheel {

namespace {
LockClass mapping_class{"inode.mapping", LockRank::kMapping};

template <class T>
SlabPool::Type slab_type(const char* name) {
  return SlabPool::Type{
      .name = name,
      .bytes = sizeof(T),
      .construct = [](void* memory, void*, std::uint8_t) { new (memory) T; },
      .destroy = [](void* object) { static_cast<T*>(object)->~T(); },
      .context = nullptr,
  };
}
}  // namespace

MappingStripe::MappingStripe() : mutex(mapping_class) {}

MappingNodes::MappingNodes(PageArena& arena)
    : nodes_(arena, slab_type<Node>("mapping_node")), arrays_(arena, slab_type<Array>("mapping_array")) {}

// Free nodes are empty: they come back as they were given.
MappingNodes::Node* MappingNodes::allocate_node() { return static_cast<Node*>(nodes_.allocate()); }
MappingNodes::Array* MappingNodes::allocate_array() { return static_cast<Array*>(arrays_.allocate()); }
void MappingNodes::free(Node* node) {
  TW_DASSERT(node->present == 0, "a tree node is freed with a slot in use");
  node->parent = nullptr;
  nodes_.free(node);
}
void MappingNodes::free(Array* array) { arrays_.free(array); }
std::uint64_t MappingNodes::release_spares() { return nodes_.release_spares() + arrays_.release_spares(); }

Mapping::~Mapping() { TW_ASSERT(pages() == 0, "a mapping ends before its pages"); }

void Mapping::bind(MappingStripe& stripe, std::uint16_t stripe_number) {
  TW_ASSERT(pages() == 0, "a mapping with pages changes its lock");
  stripe_ = &stripe;
  stripe_number_ = stripe_number;
  writeback_index_ = 0;
}

Page* Mapping::find_locked(std::uint64_t index) const {
  switch (shape_) {
    case Shape::kEmpty: return nullptr;
    case Shape::kOne: return one_->index == index ? one_ : nullptr;
    case Shape::kArray: return index < kArraySlots ? array_->slots[index] : nullptr;
    case Shape::kTree: return tree_find(index);
  }
  return nullptr;
}

bool Mapping::insert_locked(std::uint64_t index, Page& page, MappingNodes& nodes) {
  TW_DASSERT(find_locked(index) == nullptr, "there is a page at this index");
  TW_DASSERT((page.flags & (kPageDirty | kPageWriteback | kPageToWrite)) == 0, "a new page has tags");
  if (shape_ == Shape::kOne && one_->index < kArraySlots && index < kArraySlots) {
    Array* array = nodes.allocate_array();
    if (array == nullptr) return false;
    Page* first = one_;
    array->slots[first->index] = first;
    array_ = array;
    shape_ = Shape::kArray;
  } else if (shape_ == Shape::kOne || (shape_ == Shape::kArray && index >= kArraySlots)) {
    if (!make_tree(nodes)) return false;
  }
  switch (shape_) {
    case Shape::kEmpty:
      one_ = &page;
      shape_ = Shape::kOne;
      break;
    case Shape::kArray: array_->slots[index] = &page; break;
    case Shape::kTree:
      if (!tree_insert(index, page, nodes)) return false;
      break;
    case Shape::kOne: TW_ASSERT(false, "two pages in the place of one");
  }
  page.owner = this;
  page.index = index;
  page.lru.identity = reclaim_identity(host_->number(), index);
  page.stripe = stripe_number_;
  // Relaxed: written under mutex(), read elsewhere as a hint.
  pages_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Mapping::erase_locked(Page& page, MappingNodes& nodes) {
  TW_DASSERT(page.owner == this, "the page is in another mapping");
  for (std::uint32_t tag = 0; tag < kPageTags; ++tag) clear_tag_locked(page, static_cast<PageTag>(tag));
  const bool last = pages_.fetch_sub(1, std::memory_order_relaxed) == 1;
  switch (shape_) {
    case Shape::kEmpty: TW_ASSERT(false, "an empty mapping has no page to erase"); break;
    case Shape::kOne: break;
    case Shape::kArray:
      array_->slots[page.index] = nullptr;
      if (last) nodes.free(array_);
      break;
    case Shape::kTree: tree_erase(page.index, nodes); break;
  }
  if (last) {
    one_ = nullptr;
    shape_ = Shape::kEmpty;
  }
  page.owner = nullptr;
}

void Mapping::set_tag_locked(Page& page, PageTag tag) {
  if (page.tagged(tag)) return;
  page.flags |= page_tag_bit(tag);
  if (shape_ == Shape::kTree) tree_tag(page.index, tag, true);
  // The publication that pairs with begin_write (head of mapping.h).
  tag_count_[static_cast<unsigned>(tag)].fetch_add(1, std::memory_order_seq_cst);
}

void Mapping::clear_tag_locked(Page& page, PageTag tag) {
  if (!page.tagged(tag)) return;
  page.flags &= static_cast<std::uint16_t>(~page_tag_bit(tag));
  if (shape_ == Shape::kTree) tree_tag(page.index, tag, false);
  tag_count_[static_cast<unsigned>(tag)].fetch_sub(1, std::memory_order_seq_cst);
}

Page* Mapping::first_from(std::uint64_t from, int tag) const {
  const std::uint16_t bit = tag < 0 ? 0 : page_tag_bit(static_cast<PageTag>(tag));
  switch (shape_) {
    case Shape::kEmpty: return nullptr;
    case Shape::kOne: return one_->index >= from && (one_->flags & bit) == bit ? one_ : nullptr;
    case Shape::kArray:
      for (; from < kArraySlots; ++from) {
        Page* page = array_->slots[from];
        if (page != nullptr && (page->flags & bit) == bit) return page;
      }
      return nullptr;
    case Shape::kTree: return root_->covers(from) ? tree_next(*root_, from, tag) : nullptr;
  }
  return nullptr;
}

Page* Mapping::next_locked(std::uint64_t from) const { return first_from(from, -1); }

Page* Mapping::next_tagged_locked(std::uint64_t from, PageTag tag) const {
  const auto number = static_cast<int>(tag);
  if (tag_count_[number].load(std::memory_order_seq_cst) == 0) return nullptr;
  return first_from(from, number);
}

std::uint64_t Mapping::tag_to_write_locked(std::uint64_t from, std::uint64_t end, std::uint32_t most) {
  for (; most != 0; --most) {
    Page* page = next_tagged_locked(from, PageTag::kDirty);
    if (page == nullptr || page->index >= end) return end;
    set_tag_locked(*page, PageTag::kToWrite);
    from = page->index + 1;
  }
  return from;
}

void Mapping::check_invariants_locked() const {
  std::uint32_t pages_seen = 0;
  std::uint32_t tags_seen[kPageTags] = {};
  for (Page* page = next_locked(0); page != nullptr; page = next_locked(page->index + 1)) {
    TW_ASSERT(page->owner == this, "a page in the mapping names another owner");
    TW_ASSERT(find_locked(page->index) == page, "a page is not where its index says");
    TW_ASSERT(!(page->tagged(PageTag::kDirty) && page->tagged(PageTag::kWriteback)),
              "a page under writeback became dirty");
    TW_ASSERT(!page->tagged(PageTag::kToWrite) || page->tagged(PageTag::kDirty), "to-write, but not dirty");
    ++pages_seen;
    for (std::uint32_t tag = 0; tag < kPageTags; ++tag) {
      if (page->tagged(static_cast<PageTag>(tag))) ++tags_seen[tag];
    }
  }
  TW_ASSERT(pages_seen == pages(), "the page count is wrong");
  for (std::uint32_t tag = 0; tag < kPageTags; ++tag) {
    TW_ASSERT(tags_seen[tag] == tag_count_[tag].load(std::memory_order_seq_cst), "a tag count is wrong");
    std::uint32_t walked = 0;
    for (Page* page = first_from(0, static_cast<int>(tag)); page != nullptr;
         page = first_from(page->index + 1, static_cast<int>(tag))) {
      TW_ASSERT(page->tagged(static_cast<PageTag>(tag)), "the tree has a tag that the page has not");
      ++walked;
    }
    TW_ASSERT(walked == tags_seen[tag], "the tree misses a tagged page");
  }
  if (shape_ == Shape::kTree) tree_check(*root_);
}

}  // namespace tidewheel
