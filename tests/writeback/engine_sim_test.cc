// The engine on fibers, under many schedules: lost wake-ups (all periods infinite), writers that wait,
// sync beside writers, cancel and free beside writeback, stop.
#include "base/sim.h"
#include "base/thread.h"
#include "engine_rig.h"
#include "sim_options.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

LockClass sim_test_class("engine-sim-test", LockRank::kDevice);

EngineOptions sim_options() {
  EngineOptions o = unperiodic_options();
  o.dirty_bytes = 24 << 10;
  return o;
}

struct SimRig {
  explicit SimRig(const EngineOptions& o) {
    auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
  }
  ~SimRig() { engine->stop(); }
  bool dirty(FakeObject& object, std::uint64_t bytes) {
    Result<DirtyGrant> grant = engine->balance_dirty_pages(*context, bytes);
    if (!grant) return false;
    engine->account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine->mark_dirty(object, kDirtyData, engine->clock().now(), &*grant);
    return true;
  }
  void cancel(FakeObject& object) {
    engine->cancel(object);
    engine->account_cancelled(*context, object.dirty_bytes.exchange(0, std::memory_order_seq_cst));
  }
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  WritebackContext* context = nullptr;
};

// Completes each batch on a fiber of its own, some time later.
class LaterDevice final : public FakeDevice {
 public:
  void start(Batch& batch) override {
    MutexLock guard(lock_);
    threads_.emplace_back("io", [&batch] {
      sleep_for(milliseconds(1));
      batch.complete();
    });
  }
  ~LaterDevice() override {
    for (Thread& thread : threads_) thread.join();
  }

 private:
  Mutex lock_{sim_test_class};
  std::vector<Thread> threads_ TW_GUARDED_BY(lock_);
};

// Completes nothing before it is told to.
class StuckDevice final : public FakeDevice {
 public:
  void start(Batch& batch) override {
    MutexLock guard(lock_);
    held_.push_back(&batch);
  }
  std::size_t count() {
    MutexLock guard(lock_);
    return held_.size();
  }
  void complete_all() {
    std::vector<Batch*> batches;
    {
      MutexLock guard(lock_);
      batches.swap(held_);
    }
    for (Batch* batch : batches) batch->complete();
  }

 private:
  Mutex lock_{sim_test_class};
  std::vector<Batch*> held_ TW_GUARDED_BY(lock_);
};

