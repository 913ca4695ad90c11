// Faults that other writeback code shipped, continued: what is lost, counted wrongly, written twice at
// once, or waited for in vain. docs/faults.md lists all of them, with the guards; the numbers are its
// numbers.
#include <array>
#include <set>

#include "base/rng.h"
#include "base/sim.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "list_rig.h"
#include "tests/length.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

LockClass fault_test_class("fault-test", LockRank::kDevice);

// 12 and 24: whatever is done, after each operation the lists are in order and the counters are the sizes
// of the sets they count, to the byte.
TEST(FaultCounters, AreTheSizesOfTheirSetsAfterEveryOperation) {
  for (const char* design : kAllDesigns) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(std::string(design) + ", seed " + std::to_string(seed));
      EngineOptions o = small_options();
      o.design = design;
      o.batch_objects = 5;
      o.batches_in_flight = 3;
      o.flushers = seed == 3 ? 2 : 1;
      o.counter_chunk_bytes = seed == 2 ? 4096 : 0;
      VirtualRig rig(o);
      VirtualDevice device(*rig.driver, milliseconds(40));
      rig.target.device = &device;
      Rng rng(seed);
      rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
        switch (rng.below(10)) {
          case 0:
            return WriteOutcome::kSkipped;
          case 1:
            return WriteOutcome::kPartial;
          case 2:
            slot.error.code = Reason::kIo;
            return WriteOutcome::kFailed;
          default:
            return WriteOutcome::kWritten;
        }
      };
      rig.target.gives_up = [](const FakeObject& object, std::uint32_t attempts) {
        return object.key % 7 == 0 && attempts > 2;
      };
      for (std::uint64_t i = 0; i < 40; ++i) rig.make(i);
      const std::uint64_t rounds = loop_length(2000);
      for (std::uint64_t round = 0; round < rounds; ++round) {
        FakeObject& object = *rig.objects[rng.below(rig.objects.size())];
        switch (rng.below(16)) {
          case 0:
            rig.cancel(object);
            break;
          case 1:
            static_cast<void>(rig.engine->fsync(object));
            break;
          case 2:
            static_cast<void>(rig.engine->sync(*rig.context, nullptr, rig.clock.now() + milliseconds(30)));
            break;
          case 3:
            rig.engine->reclaim(*rig.context, rng.below(100'000));
            break;
          case 4:
          case 5:
          case 6:
            rig.driver->run_for(milliseconds(static_cast<std::int64_t>(rng.below(60))));
            break;
          case 7:
            if (rng.chance(20)) rig.clock.set(rig.clock.now() - seconds(100));
            if (rng.chance(10)) rig.driver->run_for(seconds(40));
            break;
          default:
            rig.dirty(object, rng.below(30'000), rng.chance(3) ? kDirtyMetadata : kDirtyData);
        }
        std::uint64_t objects = 0;
        std::uint64_t bytes = 0;
        std::uint64_t writing = 0;
        for (const auto& each : rig.objects) {
          if (!each->state().clean()) ++objects;
          bytes += each->dirty_bytes.load(std::memory_order_relaxed);
          if (each->being_written) writing += each->writing_bytes + o.object_overhead_bytes;
        }
        for (const auto& each : rig.objects) bytes += each->being_written ? each->writing_bytes : 0;
        bytes += objects * o.object_overhead_bytes;
        ASSERT_EQ(rig.context->counts().objects(), objects) << round;
        ASSERT_EQ(rig.context->counts().total(), bytes) << round;
        ASSERT_EQ(rig.engine->dirty_and_writeback_bytes(), bytes) << round;
        ASSERT_EQ(rig.context->counts().writeback(), writing) << round;
        ASSERT_GE(rig.engine->charged_bytes(), bytes) << round;
        rig.context->list().check_invariants();
      }
    }
  }
}

// 19 and 23: between the failed write and the next one an object can be taken for clean by nobody: it is
// dirty, its bytes are, and fsync says so each time it is asked.
TEST(FaultErrors, AFailedObjectIsDirtyUntilAWriteOfItHasSucceeded) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    bool fails = true;
    rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
      slot.error.code = Reason::kIo;
      return fails ? WriteOutcome::kFailed : WriteOutcome::kWritten;
    };
    FakeObject& object = rig.make();
    rig.dirty(object, 4096);
    for (int i = 0; i < 3; ++i) {
      // Without a handle too: the second fsync of 2018 said that all was well.
      const Result<void> told = rig.engine->fsync(object);
      ASSERT_FALSE(told.has_value()) << design << i;
      EXPECT_EQ(told.error().code, Reason::kIo);
      EXPECT_FALSE(object.state().clean());
      EXPECT_EQ(object.dirty_bytes.load(std::memory_order_relaxed), 4096U);
    }
    fails = false;
    EXPECT_TRUE(rig.engine->fsync(object).has_value()) << design;
    EXPECT_TRUE(object.state().clean());
  }
}

