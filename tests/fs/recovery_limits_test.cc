// Head and tail at the limits: a large log by counted reads, a head torn at each of its sectors, the last
// cycles, logs of odd sizes.
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "base/rng.h"
#include "fs/block/io_counts.h"
#include "fs/crash/explorer.h"
#include "fs/mock/trans_workload.h"
#include "tests/fs/recovery_rig.h"

namespace tidewheel {
namespace {

constexpr std::uint32_t kUnit = LogReader::kUnitSectors;

// A log that was gone round, without the memory for it: every unit begins with the cycle that it was written
// in, and only what was put there holds records.
class RoundLog final : public BlockDevice {
 public:
  RoundLog(std::uint32_t sectors, Lsn head) : sectors_(sectors), head_(head) {}

  std::string_view name() const override { return "round"; }
  std::uint64_t size_bytes() const override { return std::uint64_t{sectors_} * kLogSectorBytes; }
  std::uint32_t block_bytes() const override { return kFsBlockBytes; }
  std::uint32_t memory_alignment() const override { return 1; }
  DeviceStats stats() const override { return counts_.stats(); }
  void submit(IoRequest& request) override {
    for (const IoSegment& segment : request.segments) {
      auto* const memory = static_cast<std::byte*>(segment.data);
      for (std::uint64_t at = 0; at < segment.len_bytes; at += kFsBlockBytes) {
        const std::uint64_t unit = (request.offset_bytes + at) / kFsBlockBytes;
        if (const auto found = units_.find(unit); found != units_.end()) {
          std::memcpy(memory + at, found->second.data(), kFsBlockBytes);
          continue;
        }
        std::memset(memory + at, 0, kFsBlockBytes);
        const disk::Le32 cycle(unit * kUnit < head_.block() ? head_.cycle() : head_.cycle() - 1);
        std::memcpy(memory + at, &cycle, sizeof cycle);
      }
    }
    counts_.count(request, {});
    request.done(request, {});
  }
  void put(std::uint64_t unit, std::span<const std::byte> bytes) {
    std::memcpy(units_[unit].data(), bytes.data(), kFsBlockBytes);
  }
  // Of something in flight, of which only this has arrived.
  void put_cycle(std::uint64_t unit, std::uint32_t cycle) {
    std::array<std::byte, kFsBlockBytes> bytes{};
    const disk::Le32 word(cycle);
    std::memcpy(bytes.data(), &word, sizeof word);
    put(unit, bytes);
  }

