// Faults that other writeback code shipped, asked of this engine in virtual time: what is written too
// late, too often, or never. docs/faults.md lists all of them, with the guards; the numbers are its
// numbers.
#include <array>

#include "engine_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

constexpr Duration kSlotWidth = {1LL << 27};

// Does something every `period` until it is told to end.
class Repeatedly {
 public:
  Repeatedly(VirtualRig& rig, Duration period, std::function<void()> action)
      : rig_(rig), period_(period), action_(std::move(action)) {
    rig_.driver->post(rig_.clock.now() + period_, &Repeatedly::turn, this);
  }
  ~Repeatedly() {
    ended_ = true;
    rig_.driver->run_for(period_);  // the turn that is posted finds it ended
  }

 private:
  static void turn(void* self, std::uint64_t) {
    auto& mine = *static_cast<Repeatedly*>(self);
    if (mine.ended_) return;
    mine.action_();
    if (!mine.ended_) mine.rig_.driver->post(mine.rig_.clock.now() + mine.period_, &Repeatedly::turn, self);
  }
  VirtualRig& rig_;
  const Duration period_;
  std::function<void()> action_;
  bool ended_ = false;
};

// Dirt that can't be refused, from a posted action, which must not wait.
void dirty_at_once(VirtualRig& rig, FakeObject& object, std::uint64_t bytes) {
  rig.engine->account_dirtied(*rig.context, bytes);
  object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
  if (object.first_dirty == Instant::max()) object.first_dirty = rig.clock.now();
  rig.engine->mark_dirty(object, kDirtyData, rig.clock.now());
}

// The oldest age at the begin of a first attempt.
Duration& watch_age(VirtualRig& rig, Duration& oldest) {
  rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
    if (object.first_dirty != Instant::max() && object.retry_step == 0) {
      oldest = std::max(oldest, rig.clock.now() - object.first_dirty);
    }
  };
  return oldest;
}

// 4: a period of nothing is off. One that re-arms itself with it would take all of a CPU.
TEST(FaultPeriods, AllOffMeansNoWakeUpAtAll) {
  EngineOptions o = small_options();
  o.interval = {0};
  o.expire = {0};
  o.writer_recheck = Duration::max();
  VirtualRig rig(o);
  for (int i = 0; i < 10; ++i) rig.dirty(rig.make(), 4096);
  const Instant end = rig.clock.now() + seconds(3600 * 1000);
  std::uint64_t turns = 0;
  while (turns < 100 && rig.driver->run_one(end)) ++turns;
  EXPECT_LT(turns, 5U) << "it spins";
  EXPECT_EQ(rig.engine->stats().objects, 0U);
}

// 9: timestamps that are set again the moment they are written.
TEST(FaultSync, EndsBesideOneWhoSetsTimestampsAllTheTime) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    std::vector<FakeObject*> objects;
    for (int i = 0; i < 20; ++i) rig.dirty(*objects.emplace_back(&rig.make()), 0, kDirtyTimestamps);
    rig.driver->run_for(milliseconds(1));
    rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
      rig.driver->post(
          rig.clock.now() + microseconds(10),
          [](void* owner, std::uint64_t at) {
            auto& mine = *static_cast<VirtualRig*>(owner);
            mine.engine->mark_dirty(*reinterpret_cast<FakeObject*>(at), kDirtyTimestamps, mine.clock.now());
          },
          &rig, reinterpret_cast<std::uint64_t>(&object));
    };
    const Instant began = rig.clock.now();
    EXPECT_TRUE(rig.engine->sync(*rig.context, nullptr, began + seconds(5)).has_value()) << design;
    EXPECT_LT((rig.clock.now() - began).ns, milliseconds(100).ns) << design;
    for (const FakeObject* object : objects) EXPECT_LE(object->writes, 2U) << design;
    rig.target.on_write = nullptr;
  }
}

