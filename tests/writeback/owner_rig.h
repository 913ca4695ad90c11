// Several owners' contexts on one target, whose objects are re-filed beside writers.
#pragma once
#include "base/sim.h"
#include "engine_rig.h"
#include "tests/length.h"
#include "writeback/owner.h"

namespace tidewheel {

inline LockClass owner_target_class("owner-target", LockRank::kMapping);

// Accounts under a lock, as begin_switch() asks of who switches owners beside writers.
class OwnerTarget : public FakeTarget {
 public:
  SwitchHold begin_switch(const DirtyObject& object) override TW_NO_THREAD_SAFETY_ANALYSIS {
    lock.lock();
    return {static_cast<const FakeObject&>(object).dirty_bytes.load(std::memory_order_seq_cst), &lock};
  }
  void end_switch(const SwitchHold& hold) override TW_NO_THREAD_SAFETY_ANALYSIS {
    static_cast<Mutex*>(hold.lock)->unlock();
  }
  Mutex lock{owner_target_class};
};

inline bool dirty_owned(WritebackEngine& engine, OwnerTarget& target, FakeObject& object, std::uint64_t bytes,
                        std::uint32_t classes = kDirtyData) {
  Result<DirtyGrant> grant = engine.balance_dirty_pages(*engine.context(object.context()), bytes);
  if (!grant) return false;
  {
    MutexLock guard(target.lock);
    engine.account_dirtied(object, *grant, std::min(bytes, grant->bytes()));
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
  }
  engine.mark_dirty(object, classes, engine.clock().now(), &*grant);
  return true;
}

inline bool cancel_owned(WritebackEngine& engine, OwnerTarget& target, FakeObject& object) {
  const bool was = engine.cancel(object);
  MutexLock guard(target.lock);
  engine.account_cancelled(object, object.dirty_bytes.exchange(0, std::memory_order_seq_cst));
  return was;
}

// How often a lock of this class has been taken.
inline std::uint64_t acquisitions_of(const char* lock) {
  for (const LockClassStats& one : lock_statistics()) {
    if (std::string_view(one.name) == lock) return one.acquisitions;
  }
  return 0;
}

// In virtual time. Objects are cancelled at the end, and nothing may be left in any count.
class OwnerRig {
 public:
  explicit OwnerRig(EngineOptions o, std::uint32_t owners, const ContextOptions& each = {})
      : clock(VirtualRig::seconds_at(1000)) {
    o.clock = &clock;
    auto owned = std::make_unique<VirtualDriver>(clock);
    driver = owned.get();
    auto made = WritebackEngine::make(o, std::move(owned));
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    for (std::uint32_t i = 0; i < owners; ++i) owner.push_back(engine->add_context(target, each));
  }
  ~OwnerRig() {
    for (auto& object : objects) cancel_owned(*engine, target, *object);
    for (WritebackContext* each : owner) {
      EXPECT_TRUE(each->counts().all_zero()) << each->id();
      each->list().check_invariants();
    }
    EXPECT_EQ(engine->dirty_and_writeback_bytes(), 0U);
    engine->stop();
  }
  FakeObject& make(std::uint32_t of) {
    objects.push_back(std::make_unique<FakeObject>());
    objects.back()->set_context(owner[of]->id());
    return *objects.back();
  }
  FakeObject& make_dirty(std::uint32_t of, std::uint64_t bytes = 4096) {
    FakeObject& object = make(of);
    dirty(object, bytes);
    return object;
  }
  void dirty(FakeObject& object, std::uint64_t bytes = 4096, std::uint32_t classes = kDirtyData) {
    if (object.first_dirty == Instant::max()) object.first_dirty = clock.now();
    ASSERT_TRUE(dirty_owned(*engine, target, object, bytes, classes));
  }
  std::uint64_t objects_of(std::uint32_t of) const { return owner[of]->counts().objects(); }

  VirtualClock clock;
  OwnerTarget target;
  std::unique_ptr<WritebackEngine> engine;
  VirtualDriver* driver = nullptr;
  std::vector<WritebackContext*> owner;
  std::vector<std::unique_ptr<FakeObject>> objects;
};

}  // namespace tidewheel
