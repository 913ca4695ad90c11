// Properties of records, verifiers and recovery, which rapidcheck cuts down to what matters; and damage.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/rng.h"
#include "tests/fs/format_rig.h"
#include "tests/fs/recovery_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

// ---- records ----

using Damage = std::vector<std::pair<std::size_t, std::uint8_t>>;

// Bytes from `first` on, below `end`.
rc::Gen<Damage> damage_of(std::size_t first, std::size_t end) {
  return rc::gen::container<Damage>(
      rc::gen::pair(rc::gen::inRange<std::size_t>(first, end), rc::gen::arbitrary<std::uint8_t>()));
}
void apply_damage(const Damage& damage, std::span<std::byte> bytes) {
  for (const auto& [at, byte] : damage) bytes[at] = static_cast<std::byte>(byte);
}

struct Operation {
  std::uint8_t flags = 0;
  std::vector<std::uint8_t> bytes;
};

rc::Gen<std::vector<Operation>> operations() {
  return rc::gen::container<std::vector<Operation>>(rc::gen::build<Operation>(
      rc::gen::set(&Operation::flags,
                   rc::gen::map(rc::gen::inRange(0, 4),
                                [](int bits) { return static_cast<std::uint8_t>(bits << 2); })),
      rc::gen::set(&Operation::bytes)));
}

// A record of these, at a place of a log of this size.
std::vector<std::byte> sealed(const std::vector<Operation>& all, Lsn lsn, std::uint32_t log_sectors) {
  std::vector<std::byte> payload;
  for (const Operation& one : all) {
    disk::LogOp op{};
    op.checkpoint = 7;
    op.bytes = static_cast<std::uint32_t>(one.bytes.size());
    op.flags = one.flags;
    const auto head = std::as_bytes(std::span(&op, 1));
    const auto bytes = std::as_bytes(std::span(one.bytes));
    payload.insert(payload.end(), head.begin(), head.end());
    payload.insert(payload.end(), bytes.begin(), bytes.end());
  }
  const auto payload_bytes = static_cast<std::uint32_t>(payload.size());
  const std::uint32_t sectors = disk::log_record_sectors(payload_bytes);
  std::vector<std::byte> record(std::size_t{sectors} * kLogSectorBytes);
  std::copy(payload.begin(), payload.end(),
            record.begin() + disk::log_header_sectors(sectors) * kLogSectorBytes);
  disk::seal_log_record(record,
                        {.uuid = Uuid::from_random(1, 2),
                         .lsn = lsn,
                         .tail_lsn = lsn,
                         .payload_bytes = payload_bytes,
                         .operation_count = static_cast<std::uint32_t>(all.size())},
                        log_sectors);
  return record;
}

Lsn some_place(std::uint32_t log_sectors) {
  const auto cycle = *rc::gen::inRange<std::uint32_t>(1, Lsn::kLastCycle);
  const auto unit = *rc::gen::inRange<std::uint32_t>(0, log_sectors / LogReader::kUnitSectors);
  return Lsn::make(cycle, unit * LogReader::kUnitSectors);
}

RC_GTEST_PROP(LogRecordProperty, OpensToTheOperationsThatWereSealed, ()) {
  const auto all = *operations();
  constexpr std::uint32_t kSectors = 4096;
  const Lsn lsn = some_place(kSectors);
  std::vector<std::byte> record = sealed(all, lsn, kSectors);
  RC_ASSERT(disk::open_log_record(record, Uuid::from_random(1, 2), lsn.block(), kSectors).good());
  std::vector<LogOperation> found;
  RC_ASSERT(read_operations(record, found));
  RC_ASSERT(found.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    RC_ASSERT(found[i].checkpoint == 7U);
    RC_ASSERT(found[i].flags == all[i].flags);
    const auto bytes = std::as_bytes(std::span(all[i].bytes));
    RC_ASSERT(std::equal(found[i].bytes.begin(), found[i].bytes.end(), bytes.begin(), bytes.end()));
  }
}

RC_GTEST_PROP(LogRecordProperty, IsNoneOnceAnythingOfItIsDamaged, ()) {
  constexpr std::uint32_t kSectors = 4096;
  const Lsn lsn = some_place(kSectors);
  std::vector<std::byte> record = sealed(*operations(), lsn, kSectors);
  const auto at = *rc::gen::inRange<std::size_t>(0, record.size());
  record[at] ^= static_cast<std::byte>(*rc::gen::inRange(1, 256));
  RC_ASSERT(!disk::open_log_record(record, Uuid::from_random(1, 2), lsn.block(), kSectors).good());
}

