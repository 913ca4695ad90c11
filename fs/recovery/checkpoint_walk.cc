#include "fs/recovery/checkpoint_walk.h"

#include <algorithm>

namespace tidewheel {

Result<void> CheckpointWalk::run(Lsn tail, Lsn head, CheckpointVisitor& visitor) {
  open_.clear();
  last_sequence_ = newest_sequence_ = 0;
  std::vector<LogOperation> operations;
  for (Lsn at = tail; at < head;) {
    const auto record = reader_.open(at);
    if (!record) return Unexpected(record.error());
    if (record->empty() || !read_operations(*record, operations)) {
      return TW_FAIL_WITH(kCorrupt, at.block());
    }
    for (const LogOperation& operation : operations) {
      if ((operation.flags & disk::kOpUnmount) != 0) continue;
      if ((operation.flags & disk::kOpCommit) != 0) {
        TW_TRY(commit(operation, at, visitor));
      } else if (!take(operation, at)) {
        return TW_FAIL_WITH(kCorrupt, at.block());
      }
    }
    const std::uint32_t sectors = disk::view<disk::LogRecordHeader>(*record).record_sectors;
    at = log_advance(at, sectors, reader_.place().sectors);
  }
  return {};
}

bool CheckpointWalk::take(const LogOperation& operation, Lsn at) {
  if ((operation.flags & disk::kOpStart) != 0) return begin(operation, at);
  const auto open = open_.find(operation.checkpoint);
  return open != open_.end() && add_region(open->second, operation);
}

bool CheckpointWalk::begin(const LogOperation& operation, Lsn at) {
  if (operation.flags != disk::kOpStart || operation.bytes.size() != sizeof(disk::LogCheckpoint))
    return false;
  const auto& start = disk::view<disk::LogCheckpoint>(operation.bytes);
  if (start.magic != disk::kLogCheckpointMagic) return false;
  if (static_cast<std::uint32_t>(start.sequence) != operation.checkpoint) return false;
  // Anew: of a checkpoint with this number that was cut off by an earlier crash nothing more will come.
  Open& open = open_[operation.checkpoint];
  open = Open{};
  open.sequence = start.sequence;
  open.start = at;
  open.item_count = start.item_count;
  newest_sequence_ = std::max(newest_sequence_, open.sequence);
  return true;
}

bool CheckpointWalk::add_region(Open& open, const LogOperation& operation) {
  const bool continued = (operation.flags & disk::kOpContinued) != 0;
  if (continued != open.continues) return false;
  if (!continued) open.regions.push_back({open.bytes.size(), 0});
  open.regions.back().bytes += operation.bytes.size();
  open.bytes.insert(open.bytes.end(), operation.bytes.begin(), operation.bytes.end());
  open.continues = (operation.flags & disk::kOpContinues) != 0;
  return true;
}

// Each item says how many regions it has.
bool CheckpointWalk::find_items(const Open& open) {
  regions_.clear();
  items_.clear();
  const std::span<const std::byte> bytes = open.bytes;
  for (const Region& region : open.regions) regions_.push_back(bytes.subspan(region.at, region.bytes));
  for (std::size_t next = 0; next < regions_.size();) {
    if (regions_[next].size() < sizeof(disk::LogItemHeader)) return false;
    const auto& header = disk::view<disk::LogItemHeader>(regions_[next]);
    const std::size_t count = header.regions;
    if (count == 0 || count > regions_.size() - next) return false;
    items_.push_back({static_cast<disk::LogItemType>(header.type.get()), open.start,
                      std::span(regions_).subspan(next, count)});
    next += count;
  }
  return items_.size() == open.item_count;
}

Result<void> CheckpointWalk::commit(const LogOperation& operation, Lsn at, CheckpointVisitor& visitor) {
  const auto found = open_.find(operation.checkpoint);
  if (found == open_.end() || operation.flags != disk::kOpCommit ||
      operation.bytes.size() != sizeof(disk::LogCommit)) {
    return TW_FAIL_WITH(kCorrupt, at.block());
  }
  const Open& open = found->second;
  const auto& commit = disk::view<disk::LogCommit>(operation.bytes);
  const bool fits = commit.sequence == open.sequence && commit.start_lsn == open.start.value &&
                    !open.continues && (last_sequence_ == 0 || open.sequence > last_sequence_);
  if (!fits || !find_items(open)) return TW_FAIL_WITH(kCorrupt, at.block());
  last_sequence_ = open.sequence;
  TW_TRY(visitor.committed({.sequence = open.sequence, .start = open.start, .items = items_}));
  open_.erase(found);
  return {};
}

}  // namespace tidewheel
