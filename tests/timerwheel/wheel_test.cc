// One shard: where elements go, when they come out, and what is told about them.
#include "timerwheel/wheel.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "timerwheel/typed.h"

namespace tidewheel {
namespace {

constexpr std::int64_t kWidthNs = 1LL << 27;
constexpr std::int64_t kWindowNs = 512 * kWidthNs;

struct Item {
  std::uint64_t name = 0;
  WheelNode node;
  std::uint16_t context = 0;
  std::uint8_t shard = 0;
};
using ItemWheel = WheelOf<Item, &Item::node>;
static_assert(sizeof(WheelNode) + sizeof(std::uint16_t) + sizeof(std::uint8_t) <= 40);

class WheelTest : public testing::Test {
 protected:
  ~WheelTest() override {
    for (Item& item : items_) {
      if (item.node.hook.is_linked()) wheel_.remove(item);
    }
  }
  Item& item(std::size_t i) { return items_[i]; }
  // Claims all that is ready, as positions in items_.
  std::vector<std::size_t> claim_all(Instant dirtied_before = Instant::max()) {
    std::vector<std::size_t> claimed;
    Item* out[kMaxClaim];
    while (const std::size_t count = wheel_.claim(out, dirtied_before)) {
      for (Item* one : std::span(out).first(count)) {
        claimed.push_back(static_cast<std::size_t>(one - items_.data()));
      }
    }
    return claimed;
  }
  std::vector<std::size_t> claim_set(SyncSet& set) {
    std::vector<std::size_t> claimed;
    Item* out[kMaxClaim];
    while (const std::size_t count = wheel_.claim_from(set, out)) {
      for (Item* one : std::span(out).first(count)) {
        claimed.push_back(static_cast<std::size_t>(one - items_.data()));
      }
    }
    return claimed;
  }