SIM_TEST(EngineSim, WritersThatWaitAreServedThoughNothingIsPeriodic) {
  SimRig rig(sim_options());
  std::vector<std::unique_ptr<FakeObject>> objects;
  std::vector<Thread> writers;
  for (int i = 0; i < 12; ++i) {
    objects.push_back(std::make_unique<FakeObject>());
    objects.back()->set_context(rig.context->id());
  }
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back("writer", [&, w] {
      for (int i = 0; i < 8; ++i) {
        SIM_CHECK(rig.dirty(*objects[static_cast<std::size_t>(w * 4 + i % 4)], 4096));
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(rig.engine->charged_bytes() <= rig.engine->options().dirty_bytes);
  SIM_CHECK(rig.engine->throttled_threads() == 0);
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.context->counts().all_zero());
}

// Two requests that fit into the limit together: neither may wait for good. The one that is granted without
// waiting carries a chunk of credit from the shared word to its shard; meanwhile it is in neither.
SIM_TEST_WITH(EngineSim, AWriterThatCarriesCreditServesWhoWaitsForIt,
              (sim::Options{.schedules = 1500, .weak_memory = false})) {
  EngineOptions o = sim_options();
  o.dirty_bytes = 64 << 10;
  o.background_bytes = 32 << 10;
  o.counter_chunk_bytes = 4096;
  SimRig rig(o);
  FakeObject a;
  FakeObject b;
  for (FakeObject* object : {&a, &b}) object->set_context(rig.context->id());
  Thread other("writer", [&] { SIM_CHECK(rig.dirty(a, (30 << 10) - 256)); });
  SIM_CHECK(rig.dirty(b, (32 << 10) - 256));
  other.join();
  rig.cancel(a);
  rig.cancel(b);
}

// A waiter that finishes inside wake() and is gone, while begin_balance() is still on its way out.
SIM_TEST_WITH(EngineSim, AWaiterMayBeGoneBeforeItsCallerIsBack, (sim::Options{.schedules = 500})) {
  EngineOptions o = sim_options();
  o.background_bytes = 20 << 10;
  SimRig rig(o);
  FakeObject objects[2];
  for (FakeObject& object : objects) {
    object.set_context(rig.context->id());
    SIM_CHECK(rig.dirty(object, 8 << 10));
  }
  struct Fleeting : ThrottleWaiter {
    SimRig* rig = nullptr;
    Atomic<bool>* gone = nullptr;
  };
  Atomic<bool> gone{false};
  auto waiter = std::make_unique<Fleeting>();
  waiter->rig = &rig;
  waiter->gone = &gone;
  waiter->wake = [](ThrottleWaiter& woken) {
    auto& mine = static_cast<Fleeting&>(woken);
    WritebackEngine& engine = *mine.rig->engine;
    SIM_CHECK(engine.throttled_threads() == 1);
    SIM_CHECK(engine.finish_balance(*mine.rig->context, mine).has_value());
    SIM_CHECK(engine.throttled_threads() == 0);
    // Stands for the memory's next owner.
    mine.since = Instant{-1};
    mine.gone->store(true, std::memory_order_seq_cst);
  };
  Thread other("other", [&] {
    for (FakeObject& object : objects) rig.cancel(object);
  });
  if (rig.engine->begin_balance(*rig.context, 8 << 10, *waiter)) {
    SIM_CHECK(rig.engine->finish_balance(*rig.context, *waiter).has_value());
  } else {
    SIM_CHECK(rig.engine->first_throttled_at() >= Instant{0});
    SIM_CHECK(rig.engine->first_throttled_at() != Instant::max());
    while (!gone.load(std::memory_order_seq_cst)) yield_thread();
  }
  other.join();
  SIM_CHECK(rig.engine->throttled_threads() == 0);
}

// Two callers of one run: the one that gives up must neither take the other's flush nor its wake-up along.
SIM_TEST(EngineSim, ASyncWithADeadlineLeavesTheOthersAlone) {
  SimRig rig(sim_options());
  FakeObject object;
  object.set_context(rig.context->id());
  SIM_CHECK(rig.dirty(object, 4096));
  rig.target.on_write = [](FakeObject&, const WriteSlot&, WorkKind) { sleep_for(milliseconds(10)); };
  Thread hurried("hurried", [&] {
    const Instant deadline = SteadyClock::instance().now() + milliseconds(5);
    const Result<void> done = rig.engine->sync(*rig.context, nullptr, deadline);
    SIM_CHECK(done.has_value() || done.error().code == Reason::kTimedOut);
    SIM_CHECK(done.has_value() || SteadyClock::instance().now() >= deadline);
  });
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.context->counts().all_zero());
  hurried.join();
}

// A flusher that sleeps for good must notice the first dirt, and background dirt, by itself.
SIM_TEST(EngineSim, AFlusherThatSleepsForGoodIsWoken) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  o.flushers = 2;
  SimRig rig(o);
  Mutex lock(sim_test_class);
  CondVar changed;
  int written = 0;
  rig.target.on_write = [&](FakeObject&, const WriteSlot&, WorkKind) {
    MutexLock guard(lock);
    ++written;
    changed.notify_all();
  };
  FakeObject a;
  FakeObject b;
  for (FakeObject* object : {&a, &b}) object->set_context(rig.context->id());
  Thread other("writer", [&] { SIM_CHECK(rig.dirty(b, 100)); });
  SIM_CHECK(rig.dirty(a, 100));
  {
    MutexLock guard(lock);
    while (written < 2) changed.wait(lock);
  }
  other.join();
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.dirty(a, 100));  // it has gone back to sleep, or is about to
  {
    MutexLock guard(lock);
    while (written < 3) changed.wait(lock);
  }
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
}

// Periodic work alone (no threshold is passed): first dirt arms the tick.
SIM_TEST(EngineSim, FirstDirtArmsTheTick) {
  EngineOptions o = sim_options();
  o.interval = seconds(1);
  o.expire = {0};
  SimRig rig(o);
  Mutex lock(sim_test_class);
  CondVar changed;
  int written = 0;
  rig.target.on_write = [&](FakeObject&, const WriteSlot&, WorkKind) {
    MutexLock guard(lock);
    ++written;
    changed.notify_all();
  };
  FakeObject object;
  object.set_context(rig.context->id());
  for (int round = 1; round <= 3; ++round) {
    SIM_CHECK(rig.dirty(object, 100));
    {
      MutexLock guard(lock);
      while (written < round) changed.wait(lock);
    }
    SIM_CHECK(rig.engine->fsync(object).has_value());
    if (round == 1) sleep_for(seconds(5));  // the flusher has found nothing and sleeps for good
  }
}

