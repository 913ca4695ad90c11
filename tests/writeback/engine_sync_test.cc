// Sync, fsync, cancel, errors; in virtual time, on all designs.
#include "base/rng.h"
#include "engine_rig.h"

namespace tidewheel {
namespace {

class EngineIntegrity : public ::testing::TestWithParam<const char*> {
 protected:
  EngineOptions options() const {
    EngineOptions o = small_options();
    o.design = GetParam();
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(Designs, EngineIntegrity, ::testing::ValuesIn(kAllDesigns), [](const auto& each) {
  std::string name = each.param;
  std::erase(name, '-');
  return name;
});

// A writer that dirties one object after the other, for ever.
struct EndlessWriter {
  VirtualRig& rig;
  std::vector<FakeObject*> objects;
  std::uint64_t writes = 0;
  bool stopped = false;
  explicit EndlessWriter(VirtualRig& r, int count) : rig(r) {
    for (int i = 0; i < count; ++i) objects.push_back(&rig.make(static_cast<std::uint64_t>(i)));
    rig.driver->post(rig.clock.now(), &EndlessWriter::next, this);
  }
  static void next(void* self, std::uint64_t) {
    auto& writer = *static_cast<EndlessWriter*>(self);
    if (writer.stopped) return;
    FakeObject& object = *writer.objects[writer.writes++ % writer.objects.size()];
    WritebackEngine& engine = *writer.rig.engine;
    // Never waits: dirt that can't be refused.
    engine.account_dirtied(*writer.rig.context, 100);
    object.dirty_bytes.fetch_add(100, std::memory_order_seq_cst);
    engine.mark_dirty(object, kDirtyData, writer.rig.clock.now());
    writer.rig.driver->post(writer.rig.clock.now() + microseconds(50), &EndlessWriter::next, self);
  }
};

TEST_P(EngineIntegrity, SyncWritesEverythingAndFlushesOnce) {
  VirtualRig rig(options());
  VirtualDevice device(*rig.driver, milliseconds(2), 50 << 20);
  rig.target.device = &device;
  for (int i = 0; i < 100; ++i) rig.dirty(rig.make(), 4096);
  rig.dirty(rig.make(), 0, kDirtyTimestamps);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 1U);
}

// A drain: what is not written at the deadline stays dirty and goes on; a later sync finds it done.
TEST_P(EngineIntegrity, SyncEndsAtItsDeadlineAndDropsNothing) {
  VirtualRig rig(options());
  VirtualDevice device(*rig.driver, milliseconds(2));
  device.stalled = true;
  rig.target.device = &device;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  ErrorCursor handle;
  const Instant deadline = rig.clock.now() + milliseconds(700);
  const Result<void> late = rig.engine->sync(*rig.context, &handle, deadline);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Reason::kTimedOut);
  EXPECT_EQ(rig.clock.now(), deadline) << "not before, and not after";
  EXPECT_EQ(rig.dirty_objects(), 1U);
  const Result<void> past = rig.engine->sync(*rig.context, nullptr, rig.clock.now() - seconds(1));
  EXPECT_FALSE(past.has_value()) << "a deadline that has passed";
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 0U);

  device.resume();
  EXPECT_TRUE(rig.engine->sync(*rig.context, &handle, rig.clock.now() + milliseconds(3)).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
  EXPECT_EQ(object.writes, 1U) << "what was on its way was not begun again";
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 1U);
}

// Dirtied again while it was written, then the clock was set back: its stamp lies beyond the moment of a sync
// that begins after that, and it was dirty before.
TEST_P(EngineIntegrity, SyncCoversWhatComesBackWithAStampOfBeforeTheClockWasSetBack) {
  EngineOptions o = options();
  o.shards = 1;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1));
  rig.target.device = &device;
  device.stalled = true;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.engine->reclaim(*rig.context, 1);
  rig.driver->run_for(milliseconds(1));
  ASSERT_EQ(object.writes, 1U);
  rig.dirty(object, 4096);
  rig.driver->step_clock(seconds(-16));
  rig.dirty(rig.make(), 4096);  // the shard's stamps go on from the new time
  const auto resume = [](void* self, std::uint64_t) { static_cast<VirtualDevice*>(self)->resume(); };
  rig.driver->post(rig.clock.now() + seconds(1), resume, &device, 0);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(object.writes, 2U);
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

