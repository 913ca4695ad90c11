// fs/format/log_record.h: sealing a record before it is written, and opening one that was read: cycles, saved
// words and CRC. The log and mkfs seal; recovery and dump open.
// Owns:      nothing. Pure functions over the record's own sectors, also where they go round the log's end.
// Units:     sectors of 512 bytes.
// Errors:    open_log_record(): a Verdict. No length is believed before the CRC over it was right, and none
//            leads outside the bytes that were given.
// Invariant: open(seal(record)) gives the same bytes, whatever the payload is.
#pragma once
#include <span>

#include "fs/format/log_format.h"
#include "fs/format/verify.h"

namespace tidewheel::disk {

// Size of a record with so much payload: headers, payload, filling to the write unit.
std::uint32_t log_record_sectors(std::uint32_t payload_bytes);

struct LogRecordFields {
  Uuid uuid;
  Lsn lsn;
  Lsn tail_lsn;
  std::uint32_t payload_bytes = 0;
  std::uint32_t operation_count = 0;
  std::uint32_t previous_sector = UINT32_MAX;
  std::uint32_t buffer_bytes = kDefaultLogBufferBytes;
};

// `record` is log_record_sectors(payload_bytes) long; the payload lies behind its header sectors. Fills the
// headers and the rest of the last unit, takes the payload sectors' first words into the headers, stamps
// cycles (one more from the end of the log on) and the CRC.
void seal_log_record(std::span<std::byte> record, const LogRecordFields& fields, std::uint32_t log_sectors);

// What the first sector says of the record's length, as far as it can be believed before the CRC is known: 0
// unless magic, version and UUID are right and the length is a possible one.
std::uint32_t claimed_record_sectors(std::span<const std::byte> first_sector, const Uuid& uuid);

// Checks all of a record that lies at lsn.block(), and puts the payload's words back in place.
Verdict open_log_record(std::span<std::byte> record, const Uuid& uuid, std::uint32_t at_sector,
                        std::uint32_t log_sectors);

// The payload of an opened record.
inline std::span<const std::byte> payload_of(std::span<const std::byte> record) {
  const auto& header = view<LogRecordHeader>(record);
  return record.subspan(std::size_t{log_header_sectors(header.record_sectors)} * kLogSectorBytes,
                        header.payload_bytes);
}

// One record that says: unmounted cleanly, nothing to replay. `record` is kLogWriteUnitBytes long.
void seal_unmount_record(std::span<std::byte> record, const Uuid& uuid, Lsn lsn,
                         std::uint32_t previous_sector, std::uint64_t next_sequence,
                         std::uint32_t log_sectors);

}  // namespace tidewheel::disk
