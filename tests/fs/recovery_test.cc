// Head and tail, replay, and what recovery does with damage.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/fs/recovery_rig.h"

namespace tidewheel {
namespace {

TEST(LogScan, FindsTheHeadBehindTheLastRecord) {
  LogBuilder log;
  const Lsn tail = log.change(1, 1);
  log.change(2, 2, tail);
  const auto scan = log.scan();
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->tail, tail);
  EXPECT_EQ(scan->head, log.head);
  EXPECT_EQ(scan->records, 2U);
  EXPECT_EQ(scan->previous_sector, log.previous);
}

TEST(LogScan, FindsTheHeadAtEveryPlaceOfTheRing) {
  LogBuilder log;
  std::uint32_t looked_through = 0;
  for (std::uint64_t version = 1; log.head.cycle() < 4; ++version) {
    const Lsn tail = log.change(version % 7, version);
    // With a window that is much shorter than the log, so that bisection must lead there.
    const auto scan = log.scan(64 << 10);
    ASSERT_TRUE(scan) << version;
    EXPECT_EQ(scan->tail, tail);
    EXPECT_EQ(scan->head, log.head);
    if (scan->looked_through) ++looked_through;
  }
  EXPECT_EQ(looked_through, 0U);
}

TEST(LogScan, EndsAtATornRecord) {
  for (std::uint32_t sector = 0; sector < 8; ++sector) {
    LogBuilder log;
    const Lsn tail = log.change(1, 1);
    const Lsn torn = log.change(2, 2, tail);
    log.flip(torn.block() + sector, 99);
    const auto scan = log.scan();
    ASSERT_TRUE(scan);
    EXPECT_EQ(scan->head, torn) << sector;
    EXPECT_EQ(scan->records, 1U);
  }
}

// A record is only written with a flush when everything before it is there: that a crash cannot leave.
TEST(LogScan, RefusesAHoleBeforeACommitRecord) {
  LogBuilder log;
  const Lsn tail = log.change(1, 1);
  const Lsn hole = log.change(2, 2, tail);
  log.change(3, 3, tail);
  log.flip(hole.block(), 99);
  const auto scan = log.scan();
  ASSERT_FALSE(scan);
  EXPECT_EQ(scan.error().code, Reason::kCorrupt);
}

TEST(LogScan, EndsAtAHoleBeforeARecordInFlightAndNamesIt) {
  LogBuilder log;
  const Lsn tail = log.change(1, 1);
  log.start(1);
  const Lsn hole = log.write(tail);
  log.object(2, 2);
  const Lsn behind = log.write(tail);
  log.flip(hole.block(), 99);
  const auto scan = log.scan();
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->head, hole);
  ASSERT_EQ(scan->stale.size(), 1U);
  EXPECT_EQ(scan->stale[0], behind.block());
}

// Otherwise a record written at the head could be followed by one that never followed it.
TEST(Recovery, WipesWholeRecordsBehindTheHead) {
  LogBuilder log;
  const Lsn tail = log.change(1, 1);
  log.start(1);
  const Lsn hole = log.write(tail);
  log.object(2, 2);
  const Lsn behind = log.write(tail);
  log.flip(hole.block(), 99);
  const auto machine = log.mount();
  ASSERT_TRUE(machine);
  EXPECT_EQ((*machine)->recovery().wiped, 1U);
  LogReader reader(*log.device, log.layout.log());
  EXPECT_TRUE(reader.open(behind)->empty());
}

TEST(LogScan, TakesACleanLogWhoseFirstRecordIsMissing) {
  LogBuilder log;
  const Lsn tail = log.head;
  log.start(1);
  const Lsn hole = log.write(tail);
  log.object(2, 2);
  log.write(tail);
  log.flip(hole.block(), 99);
  const auto scan = log.scan();
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->unmount_sequence, 1U);
  EXPECT_EQ(scan->head, tail);
  EXPECT_EQ(scan->stale.size(), 1U);
}

