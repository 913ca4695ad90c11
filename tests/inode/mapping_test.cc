#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "base/rng.h"
#include "inode/inode.h"
#include "inode/mapping.h"

namespace tidewheel {
namespace {

struct MappingWorld {
  explicit MappingWorld(std::uint64_t budget_bytes = 32ULL << 20)
      : budget(budget_bytes, 0),
        arena(PageArena::make(budget, {.max_bytes = 32ULL << 20, .reserve_bytes = 0, .huge_pages = false})
                  .value()),
        nodes(*arena) {
    inode.mapping().bind(stripe, 0);
  }
  ~MappingWorld() {
    clear();
    EXPECT_EQ(nodes.nodes(), 0U) << "an empty mapping keeps no node";
    EXPECT_EQ(nodes.arrays(), 0U);
  }
  Mapping& mapping() { return inode.mapping(); }
  Page* insert(std::uint64_t index) {
    Page* page = arena->allocate();
    if (page == nullptr) return nullptr;
    MutexLock lock(mapping().mutex());
    if (!mapping().insert_locked(index, *page, nodes)) {
      arena->free(*page);
      return nullptr;
    }
    return page;
  }
  void erase(Page& page) {
    {
      MutexLock lock(mapping().mutex());
      mapping().erase_locked(page, nodes);
    }
    arena->free(page);
  }
  void clear() {
    for (;;) {
      Page* page = nullptr;
      {
        MutexLock lock(mapping().mutex());
        page = mapping().next_locked(0);
      }
      if (page == nullptr) return;
      erase(*page);
    }
  }
  void check() {
    MutexLock lock(mapping().mutex());
    mapping().check_invariants_locked();
  }