// A payload of any bytes under a right CRC: either operations that lie inside it, or none.
RC_GTEST_PROP(LogRecordProperty, NoPayloadLeadsOutsideOfIt, ()) {
  constexpr std::uint32_t kSectors = 4096;
  const Lsn lsn = some_place(kSectors);
  std::vector<std::byte> record = sealed(*operations(), lsn, kSectors);
  const std::size_t start = kLogSectorBytes;
  const Damage damage = *damage_of(start, record.size());
  RC_ASSERT(disk::open_log_record(record, Uuid::from_random(1, 2), lsn.block(), kSectors).good());
  apply_damage(damage, record);
  std::vector<LogOperation> found;
  const std::span<const std::byte> payload = disk::payload_of(record);
  static_cast<void>(read_operations(record, found));
  for (const LogOperation& operation : found) {
    RC_ASSERT(operation.bytes.data() >= payload.data());
    RC_ASSERT(operation.bytes.data() + operation.bytes.size() <= payload.data() + payload.size());
  }
}

// ---- verifiers ----

RC_GTEST_PROP(VerifierProperty, FindsAnyDamageThatTheCrcDoesNotCoverUp, ()) {
  const disk::Geometry geometry = disk::small_geometry();
  static const std::vector<disk::SampleBlock> samples = disk::sample_blocks(disk::small_geometry());
  disk::SampleBlock block = samples[*rc::gen::inRange<std::size_t>(0, samples.size())];
  const std::vector<std::byte> good = block.bytes;
  apply_damage(*damage_of(0, good.size()), block.bytes);
  const disk::Verdict verdict =
      disk::verify_read(block.type, block.span(), disk::context_of(block, geometry));
  RC_ASSERT(verdict.good() == (block.bytes == good));
  RC_ASSERT(verdict.good() || verdict.at < block.bytes.size());
}

// With the CRC put right the structure is all that is left to object. Whatever it says, it says within the
// block, and the same twice; and what passes passes for a write too.
RC_GTEST_PROP(VerifierProperty, JudgesAnyContentUnderARightCrc, ()) {
  const disk::Geometry geometry = disk::small_geometry();
  static const std::vector<disk::SampleBlock> samples = disk::sample_blocks(disk::small_geometry());
  disk::SampleBlock block = samples[*rc::gen::inRange<std::size_t>(0, samples.size())];
  apply_damage(*damage_of(0, block.bytes.size()), block.bytes);
  if (block.type == disk::BlockType::kInodeCluster) {
    for (std::size_t at = 0; at < block.bytes.size(); at += disk::kInodeBytes) {
      disk::stamp_inode(disk::view<disk::DiskInode>(block.span(), at), disk::kSampleLsn);
    }
  } else {
    disk::stamp_block(block.span(), disk::kSampleLsn);
  }
  const disk::VerifyContext context = disk::context_of(block, geometry);
  const std::vector<std::byte> before = block.bytes;
  const disk::Verdict verdict = disk::verify_read(block.type, block.span(), context);
  RC_ASSERT(block.bytes == before);
  RC_ASSERT(verdict.good() || verdict.at < block.bytes.size());
  RC_ASSERT(disk::verify_read(block.type, block.span(), context).fault == verdict.fault);
}

// ---- recovery ----

struct LoggedChange {
  std::uint32_t object = 0;
  std::uint32_t kind = 0;  // an object; chunks; an intent; a record of its own that is cut off
  std::uint32_t letters = 0;
  bool at_home = false;
};

rc::Gen<std::vector<LoggedChange>> changes() {
  return rc::gen::resize(30, rc::gen::container<std::vector<LoggedChange>>(rc::gen::build<LoggedChange>(
                                 rc::gen::set(&LoggedChange::object, rc::gen::inRange(0U, 12U)),
                                 rc::gen::set(&LoggedChange::kind, rc::gen::inRange(0U, 8U)),
                                 rc::gen::set(&LoggedChange::letters, rc::gen::inRange(1U, 1U << 16)),
                                 rc::gen::set(&LoggedChange::at_home))));
}

void build(LogBuilder& log, const std::vector<LoggedChange>& all) {
  const Lsn tail = log.head;
  std::uint64_t version = 0;
  for (const LoggedChange& one : all) {
    ++version;
    if (one.kind == 7) {  // chunks beside an object's
      std::string letters;
      for (std::uint32_t chunk = 0; chunk < 16; ++chunk) {
        letters += chunk > 3 && (one.letters >> chunk & 1) != 0 ? static_cast<char>('a' + chunk) : '.';
      }
      if (letters.find_first_not_of('.') == std::string::npos) letters.back() = 'z';
      log.start(1).chunks(one.object, letters).commit();
    } else if (one.kind == 6) {
      log.start(1).intent(1000 + version, (one.object + 1) % 12, version).commit();
    } else {
      log.start(1).object(one.object, version).commit();
    }
    const Lsn lsn = log.write(tail);
    if (one.at_home && one.kind < 6) log.put_home(one.object, version, lsn);
  }
}

struct Recovered {
  bool recovered = false;
  std::vector<std::byte> image;
};