// 20: a failure that lasts for six weeks. Nothing is dropped at any retry count, and the write after it
// succeeds.
TEST(FaultErrors, NoNumberOfRetriesDropsAnything) {
  VirtualRig rig(small_options());
  bool fails = true;
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    slot.error.code = Reason::kIo;
    return fails ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  FakeObject& object = rig.make();
  ErrorCursor handle = ErrorSequence::sample(object.write_errors);
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(1000 * 3600));
  EXPECT_GT(rig.engine->stats().failed_writes, 50'000U);
  EXPECT_FALSE(object.state().clean());
  EXPECT_EQ(object.dirty_bytes.load(std::memory_order_relaxed), 4096U);
  EXPECT_EQ(rig.dirty_objects(), 1U);
  EXPECT_EQ(rig.engine->stats().given_up, 0U);
  fails = false;
  rig.driver->run_for(seconds(80));
  EXPECT_TRUE(object.state().clean());
  EXPECT_FALSE(rig.engine->fsync(object, &handle).has_value()) << "nobody was told";
  EXPECT_TRUE(rig.engine->fsync(object, &handle).has_value());
}

// 21: the device has stopped. Whoever writes, whatever they write, and though syncs give up meanwhile:
// dirty and writeback bytes stay below the limit, and all of it is written once the device goes on.
TEST(FaultLimit, HoldsWhileTheDeviceIsStalledAndSyncsTimeOut) {
  EngineOptions o = small_options();
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1));
  device.stalled = true;
  rig.target.device = &device;
  Rng rng(5);
  rig.driver->post(
      rig.clock.now() + seconds(7200),
      [](void* owner, std::uint64_t) { static_cast<VirtualDevice*>(owner)->resume(); }, &device);
  const auto held = [&] {
    std::uint64_t bytes = 0;
    for (const auto& each : rig.objects) {
      if (!each->state().clean()) bytes += o.object_overhead_bytes;
      bytes += each->dirty_bytes.load(std::memory_order_relaxed) + each->writing_bytes;
    }
    return bytes;
  };
  for (int i = 0; i < 2000; ++i) {
    if (device.stalled && rig.dirty_objects() < 700) {
      static_cast<void>(rig.engine->sync(*rig.context, nullptr, rig.clock.now() + milliseconds(1)));
    }
    rig.dirty(rig.make(), 1 + rng.below(9000));
    ASSERT_LE(held(), o.dirty_bytes) << i;
  }
  EXPECT_GE((rig.clock.now() - VirtualRig::seconds_at(1000)).ns, seconds(7200).ns) << "nobody waited";
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

// 1: whoever waits at the limit finds a flusher at work, also where the background threshold is set so high
// that the limit comes first, and nothing is periodic.
TEST(FaultLimit, BelowTheBackgroundThresholdItStillHasAFlusherAtWork) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    o.background_bytes = 1ULL << 30;
    o.interval = {0};
    o.writer_recheck = Duration::max();  // nobody wakes the flusher later
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    for (int i = 0; i < 3000; ++i) rig.dirty(rig.make(), 4096);  // four times the limit
    EXPECT_GT(rig.engine->stats().throttle_pauses, 0U) << design;
    EXPECT_LE(rig.engine->dirty_and_writeback_bytes(), o.dirty_bytes) << design;
  }
}