TEST(LogScan, TellsAnEarlierFileSystemsRecordsApart) {
  for (const std::uint32_t until : {8U, 64U, 300U, 512U}) {
    LogBuilder log;
    // Records of another file system up to there, of the same cycle and of the next.
    MockLayout other = log.layout;
    other.uuid = Uuid::from_random(9, 9);
    LogBuilder old(other);
    for (std::uint64_t version = 1; version < 200 && old.head < Lsn::make(1, until); ++version) {
      old.change(1, version);
    }
    const std::uint64_t start = log.layout.log().offset_bytes;
    for (std::uint64_t at = kFsBlockBytes; at < log.layout.log_blocks * std::uint64_t{kFsBlockBytes};
         at += kFsBlockBytes) {
      log.write_block(start + at, old.read(start + at));
    }
    for (const std::uint64_t window : {std::uint64_t{16} << 10, kLogWindowBytes}) {
      const auto scan = log.scan(window);
      ASSERT_TRUE(scan);
      EXPECT_EQ(scan->unmount_sequence, 1U);
      EXPECT_EQ(scan->head, Lsn::make(1, 8));
    }
    const Lsn tail = log.change(3, 1);
    const auto scan = log.scan(16 << 10);
    ASSERT_TRUE(scan);
    EXPECT_EQ(scan->tail, tail);
    EXPECT_EQ(scan->head, log.head);
  }
}

TEST(LogScan, RefusesALogOfNothing) {
  LogBuilder log;
  log.write_block(log.layout.log().offset_bytes, {});
  const auto scan = log.scan();
  ASSERT_FALSE(scan);
  EXPECT_EQ(scan.error().code, Reason::kCorrupt);
}

// ---- replay ----

TEST(Recovery, ReplaysWhatIsCommittedAndNoMore) {
  LogBuilder log;
  const Lsn tail = log.change(1, 10);
  log.start(1).object(2, 20);  // no commit operation
  log.write(tail);
  const auto machine = log.mount();
  ASSERT_TRUE(machine);
  EXPECT_EQ(log.version(1), 10U);
  EXPECT_EQ(log.version(2), 0U);
  EXPECT_EQ((*machine)->recovery().checkpoints, 1U);
  EXPECT_EQ((*machine)->recovery().cut_off, 1U);
  EXPECT_EQ((*machine)->recovery().position.next_sequence, 3U);
}

TEST(Recovery, LeavesACleanLogAndASecondOneWritesNothing) {
  LogBuilder log;
  const Lsn tail = log.change(1, 10);
  log.change(2, 20, tail);
  ASSERT_TRUE(log.mount());
  const auto once = log.image();
  const std::uint64_t writes = log.device->stats().writes;
  const auto again = log.mount();
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->recovery().was_clean);
  EXPECT_EQ(log.device->stats().writes, writes);
  EXPECT_EQ(log.image(), once);
}

TEST(Recovery, DoesNotReplayOverANewerHome) {
  LogBuilder log;
  const Lsn tail = log.change(1, 10);
  const Lsn newer = log.change(1, 11, tail);
  log.put_home(1, 11, newer);
  const auto before = log.home(1);
  const auto machine = log.mount();
  ASSERT_TRUE(machine);
  EXPECT_EQ((*machine)->recovery().items.newer_at_home, 2U);
  EXPECT_EQ((*machine)->recovery().items.replayed, 0U);
  EXPECT_EQ(log.home(1), before);
}

// The logged header carries the LSN of the write before: left at home, it would let the next recovery rewind.
TEST(Recovery, StampsTheCheckpointsLsn) {
  LogBuilder log;
  const Lsn lsn = log.change(1, 10);
  ASSERT_TRUE(log.mount());
  const auto home = log.home(1);
  EXPECT_EQ(disk::view<disk::BlockHeader>(std::span<const std::byte>(home)).lsn, lsn.value);
}

TEST(Recovery, RefusesAHomeThatIsNewerThanTheLog) {
  LogBuilder log;
  log.change(1, 10);
  log.put_home(1, 99, Lsn::make(7, 0));
  const auto machine = log.mount();
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, Reason::kCorrupt);
  EXPECT_EQ(log.scan()->unmount_sequence, 0U);  // and does not say that the log is clean
}

TEST(Recovery, ReplaysOverAHomeThatIsTorn) {
  LogBuilder log;
  const Lsn lsn = log.change(1, 10);
  log.put_home(1, 10, lsn);
  auto block = log.home(1);
  block[600] ^= std::byte{1};  // its LSN says that it is home, its CRC that it is not
  log.write_block(log.layout.home(1).bytes(), block);
  const auto machine = log.mount();
  ASSERT_TRUE(machine);
  EXPECT_EQ((*machine)->recovery().items.torn_homes, 1U);
  EXPECT_EQ((*machine)->state(1).version, 10U);
}

TEST(Recovery, IsReadOnlyWithoutRecovery) {
  LogBuilder log;
  log.change(1, 10);
  const auto before = log.image();
  const auto machine = log.mount(true);
  ASSERT_TRUE(machine);
  const std::uint64_t object = 1;
  const auto changed = (*machine)->change(std::span(&object, 1), 5);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Reason::kReadOnly);
  EXPECT_FALSE((*machine)->recovery().was_clean);
  ASSERT_TRUE((*machine)->unmount());
  EXPECT_EQ(log.image(), before);
}

