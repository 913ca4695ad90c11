#include "fs/recovery/log_reader.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tidewheel {

LogReader::LogReader(BlockDevice& device, const LogPlace& place)
    : device_(device),
      place_(place),
      piece_sectors_(
          std::clamp((place.sectors / kPieces + kUnitSectors - 1) / kUnitSectors * kUnitSectors, kUnitSectors,
                     kMostPieceSectors)) {
  TW_ASSERT(place.sectors != 0 && place.sectors % kUnitSectors == 0, "a log is made of whole write units");
}

Result<std::uint32_t> LogReader::cycle_at(std::uint32_t sector) {
  alignas(4096) std::byte bytes[disk::kLogWriteUnitBytes];
  const std::uint64_t at = place_.offset_bytes + std::uint64_t{sector} * kLogSectorBytes;
  TW_TRY(device_.read(at, bytes, IoCause::kLog));
  return disk::view<disk::Le32>(std::span<const std::byte>(bytes)).get();
}

Result<std::span<const std::byte>> LogReader::unit(std::uint32_t sector) {
  const std::uint32_t number = sector / piece_sectors_;
  const std::uint32_t at = number * piece_sectors_;
  Piece& piece = pieces_[number % kPieces];
  if (piece.at != at) {
    if (piece.bytes == nullptr) {
      piece.bytes.reset(static_cast<std::byte*>(
          ::operator new(std::size_t{piece_sectors_} * kLogSectorBytes, std::align_val_t{4096})));
    }
    const std::uint32_t sectors = std::min(piece_sectors_, place_.sectors - at);
    piece.at = UINT32_MAX;
    TW_TRY(device_.read(place_.offset_bytes + std::uint64_t{at} * kLogSectorBytes,
                        {piece.bytes.get(), std::size_t{sectors} * kLogSectorBytes}, IoCause::kLog));
    piece.at = at;
  }
  return std::span<const std::byte>(piece.bytes.get() + std::size_t{sector - at} * kLogSectorBytes,
                                    disk::kLogWriteUnitBytes);
}

Result<Lsn> LogReader::claimed_lsn(std::uint32_t sector) {
  const auto bytes = unit(sector);
  if (!bytes) return Unexpected(bytes.error());
  if (disk::claimed_record_sectors(*bytes, place_.uuid) == 0) return kNoLsn;
  const Lsn lsn{disk::view<disk::LogRecordHeader>(*bytes).lsn};
  return lsn.block() == sector ? lsn : kNoLsn;
}

Result<std::span<const std::byte>> LogReader::open(std::uint32_t sector) {
  const auto first = unit(sector);
  if (!first) return Unexpected(first.error());
  const std::uint32_t sectors = disk::claimed_record_sectors(*first, place_.uuid);
  if (sectors == 0 || sectors > place_.sectors) return std::span<const std::byte>();
  record_.resize(std::size_t{sectors} * kLogSectorBytes);
  std::memcpy(record_.data(), first->data(), first->size());
  for (std::uint32_t done = kUnitSectors; done < sectors; done += kUnitSectors) {
    const auto more = unit((sector + done) % place_.sectors);
    if (!more) return Unexpected(more.error());
    std::memcpy(record_.data() + std::size_t{done} * kLogSectorBytes, more->data(), more->size());
  }
  if (!disk::open_log_record(record_, place_.uuid, sector, place_.sectors).good()) {
    return std::span<const std::byte>();
  }
  return std::span<const std::byte>(record_);
}

Result<std::span<const std::byte>> LogReader::open(Lsn lsn) {
  // Cheaper than a CRC, and most often the answer at the head.
  const auto claimed = claimed_lsn(lsn.block());
  if (!claimed) return Unexpected(claimed.error());
  if (*claimed != lsn) return std::span<const std::byte>();
  return open(lsn.block());
}

bool read_operations(std::span<const std::byte> record, std::vector<LogOperation>& operations) {
  operations.clear();
  for (std::span<const std::byte> rest = disk::payload_of(record); !rest.empty();) {
    if (rest.size() < sizeof(disk::LogOp)) return false;
    const auto& op = disk::view<disk::LogOp>(rest);
    const std::uint32_t bytes = op.bytes;
    rest = rest.subspan(sizeof op);
    if (bytes > rest.size() || (op.flags & ~disk::kOpKnownFlags) != 0) return false;
    operations.push_back({op.checkpoint, op.flags, rest.first(bytes)});
    rest = rest.subspan(bytes);
  }
  return operations.size() == disk::view<disk::LogRecordHeader>(record).operation_count;
}

bool is_flushed_record(std::span<const std::byte> record) {
  std::vector<LogOperation> operations;
  if (!read_operations(record, operations)) return false;
  return operations.empty() ||
         std::any_of(operations.begin(), operations.end(), [](const LogOperation& operation) {
           return (operation.flags & (disk::kOpCommit | disk::kOpUnmount)) != 0;
         });
}

std::uint64_t unmount_sequence_of(std::span<const std::byte> record) {
  std::vector<LogOperation> operations;
  if (!read_operations(record, operations) || operations.size() != 1) return 0;
  const LogOperation& only = operations.front();
  if (only.flags != disk::kOpUnmount || only.bytes.size() != sizeof(disk::LogUnmount)) return 0;
  const auto& unmount = disk::view<disk::LogUnmount>(only.bytes);
  return unmount.magic == disk::kLogUnmountMagic ? unmount.next_sequence.get() : 0;
}

}  // namespace tidewheel