// P11: contexts are refused beyond a fixed number, and a place that is given up is used again.
TEST(FaultContexts, TheirNumberIsBounded) {
  EngineOptions o = small_options();
  o.batch_objects = 1;
  o.batches_in_flight = 1;
  VirtualRig rig(o);
  std::vector<WritebackContext*> contexts;
  while (contexts.size() < 5000) {
    Error why;
    WritebackContext* added = rig.engine->add_context(rig.target, {}, &why);
    if (added == nullptr) {
      EXPECT_EQ(why.code, Reason::kBusy);
      break;
    }
    contexts.push_back(added);
  }
  EXPECT_EQ(contexts.size(), WritebackEngine::kMaxContexts - 1) << "and the rig's own";
  ASSERT_TRUE(rig.engine->remove_context(*contexts.back()).has_value());
  contexts.back() = rig.engine->add_context(rig.target);
  ASSERT_NE(contexts.back(), nullptr);
  for (WritebackContext* each : contexts) EXPECT_TRUE(rig.engine->remove_context(*each).has_value());
}

// 22: batches complete in the opposite order, while the object is dirtied again and again and fsync asks
// for it too. There is one write of it at a time (FakeTarget asserts), so what is durable never goes
// back.
TEST(FaultOrder, ReversedCompletionsNeverTakeAnObjectBack) {
  struct Reversing final : FakeDevice {
    VirtualDriver* driver = nullptr;
    std::vector<Batch*> held;
    void start(Batch& batch) override {
      held.push_back(&batch);
      driver->post(driver->clock().now() + milliseconds(5), &Reversing::end, this);
    }
    static void end(void* self, std::uint64_t) {
      auto& mine = *static_cast<Reversing*>(self);
      Batch* latest = mine.held.back();
      mine.held.pop_back();
      latest->complete();
    }
  };
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    o.background_bytes = 0;
    o.flushers = 3;
    o.batch_objects = 2;
    VirtualRig rig(o);
    Reversing device;
    device.driver = rig.driver;
    rig.target.device = &device;
    std::array<std::uint64_t, 4> version{};
    std::array<std::uint64_t, 4> taken{};
    std::array<std::uint64_t, 4> durable{};
    rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
      taken[object.key] = version[object.key];
    };
    rig.target.on_ended = [&](FakeObject& object) {
      EXPECT_GE(taken[object.key], durable[object.key]) << design;
      durable[object.key] = taken[object.key];
    };
    for (std::uint64_t i = 0; i < 4; ++i) rig.make(i);
    Rng rng(9);
    for (std::uint64_t round = 0; round < loop_length(1000); ++round) {
      FakeObject& object = *rig.objects[rng.below(4)];
      ++version[object.key];
      rig.dirty(object, 1 + rng.below(3000));
      if (rng.chance(5)) {
        const std::uint64_t before = version[object.key];
        EXPECT_TRUE(rig.engine->fsync(object).has_value());
        EXPECT_GE(durable[object.key], before) << design;
      }
      rig.driver->run_for(milliseconds(static_cast<std::int64_t>(rng.below(4))));
    }
    EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
    EXPECT_EQ(durable, version) << design;
  }
}

// 28: a work ends half way, with buckets detached, objects claimed and objects given back. Nothing hangs
// on it: the next work, and a sync, find all that is dirty.
TEST(FaultLeaks, AWorkThatEndsHalfWayHoldsNothingBack) {
  for (const std::string& design : all_designs_and_orders()) {
    for (const WorkKind ends : {WorkKind::kBackground, WorkKind::kSync}) {
      for (const WorkKind finds : {WorkKind::kBackground, WorkKind::kSync}) {
        ListRig rig(design, 100);
        for (std::size_t i = 0; i < 100; ++i) {
          rig.mark(i);
          rig.pass(milliseconds(50));
        }
        {
          auto half = rig.select(ends);
          std::array<DirtyObject*, 10> claimed{};
          ASSERT_EQ(half->claim(claimed), 10U);
          for (DirtyObject* object : claimed) rig.list->unclaim(*object, rig.now);
          auto slots = rig.begin(*half, 10);
          for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kPartial, ends);
        }
        EXPECT_EQ(rig.list->listed(), 100U);
        std::set<DirtyObject*> found;
        for (DirtyObject* object : rig.work(finds)) found.insert(object);
        EXPECT_EQ(found.size(), 100U) << design;
        EXPECT_EQ(rig.list->listed(), 0U) << design;
        rig.list->check_invariants();
      }
    }
  }
}

