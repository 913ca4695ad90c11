// What no log writes, although the CRC over it is right: each is refused where it is met first, before
// anything is written. Each case is built twice, once as a log would have it: what differs is refused.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/fs/recovery_rig.h"

namespace tidewheel {
namespace {

template <class T>
std::span<const std::byte> raw(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

struct Case {
  const char* name;
  void (*build)(LogBuilder& log, bool wrong);
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};
std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// ---- operations of a record ----

class OperationsOfARecord : public testing::TestWithParam<Case> {};

TEST_P(OperationsOfARecord, AreReadIfTheyFitItsPayload) {
  for (const bool wrong : {false, true}) {
    LogBuilder log;
    GetParam().build(log, wrong);
    const Lsn at = log.write(log.head);
    LogReader reader(*log.device, log.layout.log());
    const auto record = reader.open(at);
    ASSERT_TRUE(record.has_value());
    ASSERT_FALSE(record->empty());
    std::vector<LogOperation> operations;
    EXPECT_EQ(read_operations(*record, operations), !wrong);
    EXPECT_EQ(is_flushed_record(*record), !wrong) << "what cannot be read was not written with a flush";
    EXPECT_EQ(unmount_sequence_of(*record), 0U);
  }
}

constexpr Case kOperationCases[] = {
    {"AFewBytesBehindTheLast",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       if (wrong) log.payload.insert(log.payload.end(), 4, std::byte{0});
     }},
    {"OneLongerThanThePayload",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       const std::size_t last = log.payload.size() - sizeof(disk::LogCommit) - sizeof(disk::LogOp);
       if (wrong) disk::view<disk::LogOp>(std::span<std::byte>(log.payload), last).bytes = 17;
     }},
    {"AnUnknownFlag",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       log.op(wrong ? 32 : 0, {});
     }},
    {"AnotherNumberOfThem",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       log.operations += wrong ? 1 : 0;
     }},
};
INSTANTIATE_TEST_SUITE_P(Each, OperationsOfARecord, testing::ValuesIn(kOperationCases), name_of_case);

// ---- the record of an unmount ----

class UnmountRecord : public testing::TestWithParam<Case> {};

TEST_P(UnmountRecord, IsOneOnlyIfAllOfItIsRight) {
  for (const bool wrong : {false, true}) {
    LogBuilder log;
    GetParam().build(log, wrong);
    const Lsn at = log.write(log.head);
    LogReader reader(*log.device, log.layout.log());
    const auto record = reader.open(at);
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(unmount_sequence_of(*record), wrong ? 0U : 7U);
  }
}

disk::LogUnmount an_unmount() {
  disk::LogUnmount unmount{};
  unmount.magic = disk::kLogUnmountMagic;
  unmount.next_sequence = 7;
  return unmount;
}

constexpr Case kUnmountCases[] = {
    {"WithAnotherOperation",
     [](LogBuilder& log, bool wrong) {
       log.op(disk::kOpUnmount, raw(an_unmount()));
       if (wrong) log.op(0, {});
     }},
    {"WithAnotherFlag",
     [](LogBuilder& log, bool wrong) {
       log.op(static_cast<std::uint8_t>(disk::kOpUnmount | (wrong ? disk::kOpContinues : 0)),
              raw(an_unmount()));
     }},
    {"OfAnotherLength",
     [](LogBuilder& log, bool wrong) {
       const disk::LogUnmount two[2] = {an_unmount(), {}};
       log.op(disk::kOpUnmount, std::as_bytes(std::span(two, wrong ? 2 : 1)));
     }},
    {"WithAnotherMagic",
     [](LogBuilder& log, bool wrong) {
       disk::LogUnmount unmount = an_unmount();
       if (wrong) unmount.magic = disk::kLogCheckpointMagic;
       log.op(disk::kOpUnmount, raw(unmount));
     }},
};
INSTANTIATE_TEST_SUITE_P(Each, UnmountRecord, testing::ValuesIn(kUnmountCases), name_of_case);

TEST(FlushedRecord, IsWhatACommitAnUnmountOrATailIsWrittenWith) {
  LogBuilder log;
  std::vector<Lsn> flushed;
  flushed.push_back(log.write(log.head));  // no operation: a tail
  flushed.push_back(log.op(disk::kOpUnmount, raw(an_unmount())).write(log.head));
  flushed.push_back(log.start(0).commit().write(log.head));
  const Lsn first = log.start(1).write(log.head);
  LogReader reader(*log.device, log.layout.log());
  for (const Lsn at : flushed) EXPECT_TRUE(is_flushed_record(*reader.open(at))) << at.block();
  EXPECT_FALSE(is_flushed_record(*reader.open(first)));
}

