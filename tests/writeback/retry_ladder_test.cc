#include "writeback/retry_ladder.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "writeback/dirty_transition.h"

namespace tidewheel {
namespace {

struct Everywhere : ShardPicker {
  std::uint32_t pick_shard(const DirtyObject&) const override { return 3; }
};

class RetryLadderTest : public ::testing::Test {
 protected:
  // The way to the ladder: an object whose write has just failed.
  DirtyObject& fail(std::size_t i, Instant now, Instant stamp = Instant{0}) {
    if (i >= objects_.size()) objects_.resize(i + 1);
    if (objects_[i] == nullptr) objects_[i] = std::make_unique<DirtyObject>();
    DirtyObject& object = *objects_[i];
    object.state_.store(DirtyState(DirtyPhase::kWriting, 0, 3).word(), std::memory_order_seq_cst);
    object.node.stamp = stamp;
    bool waiters = false;
    ladder_.add(object, kDirtyData, now, &waiters);
    EXPECT_FALSE(waiters);
    ladder_.check_invariants();
    return object;
  }
  std::size_t claim_due(Instant now, std::size_t most = 100) {
    std::vector<DirtyObject*> out(most);
    out.resize(ladder_.claim_due(now, out));
    for (DirtyObject* object : out) {
      EXPECT_EQ(object->state().phase(), DirtyPhase::kClaimed);
      EXPECT_EQ(object->state().shard(), 3U) << "a shard of the list's, for when it is filed again";
      EXPECT_EQ(object->state().classes(), kDirtyData);
    }
    ladder_.check_invariants();
    claimed_ = out;
    return out.size();
  }
  void TearDown() override {
    for (auto& object : objects_) {
      if (object == nullptr || object->state().clean() || ladder_.cancel(*object)) continue;
      change_to_clean(*object);
    }
    EXPECT_EQ(ladder_.size(), 0U);
  }