// What was dirty before sync() was called is written when it returns, whoever has it in a batch meanwhile.
SIM_TEST(EngineSim, SyncCoversWhatWasDirtyBeforeIt) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  o.flushers = 2;
  LaterDevice device;
  SimRig rig(o);
  rig.target.device = &device;
  struct Versioned : FakeObject {
    Atomic<std::uint64_t> version{0}, durable{0};
    Atomic<std::uint64_t> version_mine{0}, durable_mine{0};  // those of the thread that syncs
  };
  Versioned objects[3];
  for (Versioned& object : objects) object.set_context(rig.context->id());
  int partial = 2;
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    auto& versioned = static_cast<Versioned&>(object);
    if (&object == &objects[0] && partial-- > 0 && slot.bytes > 1) return WriteOutcome::kPartial;
    // Noted when the write begins: the sync must wait for a write that begins with all of its versions.
    versioned.durable_mine.store(versioned.version_mine.load(std::memory_order_seq_cst),
                                 std::memory_order_seq_cst);
    versioned.durable.store(versioned.version.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
    return WriteOutcome::kWritten;
  };
  const auto write = [&](Versioned& object) {
    object.version.fetch_add(1, std::memory_order_seq_cst);
    SIM_CHECK(rig.dirty(object, 100));
  };
  const auto write_mine = [&](Versioned& object) {
    object.version_mine.fetch_add(1, std::memory_order_seq_cst);
    write(object);
  };
  const auto mine = [](Versioned& object) { return object.version_mine.load(std::memory_order_seq_cst); };
  Thread disturber("disturber", [&] {
    for (int i = 0; i < 4; ++i) write(objects[i % 3]);
    SIM_CHECK(rig.engine->fsync(objects[1]).has_value());
  });
  for (int round = 0; round < 2; ++round) {
    // Versions that this thread made are dirty before its sync; the disturber's may still be on their way.
    write_mine(objects[0]);
    const std::uint64_t first = mine(objects[0]);
    write_mine(objects[2]);
    const std::uint64_t second = mine(objects[2]);
    SIM_CHECK(rig.engine->sync(*rig.context).has_value());
    SIM_CHECK(objects[0].durable_mine.load(std::memory_order_seq_cst) >= first);
    SIM_CHECK(objects[2].durable_mine.load(std::memory_order_seq_cst) >= second);
  }
  disturber.join();
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  for (Versioned& object : objects) {
    SIM_CHECK(object.durable.load(std::memory_order_seq_cst) ==
              object.version.load(std::memory_order_seq_cst));
    SIM_CHECK(object.state().clean());
  }
  SIM_CHECK(rig.context->counts().all_zero());
}

// A batch of another flusher may put something back at any moment between the sync's looks.
SIM_TEST_WITH(EngineSim, SyncMissesNothingThatComesBack, (sim::Options{.schedules = 400})) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  o.flushers = 2;
  o.batches_in_flight = 1;
  SimRig rig(o);
  rig.target.decide = [](FakeObject&, WriteSlot& slot) {
    return slot.bytes > 1 ? WriteOutcome::kPartial : WriteOutcome::kWritten;  // halves it each time
  };
  FakeObject object;
  object.set_context(rig.context->id());
  for (int round = 0; round < 3; ++round) {
    SIM_CHECK(rig.dirty(object, 64));
    if (round != 0) sleep_for(milliseconds(10));  // background work begins about now
    SIM_CHECK(rig.engine->sync(*rig.context).has_value());
    SIM_CHECK(object.dirty_bytes.load(std::memory_order_seq_cst) == 0);
    SIM_CHECK(object.state().clean());
  }
}

// Holds back the first batch, and the gathering of what `stop_at` is, until the test lets them go.
class GatedTarget final : public FakeTarget, public FakeDevice {
 public:
  WriteEstimate estimate(const DirtyObject& object) const override {
    if (&object == stop_at.load(std::memory_order_seq_cst)) {
      MutexLock guard(lock_);
      while (!open_) changed_.wait(lock_);
    }
    return FakeTarget::estimate(object);
  }
  void start(Batch& batch) override {
    if (held.load(std::memory_order_acquire) == nullptr) {
      held.store(&batch, std::memory_order_release);
    } else {
      batch.complete();
    }
  }
  void open() {
    MutexLock guard(lock_);
    open_ = true;
    changed_.notify_all();
  }
  Atomic<const DirtyObject*> stop_at{nullptr};
  Atomic<Batch*> held{nullptr};  // release in start pairs with acquire in the test

