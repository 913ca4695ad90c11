// Lazytime under many schedules, on an engine in which nothing is periodic: no lost wake-up, no lost
// timestamp where other dirt, a flusher, a sync, an fsync or a removal come at the same time.
#include "base/sim.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "sim_options.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

LockClass lazy_sim_class("lazytime-sim-test", LockRank::kDevice);

// An object whose timestamps and data have versions: what was dirtied, and with what a write began.
struct Versioned : FakeObject {
  Atomic<std::uint32_t> times{0}, times_written{0};
  Atomic<std::uint32_t> data{0}, data_written{0};
};

struct LazySim {
  explicit LazySim(Duration lazytime_expire, std::uint32_t shards = 2) {
    EngineOptions o = unperiodic_options();
    o.dirty_bytes = 24 << 10;
    o.lazytime_expire = lazytime_expire;
    o.shards = shards;
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
    target.on_write = [](FakeObject& object, const WriteSlot& slot, WorkKind) {
      auto& mine = static_cast<Versioned&>(object);
      if ((slot.classes & kDirtyTimestamps) != 0) {
        mine.times_written.store(mine.times.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
      }
      if ((slot.classes & kDirtyData) != 0) {
        mine.data_written.store(mine.data.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
      }
    };
  }
  ~LazySim() { engine->stop(); }
  // Published, then marked.
  void touch(Versioned& object) {
    object.times.fetch_add(1, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyTimestamps, engine->clock().now());
  }
  void write(Versioned& object) {
    object.data.fetch_add(1, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyData, engine->clock().now());
  }
  static bool written(const Versioned& object) {
    return object.times_written.load(std::memory_order_seq_cst) ==
               object.times.load(std::memory_order_seq_cst) &&
           object.data_written.load(std::memory_order_seq_cst) ==
               object.data.load(std::memory_order_seq_cst);
  }
  static void wait_until_clean(const DirtyObject& object) {
    while (!object.state().clean()) sleep_for(milliseconds(1));
  }
  void take(Versioned& object) { object.set_context(context->id()); }
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

// The clock is set back while a sync looks at ring and list, one after the other: its moments of the two are
// not in that order, and what goes from one to the other is still found.
SIM_TEST_WITH(LazytimeEngineSim, AClockSetBackUnderASyncHidesNothing, (sim::Options{.schedules = 500})) {
  DirtyListOptions options;
  options.shards = 1;
  options.lazytime = true;
  const auto list = find_dirty_list_design("timer-wheel")->make(options);
  const auto at = [](std::int64_t s) { return Instant{0} + seconds(s); };
  DirtyObject touched;
  DirtyObject other;
  list->mark_dirty(touched, kDirtyTimestamps, at(9000));
  Thread set_back("writer", [&] { list->mark_dirty(other, kDirtyData, at(100)); });
  SelectionRequest request;
  request.kind = WorkKind::kSync;
  request.now = request.dirtied_before = at(101);
  auto selection = list->select(request);
  list->mark_dirty(touched, kDirtyData, at(102));
  DirtyObject* claimed[2];
  const std::size_t n = selection->claim(claimed);
  SIM_CHECK(touched.state().phase() == DirtyPhase::kClaimed);
  for (std::size_t i = 0; i < n; ++i) list->unclaim(*claimed[i], at(103));
  selection.reset();
  set_back.join();
  list->cancel(touched);
  list->cancel(other);
}

// A flusher that sleeps for good hears of the first timestamp, and comes when it is old enough.
SIM_TEST_WITH(LazytimeEngineSim, AFlusherThatSleepsForGoodWritesThemAtTheirAge,
              (sim::Options{.schedules = 500})) {
  LazySim rig(milliseconds(10));
  Versioned objects[3];
  for (Versioned& object : objects) rig.take(object);
  Thread other("toucher", [&] { rig.touch(objects[0]); });
  rig.touch(objects[1]);
  other.join();
  LazySim::wait_until_clean(objects[0]);
  LazySim::wait_until_clean(objects[1]);
  rig.touch(objects[2]);  // none was left: the flusher has stopped counting on them
  LazySim::wait_until_clean(objects[2]);
  for (const Versioned& object : objects) SIM_CHECK(LazySim::written(object));
}

// Touched while the flusher, which has just written the last of them, goes to sleep.
SIM_TEST_WITH(LazytimeEngineSim, ATouchMeetsAFlusherThatFallsAsleep, (sim::Options{.schedules = 1500})) {
  LazySim rig(milliseconds(10));
  Versioned first;
  Versioned second;
  rig.take(first);
  rig.take(second);
  Mutex lock(lazy_sim_class);
  CondVar changed;
  bool ended = false;
  rig.target.on_ended = [&](FakeObject&) {
    MutexLock guard(lock);
    ended = true;
    changed.notify_one();
  };
  rig.touch(first);
  Thread toucher("toucher", [&] {
    {
      MutexLock guard(lock);
      while (!ended) changed.wait(lock);
    }
    rig.touch(second);
  });
  toucher.join();
  LazySim::wait_until_clean(second);
  SIM_CHECK(LazySim::written(first));
  SIM_CHECK(LazySim::written(second));
}

// Touched again in a write that an fsync does on its own thread: nobody but the end of that write can tell
// the flusher.
SIM_TEST_WITH(LazytimeEngineSim, WhatIsTouchedAgainInAnFsyncHasItsAgeToo, (sim::Options{.schedules = 300})) {
  LazySim rig(milliseconds(10));
  Versioned object;
  rig.take(object);
  rig.write(object);
  const auto on_write = rig.target.on_write;
  rig.target.on_write = [&, on_write](FakeObject& written, const WriteSlot& slot, WorkKind kind) {
    on_write(written, slot, kind);
    if (kind == WorkKind::kFsync) rig.touch(object);
  };
  SIM_CHECK(rig.engine->fsync(object).has_value());
  LazySim::wait_until_clean(object);
  SIM_CHECK(LazySim::written(object));
}

// Data over timestamps beside everything that can take the object from the ring meanwhile; at the end a sync
// finds whatever is left.
void race(LazySim& rig, Versioned& object, const std::function<void()>& beside) {
  rig.take(object);
  rig.touch(object);
  Thread writer("writer", [&] { rig.write(object); });
  Thread other("other", beside);
  rig.touch(object);
  writer.join();
  other.join();
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(object.state().clean());
  SIM_CHECK(LazySim::written(object));
  SIM_CHECK(rig.context->counts().all_zero());
  rig.context->list().check_invariants();
}

SIM_TEST_WITH(LazytimeEngineSim, DataOverTimestampsBesideAFlusher, (sim::Options{.schedules = 1000})) {
  LazySim rig(milliseconds(1));
  Versioned object;
  race(rig, object, [&] { rig.engine->reclaim(*rig.context, 4096); });
}

// The timestamps were set before the sync was called, so it must have written them.
SIM_TEST_WITH(LazytimeEngineSim, DataOverTimestampsBesideASync, (sim::Options{.schedules = 1500})) {
  LazySim rig(seconds(3600));
  Versioned object;
  race(rig, object, [&] {
    const std::uint32_t version = object.times.load(std::memory_order_seq_cst);
    SIM_CHECK(rig.engine->sync(*rig.context).has_value());
    // The second touch may be published, and not marked yet.
    SIM_CHECK(version > 1 || object.times_written.load(std::memory_order_seq_cst) >= version);
  });
}

SIM_TEST_WITH(LazytimeEngineSim, DataOverTimestampsBesideAnFsync, (sim::Options{.schedules = 1000})) {
  LazySim rig(seconds(3600));
  Versioned object;
  race(rig, object, [&] {
    const std::uint32_t version = object.times.load(std::memory_order_seq_cst);
    SIM_CHECK(rig.engine->fsync(object).has_value());
    SIM_CHECK(version > 1 || object.times_written.load(std::memory_order_seq_cst) >= version);
  });
}

// Its owner removes it while others' objects, due by their age, are being written; then its memory goes.
SIM_TEST_WITH(LazytimeEngineSim, ARemovalTakesItFromTheRingOrTheList, (sim::Options{.schedules = 1000})) {
  LazySim rig(milliseconds(1));
  Versioned other;
  rig.take(other);
  rig.touch(other);
  auto object = std::make_unique<Versioned>();
  rig.take(*object);
  rig.touch(*object);
  Thread syncer("syncer", [&] { SIM_CHECK(rig.engine->sync(*rig.context).has_value()); });
  rig.write(*object);
  sleep_for(microseconds(500));
  SIM_CHECK(rig.engine->cancel(*object) || object->writes != 0);
  object.reset();
  syncer.join();
  LazySim::wait_until_clean(other);
  SIM_CHECK(rig.context->counts().all_zero());
}

// All of the limit is held by timestamps, some of which come after background work has found nothing to
// write: the writer that waits must be served all the same.
SIM_TEST_WITH(LazytimeEngineSim, AWriterIsNotHeldUpByTimestampsForGood, (sim::Options{.schedules = 1000})) {
  LazySim rig(seconds(1'000'000));
  constexpr std::size_t kObjects = 120;  // 30 KiB of 24
  std::vector<std::unique_ptr<Versioned>> objects;
  for (std::size_t i = 0; i < kObjects; ++i) rig.take(*objects.emplace_back(std::make_unique<Versioned>()));
  Thread toucher("toucher", [&] {
    for (const auto& object : objects) rig.touch(*object);
  });
  Versioned written;
  rig.take(written);
  for (int i = 0; i < 3; ++i) {
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*rig.context, 8 << 10);
    SIM_CHECK(grant.has_value());
  }
  toucher.join();
  {
    Result<DirtyGrant> grant = rig.engine->balance_dirty_pages(*rig.context, 8 << 10);
    SIM_CHECK(grant.has_value());
  }
  for (const auto& object : objects) rig.engine->cancel(*object);
  SIM_CHECK(rig.context->counts().all_zero());
}

}  // namespace
}  // namespace tidewheel