  static constexpr Instant kStart{1'000'000'000'000};
  Everywhere picker_;
  RetryLadder ladder_{picker_, seconds(1), seconds(64)};
  std::vector<std::unique_ptr<DirtyObject>> objects_;
  std::vector<DirtyObject*> claimed_;
};

TEST_F(RetryLadderTest, BackOffDoublesUpToTheLongest) {
  Instant now = kStart;
  for (const std::int64_t wait : {1, 2, 4, 8, 16, 32, 64, 64, 64}) {
    fail(0, now);
    EXPECT_GE(ladder_.next_due(), now + seconds(wait));
    EXPECT_LE(ladder_.next_due(), now + seconds(wait) + seconds(wait) / 8);
    EXPECT_EQ(claim_due(now + seconds(wait) - Duration{1}), 0U) << "never early";
    now = now + seconds(wait) + seconds(wait) / 8;
    EXPECT_EQ(claim_due(now), 1U) << wait;
    EXPECT_EQ(ladder_.next_due(), Instant::max());
  }
}

// Limits that the doubling does not meet, and those that stand for "never".
TEST(RetryLadderLimits, TheLongestBackOffIsThatOfTheOptions) {
  constexpr Instant kNow{1'000'000'000'000};
  struct Case {
    Duration first, longest, last;
  };
  for (const Case& each : {Case{seconds(1), seconds(60), seconds(60)},
                           Case{seconds(3), seconds(1), seconds(3)},
                           Case{milliseconds(1), seconds(64), seconds(64)}, Case{{}, {}, Duration{1}},
                           Case{Duration::max(), Duration::max(), Duration{INT64_MAX / 4}},
                           Case{seconds(1), Duration::max(), Duration{INT64_MAX / 4}}}) {
    Everywhere picker;
    RetryLadder ladder(picker, each.first, each.longest);
    DirtyObject object;
    Duration before{0}, wait;
    for (int failures = 0; failures < 60; ++failures) {
      object.state_.store(DirtyState(DirtyPhase::kWriting, 0, 3).word(), std::memory_order_seq_cst);
      bool waiters = false;
      ladder.add(object, kDirtyData, kNow, &waiters);
      wait = ladder.next_due() - kNow;
      EXPECT_GE(wait, before);
      before = wait;
      ASSERT_TRUE(ladder.claim_one(object));
    }
    EXPECT_GE(wait, each.last);
    if (each.longest == Duration::max()) wait = std::min(wait, each.last);
    EXPECT_LE(wait, each.last + each.last / 8);
    change_to_clean(object);
  }
}

TEST_F(RetryLadderTest, KeepsTheStamp) {
  DirtyObject& object = fail(0, kStart, Instant{77});
  EXPECT_EQ(ladder_.oldest(), Instant{77});
  claim_due(kStart + seconds(2));
  EXPECT_EQ(object.dirtied_when(), Instant{77});
  EXPECT_EQ(ladder_.oldest(), Instant::max());
}

TEST_F(RetryLadderTest, AMillionFailuresShareFewGroups) {
  constexpr std::size_t kMany = 20'000;
  objects_.resize(kMany);
  Instant now = kStart;
  for (std::size_t i = 0; i < kMany; ++i) {
    objects_[i] = std::make_unique<DirtyObject>();
    objects_[i]->state_.store(DirtyState(DirtyPhase::kWriting, 0, 3).word(), std::memory_order_seq_cst);
    objects_[i]->retry_step = static_cast<std::uint8_t>(i % 7);
    bool waiters = false;
    ladder_.add(*objects_[i], kDirtyData, now, &waiters);
    now = now + microseconds(50);
  }
  EXPECT_LE(ladder_.groups(), 7U * 9U);
  EXPECT_EQ(claim_due(now + seconds(100), kMany), kMany);
}

TEST_F(RetryLadderTest, CancelTakesAnObjectFromAnyGroup) {
  for (std::size_t i = 0; i < 6; ++i) fail(i, kStart + seconds(static_cast<std::int64_t>(i)));
  for (const std::size_t i : {3U, 0U, 5U}) {
    EXPECT_TRUE(ladder_.cancel(*objects_[i]));
    EXPECT_TRUE(objects_[i]->state().clean());
    EXPECT_EQ(objects_[i]->retry_step, 0U);
    objects_[i].reset();
    ladder_.check_invariants();
  }
  EXPECT_GE(ladder_.next_due(), kStart + seconds(2)) << "the first group is gone";
  EXPECT_TRUE(ladder_.claim_one(*objects_[1]));
  EXPECT_FALSE(ladder_.claim_one(*objects_[1]));
  EXPECT_EQ(claim_due(kStart + seconds(100)), 2U);
}

TEST_F(RetryLadderTest, SyncTakesWhatIsThereAtOnceAndNotWhatFailsAgain) {
  for (std::size_t i = 0; i < 4; ++i) fail(i, kStart);
  RetryLadder::SyncShare sync;
  ladder_.open_sync(sync);
  EXPECT_EQ(ladder_.next_due(), Instant::max()) << "it is the sync's now";
  EXPECT_EQ(claim_due(kStart + seconds(100)), 0U);
  fail(4, kStart);
  std::array<DirtyObject*, 8> out{};
  ASSERT_EQ(ladder_.claim_sync(sync, out), 4U);
  bool waiters = false;
  change_phase(*out[0], DirtyPhase::kClaimed, DirtyPhase::kWriting, 3);
  ladder_.add(*out[0], kDirtyData, kStart, &waiters);
  EXPECT_EQ(ladder_.claim_sync(sync, out), 0U) << "else a dead device would keep a sync for ever";
  ladder_.close_sync(sync);
  EXPECT_EQ(ladder_.size(), 2U);
}

TEST_F(RetryLadderTest, AnUnfinishedSyncGivesBackWithTheTimeKept) {
  for (std::size_t i = 0; i < 3; ++i) fail(i, kStart);
  {
    RetryLadder::SyncShare sync;
    ladder_.open_sync(sync);
    fail(3, kStart + seconds(10));
    ladder_.check_invariants();
    ladder_.close_sync(sync);
  }
  EXPECT_EQ(claim_due(kStart + seconds(1) - Duration{1}), 0U);
  EXPECT_EQ(claim_due(kStart + seconds(2)), 3U);
  EXPECT_EQ(claim_due(kStart + seconds(20)), 1U);
}

TEST_F(RetryLadderTest, AYoungerSyncWaitsForTheOldersObjectsToo) {
  fail(0, kStart);
  RetryLadder::SyncShare older;
  ladder_.open_sync(older);
  fail(1, kStart + seconds(1));
  RetryLadder::SyncShare younger;
  ladder_.open_sync(younger);
  std::array<DirtyObject*, 4> out{};
  EXPECT_EQ(ladder_.claim_sync(older, std::span(out).first(4)), 1U) << "not the younger's";
  change_phase(*out[0], DirtyPhase::kClaimed, DirtyPhase::kWriting, 3);
  change_phase(*out[0], DirtyPhase::kWriting, DirtyPhase::kClean, 0);
  fail(2, kStart + seconds(2));
  RetryLadder::SyncShare youngest;
  ladder_.open_sync(youngest);
  ladder_.close_sync(younger);
  ladder_.close_sync(older);
  EXPECT_EQ(ladder_.claim_sync(youngest, out), 2U) << "what the older left, it inherits";
  ladder_.close_sync(youngest);
}

TEST_F(RetryLadderTest, AYoungerSyncTakesWhatAnOlderOneHasNotYet) {
  fail(0, kStart);
  RetryLadder::SyncShare older;
  ladder_.open_sync(older);
  fail(1, kStart);
  RetryLadder::SyncShare younger;
  ladder_.open_sync(younger);
  std::array<DirtyObject*, 4> out{};
  EXPECT_EQ(ladder_.claim_sync(younger, out), 2U);
  EXPECT_EQ(ladder_.claim_sync(older, out), 0U);
  ladder_.close_sync(older);
  ladder_.close_sync(younger);
}

TEST_F(RetryLadderTest, WhatHasWaitedLongestComesFirst) {
  objects_.push_back(std::make_unique<DirtyObject>());
  objects_[0]->retry_step = 4;
  fail(0, kStart);
  fail(1, kStart + seconds(1));
  EXPECT_EQ(claim_due(kStart + seconds(60), 1), 1U);
  EXPECT_EQ(claimed_[0], objects_[0].get());
}

TEST_F(RetryLadderTest, AClockSetBackPutsNothingOffThatASyncHasTaken) {
  fail(0, kStart);
  RetryLadder::SyncShare sync;
  ladder_.open_sync(sync);
  const Instant earlier = kStart - seconds(3600);
  ladder_.clock_set_back(earlier);
  ladder_.close_sync(sync);
  EXPECT_LE(ladder_.next_due(), earlier + seconds(2));
}

TEST_F(RetryLadderTest, AClockSetBackLosesNothing) {
  fail(0, kStart);
  fail(1, kStart - seconds(3600));
  EXPECT_EQ(claim_due(kStart + seconds(2)), 2U);
}

// Random failures, claims, cancels and syncs: never early, never later than an eighth of the back-off.
TEST_F(RetryLadderTest, RandomSequencesAreNeverEarlyNorLate) {
  constexpr std::size_t kObjects = 60;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Rng rng(seed);
    Instant now = kStart;
    std::array<Instant, kObjects> earliest;
    earliest.fill(Instant::min());
    objects_.resize(kObjects);
    for (int step = 0; step < 2000; ++step) {
      now = now + milliseconds(static_cast<std::int64_t>(rng.below(400)));
      const std::size_t i = rng.below(kObjects);
      const bool here = objects_[i] != nullptr && objects_[i]->state().phase() == DirtyPhase::kRetry;
      if (rng.chance(3)) {
        std::vector<DirtyObject*> out(kObjects);
        out.resize(ladder_.claim_due(now, out));
        for (DirtyObject* object : out) {
          const auto at = std::find_if(objects_.begin(), objects_.end(),
                                       [&](const auto& each) { return each.get() == object; }) -
                          objects_.begin();
          EXPECT_LE(earliest[static_cast<std::size_t>(at)], now);
          change_to_clean(*object);
          object->retry_step = static_cast<std::uint8_t>(rng.below(8));
        }
        for (std::size_t k = 0; k < kObjects; ++k) {
          if (objects_[k] == nullptr || objects_[k]->state().phase() != DirtyPhase::kRetry) continue;
          const Duration wait = seconds(1LL << (objects_[k]->retry_step - 1));
          EXPECT_GT(earliest[k] + wait / 8, now) << "left too late";
        }
      } else if (here) {
        if (rng.chance(4)) ladder_.cancel(*objects_[i]);
      } else {
        fail(i, now);
        earliest[i] = now + seconds(1LL << (objects_[i]->retry_step - 1));
      }
      ladder_.check_invariants();
      if (HasFailure()) return;
    }
    for (auto& object : objects_) {
      if (object != nullptr && !object->state().clean()) ladder_.cancel(*object);
    }
  }
}

}  // namespace
}  // namespace tidewheel
