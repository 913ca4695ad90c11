// Work policies: when dirt is written that nobody asks for. Pure values; batching in virtual time; swaps.
#include "writeback/work_policy.h"

#include "base/rng.h"
#include "base/sim.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "sim_options.h"
#include "tests/length.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

constexpr Instant kNow{1'000'000'000'000};

WorkFacts facts() {
  WorkFacts f;
  f.now = kNow;
  f.expire = seconds(30);
  f.interval = seconds(5);
  return f;
}

TEST(WorkPolicyValues, SteadyIsWhatTheOptionsSay) {
  const auto steady = find_work_policy("steady")->make();
  WorkFacts f = facts();
  f.last_activity = kNow;
  const WorkRules rules = steady->rules(f);
  EXPECT_EQ(rules.expire.ns, seconds(30).ns);
  EXPECT_EQ(rules.interval.ns, seconds(5).ns);
  EXPECT_TRUE(rules.background);
  EXPECT_EQ(rules.drain_at, Instant::max());
  EXPECT_FALSE(steady->watches_activity());
}

TEST(WorkPolicyValues, BatchingDrainsAQuietDeviceAndWritesForHeldWritersOnly) {
  const auto batching = find_work_policy("batching")->make();
  WorkFacts f = facts();
  EXPECT_EQ(batching->rules(f).drain_at, Instant::max()) << "it sleeps";
  EXPECT_FALSE(batching->rules(f).background);
  f.last_activity = kNow - seconds(2);
  f.writers_held = true;
  EXPECT_EQ(batching->rules(f).drain_at, kNow + seconds(3));
  EXPECT_TRUE(batching->rules(f).background);
  EXPECT_EQ(batching->rules(f).expire.ns, seconds(30).ns) << "the age is kept";
}

TEST(WorkPolicyValues, NamesAreTakenOnce) {
  EXPECT_FALSE(register_work_policy({"steady", "", find_work_policy("steady")->make}));
  EXPECT_FALSE(register_work_policy({"nothing", "", nullptr}));
  EXPECT_EQ(find_work_policy("nothing"), nullptr);
  VirtualRig rig;
  EXPECT_EQ(rig.engine->set_work_policy("nothing").error().code, Reason::kInvalidArgument);
  EXPECT_EQ(rig.engine->work_policy(), "steady");
  EngineOptions o;
  o.work_policy = "nothing";
  EXPECT_FALSE(WritebackEngine::make(o, std::make_unique<VirtualDriver>(rig.clock)).has_value());
}

EngineOptions batching_options() {
  EngineOptions o = small_options();
  o.expire = seconds(120);
  o.work_policy = "batching";
  return o;
}

// How a device fares: how often it is woken after seven seconds of peace.
struct Peace {
  explicit Peace(VirtualRig& rig) {
    rig.target.on_write = [this, &rig](FakeObject&, const WriteSlot&, WorkKind) {
      const Instant now = rig.clock.now();
      if (last == Instant::min() || now - last > seconds(7)) ++woken;
      last = now;
    };
  }
  Instant last = Instant::min();
  int woken = 0;
};

TEST(WorkPolicyBatching, WakesTheDeviceOncePerExpiry) {
  int woken[2];
  for (const bool batching : {false, true}) {
    EngineOptions o = batching_options();
    if (!batching) o.work_policy = "steady";
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(5));
    rig.target.device = &device;
    Peace peace(rig);
    for (int i = 0; i < 100; ++i) {  // 20 minutes: something every 12 seconds
      rig.dirty(rig.make(), 4096);
      rig.driver->run_for(seconds(12));
    }
    woken[batching ? 1 : 0] = peace.woken;
  }
  EXPECT_GE(woken[0], 80) << "steady writes each by its own age";
  EXPECT_LE(woken[1], 10) << "twenty minutes hold ten times two minutes";
  EXPECT_GE(woken[1], 8);
}

