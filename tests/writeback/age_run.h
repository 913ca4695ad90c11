// Maximum age as a promise, in virtual time: whatever syncs, owner switches, errors, reclaim, a slow device
// and clock steps do, a write begins at most expire + interval + one slot + the service time after the first
// dirt. Ages are told by time that passes, which a clock that is set ahead or back does not change. A step
// back that is shorter than an interval and a late reading may go unnoticed, and then delays by itself; and
// by an interval more what had expired, looks younger, and changes its owner just then. A longer one delays
// nothing.
#pragma once
#include "base/rng.h"
#include "owner_rig.h"

namespace tidewheel {

class AgeRun {
 public:
  struct Setup {
    std::uint64_t seed = 1;
    Duration longest_pause = milliseconds(20);  // between two events; drawn evenly
    std::uint64_t bytes_per_s = 20 << 20;       // of the device
    bool clock_steps = true;
  };
  // What differs from run to run: sparse dirt, where age alone has things written, and dense, where the
  // device is busy; a fast device and a slow one.
  static Setup setup_of(std::uint64_t seed) {
    return {.seed = seed,
            .longest_pause = seed % 2 == 0 ? milliseconds(200) : milliseconds(4),
            .bytes_per_s = seed % 4 < 2 ? 20U << 20 : 4U << 20};
  }