// ---- records at their places ----

TEST(LogReaderPlaces, ARecordIsNoneElsewhereNorInAnotherRound) {
  LogBuilder log;
  const Lsn at = log.change(1, 1);
  const std::uint64_t start = log.layout.log().offset_bytes;
  log.write_block(start + std::uint64_t{40} * kLogSectorBytes,
                  log.read(start + std::uint64_t{at.block()} * kLogSectorBytes));
  LogReader reader(*log.device, log.layout.log());
  EXPECT_EQ(*reader.claimed_lsn(at.block()), at);
  EXPECT_FALSE(reader.open(at)->empty());
  EXPECT_EQ(*reader.claimed_lsn(40), kNoLsn);
  EXPECT_TRUE(reader.open(40)->empty());
  EXPECT_TRUE(reader.open(Lsn::make(at.cycle() + 1, at.block()))->empty()) << "what an earlier round left";
}

// ---- checkpoints ----

struct SeenCheckpoints final : CheckpointVisitor {
  Result<void> committed(const RecoveredCheckpoint& checkpoint) override {
    sequences.push_back(checkpoint.sequence);
    for (const RecoveredItem& item : checkpoint.items) regions += item.regions.size();
    return {};
  }
  std::vector<std::uint64_t> sequences;
  std::size_t regions = 0;
};

disk::LogCheckpoint start_of(LogBuilder& log, std::uint32_t items) {
  log.begun = log.head;
  disk::LogCheckpoint start{};
  start.magic = disk::kLogCheckpointMagic;
  start.item_count = items;
  start.sequence = log.sequence;
  return start;
}
disk::LogCommit commit_of(const LogBuilder& log) {
  disk::LogCommit commit{};
  commit.sequence = log.sequence;
  commit.start_lsn = log.begun.value;
  return commit;
}
disk::LogItemHeader header_of(std::uint16_t regions) {
  disk::LogItemHeader header{};
  header.type = static_cast<std::uint16_t>(disk::LogItemType::kMock);
  header.regions = regions;
  return header;
}
constexpr std::byte kContent[8] = {std::byte{2}, std::byte{0}};

class CheckpointOfALog : public testing::TestWithParam<Case> {};

TEST_P(CheckpointOfALog, IsOneOnlyIfAllOfItIsRight) {
  for (const bool wrong : {false, true}) {
    LogBuilder log;
    const Lsn first = log.head;
    GetParam().build(log, wrong);
    log.write(first);
    LogReader reader(*log.device, log.layout.log());
    CheckpointWalk walk(reader);
    SeenCheckpoints seen;
    const auto walked = walk.run(first, log.head, seen);
    if (!wrong) {
      EXPECT_TRUE(walked.has_value()) << walked.error().sentence();
      EXPECT_FALSE(seen.sequences.empty());
    } else {
      ASSERT_FALSE(walked.has_value());
      EXPECT_EQ(walked.error().code, Reason::kCorrupt);
      EXPECT_EQ(walked.error().detail, first.block()) << "the record's sector";
    }
  }
}