// Whatever wakes it: reads, told by note_activity(); and everything means everything.
TEST(WorkPolicyBatching, WritesEverythingOnceTheDeviceIsQuietAgain) {
  VirtualRig rig(batching_options());
  FakeObject& data = rig.make();
  FakeObject& times = rig.make();
  rig.dirty(data, 3 << 19);  // over the background threshold
  rig.dirty(times, 0, kDirtyTimestamps);
  rig.driver->run_for(seconds(20));
  EXPECT_EQ(rig.dirty_objects(), 2U) << "nothing has woken it";
  for (int i = 0; i < 5; ++i) {
    rig.engine->note_activity(*rig.context);
    rig.driver->run_for(seconds(3));
    EXPECT_EQ(rig.dirty_objects(), 2U) << "it has other things to do";
  }
  FakeObject& late = rig.make();
  rig.dirty(late, 4096);
  rig.driver->run_for(seconds(2) + milliseconds(100));
  EXPECT_EQ(rig.dirty_objects(), 0U);
  const std::uint64_t wakeups = rig.wakeups();
  rig.dirty(late, 4096);
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(rig.dirty_objects(), 1U) << "what it wrote itself is no reason to write more";
  EXPECT_LE(rig.wakeups(), wakeups + 30) << "ticks, of which each finds nothing";
}

TEST(WorkPolicyBatching, ASyncOfWhatIsDirtyIsFollowedByWhatCameMeanwhile) {
  VirtualRig rig(batching_options());
  rig.dirty(rig.make(), 4096);
  EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
  rig.dirty(rig.make(), 4096);
  rig.driver->run_for(seconds(4));
  EXPECT_EQ(rig.dirty_objects(), 1U);
  rig.driver->run_for(seconds(2));
  EXPECT_EQ(rig.dirty_objects(), 0U);
}

// The device of long ago has gone to sleep: nothing was dirty then, so nobody came.
TEST(WorkPolicyBatching, AnActivityOfLongAgoIsNone) {
  VirtualRig rig(batching_options());
  rig.driver->run_for(seconds(1));  // the flusher sleeps for good
  rig.engine->note_activity(*rig.context);
  rig.driver->run_for(seconds(60));
  rig.dirty(rig.make(), 4096);
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(rig.dirty_objects(), 1U);
}

TEST(WorkPolicyBatching, NothingDirtyIsNothingToDrain) {
  VirtualRig rig(batching_options());
  rig.engine->note_activity(*rig.context);
  rig.driver->run_for(seconds(60));
  EXPECT_EQ(rig.engine->stats().works, 0U);
}

TEST(WorkPolicyBatching, DrainsTheContextsOfTheDeviceAndNoOthers) {
  VirtualRig rig(batching_options());
  FakeTarget targets[2];
  ContextOptions same;
  same.device = std::make_shared<BackingDevice>(BackingDeviceOptions{.name = "disk"});
  WritebackContext* contexts[] = {rig.engine->add_context(targets[0], same),
                                  rig.engine->add_context(targets[1], same), rig.context};
  FakeObject objects[3];
  for (int i = 0; i < 3; ++i) {
    objects[i].set_context(contexts[i]->id());
    rig.engine->mark_dirty(objects[i], kDirtyMetadata, rig.clock.now());
  }
  rig.engine->note_activity(*contexts[0]);
  rig.driver->run_for(seconds(6));
  EXPECT_EQ(objects[0].writes, 1U);
  EXPECT_EQ(objects[1].writes, 1U) << "it sleeps on the same disk";
  EXPECT_EQ(objects[2].writes, 0U);
  rig.engine->cancel(objects[2]);
}

TEST(WorkPolicyBatching, AWriterAtTheLimitIsServedAndTheThresholdAloneIsNoReason) {
  for (const char* throttle : {"hard-limit", "linux", "delay-curve"}) {
    EngineOptions o = batching_options();
    o.throttle = throttle;
    o.writer_recheck = Duration::max();
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2), 20 << 20);
    rig.target.device = &device;
    for (int i = 0; i < 20; ++i) rig.dirty(rig.make(), 64 << 10);  // 1.25 MiB of 1
    rig.driver->run_for(seconds(20));
    EXPECT_EQ(rig.dirty_objects(), 20U) << throttle;
    for (int i = 0; i < 200; ++i) rig.dirty(rig.make(), 64 << 10);
    EXPECT_GT(rig.engine->stats().objects, 100U) << throttle;
    rig.driver->run_for(seconds(10));
    EXPECT_EQ(rig.dirty_objects(), 0U) << throttle << ": woken, it writes everything";
  }
}

