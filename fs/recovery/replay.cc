#include "fs/recovery/replay.h"

#include <algorithm>

namespace tidewheel {

LogReplay::LogReplay(BufferCache& cache, BufferTarget& target)
    : cache_(cache),
      target_(target),
      most_queued_(std::max<std::size_t>(kLeastQueued,
                                         cache.budget().limit_bytes() / kQueuedPart / kFsBlockBytes)) {}

LogReplay::~LogReplay() { queue_.cancel(); }

void LogReplay::cancel(DeviceAddress address, std::uint32_t length_blocks) {
  cancelled_[{address.value, length_blocks}] = order_;
}

bool LogReplay::is_cancelled(DeviceAddress address, std::uint32_t length_blocks) {
  const auto found = cancelled_.find({address.value, length_blocks});
  if (found == cancelled_.end() || found->second <= order_) return false;
  ++counts_.cancelled;
  return true;
}

Result<LogReplay::Home> LogReplay::home(DeviceAddress address, std::uint32_t length_blocks,
                                        disk::BlockType type, bool overwritten) {
  auto read = cache_.read(target_, address, length_blocks, type);
  if (read) return Home{std::move(*read), true};
  const Error error = read.error();
  // What was never written, or in part, or belongs to who had the place before: all of it is in the log.
  const bool not_ours = error.code == Reason::kCorrupt && error.detail != unsigned(disk::Fault::kLsn) &&
                        (overwritten || error.detail != unsigned(disk::Fault::kStructure));
  if (!not_ours) return Unexpected(error);
  ++counts_.torn_homes;
  auto buffer = cache_.get_for_overwrite(target_, address, length_blocks);
  if (!buffer) return Unexpected(buffer.error());
  if (!overwritten) {
    TW_TRY(target_.device().read(address.bytes(), (*buffer)->bytes(), IoCause::kMetadata));
  }
  (*buffer)->set_type(type);
  (*buffer)->set_done();
  return Home{std::move(*buffer), false};
}

Result<void> LogReplay::send_home(LockedBuffer buffer, Lsn lsn) {
  ++counts_.replayed;
  buffer->set_write_lsn(lsn);
  queue_.add(*buffer);
  return {};
}

Result<void> LogReplay::end_checkpoint() {
  return queue_.size() >= most_queued_ ? queue_.submit_and_wait() : Result<void>();
}

void LogReplay::intent(const RecoveredItem& item, std::uint64_t id) {
  const auto bytes = item.regions.front();
  intents_[{item.type, id}] = {order_, {item.type, id, item.lsn, {bytes.begin(), bytes.end()}}};
}

void LogReplay::intent_done(disk::LogItemType intent_type, std::uint64_t id) {
  intents_.erase({intent_type, id});
}

std::vector<RecoveredIntent> LogReplay::open_intents() const {
  std::vector<std::pair<ReplayOrder, RecoveredIntent>> ordered;
  for (const auto& [key, intent] : intents_) ordered.push_back(intent);
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<RecoveredIntent> intents;
  for (auto& [order, intent] : ordered) intents.push_back(std::move(intent));
  return intents;
}

ReplayTable::ReplayTable() { add(disk::LogItemType::kBuffer, buffer_replay()); }

}  // namespace tidewheel
