// Writers at the hard limit of a device that fails: told so instead of waiting for ever, and not too soon.
#include "engine_rig.h"

namespace tidewheel {
namespace {

class EngineFailing : public ::testing::TestWithParam<const char*> {
 public:
  EngineFailing() : rig(options()), device(*rig.driver, milliseconds(2)) {
    rig.target.device = &device;
    rig.target.decide = [this](FakeObject&, WriteSlot& slot) {
      if (!fails) return WriteOutcome::kWritten;
      slot.error.code = Reason::kNoSpace;
      return WriteOutcome::kFailed;
    };
  }
  static EngineOptions options() {
    EngineOptions o = small_options();
    o.design = GetParam();
    return o;
  }
  // What a writer is answered, and what it dirties if it may.
  Reason ask(std::uint64_t bytes = 64 << 10) {
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*rig.context, bytes);
    if (!grant) return grant.error().code;
    FakeObject& object = rig.make();
    rig.engine->account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    rig.engine->mark_dirty(object, kDirtyData, rig.clock.now(), &*grant);
    return Reason::kOk;
  }
  // Writes until it has to wait; then, what it is answered.
  Reason fill() {
    for (;;) {
      const Reason reason = ask();
      if (reason != Reason::kOk || rig.engine->stats().throttle_pauses != 0) return reason;
    }
  }
  void TearDown() override { EXPECT_EQ(rig.engine->throttled_threads(), 0U); }

  bool fails = true;
  VirtualRig rig;
  VirtualDevice device;
};
INSTANTIATE_TEST_SUITE_P(Designs, EngineFailing, ::testing::ValuesIn(kAllDesigns), [](const auto& each) {
  std::string name = each.param;
  std::erase(name, '-');
  return name;
});

TEST_P(EngineFailing, AWriterOfAFullDeviceIsToldSoAndNothingIsLost) {
  const Instant began = rig.clock.now();
  EXPECT_EQ(fill(), Reason::kNoSpace);
  const Duration waited = rig.clock.now() - began;
  EXPECT_GE(waited, seconds(3));
  EXPECT_LE(waited, seconds(4));
  for (const auto& object : rig.objects) EXPECT_FALSE(object->state().clean());
  EXPECT_GT(rig.engine->dirty_and_writeback_bytes(), rig.engine->options().dirty_bytes - (128 << 10));
  // Known by now: the next one needn't wait for it (a round of retries, where failures are not told apart).
  const bool has_ladder = std::string(GetParam()) != "syncer-slots";
  const Instant asked = rig.clock.now();
  EXPECT_EQ(ask(), Reason::kNoSpace);
  EXPECT_LE(rig.clock.now() - asked, has_ladder ? Duration{0} : seconds(2));

  fails = false;
  if (!has_ladder) (void)rig.engine->sync(*rig.context);  // tells of what is on its way
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(rig.dirty_objects(), 0U);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(ask(), Reason::kOk);
}

TEST_P(EngineFailing, WritersGoOnWhenARetrySucceeds) {
  EXPECT_EQ(fill(), Reason::kNoSpace);
  fails = false;
  rig.driver->run_for(seconds(73));  // the longest back-off and an eighth
  for (int i = 0; i < 200; ++i) ASSERT_EQ(ask(), Reason::kOk);
}

TEST_P(EngineFailing, AFailureThatPassesIsWaitedOut) {
  rig.driver->post(rig.clock.now() + milliseconds(2500), [](void* self, std::uint64_t) {
    static_cast<EngineFailing*>(self)->fails = false;
  }, this);
  EXPECT_EQ(fill(), Reason::kOk);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(ask(), Reason::kOk);
}

TEST_P(EngineFailing, OneBadObjectAmongGoodOnesRefusesNobody) {
  fails = false;
  FakeObject& bad = rig.make();
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    return &object == &bad ? WriteOutcome::kFailed : WriteOutcome::kWritten;
  };
  rig.dirty(bad, 4096);
  rig.driver->run_for(seconds(60));  // it alone is dirty, and fails and fails
  for (int i = 0; i < 500; ++i) ASSERT_EQ(ask(), Reason::kOk);
  EXPECT_GT(rig.engine->stats().throttle_pauses, 0U);
}

// The limit is shared. While the other context can make room, its writing is waited for.
TEST_P(EngineFailing, AWriterIsRefusedOnlyForWhatFailingContextsHold) {
  FakeTarget other_target;
  WritebackContext& other = *rig.engine->add_context(other_target);
  other_target.context = &other;
  VirtualDevice other_device(*rig.driver, seconds(1));
  other_target.device = &other_device;
  FakeObject healthy;
  healthy.set_context(other.id());
  const auto ask_other = [&](std::uint64_t bytes) {
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(other, bytes);
    if (!grant) return grant.error().code;
    rig.engine->account_dirtied(*grant, bytes);
    healthy.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    rig.engine->mark_dirty(healthy, kDirtyData, rig.clock.now(), &*grant);
    return Reason::kOk;
  };
  while (rig.engine->dirty_and_writeback_bytes() < (2 << 20)) ASSERT_EQ(ask(), Reason::kOk);
  rig.driver->run_for(seconds(10));  // the first context fails by now
  for (int i = 0; i < 6; ++i) EXPECT_EQ(ask_other(1 << 20), Reason::kOk) << i;
  Reason answer = Reason::kOk;
  for (int i = 0; i < 1000 && answer == Reason::kOk; ++i) answer = ask();
  EXPECT_EQ(answer, Reason::kNoSpace);
  // Nothing but what fails is dirty: the healthy context's writer can't be helped either.
  ASSERT_TRUE(rig.engine->sync(other).has_value());
  while (ask() == Reason::kOk) {
  }
  EXPECT_EQ(ask_other(1 << 20), Reason::kNoSpace);
  EXPECT_TRUE(rig.engine->remove_context(other).has_value());
}

TEST_P(EngineFailing, AWriterIsToldItsOwnContextsError) {
  FakeTarget other_target;
  WritebackContext& other = *rig.engine->add_context(other_target);
  other_target.context = &other;
  VirtualDevice other_device(*rig.driver, milliseconds(2));
  other_target.device = &other_device;
  other_target.decide = [this](FakeObject&, WriteSlot& slot) {
    if (!fails) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    return WriteOutcome::kFailed;
  };
  FakeObject object;
  object.set_context(other.id());
  const auto ask_other = [&](std::uint64_t bytes) {
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(other, bytes);
    if (!grant) return grant.error().code;
    rig.engine->account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    rig.engine->mark_dirty(object, kDirtyData, rig.clock.now(), &*grant);
    return Reason::kOk;
  };
  ASSERT_EQ(ask_other(64 << 10), Reason::kOk);
  Reason answer = Reason::kOk;
  while (answer == Reason::kOk) answer = ask();
  for (int i = 0; i < 2; ++i) {  // whichever failed last
    EXPECT_EQ(ask_other(1 << 20), Reason::kIo);
    EXPECT_EQ(ask(1 << 20), Reason::kNoSpace);
  }
  fails = false;
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_TRUE(rig.engine->remove_context(other).has_value());
}

TEST_P(EngineFailing, AnInterruptEndsAWaitBeforeTheErrorIsKnown) {
  rig.driver->post(rig.clock.now() + seconds(1), [](void* self, std::uint64_t) {
    static_cast<EngineFailing*>(self)->rig.engine->interrupt_waiters();
  }, this);
  EXPECT_EQ(fill(), Reason::kInterrupted);
  rig.engine->end_interrupt();
}

}  // namespace
}  // namespace tidewheel