// The caller's moment is read; then another flusher files x (skipped) and the classic lists give it a younger
// stamp; then the selection is made, and covers it; then the other flusher takes it out of the shared list.
TEST_P(EngineIntegrity, SyncWaitsForWhatGotAYoungerStampBeforeItsSelection) {
  EngineOptions o = options();
  o.flushers = 2;
  o.shards = 1;
  o.background_bytes = 0;
  o.batch_objects = 1;
  o.batch_bytes = 1;
  o.batches_in_flight = 1;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1));
  int skips = 1;
  FakeObject& x = rig.make(1);
  FakeObject& y = rig.make(2);
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    return &object == &x && skips-- > 0 ? WriteOutcome::kSkipped : WriteOutcome::kWritten;
  };
  struct Held final : FakeDevice {
    VirtualDevice* then = nullptr;
    Batch* batch = nullptr;
    void start(Batch& b) override {
      if (batch != nullptr) return then->start(b);
      batch = &b;
    }
  } held;
  held.then = &device;
  rig.target.device = &held;
  rig.dirty(x, 1000);
  rig.driver->run_for(milliseconds(20));
  ASSERT_NE(held.batch, nullptr);
  // The reading of a thread that is ahead: the list's youngest stamp lies beyond the sync's moment.
  rig.engine->account_dirtied(*rig.context, 1000);
  y.dirty_bytes.fetch_add(1000, std::memory_order_seq_cst);
  rig.engine->mark_dirty(y, kDirtyData, rig.clock.now() + milliseconds(10));
  held.batch->complete();
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_TRUE(x.state().clean());
  EXPECT_TRUE(y.state().clean());
}

TEST_P(EngineIntegrity, SyncEndsThoughWritersGoOn) {
  VirtualRig rig(options());
  VirtualDevice device(*rig.driver, milliseconds(2), 50 << 20);
  rig.target.device = &device;
  std::vector<FakeObject*> before;
  for (int i = 0; i < 200; ++i) rig.dirty(*before.emplace_back(&rig.make()), 4096);
  EndlessWriter writer(rig, 50);
  rig.driver->run_for(milliseconds(10));
  const Instant began = rig.clock.now();
  const std::uint64_t written_before = rig.engine->stats().objects;
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_LT((rig.clock.now() - began).ns, seconds(1).ns);
  for (const FakeObject* object : before) EXPECT_TRUE(object->state().clean());
  // P4: dirty at the start, plus at most one more write of each that was rewritten meanwhile.
  EXPECT_LE(rig.engine->stats().objects - written_before, 200U + 2 * 50U);
  writer.stopped = true;
  rig.driver->run_for(seconds(1));
}

TEST_P(EngineIntegrity, SyncWaitsForWhatIsInFlightAtTheCall) {
  EngineOptions o = options();
  o.background_bytes = 0;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, seconds(3));
  rig.target.device = &device;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(milliseconds(100));
  ASSERT_EQ(object.state().phase(), DirtyPhase::kWriting);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_TRUE(object.state().clean());
}

TEST_P(EngineIntegrity, SyncCoversWhatIsRedirtiedWhileInFlightBeforeTheCall) {
  EngineOptions o = options();
  o.background_bytes = 0;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, seconds(3));
  rig.target.device = &device;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(milliseconds(100));
  ASSERT_EQ(object.state().phase(), DirtyPhase::kWriting);
  rig.dirty(object, 4096);
  rig.driver->run_for(milliseconds(100));
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(object.writes, 2U);
  EXPECT_TRUE(object.state().clean());
}

// The stamp of what is in flight then lies in the future: the batch's number tells that it came before.
TEST_P(EngineIntegrity, SyncWaitsForWhatIsInFlightAfterTheClockSteppedBack) {
  EngineOptions o = options();
  o.background_bytes = 0;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, seconds(3));
  rig.target.device = &device;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(milliseconds(100));
  ASSERT_EQ(object.state().phase(), DirtyPhase::kWriting);
  rig.clock.set(rig.clock.now() - seconds(600));
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_TRUE(object.state().clean());
}

