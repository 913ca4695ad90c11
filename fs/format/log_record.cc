#include "fs/format/log_record.h"

#include <algorithm>
#include <cstddef>

#include "base/assert.h"

namespace tidewheel::disk {

namespace {

constexpr std::uint32_t kUnitSectors = kLogWriteUnitBytes / kLogSectorBytes;

// Where the first word of payload sector i is kept.
Le32& word_at(std::span<std::byte> record, std::uint32_t i) {
  if (i < kWordsInHeader) return view<LogRecordHeader>(record).words[i];
  i -= kWordsInHeader;
  return view<LogMoreHeader>(record, (1 + i / kWordsInMore) * kLogSectorBytes).words[i % kWordsInMore];
}

// Of the record's n-th sector.
std::uint32_t cycle_at(Lsn lsn, std::uint32_t n, std::uint32_t log_sectors) {
  return lsn.block() + n < log_sectors ? lsn.cycle() : lsn.cycle() + 1;
}

bool possible_length(std::uint32_t sectors, std::uint32_t payload_bytes) {
  if (sectors == 0 || sectors % kUnitSectors != 0 || sectors > kMaxLogBufferBytes / kLogSectorBytes)
    return false;
  return payload_bytes <= (sectors - log_header_sectors(sectors)) * kLogSectorBytes;
}

}  // namespace

std::uint32_t log_record_sectors(std::uint32_t payload_bytes) {
  const std::uint32_t payload = (payload_bytes + kLogSectorBytes - 1) / kLogSectorBytes;
  std::uint32_t sectors = kUnitSectors;
  while (log_header_sectors(sectors) + payload > sectors) sectors += kUnitSectors;
  return sectors;
}

void seal_log_record(std::span<std::byte> record, const LogRecordFields& fields, std::uint32_t log_sectors) {
  const auto sectors = static_cast<std::uint32_t>(record.size() / kLogSectorBytes);
  TW_ASSERT(possible_length(sectors, fields.payload_bytes), "a record fits its payload");
  TW_ASSERT(fields.lsn.block() < log_sectors, "a record begins inside the log");
  TW_ASSERT(sectors <= log_sectors, "a record is no longer than the log");
  const std::uint32_t headers = log_header_sectors(sectors);
  std::memset(record.data(), 0, std::size_t{headers} * kLogSectorBytes);
  const std::size_t end = std::size_t{headers} * kLogSectorBytes + fields.payload_bytes;
  std::memset(record.data() + end, 0, record.size() - end);

  auto& header = view<LogRecordHeader>(record);
  header.cycle = fields.lsn.cycle();
  header.magic = kLogRecordMagic;
  header.version = kLogVersion;
  header.payload_bytes = fields.payload_bytes;
  header.lsn = fields.lsn.value;
  header.tail_lsn = fields.tail_lsn.value;
  header.operation_count = fields.operation_count;
  header.previous_sector = fields.previous_sector;
  header.record_sectors = sectors;
  header.uuid = to_disk(fields.uuid);
  header.buffer_bytes = fields.buffer_bytes;
  for (std::uint32_t n = 1; n < headers; ++n) {
    auto& more = view<LogMoreHeader>(record, n * kLogSectorBytes);
    more.cycle = cycle_at(fields.lsn, n, log_sectors);
    more.magic = kLogMoreMagic;
  }
  for (std::uint32_t n = headers; n < sectors; ++n) {
    auto& first = view<Le32>(record, n * kLogSectorBytes);
    word_at(record, n - headers) = first.get();
    first = cycle_at(fields.lsn, n, log_sectors);
  }
  header.crc = crc_without(record, offsetof(LogRecordHeader, crc));
}

std::uint32_t claimed_record_sectors(std::span<const std::byte> first_sector, const Uuid& uuid) {
  if (first_sector.size() < sizeof(LogRecordHeader)) return 0;
  const auto& header = view<LogRecordHeader>(first_sector);
  if (header.magic != kLogRecordMagic || header.version != kLogVersion) return 0;
  if (from_disk(header.uuid) != uuid) return 0;
  return possible_length(header.record_sectors, header.payload_bytes) ? header.record_sectors.get() : 0;
}

Verdict open_log_record(std::span<std::byte> record, const Uuid& uuid, std::uint32_t at_sector,
                        std::uint32_t log_sectors) {
  if (record.size() < kLogSectorBytes) return {Fault::kLength, 0, "less than a sector"};
  const auto& header = view<LogRecordHeader>(record);
  if (header.magic != kLogRecordMagic) {
    return {Fault::kMagic, offsetof(LogRecordHeader, magic), "the magic number is another one"};
  }
  if (from_disk(header.uuid) != uuid) {
    return {Fault::kUuid, offsetof(LogRecordHeader, uuid), "it belongs to another file system"};
  }
  const std::uint32_t sectors = claimed_record_sectors(record, uuid);
  if (sectors == 0 || sectors > log_sectors || record.size() != std::size_t{sectors} * kLogSectorBytes) {
    return {Fault::kLength, offsetof(LogRecordHeader, record_sectors), "an impossible length"};
  }
  if (header.crc != crc_without(record, offsetof(LogRecordHeader, crc))) {
    return {Fault::kCrc, offsetof(LogRecordHeader, crc), "the CRC is not that of the record"};
  }
  const Lsn lsn{header.lsn};
  if (lsn.block() != at_sector || at_sector >= log_sectors) {
    return {Fault::kBlock, offsetof(LogRecordHeader, lsn), "it was written elsewhere"};
  }
  if (lsn.cycle() == 0 || lsn.cycle() >= Lsn::kLastCycle || header.cycle != lsn.cycle()) {
    return {Fault::kLsn, offsetof(LogRecordHeader, cycle), "an impossible cycle"};
  }
  if (Lsn{header.tail_lsn} > lsn) {
    return {Fault::kLsn, offsetof(LogRecordHeader, tail_lsn), "the tail is ahead of the head"};
  }
  const std::uint32_t headers = log_header_sectors(sectors);
  for (std::uint32_t n = 1; n < sectors; ++n) {
    const std::size_t at = std::size_t{n} * kLogSectorBytes;
    if (view<Le32>(record, at) != cycle_at(lsn, n, log_sectors)) {
      return {Fault::kLsn, static_cast<std::uint32_t>(at), "a sector of another cycle"};
    }
    if (n < headers && view<LogMoreHeader>(record, at).magic != kLogMoreMagic) {
      return {Fault::kMagic, static_cast<std::uint32_t>(at), "no further header"};
    }
  }
  for (std::uint32_t n = headers; n < sectors; ++n) {
    view<Le32>(record, n * kLogSectorBytes) = word_at(record, n - headers).get();
  }
  return {};
}

void seal_unmount_record(std::span<std::byte> record, const Uuid& uuid, Lsn lsn,
                         std::uint32_t previous_sector, std::uint64_t next_sequence,
                         std::uint32_t log_sectors) {
  const std::span<std::byte> payload = record.subspan(kLogSectorBytes);
  auto& operation = view<LogOp>(payload);
  operation = {};
  operation.checkpoint = static_cast<std::uint32_t>(next_sequence);
  operation.bytes = sizeof(LogUnmount);
  operation.flags = kOpUnmount;
  auto& unmount = view<LogUnmount>(payload, sizeof(LogOp));
  unmount.magic = kLogUnmountMagic;
  unmount.reserved = 0;
  unmount.next_sequence = next_sequence;
  seal_log_record(record,
                  {.uuid = uuid,
                   .lsn = lsn,
                   .tail_lsn = lsn,
                   .payload_bytes = sizeof(LogOp) + sizeof(LogUnmount),
                   .operation_count = 1,
                   .previous_sector = previous_sector},
                  log_sectors);
}

}  // namespace tidewheel::disk