TEST(Recovery, WritesNothingBeforeItKnowsEveryItem) {
  LogBuilder log;
  const Lsn tail = log.change(1, 10);
  log.start(1);
  disk::LogItemHeader unknown{};
  unknown.type = 0x4299;
  unknown.regions = 1;
  log.op(0, std::as_bytes(std::span(&unknown, 1))).commit();
  log.write(tail);
  const auto before = log.image();
  const auto machine = log.mount();
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, Reason::kUnsupported);
  EXPECT_EQ(log.image(), before);
}

TEST(Recovery, FinishesAnOpenIntentOnce) {
  LogBuilder log;
  log.start(2).object(1, 10).intent(10, 2, 11).commit();
  log.write(Lsn::make(1, 8));
  {
    const auto machine = log.mount();
    ASSERT_TRUE(machine);
    EXPECT_EQ((*machine)->state(2), (MockState{11, 1}));
    ASSERT_TRUE((*machine)->unmount());
  }
  const auto again = log.mount();
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->recovery().was_clean);
  EXPECT_EQ((*again)->state(2), (MockState{11, 1}));
}

TEST(Recovery, AFailedOneDoesNotSayThatTheLogIsClean) {
  LogBuilder log;
  log.start(2).object(1, 10).intent(10, 999, 11).commit();  // there is no such object
  log.write(Lsn::make(1, 8));
  const auto machine = log.mount();
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, Reason::kCorrupt);
  const auto scan = log.scan();
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->unmount_sequence, 0U);
}

// ---- buffers ----

LogBuilder::Block chunk_block(const LogBuilder& log, std::uint64_t number, Lsn lsn, char letter) {
  LogBuilder::Block block;
  disk::start_block(block, disk::kMockMagic, log.layout.uuid, log.layout.home(number), number);
  std::memset(block.data() + 128, letter, block.size() - 128);
  disk::view<disk::MockBlock>(std::span<std::byte>(block)).bytes = 8;
  disk::stamp_block(block, lsn);
  return block;
}
// What a recovery without objects' own content to check leaves.
std::string letters_of(LogBuilder& log, std::uint64_t number) {
  const auto home = log.home(number);
  std::string letters;
  for (std::size_t chunk = 0; chunk < 5; ++chunk) letters += static_cast<char>(home[chunk * 128 + 100]);
  return letters.substr(1);
}

TEST(BufferReplay, ReplaysDirtyChunksOverTheRest) {
  LogBuilder log;
  log.write_block(log.layout.home(1).bytes(), chunk_block(log, 1, kNoLsn, 'o'));
  const Lsn first = log.head;
  log.start(1).chunks(1, ".a.b").commit();
  log.write(first);
  log.start(1).chunks(1, ".cc.").commit();
  log.write(first);
  const auto recovery = recover_only(log);
  ASSERT_TRUE(recovery);
  EXPECT_EQ(letters_of(log, 1), "ccbo");
  EXPECT_EQ(recovery->items.replayed, 2U);
}

TEST(BufferReplay, ComparesLsnsAlsoBetweenCheckpointsOfOneRecovery) {
  LogBuilder log;
  const Lsn first = log.head;
  log.start(1).chunks(1, ".a..").commit();
  log.write(first);
  const Lsn second = log.head;
  log.start(1).chunks(1, ".bb.").commit();
  log.write(first);
  log.write_block(log.layout.home(1).bytes(), chunk_block(log, 1, second, 'n'));
  const auto recovery = recover_only(log);
  ASSERT_TRUE(recovery);
  EXPECT_EQ(letters_of(log, 1), "nnnn");
  EXPECT_EQ(recovery->items.newer_at_home, 2U);
}

TEST(BufferReplay, DoesNotReplayWhatWasCancelledLater) {
  LogBuilder log;
  log.write_block(log.layout.home(1).bytes(), chunk_block(log, 1, kNoLsn, 'd'));  // data by now
  const Lsn first = log.head;
  log.start(1).chunks(1, ".a..").commit();
  log.write(first);
  log.start(1).chunks(1, "....", disk::kBufferCancel).commit();
  log.write(first);
  const auto recovery = recover_only(log);
  ASSERT_TRUE(recovery);
  EXPECT_EQ(letters_of(log, 1), "dddd");
  EXPECT_EQ(recovery->items.cancelled, 1U);
}