constexpr Case kCheckpointCases[] = {
    {"BegunWithAnotherFlag",
     [](LogBuilder& log, bool wrong) {
       log.op(static_cast<std::uint8_t>(disk::kOpStart | (wrong ? disk::kOpContinues : 0)),
              raw(start_of(log, 0)));
       log.commit();
     }},
    {"BegunWithMoreBytes",
     [](LogBuilder& log, bool wrong) {
       const disk::LogCheckpoint two[2] = {start_of(log, 0), {}};
       log.op(disk::kOpStart, std::as_bytes(std::span(two, wrong ? 2 : 1))).commit();
     }},
    {"BegunWithAnotherMagic",
     [](LogBuilder& log, bool wrong) {
       disk::LogCheckpoint start = start_of(log, 0);
       if (wrong) start.magic = disk::kLogUnmountMagic;
       log.op(disk::kOpStart, raw(start)).commit();
     }},
    {"OfAnotherNumberThanItsOperations",
     [](LogBuilder& log, bool wrong) {
       disk::LogCheckpoint start = start_of(log, 0);
       disk::LogCommit commit = commit_of(log);
       if (wrong) start.sequence = commit.sequence = log.sequence + 1;
       log.op(disk::kOpStart, raw(start)).op(disk::kOpCommit, raw(commit));
     }},
    {"WithARegionOfNone",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       log.start(1).op(0, raw(header_of(1))).commit();
       if (wrong) log.op(0, kContent);  // of a number that nothing began with
     }},
    {"WithACommitOfNone",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       if (wrong) log.commit();
     }},
    {"WithARegionThatGoesOnWithoutHavingSaidSo",
     [](LogBuilder& log, bool wrong) {
       log.start(1).op(0, raw(header_of(wrong ? 1 : 2)));
       log.op(wrong ? disk::kOpContinued : 0, kContent).commit();
     }},
    {"WithARegionThatDoesNotGoOn",
     [](LogBuilder& log, bool wrong) {
       log.start(1).op(wrong ? disk::kOpContinues : 0, raw(header_of(2))).op(0, kContent).commit();
     }},
    {"CommittedInsideARegion",
     [](LogBuilder& log, bool wrong) {
       log.start(1).op(0, raw(header_of(2))).op(wrong ? disk::kOpContinues : 0, kContent).commit();
     }},
    {"WithARegionShorterThanItsHeader",
     [](LogBuilder& log, bool wrong) {
       const disk::LogItemHeader header = header_of(2);
       log.start(1).op(0, raw(header).first(wrong ? 2 : 4)).op(0, kContent).commit();
     }},
    {"WithAnItemOfMoreRegionsThanThereAre",
     [](LogBuilder& log, bool wrong) {
       log.start(1).op(0, raw(header_of(wrong ? 3 : 2))).op(0, kContent).commit();
     }},
    {"WithAnItemOfNoRegion",
     [](LogBuilder& log, bool wrong) {
       log.start(1).op(0, raw(header_of(wrong ? 0 : 1))).commit();
     }},
    {"WithAnotherNumberOfItems",
     [](LogBuilder& log, bool wrong) { log.start(wrong ? 2 : 1).op(0, raw(header_of(1))).commit(); }},
    {"CommittedWithAnotherFlag",
     [](LogBuilder& log, bool wrong) {
       log.start(0);
       log.op(static_cast<std::uint8_t>(disk::kOpCommit | (wrong ? disk::kOpContinues : 0)),
              raw(commit_of(log)));
     }},
    {"CommittedWithMoreBytes",
     [](LogBuilder& log, bool wrong) {
       log.start(0);
       const disk::LogCommit two[2] = {commit_of(log), {}};
       log.op(disk::kOpCommit, std::as_bytes(std::span(two, wrong ? 2 : 1)));
     }},
    {"CommittedAsAnother",
     [](LogBuilder& log, bool wrong) {
       log.start(0);
       disk::LogCommit commit = commit_of(log);
       if (wrong) commit.sequence = log.sequence + (1ULL << 32);
       log.op(disk::kOpCommit, raw(commit));
     }},
    {"CommittedWithAnotherStart",
     [](LogBuilder& log, bool wrong) {
       log.start(0);
       disk::LogCommit commit = commit_of(log);
       if (wrong) commit.start_lsn = log.begun.value + 8;
       log.op(disk::kOpCommit, raw(commit));
     }},
    {"CommittedBehindALaterOne",
     [](LogBuilder& log, bool wrong) {
       log.sequence = 5;
       log.start(0).commit();
       log.sequence = wrong ? 4 : 6;
       log.start(0).commit();
     }},
    {"CommittedTwice",
     [](LogBuilder& log, bool wrong) {
       log.start(0).commit();
       if (!wrong) return;
       --log.sequence;
       log.commit();
     }},
};
INSTANTIATE_TEST_SUITE_P(Each, CheckpointOfALog, testing::ValuesIn(kCheckpointCases), name_of_case);