// Without objects' own content to check: chunks may lie over it.
Recovered recover_from(LogBuilder& log) {
  MemoryBudget budget(16 << 20, 0);
  BufferCache cache(budget, {.expected_buffers = 64});
  Recovered recovered;
  {
    BufferTarget target(cache, *log.device, log.layout.geometry());
    LogReader reader(*log.device, log.layout.log());
    recovered.recovered = recover(reader, *log.device, cache, target, mock_replay_table()).has_value();
  }
  recovered.image = log.image();
  return recovered;
}

RC_GTEST_PROP(RecoveryProperty, ComesToTheSameBytesHoweverOftenItIsBegun, ()) {
  LogBuilder log;
  build(log, *changes());
  const std::vector<std::byte> crashed = log.image();
  const Recovered once = recover_from(log);
  RC_ASSERT(once.recovered);
  // From the same image: the same.
  if (!log.device->write(0, crashed)) std::abort();
  RC_ASSERT(recover_from(log).image == once.image);
  // Again: nothing.
  RC_ASSERT(recover_from(log).image == once.image);
  // All homes written, and the log as it was: the crash came before the commit point.
  const std::size_t log_at = log.layout.log().offset_bytes;
  std::vector<std::byte> halfway = once.image;
  std::copy(crashed.begin() + static_cast<std::ptrdiff_t>(log_at), crashed.end(),
            halfway.begin() + static_cast<std::ptrdiff_t>(log_at));
  if (!log.device->write(0, halfway)) std::abort();
  RC_ASSERT(recover_from(log).image == once.image);
  // Some of them, by block.
  const auto mask = *rc::gen::arbitrary<std::uint16_t>();
  std::vector<std::byte> some = crashed;
  for (std::size_t block = 1; block <= log.layout.objects; ++block) {
    if ((mask >> block & 1) == 0) continue;
    std::copy_n(once.image.begin() + static_cast<std::ptrdiff_t>(block * kFsBlockBytes), kFsBlockBytes,
                some.begin() + static_cast<std::ptrdiff_t>(block * kFsBlockBytes));
  }
  if (!log.device->write(0, some)) std::abort();
  RC_ASSERT(recover_from(log).image == once.image);
}

// ---- damage ----

// Anything, anywhere: one clear error, or a recovered image; within a bounded number of requests and bytes;
// and what was recovered is recovered.
TEST(RecoveryFuzz, EndsInOneErrorWhateverIsDamaged) {
  LogBuilder log;
  const Lsn tail = log.head;
  for (std::uint64_t version = 1; version < 60; ++version) {
    log.start(2).object(version % 12, version);
    if (version % 9 == 0) {
      log.intent(version, (version + 5) % 12, 1000 + version);
    } else {
      log.object((version + 3) % 12, version);
    }
    log.commit();
    log.write(tail);
    if (log.head.block() + 64 > log.layout.log().sectors) break;
  }
  const std::vector<std::byte> good = log.image();
  std::uint32_t refused = 0, recovered = 0;
  std::uint64_t most_reads = 0;
  const std::uint64_t turns = loop_length(2'000);
  for (std::uint64_t seed = 1; seed <= turns; ++seed) {
    Rng rng(seed);
    std::vector<std::byte> image = good;
    for (std::uint64_t left = 1 + rng.below(3); left != 0; --left) {
      // A third in record headers, where lengths and places are.
      const std::uint64_t unit = rng.below(image.size() / kFsBlockBytes) * kFsBlockBytes;
      const std::uint64_t at = rng.chance(3) ? unit + rng.below(64) : rng.below(image.size());
      const std::uint64_t bytes = std::min<std::uint64_t>(1 + rng.below(rng.chance(2) ? 4 : 3000),
                                                          image.size() - at);
      for (std::uint64_t i = 0; i < bytes; ++i) image[at + i] = static_cast<std::byte>(rng.next());
    }
    ASSERT_TRUE(log.device->write(0, image));
    const DeviceStats before = log.device->stats();
    const auto machine = log.mount();
    const DeviceStats after = log.device->stats();
    most_reads = std::max(most_reads, after.reads - before.reads);
    EXPECT_LE(after.read_bytes - before.read_bytes, 16 * good.size()) << seed;
    EXPECT_LE(after.writes - before.writes, 300U) << seed;
    if (!machine) {
      ++refused;
      EXPECT_TRUE(machine.error().code == Reason::kCorrupt || machine.error().code == Reason::kUnsupported)
          << seed << ": " << machine.error().sentence();
      continue;
    }
    ++recovered;
    ASSERT_TRUE((*machine)->unmount()) << seed;
    const auto again = log.mount();
    ASSERT_TRUE(again) << seed;
    EXPECT_TRUE((*again)->recovery().was_clean) << seed;
  }
  EXPECT_GT(refused, turns / 50);
  EXPECT_GT(recovered, turns / 50);
  EXPECT_LE(most_reads, 400U);
}

}  // namespace
}  // namespace tidewheel