 private:
  mutable Mutex lock_{sim_test_class};
  mutable CondVar changed_;
  bool open_ TW_GUARDED_BY(lock_) = false;
};

// A flusher that is gathering may have claimed what the sync is to cover, find that it doesn't fit, and put
// it back, between the sync's look at the list and its look at the batches. (single-list: its works share one
// list; the wheel keeps apart what is the sync's.)
SIM_TEST_WITH(EngineSim, SyncMissesNothingThatIsPutBack, (sim::Options{.schedules = 1500})) {
  EngineOptions o = sim_options();
  o.design = "single-list";
  o.shards = 0;
  o.background_bytes = 0;
  o.object_overhead_bytes = 0;
  o.flushers = 3;
  o.batches_in_flight = 1;
  o.batch_bytes = 128;
  GatedTarget target;
  auto made = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
  SIM_CHECK(made.has_value());
  WritebackEngine& engine = **made;
  WritebackContext& context = *engine.add_context(target);
  target.device = &target;
  FakeObject large;
  FakeObject small;
  const auto dirty = [&](FakeObject& object, std::uint64_t bytes) {
    object.set_context(context.id());
    Result<DirtyGrant> grant = engine.balance_dirty_pages(context, bytes);
    SIM_CHECK(grant.has_value());
    engine.account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine.mark_dirty(object, kDirtyData, engine.clock().now(), &*grant);
  };
  dirty(large, 1024);
  sleep_for(milliseconds(20));  // one flusher has written a slice of it, and waits for the device
  SIM_CHECK(target.held.load(std::memory_order_acquire) != nullptr);
  Thread syncer("syncer", [&] {
    SIM_CHECK(engine.sync(context).has_value());
    SIM_CHECK(large.dirty_bytes.load(std::memory_order_seq_cst) == 0);
  });
  sleep_for(milliseconds(1));  // a second one has begun the sync
  target.stop_at.store(&small, std::memory_order_seq_cst);
  dirty(small, 16);
  sleep_for(milliseconds(20));  // the third one gathers what is younger than the sync
  Thread device("device", [&] { target.held.load(std::memory_order_acquire)->complete(); });
  while (large.state().phase() == DirtyPhase::kWriting) yield_thread();
  target.open();  // it goes on, and meets the large one, which doesn't fit
  device.join();
  syncer.join();
  SIM_CHECK(engine.sync(context).has_value());
  engine.stop();
}

// Between the caller's moment and the sync's selection another flusher gives an object a younger stamp
// (redirty_tail); after the selection that flusher takes it again. All designs, though only those that share
// their lists between works can get there.
void sync_beside_another_flusher(const char* design) {
  EngineOptions o = sim_options();
  o.design = design;
  o.dirty_bytes = 64 << 10;
  o.shards = 1;
  o.flushers = 2;
  o.background_bytes = 0;
  o.batch_bytes = 4096;
  o.batch_objects = 8;
  o.batches_in_flight = 1;
  o.counter_chunk_bytes = 0;
  SimRig rig(o);
  FakeObject x(1);
  FakeObject others[8];
  for (FakeObject& other : others) other.set_context(rig.context->id());
  x.set_context(rig.context->id());
  int skips = 2;
  rig.target.decide = [&](FakeObject& object, WriteSlot&) {
    return &object == &x && skips-- > 0 ? WriteOutcome::kSkipped : WriteOutcome::kWritten;
  };
  SIM_CHECK(rig.dirty(x, 4000));
  Thread writer("writer", [&] {
    for (FakeObject& other : others) SIM_CHECK(rig.dirty(other, 1000));
  });
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(x.dirty_bytes.load(std::memory_order_seq_cst) == 0);
  writer.join();
  rig.engine->stop();
  rig.cancel(x);
  for (FakeObject& other : others) rig.cancel(other);
}
constexpr sim::Options kSyncBesideAFlusher{.schedules = 300};
SIM_TEST_WITH(EngineSim, SyncBesideAFlusherMissesNothingTimerWheel, kSyncBesideAFlusher) {
  sync_beside_another_flusher("timer-wheel");
}
SIM_TEST_WITH(EngineSim, SyncBesideAFlusherMissesNothingSingleList, kSyncBesideAFlusher) {
  sync_beside_another_flusher("single-list");
}
SIM_TEST_WITH(EngineSim, SyncBesideAFlusherMissesNothingTaggedList, kSyncBesideAFlusher) {
  sync_beside_another_flusher("tagged-list");
}
SIM_TEST_WITH(EngineSim, SyncBesideAFlusherMissesNothingSyncerSlots, kSyncBesideAFlusher) {
  sync_beside_another_flusher("syncer-slots");
}
SIM_TEST_WITH(EngineSim, SyncBesideAFlusherMissesNothingParallelLists, kSyncBesideAFlusher) {
  sync_beside_another_flusher("parallel-lists");
}