TEST_P(EngineIntegrity, TicksGoOnAfterTheClockSteppedBack) {
  VirtualRig rig(options());
  rig.dirty(rig.make(), 4096);
  rig.driver->run_for(seconds(1));
  rig.clock.set(rig.clock.now() - seconds(600));
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  // The sleep that was under way is not cut short by a clock that steps: 600 s, and then as ever.
  rig.driver->run_for(seconds(650));
  EXPECT_GE(object.writes, 1U);
}

TEST_P(EngineIntegrity, SyncIsNotHeldUpByBackgroundWork) {
  EngineOptions o = options();
  o.dirty_bytes = 256 << 20;
  o.background_bytes = 1 << 20;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1), 20 << 20);
  rig.target.device = &device;
  for (int i = 0; i < 20'000; ++i) rig.dirty(rig.make(), 4096);  // 80 MB: 4 s of the device
  rig.driver->run_for(milliseconds(100));                        // background is at work
  const Instant began = rig.clock.now();
  std::vector<WorkKind> kinds;
  rig.target.on_write = [&](FakeObject&, const WriteSlot&, WorkKind kind) { kinds.push_back(kind); };
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_LT((rig.clock.now() - began).ns, seconds(6).ns);
  // All that was written from the call on was written for it, but for the batch being made at that moment.
  const auto others =
      std::count_if(kinds.begin(), kinds.end(), [](WorkKind kind) { return kind != WorkKind::kSync; });
  EXPECT_LE(others, 64);
}

TEST_P(EngineIntegrity, SyncOfAnEmptyContextOnlyFlushes) {
  VirtualRig rig(options());
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(rig.target.batches.load(std::memory_order_relaxed), 0U);
}

TEST_P(EngineIntegrity, ADeadDeviceEndsASyncAfterOneAttemptEach) {
  VirtualRig rig(options());
  rig.target.decide = [](FakeObject&, WriteSlot& slot) {
    slot.error = Error{Reason::kNoSpace, 0, 0};
    return WriteOutcome::kFailed;
  };
  for (int i = 0; i < 100; ++i) rig.dirty(rig.make(), 4096);
  const Result<void> result = rig.engine->sync(*rig.context);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Reason::kNoSpace);
  EXPECT_EQ(rig.engine->stats().failed_writes, 100U);
  EXPECT_EQ(rig.dirty_objects(), 100U) << "failed objects must stay dirty";
  // They are tried again, and clean once the device is well.
  rig.target.decide = nullptr;
  rig.driver->run_for(seconds(200));
  EXPECT_EQ(rig.dirty_objects(), 0U);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
}