  std::vector<Item> items_{256};
  WheelHint hint_;
  ItemWheel wheel_{WheelOptions{}, hint_};
};
using List = std::vector<std::size_t>;
using WheelDeathTest = WheelTest;

TEST_F(WheelTest, HandsOutWhatIsDueAndKeepsTheStraddlingSlot) {
  // The first, a middle and the last nanosecond of a slot, at the slot's edges and 1 ns beside them.
  for (const std::int64_t slot : {0LL, 1LL, 511LL, 512LL, 1'000'000LL, -3LL}) {
    const std::int64_t begin = slot * kWidthNs;
    const std::int64_t end = begin + kWidthNs;
    for (const std::int64_t stamp : {begin, begin + 1, end - 1}) {
      WheelHint hint;
      ItemWheel wheel(WheelOptions{}, hint);
      wheel.insert(item(0), Instant{stamp});
      EXPECT_EQ(item(0).node.stamp, Instant{stamp});
      EXPECT_EQ(wheel.oldest(), Instant{begin});
      Item* out[1];
      EXPECT_EQ(wheel.detach_expired(Instant{stamp - 1}, Instant{end}), 0U) << "early";
      EXPECT_EQ(wheel.detach_expired(Instant{end - 2}, Instant{end}), 0U) << "the slot straddles the cut-off";
      EXPECT_EQ(wheel.detach_expired(Instant{end - 1}, Instant{end}), 1U) << "late by more than the slot";
      EXPECT_EQ(wheel.claim(out, Instant{end - 2}), 0U) << "claimed under an older cut-off";
      EXPECT_EQ(wheel.claim(out, Instant{end - 1}), 1U);
      EXPECT_EQ(wheel.oldest(), Instant::max());
    }
  }
}

TEST_F(WheelTest, StampsAreTheLaterOfNowAndTheShardsLast) {
  wheel_.insert(item(0), Instant{1000});
  wheel_.insert(item(1), Instant{400});  // read before, locked after
  EXPECT_EQ(item(1).node.stamp, Instant{1000});
  EXPECT_EQ(wheel_.stats().clock_steps, 0U);
}

TEST_F(WheelTest, KeepsOrderOfArrivalWithinASlot) {
  for (std::size_t i = 0; i < 100; ++i) wheel_.insert(item(i), Instant{static_cast<std::int64_t>(i)});
  wheel_.remove(item(50));
  ASSERT_TRUE(wheel_.detach_oldest());
  List expected;
  for (std::size_t i = 0; i < 100; ++i) {
    if (i != 50) expected.push_back(i);
  }
  EXPECT_EQ(claim_all(), expected);
}

TEST_F(WheelTest, ClaimsAtMost32InOneHold) {
  for (std::size_t i = 0; i < 100; ++i) wheel_.insert(item(i), Instant{0});
  wheel_.detach_oldest();
  Item* out[100];
  EXPECT_EQ(wheel_.claim(out), kMaxClaim);
  EXPECT_EQ(wheel_.stats().max_elements_per_hold, kMaxClaim);
  claim_all();
}

TEST_F(WheelTest, DetachesManyElementsWithoutLookingAtAny) {
  for (std::size_t i = 0; i < 200; ++i) wheel_.insert(item(i), Instant{0});
  EXPECT_EQ(wheel_.detach_expired(Instant::max(), Instant{0}), 1U);
  EXPECT_EQ(wheel_.stats().elements_under_lock(), 200U) << "the inserts alone";
  claim_all();
}

TEST_F(WheelTest, AnIdleDayAgesWhatIsThereAndNothingElse) {
  wheel_.insert(item(0), Instant{0});
  wheel_.insert(item(1), Instant{kWidthNs});
  wheel_.observe(Instant{86'400'000'000'000});
  EXPECT_EQ(wheel_.stats().aged_buckets, 2U);
  EXPECT_EQ(wheel_.oldest(), Instant{0});
  wheel_.insert(item(2), Instant{86'400'000'000'000});
  wheel_.check_invariants();
  // Cut-offs a day older than the window are still answered exactly.
  EXPECT_EQ(wheel_.detach_expired(Instant{kWidthNs - 1}, Instant{86'400'000'000'000}), 1U);
  EXPECT_EQ(claim_all(), List({0}));
  EXPECT_EQ(wheel_.oldest(), Instant{kWidthNs});
}

TEST_F(WheelTest, ASlotTheHeadComesRoundToDoesNotMixWithTheNewOne) {
  wheel_.insert(item(0), Instant{0});
  wheel_.insert(item(1), Instant{kWindowNs});  // the same place in the ring
  wheel_.check_invariants();
  EXPECT_EQ(wheel_.detach_expired(Instant{kWindowNs - 1}, Instant{kWindowNs}), 1U);
  EXPECT_EQ(claim_all(), List({0}));
  EXPECT_EQ(wheel_.oldest(), Instant{kWindowNs});
}

TEST_F(WheelTest, OldStampsGoToTheirOwnSlotWithinAndBeforeTheWindow) {
  wheel_.insert(item(0), Instant{2 * kWindowNs});
  wheel_.insert_at(item(1), Instant{2 * kWindowNs - 5 * kWidthNs}, Instant{2 * kWindowNs});
  wheel_.insert_at(item(2), Instant{5}, Instant{2 * kWindowNs});
  wheel_.insert_at(item(3), Instant{kWidthNs}, Instant{2 * kWindowNs});
  wheel_.insert_at(item(4), Instant{7}, Instant{2 * kWindowNs});
  wheel_.insert_at(item(5), Instant::max(), Instant{2 * kWindowNs});
  EXPECT_EQ(item(5).node.stamp, Instant{2 * kWindowNs}) << "no stamp lies in the future of its shard";
  EXPECT_EQ(wheel_.oldest(), Instant{0});
  wheel_.check_invariants();
  while (wheel_.detach_oldest()) {
  }
  EXPECT_EQ(claim_all(), List({2, 4, 3, 1, 0, 5}));
}

TEST_F(WheelTest, TheEndsOfTimeAreOrdinaryMoments) {
  for (const std::int64_t end : {INT64_MIN, INT64_MAX}) {
    WheelHint hint;
    ItemWheel wheel(WheelOptions{}, hint);
    wheel.insert(item(0), Instant{end});
    wheel.insert_at(item(1), Instant::min(), Instant{end});
    wheel.check_invariants();
    EXPECT_EQ(wheel.detach_expired(Instant::max(), Instant{end}), end == INT64_MIN ? 1U : 2U);
    Item* out[2];
    ASSERT_EQ(wheel.claim(out), 2U);
    EXPECT_EQ(wheel.oldest(), Instant::max());
  }
}

TEST_F(WheelTest, ElementsLeaveDetachedBuckets) {
  for (std::size_t i = 0; i < 4; ++i) {
    wheel_.insert(item(i), Instant{static_cast<std::int64_t>(i / 2) * kWidthNs});
  }
  wheel_.detach_expired(Instant::max(), Instant{kWidthNs});
  wheel_.remove(item(0));
  EXPECT_EQ(wheel_.oldest(), Instant{0});
  wheel_.remove(item(1));
  EXPECT_EQ(wheel_.oldest(), Instant{kWidthNs}) << "the emptied bucket is forgotten at once";
  wheel_.remove(item(3));
  wheel_.check_invariants();
  EXPECT_EQ(claim_all(), List({2}));
  EXPECT_EQ(wheel_.listed(), 0U);
  EXPECT_FALSE(wheel_.has_ready());
}

// ---- clocks that are set back ----

TEST_F(WheelTest, AClockSetBackMakesWhatIsListedDueAtOnce) {
  wheel_.insert(item(0), Instant{3'600'000'000'000});
  wheel_.insert(item(1), Instant{3'600'000'000'000 + 3 * kWidthNs});
  wheel_.insert(item(2), Instant{50});
  EXPECT_EQ(wheel_.stats().clock_steps, 1U);
  EXPECT_EQ(item(2).node.stamp, Instant{50});
  EXPECT_EQ(wheel_.oldest(), Instant::min());
  wheel_.check_invariants();
  EXPECT_EQ(claim_all(Instant{0}), List({0, 1})) << "in their old order, whatever the cut-off";
  EXPECT_EQ(wheel_.oldest(), Instant{0});
}

TEST_F(WheelTest, APollNoticesAClockSetBackWhenNobodyInserts) {
  wheel_.insert(item(0), Instant{3'600'000'000'000});
  EXPECT_EQ(wheel_.detach_expired(Instant{0}, Instant{kWidthNs}), 0U);
  EXPECT_EQ(claim_all(Instant{0}), List({0}));
}

TEST_F(WheelTest, ALateReadingIsNoClockStep) {
  const WheelOptions options;
  wheel_.insert(item(0), Instant{10 * options.late_reading.ns});
  wheel_.insert(item(1), Instant{9 * options.late_reading.ns});
  EXPECT_EQ(wheel_.stats().clock_steps, 0U);
  EXPECT_EQ(item(1).node.stamp, item(0).node.stamp);
  wheel_.insert(item(2), Instant{9 * options.late_reading.ns - 1});
  EXPECT_EQ(wheel_.stats().clock_steps, 1U);
}

TEST_F(WheelTest, ElementsLeaveWhileTheyAreOverdue) {
  for (std::size_t i = 0; i < 4; ++i) {
    wheel_.insert(item(i), Instant{kWindowNs + static_cast<std::int64_t>(i) * kWidthNs});
  }
  wheel_.observe(Instant{0});
  wheel_.insert(item(4), Instant{0});
  wheel_.remove(item(0));
  wheel_.remove(item(2));
  wheel_.check_invariants();
  EXPECT_EQ(claim_all(), List({1, 3}));
  EXPECT_EQ(wheel_.oldest(), Instant{0});
}

// ---- sync ----

TEST_F(WheelTest, ASyncSetHoldsWhatWasListedAndNothingLater) {
  wheel_.insert(item(0), Instant{0});                  // will be ancient
  wheel_.insert(item(1), Instant{kWindowNs});
  wheel_.insert(item(2), Instant{kWindowNs + kWidthNs});
  wheel_.insert(item(3), Instant{kWindowNs + 2 * kWidthNs});
  wheel_.detach_expired(Instant{kWindowNs + kWidthNs - 1},
                        Instant{kWindowNs + 2 * kWidthNs});  // 0 and 1 are ready
  wheel_.insert_at(item(4), Instant{3}, Instant{kWindowNs + 2 * kWidthNs});                     // ancient
  SyncSet* set = wheel_.take_all();
  EXPECT_EQ(wheel_.stats().elements_under_lock(), 5U) << "taking looks at no element";
  wheel_.insert(item(5), Instant{kWindowNs + 2 * kWidthNs});
  wheel_.remove(item(3));
  EXPECT_EQ(wheel_.oldest(), Instant{0}) << "what a sync has taken still counts";
  wheel_.check_invariants();
  EXPECT_EQ(claim_set(*set), List({0, 4, 1, 2}));
  EXPECT_EQ(wheel_.oldest(), Instant{kWindowNs + 2 * kWidthNs});
  wheel_.put_back(set);
  EXPECT_EQ(wheel_.listed(), 1U);
}

TEST_F(WheelTest, WhatASyncLeavesComesFirstWithItsStamp) {
  for (std::size_t i = 0; i < 3; ++i) {
    wheel_.insert(item(i), Instant{static_cast<std::int64_t>(i) * kWidthNs});
  }
  SyncSet* set = wheel_.take_all();
  Item* out[1];
  ASSERT_EQ(wheel_.claim_from(*set, out), 1U);
  wheel_.insert(item(3), Instant{3 * kWidthNs});
  wheel_.append(*set, *out[0]);  // comes back from its batch
  wheel_.put_back(set);
  wheel_.check_invariants();
  EXPECT_EQ(item(0).node.stamp, Instant{0});
  EXPECT_EQ(wheel_.oldest(), Instant{0});
  EXPECT_EQ(claim_all(Instant{kWidthNs - 1}), List({0})) << "put back, yet not before its time";
  EXPECT_EQ(claim_all(), List({1, 2}));
}

TEST_F(WheelTest, SyncSetsMayOverlap) {
  wheel_.insert(item(0), Instant{0});
  SyncSet* first = wheel_.take_all();
  wheel_.insert(item(1), Instant{1});
  SyncSet* second = wheel_.take_all();
  wheel_.insert(item(2), Instant{2});
  EXPECT_EQ(claim_set(*second), List({1}));
  wheel_.put_back(first);
  EXPECT_EQ(claim_all(), List({0}));
  wheel_.put_back(second);
  EXPECT_EQ(wheel_.listed(), 1U);
}

TEST_F(WheelTest, ASetPutBackAfterTheClockWasSetBackIsDueAtOnce) {
  wheel_.insert(item(0), Instant{kWindowNs});
  SyncSet* set = wheel_.take_all();
  wheel_.insert(item(1), Instant{0});
  EXPECT_EQ(wheel_.stats().clock_steps, 1U);
  wheel_.put_back(set);
  EXPECT_EQ(wheel_.oldest(), Instant::min());
  EXPECT_EQ(claim_all(Instant{-1}), List({0}));
}

// ---- back in front, moves, memory ----

TEST_F(WheelTest, WhatIsUnclaimedComesAgainFirst) {
  for (std::size_t i = 0; i < 3; ++i) {
    wheel_.insert(item(i), Instant{static_cast<std::int64_t>(i) * kWidthNs});
  }
  while (wheel_.detach_oldest()) {
  }
  Item* out[1];
  ASSERT_EQ(wheel_.claim(out), 1U);
  wheel_.requeue_front(*out[0]);
  EXPECT_EQ(claim_all(), List({0, 1, 2}));
}

TEST_F(WheelTest, MovesOldestFirstAndKeepsStamps) {
  WheelHint hint;
  ItemWheel other(WheelOptions{}, hint);
  for (std::size_t i = 0; i < 100; ++i) {
    wheel_.insert(item(i), Instant{static_cast<std::int64_t>(i) * kWidthNs});
  }
  const Instant now{100 * kWidthNs};
  WheelNode* moved[kMaxClaim];
  std::size_t total = 0;
  while (const std::size_t count = wheel_.move_some(other, moved, now)) {
    EXPECT_EQ(moved[0], &item(total).node);
    total += count;
    EXPECT_EQ(wheel_.listed() + other.listed(), 100U);
    wheel_.check_invariants();
    other.check_invariants();
  }
  EXPECT_EQ(total, 100U);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(item(i).node.stamp, Instant{static_cast<std::int64_t>(i) * kWidthNs});
  }
  EXPECT_EQ(other.oldest(), Instant{0});
  for (std::size_t i = 0; i < 100; ++i) other.remove(item(i));
}

TEST_F(WheelTest, GivesMemoryBackWhenIdleAndTakesAClaimedElementBackAfterwards) {
  wheel_.insert(item(0), Instant{kWindowNs});
  EXPECT_FALSE(wheel_.trim());
  wheel_.detach_oldest();
  Item* out[1];
  ASSERT_EQ(wheel_.claim(out), 1U);
  EXPECT_TRUE(wheel_.trim());
  wheel_.check_invariants();
  wheel_.requeue_front(*out[0]);
  wheel_.check_invariants();
  EXPECT_EQ(claim_all(), List({0}));
}

TEST_F(WheelDeathTest, DoubleInsertAsserts) {
  wheel_.insert(item(0), Instant{0});
  EXPECT_DEATH(wheel_.insert(item(0), Instant{1}), "inserted twice");
  EXPECT_DEATH(wheel_.insert_at(item(0), Instant{0}, Instant{1}), "inserted twice");
  EXPECT_DEATH(wheel_.requeue_front(item(0)), "inserted twice");
}

TEST_F(WheelDeathTest, RemovingWhatIsNotListedAsserts) {
  EXPECT_DEATH(wheel_.remove(item(0)), "not listed");
  wheel_.insert(item(0), Instant{0});
  wheel_.remove(item(0));
  EXPECT_DEATH(wheel_.remove(item(0)), "not listed");
}

TEST_F(WheelDeathTest, DestroyingAFullWheelAsserts) {
  EXPECT_DEATH(
      {
        WheelHint hint;
        ItemWheel wheel(WheelOptions{}, hint);
        wheel.insert(item(0), Instant{0});
      },
      "with elements on it");
}

// ---- the parts ----

TEST(SlotRing, FindsTheFirstOccupiedSlotGoingRound) {
  for (const std::uint32_t slots : {8U, 64U, 512U, 4096U}) {
    SlotRing ring(slots);
    Rng rng(slots);
    for (int round = 0; round < 2000; ++round) {
      const auto index = static_cast<std::uint32_t>(rng.below(slots));
      ring.occupied(index) ? ring.clear(index) : ring.mark(index);
      if (rng.chance(20)) {  // nearly empty again
        for (std::uint32_t i = 0; i < slots; ++i) {
          if (ring.occupied(i)) ring.clear(i);
        }
      }
      ASSERT_TRUE(ring.consistent());
      const auto from = static_cast<std::uint32_t>(rng.below(slots));
      std::uint32_t expected = SlotRing::kNone;
      for (std::uint32_t steps = 0; steps < slots && expected == SlotRing::kNone; ++steps) {
        if (ring.occupied((from + steps) % slots)) expected = (from + steps) % slots;
      }
      ASSERT_EQ(ring.first_from(from), expected) << slots << " slots, from " << from;
    }
  }
}

TEST(BucketQueue, StaysSmallWhenDetachedBucketsEmptyByRemoval) {
  // One old element keeps the queue alive while others come and go for a long time.
  std::vector<Item> items(2);
  WheelHint hint;
  ItemWheel wheel(WheelOptions{}, hint);
  wheel.insert(items[0], Instant{0});
  wheel.detach_oldest();
  for (std::int64_t slot = 1; slot < 100'000; ++slot) {
    wheel.insert(items[1], Instant{slot * kWidthNs});
    wheel.detach_expired(Instant::max(), Instant{slot * kWidthNs});
    wheel.remove(items[1]);
  }
  wheel.check_invariants();
  EXPECT_LE(wheel.memory_bytes(), 64U * 1024);
  wheel.remove(items[0]);
}

}  // namespace
}  // namespace tidewheel