// 10: data that is dirtied again all the time must not carry a timestamp along for ever.
TEST(FaultTimestamps, AreWrittenThoughDataIsDirtiedAllTheTime) {
  VirtualRig rig(small_options());
  VirtualDevice device(*rig.driver, milliseconds(2));
  rig.target.device = &device;
  FakeObject& object = rig.make();
  Instant set_at = Instant::max();
  Instant written_at = Instant::max();
  rig.target.on_write = [&](FakeObject&, const WriteSlot& slot, WorkKind) {
    if (set_at != Instant::max() && (slot.classes & kDirtyTimestamps) != 0) {
      written_at = std::min(written_at, rig.clock.now());
    }
  };
  {
    Repeatedly data(rig, milliseconds(1), [&] { dirty_at_once(rig, object, 100); });
    rig.driver->run_for(seconds(47));
    set_at = rig.clock.now();
    rig.engine->mark_dirty(object, kDirtyTimestamps, set_at);
    rig.driver->run_for(seconds(120));
  }
  ASSERT_NE(written_at, Instant::max()) << "never written";
  EXPECT_LE(written_at, set_at + seconds(35) + kSlotWidth + milliseconds(10));
  EXPECT_GE(object.writes, 3U);
}

// 11: a large object has had its slice; the small ones that expired with it are written; the next slice
// follows at once, and not with the next tick.
TEST(FaultSlices, TheNextFollowsWithoutATick) {
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    o.dirty_bytes = 64 << 20;
    o.background_bytes = 32 << 20;
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(2));
    rig.target.device = &device;
    FakeObject& large = rig.make();
    std::vector<FakeObject*> small;
    for (int i = 0; i < 10; ++i) rig.dirty(*small.emplace_back(&rig.make()), 4096);
    rig.dirty(large, 3 << 20);  // 12 slices
    for (int i = 0; i < 10; ++i) rig.dirty(*small.emplace_back(&rig.make()), 4096);
    while (large.writes == 0 && rig.driver->run_one()) {
    }
    const Instant first = rig.clock.now();
    rig.driver->run_for(seconds(1));
    if (std::string(design) == "syncer-slots") {
      EXPECT_LE(large.writes, 2U) << "one of its faults: the next slice comes a slot of a second later";
    } else {
      EXPECT_TRUE(large.state().clean()) << design << ": " << large.writes << " slices of 12 in a second";
      EXPECT_EQ(large.writes, 12U) << design;
    }
    for (const FakeObject* object : small) EXPECT_TRUE(object->state().clean()) << design;
    EXPECT_LE((first - VirtualRig::seconds_at(1000)).ns, seconds(65).ns) << design;
  }
}

// 13: two file systems on one device. Syncs of the one, beside a writer of it, neither write the other's
// objects early nor put them off: each is written by its own age.
TEST(FaultForeign, SyncsOfOneFileSystemLeaveTheOthersAgesAlone) {
  VirtualRig rig(small_options());
  VirtualDevice device(*rig.driver, milliseconds(2), 20 << 20);
  rig.target.device = &device;
  auto shared = std::make_shared<BackingDevice>(BackingDeviceOptions{.name = "one device"});
  std::array<FakeTarget, 2> targets;
  std::array<WritebackContext*, 2> fs{};
  for (std::size_t i = 0; i < 2; ++i) {
    targets[i].device = &device;
    fs[i] = rig.engine->add_context(targets[i], {.name = i == 0 ? "A" : "B", .device = shared});
    ASSERT_NE(fs[i], nullptr);
  }
  std::vector<std::unique_ptr<FakeObject>> objects;
  const auto dirty = [&](FakeObject& object, std::size_t of) {
    object.set_context(fs[of]->id());
    rig.engine->account_dirtied(*fs[of], 4096);
    object.dirty_bytes.fetch_add(4096, std::memory_order_seq_cst);
    if (object.first_dirty == Instant::max()) object.first_dirty = rig.clock.now();
    rig.engine->mark_dirty(object, kDirtyData, rig.clock.now());
  };
  Duration oldest{};
  Duration youngest = Duration::max();
  targets[1].on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
    const Duration age = rig.clock.now() - object.first_dirty;
    oldest = std::max(oldest, age);
    youngest = std::min(youngest, age);
  };
  for (int i = 0; i < 60; ++i) objects.push_back(std::make_unique<FakeObject>());
  std::uint64_t syncs = 0;
  std::size_t turn = 0;
  {
    Repeatedly writer(rig, milliseconds(5), [&] { dirty(*objects[turn++ % 20], 0); });
    Repeatedly other(rig, milliseconds(700), [&] {
      FakeObject& object = *objects[20 + turn % 40];
      if (object.state().clean()) dirty(object, 1);
    });
    const auto hour = static_cast<std::int64_t>(loop_length(3600));
    const Instant end = rig.clock.now() + seconds(hour);
    while (rig.clock.now() < end) {
      rig.driver->run_for(seconds(10));
      const std::uint64_t looked_at = fs[1]->list().stats().elements_under_lock;
      const std::uint64_t written = fs[1]->counts().objects();
      ASSERT_TRUE(rig.engine->sync(*fs[0]).has_value());
      ++syncs;
      // Beside it B's own tick may run; a sync that rescans B looks at all it has each time.
      EXPECT_LE(fs[1]->list().stats().elements_under_lock - looked_at, written + 8);
    }
  }
  EXPECT_GE(syncs, 30U);
  EXPECT_LE(oldest.ns, (seconds(35) + kSlotWidth + milliseconds(50)).ns);
  EXPECT_GE(youngest.ns, seconds(30).ns) << "a sync of A wrote what is B's";
  for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(rig.engine->remove_context(*fs[i]).has_value());
}

