// A log put together by hand, record by record, and what recovery makes of it.
#pragma once
#include <array>
#include <cstring>
#include <initializer_list>
#include <string>

#include "fs/block/ram_device.h"
#include "fs/format/log_items.h"
#include "fs/mock/mock_machine.h"

namespace tidewheel {

class LogBuilder {
 public:
  explicit LogBuilder(const MockLayout& its_layout = {})
      : layout(its_layout), device(RamDevice::make(its_layout.bytes()).value()) {
    if (!format_mock(*device, layout)) std::abort();
    head = Lsn::make(1, 8);
    previous = 0;
  }

  // ---- a record's payload ----
  LogBuilder& op(std::uint8_t flags, std::span<const std::byte> bytes) {
    disk::LogOp op{};
    op.checkpoint = static_cast<std::uint32_t>(sequence);
    op.bytes = static_cast<std::uint32_t>(bytes.size());
    op.flags = flags;
    put(std::as_bytes(std::span(&op, 1)));
    put(bytes);
    ++operations;
    return *this;
  }
  LogBuilder& start(std::uint32_t items) {
    begun = head;
    disk::LogCheckpoint start{};
    start.magic = disk::kLogCheckpointMagic;
    start.item_count = items;
    start.sequence = sequence;
    return op(disk::kOpStart, std::as_bytes(std::span(&start, 1)));
  }
  LogBuilder& object(std::uint64_t number, std::uint64_t version) {
    const MockState state{version, 0};
    std::vector<std::byte> content(state.payload_bytes(number));
    state.fill(number, content);
    disk::MockItemFormat format{};
    format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kMock);
    format.item.regions = 2;
    format.bytes = static_cast<std::uint32_t>(content.size());
    format.object = number;
    format.version = version;
    format.address = layout.home(number).value;
    return op(0, std::as_bytes(std::span(&format, 1))).op(0, content);
  }
  // Chunks of a home block, each filled with its letter; `letters` by chunk, a dot for a clean one.
  LogBuilder& chunks(std::uint64_t number, const std::string& letters, std::uint16_t flags = 0) {
    struct {
      disk::BufferItemFormat format;
      disk::Le32 dirty;
    } item{};
    std::uint32_t mask = 0;
    std::uint16_t regions = 1;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      if (letters[i] == '.') continue;
      mask |= 1U << i;
      if (i == 0 || letters[i - 1] == '.') ++regions;
    }
    item.format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kBuffer);
    item.format.item.regions = regions;
    item.format.flags = flags;
    item.format.dirty_words = 1;
    item.format.length_blocks = 1;
    item.format.block_type = static_cast<std::uint16_t>(disk::BlockType::kMock);
    item.format.address = layout.home(number).value;
    item.dirty = mask;
    op(0, std::as_bytes(std::span(&item, 1)));
    for (std::size_t i = 0; i < letters.size();) {
      std::vector<std::byte> run;
      for (; i < letters.size() && letters[i] != '.'; ++i) {
        run.insert(run.end(), disk::kDirtyChunkBytes, static_cast<std::byte>(letters[i]));
      }
      if (!run.empty()) op(0, run);
      while (i < letters.size() && letters[i] == '.') ++i;
    }
    return *this;
  }
  LogBuilder& intent(std::uint64_t id, std::uint64_t target, std::uint64_t version) {
    struct {
      disk::IntentFormat format;
      disk::IntentMap thing;
    } item{};
    item.format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kMockIntent);
    item.format.item.regions = 1;
    item.format.count = 1;
    item.format.id = id;
    item.thing.inode = target;
    item.thing.file_block = version;
    return op(0, std::as_bytes(std::span(&item, 1)));
  }
  LogBuilder& commit() {
    disk::LogCommit commit{};
    commit.sequence = sequence;
    commit.start_lsn = begun.value;
    op(disk::kOpCommit, std::as_bytes(std::span(&commit, 1)));
    ++sequence;
    return *this;
  }
  // ---- the record ----
  Lsn write(Lsn tail) {
    const std::uint32_t sectors = disk::log_record_sectors(static_cast<std::uint32_t>(payload.size()));
    std::vector<std::byte> record(std::size_t{sectors} * kLogSectorBytes);
    const std::size_t at = std::size_t{disk::log_header_sectors(sectors)} * kLogSectorBytes;
    std::memcpy(record.data() + at, payload.data(), payload.size());
    const LogPlace place = layout.log();
    disk::seal_log_record(record,
                          {.uuid = place.uuid,
                           .lsn = head,
                           .tail_lsn = tail,
                           .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                           .operation_count = operations,
                           .previous_sector = previous},
                          place.sectors);
    for (std::uint32_t done = 0; done < sectors; done += 8) {
      const std::uint64_t sector = (head.block() + done) % place.sectors;
      alignas(4096) std::byte unit[4096];
      std::memcpy(unit, record.data() + std::size_t{done} * kLogSectorBytes, sizeof unit);
      if (!device->write(place.offset_bytes + sector * kLogSectorBytes, unit)) std::abort();
    }
    const Lsn lsn = head;
    previous = head.block();
    head = log_advance(head, sectors, place.sectors);
    payload.clear();
    operations = 0;
    return lsn;
  }
  // A checkpoint of one record that changes one object; its tail is its start unless told.
  Lsn change(std::uint64_t number, std::uint64_t version, Lsn tail = kNeverLsn) {
    start(1).object(number, version).commit();
    return write(tail == kNeverLsn ? head : tail);
  }

  // ---- the device ----
  using Block = std::array<std::byte, kFsBlockBytes>;
  Block read(std::uint64_t offset) {
    alignas(4096) Block block;
    if (!device->read(offset, block)) std::abort();
    return block;
  }
  void write_block(std::uint64_t offset, const Block& block) {
    if (!device->write(offset, block)) std::abort();
  }
  void flip(std::uint32_t sector, std::uint32_t byte) {
    const std::uint64_t at = layout.log().offset_bytes + std::uint64_t{sector} * kLogSectorBytes + byte;
    Block block = read(at / kFsBlockBytes * kFsBlockBytes);
    block[at % kFsBlockBytes] ^= std::byte{0x10};
    write_block(at / kFsBlockBytes * kFsBlockBytes, block);
  }
  void put_home(std::uint64_t number, std::uint64_t version, Lsn lsn) {
    Block block;
    fill_mock_block(block, layout.uuid, layout.home(number), number, {version, 0});
    disk::stamp_block(block, lsn);
    write_block(layout.home(number).bytes(), block);
  }
  Block home(std::uint64_t number) { return read(layout.home(number).bytes()); }
  std::vector<std::byte> image() {
    std::vector<std::byte> bytes(layout.bytes());
    if (!device->read(0, bytes)) std::abort();
    return bytes;
  }
  Result<LogScan> scan(std::uint64_t window = kLogWindowBytes) {
    LogReader reader(*device, layout.log());
    return scan_log(reader, window);
  }
  Result<std::unique_ptr<MockMachine>> mount(bool no_recovery = false) {
    return MockMachine::mount(*device, {.layout = layout, .no_recovery = no_recovery, .idle = true});
  }
  std::uint64_t version(std::uint64_t number) {
    const Block block = home(number);
    return disk::view<disk::MockBlock>(std::span<const std::byte>(block)).version;
  }

  const MockLayout layout;
  std::unique_ptr<RamDevice> device;
  Lsn head;
  Lsn begun;
  std::uint32_t previous = UINT32_MAX;
  std::uint64_t sequence = 1;
  std::vector<std::byte> payload;
  std::uint32_t operations = 0;

 private:
  void put(std::span<const std::byte> bytes) { payload.insert(payload.end(), bytes.begin(), bytes.end()); }
};

// Recovery and nothing more: no mount.
inline Result<Recovery> recover_only(LogBuilder& log) {
  MemoryBudget budget(16 << 20, 0);
  BufferCache cache(budget, {.expected_buffers = 64});
  BufferTarget target(cache, *log.device, log.layout.geometry());
  LogReader reader(*log.device, log.layout.log());
  return recover(reader, *log.device, cache, target, mock_replay_table());
}

}  // namespace tidewheel
