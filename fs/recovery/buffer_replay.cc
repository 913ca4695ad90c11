// Buffers: runs of dirty chunks over what is at home.
#include <bit>

#include "fs/format/inode_core.h"
#include "fs/recovery/replay.h"

namespace tidewheel {
namespace {

// An item as it was logged, checked.
struct LoggedBuffer {
  DeviceAddress address;
  std::uint32_t length_blocks = 0;
  disk::BlockType type{};
  std::uint16_t flags = 0;
  std::span<const std::byte> dirty_words;

  bool dirty(std::uint32_t chunk) const {
    const std::uint32_t word = chunk / 32;
    if (word * 4 >= dirty_words.size()) return false;
    return (disk::view<disk::Le32>(dirty_words, std::size_t{word} * 4) >> (chunk % 32) & 1U) != 0;
  }
  std::uint32_t chunks() const { return length_blocks * kFsBlockBytes / disk::kDirtyChunkBytes; }
};

Result<LoggedBuffer> read_item(const RecoveredItem& item, const disk::Geometry& geometry) {
  const auto first = item.regions.front();
  if (first.size() < sizeof(disk::BufferItemFormat)) return TW_FAIL(kCorrupt);
  const auto& format = disk::view<disk::BufferItemFormat>(first);
  const std::uint32_t words = format.dirty_words;
  const std::uint32_t blocks = format.length_blocks;
  if (words > disk::kMaxDirtyWords || first.size() != sizeof format + std::size_t{words} * 4) {
    return TW_FAIL(kCorrupt);
  }
  if (blocks == 0 || blocks > disk::kMaxBufferBytes / kFsBlockBytes ||
      !disk::known_block_type(format.block_type)) {
    return TW_FAIL(kCorrupt);
  }
  const DeviceAddress address{format.address};
  if (address.value >= geometry.device_blocks || blocks > geometry.device_blocks - address.value) {
    return TW_FAIL(kCorrupt);
  }
  const LoggedBuffer logged{.address = address,
                            .length_blocks = blocks,
                            .type = static_cast<disk::BlockType>(format.block_type.get()),
                            .flags = format.flags,
                            .dirty_words = first.subspan(sizeof format)};
  for (std::uint32_t chunk = logged.chunks(); chunk < words * 32; ++chunk) {
    if (logged.dirty(chunk)) return TW_FAIL(kCorrupt);
  }
  return logged;
}

// Calls visit(first byte, the run's bytes); each run is a region of its own. False: they do not match.
template <class Visit>
bool for_each_run(const LoggedBuffer& logged, const RecoveredItem& item, Visit visit) {
  std::size_t region = 1;
  for (std::uint32_t chunk = 0; chunk < logged.chunks();) {
    if (!logged.dirty(chunk)) {
      ++chunk;
      continue;
    }
    const std::uint32_t start = chunk;
    while (chunk < logged.chunks() && logged.dirty(chunk)) ++chunk;
    const std::size_t bytes = std::size_t{chunk - start} * disk::kDirtyChunkBytes;
    if (region == item.regions.size() || item.regions[region].size() != bytes) return false;
    visit(std::size_t{start} * disk::kDirtyChunkBytes, item.regions[region]);
    ++region;
  }
  return region == item.regions.size();
}

// The inode's own LSN decides for each slot. A cluster that is not whole is looked at inode by inode too:
// what is torn has no right CRC.
void replay_inodes(const LoggedBuffer& logged, const RecoveredItem& item, const disk::Geometry& geometry,
                   std::span<std::byte> cluster) {
  std::array<bool, disk::kInodesPerCluster> keep{};
  const std::uint64_t first = geometry.fs_block(logged.address).value << disk::kInodesPerBlockLog;
  for (std::uint32_t i = 0; i < disk::kInodesPerCluster; ++i) {
    const auto& inode =
        disk::view<disk::DiskInode>(std::span<const std::byte>(cluster), std::size_t{i} * disk::kInodeBytes);
    keep[i] = inode.core.head.lsn >= item.lsn.value &&
              disk::verify_inode(inode, {first + i}, geometry, disk::kNewestLsn).good();
  }
  for_each_run(logged, item, [&](std::size_t at, std::span<const std::byte> run) {
    for (std::size_t done = 0; done < run.size(); done += disk::kDirtyChunkBytes) {
      const std::size_t slot = (at + done) / disk::kInodeBytes;
      if (keep[slot]) continue;
      std::memcpy(cluster.data() + at + done, run.data() + done, disk::kDirtyChunkBytes);
      disk::view<disk::DiskInode>(cluster, slot * disk::kInodeBytes).core.head.lsn = item.lsn.value;
    }
  });
}

class BufferReplay final : public ReplayOperation {
 public:
  Result<void> collect(const RecoveredItem& item, LogReplay& replay) override {
    const auto logged = read_item(item, replay.target().geometry());
    if (!logged) return Unexpected(logged.error());
    if (!for_each_run(*logged, item, [](std::size_t, std::span<const std::byte>) {}))
      return TW_FAIL(kCorrupt);
    if ((logged->flags & disk::kBufferCancel) != 0) replay.cancel(logged->address, logged->length_blocks);
    if ((logged->flags & disk::kBufferInode) != 0 && logged->length_blocks != disk::kInodeClusterBlocks) {
      return TW_FAIL(kCorrupt);
    }
    return {};
  }

  Result<void> replay(const RecoveredItem& item, LogReplay& replay) override {
    const auto logged = read_item(item, replay.target().geometry());
    if (!logged) return Unexpected(logged.error());
    if ((logged->flags & disk::kBufferCancel) != 0) return {};
    if (replay.is_cancelled(logged->address, logged->length_blocks)) return {};
    const bool is_new = (logged->flags & disk::kBufferNew) != 0;
    auto home = replay.home(logged->address, logged->length_blocks, logged->type, is_new);
    if (!home) return Unexpected(home.error());
    const std::span<std::byte> bytes = home->buffer->bytes();
    if ((logged->flags & disk::kBufferInode) != 0) {
      replay_inodes(*logged, item, replay.target().geometry(), bytes);
      return replay.send_home(std::move(home->buffer), disk::kKeepLsn);
    }
    if (home->whole &&
        disk::view<disk::BlockHeader>(std::span<const std::byte>(bytes)).lsn >= item.lsn.value) {
      replay.count_newer_at_home();
      return {};
    }
    if (is_new) std::memset(bytes.data(), 0, bytes.size());
    for_each_run(*logged, item, [&](std::size_t at, std::span<const std::byte> run) {
      std::memcpy(bytes.data() + at, run.data(), run.size());
    });
    // What lies in memory from now on says how far it has been replayed, as it will at home: the logged
    // header carries the LSN of the write before.
    disk::view<disk::BlockHeader>(bytes).lsn = item.lsn.value;
    return replay.send_home(std::move(home->buffer), item.lsn);
  }
};

}  // namespace

ReplayOperation& buffer_replay() {
  static BufferReplay operation;  // holds nothing
  return operation;
}

}  // namespace tidewheel