TEST_P(EngineIntegrity, RetriesBackOff) {
  VirtualRig rig(options());
  rig.target.decide = [](FakeObject&, WriteSlot&) { return WriteOutcome::kFailed; };
  rig.dirty(rig.make(), 4096);
  EXPECT_FALSE(rig.engine->sync(*rig.context).has_value());
  rig.driver->run_for(seconds(3600));
  EXPECT_GE(rig.engine->stats().failed_writes, 30U);   // every 64 s at the latest
  EXPECT_LE(rig.engine->stats().failed_writes, 1500U); // a classic design's ring retries faster
  EXPECT_LE(rig.wakeups(), 12'000U);
}

TEST_P(EngineIntegrity, GivingUpIsTheTargetsDecisionAndIsReported) {
  VirtualRig rig(options());
  rig.target.decide = [](FakeObject&, WriteSlot&) { return WriteOutcome::kFailed; };
  rig.target.gives_up = [](const FakeObject&, std::uint32_t attempts) { return attempts >= 3; };
  FakeObject& object = rig.make();
  ErrorCursor handle = ErrorSequence::sample(object.write_errors);
  rig.dirty(object, 4096);
  EXPECT_FALSE(rig.engine->sync(*rig.context).has_value());
  EXPECT_FALSE(object.state().clean());
  rig.driver->run_for(seconds(200));
  EXPECT_TRUE(object.state().clean());
  EXPECT_EQ(rig.engine->stats().given_up, 1U);
  EXPECT_FALSE(rig.engine->fsync(object, &handle).has_value()) << "clean and never reported";
  EXPECT_TRUE(rig.engine->fsync(object, &handle).has_value());
}

TEST_P(EngineIntegrity, EachHandleIsToldOfEachFailureOnce) {
  VirtualRig rig(options());
  FakeObject& object = rig.make();
  bool fail = true;
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    slot.limit_bytes = UINT64_MAX;
    return fail ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  ErrorCursor a = ErrorSequence::sample(object.write_errors);
  ErrorCursor b = ErrorSequence::sample(object.write_errors);
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(36));  // background writeback meets the error, nobody is there to be told
  EXPECT_GE(rig.engine->stats().failed_writes, 1U);
  fail = false;
  EXPECT_FALSE(rig.engine->fsync(object, &a).has_value()) << "fsyncgate: the error was consumed by writeback";
  EXPECT_TRUE(rig.engine->fsync(object, &a).has_value());
  ErrorCursor late = ErrorSequence::sample(object.write_errors);  // opened after somebody has seen it
  EXPECT_TRUE(rig.engine->fsync(object, &late).has_value());
  EXPECT_FALSE(rig.engine->fsync(object, &b).has_value());
  EXPECT_TRUE(rig.engine->fsync(object, &b).has_value());
  // And once more, by sync of the whole, which must not eat the object's error.
  fail = true;
  rig.dirty(object, 4096);
  EXPECT_FALSE(rig.engine->sync(*rig.context).has_value());
  fail = false;
  EXPECT_FALSE(rig.engine->fsync(object, &a).has_value());
  EXPECT_TRUE(rig.engine->fsync(object, &a).has_value());
  EXPECT_FALSE(rig.engine->fsync(object, &b).has_value());
}

TEST_P(EngineIntegrity, AFailedFlushFailsTheSync) {
  VirtualRig rig(options());
  rig.target.flush_result = TW_FAIL(kIo);
  rig.dirty(rig.make(), 4096);
  ErrorCursor handle = ErrorSequence::sample(rig.context->write_errors());
  EXPECT_FALSE(rig.engine->sync(*rig.context, &handle).has_value());
  FakeObject& object = rig.make();
  ErrorCursor opened = ErrorSequence::sample(object.write_errors);
  rig.dirty(object, 4096);
  EXPECT_FALSE(rig.engine->fsync(object, nullptr).has_value());
  rig.target.flush_result = {};
  EXPECT_FALSE(rig.engine->fsync(object, &opened).has_value())
      << "what the failed flush covered was never reported";
  EXPECT_TRUE(rig.engine->fsync(object, &opened).has_value());
}

TEST_P(EngineIntegrity, FsyncWritesOneObjectAlone) {
  VirtualRig rig(options());
  for (int i = 0; i < 50; ++i) rig.dirty(rig.make(), 4096);
  FakeObject& object = *rig.objects[25];
  ASSERT_TRUE(rig.engine->fsync(object).has_value());
  EXPECT_TRUE(object.state().clean());
  EXPECT_EQ(rig.dirty_objects(), 49U);
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 1U);
  ASSERT_TRUE(rig.engine->fsync(object).has_value());  // clean: only the flush
  EXPECT_EQ(object.writes, 1U);
  EXPECT_EQ(rig.target.flushes.load(std::memory_order_relaxed), 2U);
}

TEST_P(EngineIntegrity, FsyncWritesAgainWhatWasDirtiedWhileInFlight) {
  EngineOptions o = options();
  o.background_bytes = 0;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, seconds(1));
  rig.target.device = &device;
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(milliseconds(100));
  ASSERT_EQ(object.state().phase(), DirtyPhase::kWriting);
  rig.dirty(object, 4096);
  ASSERT_TRUE(rig.engine->fsync(object).has_value());
  EXPECT_EQ(object.writes, 2U);
}

