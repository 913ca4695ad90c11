// What a work does with what it has claimed: order, slices, pauses for what is busy, and requests that come
// while it finds nothing.
#include <optional>

#include "base/sim.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "sim_options.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

constinit LockClass works_test_class("engine-works-test", LockRank::kDevice);

class EngineWorks : public ::testing::TestWithParam<const char*> {
 protected:
  EngineOptions options() const {
    EngineOptions o = small_options();
    o.design = GetParam();
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(Designs, EngineWorks, ::testing::ValuesIn(kAllDesigns), [](const auto& each) {
  std::string name = each.param;
  std::erase(name, '-');
  return name;
});

// The first batch claims more than it has room for: what goes back is written in its old order.
TEST_P(EngineWorks, WhatABatchHasNoRoomForIsNextInItsOldOrder) {
  if (std::string_view(GetParam()) == "syncer-slots") GTEST_SKIP() << "last in, first out within a slot";
  EngineOptions o = options();
  o.batch_bytes = 64 << 10;
  VirtualRig rig(o);
  std::vector<std::uint64_t> order;
  rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) { order.push_back(object.key); };
  constexpr std::uint64_t kObjects = 12;
  // Small ones before: many are claimed at once.
  rig.dirty(rig.make(), 0, kDirtyMetadata);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  order.clear();
  // A slot of the wheel each: within one, what goes back goes behind the others.
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    rig.dirty(rig.make(i), 40 << 10);
    rig.driver->run_for(milliseconds(200));
  }
  rig.engine->reclaim(*rig.context, 1 << 20);
  rig.driver->run_for(seconds(1));
  ASSERT_EQ(order.size(), kObjects);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(rig.target.batches.load(std::memory_order_relaxed), 1 + kObjects) << "one fits";
}

TEST_P(EngineWorks, ASyncWritesALargeObjectWholeAndOthersInSlices) {
  VirtualRig rig(options());
  FakeObject& large = rig.make();
  std::vector<std::uint64_t> limits;
  rig.target.on_write = [&](FakeObject&, const WriteSlot& slot, WorkKind) {
    limits.push_back(slot.limit_bytes);
  };
  rig.dirty(large, 900 << 10);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(limits, std::vector<std::uint64_t>{UINT64_MAX});
  limits.clear();
  rig.dirty(large, 900 << 10);
  rig.engine->reclaim(*rig.context, 1);
  rig.driver->run_for(milliseconds(1));
  ASSERT_FALSE(limits.empty());
  EXPECT_EQ(limits[0], rig.engine->options().batch_bytes);
}

// The pause before work that has met only busy objects doubles up to 128 ms: from 1 ms each time that
// something has been written in between.
TEST_P(EngineWorks, APauseForBusyObjectsBeginsAnewOnceSomethingIsWritten) {
  EngineOptions o = options();
  o.background_bytes = 0;
  VirtualRig rig(o);
  std::vector<Instant> asked;
  bool busy = true;
  rig.target.decide = [&](FakeObject&, WriteSlot&) {
    asked.push_back(rig.clock.now());
    return busy ? WriteOutcome::kSkipped : WriteOutcome::kWritten;
  };
  FakeObject& object = rig.make();
  const auto pauses = [&] {
    asked.clear();
    busy = true;
    rig.dirty(object, 4096);
    rig.driver->run_for(seconds(2));
    std::vector<Duration> gaps;
    for (std::size_t i = 1; i < asked.size(); ++i) gaps.push_back(asked[i] - asked[i - 1]);
    busy = false;
    rig.driver->run_for(seconds(1));
    EXPECT_TRUE(object.state().clean());
    return gaps;
  };
  const std::vector<Duration> first = pauses();
  ASSERT_GE(first.size(), 9U);
  for (std::size_t i = 0; i < 9; ++i) {
    // What is small is left for 10 ms in any case.
    EXPECT_EQ(first[i], std::max(milliseconds(1LL << std::min<std::size_t>(i, 7)), WorkSchedule::kPlug));
  }
  EXPECT_EQ(pauses(), first);
}

// What fails on a caller's thread is retried by a flusher that had no reason to wake.
TEST_P(EngineWorks, AnFsyncThatFailsIsRetriedThoughNothingIsPeriodic) {
  EngineOptions o = options();
  o.interval = {0};
  VirtualRig rig(o);
  bool fails = true;
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    if (!fails) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(rig.engine->fsync(object).error().code, Reason::kIo);
  fails = false;
  // syncer-slots: no back-off, but the next tick, of which there is none.
  if (std::string_view(GetParam()) == "syncer-slots") return;
  rig.driver->run_for(seconds(2));
  EXPECT_TRUE(object.state().clean());
}

// While all that is dirty is being written the ticks find nothing and stop: what comes back starts them
// again.
TEST_P(EngineWorks, WhatIsDirtiedDuringALongWriteIsWrittenByItsAge) {
  VirtualRig rig(options());
  VirtualDevice device(*rig.driver, milliseconds(1));
  rig.target.device = &device;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  device.stalled = true;
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(object.writes, 1U);
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(object.writes, 1U) << "one writer";
  device.resume();
  rig.driver->run_for(seconds(36));
  EXPECT_EQ(object.writes, 2U);
  EXPECT_TRUE(object.state().clean());
}

