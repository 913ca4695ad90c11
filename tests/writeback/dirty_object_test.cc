#include "writeback/dirty_object.h"

#include <gtest/gtest.h>

#include "tests/writeback/list_rig.h"
#include "writeback/dirty_transition.h"

namespace tidewheel {
namespace {

static_assert(sizeof(WheelNode) + sizeof(std::uint32_t) + sizeof(std::uint16_t) <= 40,
              "hook, stamp and place");

TEST(DirtyStateTest, EveryFieldComesBackAsItWasPutIn) {
  for (std::uint32_t classes = 0; classes <= kDirtyAll; ++classes) {
    for (std::uint32_t phase = 0; phase < kDirtyPhases; ++phase) {
      for (const std::uint32_t shard : {0U, 1U, 127U, kRetryShard}) {
        const DirtyState state(static_cast<DirtyPhase>(phase), classes, shard);
        EXPECT_EQ(state.classes(), classes);
        EXPECT_EQ(static_cast<std::uint32_t>(state.phase()), phase);
        EXPECT_EQ(state.shard(), shard);
        EXPECT_FALSE(state.has_waiters());
        EXPECT_FALSE(state.has_mark());
        EXPECT_EQ(DirtyState(state.word() | DirtyState::kWaiters).phase(), state.phase());
        EXPECT_EQ(DirtyState(state.word() | DirtyState::kDesignMark).shard(), shard);
      }
    }
  }
  EXPECT_EQ(DirtyState(DirtyPhase::kClean, 0, 0).word(), 0U);
  EXPECT_EQ(DirtyState{}.context(), kNoContext);
}

TEST(DirtyObjectTest, TheWordHoldsTheContextWhereverTheObjectIs) {
  for (const std::uint16_t context : {0, 1, 1023, 0xFFFF}) {
    const DirtyState state(DirtyPhase::kRetry, kDirtyData, kRetryShard, context);
    EXPECT_EQ(state.context(), context);
    EXPECT_EQ(state.shard(), kRetryShard);
    EXPECT_EQ(state.classes(), kDirtyData);
    EXPECT_TRUE(state.same_place(DirtyState(DirtyPhase::kRetry, kDirtyMetadata, kRetryShard, context)));
    EXPECT_FALSE(state.same_place(DirtyState(DirtyPhase::kRetry, kDirtyData, kRetryShard, context ^ 1)));
  }
  DirtyObject object;
  object.set_context(7);
  EXPECT_TRUE(object.state().clean());
  EXPECT_EQ(object.context(), 7);
}

TEST(DirtyObjectTest, CoversOnlyWhatIsMarked) {
  DirtyObject object;
  EXPECT_FALSE(object.covers(kDirtyData));
  object.state_.store(DirtyState(DirtyPhase::kListed, kDirtyData | kDirtyMetadata, 0).word(),
                      std::memory_order_seq_cst);
  EXPECT_TRUE(object.covers(kDirtyData));
  EXPECT_TRUE(object.covers(kDirtyData | kDirtyMetadata));
  EXPECT_FALSE(object.covers(kDirtyData | kDirtyTimestamps));
  object.state_.store(0, std::memory_order_seq_cst);
}

TEST(DirtyObjectTest, TheTableHasNoWayRoundTheList) {
  using enum DirtyPhase;
  const DirtyPhase phases[] = {kClean, kListed, kRetry, kClaimed, kWriting};
  int allowed = 0;
  for (const DirtyPhase from : phases) {
    for (const DirtyPhase to : phases) allowed += dirty_transition_allowed(from, to) ? 1 : 0;
    EXPECT_FALSE(dirty_transition_allowed(from, from));
    EXPECT_STRNE(name_of(from), "not a phase");
  }
  EXPECT_EQ(allowed, 11);
  EXPECT_FALSE(dirty_transition_allowed(kClean, kClaimed));
  EXPECT_FALSE(dirty_transition_allowed(kListed, kWriting));
  EXPECT_FALSE(dirty_transition_allowed(kWriting, kClaimed));
}

TEST(DirtyObjectDeathTest, ATransitionOutsideTheTableAsserts) {
  DirtyObject object;
  object.state_.store(DirtyState(DirtyPhase::kListed, kDirtyData, 0).word(), std::memory_order_seq_cst);
#if defined(TW_DASSERT_ON)
  EXPECT_DEATH(change_phase(object, DirtyPhase::kListed, DirtyPhase::kWriting, 0), "table");
#endif
  EXPECT_DEATH(change_phase(object, DirtyPhase::kClaimed, DirtyPhase::kWriting, 0), "not in the phase");
  object.state_.store(0, std::memory_order_seq_cst);
  EXPECT_DEATH(change_to_clean(object), "clean object");
}

TEST(DirtyObjectDeathTest, DestroyingADirtyObjectAsserts) {
  EXPECT_DEATH(
      {
        auto list = find_dirty_list_design("timer-wheel")->make({});
        DirtyObject object;
        list->mark_dirty(object, kDirtyData, Instant{1});
      },
      "a dirty object is destroyed");
}

TEST(DirtyObjectDeathTest, MisuseOfTheListAsserts) {
  EXPECT_DEATH(
      {
        ListRig rig("timer-wheel", 1);
        rig.list->mark_dirty(rig[0], 8, rig.now);
      },
      "not a set of dirty classes");
  EXPECT_DEATH(
      {
        ListRig rig("timer-wheel", 1);
        rig.mark(0);
        WriteSlot slot;
        slot.object = &rig[0];
        (void)rig.list->begin_write(slot);
      },
      "not claimed");
  EXPECT_DEATH(
      {
        ListRig rig("timer-wheel", 1);
        rig.mark(0);
        auto work = rig.select(WorkKind::kBackground);
        auto slots = rig.begin(*work, 1);
        rig.list->end_write(slots[0], WorkKind::kBackground, rig.now);
      },
      "without an outcome");
}

TEST(DirtyListRegistry, KnowsItsFiveDesignsTheWheelFirst) {
  const auto names = all_designs();
  EXPECT_EQ(names, (std::vector<std::string>{"timer-wheel", "single-list", "tagged-list", "syncer-slots",
                                             "parallel-lists"}));
  for (const DirtyListDesign& design : dirty_list_designs()) EXPECT_FALSE(design.summary.empty());
  EXPECT_EQ(find_dirty_list_design("wheel"), nullptr);
  EXPECT_FALSE(register_dirty_list_design({"timer-wheel", "again", dirty_list_designs()[0].make}));
  EXPECT_FALSE(register_dirty_list_design({"nothing", "makes nothing", nullptr}));
}

}  // namespace
}  // namespace tidewheel
