// The life of a dirty object, on every design: each transition of the table, cancel in every phase with the
// memory freed at once, and random sequences of everything beside a model.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "base/rng.h"
#include "tests/writeback/list_rig.h"

namespace tidewheel {
namespace {

using TakeOut = DirtyList::TakeOut;

class DirtyListLife : public ::testing::TestWithParam<std::string> {};

TEST_P(DirtyListLife, GoesFromCleanToListedToWritingToClean) {
  ListRig rig(GetParam(), 1);
  EXPECT_EQ(rig.list->name(), GetParam());
  EXPECT_EQ(rig.list->oldest(), Instant::max());
  EXPECT_TRUE(rig.mark(0));
  EXPECT_EQ(rig[0].state().phase(), DirtyPhase::kListed);
  EXPECT_EQ(rig[0].dirtied_when(), rig.now);
  EXPECT_LE(rig.list->oldest(), rig.now);
  EXPECT_GE(rig.list->oldest(), rig.now - Duration{1LL << 27});
  EXPECT_EQ(rig.list->listed(), 1U);
  rig.list->check_invariants();

  auto work = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*work, 4);
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0].classes, kDirtyData);
  EXPECT_EQ(slots[0].stamp, rig.now);
  EXPECT_EQ(rig[0].state().phase(), DirtyPhase::kWriting);
  EXPECT_EQ(rig[0].state().classes(), 0U);
  EXPECT_EQ(rig.list->listed(), 0U);
  const auto ended = rig.end(slots[0], WriteOutcome::kWritten);
  EXPECT_TRUE(ended.clean);
  EXPECT_FALSE(ended.waiters);
  EXPECT_EQ(rig[0].state().word(), 0U);
  EXPECT_EQ(rig.list->oldest(), Instant::max());
  rig.list->check_invariants();
}

TEST_P(DirtyListLife, MarkingAgainAddsClassesAndKeepsTheStamp) {
  ListRig rig(GetParam(), 1);
  rig.mark(0, kDirtyTimestamps);
  const Instant first = rig.now;
  rig.pass(seconds(3));
  EXPECT_FALSE(rig.mark(0, kDirtyTimestamps));
  EXPECT_EQ(rig.list->stats().redirties, 0U);
  EXPECT_FALSE(rig.mark(0, kDirtyData | kDirtyMetadata));
  EXPECT_EQ(rig.list->stats().redirties, 1U);
  EXPECT_EQ(rig[0].state().classes(), kDirtyAll);
  EXPECT_EQ(rig[0].dirtied_when(), first);
  auto work = rig.select(WorkKind::kBackground);
  DirtyObject* claimed = nullptr;
  ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
  WriteSlot slot;
  slot.object = claimed;
  ASSERT_TRUE(rig.list->begin_write(slot));
  EXPECT_EQ(slot.classes, kDirtyAll);
  EXPECT_EQ(slot.stamp, first);
  rig.end(slot, WriteOutcome::kWritten);
}

TEST_P(DirtyListLife, DirtiedWhileWrittenIsListedAgain) {
  ListRig rig(GetParam(), 1);
  rig.mark(0);
  auto work = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*work, 1);
  rig.pass(seconds(1));
  EXPECT_FALSE(rig.mark(0, kDirtyMetadata)) << "it did not become listed now";
  EXPECT_EQ(rig[0].dirtied_when(), rig.now) << "the first dirt since the write began";
  rig.pass(seconds(1));
  rig.mark(0, kDirtyData);
  EXPECT_FALSE(rig.end(slots[0], WriteOutcome::kWritten).clean);
  EXPECT_EQ(rig[0].state().phase(), DirtyPhase::kListed);
  EXPECT_EQ(rig[0].state().classes(), kDirtyMetadata | kDirtyData);
  rig.list->check_invariants();
}