// ---- swaps ----

class Quick final : public WorkPolicy {
 public:
  std::string_view name() const override { return "quick-for-test"; }
  WorkRules rules(const WorkFacts&) const override { return {.expire = seconds(1), .interval = seconds(1)}; }
};

TEST(WorkPolicySwap, APolicyFromOutsideTurnsIntervalsOnAndOff) {
  register_work_policy({"quick-for-test", "", [] { return std::unique_ptr<WorkPolicy>(new Quick); }});
  EngineOptions o = small_options();
  o.interval = {0};
  VirtualRig rig(o);
  FakeObject& object = rig.make();
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(3600));
  EXPECT_EQ(object.writes, 0U) << "the interval is off";
  ASSERT_TRUE(rig.engine->set_work_policy("quick-for-test").has_value());
  rig.driver->run_for(seconds(2));
  EXPECT_EQ(object.writes, 1U);
  rig.dirty(object, 4096);
  rig.driver->run_for(seconds(3));
  EXPECT_EQ(object.writes, 2U);
  ASSERT_TRUE(rig.engine->set_work_policy("steady").has_value());
  rig.driver->run_for(seconds(1));
  rig.dirty(object, 4096);
  const std::uint64_t wakeups = rig.wakeups();
  rig.driver->run_for(seconds(3600));
  EXPECT_EQ(object.writes, 2U);
  EXPECT_LE(rig.wakeups(), wakeups + 3) << "off is off";
}

// One that never allows background work, and one that wants what it never waits for.
class Idle final : public WorkPolicy {
 public:
  std::string_view name() const override { return "idle-for-test"; }
  WorkRules rules(const WorkFacts&) const override {
    return {.expire = {0}, .interval = {0}, .background = false};
  }
  bool watches_activity() const override { return true; }
};

TEST(WorkPolicySwap, AWriterIsServedWhateverThePolicySays) {
  register_work_policy({"idle-for-test", "", [] { return std::unique_ptr<WorkPolicy>(new Idle); }});
  EngineOptions o = small_options();
  o.work_policy = "idle-for-test";
  o.writer_recheck = Duration::max();
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(2));
  rig.target.device = &device;
  for (int i = 0; i < 30; ++i) rig.dirty(rig.make(), 64 << 10);
  rig.engine->note_activity(*rig.context);
  std::uint64_t turns = 0;
  while (turns < 100 && rig.driver->run_one(rig.clock.now() + seconds(3600))) ++turns;
  EXPECT_LT(turns, 10U) << "it spins";
  EXPECT_EQ(rig.engine->stats().objects, 0U);
  for (int i = 0; i < 100; ++i) rig.dirty(rig.make(), 64 << 10);
  EXPECT_GT(rig.engine->stats().objects, 30U);
}

TEST(WorkPolicySwap, BackgroundBeginsTheMomentItMay) {
  EngineOptions o = batching_options();
  VirtualRig rig(o);
  for (int i = 0; i < 32; ++i) rig.dirty(rig.make(), 64 << 10);
  rig.driver->run_for(seconds(10));
  EXPECT_EQ(rig.engine->stats().objects, 0U);
  ASSERT_TRUE(rig.engine->set_work_policy("steady").has_value());
  rig.driver->run_for(seconds(1));
  EXPECT_LE(rig.engine->dirty_bytes(), o.background_bytes);
  EXPECT_GT(rig.engine->dirty_bytes(), o.background_bytes - (66 << 10)) << "and stops exactly";
}

