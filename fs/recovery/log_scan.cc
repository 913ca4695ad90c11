#include "fs/recovery/log_scan.h"

#include <algorithm>

namespace tidewheel {
namespace {

constexpr std::uint32_t kUnit = LogReader::kUnitSectors;

// The sector where the cycle of the first sector ends, as far as bisection can tell.
Result<std::uint32_t> bisect(LogReader& reader) {
  const auto first = reader.cycle_at(0);
  if (!first) return Unexpected(first.error());
  std::uint32_t low = 0;
  std::uint32_t high = reader.place().sectors / kUnit;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const auto cycle = reader.cycle_at(middle * kUnit);
    if (!cycle) return Unexpected(cycle.error());
    (*cycle == *first ? low : high) = middle;
  }
  return high * kUnit;
}

// The newest valid record before `limit` that begins in `sectors` sectors from `from` on, around the end;
// none.
Result<Lsn> newest_record(LogReader& reader, std::uint32_t from, std::uint32_t sectors,
                          Lsn limit = kNeverLsn) {
  std::vector<Lsn> claimed;
  for (std::uint32_t done = 0; done < sectors; done += kUnit) {
    const auto lsn = reader.claimed_lsn((from + done) % reader.place().sectors);
    if (!lsn) return Unexpected(lsn.error());
    if (!lsn->none() && *lsn < limit) claimed.push_back(*lsn);
  }
  std::sort(claimed.begin(), claimed.end(), std::greater<>());
  for (const Lsn lsn : claimed) {
    const auto record = reader.open(lsn);
    if (!record) return Unexpected(record.error());
    if (!record->empty()) return lsn;
  }
  return kNoLsn;
}

Result<Lsn> any_record_near_head(LogReader& reader, std::uint64_t window_bytes, bool& looked_through) {
  const std::uint32_t sectors = reader.place().sectors;
  const auto window = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      sectors, (window_bytes / disk::kLogWriteUnitBytes) * std::uint64_t{kUnit}));
  if (window < sectors) {
    const auto edge = bisect(reader);
    if (!edge) return Unexpected(edge.error());
    const auto found = newest_record(reader, (*edge + sectors - window) % sectors, window);
    if (!found || !found->none()) return found;
  }
  looked_through = window < sectors;
  return newest_record(reader, 0, sectors);
}

struct Chain {
  Lsn head;                  // where it ends
  Lsn last;                  // none: it is empty
  Lsn last_tail;
  std::uint32_t records = 0;
  std::uint64_t unmount_sequence = 0;
};

Result<Chain> walk_chain(LogReader& reader, Lsn from) {
  Chain chain;
  chain.head = from;
  for (;;) {
    const auto record = reader.open(chain.head);
    if (!record) return Unexpected(record.error());
    if (record->empty()) return chain;
    const auto& header = disk::view<disk::LogRecordHeader>(*record);
    const std::uint32_t previous = header.previous_sector;
    if (!chain.last.none() && previous != UINT32_MAX && previous != chain.last.block()) return chain;
    // Of records that flush alone, each of which carries a tail sampled later. The others carry the newest
    // that was stable, which those in flight before them may have passed.
    const Lsn tail{header.tail_lsn};
    if (tail < chain.last_tail && is_flushed_record(*record)) return chain;
    chain.last = chain.head;
    chain.last_tail = std::max(chain.last_tail, tail);
    chain.unmount_sequence = unmount_sequence_of(*record);
    chain.head = log_advance(chain.head, header.record_sectors, reader.place().sectors);
    ++chain.records;
  }
}

// What lies behind the head, up to the tail or as far as can have been in flight.
Result<void> find_stale(LogReader& reader, std::uint64_t window_bytes, LogScan& scan) {
  const std::uint32_t sectors = reader.place().sectors;
  const std::uint64_t used = log_distance_bytes(scan.tail, scan.head, sectors) / kLogSectorBytes;
  if (used > sectors) return TW_FAIL(kCorrupt);
  const std::uint64_t most =
      std::min<std::uint64_t>(sectors - used, window_bytes / disk::kLogWriteUnitBytes * kUnit);
  for (std::uint64_t done = 0; done < most; done += kUnit) {
    const Lsn at = log_advance(scan.head, done, sectors);
    const auto claimed = reader.claimed_lsn(at.block());
    if (!claimed) return Unexpected(claimed.error());
    if (claimed->none() || *claimed < scan.head) continue;
    const auto record = reader.open(at.block());
    if (!record) return Unexpected(record.error());
    if (record->empty()) continue;
    // It was submitted after everything before it had completed, with a flush: that was all there once.
    if (is_flushed_record(*record)) return TW_FAIL_WITH(kCorrupt, scan.head.block());
    scan.stale.push_back(at.block());
  }
  return {};
}

}  // namespace

Result<LogScan> scan_log(LogReader& reader, std::uint64_t window_bytes) {
  LogScan scan;
  const auto near = any_record_near_head(reader, window_bytes, scan.looked_through);
  if (!near) return Unexpected(near.error());
  if (near->none()) return TW_FAIL(kCorrupt);
  const auto ahead = walk_chain(reader, *near);
  if (!ahead) return Unexpected(ahead.error());
  if (ahead->last.none()) return TW_FAIL(kCorrupt);

  auto chain = walk_chain(reader, ahead->last_tail);
  if (!chain) return Unexpected(chain.error());
  scan.tail = ahead->last_tail;
  if (!chain->last.none() && chain->last_tail > scan.tail) {
    scan.tail = chain->last_tail;
    chain = walk_chain(reader, scan.tail);
    if (!chain) return Unexpected(chain.error());
  }
  if (chain->last.none()) {
    // Mounted cleanly, and the first record written since is not there, though a later one is.
    const auto before = newest_record(reader, 0, reader.place().sectors, scan.tail);
    if (!before) return Unexpected(before.error());
    if (before->none()) return TW_FAIL(kCorrupt);
    chain = walk_chain(reader, *before);
    if (!chain) return Unexpected(chain.error());
    if (chain->head != scan.tail || chain->unmount_sequence == 0) {
      return TW_FAIL_WITH(kCorrupt, scan.tail.block());
    }
    scan.tail = chain->last;
  }
  scan.head = chain->head;
  scan.records = chain->records;
  scan.unmount_sequence = chain->unmount_sequence;
  if (!chain->last.none()) scan.previous_sector = chain->last.block();
  if (scan.head.cycle() >= Lsn::kLastCycle) return TW_FAIL(kUnsupported);
  TW_TRY(find_stale(reader, window_bytes, scan));
  return scan;
}

}  // namespace tidewheel
