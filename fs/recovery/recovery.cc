#include "fs/recovery/recovery.h"

#include <algorithm>
#include <array>

namespace tidewheel {
namespace {

using Unit = std::array<std::byte, disk::kLogWriteUnitBytes>;

// Both passes: counts items, so that both see the same order.
class Pass final : public CheckpointVisitor {
 public:
  Pass(const ReplayTable& table, LogReplay& replay, bool replays)
      : table_(table), replay_(replay), replays_(replays) {}

  Result<void> committed(const RecoveredCheckpoint& checkpoint) override {
    ++checkpoints;
    for (const RecoveredItem& item : checkpoint.items) {
      replay_.set_order(++order_);
      ReplayOperation* const operation = table_.find(item.type);
      if (operation == nullptr) return TW_FAIL_WITH(kUnsupported, item.type);
      TW_TRY(replays_ ? operation->replay(item, replay_) : operation->collect(item, replay_));
    }
    return replays_ ? replay_.end_checkpoint() : Result<void>();
  }

  std::uint64_t checkpoints = 0;

 private:
  const ReplayTable& table_;
  LogReplay& replay_;
  const bool replays_;
  ReplayOrder order_ = 0;
};

// A record behind the head could be taken for one that follows the next mount's records.
Result<void> wipe(BlockDevice& device, const LogPlace& place, std::span<const std::uint32_t> sectors) {
  alignas(4096) static constexpr Unit kZeros{};
  for (const std::uint32_t sector : sectors) {
    const std::uint64_t at = place.offset_bytes + std::uint64_t{sector} * kLogSectorBytes;
    TW_TRY(device.write(at, kZeros, IoCause::kLog));
  }
  return {};
}

Lsn oldest(std::span<const RecoveredIntent> intents) {
  Lsn lsn = kNeverLsn;
  for (const RecoveredIntent& intent : intents) lsn = std::min(lsn, intent.lsn);
  return lsn;
}

// One write unit behind the head: what went before is durable before it, and it is when this returns.
Result<void> write_last_record(BlockDevice& device, const LogPlace& place, Recovery& recovery) {
  LogPosition& at = recovery.position;
  if (log_distance_bytes(at.tail, at.head, place.sectors) + disk::kLogWriteUnitBytes >
      std::uint64_t{place.sectors} * kLogSectorBytes) {
    return TW_FAIL_WITH(kCorrupt, at.head.block());  // the log always keeps more than that
  }
  alignas(4096) Unit record{};
  const bool clean = recovery.intents.empty();
  if (clean) {
    disk::seal_unmount_record(record, place.uuid, at.head, at.previous_sector, at.next_sequence,
                              place.sectors);
  } else {
    disk::seal_log_record(record,
                          {.uuid = place.uuid,
                           .lsn = at.head,
                           .tail_lsn = oldest(recovery.intents),
                           .previous_sector = at.previous_sector},
                          place.sectors);
  }
  const std::uint64_t offset = place.offset_bytes + std::uint64_t{at.head.block()} * kLogSectorBytes;
  TW_TRY(device.write_durably(offset, record, IoCause::kLog));
  at.previous_sector = at.head.block();
  at.head = log_advance(at.head, LogReader::kUnitSectors, place.sectors);
  at.tail = clean ? at.head : oldest(recovery.intents);
  return {};
}

}  // namespace

Result<Recovery> recover(LogReader& reader, BlockDevice& device, BufferCache& cache, BufferTarget& target,
                         const ReplayTable& table, const RecoveryOptions& options) {
  const LogPlace& place = reader.place();
  const auto scan = scan_log(reader, options.window_bytes);
  if (!scan) return Unexpected(scan.error());
  Recovery recovery;
  recovery.records = scan->records;
  recovery.was_clean = scan->unmount_sequence != 0;
  recovery.position = {.tail = scan->tail,
                       .head = scan->head,
                       .previous_sector = scan->previous_sector,
                       .next_sequence = std::max<std::uint64_t>(scan->unmount_sequence, 1)};
  if (recovery.was_clean) recovery.position.tail = scan->head;
  target.set_newest_lsn(scan->head);
  if (options.scan_only) return recovery;
  recovery.wiped = static_cast<std::uint32_t>(scan->stale.size());
  if (recovery.was_clean) {
    TW_TRY(wipe(device, place, scan->stale));
    if (!scan->stale.empty()) TW_TRY(device.flush(IoCause::kLog));
    return recovery;
  }

  LogReplay replay(cache, target);
  CheckpointWalk walk(reader);
  Pass collect(table, replay, false);
  TW_TRY(walk.run(scan->tail, scan->head, collect));
  Pass play(table, replay, true);
  TW_TRY(walk.run(scan->tail, scan->head, play));
  TW_TRY(replay.write_all());
  TW_TRY(wipe(device, place, scan->stale));
  recovery.checkpoints = play.checkpoints;
  recovery.cut_off = walk.uncommitted();
  recovery.items = replay.counts();
  recovery.intents = replay.open_intents();
  recovery.position.next_sequence = walk.newest_sequence() + 1;

  // The commit point: its preflush covers the homes and the wiping. Where intents are open and the tail is
  // as far as it can be, nothing is to be said: a recovery that is repeated takes no more log each time.
  if (recovery.intents.empty() || oldest(recovery.intents) > scan->tail) {
    TW_TRY(write_last_record(device, place, recovery));
  } else {
    TW_TRY(device.flush(IoCause::kLog));
  }
  return recovery;
}

}  // namespace tidewheel