TEST_P(DirtyListLife, WhatWasNotWrittenIsDirtyAgain) {
  for (const WriteOutcome outcome : {WriteOutcome::kPartial, WriteOutcome::kSkipped, WriteOutcome::kFailed}) {
    ListRig rig(GetParam(), 1);
    rig.mark(0, kDirtyData);
    auto work = rig.select(WorkKind::kBackground);
    auto slots = rig.begin(*work, 1);
    rig.mark(0, kDirtyTimestamps);
    EXPECT_FALSE(rig.end(slots[0], outcome).clean);
    EXPECT_EQ(rig[0].state().classes(), kDirtyData | kDirtyTimestamps);
    EXPECT_EQ(rig.list->listed(), 1U);
    rig.list->check_invariants();
    work.reset();
    EXPECT_EQ(rig.work(WorkKind::kSync).size(), 1U) << "a sync finds it, wherever it went";
    EXPECT_TRUE(rig[0].state().clean());
  }
}

// The old dirt is still there, so the object is as old as that, although it was dirtied again meanwhile.
TEST_P(DirtyListLife, WhatIsPartlyWrittenOrFailedKeepsItsFirstStamp) {
  for (const WriteOutcome outcome : {WriteOutcome::kPartial, WriteOutcome::kFailed}) {
    ListRig rig(GetParam(), 1);
    const Instant first = rig.now;
    rig.mark(0);
    auto work = rig.select(WorkKind::kBackground);
    auto slots = rig.begin(*work, 1);
    rig.pass(seconds(2));
    rig.mark(0);
    EXPECT_EQ(rig[0].dirtied_when(), rig.now);
    rig.end(slots[0], outcome);
    EXPECT_EQ(rig[0].dirtied_when(), first);
    EXPECT_LE(std::min(rig.list->oldest(), rig.list->oldest_retry()), first);
  }
}

TEST_P(DirtyListLife, GivenUpIsClean) {
  ListRig rig(GetParam(), 1);
  rig.mark(0);
  auto work = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*work, 1);
  EXPECT_TRUE(rig.end(slots[0], WriteOutcome::kGivenUp).clean);
  EXPECT_TRUE(rig[0].state().clean());
}

TEST_P(DirtyListLife, CancelFreesInEveryPhase) {
  ListRig rig(GetParam());
  const auto make = [&] {
    auto object = std::make_unique<DirtyObject>();
    rig.list->mark_dirty(*object, kDirtyData, rig.now);
    return object;
  };
  // clean
  auto object = std::make_unique<DirtyObject>();
  EXPECT_EQ(rig.cancel(*object), TakeOut::kClean);
  object.reset();
  // listed: first, middle, last
  for (int victim = 0; victim < 3; ++victim) {
    std::array<std::unique_ptr<DirtyObject>, 3> three = {make(), make(), make()};
    EXPECT_EQ(rig.cancel(*three[victim]), TakeOut::kTaken);
    three[victim].reset();
    rig.list->check_invariants();
    for (auto& each : three) {
      if (each == nullptr) continue;
      EXPECT_EQ(rig.cancel(*each), TakeOut::kTaken);
    }
    EXPECT_EQ(rig.list->listed(), 0U);
  }
  // retry, alone and held by a sync
  for (const bool held : {false, true}) {
    object = make();
    {
      auto work = rig.select(WorkKind::kBackground);
      auto slots = rig.begin(*work, 1);
      rig.end(slots[0], WriteOutcome::kFailed);
    }
    std::unique_ptr<Selection> sync = held ? rig.select(WorkKind::kSync) : nullptr;
    EXPECT_EQ(rig.cancel(*object), TakeOut::kTaken);
    object.reset();
    EXPECT_EQ(rig.list->listed(), 0U);
    EXPECT_EQ(rig.list->next_retry(), Instant::max());
    rig.list->check_invariants();
  }
  // detached or selected, not claimed
  for (const WorkKind kind : {WorkKind::kPeriodic, WorkKind::kBackground, WorkKind::kSync}) {
    std::array<std::unique_ptr<DirtyObject>, 3> three = {make(), make(), make()};
    rig.pass(seconds(100));
    auto work = rig.select(kind);
    DirtyObject* claimed = nullptr;
    for (int turn = 0; turn < 10 && work->claim(std::span(&claimed, 1)) == 0; ++turn) {
      work.reset();  // syncer-slots moves on by an interval at a time
      rig.pass(seconds(5));
      work = rig.select(kind);
    }
    ASSERT_NE(claimed, nullptr);
    for (auto& each : three) {
      if (each.get() == claimed) continue;
      EXPECT_EQ(rig.cancel(*each), TakeOut::kTaken);
      each.reset();
    }
    rig.list->check_invariants();
    DirtyObject* none = nullptr;
    EXPECT_EQ(work->claim(std::span(&none, 1)), 0U);
    rig.list->unclaim(*claimed, rig.now);
    EXPECT_EQ(rig.cancel(*claimed), TakeOut::kTaken);
  }
  // claimed: it leaves where its write would begin
  object = make();
  auto work = rig.select(WorkKind::kBackground);
  DirtyObject* claimed = nullptr;
  ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
  EXPECT_EQ(rig.cancel(*object), TakeOut::kInBatch);
  EXPECT_TRUE(object->state().has_waiters());
  rig.list->mark_dirty(*object, kDirtyMetadata, rig.now);  // goes with the rest
  WriteSlot slot;
  slot.object = claimed;
  EXPECT_FALSE(rig.list->begin_write(slot));
  EXPECT_EQ(object->state().word(), 0U);
  EXPECT_EQ(rig.cancel(*object), TakeOut::kClean);
  object.reset();
  EXPECT_EQ(rig.list->listed(), 0U);
  // claimed, and given back unwritten
  object = make();
  ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
  EXPECT_EQ(rig.cancel(*object), TakeOut::kInBatch);
  EXPECT_TRUE(rig.list->unclaim(*claimed, rig.now));
  rig.list->check_invariants();
  EXPECT_EQ(rig.cancel(*object), TakeOut::kTaken);
  // writing
  object = make();
  ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
  slot.object = claimed;
  ASSERT_TRUE(rig.list->begin_write(slot));
  EXPECT_EQ(rig.cancel(*object), TakeOut::kInBatch);
  EXPECT_EQ(rig.list->claim_one(*object), TakeOut::kInBatch);
  const auto ended = rig.end(slot, WriteOutcome::kWritten);
  EXPECT_TRUE(ended.waiters);
  EXPECT_EQ(rig.cancel(*object), TakeOut::kClean);
  object.reset();
  rig.list->check_invariants();
}