// 13, within one context: what each sync meets busy keeps its stamp, and with it its place.
TEST(FaultForeign, WhatSyncsMeetBusyIsWrittenByItsOwnAge) {
  VirtualRig rig(small_options());
  VirtualDevice device(*rig.driver, milliseconds(2));
  rig.target.device = &device;
  FakeObject& busy = rig.make();
  FakeObject& hot = rig.make();
  bool in_sync = false;
  std::uint64_t met = 0;
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    if (&object != &busy || !in_sync) return WriteOutcome::kWritten;
    ++met;
    return WriteOutcome::kSkipped;
  };
  rig.dirty(busy, 4096);
  const Instant dirtied = rig.clock.now();
  Instant written = Instant::max();
  rig.target.on_ended = [&](FakeObject& object) {
    if (&object == &busy) written = std::min(written, rig.clock.now());
  };
  {
    Repeatedly writer(rig, milliseconds(3), [&] { dirty_at_once(rig, hot, 100); });
    for (int i = 0; i < 8; ++i) {
      in_sync = true;
      static_cast<void>(rig.engine->sync(*rig.context));  // asks for about 8 s, then says that it is busy
      in_sync = false;
      rig.driver->run_for(milliseconds(5500));  // a tick
    }
  }
  EXPECT_GE(met, 70U);
  EXPECT_GE(written, dirtied + seconds(30));
  EXPECT_LE(written, dirtied + seconds(30 + 10 + 6)) << "the first tick after it expired and was not busy";
}

// What is in flight has a stamp that lies in the future, and the list has forgotten that there were such:
// only the number of its batch tells that it came first.
TEST(FaultSync, WaitsForWhatIsInFlightThoughTheClockWasSetBackSince) {
  struct HoldsTheFirst final : FakeDevice {
    Batch* held = nullptr;
    void start(Batch& batch) override {
      if (held == nullptr) {
        held = &batch;
      } else {
        batch.complete();
      }
    }
  };
  for (const char* design : kAllDesigns) {
    EngineOptions o = small_options();
    o.design = design;
    o.background_bytes = 0;
    VirtualRig rig(o);
    HoldsTheFirst device;
    rig.target.device = &device;
    FakeObject& first = rig.make();
    rig.dirty(first, 4096);
    rig.driver->run_for(milliseconds(100));
    ASSERT_EQ(first.state().phase(), DirtyPhase::kWriting);
    rig.clock.set(rig.clock.now() - seconds(600));
    rig.dirty(rig.make(), 4096);
    rig.driver->post(
        rig.clock.now() + seconds(10),
        [](void* owner, std::uint64_t) { static_cast<HoldsTheFirst*>(owner)->held->complete(); }, &device);
    EXPECT_TRUE(rig.engine->sync(*rig.context).has_value());
    EXPECT_TRUE(first.state().clean()) << design;
    if (!first.state().clean()) rig.driver->run_for(seconds(11));
  }
}

