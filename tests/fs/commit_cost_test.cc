// What commits and look-ups cost, in counts: locks, allocations. Times are bench/micro/log.cc's.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string_view>

#include "base/lock_class.h"
#include "tests/fs/log_reader.h"
#include "tests/fs/log_rig.h"
#include "tests/fs/trans_rig.h"
#include "tests/heap_count.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kTimes = 200;

std::uint64_t acquisitions(std::string_view name) {
  std::uint64_t found = 0;
  for (const LockClassStats& stats : lock_statistics()) {
    if (name.empty() ? std::string_view(stats.name) != "log-rig-object" : name == stats.name) {
      found += stats.acquisitions;
    }
  }
  return found;
}

TEST(CommitCost, IsOneLockFromReservationToEnd) {
  LoggedObject a("a");
  LogRig rig({.pusher = false});
  rig.add(a);
  rig.change(a, "first");
  // The least of a few rounds: the log's worker may look into the checkpoint once beside one of them.
  std::uint64_t shard = UINT64_MAX, all = UINT64_MAX;
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t shard_before = acquisitions("cil-shard");
    const std::uint64_t all_before = acquisitions("");
    for (std::uint64_t i = 0; i < kTimes; ++i) rig.change(a, "again");
    shard = std::min(shard, acquisitions("cil-shard") - shard_before);
    all = std::min(all, acquisitions("") - all_before);
  }
  EXPECT_EQ(shard, kTimes);
  EXPECT_EQ(all, kTimes) << "no other lock but the object's";
}

TEST(CommitCost, IsNoAllocationForWhatIsRelogged) {
  TransRig rig;
  const auto change_four = [&rig](std::uint32_t i) {
    auto transaction = rig.begin();
    for (std::uint64_t block = 0; block < 4; ++block) {
      const auto buffer = transaction->read(rig.at(block), 1, kMockType);
      ASSERT_TRUE(buffer.has_value());
      (*buffer)->bytes()[512] = std::byte(i);
      transaction->log(**buffer, 512, 520);
    }
    ASSERT_TRUE(transaction->commit().has_value());
  };
  for (std::uint64_t block = 0; block < 4; ++block) rig.change(block, 1);
  change_four(0);
  // The least of a few rounds: a thread of the machine may be starting beside the first.
  long fewest = INT64_MAX;
  for (int round = 0; round < 5; ++round) {
    const long before = tests::heap_allocations();
    for (std::uint32_t i = 0; i < kTimes; ++i) change_four(i);
    fewest = std::min(fewest, tests::heap_allocations() - before);
  }
  EXPECT_EQ(fewest, 0);
}

// Images and places of checkpoints that are written serve those after them.
TEST(CommitCost, IsNoAllocationOfImagesOnceCheckpointsGoRound) {
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 4096, .pusher = false});
  for (int i = 0; i < 20; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  // The least of the later rounds: what the last checkpoint had comes back when it has been told of, which a
  // force does not wait for.
  std::uint64_t fewest_images = UINT64_MAX, fewest_entries = UINT64_MAX;
  for (int round = 0; round < 12; ++round) {
    const CilStats before = rig.log.stats().cil;
    for (LoggedObject& object : objects) rig.change(object, std::string(100, 'x'));
    ASSERT_TRUE(rig.log.force_all().has_value());
    const CilStats after = rig.log.stats().cil;
    EXPECT_EQ(after.items - before.items, 20U);
    if (round == 0) {
      EXPECT_EQ(after.new_images, 20U);
    }
    if (round < 2) continue;
    fewest_images = std::min(fewest_images, after.new_images - before.new_images);
    fewest_entries = std::min(fewest_entries, after.new_entries - before.new_entries);
  }
  EXPECT_EQ(fewest_images, 0U);
  EXPECT_EQ(fewest_entries, 0U);
}

TEST(CommitCost, OutgrownImagesAreReplacedAndKeepNothingOfTheOld) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  for (std::size_t bytes = 1; bytes < 3000; bytes += bytes / 3 + 1) rig.change(a, std::string(bytes, 'g'));
  rig.change(a, "small again");
  ASSERT_TRUE(rig.log.force_all().has_value());
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.committed[0].regions, (std::vector<std::string>{"a", "small again"}));
  EXPECT_GT(rig.log.stats().cil.new_images, 5U);
}

TEST(LookupCost, OfAHitIsOneLockAndNoAllocation) {
  BufRig rig;
  const auto look = [&rig] { EXPECT_TRUE(rig.cache->hold(*rig.target, {7}, 1).has_value()); };
  look();
  const std::uint64_t hash = acquisitions("buffer-hash");
  const std::uint64_t all = acquisitions("");
  const long heap = tests::heap_allocations();
  for (std::uint64_t i = 0; i < kTimes; ++i) look();
  EXPECT_EQ(tests::heap_allocations() - heap, 0);
  EXPECT_EQ(acquisitions("buffer-hash") - hash, kTimes);
  EXPECT_EQ(acquisitions("") - all, kTimes);
}

// Beyond the few that are found by looking at each.
TEST(TransactionMany, BuffersAreFoundAgainAndCommitTogether) {
  constexpr std::uint64_t kMany = 40;
  TransRig rig(false, 0, 0);
  auto transaction =
      Transaction::begin(*rig.journal, {.payload_bytes = static_cast<std::uint32_t>(kMany * 4300)});
  ASSERT_TRUE(transaction.has_value());
  std::vector<Buffer*> joined;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto made = transaction->make(rig.at(i), 1, kMockType);
    ASSERT_TRUE(made.has_value());
    joined.push_back(*made);
  }
  for (std::uint64_t i = kMany; i-- > 0;) {
    const auto again = transaction->make(rig.at(i), 1, kMockType);
    ASSERT_TRUE(again.has_value());
    ASSERT_EQ(*again, joined[i]);
    fill_mock((*again)->bytes(), rig.buf.geometry, rig.at(i), i + 5);
    transaction->log_all(**again);
  }
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  for (std::uint64_t i = 0; i < kMany; ++i) EXPECT_EQ(rig.home(i), i + 5) << i;
  rig.expect_at_rest();
}

}  // namespace
}  // namespace tidewheel