// Who wants it written doesn't take it out of its batch.
TEST_P(DirtyListLife, FsyncOfAClaimedObjectLetsItsWriteBegin) {
  ListRig rig(GetParam(), 1);
  rig.mark(0);
  auto work = rig.select(WorkKind::kBackground);
  DirtyObject* claimed = nullptr;
  ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
  EXPECT_EQ(rig.list->claim_one(rig[0]), TakeOut::kInBatch);
  WriteSlot slot;
  slot.object = claimed;
  ASSERT_TRUE(rig.list->begin_write(slot));
  EXPECT_TRUE(rig[0].state().has_waiters()) << "who waited at claimed still waits";
  EXPECT_TRUE(rig.end(slot, WriteOutcome::kWritten).waiters);
}

TEST_P(DirtyListLife, WaitersAreReportedByEveryWayOutOfABatch) {
  ListRig rig(GetParam(), 1);
  for (const WriteOutcome outcome : {WriteOutcome::kWritten, WriteOutcome::kPartial, WriteOutcome::kSkipped,
                                     WriteOutcome::kFailed, WriteOutcome::kGivenUp}) {
    rig.mark(0);
    rig.pass(seconds(200));  // past any back-off
    auto work = rig.select(WorkKind::kBackground);
    auto slots = rig.begin(*work, 1);
    ASSERT_EQ(slots.size(), 1U);
    EXPECT_EQ(rig.list->claim_one(rig[0]), TakeOut::kInBatch);
    EXPECT_TRUE(rig.end(slots[0], outcome).waiters);
    EXPECT_FALSE(rig[0].state().has_waiters());
  }
  rig.mark(0);
  auto work = rig.select(WorkKind::kBackground);
  DirtyObject* claimed = nullptr;
  ASSERT_EQ(work->claim(std::span(&claimed, 1)), 1U);
  EXPECT_EQ(rig.cancel(rig[0]), TakeOut::kInBatch);
  EXPECT_TRUE(rig.list->unclaim(rig[0], rig.now));
}