// Memory is freed as soon as cancel() has returned.
SIM_TEST(EngineSim, CancelledObjectsCanBeFreedWhileWritebackGoesOn) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  LaterDevice device;
  SimRig rig(o);
  rig.target.device = &device;
  FakeObject kept;
  kept.set_context(rig.context->id());
  Thread other("fsyncer", [&] {
    for (int i = 0; i < 2; ++i) {
      SIM_CHECK(rig.dirty(kept, 100));
      SIM_CHECK(rig.engine->fsync(kept).has_value());
    }
  });
  for (int i = 0; i < 4; ++i) {
    auto object = std::make_unique<FakeObject>();
    object->set_context(rig.context->id());
    SIM_CHECK(rig.dirty(*object, 100));
    if (i % 2 == 0) yield_thread();
    rig.cancel(*object);
    SIM_CHECK(object->state().clean());
    object.reset();
  }
  other.join();
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.context->counts().all_zero());
}

// A claimed object leaves its batch before any I/O: its owner waits for the gathering alone. The device here
// completes nothing, so who waits for a write waits for ever.
SIM_TEST_WITH(EngineSim, CancelOfAClaimedObjectWaitsForNoWrite, (sim::Options{.schedules = 200})) {
  struct DeadDevice final : FakeDevice {
    void start(Batch& batch) override { held.store(&batch, std::memory_order_release); }
    Batch* get() const { return held.load(std::memory_order_acquire); }
    Atomic<Batch*> held{nullptr};
  } device;
  for (const bool alone : {true, false}) {
    for (const bool by_fsync : {false, true}) {
      EngineOptions o = sim_options();
      if (!by_fsync) o.background_bytes = 0;
      SimRig rig(o);
      rig.target.device = &device;
      device.held.store(nullptr, std::memory_order_release);
      std::array<FakeObject, 2> objects;
      for (auto& object : objects) object.set_context(rig.context->id());
      FakeObject& deleted = objects[1];
      rig.target.on_estimate = [&](const FakeObject& object) {
        while (&object == &deleted && !object.state().cancelled()) sleep_for(microseconds(1));
      };
      rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
        SIM_CHECK(&object != &deleted);
      };
      if (!alone && !by_fsync) SIM_CHECK(rig.dirty(objects[0], 100));
      SIM_CHECK(rig.dirty(deleted, 100));
      Thread fsyncer("fsyncer", [&] {
        if (by_fsync) SIM_CHECK(rig.engine->fsync(deleted).has_value());
      });
      while (deleted.state().phase() != DirtyPhase::kClaimed) sleep_for(microseconds(1));
      SIM_CHECK(rig.engine->cancel(deleted));
      SIM_CHECK(deleted.state().clean());
      rig.engine->account_cancelled(*rig.context, deleted.dirty_bytes.exchange(0, std::memory_order_seq_cst));
      fsyncer.join();
      if (!alone && !by_fsync) {
        while (objects[0].state().phase() != DirtyPhase::kWriting) sleep_for(microseconds(1));
      }
      while (device.get() == nullptr && objects[0].state().phase() == DirtyPhase::kWriting) {
        sleep_for(microseconds(1));
      }
      if (Batch* const held = device.get()) held->complete();
      SIM_CHECK(rig.engine->sync(*rig.context).has_value());
      SIM_CHECK(rig.context->counts().all_zero());
      SIM_CHECK(rig.engine->dirty_and_writeback_bytes() == 0);
    }
  }
}

