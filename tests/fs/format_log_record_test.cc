// Log records: sealed, damaged, opened.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "fs/format/log_record.h"
#include "tests/fs/format_rig.h"

namespace tidewheel::disk {
namespace {

constexpr std::uint32_t kLogSectors = 4096;

struct Sealed {
  std::vector<std::byte> record;
  std::vector<std::byte> payload;
};

Sealed seal(Rng& rng, std::uint32_t payload_bytes, Lsn lsn, const Uuid& uuid) {
  Sealed sealed;
  sealed.payload.resize(payload_bytes);
  // Words that look like cycles, so that a saved word put back in the wrong place would show.
  for (std::byte& b : sealed.payload) b = static_cast<std::byte>(rng.next());
  const std::uint32_t sectors = log_record_sectors(payload_bytes);
  sealed.record.assign(std::size_t{sectors} * kLogSectorBytes, std::byte{0xAA});
  std::copy(sealed.payload.begin(), sealed.payload.end(),
            sealed.record.begin() + log_header_sectors(sectors) * kLogSectorBytes);
  seal_log_record(
      sealed.record,
      {.uuid = uuid, .lsn = lsn, .tail_lsn = lsn, .payload_bytes = payload_bytes, .operation_count = 3},
      kLogSectors);
  return sealed;
}

TEST(FormatLogRecord, OpensToWhatWasSealedWhateverTheLength) {
  const Uuid uuid = Uuid::from_random(1, 2);
  Rng rng(5);
  for (std::uint32_t bytes = 0; bytes <= kMaxLogBufferBytes - kMaxLogHeaderSectors * kLogSectorBytes;
       bytes += static_cast<std::uint32_t>(1 + rng.below(3000))) {
    // Also round the end of the log.
    const Lsn lsn = Lsn::make(7, static_cast<std::uint32_t>(kLogSectors - 8 * (1 + rng.below(70))));
    Sealed sealed = seal(rng, bytes, lsn, uuid);
    EXPECT_EQ(claimed_record_sectors(sealed.record, uuid) * kLogSectorBytes, sealed.record.size());
    for (std::size_t at = 0; at < sealed.record.size(); at += kLogSectorBytes) {
      const std::uint32_t sector = lsn.block() + static_cast<std::uint32_t>(at / kLogSectorBytes);
      ASSERT_EQ(view<Le32>(std::span<const std::byte>(sealed.record), at), sector < kLogSectors ? 7U : 8U)
          << "every sector begins with its cycle";
    }
    const Verdict verdict = open_log_record(sealed.record, uuid, lsn.block(), kLogSectors);
    ASSERT_TRUE(verdict.good()) << bytes << ": " << verdict.what;
    const auto payload = payload_of(sealed.record);
    ASSERT_TRUE(std::equal(payload.begin(), payload.end(), sealed.payload.begin(), sealed.payload.end()));
  }
}

TEST(FormatLogRecord, FindsABitFlippedInEveryByte) {
  const Uuid uuid = Uuid::from_random(1, 2);
  Rng rng(6);
  const Lsn lsn = Lsn::make(3, 80);
  const Sealed sealed = seal(rng, 60'000, lsn, uuid);  // more than one header
  ASSERT_GT(log_header_sectors(static_cast<std::uint32_t>(sealed.record.size() / kLogSectorBytes)), 1U);
  for (std::size_t at = 0; at < sealed.record.size(); at += 1 + rng.below(16)) {
    std::vector<std::byte> damaged = sealed.record;
    damaged[at] ^= std::byte{static_cast<std::uint8_t>(1U << rng.below(8))};
    EXPECT_FALSE(open_log_record(damaged, uuid, lsn.block(), kLogSectors).good()) << at;
  }
}

TEST(FormatLogRecord, FindsASectorOfAnEarlierRound) {
  const Uuid uuid = Uuid::from_random(1, 2);
  Rng rng(7);
  Sealed newer = seal(rng, 20'000, Lsn::make(9, 80), uuid);
  const Sealed older = seal(rng, 20'000, Lsn::make(8, 80), uuid);
  for (std::size_t sector = 1; sector < newer.record.size() / kLogSectorBytes; ++sector) {
    std::vector<std::byte> torn = newer.record;
    std::copy_n(older.record.begin() + static_cast<std::ptrdiff_t>(sector * kLogSectorBytes), kLogSectorBytes,
                torn.begin() + static_cast<std::ptrdiff_t>(sector * kLogSectorBytes));
    EXPECT_FALSE(open_log_record(torn, uuid, 80, kLogSectors).good());
  }
}

TEST(FormatLogRecord, BelongsToOnePlaceAndOneFileSystem) {
  const Uuid uuid = Uuid::from_random(1, 2);
  Rng rng(8);
  Sealed sealed = seal(rng, 5'000, Lsn::make(9, 80), uuid);
  const auto fault = [&](const Uuid& who, std::uint32_t where, std::uint32_t sectors = kLogSectors) {
    std::vector<std::byte> copy = sealed.record;
    return open_log_record(copy, who, where, sectors).fault;
  };
  EXPECT_EQ(fault(uuid, 80), Fault::kNone);
  EXPECT_EQ(fault(uuid, 88), Fault::kBlock);
  EXPECT_EQ(fault(Uuid::from_random(1, 3), 80), Fault::kUuid);
  EXPECT_EQ(claimed_record_sectors(sealed.record, Uuid::from_random(1, 3)), 0U);
  EXPECT_EQ(fault(uuid, 80, 8), Fault::kLength) << "longer than the log";
}

TEST(FormatLogRecord, SurvivesAnyBytes) {
  const Uuid uuid = Uuid::from_random(1, 2);
  Rng rng(9);
  for (int round = 0; round < 2'000; ++round) {
    Sealed sealed = seal(rng, static_cast<std::uint32_t>(rng.below(9'000)), Lsn::make(9, 80), uuid);
    auto& header = view<LogRecordHeader>(std::span<std::byte>(sealed.record));
    switch (rng.below(5)) {
      case 0: header.record_sectors = static_cast<std::uint32_t>(rng.next()); break;
      case 1: header.payload_bytes = static_cast<std::uint32_t>(rng.next()); break;
      case 2: header.lsn = rng.next(); break;
      case 3: sealed.record.resize(rng.below(sealed.record.size())); break;
      case 4:
        for (std::byte& b : sealed.record) b = static_cast<std::byte>(rng.next());
        break;
    }
    if (sealed.record.size() >= kLogSectorBytes && rng.chance(2)) {
      auto& again = view<LogRecordHeader>(std::span<std::byte>(sealed.record));
      again.crc = crc_without(sealed.record, 32);
    }
    EXPECT_FALSE(open_log_record(sealed.record, uuid, 80, kLogSectors).good());
  }
}

}  // namespace
}  // namespace tidewheel::disk