TEST(BufferReplay, ReplaysWhatWasLoggedAfterACancellation) {
  LogBuilder log;
  log.write_block(log.layout.home(1).bytes(), chunk_block(log, 1, kNoLsn, 'o'));
  const Lsn first = log.head;
  log.start(1).chunks(1, ".a..").commit();
  log.write(first);
  log.start(1).chunks(1, "....", disk::kBufferCancel).commit();
  log.write(first);
  log.start(1).chunks(1, "..b.").commit();
  log.write(first);
  ASSERT_TRUE(recover_only(log));
  EXPECT_EQ(letters_of(log, 1), "oboo");
}

// A block that is made from an item, as an ordered one is, and changed in the same checkpoint.
TEST(BufferReplay, GoesOverABlockThatItsOwnCheckpointMade) {
  LogBuilder log;
  const Lsn first = log.head;
  log.start(2).object(1, 10).chunks(1, "....b").commit();
  log.write(first);
  ASSERT_TRUE(recover_only(log));
  EXPECT_EQ(log.version(1), 10U);
  EXPECT_EQ(log.home(1)[4 * 128 + 100], std::byte{'b'});
}

TEST(BufferReplay, RefusesRunsThatDoNotMatchTheirChunks) {
  LogBuilder log;
  log.start(1).chunks(1, ".a.b");
  // One byte less in the last region.
  log.payload.pop_back();
  disk::view<disk::LogOp>(std::span<std::byte>(log.payload), log.payload.size() - 127 - 12).bytes = 127;
  log.commit();
  log.write(Lsn::make(1, 8));
  const auto recovery = recover_only(log);
  ASSERT_FALSE(recovery);
  EXPECT_EQ(recovery.error().code, Reason::kCorrupt);
}

// ---- damage ----

// Whatever is in the log, recovery says so, or finds a shorter log whose transactions are whole.
void expect_survives(LogBuilder& log, std::uint64_t versions) {
  const auto machine = log.mount();
  if (!machine) return;
  for (std::uint64_t number = 0; number < log.layout.objects; ++number) {
    EXPECT_LE((*machine)->state(number).version, versions);
  }
  EXPECT_TRUE((*machine)->unmount());
}

TEST(RecoveryFuzz, SurvivesAFlippedBitInEverySector) {
  LogBuilder log;
  Lsn tail = log.change(0, 1);
  for (std::uint64_t version = 2; version < 40; ++version) log.change(version % 12, version, tail);
  const auto before = log.image();
  Rng rng(3);
  std::uint32_t refused = 0;
  std::uint32_t shorter = 0;
  for (std::uint32_t sector = 0; sector < log.layout.log().sectors; ++sector) {
    for (const std::uint32_t byte : {4U, 16U, 24U, 32U, 44U, static_cast<std::uint32_t>(rng.below(512))}) {
      ASSERT_TRUE(log.device->write(0, before));
      log.flip(sector, byte);
      const auto scan = log.scan();
      if (!scan) {
        ++refused;
      } else if (scan->head < log.head) {
        ++shorter;
      }
      expect_survives(log, 40);
    }
  }
  EXPECT_GT(refused, 100U);
  EXPECT_GT(shorter, 0U);
}

TEST(RecoveryFuzz, SurvivesRandomBytes) {
  LogBuilder log;
  const Lsn tail = log.change(0, 1);
  for (std::uint64_t version = 2; version < 20; ++version) log.change(version % 12, version, tail);
  const auto before = log.image();
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Rng rng(seed);
    ASSERT_TRUE(log.device->write(0, before));
    for (std::uint64_t change = 1 + rng.below(3); change != 0; --change) {
      const std::uint64_t at = log.layout.log().offset_bytes + rng.below(32) * kFsBlockBytes;
      auto block = log.read(at);
      const std::uint64_t from = rng.below(8) * 512;
      for (std::uint64_t i = 0; i < 512; ++i) block[from + i] = static_cast<std::byte>(rng.next());
      log.write_block(at, block);
    }
    expect_survives(log, 40);
  }
}

// With the CRC put right, so that what lies behind it is looked at.
TEST(RecoveryFuzz, SurvivesRandomOperationsUnderARightCrc) {
  std::uint32_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    LogBuilder log(MockLayout{.log_blocks = 16});
    log.start(3).object(1, 1).chunks(2, ".ab.", disk::kBufferNew).intent(1, 3, 2).commit();
    for (std::uint64_t change = 1 + rng.below(4); change != 0; --change) {
      log.payload[rng.below(rng.chance(2) ? 64 : log.payload.size())] = static_cast<std::byte>(rng.next());
    }
    log.write(Lsn::make(1, 8));
    const auto recovery = recover_only(log);
    if (!recovery) ++refused;
  }
  EXPECT_GT(refused, 300U);
}

}  // namespace
}  // namespace tidewheel
