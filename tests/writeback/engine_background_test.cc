// When background, periodic and reclaim work run, and when they stop.
#include "engine_rig.h"

#include "base/rng.h"

namespace tidewheel {
namespace {

class EngineDesign : public ::testing::TestWithParam<const char*> {
 protected:
  EngineOptions options() const {
    EngineOptions o = small_options();
    o.design = GetParam();
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(Designs, EngineDesign, ::testing::ValuesIn(kAllDesigns), [](const auto& each) {
  std::string name = each.param;
  std::erase(name, '-');
  return name;
});

TEST_P(EngineDesign, NothingIsWrittenBelowTheThresholdBeforeItExpires) {
  VirtualRig rig(options());
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(29));
  EXPECT_EQ(object.writes, 0U);
  rig.driver->run_for(seconds(7));
  EXPECT_EQ(object.writes, 1U);
  EXPECT_TRUE(object.state().clean());
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

TEST_P(EngineDesign, BackgroundStopsExactlyUnderItsThreshold) {
  VirtualRig rig(options());
  VirtualDevice device(*rig.driver, milliseconds(1), 100 << 20);
  rig.target.device = &device;
  const std::uint64_t per_object = 4096 + 1024;
  for (int i = 0; i < 500; ++i) rig.dirty(rig.make(), 4096);  // 2.5 MB
  rig.driver->run_for(seconds(2));
  const std::uint64_t left = rig.engine->dirty_bytes();
  EXPECT_LE(left, 1U << 20);
  EXPECT_GT(left + per_object, 1U << 20) << "one object more than needed was written";
  EXPECT_EQ(rig.engine->dirty_and_writeback_bytes(), left);
  EXPECT_NE(rig.engine->background_passed_at(), Instant::max());
  EXPECT_EQ(rig.engine->first_throttled_at(), Instant::max());
}

TEST_P(EngineDesign, EmptyObjectsCountToo) {
  EngineOptions o = options();
  VirtualRig rig(o);
  for (int i = 0; i < 20'000; ++i) rig.dirty(rig.make(), 0, kDirtyMetadata);  // 20 MB of overhead, limit 4 MB
  EXPECT_LE(rig.engine->dirty_and_writeback_bytes(), o.dirty_bytes);
  EXPECT_NE(rig.engine->background_passed_at(), Instant::max());
  EXPECT_GT(rig.engine->stats().objects, 15'000U);
}

TEST_P(EngineDesign, BatchesAreBoundedAndSorted) {
  EngineOptions o = options();
  o.batch_objects = 50;
  VirtualRig rig(o);
  Rng rng(7);
  for (int i = 0; i < 400; ++i) rig.dirty(rig.make(rng.below(1000)), 4096);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_LE(rig.target.largest_batch_objects.load(std::memory_order_relaxed), 50U);
  EXPECT_LE(rig.target.largest_batch_bytes.load(std::memory_order_relaxed), o.batch_bytes);
  EXPECT_FALSE(rig.target.unsorted.load(std::memory_order_relaxed));
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

TEST_P(EngineDesign, IntervalZeroWritesNothingForItsAgeAndDoesNotSpin) {
  EngineOptions o = options();
  o.interval = {0};
  VirtualRig rig(o);
  for (int i = 0; i < 10; ++i) rig.dirty(rig.make(), 4096);
  rig.driver->run_for(seconds(3600));
  EXPECT_EQ(rig.engine->stats().objects, 0U);
  EXPECT_LE(rig.wakeups(), 5U);
  // Sync and background still work.
  for (int i = 0; i < 400; ++i) rig.dirty(rig.make(), 4096);
  rig.driver->run_for(seconds(1));
  EXPECT_LE(rig.engine->dirty_bytes(), o.background_bytes);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

TEST_P(EngineDesign, ExpireZeroWritesAtTheNextTick) {
  EngineOptions o = options();
  o.expire = {0};
  VirtualRig rig(o);
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  // syncer-slots has its delay built in: the place in its ring, whatever the engine calls expired.
  rig.driver->run_for(seconds(o.design == "syncer-slots" ? 45 : 11));
  EXPECT_EQ(object.writes, 1U);
}

TEST_P(EngineDesign, AnIdleEngineSleepsForGood) {
  VirtualRig rig(options());
  rig.dirty(rig.make(), 4096);
  rig.driver->run_to_rest();  // ends only if nobody is left with a timer
  EXPECT_EQ(rig.dirty_objects(), 0U);
  const std::uint64_t before = rig.wakeups();
  rig.driver->run_for(seconds(86'400));
  EXPECT_EQ(rig.wakeups(), before);
}

TEST_P(EngineDesign, FirstDirtDoesNotPostponeATickThatIsNear) {
  VirtualRig rig(options());
  FakeObject& first = rig.make();
  rig.dirty(first, 4096);
  for (int i = 0; i < 40; ++i) {  // others keep coming; some are cleaned in between
    rig.driver->run_for(seconds(1));
    FakeObject& other = rig.make();
    rig.dirty(other, 4096);
    ASSERT_TRUE(rig.engine->fsync(other).has_value());
  }
  EXPECT_EQ(first.writes, 1U);
}

TEST_P(EngineDesign, ReclaimWritesWhatIsAskedFor) {
  VirtualRig rig(options());
  for (int i = 0; i < 100; ++i) rig.dirty(rig.make(), 4096);
  for (int i = 0; i < 1'000'000; ++i) rig.engine->reclaim(*rig.context, 40 * 4096);
  const std::uint64_t works = rig.engine->stats().works;
  rig.driver->run_for(milliseconds(1));
  EXPECT_GE(rig.engine->stats().objects, 40U);
  EXPECT_LT(rig.engine->stats().objects, 60U);
  EXPECT_LE(rig.engine->stats().works - works, 1U) << "a million requests are one work";
}

TEST_P(EngineDesign, ReclaimOfNothingEndsAndLaterRequestsCount) {
  VirtualRig rig(options());
  rig.engine->reclaim(*rig.context, 1 << 20);
  rig.driver->run_for(milliseconds(1));
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(1));
  EXPECT_EQ(object.writes, 0U) << "a request is not a standing order";
  rig.engine->reclaim(*rig.context, 1 << 20);
  rig.driver->run_for(milliseconds(1));
  EXPECT_EQ(object.writes, 1U);
}

TEST_P(EngineDesign, LargeObjectsTakeTurnsWithSmallOnes) {
  EngineOptions o = options();
  o.dirty_bytes = 64 << 20;
  o.background_bytes = 0;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1), 10 << 20);
  rig.target.device = &device;
  FakeObject& large = rig.make();
  rig.dirty(large, 30 << 20);  // three seconds of the device
  rig.driver->run_for(milliseconds(50));
  std::vector<FakeObject*> small;
  for (int i = 0; i < 100; ++i) rig.dirty(*small.emplace_back(&rig.make()), 4096);
  rig.driver->run_for(milliseconds(500));
  int written = 0;
  for (const FakeObject* object : small) written += object->state().clean() ? 1 : 0;
  EXPECT_EQ(written, 100) << "small objects wait behind a large one";
  EXPECT_FALSE(large.state().clean());
  rig.driver->run_for(seconds(10));
  EXPECT_TRUE(large.state().clean()) << "small objects starve a large one";
}

TEST_P(EngineDesign, SeveralFlushersShareTheExcess) {
  EngineOptions o = options();
  o.flushers = 3;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1), 100 << 20);
  rig.target.device = &device;
  for (int i = 0; i < 500; ++i) rig.dirty(rig.make(), 4096);
  rig.driver->run_for(seconds(2));
  const std::uint64_t left = rig.engine->dirty_bytes();
  EXPECT_LE(left, 1U << 20);
  EXPECT_GT(left + 5120, 1U << 20) << "the flushers together wrote too much";
}

// A target that can't write anything just now (or whose device is gone) is not asked over and over: neither
// for what is over the threshold, nor for what has expired, nor for reclaim.
TEST_P(EngineDesign, BusyObjectsAreNotOfferedOverAndOver) {
  for (const WriteOutcome outcome :
       {WriteOutcome::kSkipped, WriteOutcome::kFailed, WriteOutcome::kPartial}) {
    for (const bool over_threshold : {true, false}) {
      EngineOptions o = options();
      if (!over_threshold) o.background_bytes = o.dirty_bytes / 2;
      VirtualRig rig(o);
      rig.target.empty_parts = true;
      bool refuses = true;
      std::uint64_t calls = 0;
      rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
        // Where it spins, time stands still: the run would never end.
        TW_ASSERT(++calls < 100'000, "a refused object is offered in a busy loop");
        if (refuses && outcome == WriteOutcome::kFailed) slot.error.code = Reason::kIo;
        return refuses ? outcome : WriteOutcome::kWritten;
      };
      for (int i = 0; i < (over_threshold ? 300 : 10); ++i) rig.dirty(rig.make(), 4096);
      if (!over_threshold) rig.engine->reclaim(*rig.context, 4096);
      rig.driver->run_for(seconds(60));  // beyond expire
      const std::uint64_t batches = rig.target.batches.load(std::memory_order_relaxed);
      // One per 128 ms and the shorter pauses before; failures: some 20 groups a rung, and what the ticks
      // add.
      EXPECT_LE(batches, 60'000U / 128 + 60) << static_cast<int>(outcome) << over_threshold;
      EXPECT_GE(batches, 3U);
      refuses = false;
      rig.driver->run_for(seconds(200));  // beyond the longest back-off
      EXPECT_EQ(rig.dirty_objects(), 0U);
    }
  }
}

// One that is busy for ever doesn't hold up the others.
TEST_P(EngineDesign, ABusyObjectHoldsUpNobody) {
  VirtualRig rig(options());
  FakeObject& busy = rig.make();
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    return &object == &busy ? WriteOutcome::kSkipped : WriteOutcome::kWritten;
  };
  rig.dirty(busy, 4096);
  for (int i = 0; i < 3000; ++i) rig.dirty(rig.make(), 4096);  // three times the limit
  EXPECT_LT(rig.clock.now() - VirtualRig::seconds_at(1000), seconds(1));
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(rig.dirty_objects(), 1U);
  EXPECT_LE(rig.target.batches.load(std::memory_order_relaxed), 60'000U / 128 + 200);
}

TEST(EngineContexts, TheExcessIsWrittenWhereverItLies) {
  VirtualRig rig(small_options());
  FakeTarget other_target;
  WritebackContext* other = rig.engine->add_context(other_target, {.name = "other"});
  // One dirty object in the first context, everything else in the second: the first one's flusher must not
  // keep the excess to itself.
  rig.dirty(rig.make(), 4096);
  std::vector<std::unique_ptr<FakeObject>> objects;
  for (int i = 0; i < 400; ++i) {
    auto object = std::make_unique<FakeObject>();
    object->set_context(other->id());
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*other, 4096);
    ASSERT_TRUE(grant.has_value());
    rig.engine->account_dirtied(*grant, 4096);
    object->dirty_bytes.fetch_add(4096, std::memory_order_seq_cst);
    rig.engine->mark_dirty(*object, kDirtyData, rig.clock.now(), &*grant);
    objects.push_back(std::move(object));
  }
  rig.driver->run_for(seconds(1));
  EXPECT_LE(rig.engine->dirty_bytes(), 1U << 20);
  ASSERT_TRUE(rig.engine->remove_context(*other).has_value());
  for (auto& object : objects) EXPECT_TRUE(object->state().clean());
}

}  // namespace
}  // namespace tidewheel