  explicit AgeRun(const Setup& setup)
      : setup_(setup), rng_(setup.seed), rig_(options(), kOwners),
        device_(*rig_.driver, milliseconds(3), setup.bytes_per_s) {
    const EngineOptions& o = rig_.engine->options();
    // What is ahead of a write: a limit's worth of data at the device's speed, what a sync adds to it while
    // it goes on, and again; a batch's latency each.
    const Duration service{static_cast<std::int64_t>(3 * o.dirty_bytes * 1'000'000'000 / setup.bytes_per_s)};
    promise_ = o.expire + o.interval + kSlot + service + milliseconds(300);
    rig_.target.device = &device_;
    rig_.target.decide = [this](FakeObject&, WriteSlot& slot) {
      slot.error.code = Reason::kIo;
      return rng_.below(50) == 0 ? WriteOutcome::kFailed : WriteOutcome::kWritten;
    };
    rig_.target.on_write = [this](FakeObject& object, const WriteSlot& slot, WorkKind) {
      static_cast<Aged&>(object).writing = slot.stamp;
      write_begins(static_cast<Aged&>(object), slot.outcome == WriteOutcome::kFailed);
    };
    for (std::uint32_t i = 0; i < kObjects; ++i) {
      auto object = std::make_unique<Aged>();
      object->set_context(rig_.owner[i % kOwners]->id());
      objects_.push_back(object.get());
      rig_.objects.push_back(std::move(object));
    }
  }

  void step() {
    const std::uint64_t draw = rng_.next();
    Aged& object = *objects_[draw % kObjects];
    WritebackContext& owner = *rig_.owner[(draw >> 16) % kOwners];
    const std::uint64_t what = (draw >> 24) % 1024;
    if (what < 964) {
      dirty(object);
    } else if (what < 1004) {
      rig_.engine->switch_owner(object, owner);
    } else if (what < 1006) {
      OwnerSwitch all(owner, *rig_.owner[(owner.id() + 1) % kOwners]);
      while (all.step()) {
      }
    } else if (what < 1014) {
      (void)rig_.engine->fsync(object);
    } else if (what < 1018) {
      (void)rig_.engine->sync(owner);
    } else if (what < 1022) {
      rig_.engine->reclaim(owner, rng_.below(64 << 10));
    } else {
      check_metric(owner);
    }
    if (setup_.clock_steps && now() >= next_clock_step_) step_clock();
    const auto longest = static_cast<std::uint64_t>(setup_.longest_pause.ns);
    rig_.driver->run_for(Duration{static_cast<std::int64_t>(((draw >> 34) * longest) >> 30)});
  }

  // The oldest at its write, by as much as clock steps can have hidden from the engine less. Within the
  // promise?
  Duration oldest_write() const { return oldest_write_; }
  Duration promise() const { return promise_; }
  bool kept() const { return oldest_write_ <= promise_; }
  Duration passed() const { return now() - VirtualRig::seconds_at(1000); }
  std::uint64_t dirtied = 0;        // dirtying events: calls of mark_dirty() with data
  std::uint64_t first_dirtied = 0;  // of these, those that no write had begun with since: an age begins
  std::uint64_t writes = 0;
  std::uint64_t failed_writes = 0;
  std::uint64_t clock_steps = 0;
  std::uint64_t metric_checks = 0;

 private:
  struct Aged : FakeObject {
    Instant since = Instant::max();  // first dirt that no write has begun with
    Duration hidden{0};              // hidden_ then
    Instant writing;                 // the stamp of what is being written
    bool tried = false;              // its write has begun, and failed: the ladder has it
  };

  static constexpr std::uint32_t kOwners = 4;
  static constexpr std::uint32_t kObjects = 600;
  static constexpr Duration kSlot{1LL << 27};
  static EngineOptions options() {
    EngineOptions o = small_options();
    o.dirty_bytes = 8 << 20;
    o.background_bytes = 4 << 20;
    return o;
  }
  Instant now() const { return rig_.clock.now() - stepped_; }

  void dirty(Aged& object) {
    if (object.since == Instant::max()) {
      object.since = now();
      object.hidden = hidden_;
      ++first_dirtied;
    }
    TW_ASSERT(dirty_owned(*rig_.engine, rig_.target, object, 512), "the run's writer");
    ++dirtied;
  }
  void write_begins(Aged& object, bool fails) {
    ++writes;
    if (!object.tried) {
      oldest_write_ = std::max(oldest_write_, now() - object.since - (hidden_ - object.hidden));
    }
    object.tried = fails;
    if (fails) {
      ++failed_writes;
    } else {
      object.since = Instant::max();
    }
  }
  // By up to a second, a minute, or a day; so seldom that most of what is dirtied meets none.
  void step_clock() {
    next_clock_step_ = now() + seconds(static_cast<std::int64_t>(60 + rng_.below(600)));
    constexpr std::int64_t kUpTo[] = {1'000'000'000, 60'000'000'000, 86'400'000'000'000};
    const auto up_to = static_cast<std::uint64_t>(kUpTo[rng_.below(3)]);
    Duration by{static_cast<std::int64_t>(1 + rng_.below(up_to))};
    const bool back = rng_.chance(2);
    if (back) {
      const Duration interval = rig_.engine->options().interval;
      if (by <= interval + Duration{1LL << 30}) hidden_ += by + interval;
      by = by * -1;
    }
    rig_.driver->step_clock(by);
    device_.clock_stepped(by);
    stepped_ += by;
    ++clock_steps;
  }
  // "Oldest dirty age" of an owner: exactly, by the stamps there are.
  void check_metric(WritebackContext& owner) {
    Instant oldest = Instant::max();
    for (const Aged* object : objects_) {
      const DirtyState state = object->state();
      if (state.clean() || state.context() != owner.id()) continue;
      const bool writing = state.phase() == DirtyPhase::kWriting;
      oldest = std::min(oldest, writing ? object->writing : object->dirtied_when());
    }
    TW_ASSERT(owner.oldest_dirty() == oldest, "the oldest stamp is another one");
    const Instant read_at = rig_.clock.now();
    const Duration truth = oldest < read_at ? read_at - oldest : Duration{0};
    TW_ASSERT(rig_.engine->stats(owner).oldest_dirty_age == truth, "the oldest dirty age is another one");
    ++metric_checks;
  }

  const Setup setup_;
  Rng rng_;
  OwnerRig rig_;
  VirtualDevice device_;
  std::vector<Aged*> objects_;
  Duration promise_;
  Duration oldest_write_{0};
  Instant next_clock_step_ = VirtualRig::seconds_at(1010);
  Duration stepped_{0};  // all clock steps together
  Duration hidden_{0};   // what steps back can have hidden
};

}  // namespace tidewheel