  MemoryBudget budget;
  std::unique_ptr<PageArena> arena;
  MappingNodes nodes;
  MappingStripe stripe;
  Inode inode;
};

// Indexes where shapes and levels of the tree meet, and some far out.
std::uint64_t draw_index(Rng& rng) {
  switch (rng.below(5)) {
    case 0: return rng.below(10);
    case 1: return rng.below(200);
    case 2: return (1ULL << (6 * (1 + rng.below(8)))) - 2 + rng.below(4);
    case 3: return (1ULL << 51) - 1 - rng.below(3);  // the last pages of the largest file
    default: return rng.next() >> (13 + rng.below(40));
  }
}

RC_GTEST_PROP(Mapping, AgreesWithAMapOnPagesAndTags, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto steps = *rc::gen::inRange<std::size_t>(1, 400);
  Rng rng(seed);
  MappingWorld world;
  Mapping& mapping = world.mapping();
  struct Expected {
    Page* page;
    unsigned tags;
  };
  std::map<std::uint64_t, Expected> oracle;
  const bool small_file = rng.chance(3);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::uint64_t index = small_file ? rng.below(9) : draw_index(rng);
    const auto tag = static_cast<PageTag>(rng.below(kPageTags));
    const unsigned bit = 1U << static_cast<unsigned>(tag);
    auto at = oracle.find(index);
    switch (rng.below(8)) {
      case 0:
      case 1:
      case 2:
        if (at == oracle.end()) oracle[index] = {world.insert(index), 0};
        break;
      case 3:
        if (at == oracle.end()) at = oracle.lower_bound(index);
        if (at != oracle.end()) {
          world.erase(*at->second.page);
          oracle.erase(at);
        }
        break;
      case 4:
      case 5: {
        if (at == oracle.end()) at = oracle.lower_bound(index);
        if (at == oracle.end()) break;
        MutexLock lock(mapping.mutex());
        mapping.set_tag_locked(*at->second.page, tag);
        at->second.tags |= bit;
        break;
      }
      case 6: {
        if (at == oracle.end()) at = oracle.lower_bound(index);
        if (at == oracle.end()) break;
        MutexLock lock(mapping.mutex());
        mapping.clear_tag_locked(*at->second.page, tag);
        at->second.tags &= ~bit;
        break;
      }
      default: {
        MutexLock lock(mapping.mutex());
        RC_ASSERT(mapping.find_locked(index) == (at == oracle.end() ? nullptr : at->second.page));
        auto next = oracle.lower_bound(index);
        RC_ASSERT(mapping.next_locked(index) == (next == oracle.end() ? nullptr : next->second.page));
        while (next != oracle.end() && (next->second.tags & bit) == 0) ++next;
        RC_ASSERT(mapping.next_tagged_locked(index, tag) ==
                  (next == oracle.end() ? nullptr : next->second.page));
      }
    }
  }
  RC_ASSERT(mapping.pages() == oracle.size());
  std::uint32_t dirty = 0;
  for (const auto& [index, expected] : oracle) dirty += expected.tags & 1U;
  RC_ASSERT(mapping.dirty_pages() == dirty);
  // Every page in order, by the walk.
  MutexLock lock(mapping.mutex());
  std::uint64_t from = 0;
  for (const auto& [index, expected] : oracle) {
    Page* page = mapping.next_locked(from);
    RC_ASSERT(page == expected.page);
    RC_ASSERT(page->index == index);
    from = index + 1;
  }
  RC_ASSERT(mapping.next_locked(from) == nullptr);
}

TEST(Mapping, OnePageNeedsNoNodeAndEightPagesOneArray) {
  MappingWorld world;
  world.insert(0);
  EXPECT_EQ(world.nodes.nodes() + world.nodes.arrays(), 0U);
  for (std::uint64_t index = 1; index < 8; ++index) world.insert(index);
  EXPECT_EQ(world.nodes.nodes(), 0U);
  EXPECT_EQ(world.nodes.arrays(), 1U);
  world.check();
  world.insert(8);
  EXPECT_EQ(world.nodes.nodes(), 1U) << "64 pages fit one leaf";
  EXPECT_EQ(world.nodes.arrays(), 0U);
  world.check();
}

TEST(Mapping, OnePageFarOutNeedsNoNode) {
  MappingWorld world;
  Page* page = world.insert(1ULL << 50);
  EXPECT_EQ(world.nodes.nodes() + world.nodes.arrays(), 0U);
  MutexLock lock(world.mapping().mutex());
  EXPECT_EQ(world.mapping().next_locked(1ULL << 49), page);
}

TEST(Mapping, TagsSurviveTheChangeOfShape) {
  MappingWorld world;
  Page* first = world.insert(3);
  {
    MutexLock lock(world.mapping().mutex());
    world.mapping().set_tag_locked(*first, PageTag::kDirty);
  }
  world.insert(4);           // one -> array
  world.insert(1ULL << 30);  // array -> tree
  world.check();
  MutexLock lock(world.mapping().mutex());
  EXPECT_EQ(world.mapping().next_tagged_locked(0, PageTag::kDirty), first);
  EXPECT_EQ(world.mapping().next_tagged_locked(4, PageTag::kDirty), nullptr);
  EXPECT_EQ(world.mapping().dirty_bytes(), kPageBytes);
}

TEST(Mapping, ToWriteIsASnapshotOfDirty) {
  MappingWorld world;
  for (std::uint64_t index = 0; index < 300; index += 3) {
    Page* page = world.insert(index);
    MutexLock lock(world.mapping().mutex());
    if (index % 2 == 0) world.mapping().set_tag_locked(*page, PageTag::kDirty);
  }
  MutexLock lock(world.mapping().mutex());
  EXPECT_EQ(world.mapping().tag_to_write_locked(0, 1000, 30), 29 * 6 + 1U) << "no more than asked for";
  EXPECT_EQ(world.mapping().tag_to_write_locked(29 * 6 + 1, 270, 30), 270U);
  EXPECT_EQ(world.mapping().to_write_pages_locked(), 45U) << "nothing at or past the end";
  EXPECT_EQ(world.mapping().tag_to_write_locked(270, 1000, 30), 1000U);
  Page* later = world.mapping().find_locked(3);
  world.mapping().set_tag_locked(*later, PageTag::kDirty);
  std::uint32_t found = 0;
  for (Page* page = world.mapping().next_tagged_locked(0, PageTag::kToWrite); page != nullptr;
       page = world.mapping().next_tagged_locked(page->index + 1, PageTag::kToWrite)) {
    EXPECT_EQ(page->index % 6, 0U);
    ++found;
  }
  EXPECT_EQ(found, 50U);
  world.mapping().check_invariants_locked();
}

TEST(Mapping, AnInsertWithoutMemoryForNodesChangesNothing) {
  // Room for a few pages; the tree for 2^40 needs seven nodes, one slab, when nothing is left.
  MappingWorld world(3 * PageArena::kChargedPerPage);
  Page* near = world.insert(0);
  ASSERT_NE(near, nullptr);
  Page* spare = world.arena->allocate();
  Page* page = world.arena->allocate();
  ASSERT_NE(page, nullptr);
  {
    MutexLock lock(world.mapping().mutex());
    EXPECT_FALSE(world.mapping().insert_locked(1ULL << 40, *page, world.nodes));
    EXPECT_EQ(world.mapping().pages(), 1U);
    EXPECT_EQ(world.mapping().find_locked(0), near);
    EXPECT_EQ(world.mapping().find_locked(1ULL << 40), nullptr);
    world.mapping().check_invariants_locked();
  }
  world.arena->free(*spare);
  {
    MutexLock lock(world.mapping().mutex());
    EXPECT_FALSE(world.mapping().insert_locked(1ULL << 40, *page, world.nodes))
        << "one slab is 7 nodes, 14 are needed";
    world.mapping().check_invariants_locked();
  }
  world.arena->free(*page);
}

}  // namespace
}  // namespace tidewheel
