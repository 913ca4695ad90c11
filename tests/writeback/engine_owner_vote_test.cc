// Foreign dirt: whose tasks write to an object is found out, and the object goes there.
#include "owner_rig.h"
#include "writeback/owner_vote.h"

namespace tidewheel {
namespace {

void vote(OwnerVote& votes, std::uint16_t owner, int times) {
  for (int i = 0; i < times; ++i) votes.dirtied_by(owner);
}

TEST(OwnerVoteTest, MovesAfterMoreThanEightForeignRoundsOfSixteen) {
  OwnerVote votes;
  for (int round = 0; round < 8; ++round) {
    vote(votes, 5, 3);
    vote(votes, 1, 2);
    ASSERT_EQ(votes.round_ended(1), kNoContext) << round;
  }
  vote(votes, 5, 1);
  EXPECT_EQ(votes.round_ended(1), 5);
  vote(votes, 5, 1);
  EXPECT_EQ(votes.round_ended(5), kNoContext) << "it is at home now";
}

TEST(OwnerVoteTest, HalfOfTheRoundsIsNotEnough) {
  OwnerVote votes;
  for (int round = 0; round < 200; ++round) {
    vote(votes, round % 2 == 0 ? 5 : 1, 10);
    ASSERT_EQ(votes.round_ended(1), kNoContext) << round;
  }
}

TEST(OwnerVoteTest, ForeignersDoNotAddUpAndEmptyRoundsDoNotCount) {
  OwnerVote votes;
  for (int round = 0; round < 200; ++round) {
    vote(votes, static_cast<std::uint16_t>(5 + round % 3), 10);
    ASSERT_EQ(votes.round_ended(1), kNoContext) << round;
    ASSERT_EQ(votes.round_ended(1), kNoContext) << "nothing was dirtied";
  }
}

TEST(OwnerVoteTest, TheMajorityOfARoundWins) {
  OwnerVote votes;
  for (int round = 0; round < 9; ++round) {
    for (int i = 0; i < 40; ++i) {
      votes.dirtied_by(7);
      if (i % 2 == 0) votes.dirtied_by(static_cast<std::uint16_t>(i));
    }
    EXPECT_EQ(votes.round_ended(1), round < 8 ? kNoContext : 7);
  }
}

struct Voted : FakeObject {
  OwnerVote votes;
};

class VotingTarget : public OwnerTarget {
 public:
  void end_batch(Batch& batch) override {
    OwnerTarget::end_batch(batch);
    for (WriteSlot& slot : batch.slots()) {
      slot.move_to = static_cast<Voted&>(*slot.object).votes.round_ended(slot.object->context());
    }
  }
};

TEST(OwnerVoteTest, WhatComesToMemoryIsNobodysUntilItIsDirtied) {
  OwnerVote vote;
  EXPECT_FALSE(vote.nobodys()) << "a new one";
  vote.came_to_memory();
  EXPECT_TRUE(vote.nobodys());
  vote.dirtied_by(3);
  EXPECT_FALSE(vote.nobodys());
  vote.came_to_memory();
  EXPECT_EQ(vote.round_ended(0), kNoContext) << "written without a vote";
  EXPECT_FALSE(vote.nobodys());
  vote.came_to_memory();
  vote.reset();
  EXPECT_FALSE(vote.nobodys()) << "another object";
}

// The first dirtier's object, used by another owner's tasks from then on.
TEST(OwnerVoteTest, WhatAnotherOwnersTasksKeepDirtyingGoesToThem) {
  VirtualClock clock(VirtualRig::seconds_at(1000));
  EngineOptions o = small_options();
  o.clock = &clock;
  auto driver = std::make_unique<VirtualDriver>(clock);
  VirtualDriver& virtual_driver = *driver;
  VotingTarget target;
  auto engine = std::move(*WritebackEngine::make(o, std::move(driver)));
  WritebackContext* first = engine->add_context(target);
  WritebackContext* second = engine->add_context(target);
  Voted shared;
  Voted own;
  for (Voted* object : {&shared, &own}) object->set_context(first->id());
  int rounds = 0;
  while (shared.context() == first->id() && rounds < 30) {
    ++rounds;
    for (Voted* object : {&shared, &own}) {
      object->votes.dirtied_by(object == &shared ? second->id() : first->id());
      ASSERT_TRUE(dirty_owned(*engine, target, *object, 4096));
    }
    virtual_driver.run_for(seconds(36));
  }
  EXPECT_EQ(rounds, 9);
  EXPECT_EQ(shared.context(), second->id());
  EXPECT_EQ(own.context(), first->id());
  ASSERT_TRUE(dirty_owned(*engine, target, shared, 4096));
  EXPECT_EQ(second->counts().objects(), 1U);
  ASSERT_TRUE(engine->sync_all(target).has_value());
  EXPECT_TRUE(first->counts().all_zero());
  EXPECT_TRUE(second->counts().all_zero());
  engine->stop();
}

}  // namespace
}  // namespace tidewheel
