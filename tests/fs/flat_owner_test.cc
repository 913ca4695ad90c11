// Owners of one flat store: whose dirt a file is, how it comes to the owner whose tasks write it, and what
// the sync of one owner costs.
#include <gtest/gtest.h>

#include <optional>

#include "base/sim.h"
#include "tests/fs/flat_fixture.h"
#include "writeback/context.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kPage = 4096;

// Writes some pages as a task of `owner`, one vote each, and has them written: a round.
void write_as(FlatStore& store, FlatFile& file, FileKey key, std::uint32_t owner, std::uint32_t pages,
              std::uint64_t from = 0) {
  TaskThrottle task = store.make_task(owner);
  for (std::uint32_t i = 0; i < pages; ++i) {
    const std::uint64_t offset = (from + i) * kPage;
    const auto n = store.write(file, offset, pattern(key, offset, kPage), &task);
    ASSERT_TRUE(n.has_value());
    ASSERT_EQ(*n, kPage);
  }
}

class FlatOwners : public ::testing::Test {
 protected:
  explicit FlatOwners(std::uint32_t owners = 4) : harness_({.owners = owners}) { harness_.format(); }
  ~FlatOwners() override {
    harness_.settle();
    for (std::uint32_t i = 0; i < store().owners(); ++i) {
      EXPECT_TRUE(store().context(i).counts().all_zero()) << "owner " << i;
    }
  }
  FlatStore& store() { return *harness_.store_; }
  FlatFile make(FileKey key) { return store().create(key).value(); }
  std::uint64_t dirty_of(std::uint32_t owner) { return store().context(owner).counts().objects(); }
  FlatHarness harness_;
};

TEST_F(FlatOwners, FilesBeginWithTheOwnerOfTheirThread) {
  for (std::uint16_t t = 0; t < 8; ++t) {
    const FlatFile file = make(FileKey::of(t, 0, 0));
    EXPECT_EQ(store().owner_of(file), t % 4U);
  }
  for (std::uint32_t owner = 0; owner < 4; ++owner) EXPECT_EQ(dirty_of(owner), 2U);
}

TEST_F(FlatOwners, ForeignDirtIsFoundAndRefiled) {
  const FileKey key = FileKey::of(0, 0, 1);
  FlatFile file = make(key);
  for (int round = 1; round <= 9; ++round) {
    EXPECT_EQ(store().owner_of(file), 0U) << "before round " << round;
    write_as(store(), file, key, 2, 3);
    EXPECT_EQ(store().context(0).counts().total(), 3 * kPage + 1024);
    EXPECT_EQ(dirty_of(2), 0U);
    ASSERT_TRUE(store().fsync(file).has_value());
  }
  EXPECT_EQ(store().owner_of(file), 2U) << "more than half of 16 rounds were the other's";
  write_as(store(), file, key, 2, 3);
  EXPECT_TRUE(store().context(0).counts().all_zero());
  EXPECT_EQ(store().context(2).counts().total(), 3 * kPage + 1024);
  // It is his sync that covers it now.
  ASSERT_TRUE(store().sync_owner(0).has_value());
  EXPECT_EQ(dirty_of(2), 1U);
  ASSERT_TRUE(store().sync_owner(2).has_value());
  EXPECT_EQ(dirty_of(2), 0U);
  expect_contents(store(), file, key, 3 * kPage);
}

TEST_F(FlatOwners, WhoWritesLessDoesNotCarryItOff) {
  const FileKey key = FileKey::of(1, 0, 1);
  FlatFile file = make(key);
  for (int round = 0; round < 40; ++round) {
    write_as(store(), file, key, 1, 3);
    write_as(store(), file, key, 3, 2, 3);
    ASSERT_TRUE(store().fsync(file).has_value());
  }
  EXPECT_EQ(store().owner_of(file), 1U);
}

// The votes of one file are not those of the next one in the same memory.
TEST_F(FlatOwners, ANewFileBeginsWithoutVotes) {
  for (std::uint32_t n = 0; n < 12; ++n) {
    const FileKey key = FileKey::of(0, 0, n);
    FlatFile file = make(key);
    write_as(store(), file, key, 3, 2);
    ASSERT_TRUE(store().fsync(file).has_value());
    EXPECT_EQ(store().owner_of(file), 0U);
    file.close();
    ASSERT_TRUE(store().unlink(key).has_value());
    store().drop_caches();
  }
}

TEST_F(FlatOwners, WhatComesBackToMemoryIsHisWhoWritesToItFirst) {
  const FileKey key = FileKey::of(0, 0, 1);
  ASSERT_TRUE(put_file(store(), key, kPage).has_value());
  const auto reopen = [&](FlatFile file) {
    ASSERT_TRUE(store().sync().has_value());
    file.close();
    store().drop_caches();
  };
  reopen({});
  FlatFile file = store().open(key).value();
  EXPECT_EQ(store().owner_of(file), 0U) << "nobody has written to it";
  write_as(store(), file, key, 2, 1);
  EXPECT_EQ(store().owner_of(file), 2U);
  EXPECT_TRUE(store().context(0).counts().all_zero());
  // From then on it takes a majority.
  ASSERT_TRUE(store().sync().has_value());
  write_as(store(), file, key, 3, 1);
  EXPECT_EQ(store().owner_of(file), 2U);
  reopen(std::move(file));
  file = store().open(key).value();
  write_as(store(), file, key, 0, 1);
  EXPECT_EQ(store().owner_of(file), 0U);
}

