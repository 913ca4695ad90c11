// Freeze: everything is written, and until thaw nothing is dirtied or written.
#include "owner_rig.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

TEST(EngineFreeze, EverythingIsWrittenWhateverStateItIsIn) {
  OwnerRig rig(small_options(), 3);
  VirtualDevice device(*rig.driver, milliseconds(5));
  rig.target.device = &device;
  FakeObject& failed = rig.make_dirty(0);
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return &object == &failed && failed.writes < 1 ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  EXPECT_FALSE(rig.engine->fsync(failed).has_value());
  FakeObject& writing = rig.make_dirty(1);
  rig.engine->reclaim(*rig.owner[1], 4096);
  rig.driver->run_for(milliseconds(1));
  FakeObject& listed = rig.make_dirty(2);
  FakeObject& times = rig.make(2);
  rig.dirty(times, 0, kDirtyTimestamps);
  ASSERT_EQ(failed.state().phase(), DirtyPhase::kRetry);
  ASSERT_EQ(writing.state().phase(), DirtyPhase::kWriting);
  ASSERT_TRUE(rig.engine->freeze().has_value());
  for (FakeObject* object : {&failed, &writing, &listed, &times}) EXPECT_TRUE(object->state().clean());
  EXPECT_EQ(rig.engine->dirty_and_writeback_bytes(), 0U);
  EXPECT_EQ(rig.engine->freeze().error().code, Reason::kBusy);

  // A writer waits; nothing is written, for as long as it lasts.
  const std::uint64_t batches = rig.target.batches.load(std::memory_order_relaxed);
  ThrottleWaiter waiter;
  bool woken = false;
  waiter.owner = &woken;
  waiter.wake = [](ThrottleWaiter& mine) { *static_cast<bool*>(mine.owner) = true; };
  ASSERT_FALSE(rig.engine->begin_balance(*rig.owner[0], 4096, waiter));
  const std::uint64_t wakeups = rig.engine->stats().flusher_wakeups;
  rig.driver->run_for(seconds(3600));
  EXPECT_FALSE(woken);
  EXPECT_EQ(rig.target.batches.load(std::memory_order_relaxed), batches);
  EXPECT_LE(rig.engine->stats().flusher_wakeups - wakeups, 20U) << "it sleeps";
  rig.engine->thaw();
  EXPECT_TRUE(woken);
  EXPECT_TRUE(rig.engine->finish_balance(*rig.owner[0], waiter).has_value());
  rig.make_dirty(0);
}

// What was not taken is not given back: the limit stays what it is.
TEST(EngineFreeze, ThawGivesBackOnlyWhatWasTakenAndOnce) {
  OwnerRig rig(small_options(), 1);
  rig.engine->thaw();
  EXPECT_EQ(rig.engine->charged_bytes(), 0U);
  ASSERT_TRUE(rig.engine->freeze().has_value());
  rig.engine->thaw();
  rig.engine->thaw();
  EXPECT_EQ(rig.engine->charged_bytes(), 0U);

  // While a freeze waits for its object to be written, thaw() finds nothing to end.
  rig.target.decide = [&](FakeObject&, WriteSlot&) {
    rig.engine->thaw();
    return WriteOutcome::kWritten;
  };
  rig.make_dirty(0);
  ASSERT_TRUE(rig.engine->freeze().has_value());
  EXPECT_EQ(rig.engine->charged_bytes(), rig.engine->options().dirty_bytes);
  rig.engine->thaw();
  EXPECT_EQ(rig.engine->charged_bytes(), 0U);
}

TEST(EngineFreeze, WhatCannotBeWrittenUndoesIt) {
  OwnerRig rig(small_options(), 1);
  rig.target.decide = [](FakeObject&, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  FakeObject& object = rig.make_dirty(0);
  const Result<void> frozen = rig.engine->freeze();
  ASSERT_FALSE(frozen.has_value());
  EXPECT_EQ(frozen.error().code, Reason::kIo);
  EXPECT_FALSE(object.state().clean());
  rig.make_dirty(0);  // admitted again
}

SIM_TEST_WITH(EngineFreezeSim, NothingIsDirtyUntilItThawsBesideWriters, (sim::Options{.schedules = 200})) {
  EngineOptions o;
  o.dirty_bytes = 24 << 10;
  o.background_bytes = 8 << 10;
  o.object_overhead_bytes = 256;
  o.counter_chunk_bytes = 512;
  o.interval = {0};
  o.expire = seconds(1'000'000'000);
  o.writer_recheck = Duration::max();
  o.shards = 2;
  OwnerTarget target;
  auto engine = std::move(*WritebackEngine::make(o, std::make_unique<ThreadDriver>()));
  WritebackContext* context = engine->add_context(target);
  FakeObject objects[3];
  for (FakeObject& object : objects) object.set_context(context->id());
  std::vector<Thread> writers;
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back("writer", [&, w] {
      for (int i = 0; i < 4; ++i) SIM_CHECK(dirty_owned(*engine, target, objects[w], 2048));
    });
  }
  for (int round = 0; round < 2; ++round) {
    SIM_CHECK(engine->freeze().has_value());
    const std::uint64_t batches = target.batches.load(std::memory_order_seq_cst);
    for (int i = 0; i < 3; ++i) {
      SIM_CHECK(context->counts().all_zero());
      yield_thread();
    }
    SIM_CHECK(target.batches.load(std::memory_order_seq_cst) == batches);
    engine->thaw();
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(engine->sync(*context).has_value());
  SIM_CHECK(context->counts().all_zero());
  engine->stop();
}

}  // namespace
}  // namespace tidewheel
