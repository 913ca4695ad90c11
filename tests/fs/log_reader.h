// Reads a log back as recovery would, for tests: from a tail, record by record, until one is not valid.
#pragma once
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fs/block/block_device.h"
#include "fs/format/log_record.h"
#include "fs/log/iclog.h"

namespace tidewheel {

struct ReadCheckpoint {
  std::uint64_t sequence = 0;
  Lsn start;
  std::uint32_t item_count = 0;
  std::vector<std::string> regions;
};

struct ReadLog {
  std::vector<ReadCheckpoint> committed;  // in the order of their commit operations
  Lsn tail;                               // of the last record
  Lsn head;
  std::uint32_t records = 0;
  bool unmounted = false;
};

struct OpenCheckpoint {
  ReadCheckpoint checkpoint;
  bool continues = false;
};
using OpenCheckpoints = std::map<std::uint32_t, OpenCheckpoint>;

inline void take_operation(ReadLog& log, OpenCheckpoints& open, Lsn at, const disk::LogOp& op,
                           const std::string& bytes) {
  if ((op.flags & disk::kOpUnmount) != 0) {
    log.unmounted = true;
    return;
  }
  OpenCheckpoint& one = open[op.checkpoint];
  if ((op.flags & disk::kOpStart) != 0) {
    const auto start = *reinterpret_cast<const disk::LogCheckpoint*>(bytes.data());
    one = {{start.sequence, at, start.item_count, {}}, false};
  } else if ((op.flags & disk::kOpCommit) != 0) {
    const auto commit = *reinterpret_cast<const disk::LogCommit*>(bytes.data());
    if (commit.start_lsn != one.checkpoint.start.value || one.continues) std::abort();
    log.committed.push_back(one.checkpoint);
    open.erase(op.checkpoint);
    return;
  } else if ((op.flags & disk::kOpContinued) != 0) {
    if (!one.continues) std::abort();
    one.checkpoint.regions.back() += bytes;
  } else {
    one.checkpoint.regions.push_back(bytes);
  }
  one.continues = (op.flags & disk::kOpContinues) != 0;
}

inline ReadLog read_log(BlockDevice& device, const LogPlace& place, Lsn from) {
  ReadLog log;
  OpenCheckpoints open;
  const auto read = [&](Lsn at, std::uint32_t sectors) {
    std::vector<std::byte> bytes(std::size_t{sectors} * kLogSectorBytes);
    for (std::uint32_t i = 0; i < sectors; i += 8) {
      alignas(4096) std::byte unit[4096];
      const std::uint64_t sector = log_advance(at, i, place.sectors).block();
      if (!device.read(place.offset_bytes + sector * kLogSectorBytes, unit)) std::abort();
      std::memcpy(bytes.data() + std::size_t{i} * kLogSectorBytes, unit, sizeof unit);
    }
    return bytes;
  };
  for (Lsn at = from;;) {
    std::vector<std::byte> record = read(at, 8);
    log.head = at;
    const std::uint32_t sectors =
        disk::claimed_record_sectors(std::span(record).first(kLogSectorBytes), place.uuid);
    if (sectors == 0) break;
    record = read(at, sectors);
    const auto verdict = disk::open_log_record(record, place.uuid, at.block(), place.sectors);
    const auto header = disk::view<disk::LogRecordHeader>(std::span<const std::byte>(record));
    if (!verdict.good() || header.lsn != at.value) break;
    for (std::span<const std::byte> rest = disk::payload_of(record); !rest.empty();) {
      const auto op = disk::view<disk::LogOp>(rest);
      rest = rest.subspan(sizeof op);
      const std::string bytes(reinterpret_cast<const char*>(rest.data()), op.bytes);
      rest = rest.subspan(op.bytes);
      take_operation(log, open, at, op, bytes);
    }
    log.tail = Lsn{header.tail_lsn};
    ++log.records;
    at = log_advance(at, sectors, place.sectors);
  }
  return log;
}

}  // namespace tidewheel
