// Rules of recovery that nothing else would miss: the chain of records, what a clean log is, homes that are
// wrong in another way than torn, cancellations, intents, and what a repeated recovery may write.
#include <gtest/gtest.h>

#include "tests/fs/recovery_rig.h"

namespace tidewheel {
namespace {

// ---- the chain ----

// Each record that flushes carries a tail sampled later than the one before, and is written when all before
// it is there. One with an older tail does not follow, and no crash leaves it there.
TEST(LogChain, RefusesAFlushedRecordWhoseTailGoesBack) {
  LogBuilder log;
  const Lsn first = log.change(1, 1);
  log.change(1, 2);
  ASSERT_TRUE(log.scan().has_value());
  log.change(1, 3, first);
  const auto scan = log.scan();
  ASSERT_FALSE(scan.has_value());
  EXPECT_EQ(scan.error().code, Reason::kCorrupt);
}

// A record without a flush carries the published tail, which one in flight before it may have passed: the
// newest counts.
TEST(LogChain, RemembersTheNewestTailOverARecordWithoutAFlush) {
  LogBuilder log;
  const Lsn first = log.change(1, 1);
  const Lsn second = log.change(1, 2);
  log.start(1);
  log.write(first);
  const auto scan = log.scan();
  ASSERT_TRUE(scan.has_value());
  EXPECT_EQ(scan->tail, second);
  EXPECT_EQ(scan->head, log.head);
  log.object(1, 3).commit();
  log.write(first);
  const auto again = log.scan();
  ASSERT_FALSE(again.has_value()) << "it flushes, and its tail goes back";
  EXPECT_EQ(again.error().code, Reason::kCorrupt);
}

// A record that names another than the one before it does not follow it.
TEST(LogChain, EndsBeforeARecordThatNamesAnother) {
  LogBuilder log;
  const Lsn first = log.change(1, 1);
  log.previous = 400;
  log.start(1);
  const Lsn stray = log.write(first);
  const auto scan = log.scan();
  ASSERT_TRUE(scan.has_value());
  EXPECT_EQ(scan->head, stray);
  EXPECT_EQ(scan->stale, (std::vector<std::uint32_t>{stray.block()}));
}

// The record at the tail is missing: only a clean log right before it explains that.
TEST(LogChain, RefusesAHoleAtTheTailOfALogThatWasNotClean) {
  for (const bool unmounted : {false, true}) {
    LogBuilder log;
    const Lsn first = unmounted ? Lsn{} : log.change(1, 1);
    const Lsn tail = log.head;
    log.start(1);
    const Lsn hole = log.write(tail);
    log.object(2, 2);
    log.write(tail);
    log.flip(hole.block(), 99);
    const auto scan = log.scan();
    EXPECT_EQ(scan.has_value(), unmounted);
    if (!unmounted) {
      EXPECT_EQ(scan.error().code, Reason::kCorrupt);
      EXPECT_FALSE(first.none());
    }
  }
}
TEST(LogChain, RefusesATailThatDoesNotFollowTheCleanLog) {
  LogBuilder log;
  const Lsn lost = log.change(1, 1);
  const Lsn tail = log.head;
  log.start(1);
  const Lsn hole = log.write(tail);
  log.object(2, 2);
  log.write(tail);
  log.flip(hole.block(), 99);
  log.flip(lost.block(), 99);
  const auto scan = log.scan();
  ASSERT_FALSE(scan.has_value());
  EXPECT_EQ(scan.error().code, Reason::kCorrupt);
}

// ---- the last record ----

TEST(RecoveryRecord, IsRefusedRoomThatALogAlwaysKeeps) {
  LogBuilder log;
  const Lsn tail = log.head;
  const std::uint32_t units = log.layout.log().sectors / 8;
  for (std::uint32_t i = 0; i < units; ++i) log.change(i % 7, i + 1, tail);
  const std::vector<std::byte> before = log.image();
  const auto recovery = recover_only(log);
  ASSERT_FALSE(recovery.has_value());
  EXPECT_EQ(recovery.error().code, Reason::kCorrupt);
  std::vector<std::byte> after = log.image();
  const LogPlace place = log.layout.log();
  const auto of_log = [&](const std::vector<std::byte>& image) {
    return std::vector<std::byte>(
        image.begin() + static_cast<std::ptrdiff_t>(place.offset_bytes),
        image.begin() + static_cast<std::ptrdiff_t>(place.offset_bytes + place.sectors * 512ULL));
  };
  EXPECT_EQ(of_log(after), of_log(before)) << "it would lie over the tail";
}

// What a clean log leaves behind its head is wiped too, and that is durable before anything is written there.
TEST(RecoveryRecord, OfACleanLogIsNotNeededButStaleOnesAreWiped) {
  LogBuilder log;
  const Lsn tail = log.head;
  log.start(1);
  const Lsn hole = log.write(tail);
  log.object(2, 2);
  const Lsn behind = log.write(tail);
  log.flip(hole.block(), 99);
  const std::uint64_t flushes = log.device->stats().flushes;
  const auto recovery = recover_only(log);
  ASSERT_TRUE(recovery.has_value());
  EXPECT_TRUE(recovery->was_clean);
  EXPECT_EQ(recovery->wiped, 1U);
  EXPECT_EQ(log.device->stats().flushes, flushes + 1);
  EXPECT_EQ(recovery->position.tail, recovery->position.head);
  LogReader reader(*log.device, log.layout.log());
  EXPECT_TRUE(reader.open(behind)->empty());
  // And where nothing is stale nothing is flushed.
  const auto again = recover_only(log);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(log.device->stats().flushes, flushes + 1);
}

TEST(RecoveryRecord, NumbersGoOnBehindThoseThatWereGiven) {
  LogBuilder log;
  log.sequence = 41;
  const Lsn first = log.change(1, 1);
  log.start(1);  // 42, cut off
  log.write(first);
  const auto dirty = recover_only(log);
  ASSERT_TRUE(dirty.has_value());
  EXPECT_FALSE(dirty->was_clean);
  EXPECT_EQ(dirty->cut_off, 1U);
  EXPECT_EQ(dirty->position.next_sequence, 43U);
  const auto clean = recover_only(log);
  ASSERT_TRUE(clean.has_value());
  EXPECT_TRUE(clean->was_clean);
  EXPECT_EQ(clean->position.next_sequence, 43U);
}

// Nobody finishes the intent: each recovery of the same log takes no more of it, and flushes what it wrote.
TEST(RecoveryRecord, IsNotRepeatedWhileTheTailStandsAtAnOpenIntent) {
  LogBuilder log;
  const Lsn first = log.start(2).intent(7, 1, 1).object(3, 1).commit().write(log.head);
  const std::uint64_t flushes = log.device->stats().flushes;
  const auto once = recover_only(log);
  ASSERT_TRUE(once.has_value());
  EXPECT_EQ(log.device->stats().flushes, flushes + 1) << "the homes are durable";
  EXPECT_EQ(once->position.tail, first);
  EXPECT_EQ(once->position.head, log.head);
  EXPECT_EQ(log.version(3), 1U);
  const std::vector<std::byte> image = log.image();
  const auto twice = recover_only(log);
  ASSERT_TRUE(twice.has_value());
  EXPECT_EQ(twice->position.head, log.head);
  EXPECT_EQ(log.image(), image);
  EXPECT_EQ(twice->intents.size(), 1U);
}

TEST(RecoveryRecord, SaysHowFarTheTailCanGoWithOpenIntents) {
  LogBuilder log;
  const Lsn first = log.change(1, 1);
  log.start(2).intent(9, 1, 1).intent(3, 2, 2).commit();
  const Lsn second = log.write(first);
  const auto recovery = recover_only(log);
  ASSERT_TRUE(recovery.has_value());
  EXPECT_EQ(recovery->position.tail, second);
  EXPECT_NE(recovery->position.head, log.head);
  ASSERT_EQ(recovery->intents.size(), 2U);
  EXPECT_EQ(recovery->intents[0].id, 9U) << "in the order in which they were logged";
  EXPECT_EQ(recovery->intents[1].id, 3U);
  const auto scan = log.scan();
  ASSERT_TRUE(scan.has_value());
  EXPECT_EQ(scan->tail, second);
}

// ---- homes ----

LogBuilder::Block wrong_home(const LogBuilder& log) {
  LogBuilder::Block block;
  disk::start_block(block, disk::kMockMagic, log.layout.uuid, log.layout.home(1), 1);
  disk::view<disk::MockBlock>(std::span<std::byte>(block)).bytes = disk::kMaxMockBytes + 1;
  disk::stamp_block(block, kNoLsn);
  return block;
}

TEST(RecoveryHome, ThatIsWrongDoesNotMatterWhereAllOfItIsReplaced) {
  LogBuilder log;
  log.write_block(log.layout.home(1).bytes(), wrong_home(log));
  log.change(1, 5);
  ASSERT_TRUE(recover_only(log).has_value());
  EXPECT_EQ(log.version(1), 5U);
}

// Freed, made again, freed again: the last time counts.
TEST(RecoveryHome, OfABlockFreedTwiceIsLeftAlone) {
  LogBuilder log;
  log.put_home(1, 77, kNoLsn);
  const Lsn first = log.head;
  for (int time = 0; time < 2; ++time) {
    log.start(1).chunks(1, ".a..").commit().write(first);
    log.start(1).chunks(1, "....", disk::kBufferCancel).commit().write(first);
  }
  const LogBuilder::Block before = log.home(1);
  const auto recovery = recover_only(log);
  ASSERT_TRUE(recovery.has_value());
  EXPECT_EQ(recovery->items.cancelled, 2U);
  EXPECT_EQ(log.home(1), before);
}

// What has gone home can be reclaimed: a log of more buffers than fit into memory.
TEST(RecoveryHome, OfMoreBuffersThanFitIntoMemoryIsWrittenOnTheWay) {
  constexpr std::uint32_t kMany = 6000, kAtOnce = 15;
  LogBuilder log(MockLayout{.objects = kMany, .log_blocks = 1000});
  const Lsn first = log.head;
  for (std::uint32_t number = 0; number < kMany; number += kAtOnce) {
    log.start(kAtOnce);
    for (std::uint32_t i = 0; i < kAtOnce; ++i) log.chunks(number + i, "..a");
    log.commit().write(first);
  }
  MemoryBudget budget(20 << 20, 0);  // 4,096 are queued at most, and take 17.3 MiB
  BufferCache cache(budget, {.expected_buffers = 64, .memory_patience = Duration{0}});
  BufferTarget target(cache, *log.device, log.layout.geometry());
  LogReader reader(*log.device, log.layout.log());
  const auto recovery = recover(reader, *log.device, cache, target, mock_replay_table());
  ASSERT_TRUE(recovery.has_value()) << recovery.error().sentence();
  EXPECT_EQ(recovery->items.replayed, kMany);
  for (const std::uint32_t number : {0U, 4095U, 4096U, kMany - 1}) {
    EXPECT_EQ(log.home(number)[300], std::byte{'a'});
  }
}

}  // namespace
}  // namespace tidewheel
