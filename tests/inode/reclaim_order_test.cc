// What a reclaim policy of a program's own must not do, and what its callers must not, each asserted with a
// sentence that says what it was.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "inode/reclaim_order.h"

namespace tidewheel {
namespace {

// First in, first out, but for what a test makes it do.
struct Breaking : ReclaimOrder {
  struct How {
    std::function<void(Breaking&, LruItem&)> enter = [](Breaking& self, LruItem& item) {
      self.make_newest(item, LruPlace::kInactive);
    };
    std::function<LruItem*(Breaking&)> look = [](Breaking& self) { return &self.oldest(); };
    std::function<void(Breaking&, LruItem&)> leave = [](Breaking& self, LruItem& item) { self.unlink(item); };
  };
  explicit Breaking(How as) : how(std::move(as)) {}
  void enter(LruItem& item) override { how.enter(*this, item); }
  LruItem* look() override { return how.look(*this); }
  void leave(LruItem& item) override { how.leave(*this, item); }
  using ReclaimOrder::make_newest;
  using ReclaimOrder::oldest;
  using ReclaimOrder::unlink;
  const How how;
};

struct Rig {
  explicit Rig(const Breaking::How& how)
      : policy(make_sharded_reclaim("breaking", [how] { return std::make_unique<Breaking>(how); })) {
    elsewhere.shard = 1;
  }
  ~Rig() {
    for (LruItem* item : {&first, &second, &elsewhere}) policy->remove(*item);
  }
  void insert(LruItem& item) {
    LruItem* one = &item;
    policy->insert(std::span(&one, 1));
  }
  std::size_t take(std::size_t most) { return policy->isolate(std::span(taken).first(most)); }

  std::unique_ptr<ReclaimPolicy> policy;
  LruItem first, second, elsewhere;  // the last one in another shard
  std::array<LruItem*, 4> taken{};
};

TEST(ReclaimOrderDeathTest, OneThatKeepsItsContractIsLeftAlone) {
  Rig rig({});
  rig.insert(rig.first);
  rig.insert(rig.second);
  rig.insert(rig.elsewhere);
  EXPECT_EQ(rig.take(4), 3U);
  for (LruItem* item : {&rig.first, &rig.second, &rig.elsewhere}) {
    EXPECT_EQ(rig.policy->put_back(*item, LruVerdict::kKeep), LruPutBack::kDone);
  }
  EXPECT_EQ(rig.policy->counts().listed, 3U);
}

TEST(ReclaimOrderDeathTest, AFactoryThatMakesNone) {
  EXPECT_DEATH(make_sharded_reclaim("none", [] { return nullptr; }), "factory makes none");
}

TEST(ReclaimOrderDeathTest, ListingNothing) {
  EXPECT_DEATH(
      {
        Rig rig({.enter = [](Breaking&, LruItem&) {}});
        rig.insert(rig.first);
      },
      "does not list what enters");
}

TEST(ReclaimOrderDeathTest, KeepingWhatLeaves) {
  const Breaking::How how{.leave = [](Breaking&, LruItem&) {}};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.insert(rig.first);
        rig.policy->remove(rig.first);
      },
      "keeps what is to leave");
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.insert(rig.first);
        rig.take(1);
      },
      "keeps what is to leave");
}

TEST(ReclaimOrderDeathTest, AnsweringOneTwice) {
  const Breaking::How how{.look = [last = std::make_shared<LruItem*>()](Breaking& self) {
    if (*last == nullptr) *last = &self.oldest();
    return *last;
  }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.insert(rig.first);
        rig.insert(rig.second);
        rig.take(2);
      },
      "answers an item that is not listed");
}

TEST(ReclaimOrderDeathTest, AnsweringAnotherShardsItem) {
  EXPECT_DEATH(
      {
        LruItem* other = nullptr;
        Rig rig({.look = [&other](Breaking&) { return other; }});
        other = &rig.elsewhere;
        rig.insert(rig.first);
        rig.insert(rig.elsewhere);
        rig.take(1);
      },
      "answers another shard's item");
}

// A policy that gives nothing back costs a bounded number of looks and ends nothing.
TEST(ReclaimOrder, AnsweringNothingForEverIsABoundedSearch) {
  std::uint32_t looks = 0;
  Rig rig({.look = [&looks](Breaking&) -> LruItem* {
    ++looks;
    return nullptr;
  }});
  rig.insert(rig.first);
  rig.insert(rig.elsewhere);
  EXPECT_EQ(rig.take(4), 0U);
  EXPECT_EQ(looks, 2 * kReclaimScan);
}

TEST(ReclaimPolicyDeathTest, PuttingBackWhatWasNotTaken) {
  EXPECT_DEATH(
      {
        Rig rig({});
        rig.insert(rig.first);
        rig.policy->put_back(rig.first, LruVerdict::kKeep);
      },
      "put back that was not isolated");
}

TEST(ReclaimPolicyDeathTest, RemovingWhatAReclaimerHasTwice) {
  EXPECT_DEATH(
      {
        Rig rig({});
        rig.insert(rig.first);
        rig.take(1);
        rig.policy->remove(rig.first);
        rig.policy->remove(rig.first);
      },
      "removed twice");
}

TEST(ReclaimPolicyDeathTest, EndingBeforeItsItems) {
  EXPECT_DEATH(
      {
        Rig rig({});
        rig.insert(rig.first);
        rig.policy.reset();
      },
      "end before their items");
}

}  // namespace
}  // namespace tidewheel