// 28: a writer that goes away with its grant unused leaves nothing charged, or the limit would shrink
// with each.
TEST(FaultLeaks, WhatIsGrantedAndNotUsedGoesBack) {
  for (const std::uint64_t chunk : {0, 64 << 10}) {
    EngineOptions o = small_options();
    o.counter_chunk_bytes = chunk;
    o.writer_recheck = Duration::max();  // who waits for what never comes back is an assertion of the driver
    VirtualRig rig(o);
    for (int i = 0; i < 10'000; ++i) {
      Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*rig.context, 100'000);
      ASSERT_TRUE(grant.has_value());
      if (i % 2 == 0) {
        DirtyGrant moved = std::move(*grant);
        ASSERT_GE(moved.bytes(), 100'000U);
      }
    }
    EXPECT_EQ(rig.engine->stats().throttle_pauses, 0U);
    EXPECT_EQ(rig.engine->dirty_and_writeback_bytes(), 0U);
  }
}

// ---- beside each other ----

EngineOptions sim_options() {
  EngineOptions o;
  o.dirty_bytes = 64 << 10;
  o.background_bytes = 0;
  o.object_overhead_bytes = 256;
  o.counter_chunk_bytes = 0;
  o.batch_objects = 2;
  o.batch_bytes = 8 << 10;
  o.batches_in_flight = 2;
  o.interval = {0};
  o.expire = seconds(1'000'000'000);
  o.writer_recheck = Duration::max();
  o.shards = 1;
  return o;
}

struct Rig {
  explicit Rig(const EngineOptions& o) {
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
  }
  ~Rig() { engine->stop(); }
  void dirty(FakeObject& object, std::uint64_t bytes) {
    object.set_context(context->id());
    engine->account_dirtied(*context, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyData, engine->clock().now());
  }
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

class Completing final : public FakeDevice {
 public:
  explicit Completing(Duration latency) : latency_(latency) {}
  ~Completing() override { join(); }
  void start(Batch& batch) override {
    MutexLock guard(lock_);
    threads_.emplace_back("io", [&batch, latency = latency_] {
      if (latency.ns != 0) sleep_for(latency);
      batch.complete();
    });
  }
  void join() {
    std::vector<Thread> ended;
    {
      MutexLock guard(lock_);
      ended.swap(threads_);
    }
    for (Thread& thread : ended) thread.join();
  }

 private:
  const Duration latency_;
  Mutex lock_{fault_test_class};
  std::vector<Thread> threads_ TW_GUARDED_BY(lock_);
};

// 5: the drain has ended and the context goes, while the device's thread that completed its last batch is
// still inside complete(): its last touch of the context comes before the context's end.
SIM_TEST_WITH(FaultDrainSim, AContextOutlivesTheCompletionThatEndsItsDrain,
              (sim::Options{.schedules = 400})) {
  EngineOptions o = sim_options();
  Completing device({0});
  Rig rig(o);
  rig.target.device = &device;
  FakeTarget going_target;
  going_target.device = &device;
  for (int round = 0; round < 2; ++round) {
    WritebackContext* going = rig.engine->add_context(going_target);
    SIM_CHECK(going != nullptr);
    FakeObject object;
    object.set_context(going->id());
    rig.engine->mark_dirty(object, kDirtyMetadata, rig.engine->clock().now());
    if (round == 1) SIM_CHECK(rig.engine->fsync(object).has_value());
    SIM_CHECK(rig.engine->remove_context(*going).has_value());
    SIM_CHECK(object.state().clean());
  }
}

// 5: what is dirtied in the moment in which a flusher finds nothing more to do is written all the same.
SIM_TEST_WITH(FaultDrainSim, WhatComesAsAFlusherGoesToSleepIsWritten, (sim::Options{.schedules = 400})) {
  Rig rig(sim_options());
  std::array<FakeObject, 3> objects;
  Thread writer("writer", [&] {
    for (FakeObject& object : objects) rig.dirty(object, 100);
  });
  writer.join();
  for (FakeObject& object : objects) {
    while (!object.state().clean()) sleep_for(seconds(1));  // no progress for 120 s is a failure
  }
}

// 29: a target that dirties, fsyncs and asks for reclaim from inside its own write, with two flushers: no
// lock of the engine is held across a call of the target, so nothing waits for itself.
SIM_TEST_WITH(FaultNestedSim, ATargetMayComeBackFromInsideItsWrite, (sim::Options{.schedules = 300})) {
  EngineOptions o = sim_options();
  o.flushers = 2;
  Rig rig(o);
  FakeTarget journal_target;
  WritebackContext* journal = rig.engine->add_context(journal_target);
  std::array<FakeObject, 4> objects;
  std::array<FakeObject, 4> records;
  FakeObject same_list;
  Atomic<bool> once{false};
  rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
    if (&object == &same_list) return;
    FakeObject& record = records[object.key];
    record.set_context(journal->id());
    rig.engine->mark_dirty(record, kDirtyMetadata, rig.engine->clock().now());
    SIM_CHECK(rig.engine->fsync(record).has_value());
    rig.engine->reclaim(*rig.context, 4096);
    if (!once.exchange(true, std::memory_order_seq_cst)) rig.dirty(same_list, 100);
  };
  for (std::uint64_t i = 0; i < objects.size(); ++i) {
    objects[i].key = i;
    rig.dirty(objects[i], 3000);
  }
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  for (FakeObject& object : objects) SIM_CHECK(object.state().clean());
  for (FakeObject& record : records) SIM_CHECK(record.writes > 0);
  SIM_CHECK(same_list.state().clean());
}

// 30: many syncs at once are one that runs and one that follows it, whatever their number.
SIM_TEST_WITH(FaultQueueSim, SyncsThatWaitShareOneRun, (sim::Options{.schedules = 100})) {
  EngineOptions o = sim_options();
  o.background_bytes = o.dirty_bytes / 2;
  Completing device(milliseconds(100));
  Rig rig(o);
  rig.target.device = &device;
  FakeObject first;
  FakeObject second;
  rig.dirty(first, 100);
  std::vector<Thread> callers;
  const auto call = [&] { SIM_CHECK(rig.engine->sync(*rig.context).has_value()); };
  callers.emplace_back("sync", call);
  while (first.state().phase() != DirtyPhase::kWriting) sleep_for(microseconds(10));
  rig.dirty(second, 100);
  const std::uint64_t works = rig.engine->stats().works;
  for (int i = 0; i < 8; ++i) callers.emplace_back("sync", call);
  for (Thread& caller : callers) caller.join();
  SIM_CHECK(second.state().clean());
  SIM_CHECK(rig.engine->stats().works - works == 1);
  SIM_CHECK(rig.target.flushes.load(std::memory_order_relaxed) == 2);
}

// 30: syncs that time out one after the other leave one run behind, not one each.
TEST(FaultQueue, SyncsThatNobodyWaitsForLeaveOneRunBehind) {
  VirtualRig rig(small_options());
  VirtualDevice device(*rig.driver, milliseconds(2));
  device.stalled = true;
  rig.target.device = &device;
  for (int i = 0; i < 10; ++i) rig.dirty(rig.make(), 4096);
  const std::uint64_t before = rig.engine->stats().works;
  for (int i = 0; i < 100'000; ++i) {
    const Result<void> late = rig.engine->sync(*rig.context, nullptr, rig.clock.now() - seconds(1));
    ASSERT_EQ(late.error().code, Reason::kTimedOut);
  }
  rig.driver->run_for(seconds(1));
  EXPECT_EQ(device.in_flight, 1U);
  device.resume();
  rig.driver->run_for(seconds(1));
  EXPECT_EQ(rig.dirty_objects(), 0U);
  EXPECT_LE(rig.engine->stats().works - before, 2U);
  EXPECT_LE(rig.target.batches.load(std::memory_order_relaxed), 2U);
}

}  // namespace
}  // namespace tidewheel
