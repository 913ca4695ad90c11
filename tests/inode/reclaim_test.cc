#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread.h"
#include "inode/reclaim.h"

namespace tidewheel {
namespace {

constexpr std::size_t kItems = 40;

class ReclaimPolicies : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    policy_ = make_reclaim_policy(GetParam());
    ASSERT_NE(policy_, nullptr);
  }
  void TearDown() override {
    for (LruItem& item : items_) {
      if (item.listed()) policy_->remove(item);
    }
  }
  void insert(std::size_t n) {
    LruItem* item = &items_[n];
    policy_->insert(std::span(&item, 1));
  }
  // So often that the policy spares it: s3-fifo takes one use for chance.
  void use(LruItem& item) {
    item.touch();
    if (std::string_view(GetParam()) == "s3-fifo") item.touch();
  }
  // Takes one; kItems: nothing came.
  std::size_t isolate_one() {
    LruItem* item = nullptr;
    for (int i = 0; i < 4; ++i) {
      if (policy_->isolate(std::span(&item, 1)) == 1) return static_cast<std::size_t>(item - items_.data());
    }
    return kItems;
  }
  std::array<LruItem, kItems> items_;  // all of one shard
  std::unique_ptr<ReclaimPolicy> policy_;
};

TEST_P(ReclaimPolicies, TakesTheOldestFirst) {
  for (std::size_t n = 0; n < 10; ++n) insert(n);
  for (std::size_t n = 0; n < 10; ++n) {
    EXPECT_EQ(isolate_one(), n);
    EXPECT_EQ(policy_->put_back(items_[n], LruVerdict::kEvicted), LruPutBack::kDone);
  }
  EXPECT_EQ(isolate_one(), kItems);
  EXPECT_EQ(policy_->counts().listed, 0U);
}

TEST_P(ReclaimPolicies, SparesWhatWasReferencedOnce) {
  for (std::size_t n = 0; n < 10; ++n) insert(n);
  use(items_[0]);
  use(items_[2]);
  for (const std::size_t n : {1UL, 3UL, 4UL, 5UL, 6UL, 7UL, 8UL, 9UL}) {
    EXPECT_EQ(isolate_one(), n);
    policy_->put_back(items_[n], LruVerdict::kEvicted);
  }
  EXPECT_EQ(policy_->counts().rescued, 2U);
  // Not referenced again: the second chance was the last.
  EXPECT_NE(isolate_one(), kItems);
  EXPECT_NE(isolate_one(), kItems);
  policy_->put_back(items_[0], LruVerdict::kEvicted);
  policy_->put_back(items_[2], LruVerdict::kEvicted);
}

TEST_P(ReclaimPolicies, InsertingTwiceListsOnce) {
  insert(0);
  insert(0);
  EXPECT_EQ(policy_->counts().listed, 1U);
  EXPECT_TRUE(policy_->remove(items_[0]));
  EXPECT_TRUE(policy_->remove(items_[0])) << "off already: the caller's to free";
  EXPECT_EQ(policy_->counts().listed, 0U);
}

TEST_P(ReclaimPolicies, RemovingAnIsolatedItemLeavesItToTheReclaimer) {
  insert(0);
  ASSERT_EQ(isolate_one(), 0U);
  EXPECT_FALSE(policy_->remove(items_[0])) << "somebody else looks at it: not to be freed here";
  EXPECT_EQ(policy_->put_back(items_[0], LruVerdict::kKeep), LruPutBack::kDoomed);
  EXPECT_EQ(policy_->counts().listed, 0U);
}

TEST_P(ReclaimPolicies, AnItemInsertedWhileIsolatedIsListedAlthoughTheVerdictWasOff) {
  // A page seen dirty, written meanwhile: without this it would be clean and on no list for ever.
  insert(0);
  ASSERT_EQ(isolate_one(), 0U);
  insert(0);
  EXPECT_EQ(policy_->put_back(items_[0], LruVerdict::kOff), LruPutBack::kDone);
  EXPECT_TRUE(items_[0].listed());
}

