// fs/recovery/log_reader.h: records of a log as they lie on a device, each checked before it is believed.
// Owns:      pieces of the log in memory, and the record that was opened last. It may not see what is written
//            to the log while it lives.
// Threads:   one owner. Reads wait for the device.
// Units:     sectors of 512 bytes; records begin at multiples of the write unit.
// Errors:    those of the device. What is not a valid record is no error here: there is none.
// Invariant: nothing outside the log is read, whatever a header says; a record counts only if magic, UUID,
//            length, CRC, place and the cycle of each of its sectors are right.
#pragma once
#include <array>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/result.h"
#include "fs/block/block_device.h"
#include "fs/format/log_record.h"
#include "fs/log/iclog.h"

namespace tidewheel {

class LogReader {
 public:
  static constexpr std::uint32_t kUnitSectors = disk::kLogWriteUnitBytes / kLogSectorBytes;

  // `place`: sectors, a multiple of the write unit.
  LogReader(BlockDevice& device, const LogPlace& place);

  const LogPlace& place() const { return place_; }
  // The first word of a unit, by one small read.
  Result<std::uint32_t> cycle_at(std::uint32_t sector);
  // Where the header at this sector says that it lies; none unless it looks like one of ours. Not believed:
  // its CRC is yet unknown.
  Result<Lsn> claimed_lsn(std::uint32_t sector);
  // The record there, its payload's words in place, until the next call; empty: none that is valid.
  Result<std::span<const std::byte>> open(std::uint32_t sector);
  // The same where it must be this very record: what an earlier round left is none.
  Result<std::span<const std::byte>> open(Lsn lsn);

 private:
  // Read at once. Eight are kept: all of a small log (crash exploration opens such by the million), or what
  // bisection looks through, which the chain reads again.
  static constexpr std::uint32_t kMostPieceSectors = 512;
  static constexpr std::uint32_t kPieces = 8;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{4096}); }
  };

  Result<std::span<const std::byte>> unit(std::uint32_t sector);

  BlockDevice& device_;
  const LogPlace place_;
  const std::uint32_t piece_sectors_;
  struct Piece {
    std::unique_ptr<std::byte, Free> bytes;
    std::uint32_t at = UINT32_MAX;  // its first sector
  };
  std::array<Piece, kPieces> pieces_;  // the n-th of the log at n % kPieces
  std::vector<std::byte> record_;
};

// A record's operations, checked: false when they do not fit its payload, or are of an unknown kind.
struct LogOperation {
  std::uint32_t checkpoint = 0;
  std::uint8_t flags = 0;
  std::span<const std::byte> bytes;
};
bool read_operations(std::span<const std::byte> record, std::vector<LogOperation>& operations);

// Of an opened record: one that was written with a flush before it, after everything before it.
bool is_flushed_record(std::span<const std::byte> record);
// One that says that the log was left cleanly. Answers its next sequence; 0: it is none.
std::uint64_t unmount_sequence_of(std::span<const std::byte> record);

}  // namespace tidewheel
