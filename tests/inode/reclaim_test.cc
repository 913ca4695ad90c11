#include <gtest/gtest.h>

#include <array>

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
  items_[0].touch();
  items_[2].touch();
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
    items_[n].touch();
  }
  std::array<LruItem*, kItems> out;
  EXPECT_EQ(policy_->isolate(out), 0U) << "32 looked at, all referenced";
  const std::size_t taken = policy_->isolate(out);
  EXPECT_LE(taken, kReclaimScan);
  for (std::size_t i = 0; i < taken; ++i) policy_->put_back(*out[i], LruVerdict::kEvicted);
}

INSTANTIATE_TEST_SUITE_P(All, ReclaimPolicies, testing::Values("two-list", "sieve"),
                         [](const auto& param_info) {
                           return std::string(param_info.param) == "sieve" ? "Sieve" : "TwoList";
                         });

TEST(TwoListLru, ProtectsTheHotSetFromAScan) {
  auto policy = make_reclaim_policy("two-list");
  std::array<LruItem, 8> hot;
  std::vector<std::unique_ptr<LruItem>> cold;
  const auto insert = [&](LruItem& item) {
    LruItem* one = &item;
    policy->insert(std::span(&one, 1));
  };
  for (LruItem& item : hot) insert(item);
  for (LruItem& item : hot) item.touch();
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
  EXPECT_EQ(policy->counts().active, hot.size());
  for (LruItem& item : hot) policy->remove(item);
  for (auto& item : cold) policy->remove(*item);
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
