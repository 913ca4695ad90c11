#include "fs/mock/mock_replay.h"

#include <cstring>

#include "fs/format/log_items.h"

namespace tidewheel {
namespace {

class ObjectReplay final : public ReplayOperation {
 public:
  Result<void> collect(const RecoveredItem& item, LogReplay& replay) override {
    if (item.regions.size() != 2 || item.regions[0].size() != sizeof(disk::MockItemFormat)) {
      return TW_FAIL(kCorrupt);
    }
    const auto& format = disk::view<disk::MockItemFormat>(item.regions[0]);
    if (format.bytes != item.regions[1].size() || format.bytes > disk::kMaxMockBytes)
      return TW_FAIL(kCorrupt);
    if (!replay.target().geometry().contains(DeviceAddress{format.address})) return TW_FAIL(kCorrupt);
    return {};
  }

  Result<void> replay(const RecoveredItem& item, LogReplay& replay) override {
    const auto& format = disk::view<disk::MockItemFormat>(item.regions[0]);
    const DeviceAddress address{format.address};
    if (replay.is_cancelled(address, 1)) return {};
    auto home = replay.home(address, 1, disk::BlockType::kMock, true);
    if (!home) return Unexpected(home.error());
    const std::span<std::byte> block = home->buffer->bytes();
    if (home->whole &&
        disk::view<disk::BlockHeader>(std::span<const std::byte>(block)).lsn >= item.lsn.value) {
      replay.count_newer_at_home();
      return {};
    }
    disk::start_block(block, disk::kMockMagic, replay.target().geometry().uuid, address, format.object);
    auto& mock = disk::view<disk::MockBlock>(block);
    mock.version = format.version;
    mock.bytes = format.bytes;
    // No LSN until it is written: images of the same checkpoint go over it.
    std::memcpy(block.data() + sizeof mock, item.regions[1].data(), item.regions[1].size());
    return replay.send_home(std::move(home->buffer), item.lsn);
  }
};

class IntentReplay final : public ReplayOperation {
 public:
  Result<void> collect(const RecoveredItem& item, LogReplay&) override {
    MockIntentThing thing;
    if (item.regions.size() != 1 || !read_mock_intent(item.regions[0], thing)) return TW_FAIL(kCorrupt);
    return {};
  }
  Result<void> replay(const RecoveredItem& item, LogReplay& replay) override {
    replay.intent(item, disk::view<disk::IntentFormat>(item.regions[0]).id);
    return {};
  }
};

class DoneReplay final : public ReplayOperation {
 public:
  Result<void> collect(const RecoveredItem& item, LogReplay&) override {
    if (item.regions.size() != 1 || item.regions[0].size() != sizeof(disk::DoneFormat))
      return TW_FAIL(kCorrupt);
    return {};
  }
  Result<void> replay(const RecoveredItem& item, LogReplay& replay) override {
    const auto& format = disk::view<disk::DoneFormat>(item.regions[0]);
    replay.intent_done(disk::LogItemType::kMockIntent, format.intent_id);
    return {};
  }
};

}  // namespace

bool read_mock_intent(std::span<const std::byte> region, MockIntentThing& thing) {
  if (region.size() != sizeof(disk::IntentFormat) + sizeof(disk::IntentMap)) return false;
  if (disk::view<disk::IntentFormat>(region).count != 1) return false;
  const auto& map = disk::view<disk::IntentMap>(region, sizeof(disk::IntentFormat));
  thing = {map.inode, map.file_block};
  return true;
}

ReplayTable mock_replay_table() {
  static ObjectReplay object;
  static IntentReplay intent;
  static DoneReplay done;
  ReplayTable table;
  table.add(disk::LogItemType::kMock, object);
  table.add(disk::LogItemType::kMockIntent, intent);
  table.add(disk::LogItemType::kMockDone, done);
  return table;
}

}  // namespace tidewheel