SIM_TEST(EngineSim, TwoFsyncsAndAFlusherAgreeOnOneWriter) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  LaterDevice device;
  SimRig rig(o);
  rig.target.device = &device;  // asserts one writer per object
  FakeObject object;
  object.set_context(rig.context->id());
  const auto run = [&] {
    for (int i = 0; i < 3; ++i) {
      SIM_CHECK(rig.dirty(object, 100));
      SIM_CHECK(rig.engine->fsync(object).has_value());
    }
  };
  Thread other("fsyncer", run);
  run();
  other.join();
  SIM_CHECK(object.dirty_bytes.load(std::memory_order_seq_cst) == 0);
  SIM_CHECK(rig.engine->sync(*rig.context).has_value());
  SIM_CHECK(rig.context->counts().all_zero());
}

// One write, and several who wait for it; none is left when it has ended.
SIM_TEST_WITH(EngineSim, EverybodyWhoWaitsForAnObjectIsWoken, (sim::Options{.schedules = 50})) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  LaterDevice device;
  SimRig rig(o);
  rig.target.device = &device;
  FakeObject object;
  object.set_context(rig.context->id());
  SIM_CHECK(rig.dirty(object, 4096));
  while (object.state().phase() != DirtyPhase::kWriting && !object.state().clean()) yield_thread();
  std::vector<Thread> callers;
  for (int i = 0; i < 3; ++i) {  // the device takes longer than they take to their places
    callers.emplace_back("caller", [&] { SIM_CHECK(rig.engine->fsync(object).has_value()); });
  }
  for (Thread& caller : callers) caller.join();
  SIM_CHECK(object.state().clean());
}

// What stop() and remove_context() wait for may itself ask about the contexts.
SIM_TEST(EngineSim, ATargetMayAskForStatsWhileTheEngineStops) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  SimRig rig(o);
  FakeTarget other_target;
  WritebackContext& other = *rig.engine->add_context(other_target);
  rig.target.on_write = [&](FakeObject&, const WriteSlot&, WorkKind) { (void)rig.engine->stats(); };
  FakeObject object;
  object.set_context(rig.context->id());
  SIM_CHECK(rig.dirty(object, 8000));
  // Both ends of the other one at once.
  Thread remover("remover", [&] { (void)rig.engine->remove_context(other); });
  rig.engine->stop();
  remover.join();
  rig.cancel(object);
}

SIM_TEST_WITH(EngineSim, MoreFsyncsThanThereArePlacesTakeTurns, (sim::Options{.schedules = 10})) {
  LaterDevice device;
  SimRig rig(sim_options());
  rig.target.device = &device;
  std::vector<std::unique_ptr<FakeObject>> objects;
  std::vector<Thread> threads;
  for (std::size_t i = 0; i < WritebackContext::kFsyncBatches + 3; ++i) {
    objects.push_back(std::make_unique<FakeObject>());
    objects.back()->set_context(rig.context->id());
    rig.engine->mark_dirty(*objects.back(), kDirtyTimestamps, rig.engine->clock().now());
  }
  for (const auto& object : objects) {
    threads.emplace_back("fsyncer", [&] { SIM_CHECK(rig.engine->fsync(*object).has_value()); });
  }
  for (Thread& thread : threads) thread.join();
  for (const auto& object : objects) SIM_CHECK(object->state().clean());
}

// More fsyncs than there are batches for, all of them stuck: stop() ends those that wait for one.
SIM_TEST_WITH(EngineSim, StopEndsAnFsyncThatWaitsForItsTurn, (sim::Options{.schedules = 10})) {
  SimRig rig(sim_options());
  StuckDevice device;
  rig.target.device = &device;
  constexpr std::size_t kStuck = WritebackContext::kFsyncBatches;
  std::vector<std::unique_ptr<FakeObject>> objects;
  std::vector<Thread> threads;
  for (std::size_t i = 0; i <= kStuck; ++i) {
    objects.push_back(std::make_unique<FakeObject>());
    objects.back()->set_context(rig.context->id());
    rig.engine->mark_dirty(*objects.back(), kDirtyTimestamps, rig.engine->clock().now());
  }
  for (std::size_t i = 0; i < kStuck; ++i) {
    threads.emplace_back("fsyncer", [&, i] { SIM_CHECK(rig.engine->fsync(*objects[i]).has_value()); });
  }
  while (device.count() < kStuck) sleep_for(milliseconds(1));
  Thread last("fsyncer",
              [&] { SIM_CHECK(rig.engine->fsync(*objects[kStuck]).error().code == Reason::kShutDown); });
  sleep_for(milliseconds(1));
  Thread stopper("stopper", [&] { rig.engine->stop(); });
  last.join();
  device.complete_all();
  for (Thread& thread : threads) thread.join();
  stopper.join();
  rig.cancel(*objects[kStuck]);
}

