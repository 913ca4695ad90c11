// Question: how long does recovery take at most, that is of a log of 512 MiB that is full?
// Expected: reading it three times and its CRCs, 1 s; a log byte is copied home once more. Homes are read one
// by one where only part of them is in the log: on a file that is what takes longest.
//
// A log is filled by transactions that each change 64 bytes of one of `blocks`, drawn by seed, with nobody
// pushing home, and left as by a crash, all homes as they were before the first. Recovery starts with a cold
// cache of 1 GiB, of which half may be homes that wait to be written. On a RAM device, and on an image file
// (O_DIRECT where the host has it) in $TMPDIR.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "bench/micro/interleaved.h"
#include "fs/block/file_device.h"
#include "fs/block/ram_device.h"
#include "fs/recovery/recovery.h"
#include "fs/trans/transaction.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kLogBytes = 512ULL << 20;
constexpr std::uint64_t kLogBlock = 1;
constexpr std::uint64_t kFirstHome = kLogBlock + kLogBytes / kFsBlockBytes;
constexpr std::uint64_t kPieceBytes = 4ULL << 20;
constexpr std::uint64_t kFillBudget = 4ULL << 30;
constexpr std::uint64_t kRecoveryBudget = 1ULL << 30;
constexpr std::uint32_t kPlaces = 62;  // of 64 bytes, in a block behind its header

template <class T>
void must(const T& result) {
  if (!result.has_value()) std::abort();
}

disk::Geometry geometry_of(std::uint64_t blocks) {
  disk::Geometry geometry;
  geometry.device_blocks = kFirstHome + blocks;
  geometry.ag_blocks = static_cast<std::uint32_t>(geometry.device_blocks);
  geometry.ag_count = 1;
  geometry.ag_block_log = 31;
  geometry.log_start = {kLogBlock};
  return geometry;
}