TEST_P(ReclaimPolicies, OffIsOffAndKeepIsKept) {
  insert(0);
  insert(1);
  ASSERT_EQ(isolate_one(), 0U);
  ASSERT_EQ(isolate_one(), 1U);
  policy_->put_back(items_[0], LruVerdict::kOff);
  policy_->put_back(items_[1], LruVerdict::kKeep);
  EXPECT_FALSE(items_[0].listed());
  EXPECT_TRUE(items_[1].listed());
}

TEST_P(ReclaimPolicies, AHoldLooksAtABoundedNumber) {
  for (std::size_t n = 0; n < kItems; ++n) {
    insert(n);
    use(items_[n]);
  }
  std::array<LruItem*, kItems> out;
  EXPECT_EQ(policy_->isolate(out), 0U) << "32 looked at, all referenced";
  const std::size_t taken = policy_->isolate(out);
  EXPECT_LE(taken, kReclaimScan);
  for (std::size_t i = 0; i < taken; ++i) policy_->put_back(*out[i], LruVerdict::kEvicted);
}

INSTANTIATE_TEST_SUITE_P(All, ReclaimPolicies, testing::Values("two-list", "sieve", "s3-fifo"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(ReclaimPolicies, ProtectsTheHotSetFromAScan) {
  const std::unique_ptr<ReclaimPolicy>& policy = policy_;
  std::array<LruItem, 8> hot;
  std::vector<std::unique_ptr<LruItem>> cold;
  const auto insert = [&](LruItem& item) {
    LruItem* one = &item;
    policy->insert(std::span(&one, 1));
  };
  for (LruItem& item : hot) insert(item);
  for (LruItem& item : hot) use(item);
  int evicted_hot = 0;
  for (int i = 0; i < 500; ++i) {
    cold.push_back(std::make_unique<LruItem>());
    insert(*cold.back());
    LruItem* victim = nullptr;
    if (cold.size() < 16 || policy->isolate(std::span(&victim, 1)) == 0) continue;
    if (victim >= hot.data() && victim < hot.data() + hot.size()) ++evicted_hot;
    policy->put_back(*victim, LruVerdict::kEvicted);
  }
  EXPECT_EQ(evicted_hot, 0);
  if (std::string_view(GetParam()) != "sieve") {  // which knows one queue
    EXPECT_EQ(policy->counts().active, hot.size());
  }
  for (LruItem& item : hot) policy->remove(item);
  for (auto& item : cold) policy->remove(*item);
}

// What any policy may pass by: an item used as often as is counted, and never again, is answered when every
// shard has been asked kMostReclaimLooks times. reclaim_pages() asks so often, and no longer.
TEST_P(ReclaimPolicies, AnItemIsPassedByABoundedNumberOfTimes) {
  insert(0);
  for (int i = 0; i < 10; ++i) items_[0].touch();
  EXPECT_EQ(items_[0].referenced.load(std::memory_order_relaxed), LruItem::kMostUses);
  LruItem* item = nullptr;
  std::uint32_t looks = 1;
  while (policy_->isolate(std::span(&item, 1)) == 0 && looks < 100) ++looks;  // 32 looks a call
  EXPECT_EQ(looks, 1U);
  ASSERT_EQ(item, &items_[0]);
  policy_->put_back(*item, LruVerdict::kEvicted);
}

// ---- s3-fifo ----

class S3Fifo : public testing::Test {
 protected:
  ~S3Fifo() override {
    for (LruItem& item : items_) {
      if (item.listed()) policy_->remove(item);
    }
  }
  void insert(LruItem& item) {
    LruItem* one = &item;
    policy_->insert(std::span(&one, 1));
  }
  void evict(LruItem& item) {
    LruItem* taken = nullptr;
    for (int i = 0; i < 100; ++i) {
      if (policy_->isolate(std::span(&taken, 1)) == 1) break;
    }
    ASSERT_EQ(taken, &item);
    policy_->put_back(item, LruVerdict::kEvicted);
    item.forget();  // as who uses the memory again does
  }
  std::array<LruItem, 20> items_;
  std::unique_ptr<ReclaimPolicy> policy_ = make_reclaim_policy("s3-fifo");
};

TEST_F(S3Fifo, ASecondUseProtectsAndAFirstDoesNot) {
  for (std::size_t n = 0; n < 10; ++n) insert(items_[n]);
  items_[0].touch();
  items_[1].touch();
  items_[1].touch();
  evict(items_[0]);
  evict(items_[2]);
  EXPECT_EQ(policy_->counts().active, 1U);
  EXPECT_EQ(items_[1].place(), LruPlace::kActive);
}

TEST_F(S3Fifo, WhatLeftOfLateComesBackProtectedWhereverItComesTo) {
  for (std::size_t n = 0; n < 10; ++n) {
    items_[n].identity = reclaim_identity(7, n);
    insert(items_[n]);
  }
  evict(items_[0]);
  items_[10].identity = reclaim_identity(7, 0);  // the same page in other memory
  items_[10].shard = 5;
  items_[11].identity = reclaim_identity(7, 11);  // never seen
  insert(items_[10]);
  insert(items_[11]);
  EXPECT_EQ(items_[10].place(), LruPlace::kActive);
  EXPECT_EQ(items_[11].place(), LruPlace::kInactive);
  items_[12].identity = reclaim_identity(7, 0);
  insert(items_[12]);
  EXPECT_EQ(items_[12].place(), LruPlace::kInactive) << "it was forgotten when it came back";
}

TEST_F(S3Fifo, TheGhostForgetsWhatLeftLongAgo) {
  for (std::size_t n = 0; n < 10; ++n) {
    items_[n].identity = reclaim_identity(7, n);
    insert(items_[n]);
  }
  for (std::uint64_t n = 0; n < 20; ++n) {  // nine are left each time: eight are remembered before the last
    LruItem& item = items_[n % 10];
    evict(item);
    item.identity = reclaim_identity(7, 10 + n);
    insert(item);
  }
  items_[10].identity = reclaim_identity(7, 11);
  items_[11].identity = reclaim_identity(7, 10);
  insert(items_[10]);
  insert(items_[11]);
  EXPECT_EQ(items_[11].place(), LruPlace::kInactive);
  EXPECT_EQ(items_[10].place(), LruPlace::kActive);
}

// Dirtied after its turn had come, and written since: its rank is not lost.
TEST_F(S3Fifo, WhatWasProtectedComesBackSo) {
  insert(items_[0]);
  items_[0].touch();
  items_[0].touch();
  LruItem* taken = nullptr;
  ASSERT_EQ(policy_->isolate(std::span(&taken, 1)), 1U) << "moved, and found unused there";
  policy_->put_back(items_[0], LruVerdict::kOff);
  insert(items_[0]);
  EXPECT_EQ(items_[0].place(), LruPlace::kActive);
  policy_->remove(items_[0]);
  items_[0].forget();
  insert(items_[0]);
  EXPECT_EQ(items_[0].place(), LruPlace::kInactive) << "another page's memory by now";
}

TEST_F(S3Fifo, AnItemOfTheMainQueueGoesRoundOnceForEachUse) {
  LruItem* taken = nullptr;
  for (int n = 0; n < 2; ++n) {
    insert(items_[n]);
    for (int use = 0; use < 2; ++use) items_[n].touch();
    // Whichever comes is in the main queue by now, and stays there.
    ASSERT_EQ(policy_->isolate(std::span(&taken, 1)), 1U);
    policy_->put_back(*taken, LruVerdict::kKeep);
  }
  ASSERT_EQ(policy_->counts().active, 2U);
  LruItem& newest = *taken;
  LruItem& oldest = taken == &items_[0] ? items_[1] : items_[0];
  for (int use = 0; use < 3; ++use) oldest.touch();
  newest.touch();
  evict(newest);
  evict(oldest);
}

TEST_F(S3Fifo, WhatLeftTheMainQueueIsNotRemembered) {
  for (std::size_t n = 0; n < 12; ++n) {
    items_[n].identity = reclaim_identity(7, n);
    items_[n].shard = n == 0 ? 0 : 3;
    insert(items_[n]);
  }
  for (int use = 0; use < 2; ++use) items_[0].touch();
  // Both are evicted, the second one from the small queue, while ten are left.
  for (LruItem* wanted : {&items_[0], &items_[1]}) {
    LruItem* taken = nullptr;
    for (int i = 0; i < 200 && taken != wanted; ++i) {
      if (policy_->isolate(std::span(&taken, 1)) != 1) continue;
      policy_->put_back(*taken, taken == wanted ? LruVerdict::kEvicted : LruVerdict::kKeep);
    }
    ASSERT_EQ(taken, wanted);
    wanted->forget();
  }
  insert(items_[0]);
  insert(items_[1]);
  EXPECT_EQ(items_[0].place(), LruPlace::kInactive);
  EXPECT_EQ(items_[1].place(), LruPlace::kActive);
}

TEST_F(S3Fifo, TheGhostGrowsWithWhatIsListed) {
  constexpr std::uint64_t kListed = 20'000;
  constexpr std::uint64_t kEvicted = 8'000;
  constexpr std::uint64_t kGrows = 100;  // in the first evictions: each time it forgets
  const auto all = std::make_unique<LruItem[]>(kListed);
  for (std::uint64_t n = 0; n < kListed; ++n) {
    all[n].identity = reclaim_identity(3, n);
    all[n].shard = static_cast<std::uint8_t>(n % kLruShards);
    insert(all[n]);
  }
  std::vector<LruItem*> evicted;
  while (evicted.size() < kEvicted) {
    LruItem* taken = nullptr;
    ASSERT_EQ(policy_->isolate(std::span(&taken, 1)), 1U);
    policy_->put_back(*taken, LruVerdict::kEvicted);
    taken->forget();
    evicted.push_back(taken);
  }
  std::uint64_t remembered = 0;
  for (std::uint64_t n = kGrows; n < kEvicted; ++n) {
    insert(*evicted[n]);
    remembered += evicted[n]->place() == LruPlace::kActive ? 1 : 0;
  }
  EXPECT_GE(remembered, (kEvicted - kGrows) * 9 / 10);
  for (std::uint64_t n = 0; n < kListed; ++n) policy_->remove(all[n]);
}

// The ghost's table is outgrown by what is evicted from several shards at once.
TEST_F(S3Fifo, TheGhostGrowsWhileThreadsEvict) {
  constexpr std::uint64_t kEach = 6000;
  std::vector<Thread> threads;
  std::vector<std::unique_ptr<LruItem[]>> all(4);
  for (std::uint64_t t = 0; t < all.size(); ++t) {
    all[t] = std::make_unique<LruItem[]>(kEach);
    threads.emplace_back("evictor", [&, t] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        LruItem& item = all[t][n];
        item.shard = static_cast<std::uint8_t>(4 * t + n % 4);
        item.identity = reclaim_identity(t, n);
        insert(item);
        LruItem* taken = nullptr;
        if (n % 4 == 0 && policy_->isolate(std::span(&taken, 1)) == 1) {
          policy_->put_back(*taken, LruVerdict::kEvicted);
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  const std::uint64_t listed = policy_->counts().listed;
  EXPECT_GE(listed, 3 * kEach);
  LruItem* taken = nullptr;
  ASSERT_EQ(policy_->isolate(std::span(&taken, 1)), 1U);
  policy_->put_back(*taken, LruVerdict::kEvicted);
  taken->forget();
  insert(*taken);
  EXPECT_EQ(taken->place(), LruPlace::kActive) << "the table in force remembers";
  for (auto& items : all) {
    for (std::uint64_t n = 0; n < kEach; ++n) policy_->remove(items[n]);
  }
}

TEST(ReclaimPolicy, UnknownNamesAreRefused) { EXPECT_EQ(make_reclaim_policy("lifo"), nullptr); }

TEST(ReclaimPolicy, AProgramRegistersItsOwnUnderANameThatIsFree) {
  const auto make = [] { return make_reclaim_policy("sieve"); };
  EXPECT_FALSE(register_reclaim_policy({"sieve", "taken", make}));
  EXPECT_FALSE(register_reclaim_policy({"nothing", "makes nothing", nullptr}));
  EXPECT_TRUE(register_reclaim_policy({"mine", "a sieve by another name", make}));
  EXPECT_FALSE(register_reclaim_policy({"mine", "taken by now", make}));
  const auto policy = make_reclaim_policy("mine");
  ASSERT_NE(policy, nullptr);
  EXPECT_EQ(policy->name(), "sieve");
  EXPECT_EQ(reclaim_policies().back().name, "mine");
}

}  // namespace
}  // namespace tidewheel