// What one context waits for when it ends may be those who call another.
SIM_TEST_WITH(EngineSim, StopSendsTheCallersOfEveryContextAwayFirst, (sim::Options{.schedules = 50})) {
  StuckDevice device;
  FakeTarget other_target;
  other_target.device = &device;
  SimRig rig(sim_options());
  rig.target.device = &device;
  WritebackContext* const contexts[] = {rig.context, rig.engine->add_context(other_target)};
  FakeObject objects[2];
  std::vector<Thread> callers;
  for (int i = 0; i < 2; ++i) {
    objects[i].set_context(contexts[i]->id());
    rig.engine->mark_dirty(objects[i], kDirtyTimestamps, rig.engine->clock().now());
    callers.emplace_back("syncer", [&, i] {
      const Result<void> done = rig.engine->sync(*contexts[i]);
      SIM_CHECK(!done.has_value() && done.error().code == Reason::kShutDown);
    });
  }
  while (device.count() < 2) sleep_for(milliseconds(1));
  Thread stopper("stopper", [&] { rig.engine->stop(); });
  for (Thread& caller : callers) caller.join();
  device.complete_all();
  stopper.join();
}

SIM_TEST(EngineSim, StopEndsEverybodyWhoWaits) {
  EngineOptions o = sim_options();
  LaterDevice device;
  SimRig rig(o);
  rig.target.device = &device;
  FakeObject objects[8];
  for (FakeObject& object : objects) object.set_context(rig.context->id());
  Thread writer("writer", [&] {
    int i = 0;
    while (rig.dirty(objects[i++ % 8], 3000)) {
    }
  });
  Thread syncer("syncer", [&] {
    while (rig.engine->sync(*rig.context).has_value()) sleep_for(milliseconds(1));
  });
  Thread fsyncer("fsyncer", [&] {
    while (rig.engine->fsync(objects[0]).has_value()) sleep_for(milliseconds(1));
  });
  sleep_for(milliseconds(20));
  rig.engine->stop();
  writer.join();
  syncer.join();
  fsyncer.join();
  for (FakeObject& object : objects) rig.cancel(object);
  SIM_CHECK(rig.context->counts().all_zero());
}

// The oldest object is skipped, fails and is partly written in turns: on the list, gathered, in flight, or on
// the ladder, whoever moves it when. Each reading says its stamp, no older one and no younger one.
SIM_TEST(EngineSim, TheOldestStampIsThatOfWhatIsNeverClean) {
  EngineOptions o = sim_options();
  o.background_bytes = 0;
  o.retry_first = microseconds(50);
  SimRig rig(o);
  FakeObject oldest;
  FakeObject others[3];
  oldest.set_context(rig.context->id());
  for (FakeObject& other : others) other.set_context(rig.context->id());
  Atomic<std::uint32_t> turn{0};
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    if (&object != &oldest) return WriteOutcome::kWritten;
    slot.error.code = Reason::kIo;
    constexpr WriteOutcome kTurns[] = {WriteOutcome::kPartial, WriteOutcome::kFailed,
                                       WriteOutcome::kSkipped};
    return kTurns[turn.fetch_add(1, std::memory_order_relaxed) % 3];
  };
  SIM_CHECK(rig.dirty(oldest, 4096));
  const Instant stamp = rig.context->oldest_dirty();
  SIM_CHECK(stamp != Instant::max());
  Thread writer("writer", [&] {
    for (int i = 0; i < 6; ++i) {
      FakeObject& other = others[i % 3];
      SIM_CHECK(rig.dirty(other, 256));
      if (i % 2 == 0) SIM_CHECK(rig.engine->fsync(other).has_value());
    }
  });
  for (int i = 0; i < 8; ++i) SIM_CHECK(rig.context->oldest_dirty() == stamp);
  writer.join();
  rig.cancel(oldest);
  for (FakeObject& other : others) rig.cancel(other);
  SIM_CHECK(rig.context->oldest_dirty() == Instant::max());
}

}  // namespace
}  // namespace tidewheel