 private:
  const std::uint32_t sectors_;
  const Lsn head_;
  std::map<std::uint64_t, std::array<std::byte, kFsBlockBytes>> units_;
  IoCounts counts_;
};

struct Scanned {
  Result<LogScan> scan;
  DeviceStats stats;
};

// Twelve records before `head`, the first of which is the tail, and what was in flight behind it.
Scanned scan_round_log(std::uint32_t sectors, Lsn head, std::uint64_t seed) {
  constexpr std::uint32_t kRecords = 12;
  RoundLog device(sectors, head);
  const LogPlace place{.offset_bytes = 0, .sectors = sectors, .uuid = Uuid::from_random(3, 4)};
  const std::uint32_t back = kRecords * kUnit;
  const Lsn tail = head.block() >= back ? Lsn::make(head.cycle(), head.block() - back)
                                        : Lsn::make(head.cycle() - 1, head.block() + sectors - back);
  std::uint32_t previous = UINT32_MAX;
  for (Lsn at = tail; at < head; at = log_advance(at, kUnit, sectors)) {
    std::array<std::byte, kFsBlockBytes> record{};
    disk::seal_log_record(
        record, {.uuid = place.uuid, .lsn = at, .tail_lsn = tail, .previous_sector = previous}, sectors);
    device.put(at.block() / kUnit, record);
    previous = at.block();
  }
  Rng rng(seed);
  for (std::uint32_t i = 0; i < 20; ++i) {
    const Lsn at = log_advance(head, (1 + rng.below((2U << 20) / kFsBlockBytes)) * kUnit, sectors);
    device.put_cycle(at.block() / kUnit, at.cycle());
  }
  LogReader reader(device, place);
  Scanned scanned{scan_log(reader), device.stats()};
  if (scanned.scan) {
    EXPECT_EQ(scanned.scan->tail, tail) << head.block();
    EXPECT_EQ(scanned.scan->head, head) << head.block();
    EXPECT_EQ(scanned.scan->records, kRecords);
  }
  return scanned;
}

TEST(LargeLog, IsScannedByAFewReadsWhereverItsHeadIs) {
  constexpr std::uint32_t kSectors = (512U << 20) / kLogSectorBytes;
  std::vector<std::uint32_t> heads{0, kUnit, 11 * kUnit, 12 * kUnit, kSectors / 2, kSectors - kUnit};
  Rng rng(1);
  for (std::uint32_t i = 0; i < 60; ++i) {
    heads.push_back(static_cast<std::uint32_t>(rng.below(kSectors / kUnit)) * kUnit);
  }
  std::uint64_t most_reads = 0;
  std::uint64_t most_bytes = 0;
  for (const std::uint32_t head : heads) {
    const Scanned scanned = scan_round_log(kSectors, Lsn::make(9, head), head + 1);
    ASSERT_TRUE(scanned.scan) << head;
    EXPECT_FALSE(scanned.scan->looked_through) << head;
    most_reads = std::max(most_reads, scanned.stats.reads);
    most_bytes = std::max(most_bytes, scanned.stats.read_bytes);
  }
  // 18 of bisection, two windows of 2.25 MiB in pieces of 256 KiB, and the chain.
  EXPECT_LE(most_reads, 18U + 2 * 10 + 8);
  EXPECT_LE(most_bytes, 2U * (2304U << 10) + (3U << 20));
  std::printf("at most %llu reads of %llu KiB\n", (unsigned long long)most_reads,
              (unsigned long long)(most_bytes >> 10));
}

TEST(LargeLog, IsScannedInItsFirstRoundToo) {
  constexpr std::uint32_t kSectors = (512U << 20) / kLogSectorBytes;
  for (const std::uint32_t head : {12 * kUnit, 1000 * kUnit, kSectors - kUnit}) {
    const Scanned scanned = scan_round_log(kSectors, Lsn::make(1, head), head);
    ASSERT_TRUE(scanned.scan) << head;
    EXPECT_FALSE(scanned.scan->looked_through) << head;
  }
}

// Chain, pass 1 and pass 2 read what lies between tail and head once each, and no more.
TEST(LargeLog, ThatIsFullIsReadThreeTimes) {
  LogBuilder log(MockLayout{.log_blocks = 4096});  // 16 MiB
  const Lsn tail = log.head;
  for (std::uint64_t version = 1; log.head < Lsn::make(1, 15U << 11); ++version) {
    log.start(6);
    for (std::uint64_t object = 0; object < 6; ++object) log.object((version + object) % 12, version);
    log.commit();
    log.write(tail);
  }
  const DeviceStats before = log.device->stats();
  const auto machine = log.mount();
  ASSERT_TRUE(machine);
  EXPECT_GT((*machine)->recovery().records, 900U);
  const std::uint64_t log_bytes = log.layout.log_blocks * std::uint64_t{kFsBlockBytes};
  const DeviceStats after = log.device->stats();
  EXPECT_LE(after.read_bytes - before.read_bytes, 3 * log_bytes + 3 * kLogWindowBytes);
  EXPECT_LE(after.reads - before.reads, 3 * 64U + 3 * 10 + 60);
}

// ---- torn heads ----

class TornHead : public testing::TestWithParam<std::uint32_t> {};

// The newest record with sectors that have not arrived: the log ends before it, whichever they are.
TEST_P(TornHead, EndsTheLogBeforeItWhicheverSectorsAreMissing) {
  LogBuilder log;
  std::uint64_t version = 1;
  Lsn tail;
  for (; log.head < Lsn::make(2, GetParam()); ++version) tail = log.change(version % 12, version);
  const LogPlace place = log.layout.log();
  const std::vector<std::byte> older = log.image();
  const Lsn torn = log.head;
  const std::uint32_t records = log.scan()->records;
  log.start(8);
  for (std::uint64_t object = 0; object < 8; ++object) log.object(object, 1000 + object);
  log.commit();
  log.write(tail);
  const std::uint32_t sectors = static_cast<std::uint32_t>(
      log_distance_bytes(torn, log.head, place.sectors) / kLogSectorBytes);
  ASSERT_GE(sectors, 24U);
  ASSERT_EQ(log.scan()->head, log.head);
  const std::vector<std::byte> newer = log.image();
  const auto sector_at = [&](std::uint32_t n) {
    return place.offset_bytes + std::uint64_t{log_advance(torn, n, place.sectors).block()} * kLogSectorBytes;
  };
  enum class Missing { kOne, kFromThereOn, kBefore };
  for (const Missing missing : {Missing::kOne, Missing::kFromThereOn, Missing::kBefore}) {
    for (std::uint32_t sector = 0; sector < sectors; ++sector) {
      std::vector<std::byte> image = newer;
      for (std::uint32_t n = 0; n < sectors; ++n) {
        const bool gone = missing == Missing::kOne           ? n == sector
                          : missing == Missing::kFromThereOn ? n >= sector
                                                             : n <= sector;
        if (!gone) continue;
        std::memcpy(image.data() + sector_at(n), older.data() + sector_at(n), kLogSectorBytes);
      }
      ASSERT_TRUE(log.device->write(0, image));
      const auto scan = log.scan(64 << 10);
      ASSERT_TRUE(scan) << sector;
      EXPECT_EQ(scan->head, torn) << sector;
      EXPECT_EQ(scan->tail, tail) << sector;
      EXPECT_EQ(scan->records, records) << sector;
    }
  }
}

// In the middle of a log of 512 sectors, and over its end.
INSTANTIATE_TEST_SUITE_P(At, TornHead, testing::Values(200U, 496U));

// ---- cycles ----

// Two records before the end of the log, in this cycle, and as many as lead into the next one.
LogBuilder builder_at(std::uint32_t cycle) {
  LogBuilder log;
  log.write_block(log.layout.log().offset_bytes, {});
  log.head = Lsn::make(cycle, log.layout.log().sectors - 16);
  log.previous = UINT32_MAX;
  return log;
}

TEST(LogCycles, GoOnIntoTheNextWhateverTheNumber) {
  for (const std::uint32_t cycle : {1U, 2U, 0x7FFFU, 0xFFFFU, 0x10000U, 0x00FFFFFFU, Lsn::kLastCycle - 2}) {
    LogBuilder log = builder_at(cycle);
    const Lsn tail = log.change(0, 1);
    for (std::uint64_t version = 2; version < 6; ++version) log.change(version, version, tail);
    EXPECT_EQ(log.head.cycle(), cycle + 1);
    for (const std::uint64_t window : {std::uint64_t{16} << 10, kLogWindowBytes}) {
      const auto scan = log.scan(window);
      ASSERT_TRUE(scan) << cycle;
      EXPECT_EQ(scan->tail, tail) << cycle;
      EXPECT_EQ(scan->head, log.head) << cycle;
    }
    const auto machine = log.mount();
    ASSERT_TRUE(machine) << cycle;
    EXPECT_EQ((*machine)->state(5).version, 5U) << cycle;
  }
}

TEST(LogCycles, EndWithAnErrorThatSaysSo) {
  LogBuilder log = builder_at(Lsn::kLastCycle - 1);
  const Lsn tail = log.change(0, 1);
  ASSERT_TRUE(log.scan());
  log.change(1, 2, tail);  // up to the end of the log: the head is in the cycle that is none
  const auto before = log.image();
  const auto machine = log.mount();
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, Reason::kUnsupported);
  EXPECT_EQ(log.image(), before);
}

// ---- sizes ----

TEST(LogSizes, OfWholeUnitsAreAllScanned) {
  for (const std::uint32_t blocks : {9U, 10U, 11U, 13U, 17U, 31U, 33U, 47U, 63U, 65U, 127U}) {
    LogBuilder log(MockLayout{.log_blocks = blocks});
    Rng rng(blocks);
    for (std::uint64_t version = 1; log.head.cycle() < 5; ++version) {
      const std::uint64_t objects = 1 + rng.below(3);
      const Lsn tail = log.head;
      log.start(static_cast<std::uint32_t>(objects));
      for (std::uint64_t object = 0; object < objects; ++object) log.object(object, version);
      log.commit();
      log.write(tail);
      for (const std::uint64_t window : {std::uint64_t{16} << 10, kLogWindowBytes}) {
        const auto scan = log.scan(window);
        ASSERT_TRUE(scan) << blocks << " blocks, version " << version;
        EXPECT_EQ(scan->tail, tail) << blocks;
        EXPECT_EQ(scan->head, log.head) << blocks;
      }
    }
  }
}

// The whole machine, in logs that are no power of two and no multiple of a record.
TEST(LogSizes, OfAnyNumberOfUnitsSurviveCrashes) {
  for (const std::uint32_t blocks : {33U, 35U, 37U, 41U, 59U}) {
    ExploreOptions options;
    options.workload = "trans";
    options.make = [blocks](std::uint64_t seed) {
      return std::make_unique<TransWorkload>(seed, 200, MockLayout{.objects = 16, .log_blocks = blocks});
    };
    options.seed = blocks;
    options.runs = 2;
    options.states = 1'000;
    const Exploration found = explore(options);
    EXPECT_EQ(found.broken, "") << blocks;
    for (const CrashFailure& failure : found.failures) {
      ADD_FAILURE() << blocks << " blocks: " << failure.oracle << ": " << failure.detail << "\n"
                    << failure.replay;
    }
  }
}

// Records are as long as the buffers they were written from; recovery asks the record, not its own options.
TEST(LogSizes, OfBuffersNeedNotBeThoseOfTheNextMount) {
  const MockLayout layout{.objects = 16, .log_blocks = 256};
  for (const std::uint32_t buffer_bytes : {16U << 10, 32U << 10, 64U << 10, 256U << 10}) {
    auto device = RamDevice::make(layout.bytes()).value();
    ASSERT_TRUE(format_blocks(*device, layout, 16));
    {
      TransMachine::Options options{.layout = layout};
      options.log.buffer_bytes = buffer_bytes;
      const auto machine = TransMachine::mount(*device, options);
      ASSERT_TRUE(machine);
      for (std::uint32_t value = 1; value <= 16; ++value) {
        auto transaction = (*machine)->begin();
        ASSERT_TRUE(transaction);
        ASSERT_TRUE((*machine)->make(*transaction, value - 1, BlockState{.version = value}));
        ASSERT_TRUE(transaction->commit());
      }
      ASSERT_TRUE((*machine)->journal().log().force_all());
    }
    const auto machine = TransMachine::mount(*device, {.layout = layout});
    ASSERT_TRUE(machine) << buffer_bytes;
    EXPECT_GT((*machine)->recovery().items.replayed + (*machine)->recovery().items.newer_at_home, 0U);
    for (std::uint64_t number = 0; number < 16; ++number) {
      alignas(4096) std::array<std::byte, kFsBlockBytes> block;
      ASSERT_TRUE(device->read(layout.home(number).bytes(), block));
      EXPECT_EQ(disk::view<disk::MockBlock>(std::span<const std::byte>(block)).version, number + 1);
    }
    ASSERT_TRUE((*machine)->unmount());
  }
}

}  // namespace
}  // namespace tidewheel