// Whatever is in force, and however often that changes, the age holds.
TEST(WorkPolicySwap, TheAgeHoldsUnderEachAndBetween) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    EngineOptions o = small_options();
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(3), 20 << 20);
    rig.target.device = &device;
    Rng rng(seed);
    for (int i = 0; i < 300; ++i) rig.make();
    for (std::uint64_t i = 0, n = loop_length(5000); i < n; ++i) {
      rig.dirty(*rig.objects[rng.below(300)], 512);
      if (rng.below(100) == 0) {
        ASSERT_TRUE(rig.engine->set_work_policy(rng.chance(2) ? "steady" : "batching").has_value());
      }
      if (rng.below(50) == 0) rig.engine->note_activity(*rig.context);
      rig.driver->run_for(milliseconds(static_cast<std::int64_t>(rng.below(400))));
    }
    const Duration promise = o.expire + o.interval + Duration{1LL << 27} + seconds(1);
    EXPECT_LE(rig.engine->stats().oldest_age_max.ns, promise.ns);
    EXPECT_GE(rig.engine->stats().objects, loop_length(5000) / 20);
  }
}

TEST(WorkPolicyBatching, AllOffMeansNoWakeUpAtAll) {
  EngineOptions o = batching_options();
  o.interval = {0};
  o.writer_recheck = Duration::max();
  VirtualRig rig(o);
  for (int i = 0; i < 10; ++i) rig.dirty(rig.make(), 4096);
  std::uint64_t turns = 0;
  while (turns < 100 && rig.driver->run_one(rig.clock.now() + seconds(3600))) ++turns;
  EXPECT_LT(turns, 5U) << "it spins";
  EXPECT_EQ(rig.engine->stats().objects, 0U);
}

#if TW_SIM

struct PolicySim {
  explicit PolicySim(const char* policy) {
    EngineOptions o = unperiodic_options();
    o.dirty_bytes = 24 << 10;
    o.work_policy = policy;
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
  }
  ~PolicySim() { engine->stop(); }
  void dirty(FakeObject& object) {
    object.set_context(context->id());
    engine->mark_dirty(object, kDirtyMetadata, engine->clock().now());
  }
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

// Noted while a flusher goes to sleep for good: after its own drain, or after the first dirt.
SIM_TEST_WITH(WorkPolicySim, ActivityMeetsAFlusherThatFallsAsleep, (sim::Options{.schedules = 800})) {
  PolicySim rig("batching");
  FakeObject objects[3];
  rig.dirty(objects[0]);
  Thread reader("reader", [&] { rig.engine->note_activity(*rig.context); });
  rig.dirty(objects[1]);
  reader.join();
  while (!objects[0].state().clean()) sleep_for(milliseconds(100));
  rig.dirty(objects[2]);
  rig.engine->note_activity(*rig.context);
  for (FakeObject& object : objects) {
    while (!object.state().clean()) sleep_for(milliseconds(100));
  }
  // Counted once all of a batch are clean.
  while (!rig.context->counts().all_zero()) sleep_for(milliseconds(100));
}

// A writer is held up while the policy changes under it: it is served, whichever is in force.
SIM_TEST_WITH(WorkPolicySim, AHeldWriterIsServedThroughSwaps, (sim::Options{.schedules = 500})) {
  PolicySim rig("steady");
  std::vector<std::unique_ptr<FakeObject>> objects;
  Thread swapper("swapper", [&] {
    for (const char* name : {"batching", "steady", "batching"}) {
      SIM_CHECK(rig.engine->set_work_policy(name).has_value());
    }
  });
  for (int i = 0; i < 8; ++i) {
    auto& object = *objects.emplace_back(std::make_unique<FakeObject>());
    object.set_context(rig.context->id());
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*rig.context, 8 << 10);
    SIM_CHECK(grant.has_value());
    rig.engine->account_dirtied(*grant, 8 << 10);
    object.dirty_bytes.fetch_add(8 << 10, std::memory_order_seq_cst);
    rig.engine->mark_dirty(object, kDirtyData, rig.engine->clock().now(), &*grant);
  }
  swapper.join();
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.context->counts().all_zero());
}

#endif

}  // namespace
}  // namespace tidewheel
