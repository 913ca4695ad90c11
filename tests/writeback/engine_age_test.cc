// Maximum age as a promise, in virtual time: whatever syncs, owner switches, errors, reclaim, a slow device
// do, a write begins at most expire + interval + one slot + the service time after the first dirt.
#include "base/rng.h"
#include "owner_rig.h"

namespace tidewheel {
namespace {

struct Aged : FakeObject {
  Instant since = Instant::max();  // first dirt that no write has begun with
  bool tried = false;              // its write has begun, and failed: the ladder has it
};

constexpr Duration kSlot{1LL << 27};
// What is ahead of a write: a limit's worth of data at the device's speed, syncs of it included, a batch's
// latency each.
constexpr Duration kService = milliseconds(1500);

class AgeRun {
 public:
  explicit AgeRun(std::uint64_t seed)
      : rng_(seed), rig_(options(), kOwners), device_(*rig_.driver, milliseconds(3), 20 << 20) {
    rig_.target.device = &device_;
    rig_.target.decide = [this](FakeObject&, WriteSlot& slot) {
      slot.error.code = Reason::kIo;
      return rng_.below(50) == 0 ? WriteOutcome::kFailed : WriteOutcome::kWritten;
    };
    rig_.target.on_write = [this](FakeObject& object, const WriteSlot& slot, WorkKind) {
      auto& aged = static_cast<Aged&>(object);
      if (!aged.tried) oldest_write_ = std::max(oldest_write_, rig_.clock.now() - aged.since);
      aged.tried = slot.outcome == WriteOutcome::kFailed;
      if (!aged.tried) aged.since = Instant::max();
    };
    for (std::uint32_t i = 0; i < kObjects; ++i) {
      auto object = std::make_unique<Aged>();
      object->set_context(rig_.owner[i % kOwners]->id());
      objects_.push_back(object.get());
      rig_.objects.push_back(std::move(object));
    }
  }

  void step() {
    Aged& object = *objects_[rng_.below(kObjects)];
    WritebackContext& owner = *rig_.owner[rng_.below(kOwners)];
    const std::uint64_t what = rng_.below(1000);
    if (what < 940) {
      if (object.since == Instant::max()) object.since = rig_.clock.now();
      TW_ASSERT(dirty_owned(*rig_.engine, rig_.target, object, 512), "the rig's writer");
      ++dirtied;
    } else if (what < 980) {
      rig_.engine->switch_owner(object, owner);
    } else if (what < 982) {
      OwnerSwitch all(owner, *rig_.owner[(owner.id() + 1) % kOwners]);
      while (all.step()) {
      }
    } else if (what < 990) {
      (void)rig_.engine->fsync(object);
    } else if (what < 994) {
      (void)rig_.engine->sync(owner);
    } else if (what < 996) {
      rig_.engine->reclaim(owner, rng_.below(64 << 10));
    } else {
      check_metric(owner);
    }
    const std::uint64_t pause_ns = rng_.below(static_cast<std::uint64_t>(pace.ns));
    rig_.driver->run_for(Duration{static_cast<std::int64_t>(pause_ns)});
  }

  Duration oldest_write() const { return oldest_write_; }
  Duration passed() const { return rig_.clock.now() - VirtualRig::seconds_at(1000); }
  Duration pace = milliseconds(20);
  std::uint64_t dirtied = 0;
  std::uint64_t metric_checks = 0;

 private:
  static constexpr std::uint32_t kOwners = 4;
  static constexpr std::uint32_t kObjects = 600;
  static EngineOptions options() {
    EngineOptions o = small_options();
    o.dirty_bytes = 8 << 20;
    o.background_bytes = 4 << 20;
    return o;
  }
  // "Oldest dirty age" of an owner: never less than the truth, and more by at most a slot. (The ladder's is a
  // bound of a group of failures: only from below.)
  void check_metric(WritebackContext& owner) {
    Instant oldest = Instant::max();
    bool failed = false;
    for (const Aged* object : objects_) {
      const DirtyState state = object->state();
      if (state.clean() || state.context() != owner.id()) continue;
      failed = failed || object->tried || state.in_batch();
      if (!state.in_batch()) oldest = std::min(oldest, object->dirtied_when());
    }
    if (oldest == Instant::max()) return;
    const Duration metric = rig_.engine->stats(owner).oldest_dirty_age;
    const Duration truth = rig_.clock.now() - oldest;
    ASSERT_GE(metric.ns, truth.ns);
    if (!failed) {
      ASSERT_LE(metric.ns, (truth + kSlot).ns);
      ++metric_checks;
    }
  }

  Rng rng_;
  OwnerRig rig_;
  VirtualDevice device_;
  std::vector<Aged*> objects_;
  Duration oldest_write_{0};
};

TEST(EngineAge, HoldsBesideSyncsSwitchesErrorsAndReclaim) {
  const EngineOptions defaults;
  const Duration promise = defaults.expire + defaults.interval + kSlot + kService;
  std::uint64_t dirtied = 0;
  std::uint64_t checks = 0;
  Duration passed{0};
  Duration oldest{0};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    AgeRun run(seed);
    // Sparse dirt, where age alone has things written, and dense, where the device is busy.
    run.pace = seed % 2 == 0 ? milliseconds(200) : milliseconds(4);
    for (std::uint64_t i = 0, n = loop_length(30'000); i < n; ++i) {
      run.step();
      ASSERT_LE(run.oldest_write().ns, promise.ns) << "after " << i << " steps";
    }
    dirtied += run.dirtied;
    checks += run.metric_checks;
    passed = passed + run.passed();
    oldest = std::max(oldest, run.oldest_write());
  }
  EXPECT_GE(oldest.ns, defaults.expire.ns) << "nothing has waited for its age";
  EXPECT_GT(checks, 10U);
  std::printf("[          ] %llu dirtyings in %lld s: oldest at its write %.3f s of %.3f\n",
              static_cast<unsigned long long>(dirtied), static_cast<long long>(passed.ns / 1'000'000'000),
              static_cast<double>(oldest.ns) / 1e9, static_cast<double>(promise.ns) / 1e9);
}

}  // namespace
}  // namespace tidewheel