LogPlace log_place(const disk::Geometry& geometry) {
  return {.offset_bytes = kLogBlock * kFsBlockBytes,
          .sectors = static_cast<std::uint32_t>(kLogBytes / kLogSectorBytes),
          .uuid = geometry.uuid};
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Piece = std::unique_ptr<std::byte, Free>;
Piece make_piece() { return Piece(static_cast<std::byte*>(std::aligned_alloc(4096, kPieceBytes))); }

// What was changed last in each place: 0 where nothing was.
using Expected = std::vector<std::array<std::uint32_t, kPlaces>>;

void format_homes(BlockDevice& device, const disk::Geometry& geometry, std::uint64_t blocks) {
  const Piece piece = make_piece();
  constexpr std::uint64_t kEach = kPieceBytes / kFsBlockBytes;
  for (std::uint64_t first = 0; first < blocks; first += kEach) {
    const std::uint64_t some = std::min(kEach, blocks - first);
    std::memset(piece.get(), 0, kPieceBytes);
    for (std::uint64_t i = 0; i < some; ++i) {
      const std::span<std::byte> block(piece.get() + i * kFsBlockBytes, kFsBlockBytes);
      const DeviceAddress address{kFirstHome + first + i};
      disk::start_block(block, disk::kMockMagic, geometry.uuid, address, first + i);
      disk::stamp_block(block, kNoLsn);
    }
    must(device.write(DeviceAddress{kFirstHome + first}.bytes(), {piece.get(), some * kFsBlockBytes}));
  }
}

// Answers the number of transactions.
std::uint32_t fill_log(BlockDevice& device, const disk::Geometry& geometry, Expected& expected) {
  MemoryBudget budget(kFillBudget, 0);
  BufferCache cache(budget, {.expected_buffers = expected.size()});
  BufferTarget target(cache, device, geometry);
  JournalOptions options;
  options.log.worker_interval = Duration::max();
  options.log.soft_bytes = 2 << 20;  // else few blocks would be relogged in one checkpoint for ever
  options.pusher = false;
  const Lsn start = Lsn::make(1, 0);
  Journal journal(target, log_place(geometry), LogPosition{.tail = start, .head = start}, options);
  Log& log = journal.log();
  const auto free_bytes = [&] {
    const std::uint64_t used = log_distance_bytes(start, log.head(), log_place(geometry).sectors);
    return static_cast<std::int64_t>(kLogBytes - used) - log.reserve_granted_bytes();
  };
  const std::uint32_t payload = disk::log_bytes_of_buffer(1);
  Rng rng(1);
  std::uint32_t changes = 0;
  while (changes % 64 != 0 || free_bytes() > (1 << 20)) {
    ++changes;
    const std::uint64_t number = rng.below(expected.size());
    const std::uint32_t place = changes % kPlaces;
    auto transaction = Transaction::begin(journal, {.payload_bytes = payload});
    must(transaction);
    const auto read = transaction->read({kFirstHome + number}, 1, disk::BlockType::kMock);
    must(read);
    const std::uint32_t at = 128 + place * 64;
    std::memcpy((*read)->bytes().data() + at, &changes, sizeof changes);
    transaction->log(**read, at, at + 63);
    must(transaction->commit());
    expected[number][place] = changes;
  }
  must(log.force_all());
  journal.close();
  return changes;
}

std::unique_ptr<BlockDevice> copy_to_file(BlockDevice& from, const std::string& path) {
  auto file = FileDevice::open({.path = path, .size_bytes = from.size_bytes()});
  must(file);
  const Piece piece = make_piece();
  for (std::uint64_t at = 0; at < from.size_bytes(); at += kPieceBytes) {
    const std::span<std::byte> bytes(piece.get(), std::min(kPieceBytes, from.size_bytes() - at));
    must(from.read(at, bytes));
    must((*file)->write(at, bytes));
  }
  must((*file)->flush());
  return std::move(*file);
}

std::uint64_t wrong_homes(BlockDevice& device, const Expected& expected) {
  const Piece piece = make_piece();
  constexpr std::uint64_t kEach = kPieceBytes / kFsBlockBytes;
  std::uint64_t wrong = 0;
  for (std::uint64_t first = 0; first < expected.size(); first += kEach) {
    const std::uint64_t some = std::min<std::uint64_t>(kEach, expected.size() - first);
    must(device.read(DeviceAddress{kFirstHome + first}.bytes(), {piece.get(), some * kFsBlockBytes}));
    for (std::uint64_t i = 0; i < some; ++i) {
      for (std::uint32_t place = 0; place < kPlaces; ++place) {
        std::uint32_t found = 0;
        std::memcpy(&found, piece.get() + i * kFsBlockBytes + 128 + place * 64, sizeof found);
        wrong += found == expected[first + i][place] ? 0 : 1;
      }
    }
  }
  return wrong;
}

struct Timed {
  Recovery recovery;
  double seconds = 0;
  DeviceStats device;
};

Timed timed_recovery(BlockDevice& device, const disk::Geometry& geometry) {
  MemoryBudget budget(kRecoveryBudget, 0);
  BufferCache cache(budget, {.expected_buffers = kRecoveryBudget / kFsBlockBytes});
  BufferTarget target(cache, device, geometry);
  ReplayTable table;
  const DeviceStats before = device.stats();
  const bench::Stopwatch watch;
  LogReader reader(device, log_place(geometry));
  auto recovered = recover(reader, device, cache, target, table);
  Timed timed;
  timed.seconds = watch.ns() * 1e-9;
  must(recovered);
  timed.recovery = std::move(*recovered);
  timed.device = device.stats();
  timed.device.reads -= before.reads;
  timed.device.read_bytes -= before.read_bytes;
  timed.device.writes -= before.writes;
  timed.device.write_bytes -= before.write_bytes;
  return timed;
}

void recovery(benchmark::State& state) {
  const auto blocks = static_cast<std::uint64_t>(state.range(0));
  const bool on_file = state.range(1) != 0;
  const disk::Geometry geometry = geometry_of(blocks);
  Expected expected(blocks);
  auto made = RamDevice::make(geometry.device_blocks * kFsBlockBytes);
  must(made);
  std::unique_ptr<BlockDevice> device = std::move(*made);
  format_homes(*device, geometry, blocks);
  const std::uint32_t changes = fill_log(*device, geometry, expected);
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "tidewheel-micro-recovery.img";
  if (on_file) device = copy_to_file(*device, path.string());
  if (wrong_homes(*device, expected) == 0) state.SkipWithError("the homes were right before recovery");
  Timed timed;
  for (auto _ : state) {
    timed = timed_recovery(*device, geometry);
    state.SetIterationTime(timed.seconds);
  }
  if (wrong_homes(*device, expected) != 0) state.SkipWithError("a change is missing");
  if (!timed_recovery(*device, geometry).recovery.was_clean) state.SkipWithError("the log is not clean");
  device.reset();
  if (on_file) std::filesystem::remove(path);
  const double mib = 1 << 20;
  state.counters["seconds"] = timed.seconds;
  state.counters["log_MiB"] = timed.recovery.position.head.block() * double{kLogSectorBytes} / mib;
  state.counters["records"] = timed.recovery.records;
  state.counters["checkpoints"] = static_cast<double>(timed.recovery.checkpoints);
  state.counters["items"] = static_cast<double>(timed.recovery.items.replayed);
  state.counters["transactions"] = changes;
  state.counters["reads"] = static_cast<double>(timed.device.reads);
  state.counters["read_MiB"] = static_cast<double>(timed.device.read_bytes) / mib;
  state.counters["writes"] = static_cast<double>(timed.device.writes);
  state.counters["written_MiB"] = static_cast<double>(timed.device.write_bytes) / mib;
}
BENCHMARK(recovery)
    ->ArgsProduct({{16384, 65536}, {0, 1}})
    ->ArgNames({"blocks", "file"})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tidewheel