// Of a checkpoint that a crash cut off nothing more comes: whoever takes its number begins anew.
TEST(CheckpointWalkRuns, TakeANumberThatIsBegunAgain) {
  LogBuilder log;
  const Lsn first = log.start(1).op(0, raw(header_of(2))).op(0, kContent).write(log.head);
  log.start(1).op(0, raw(header_of(1))).commit().write(first);
  LogReader reader(*log.device, log.layout.log());
  CheckpointWalk walk(reader);
  SeenCheckpoints seen;
  ASSERT_TRUE(walk.run(first, log.head, seen).has_value());
  EXPECT_EQ(seen.sequences, (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(seen.regions, 1U) << "nothing of the one before";
  EXPECT_EQ(walk.uncommitted(), 0U);
}

TEST(CheckpointWalkRuns, KnowNothingOfTheOneBefore) {
  LogBuilder log;
  const Lsn first = log.start(0).commit().write(log.head);
  log.start(1).write(first);  // cut off
  LogReader reader(*log.device, log.layout.log());
  CheckpointWalk walk(reader);
  SeenCheckpoints seen;
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(walk.run(first, log.head, seen).has_value());
    EXPECT_EQ(walk.last_sequence(), 1U);
    EXPECT_EQ(walk.newest_sequence(), 2U) << "those cut off included: its number is not given again";
    EXPECT_EQ(walk.uncommitted(), 1U);
  }
  ASSERT_TRUE(walk.run(log.head, log.head, seen).has_value());
  EXPECT_EQ(walk.uncommitted(), 0U);
  EXPECT_EQ(walk.newest_sequence(), 0U);
}

TEST(CheckpointWalkRuns, PassByAnUnmountAndRefuseAHole) {
  LogBuilder log;
  log.start(0).commit().write(log.head);
  LogReader reader(*log.device, log.layout.log());
  CheckpointWalk walk(reader);
  SeenCheckpoints seen;
  ASSERT_TRUE(walk.run(Lsn::make(1, 0), log.head, seen).has_value()) << "from the unmount record on";
  EXPECT_EQ(seen.sequences.size(), 1U);
  const auto beyond = walk.run(Lsn::make(1, 0), log_advance(log.head, 8, log.layout.log().sectors), seen);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, Reason::kCorrupt);
}

// ---- items: nothing is written unless all of them can be replayed ----

struct RawItem {
  disk::BufferItemFormat format;
  disk::Le32 dirty[disk::kMaxDirtyWords + 1];
};

// A buffer's item with one dirty chunk, the second.
RawItem item_of(const LogBuilder& log) {
  RawItem item{};
  item.format.item = header_of(2);
  item.format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kBuffer);
  item.format.dirty_words = 1;
  item.format.length_blocks = 1;
  item.format.block_type = static_cast<std::uint32_t>(disk::BlockType::kMock);
  item.format.address = log.layout.home(1).value;
  item.dirty[0] = 2;
  return item;
}
void put(LogBuilder& log, const RawItem& item, std::size_t more_bytes = 0, std::size_t chunk = 128) {
  static constexpr std::byte kChunk[256] = {};
  const std::size_t bytes = sizeof item.format + std::size_t{item.format.dirty_words} * 4 + more_bytes;
  log.op(0, raw(item).first(bytes)).op(0, std::span(kChunk).first(chunk));
}

class BufferItemOfALog : public testing::TestWithParam<Case> {};

TEST_P(BufferItemOfALog, IsReplayedOnlyIfAllOfItIsRight) {
  for (const bool wrong : {false, true}) {
    LogBuilder log;
    log.put_home(1, 1, kNoLsn);
    const Lsn first = log.change(0, 9);  // would go home by itself
    log.start(1);
    GetParam().build(log, wrong);
    log.commit().write(first);
    const std::vector<std::byte> before = log.image();
    const auto recovery = recover_only(log);
    if (!wrong) {
      EXPECT_TRUE(recovery.has_value()) << recovery.error().sentence();
      EXPECT_EQ(log.version(0), 9U);
    } else {
      ASSERT_FALSE(recovery.has_value());
      EXPECT_EQ(recovery.error().code, Reason::kCorrupt);
      EXPECT_EQ(log.image(), before) << "nothing is written";
    }
  }
}