TEST_P(EngineIntegrity, CancelWaitsForThisObjectAloneAndTakesListedOnesAtOnce) {
  EngineOptions o = options();
  o.background_bytes = 0;
  o.batches_in_flight = 1;
  o.batch_objects = 4;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, seconds(1));
  rig.target.device = &device;
  for (int i = 0; i < 40; ++i) rig.dirty(rig.make(static_cast<std::uint64_t>(i)), 4096);
  rig.driver->run_for(milliseconds(100));
  const Instant now = rig.clock.now();
  int writing = 0;
  for (const auto& object : rig.objects) {
    if (object->state().phase() == DirtyPhase::kWriting) {
      ++writing;
      continue;
    }
    EXPECT_TRUE(rig.cancel(*object));
    EXPECT_FALSE(rig.cancel(*object));
  }
  EXPECT_EQ(rig.clock.now(), now) << "cancelling what is not being written took time";
  EXPECT_EQ(writing, 4);
  for (const auto& object : rig.objects) {
    if (!object->state().clean()) {
      EXPECT_TRUE(rig.cancel(*object));
    }
  }
  EXPECT_LE((rig.clock.now() - now).ns, seconds(1).ns);
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

TEST_P(EngineIntegrity, ADeviceThatNeverCompletesHangsItsOwnContextOnly) {
  VirtualRig rig(options());
  VirtualDevice dead(*rig.driver, seconds(1));
  dead.stalled = true;
  FakeTarget dead_target;
  dead_target.device = &dead;
  WritebackContext* other = rig.engine->add_context(dead_target, {.name = "dead"});
  FakeObject stuck;
  stuck.set_context(other->id());
  rig.engine->mark_dirty(stuck, kDirtyMetadata, rig.clock.now());
  rig.driver->run_for(seconds(40));
  ASSERT_EQ(stuck.state().phase(), DirtyPhase::kWriting);
  rig.dirty(rig.make(), 4096);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
  dead.resume();
  EXPECT_TRUE(rig.engine->remove_context(*other).has_value());
  EXPECT_TRUE(stuck.state().clean());
}

