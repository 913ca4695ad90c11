// An inode that is dirty in its timestamps alone, in a cache on a real engine in virtual time.
#include "base/clock.h"
#include "inode/engine_sink.h"
#include "tests/inode/fakes.h"
#include "writeback/context.h"
#include "writeback/driver_virtual.h"

#include <gtest/gtest.h>

namespace tidewheel::inode_test {
namespace {

constexpr Duration kTwelveHours = seconds(12LL * 3600);

// Puts pages into the store; done when write_batch returns.
class StoreTarget final : public WritebackTarget {
 public:
  StoreTarget(FakeStore& store) : store_(store) {}
  void set_cache(InodeCache& cache) { cache_ = &cache; }
  WriteEstimate estimate(const DirtyObject& object) const override {
    return {Inode::from(object).number(), Inode::from(object).mapping().pages() * kPageBytes};
  }
  void write_batch(Batch& batch) override {
    for (WriteSlot& slot : batch.slots()) {
      Inode& inode = Inode::from(*slot.object);
      WritebackPages pages;
      cache_->pages().begin_writeback(inode, pages, UINT32_MAX);
      store_.put(inode, pages.pages);
      cache_->pages().end_writeback(inode, pages.pages, true);
      slot.outcome = WriteOutcome::kWritten;
      classes |= slot.classes;
      ++writes;
    }
    batch.complete();
  }
  void end_batch(Batch& batch) override {
    for (WriteSlot& slot : batch.slots()) cache_->end_write(Inode::from(*slot.object));
  }
  Result<void> flush() override { return {}; }
  std::uint32_t classes = 0;
  int writes = 0;

 private:
  FakeStore& store_;
  InodeCache* cache_ = nullptr;
};

struct EngineWorld {
  EngineWorld() : clock(Instant{0} + seconds(1000)), budget(64ULL << 20, 0), target(store) {
    EngineOptions o;
    o.clock = &clock;
    auto owned = std::make_unique<VirtualDriver>(clock);
    driver = owned.get();
    engine = std::move(WritebackEngine::make(o, std::move(owned)).value());
    context = engine->add_context(target);
    sink = std::make_unique<EngineSink>(*engine);
    arena = PageArena::make(budget, {.max_bytes = 64ULL << 20, .huge_pages = false}).value();
    pages = std::make_unique<PageCache>(*arena, *sink, PageCacheOptions{});
    inodes = std::make_unique<InodeCache>(*pages, store, InodeCacheOptions{.memory_limit_bytes = 1 << 20});
    target.set_cache(*inodes);
  }
  ~EngineWorld() {
    EXPECT_TRUE(engine->remove_context(*context).has_value());
    inodes->check_invariants();
    inodes.reset();
    pages.reset();
    engine->stop();
  }
  InodeHold create(InodeNumber number) {
    return std::move(inodes->create(number, context->id()).value());
  }

  VirtualClock clock;
  MemoryBudget budget;
  FakeStore store;
  StoreTarget target;
  VirtualDriver* driver = nullptr;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
  std::unique_ptr<EngineSink> sink;
  std::unique_ptr<PageArena> arena;
  std::unique_ptr<PageCache> pages;
  std::unique_ptr<InodeCache> inodes;
};

TEST(InodeLazytime, ATouchWaitsTwelveHoursAndAWriteTakesItAlong) {
  EngineWorld world;
  InodeHold touched = world.create(1);
  InodeHold written = world.create(2);
  world.pages->touch(*touched, world.clock.now());
  world.pages->touch(*written, world.clock.now());
  world.driver->run_for(seconds(3600));
  EXPECT_EQ(world.target.writes, 0);
  ASSERT_TRUE(world.pages->write(*written, 0, bytes_of(100, 1), world.clock.now()).has_value());
  world.driver->run_for(seconds(40));
  EXPECT_EQ(world.target.writes, 1);
  EXPECT_EQ(world.target.classes, kDirtyAll);
  EXPECT_TRUE(written->state().clean());
  EXPECT_FALSE(touched->state().clean());
  world.driver->run_for(kTwelveHours);
  EXPECT_EQ(world.target.writes, 2);
  EXPECT_TRUE(touched->state().clean());
}

// Nobody holds it: it stays in memory until it is written, and is written when memory is asked for.
TEST(InodeLazytime, EvictionComesAfterItsWrite) {
  EngineWorld world;
  {
    InodeHold inode = world.create(1);
    world.pages->touch(*inode, world.clock.now());
  }
  EXPECT_EQ(world.inodes->evict(10), 0U) << "an untold timestamp would be gone";
  EXPECT_TRUE(static_cast<bool>(world.inodes->find(1)));
  EXPECT_TRUE(world.sink->request_writeback(1 << 20));
  world.driver->run_for(seconds(1));
  EXPECT_EQ(world.target.writes, 1);
  EXPECT_EQ(world.inodes->evict(10), 1U);
}

TEST(InodeLazytime, AnUnlinkedInodeTakesItsTimestampsAlong) {
  EngineWorld world;
  InodeHold inode = world.create(1);
  world.pages->touch(*inode, world.clock.now());
  world.inodes->unlink(*inode);
  inode.reset();
  EXPECT_EQ(world.target.writes, 0);
  EXPECT_EQ(world.engine->dirty_bytes(), 0U);
}

// The tail that a truncate zeroes nobody asked leave for: it counts, and is gone when it is written.
TEST(InodeAccounts, APageThatNobodyForesawIsCounted) {
  EngineWorld world;
  InodeHold inode = world.create(1);
  ASSERT_EQ(*world.pages->write(*inode, 0, bytes_of(2 * kPageBytes, 1), world.clock.now()), 2 * kPageBytes);
  ASSERT_TRUE(world.engine->sync(*world.context).has_value());
  ASSERT_TRUE(world.pages->truncate(*inode, 100, world.clock.now()).has_value());
  EXPECT_EQ(world.engine->dirty_bytes(), kPageBytes + world.engine->options().object_overhead_bytes);
  EXPECT_GE(world.engine->charged_bytes(), world.engine->dirty_bytes());
  ASSERT_TRUE(world.engine->sync(*world.context).has_value());
  EXPECT_EQ(world.engine->dirty_and_writeback_bytes(), 0U);
}

}  // namespace
}  // namespace tidewheel::inode_test