// A flush that fails is told to each who has the context open, whoever called it.
TEST_P(EngineWorks, AFailedFlushIsToldToEveryHandleOfTheContextOnce) {
  VirtualRig rig(options());
  ErrorCursor mine = ErrorSequence::sample(rig.context->write_errors());
  ErrorCursor another = ErrorSequence::sample(rig.context->write_errors());
  rig.dirty(rig.make(), 4096);
  rig.target.flush_result = TW_FAIL(kIo);
  EXPECT_EQ(rig.engine->sync(*rig.context, &mine).error().code, Reason::kIo);
  rig.target.flush_result = {};
  EXPECT_TRUE(rig.engine->sync(*rig.context, &mine).has_value());
  EXPECT_EQ(rig.engine->sync(*rig.context, &another).error().code, Reason::kIo);
  EXPECT_TRUE(rig.engine->sync(*rig.context, &another).has_value());
}

// What was dirtied after a sync's moment, and fails while the sync goes on, is not the sync's failure.
TEST_P(EngineWorks, ASyncIsNotToldOfWhatCameAfterIt) {
  VirtualRig rig(options());
  struct SlowButForTwo final : FakeDevice {
    explicit SlowButForTwo(VirtualDriver& d) : driver(d) {}
    void start(Batch& batch) override {
      if (batch.slots()[0].sort_key == 2) return batch.complete();
      driver.post(driver.clock().now() + seconds(1),
                  [](void*, std::uint64_t b) { reinterpret_cast<Batch*>(b)->complete(); }, nullptr,
                  reinterpret_cast<std::uint64_t>(&batch));
    }
    VirtualDriver& driver;
  } device(*rig.driver);
  rig.target.device = &device;
  bool fails = true;
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    if (object.key != 2 || !fails) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  rig.dirty(rig.make(1), 4096);
  FakeObject& late = rig.make(2);
  rig.driver->post(rig.clock.now() + milliseconds(500),
                   [](void* object, std::uint64_t r) {
                     VirtualRig& in = *reinterpret_cast<VirtualRig*>(r);
                     in.engine->mark_dirty(*static_cast<FakeObject*>(object), kDirtyMetadata, in.clock.now());
                     in.engine->reclaim(*in.context, 1);
                   },
                   &late, reinterpret_cast<std::uint64_t>(&rig));
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_GE(rig.engine->stats().failed_writes, 1U);
  EXPECT_FALSE(rig.engine->sync(*rig.context).has_value()) << "that one it is";
  fails = false;
}

// ---- requests beside a flusher ----

struct SimRig {
  explicit SimRig(const EngineOptions& o) {
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
    target.on_ended = [this](FakeObject&) {
      MutexLock guard(lock);
      ++ended;
      changed.notify_all();
    };
  }
  ~SimRig() { engine->stop(); }
  void dirty(WritebackContext& in, FakeObject& object, std::uint64_t bytes) {
    Result<DirtyGrant> grant = engine->balance_dirty_pages(in, bytes);
    SIM_CHECK(grant.has_value());
    engine->account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyData, engine->clock().now(), &*grant);
  }
  void await(int writes) {
    MutexLock guard(lock);
    while (ended < writes) changed.wait(lock);
  }
  Mutex lock{works_test_class};
  CondVar changed;
  int ended TW_GUARDED_BY(lock) = 0;
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

// A request that comes while the flusher finds nothing for the one before is not taken for answered.
SIM_TEST_WITH(EngineWorksSim, AReclaimThatComesAsTheLastOneEndsCounts, (sim::Options{.schedules = 600})) {
  SimRig rig(unperiodic_options());
  FakeObject object;
  object.set_context(rig.context->id());
  rig.engine->reclaim(*rig.context, 1);  // nothing is dirty yet
  rig.dirty(*rig.context, object, 100);
  rig.engine->reclaim(*rig.context, 4096);
  rig.await(1);
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
}

// Each waits until nothing is being written any more, also who comes second.
SIM_TEST_WITH(EngineWorksSim, StopsAtTheSameTimeBothWaitForWhatIsInFlight, (sim::Options{.schedules = 300})) {
  EngineOptions o = unperiodic_options();
  o.background_bytes = 0;
  FakeObject object;
  SimRig rig(o);
  class Slow final : public FakeDevice {
   public:
    void start(Batch& batch) override {
      in_flight.store(true, std::memory_order_seq_cst);
      io.emplace("io", [this, &batch] {
        sleep_for(milliseconds(1));
        in_flight.store(false, std::memory_order_seq_cst);
        batch.complete();
      });
    }
    Atomic<bool> in_flight{false};
    std::optional<Thread> io;
  } device;
  rig.target.device = &device;
  object.set_context(rig.context->id());
  rig.dirty(*rig.context, object, 100);
  while (!device.in_flight.load(std::memory_order_seq_cst)) yield_thread();
  Thread other("stops", [&] {
    rig.engine->stop();
    SIM_CHECK(!device.in_flight.load(std::memory_order_seq_cst));
  });
  rig.engine->stop();
  SIM_CHECK(!device.in_flight.load(std::memory_order_seq_cst));
  other.join();
  device.io->join();
}

// Two contexts over one threshold: the flusher of the one that has nothing may hold all of the excess for a
// moment, in which the other one's sees none and falls asleep.
SIM_TEST_WITH(EngineWorksSim, AnExcessThatOthersLookedForIsWritten, (sim::Options{.schedules = 600})) {
  EngineOptions o = unperiodic_options();
  o.background_bytes = 0;
  SimRig rig(o);
  FakeTarget no_target;
  WritebackContext* const empty = rig.engine->add_context(no_target);
  SIM_CHECK(empty != nullptr);
  FakeObject object;
  object.set_context(rig.context->id());
  rig.dirty(*rig.context, object, 100);
  rig.await(1);
  rig.dirty(*rig.context, object, 100);
  rig.await(2);
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
}

}  // namespace
}  // namespace tidewheel