TEST_P(DirtyListLife, FsyncTakesOneObjectFromWhereverItIs) {
  ListRig rig(GetParam(), 3);
  for (std::size_t i = 0; i < 3; ++i) rig.mark(i);
  EXPECT_EQ(rig.list->claim_one(rig[1]), TakeOut::kTaken);
  rig.list->check_invariants();
  WriteSlot slot;
  slot.object = &rig[1];
  ASSERT_TRUE(rig.list->begin_write(slot));
  rig.end(slot, WriteOutcome::kFailed, WorkKind::kFsync);
  EXPECT_EQ(rig.list->claim_one(rig[1]), TakeOut::kTaken) << "from the ladder, or where the design files it";
  ASSERT_TRUE(rig.list->begin_write(slot));
  EXPECT_TRUE(rig.end(slot, WriteOutcome::kWritten, WorkKind::kFsync).clean);
  EXPECT_EQ(rig.list->claim_one(rig[1]), TakeOut::kClean);
  EXPECT_EQ(rig.list->listed(), 2U);
}

TEST_P(DirtyListLife, AnyListedSeesWhatASelectionWould) {
  ListRig rig(GetParam(), 1);
  EXPECT_FALSE(rig.list->any_listed(0, 1));
  rig.mark(0);
  EXPECT_TRUE(rig.list->any_listed(0, 1));
  rig.work(WorkKind::kBackground);
  EXPECT_FALSE(rig.list->any_listed(0, 1));
}