// Busy, or "partly written" with nothing written: the same to whoever waits.
TEST_P(EngineIntegrity, BusyObjectsAreAskedAgainAndInTheEndReported) {
  for (const WriteOutcome outcome : {WriteOutcome::kSkipped, WriteOutcome::kPartial}) {
    VirtualRig rig(options());
    rig.target.empty_parts = true;
    int busy = 5;
    rig.target.decide = [&](FakeObject&, WriteSlot&) {
      return busy-- > 0 ? outcome : WriteOutcome::kWritten;
    };
    rig.dirty(rig.make(), 4096);
    EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
    EXPECT_EQ(rig.dirty_objects(), 0U);
    std::uint64_t calls = 0;
    rig.target.decide = [&](FakeObject&, WriteSlot&) {
      // Where it spins, time stands still.
      TW_ASSERT(++calls < 10'000, "a busy object is asked in a busy loop");
      return outcome;
    };
    FakeObject& object = rig.make();
    rig.dirty(object, 4096);
    for (const bool one : {false, true}) {
      const Instant began = rig.clock.now();
      const Result<void> result = one ? rig.engine->fsync(object) : rig.engine->sync(*rig.context);
      ASSERT_FALSE(result.has_value());
      EXPECT_EQ(result.error().code, Reason::kBusy);
      EXPECT_LT((rig.clock.now() - began).ns, seconds(60).ns);
      EXPECT_EQ(rig.dirty_objects(), 1U);
    }
    rig.target.decide = nullptr;
  }
}

TEST_P(EngineIntegrity, RemoveContextReportsWhatItCouldNotWrite) {
  VirtualRig rig(options());
  FakeTarget failing;
  failing.decide = [](FakeObject&, WriteSlot&) { return WriteOutcome::kFailed; };
  WritebackContext* other = rig.engine->add_context(failing);
  FakeObject object;
  object.set_context(other->id());
  rig.engine->mark_dirty(object, kDirtyMetadata, rig.clock.now());
  EXPECT_FALSE(rig.engine->remove_context(*other).has_value());
  EXPECT_EQ(rig.engine->context(other->id()), other);
  EXPECT_TRUE(rig.engine->cancel(object));
  EXPECT_TRUE(rig.engine->remove_context(*other).has_value());
}

TEST_P(EngineIntegrity, AfterStopNothingIsWrittenAndObjectsCanBeCancelled) {
  VirtualRig rig(options());
  rig.dirty(rig.make(), 4096);
  rig.engine->stop();
  rig.engine->stop();
  EXPECT_EQ(rig.engine->sync(*rig.context).error().code, Reason::kShutDown);
  EXPECT_EQ(rig.engine->fsync(*rig.objects[0]).error().code, Reason::kShutDown);
  EXPECT_EQ(rig.engine->balance_dirty_pages(*rig.context, 1).error().code, Reason::kShutDown);
  EXPECT_EQ(rig.engine->add_context(rig.target), nullptr);
  EXPECT_EQ(rig.objects[0]->writes, 0U);
  EXPECT_EQ(rig.dirty_objects(), 1U);
}

// P1, P2, P8 under a mix of everything; the age bound is asserted where the design keeps it.
TEST_P(EngineIntegrity, AgeAtWriteStartStaysWithinItsBoundUnderAMix) {
  EngineOptions o = options();
  o.dirty_bytes = 64 << 20;
  o.background_bytes = 32 << 20;
  const bool keeps_age = o.design == "timer-wheel";
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1), 100 << 20);
  rig.target.device = &device;
  Rng rng(11);
  Duration oldest{};
  rig.target.on_write = [&](FakeObject& object, const WriteSlot& slot, WorkKind) {
    if (object.first_dirty == Instant::max()) return;
    EXPECT_GE(slot.stamp, object.first_dirty - seconds(0));
    if (object.retry_step == 0) oldest = std::max(oldest, rig.clock.now() - object.first_dirty);
  };
  rig.target.decide = [&](FakeObject&, WriteSlot&) {
    const std::uint64_t dice = rng.below(20);
    return dice == 0 ? WriteOutcome::kSkipped : dice == 1 ? WriteOutcome::kPartial : WriteOutcome::kWritten;
  };
  std::vector<FakeObject*> objects;
  for (int i = 0; i < 300; ++i) objects.push_back(&rig.make(rng.below(1000)));
  for (int round = 0; round < 20'000; ++round) {
    rig.driver->run_for(milliseconds(static_cast<std::int64_t>(rng.below(40))));
    FakeObject& object = *objects[rng.below(objects.size())];
    switch (rng.below(200)) {
      case 0: {
        const Result<void> synced = rig.engine->sync(*rig.context);
        EXPECT_TRUE(synced.has_value());
        break;
      }
      case 1:
      case 2:
        EXPECT_TRUE(rig.engine->fsync(object).has_value());
        break;
      case 3:
        rig.cancel(object);
        object.first_dirty = Instant::max();
        break;
      default:
        if (rng.chance(4)) rig.dirty(object, 1 + rng.below(5000));
    }
  }
  // Partial writes and skips may cost a few ticks' rounds of service; each is one batch here.
  const Duration bound = o.expire + o.interval + Duration{1LL << 27} + milliseconds(500);
  if (keeps_age) {
    EXPECT_LE(oldest.ns, bound.ns);
  }
  RecordProperty("oldest_age_ms", static_cast<int>(oldest.ns / 1'000'000));
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