constexpr Case kBufferCases[] = {
    {"WithMoreDirtyWordsThanABufferHas",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       item.format.dirty_words = static_cast<std::uint16_t>(disk::kMaxDirtyWords + (wrong ? 1 : 0));
       put(log, item);
     }},
    {"OfAnotherLengthThanItsWords",
     [](LogBuilder& log, bool wrong) { put(log, item_of(log), wrong ? 4 : 0); }},
    {"OfNoBlocks",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       if (!wrong) return put(log, item);
       item.format.length_blocks = 0;
       item.format.item.regions = 1;
       item.dirty[0] = 0;
       log.op(0, raw(item).first(sizeof item.format + 4));
     }},
    {"OfTooManyBlocks",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       item.format.length_blocks = wrong ? 17 : 1;
       put(log, item);
     }},
    {"OfAnUnknownType",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       if (wrong) item.format.block_type = disk::kBlockTypes;
       put(log, item);
     }},
    {"BeyondTheDevice",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       if (wrong) item.format.address = log.layout.geometry().device_blocks + 1;
       put(log, item);
     }},
    {"OverTheDevicesEnd",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       if (wrong) {
         item.format.address = log.layout.geometry().device_blocks - 1;
         item.format.length_blocks = 2;
       }
       put(log, item);
     }},
    {"WithADirtyChunkBehindItsEnd",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       item.format.dirty_words = 2;
       item.dirty[1] = wrong ? 1 : 0;
       put(log, item);
     }},
    {"WithARunOfAnotherLength",
     [](LogBuilder& log, bool wrong) { put(log, item_of(log), 0, wrong ? 127 : 128); }},
    {"WithARunForNoChunk",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       item.format.item.regions = wrong ? 3 : 2;
       put(log, item);
       if (wrong) log.op(0, kContent);
     }},
    {"WithAChunkForNoRun",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       item.dirty[0] = wrong ? 2 + 8 : 2;
       put(log, item);
     }},
    {"OfInodesAndOfAnotherLengthThanACluster",
     [](LogBuilder& log, bool wrong) {
       RawItem item = item_of(log);
       if (wrong) item.format.flags = disk::kBufferInode;
       put(log, item);
     }},
};
INSTANTIATE_TEST_SUITE_P(Each, BufferItemOfALog, testing::ValuesIn(kBufferCases), name_of_case);

// A home whose structure is wrong under a right CRC was written so: no torn write, and not for a few chunks
// to put right, though they could.
TEST(BufferReplay, AWrongHomeUnderARightCrcIsNotPutRight) {
  LogBuilder log;
  LogBuilder::Block right, wrong;
  disk::start_block(right, disk::kMockMagic, log.layout.uuid, log.layout.home(1), 1);
  wrong = right;
  disk::view<disk::MockBlock>(std::span<std::byte>(wrong)).bytes = disk::kMaxMockBytes + 1;
  disk::stamp_block(wrong, kNoLsn);
  log.write_block(log.layout.home(1).bytes(), wrong);
  RawItem item = item_of(log);
  item.dirty[0] = 1;  // its header
  log.start(1)
      .op(0, raw(item).first(sizeof item.format + 4))
      .op(0, std::span<const std::byte>(right).first(disk::kDirtyChunkBytes))
      .commit()
      .write(log.head);
  const auto recovery = recover_only(log);
  ASSERT_FALSE(recovery.has_value());
  EXPECT_EQ(recovery.error().detail, static_cast<std::uint32_t>(disk::Fault::kStructure));
  EXPECT_EQ(log.home(1), wrong);
}

// ---- a block that is made new ----

// Whatever is on the device, whole or torn, of a block that had the place before: the new one has nothing of
// it. Otherwise a crash in the middle of recovery would come to other bytes than one that ran through.
TEST(BufferReplay, ANewBlockHoldsNothingOfWhatWasThere) {
  std::vector<LogBuilder::Block> homes;
  for (const bool torn : {false, true}) {
    LogBuilder log;
    LogBuilder::Block old;
    disk::start_block(old, disk::kMockMagic, log.layout.uuid, log.layout.home(1), 1);
    std::memset(old.data() + 1024, 'o', old.size() - 1024);
    disk::stamp_block(old, kNoLsn);
    if (torn) old[2000] = std::byte{'x'};
    log.write_block(log.layout.home(1).bytes(), old);
    LogBuilder::Block made;
    disk::start_block(made, disk::kMockMagic, log.layout.uuid, log.layout.home(1), 1);
    made[200] = std::byte{'n'};
    RawItem item = item_of(log);
    item.format.flags = disk::kBufferNew;
    item.dirty[0] = 3;  // its header and the chunk behind that
    log.start(1)
        .op(0, raw(item).first(sizeof item.format + 4))
        .op(0, std::span<const std::byte>(made).first(256))
        .commit()
        .write(log.head);
    ASSERT_TRUE(recover_only(log).has_value());
    homes.push_back(log.home(1));
    EXPECT_EQ(homes.back()[200], std::byte{'n'});
    EXPECT_EQ(homes.back()[1500], std::byte{0}) << (torn ? "torn" : "whole");
  }
  EXPECT_EQ(homes[0], homes[1]);
}

}  // namespace
}  // namespace tidewheel