// Random sequences of every operation, with several works open at once, beside a model of where each object
// is and of what each sync must still write.
class RandomLife {
 public:
  RandomLife(const std::string& design, std::uint64_t seed, const DirtyListOptions& options = {})
      : rig_(design, kObjects, options), lazytime_(options.lazytime), rng_(seed) {}
  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      step();
      check();
    }
    finish();
  }

 private:
  static constexpr std::size_t kObjects = 40;
  struct Model {
    DirtyPhase phase = DirtyPhase::kClean;
    std::uint32_t classes = 0;
    Instant redirtied;      // first mark since begin_write
    bool cancelled = false; // while claimed
  };
  struct Work {
    WorkKind kind;
    std::unique_ptr<Selection> selection;
    Instant moment;
    std::set<std::size_t> must;  // kSync
  };

  void step() {
    rig_.pass(Duration{static_cast<std::int64_t>(rng_.below(1ULL << 29)) + 1});
    if (rng_.chance(40)) rig_.pass(seconds(40));
    const std::size_t i = rng_.below(kObjects);
    Model& model = models_[i];
    switch (rng_.below(11)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const std::uint32_t classes = 1U << rng_.below(3);
        const bool became_listed = rig_.mark(i, classes);
        EXPECT_EQ(became_listed, model.phase == DirtyPhase::kClean);
        if (model.phase == DirtyPhase::kWriting && model.classes == 0) model.redirtied = rig_.now;
        if (model.phase == DirtyPhase::kClean) {
          model.phase = lazytime_ && classes == kDirtyTimestamps ? DirtyPhase::kLazy : DirtyPhase::kListed;
        }
        model.classes |= classes;
        if (model.phase == DirtyPhase::kLazy && model.classes != kDirtyTimestamps) {
          model.phase = DirtyPhase::kListed;
        }
        break;
      }
      case 4:
        cancel(i);
        break;
      case 5:
        if (works_.size() < 4) open_work();
        break;
      case 6:
        if (!works_.empty() && rng_.chance(3)) works_.erase(works_.begin() + pick(works_.size()));
        // What a sync has left of the timestamps may be listed now, for a younger sync.
        for (std::size_t k = 0; k < kObjects; ++k) {
          const DirtyPhase phase = rig_[k].state().phase();
          if (models_[k].phase == DirtyPhase::kLazy && phase == DirtyPhase::kListed) {
            models_[k].phase = phase;
          }
        }
        break;
      case 7:
      case 8:
        if (!works_.empty()) claim(works_[pick(works_.size())]);
        break;
      case 9:
        if (!claimed_.empty()) begin_or_unclaim();
        break;
      case 10:
        if (!writing_.empty()) end_one();
        break;
    }
  }
  std::ptrdiff_t pick(std::size_t n) { return static_cast<std::ptrdiff_t>(rng_.below(n)); }

  void open_work() {
    constexpr std::array kKinds = {WorkKind::kPeriodic, WorkKind::kBackground, WorkKind::kSync,
                                   WorkKind::kReclaim};
    Work work{kKinds[rng_.below(kKinds.size())], nullptr, rig_.now, {}};
    work.selection = rig_.select(work.kind);
    if (work.kind == WorkKind::kSync) {
      for (std::size_t i = 0; i < kObjects; ++i) {
        if (unclaimed(models_[i].phase)) {
          work.must.insert(i);
        }
      }
    }
    works_.push_back(std::move(work));
  }
  static bool unclaimed(DirtyPhase phase) {
    return phase == DirtyPhase::kListed || phase == DirtyPhase::kRetry || phase == DirtyPhase::kLazy;
  }
  void no_longer_due(std::size_t i) {
    for (Work& work : works_) work.must.erase(i);
  }
  void due_again(std::size_t i, Instant dirtied) {
    for (Work& work : works_) {
      if (work.kind == WorkKind::kSync && dirtied <= work.moment) work.must.insert(i);
    }
  }
  void claim(Work& work) {
    std::array<DirtyObject*, 5> out{};
    const std::size_t n = work.selection->claim(std::span(out).first(1 + rng_.below(5)));
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t i = rig_.index_of(out[k]);
      ASSERT_LT(i, kObjects);
      EXPECT_TRUE(unclaimed(models_[i].phase));
      models_[i].phase = DirtyPhase::kClaimed;
      stamps_[i] = out[k]->dirtied_when();
      claimed_.push_back(i);
      no_longer_due(i);
    }
    if (n == 0 && work.kind == WorkKind::kSync && claimed_.empty() && writing_.empty()) {
      EXPECT_TRUE(work.must.empty()) << "a sync has ended and missed something";
    }
  }
  void begin_or_unclaim() {
    const auto at = claimed_.begin() + pick(claimed_.size());
    const std::size_t i = *at;
    claimed_.erase(at);
    Model& model = models_[i];
    if (rng_.chance(3)) {
      rig_.list->unclaim(rig_[i], rig_.now);
      model.phase = DirtyPhase::kListed;
      model.cancelled = false;
      due_again(i, stamps_[i]);
      return;
    }
    WriteSlot slot;
    slot.object = &rig_[i];
    const bool begun = rig_.list->begin_write(slot);
    EXPECT_EQ(begun, !model.cancelled);
    if (!begun) {
      gone(i);
      return;
    }
    EXPECT_EQ(slot.classes, model.classes);
    model.phase = DirtyPhase::kWriting;
    model.classes = 0;
    writing_.push_back(slot);
  }
  void end_one() {
    const auto at = writing_.begin() + pick(writing_.size());
    WriteSlot slot = *at;
    writing_.erase(at);
    const std::size_t i = rig_.index_of(slot.object);
    Model& model = models_[i];
    constexpr std::array kOutcomes = {WriteOutcome::kWritten, WriteOutcome::kWritten, WriteOutcome::kPartial,
                                      WriteOutcome::kSkipped, WriteOutcome::kFailed, WriteOutcome::kGivenUp};
    const WriteOutcome outcome = kOutcomes[rng_.below(kOutcomes.size())];
    const bool done = outcome == WriteOutcome::kWritten || outcome == WriteOutcome::kGivenUp;
    const auto ended = rig_.end(slot, outcome, rng_.chance(2) ? WorkKind::kSync : WorkKind::kBackground);
    EXPECT_EQ(ended.clean, done && model.classes == 0);
    const Instant dirtied = done ? model.redirtied : slot.stamp;
    if (!done) model.classes |= slot.classes;
    if (model.classes == 0) {
      model.phase = DirtyPhase::kClean;
      return;
    }
    model.phase = DirtyPhase::kListed;
    if (outcome == WriteOutcome::kFailed) {
      model.phase = rig_[i].state().phase();  // the ladder, or where the design files failures
      EXPECT_TRUE(model.phase == DirtyPhase::kRetry || rig_.list->name() == "syncer-slots");
      return;
    }
    // By its timestamps alone, and no sync is to find them: that looks at the lists.
    const bool awaited = std::any_of(works_.begin(), works_.end(), [&](const Work& work) {
      return work.kind == WorkKind::kSync && dirtied <= work.moment;
    });
    if (done && lazytime_ && model.classes == kDirtyTimestamps && !awaited) model.phase = DirtyPhase::kLazy;
    due_again(i, dirtied);
  }
  void cancel(std::size_t i) {
    Model& model = models_[i];
    const TakeOut took = rig_.cancel(rig_[i]);
    if (model.phase == DirtyPhase::kClean) {
      EXPECT_EQ(took, TakeOut::kClean);
      return;
    }
    if (model.phase == DirtyPhase::kClaimed || model.phase == DirtyPhase::kWriting) {
      EXPECT_EQ(took, TakeOut::kInBatch);
      model.cancelled = model.phase == DirtyPhase::kClaimed;
      return;
    }
    EXPECT_EQ(took, TakeOut::kTaken);
    gone(i);
  }
  void gone(std::size_t i) {
    EXPECT_EQ(rig_[i].state().word(), 0U);
    models_[i] = Model{};
    no_longer_due(i);
    rig_.objects[i] = std::make_unique<DirtyObject>();  // the old memory goes at once
  }
  void check() {
    std::uint64_t listed = 0;
    for (std::size_t i = 0; i < kObjects; ++i) {
      const DirtyState state = rig_[i].state();
      EXPECT_EQ(name_of(state.phase()), name_of(models_[i].phase)) << i;
      EXPECT_EQ(state.classes(), models_[i].classes) << i;
      if (!state.clean() && !state.in_batch()) ++listed;
    }
    EXPECT_EQ(rig_.list->listed(), listed);
    rig_.list->check_invariants();
    check_oldest();
  }
  // Exactly: what is listed or on the ladder by its stamp, what is being written by that of its write.
  void check_oldest() {
    std::multimap<Instant, std::size_t> stamps;
    for (std::size_t i = 0; i < kObjects; ++i) {
      const DirtyPhase phase = models_[i].phase;
      if (phase == DirtyPhase::kListed || phase == DirtyPhase::kRetry) {
        stamps.emplace(rig_[i].dirtied_when(), i);
      }
    }
    const auto in_batches = [this] {
      Instant least = Instant::max();
      for (const std::size_t i : claimed_) least = std::min(least, rig_[i].dirtied_when());
      for (const WriteSlot& slot : writing_) least = std::min(least, slot.stamp);
      return least;
    };
    const Instant batches = in_batches();
    const Instant expected = stamps.empty() ? batches : std::min(batches, stamps.begin()->first);
    EXPECT_EQ(rig_.list->oldest_stamp(in_batches), expected);
  }
  void finish() {
    for (const std::size_t i : claimed_) rig_.list->unclaim(rig_[i], rig_.now);
    for (WriteSlot& slot : writing_) rig_.end(slot, WriteOutcome::kSkipped);
    works_.clear();
    rig_.pass(seconds(1));
    rig_.work(WorkKind::kSync);
    for (std::size_t i = 0; i < kObjects; ++i) EXPECT_TRUE(rig_[i].state().clean()) << i;
    EXPECT_EQ(rig_.list->listed(), 0U);
    EXPECT_EQ(rig_.list->oldest(), Instant::max());
    EXPECT_EQ(rig_.list->oldest_lazy(), Instant::max());
    EXPECT_EQ(rig_.list->next_retry(), Instant::max());
    rig_.list->check_invariants();
  }

  ListRig rig_;
  const bool lazytime_;
  Rng rng_;
  std::array<Model, kObjects> models_;
  std::array<Instant, kObjects> stamps_{};
  std::vector<Work> works_;
  std::vector<std::size_t> claimed_;
  std::vector<WriteSlot> writing_;
};

TEST_P(DirtyListLife, RandomSequencesAgreeWithAModel) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomLife(GetParam(), seed).run(800);
    if (HasFailure()) return;
  }
}

TEST_P(DirtyListLife, RandomSequencesAgreeWithAModelThatKeepsTimestampsApart) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomLife(GetParam(), seed, lazytime_options(seconds(60))).run(800);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Designs, DirtyListLife, ::testing::ValuesIn(all_designs_and_orders()),
                         [](const auto& test) { return design_test_name(test.param); });

}  // namespace
}  // namespace tidewheel