// More files than memory holds, of one owner's keys and another's writers: none of it is the first one's.
TEST_F(FlatOwners, ForeignDirtOfFilesThatLeaveMemoryIsNotTheFirstOwners) {
  constexpr std::uint32_t kFiles = 20;
  for (std::uint32_t n = 0; n < kFiles; ++n) {
    ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, n), kPage).has_value());
  }
  for (int round = 0; round < 12; ++round) {
    ASSERT_TRUE(store().sync().has_value());
    store().drop_caches();
    for (std::uint32_t n = 0; n < kFiles; ++n) {
      const FileKey key = FileKey::of(0, 0, n);
      FlatFile file = store().open(key).value();
      write_as(store(), file, key, 1, 1);
    }
    ASSERT_EQ(dirty_of(1), kFiles) << round;
    ASSERT_EQ(dirty_of(0), 0U) << round;
  }
}

TEST_F(FlatOwners, SyncOfOneCostsItsOwnDirtyObjectsAlone) {
  constexpr std::uint32_t kFiles = 300;
  for (std::uint16_t t = 0; t < 4; ++t) {
    const std::uint32_t files = t == 1 ? 7 : kFiles;
    for (std::uint32_t n = 0; n < files; ++n) {
      ASSERT_TRUE(put_file(store(), FileKey::of(t, 0, n), 100).has_value());
    }
  }
  ASSERT_EQ(dirty_of(1), 7U);
  std::vector<DirtyListStats> before;
  for (std::uint32_t i = 0; i < 4; ++i) before.push_back(store().context(i).list().stats());
  const std::uint64_t written = harness_.engine_->stats().objects;
  ASSERT_TRUE(store().sync_owner(1).has_value());
  EXPECT_EQ(harness_.engine_->stats().objects - written, 7U);
  for (const std::uint32_t other : {0U, 2U, 3U}) {
    EXPECT_EQ(dirty_of(other), kFiles);
    const DirtyListStats now = store().context(other).list().stats();
    EXPECT_EQ(now.elements_under_lock, before[other].elements_under_lock) << "owner " << other;
    EXPECT_EQ(now.detached_buckets, before[other].detached_buckets) << "owner " << other;
  }
  EXPECT_LE(store().context(1).list().stats().elements_under_lock - before[1].elements_under_lock, 2 * 7U);
}

TEST_F(FlatOwners, SyncOfAllFlushesTheDeviceOnce) {
  for (std::uint16_t t = 0; t < 4; ++t) {
    ASSERT_TRUE(put_file(store(), FileKey::of(t, 0, 0), 100).has_value());
  }
  const std::uint64_t flushes = harness_.device_->stats().flushes;
  ASSERT_TRUE(store().sync().has_value());
  EXPECT_EQ(harness_.device_->stats().flushes - flushes, 1U);
}

class FlatOneOwner : public FlatOwners {
 protected:
  FlatOneOwner() : FlatOwners(1) {}
};
TEST_F(FlatOneOwner, HasNobodyToVoteFor) {
  EXPECT_EQ(store().make_task(0).owner(), kNoContext);
  const FileKey key = FileKey::of(5, 0, 0);
  FlatFile file = make(key);
  for (int round = 0; round < 20; ++round) {
    write_as(store(), file, key, 0, 1);
    ASSERT_TRUE(store().fsync(file).has_value());
  }
  EXPECT_EQ(store().owner_of(file), 0U);
}

// A file goes to another owner at the end of a write while a task dirties further pages of it, its owner is
// synced and a second file is deleted: what is counted is what is tagged, in whichever context.
SIM_TEST_WITH(FlatOwnersSim, AFileMovesBesideItsWriter, (sim::Options{.schedules = 300})) {
  FlatHarness harness({.device_bytes = 1 << 20, .memory_bytes = 6 << 20, .dirty_bytes = 256 << 10,
                       .owners = 2});
  harness.format();
  FlatStore& store = *harness.store_;
  const FileKey key = FileKey::of(0, 0, 0);
  FlatFile file = store.create(key).value();
  const std::vector<std::byte> page = pattern(key, 0, kPage);
  TaskThrottle foreign = store.make_task(1);
  const auto write_page = [&](std::uint64_t index) {
    const auto n = store.write(file, index * kPage, pattern(key, index * kPage, kPage), &foreign);
    SIM_CHECK(n.has_value() && *n == kPage);
  };
  for (int round = 0; round < 8; ++round) {
    write_page(0);
    SIM_CHECK(store.fsync(file).has_value());
  }
  SIM_CHECK(store.owner_of(file) == 0);
  write_page(0);
  FlatFile handle = store.open(key).value();
  Thread writer("write", [&] {
    for (std::uint64_t index = 1; index < 5; ++index) write_page(index);
  });
  Thread syncer("sync", [&] {
    SIM_CHECK(store.fsync(handle).has_value());
    SIM_CHECK(store.sync_owner(0).has_value());
  });
  Thread deleter("delete", [&] {
    const FileKey other = FileKey::of(1, 0, 9);
    SIM_CHECK(put_file(store, other, 6'000).has_value());
    SIM_CHECK(store.unlink(other).has_value());
  });
  writer.join();
  syncer.join();
  deleter.join();
  SIM_CHECK(store.owner_of(file) == 1);
  SIM_CHECK(store.sync_owner(1).has_value());
  for (std::uint32_t i = 0; i < 2; ++i) SIM_CHECK(store.context(i).counts().all_zero());
  std::vector<std::byte> bytes(5 * kPage);
  const auto n = store.read(file, 0, bytes);
  SIM_CHECK(n.has_value() && *n == bytes.size() && bytes == pattern(key, 0, bytes.size()));
  file.close();
  handle.close();
  harness.settle();
}

}  // namespace
}  // namespace tidewheel