// 15: what a sync visits is what is dirty, however many clean objects there are.
TEST(FaultSync, VisitsNoCleanObject) {
  EngineOptions o = small_options();
  o.dirty_bytes = 256 << 20;
  o.background_bytes = 128 << 20;
  VirtualRig rig(o);
  for (int i = 0; i < 20'000; ++i) rig.dirty(rig.make(), 0, kDirtyMetadata);
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  for (int i = 0; i < 10; ++i) rig.dirty(*rig.objects[static_cast<std::size_t>(i) * 1999], 4096);
  std::uint64_t estimated = 0;
  rig.target.on_estimate = [&](const FakeObject&) { ++estimated; };
  const std::uint64_t before = rig.engine->stats().dirty_list.elements_under_lock;
  ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
  EXPECT_EQ(estimated, 10U);
  EXPECT_EQ(rig.engine->stats().dirty_list.elements_under_lock - before, 10U);
}

// 18: a store that never catches up. Nothing stays behind while younger objects go: two hours of it.
TEST(FaultBacklog, NothingIsLeftBehindWhileItDrains) {
  for (const char* design : {"timer-wheel", "single-list", "tagged-list"}) {
    EngineOptions o = small_options();
    o.design = design;
    VirtualRig rig(o);
    VirtualDevice device(*rig.driver, milliseconds(50), 1 << 20);
    rig.target.device = &device;
    Duration oldest{};
    watch_age(rig, oldest);
    std::vector<FakeObject*> objects;
    for (int i = 0; i < 200; ++i) objects.push_back(&rig.make(static_cast<std::uint64_t>(i * 7919 % 200)));
    const Instant end = rig.clock.now() + seconds(static_cast<std::int64_t>(loop_length(7860)));
    for (std::size_t i = 0; rig.clock.now() < end; ++i) {
      // 200 chunks of 60 KiB, always more than the store takes: who dirties waits at the limit.
      FakeObject& object = *objects[i % objects.size()];
      if (object.state().clean()) {
        rig.dirty(object, 60 << 10);
      } else {
        rig.driver->run_for(milliseconds(1));
      }
    }
    for (const FakeObject* object : objects) {
      if (!object->state().clean()) oldest = std::max(oldest, rig.clock.now() - object->first_dirty);
    }
    // The backlog is at most the limit, 4 s of the store, and what is selected is written before what came
    // later.
    EXPECT_LE(oldest.ns, seconds(8).ns) << design;
    EXPECT_GT(rig.engine->stats().throttle_pauses, 100U) << design;
  }
}

// 27: each demand writes by itself, whatever the others are set to.
TEST(FaultDemands, EachIsHeardAlone) {
  constexpr std::uint64_t kOff = 32 << 20;
  for (const char* design : kAllDesigns) {
    for (const char* demand : {"age", "threshold", "reclaim", "sync", "limit"}) {
      const std::string alone = demand;
      SCOPED_TRACE(std::string(design) + ", " + alone);
      EngineOptions o = small_options();
      o.design = design;
      o.dirty_bytes = alone == "limit" ? 256 << 10 : 64 << 20;
      o.background_bytes = alone == "threshold" ? 64 << 10 : kOff;
      o.interval = alone == "age" ? seconds(5) : Duration{0};
      o.writer_recheck = Duration::max();
      VirtualRig rig(o);
      VirtualDevice device(*rig.driver, milliseconds(1));
      rig.target.device = &device;
      for (int i = 0; i < 100; ++i) rig.dirty(rig.make(), 4096);
      if (alone == "reclaim") rig.engine->reclaim(*rig.context, 100 << 10);
      if (alone == "sync") {
        ASSERT_TRUE(rig.engine->sync(*rig.context).has_value());
      }
      rig.driver->run_for(seconds(80));
      EXPECT_GE(rig.engine->stats().objects, 20U);
    }
  }
}

// 27: reclaim that asks again as soon as it has been served, a little each time, takes no budget from the
// age promise.
TEST(FaultDemands, EndlessReclaimDoesNotStarveAge) {
  EngineOptions o = small_options();
  o.dirty_bytes = 1ULL << 30;
  o.background_bytes = 1ULL << 29;
  o.batches_in_flight = 1;
  VirtualRig rig(o);
  VirtualDevice device(*rig.driver, milliseconds(20));
  rig.target.device = &device;
  Duration oldest{};
  watch_age(rig, oldest);
  std::vector<FakeObject*> objects;
  for (int i = 0; i < 60'000; ++i) objects.push_back(&rig.make());
  std::size_t next = 0;
  {
    // One object a batch: 50 a second, while 600 are dirtied.
    Repeatedly reclaimer(rig, milliseconds(1), [&] { rig.engine->reclaim(*rig.context, 1); });
    Repeatedly writer(rig, milliseconds(10), [&] {
      for (int i = 0; i < 6; ++i) {
        FakeObject& object = *objects[next++ % objects.size()];
        if (object.state().clean()) dirty_at_once(rig, object, 10);
      }
    });
    rig.driver->run_for(seconds(120));
  }
  EXPECT_GT(rig.engine->stats().objects, 40'000U);
  EXPECT_LE(oldest.ns, (seconds(35) + kSlotWidth + seconds(1)).ns);
}

}  // namespace
}  // namespace tidewheel