// P1 with a device that fails now and then: the first attempt keeps the bound whatever became of others, and
// a failed object's next attempt comes by its back-off, not by its age.
TEST_P(EngineIntegrity, TheFirstAttemptKeepsItsAgeBoundThoughWritesFail) {
  EngineOptions o = options();
  o.dirty_bytes = 64 << 20;
  o.background_bytes = 32 << 20;
  const bool keeps_age = o.design == "timer-wheel";
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(1), 100 << 20);
  rig.target.device = &device;
  Rng rng(13);
  bool fails = true;
  std::uint64_t first_attempts = 0;
  std::uint64_t failures = 0;
  Duration oldest{};
  rig.target.on_write = [&](FakeObject& object, const WriteSlot& slot, WorkKind) {
    const bool failed = slot.outcome == WriteOutcome::kFailed;
    failures += failed ? 1 : 0;
    if (object.retry_step != 0 || object.first_dirty == Instant::max()) return;
    ++first_attempts;
    oldest = std::max(oldest, rig.clock.now() - object.first_dirty);
    if (keeps_age) {
      EXPECT_EQ(slot.stamp, object.first_dirty);
    }
  };
  rig.target.decide = [&](FakeObject&, WriteSlot& slot) {
    if (!fails || !rng.chance(3)) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  std::vector<FakeObject*> objects;
  for (int i = 0; i < 300; ++i) objects.push_back(&rig.make(rng.below(1000)));
  for (int round = 0; round < 20'000; ++round) {
    rig.driver->run_for(milliseconds(static_cast<std::int64_t>(rng.below(40))));
    FakeObject& object = *objects[rng.below(objects.size())];
    if (rng.chance(200)) {
      // Its error is the device's; what failed is still dirty.
      const Result<void> synced = rig.engine->sync(*rig.context);
      EXPECT_TRUE(synced.has_value() || rig.dirty_objects() != 0);
    } else if (object.state().clean() && rng.chance(4)) {
      rig.dirty(object, 1 + rng.below(5000));
    }
  }
  EXPECT_GT(first_attempts, 1000U);
  EXPECT_GT(failures, 300U);
  if (keeps_age) {
    EXPECT_LE(oldest.ns, (o.expire + o.interval + Duration{1LL << 27} + milliseconds(500)).ns);
  }
  fails = false;
  rig.driver->run_for(seconds(200));
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

TEST(ErrorSequence, IsToldOncePerHandleInEveryOrder) {
  // All interleavings of: two failures, two handles that check after each of four steps or not.
  for (std::uint32_t plan = 0; plan < 1U << 10; ++plan) {
    ErrorWord word{0};
    ErrorCursor handles[2] = {ErrorSequence::sample(word), ErrorSequence::sample(word)};
    bool owed[2] = {false, false};
    std::uint32_t bits = plan;
    for (int step = 0; step < 5; ++step) {
      if (step == 1 || step == 3) {
        ErrorSequence::record(word, step == 1 ? Reason::kIo : Reason::kNoSpace);
        owed[0] = owed[1] = true;
      }
      for (int h = 0; h < 2; ++h) {
        const bool checks = (bits & 1U) != 0;
        bits >>= 1;
        if (!checks) continue;
        EXPECT_EQ(ErrorSequence::pending(word, handles[h]), owed[h]);
        EXPECT_EQ(!ErrorSequence::check_and_advance(word, handles[h]).has_value(), owed[h]) << plan;
        owed[h] = false;
        EXPECT_TRUE(ErrorSequence::check_and_advance(word, handles[h]).has_value());
      }
    }
  }
}

TEST(ErrorSequence, AnErrorBeforeOpenIsToldIfNobodyHasSeenIt) {
  ErrorWord word{0};
  ErrorSequence::record(word, Reason::kIo);
  ErrorCursor first = ErrorSequence::sample(word);
  EXPECT_EQ(ErrorSequence::check_and_advance(word, first).error().code, Reason::kIo);
  ErrorCursor second = ErrorSequence::sample(word);
  EXPECT_TRUE(ErrorSequence::check_and_advance(word, second).has_value());
  ErrorSequence::record(word, Reason::kIo);  // the same again is another one, now that it was seen
  EXPECT_FALSE(ErrorSequence::check_and_advance(word, second).has_value());
}

TEST(EngineSync, ObjectsWithoutOverheadAreWrittenByTheFirstBatchToo) {
  EngineOptions o = small_options();
  o.object_overhead_bytes = 0;
  VirtualRig rig(o);
  rig.dirty(rig.make(), 1);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

}  // namespace
}  // namespace tidewheel
