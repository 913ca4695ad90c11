#include "inode/slab_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/thread.h"

namespace tidewheel {
namespace {

struct Counts {
  int constructed = 0, destroyed = 0;
};
struct Item {
  std::uint64_t words[15] = {};
  Counts* counts = nullptr;
};

class SlabPoolTest : public testing::Test {
 protected:
  SlabPool::Type type() {
    return {.name = "test.item",
            .bytes = sizeof(Item),
            .construct =
                [](void* memory, void* context, std::uint8_t) {
                  auto* const counts = static_cast<Counts*>(context);
                  (new (memory) Item)->counts = counts;
                  ++counts->constructed;
                },
            .destroy =
                [](void* object) {
                  ++static_cast<Item*>(object)->counts->destroyed;
                  static_cast<Item*>(object)->~Item();
                },
            .context = &counts_};
  }
  Counts counts_;
  MemoryBudget budget_{100 * PageArena::kChargedPerPage, 0};
  std::unique_ptr<PageArena> arena_ =
      PageArena::make(budget_, {.max_bytes = 1ULL << 20, .reserve_bytes = 0, .huge_pages = false}).value();
};

TEST_F(SlabPoolTest, AnObjectIsConstructedOncePerSlabAndUsedAgain) {
  SlabPool pool(*arena_, type());
  const std::uint32_t each = pool.objects_per_slab();
  EXPECT_EQ(each, (4096 - 64) / sizeof(Item));
  std::set<void*> seen;
  for (std::uint32_t i = 0; i < 3 * each; ++i) EXPECT_TRUE(seen.insert(pool.allocate()).second);
  EXPECT_EQ(pool.slabs(), 3U);
  EXPECT_EQ(counts_.constructed, static_cast<int>(3 * each));
  void* const one = *seen.begin();
  pool.free(one);
  EXPECT_EQ(pool.allocate(), one);
  EXPECT_EQ(counts_.constructed, static_cast<int>(3 * each));
  EXPECT_EQ(pool.objects(), 3 * each);
  EXPECT_EQ(pool.allocations(), 3 * each + 1);
  for (void* object : seen) pool.free(object);
  // One slab that is wholly free is kept; the others have gone back.
  EXPECT_EQ(pool.slabs(), 1U);
  EXPECT_EQ(counts_.destroyed, static_cast<int>(2 * each));
  EXPECT_EQ(pool.release_spares(), 1U);
  EXPECT_EQ(counts_.destroyed, counts_.constructed);
  EXPECT_EQ(pool.slabs(), 0U);
}

TEST_F(SlabPoolTest, SaysWhenTheArenaHasNoMoreAndGoesOnLater) {
  SlabPool pool(*arena_, type());
  std::vector<void*> all;
  while (void* object = pool.allocate()) all.push_back(object);
  EXPECT_EQ(all.size(), 100 * pool.objects_per_slab());
  pool.free(all.back());
  EXPECT_EQ(pool.allocate(), all.back());
  for (void* object : all) pool.free(object);
}

TEST_F(SlabPoolTest, AnObjectGoesBackToItsOwnSlabFromAnyThread) {
  SlabPool pool(*arena_, type());
  std::vector<void*> all;
  for (int i = 0; i < 200; ++i) all.push_back(pool.allocate());
  Thread("other", [&] {
    for (void* object : all) pool.free(object);
    void* const own = pool.allocate();
    pool.free(own);
  }).join();
  EXPECT_EQ(pool.objects(), 0U);
  EXPECT_LE(pool.slabs(), 2U) << "a spare of each thread's shard";
}

TEST_F(SlabPoolTest, FreeingTwiceIsFoundOut) {
  SlabPool pool(*arena_, type());
  void* const kept = pool.allocate();
  void* const object = pool.allocate();
  pool.free(object);
  EXPECT_DEATH(pool.free(object), "an object is freed twice");
  pool.free(kept);
}

}  // namespace
}  // namespace tidewheel
