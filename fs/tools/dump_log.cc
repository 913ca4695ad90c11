// The log: every record that can be found in it, in the order of the log, with its operations.
#include <algorithm>
#include <vector>

#include "fs/format/log_items.h"
#include "fs/format/log_record.h"
#include "fs/tools/dump_text.h"

namespace tidewheel::tools {

namespace {

using namespace disk;

const char* item_name(std::uint16_t type) {
  switch (static_cast<LogItemType>(type)) {
    case LogItemType::kBuffer: return "buffer";
    case LogItemType::kInode: return "inode";
    case LogItemType::kInodeChunk: return "inode chunk";
    case LogItemType::kFreeExtentIntent: return "free-extent intent";
    case LogItemType::kFreeExtentDone: return "free-extent done";
    case LogItemType::kMapIntent: return "map intent";
    case LogItemType::kMapDone: return "map done";
    case LogItemType::kMock: return "mock";
    case LogItemType::kMockIntent: return "mock intent";
    case LogItemType::kMockDone: return "mock done";
  }
  return nullptr;
}

std::string flags_text(std::uint8_t flags) {
  std::string text;
  const auto add = [&](std::uint8_t bit, const char* name) {
    if ((flags & bit) != 0) text += (text.empty() ? "" : ",") + std::string(name);
  };
  add(kOpStart, "start");
  add(kOpCommit, "commit");
  add(kOpContinues, "continues");
  add(kOpContinued, "continued");
  add(kOpUnmount, "unmount");
  return text.empty() ? "-" : text;
}

// Of a region that begins here: an item's format, or the bytes of one.
std::string region_text(std::span<const std::byte> region, std::uint8_t flags) {
  if ((flags & kOpUnmount) != 0 && region.size() >= sizeof(LogUnmount)) {
    return "next checkpoint " + std::to_string(view<LogUnmount>(region).next_sequence.get());
  }
  if ((flags & kOpStart) != 0 && region.size() >= sizeof(LogCheckpoint)) {
    const auto& checkpoint = view<LogCheckpoint>(region);
    return "checkpoint " + std::to_string(checkpoint.sequence.get()) + ", " +
           std::to_string(checkpoint.item_count.get()) + " items";
  }
  if ((flags & kOpCommit) != 0 && region.size() >= sizeof(LogCommit)) {
    const auto& commit = view<LogCommit>(region);
    return "checkpoint " + std::to_string(commit.sequence.get()) + ", started at " +
           lsn_text({commit.start_lsn});
  }
  if ((flags & kOpContinued) != 0 || region.size() < sizeof(LogItemHeader)) return "";
  const auto& item = view<LogItemHeader>(region);
  const char* name = item_name(item.type);
  if (name == nullptr) return "";
  std::string text = std::string(name) + ", " + std::to_string(item.regions.get()) + " regions";
  if (static_cast<LogItemType>(item.type.get()) == LogItemType::kBuffer &&
      region.size() >= sizeof(BufferItemFormat)) {
    const auto& buffer = view<BufferItemFormat>(region);
    text += ", block " + std::to_string(buffer.address.get());
    if ((buffer.flags & kBufferCancel) != 0) text += ", cancelled";
  }
  if (static_cast<LogItemType>(item.type.get()) == LogItemType::kInode &&
      region.size() >= sizeof(InodeItemFormat)) {
    text += ", inode " + std::to_string(view<InodeItemFormat>(region).inode.get());
  }
  return text;
}

void print_operations(DumpText& out, std::span<const std::byte> payload) {
  std::size_t at = 0;
  while (payload.size() - at >= sizeof(LogOp)) {
    const auto& operation = view<LogOp>(payload, at);
    at += sizeof(LogOp);
    if (operation.bytes > payload.size() - at) {
      out.line("    an operation of %u bytes runs beyond the payload", operation.bytes.get());
      out.count_damage();
      return;
    }
    out.line("    checkpoint %u, %u bytes, %s %s", operation.checkpoint.get(), operation.bytes.get(),
             flags_text(operation.flags).c_str(),
             region_text(payload.subspan(at, operation.bytes), operation.flags).c_str());
    at += operation.bytes;
  }
}

// Sectors from `sector` on, round the end of the log.
bool read_record(DumpText& out, std::uint32_t sector, std::uint32_t sectors, std::vector<std::byte>& record) {
  const Geometry& geometry = out.geometry();
  record.resize(std::size_t{sectors} * kLogSectorBytes);
  const std::uint32_t before_end = std::min(sectors, geometry.log_sectors() - sector);
  const std::uint64_t start = geometry.log_address().bytes();
  const auto copy = [&](std::uint64_t from_sector, std::uint32_t n, std::size_t to) {
    const auto bytes =
        out.read_bytes(start + from_sector * kLogSectorBytes, std::uint64_t{n} * kLogSectorBytes);
    std::copy(bytes.begin(), bytes.end(), record.begin() + static_cast<std::ptrdiff_t>(to));
    return !bytes.empty();
  };
  if (!copy(sector, before_end, 0)) return false;
  return before_end == sectors || copy(0, sectors - before_end, std::size_t{before_end} * kLogSectorBytes);
}

}  // namespace

Dump dump_log(BlockDevice& device) {
  DumpText out(device);
  if (!out.open()) return out.take();
  const Geometry geometry = out.geometry();
  out.title("log: " + std::to_string(geometry.log_blocks) + " blocks from block " +
            std::to_string(geometry.log_address().value) + " of the device");
  if (device.size_bytes() < geometry.log_address().bytes() + geometry.log_bytes()) {
    out.fail("the device ends before the log does");
    return out.take();
  }
  constexpr std::uint32_t kUnit = kLogWriteUnitBytes / kLogSectorBytes;
  constexpr std::uint32_t kPiece = (1U << 20) / kLogSectorBytes;
  std::uint64_t records = 0, never_written = 0;
  Lsn head{}, tail{};
  std::vector<std::byte> piece, record;
  for (std::uint32_t from = 0; from < geometry.log_sectors(); from += kPiece) {
    const std::uint32_t n = std::min(kPiece, geometry.log_sectors() - from);
    const auto bytes = out.read_bytes(geometry.log_address().bytes() + std::uint64_t{from} * kLogSectorBytes,
                                      std::uint64_t{n} * kLogSectorBytes);
    if (bytes.empty()) return out.take();
    piece.assign(bytes.begin(), bytes.end());
    for (std::uint32_t i = 0; i < n; i += kUnit) {
      const std::span<const std::byte> unit =
          std::span<const std::byte>(piece).subspan(std::size_t{i} * kLogSectorBytes, kLogWriteUnitBytes);
      const auto& header = view<LogRecordHeader>(unit);
      if (header.cycle == 0) ++never_written;
      const std::uint32_t sectors = claimed_record_sectors(unit, geometry.uuid);
      if (sectors == 0 || sectors > geometry.log_sectors()) continue;
      const std::uint32_t sector = from + i;
      if (!read_record(out, sector, sectors, record)) return out.take();
      ++records;
      const LogRecordHeader fields = view<LogRecordHeader>(std::span<const std::byte>(record));
      const Verdict verdict = open_log_record(record, geometry.uuid, sector, geometry.log_sectors());
      out.line("record at sector %u: lsn %s, tail %s, %u sectors, %u operations, %u bytes", sector,
               lsn_text({fields.lsn}).c_str(), lsn_text({fields.tail_lsn}).c_str(), sectors,
               fields.operation_count.get(), fields.payload_bytes.get());
      if (!verdict.good()) {
        out.verdict(verdict);
        continue;
      }
      if (Lsn{fields.lsn} >= head) {
        head = {fields.lsn};
        tail = {fields.tail_lsn};
      }
      print_operations(out, payload_of(record));
    }
  }
  out.line("%llu records; newest %s, its tail %s; %llu of %u write units never written",
           static_cast<unsigned long long>(records), lsn_text(head).c_str(), lsn_text(tail).c_str(),
           static_cast<unsigned long long>(never_written), geometry.log_sectors() / kUnit);
  return out.take();
}

}  // namespace tidewheel::tools
