// What every device promises, asked of each of them.
#include <gtest/gtest.h>

#include <functional>

#include "base/thread.h"
#include "fs/block/file_device.h"
#include "fs/block/faulty_device.h"
#include "fs/block/limited_device.h"
#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"
#include "tests/fs/io.h"
#include "tests/fs/scratch.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kDeviceBytes = 8ULL << 20;
constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kSeed = 20240607;

struct DeviceKind {
  const char* name;
  std::function<std::unique_ptr<BlockDevice>(const ScratchFolder&)> make;
};

std::unique_ptr<BlockDevice> make_file(const ScratchFolder& scratch, bool direct, std::uint64_t piece,
                                       std::uint64_t cut, bool io_uring = true) {
  auto device = FileDevice::open({.path = scratch.file("image"),
                                  .size_bytes = kDeviceBytes,
                                  .direct = direct,
                                  .io_uring = io_uring,
                                  .queue_depth = 8});
  if (!device) {
    ADD_FAILURE() << device.error().sentence() << " " << device.error().detail;
    return nullptr;
  }
  if (piece != 0) (*device)->set_max_piece_bytes_for_test(piece);
  (*device)->set_short_transfers_for_test(cut);
  return std::move(device).value();
}

std::unique_ptr<BlockDevice> make_ram() { return RamDevice::make(kDeviceBytes).value(); }

class EachDevice : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    device_ = GetParam().make(scratch_);
    ASSERT_NE(device_, nullptr);
  }
  ScratchFolder scratch_;
  std::unique_ptr<BlockDevice> device_;
};

TEST_P(EachDevice, ReadsBackWhatWasWrittenInAnySegments) {
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  std::vector<std::byte> oracle(kDeviceBytes);
  AlignedBytes memory(64 * kBlock);
  for (int round = 0; round < 400; ++round) {
    const std::uint64_t blocks = 1 + rng.below(64);
    const std::uint64_t offset = rng.below(kDeviceBytes / kBlock - blocks + 1) * kBlock;
    const bool write = rng.below(2) == 0;
    if (write) memory.fill(rng);
    Flight flight;
    std::vector<IoSegment> segments;
    for (std::uint64_t at = 0; at < blocks;) {
      const std::uint64_t n = 1 + rng.below(blocks - at);
      segments.push_back({memory.data() + at * kBlock, n * kBlock});
      at += n;
    }
    auto& one = flight.add(write ? IoOp::kWrite : IoOp::kRead, offset, segments);
    flight.submit_all(*device_);
    flight.wait_all();
    ASSERT_TRUE(one.result) << one.result.error().sentence();
    ASSERT_EQ(one.completions, 1);
    if (write) {
      std::memcpy(oracle.data() + offset, memory.data(), blocks * kBlock);
    } else {
      ASSERT_EQ(std::memcmp(oracle.data() + offset, memory.data(), blocks * kBlock), 0)
          << "offset " << offset;
    }
  }
}

TEST_P(EachDevice, ReadsZerosWhereNothingWasWritten) {
  AlignedBytes memory(kBlock * 4);
  std::memset(memory.data(), 0x5A, memory.size());
  ASSERT_TRUE(device_->read(kDeviceBytes - memory.size(), memory.span()));
  for (std::byte b : memory.span()) ASSERT_EQ(b, std::byte{0});
}

TEST_P(EachDevice, RefusesWhatIsMisaligned) {
  AlignedBytes memory(kBlock * 2);
  EXPECT_EQ(device_->read(1, memory.span()).error().code, Reason::kMisaligned);
  EXPECT_EQ(device_->read(512, memory.span()).error().code, Reason::kMisaligned);
  EXPECT_EQ(device_->write(0, memory.span().first(100)).error().code, Reason::kMisaligned);
  EXPECT_EQ(device_->write(0, memory.span().first(kBlock + 1)).error().code, Reason::kMisaligned);
  EXPECT_EQ(device_->write(0, memory.span().first(0)).error().code, Reason::kMisaligned);
  IoRequest none{.op = IoOp::kWrite};
  EXPECT_EQ(device_->submit_and_wait(none).error().code, Reason::kMisaligned);
  const bool odd_memory_allowed = device_->memory_alignment() == 1;
  EXPECT_EQ(device_->read(0, memory.span().subspan(8, kBlock)).has_value(), odd_memory_allowed);
  EXPECT_EQ(device_->stats().write_bytes, 0U);
}

TEST_P(EachDevice, RefusesWhatLiesOutside) {
  AlignedBytes memory(kBlock * 2);
  EXPECT_EQ(device_->read(kDeviceBytes, memory.span()).error().code, Reason::kOutOfRange);
  EXPECT_EQ(device_->write(kDeviceBytes - kBlock, memory.span()).error().code, Reason::kOutOfRange);
  EXPECT_EQ(device_->write(UINT64_MAX - 4095, memory.span()).error().code, Reason::kOutOfRange);
  // Lengths whose sum wraps.
  std::vector<IoSegment> segments{{memory.data(), kBlock}, {memory.data(), UINT64_MAX - 4095}};
  IoRequest wrapping{.op = IoOp::kWrite, .segments = segments};
  EXPECT_EQ(device_->submit_and_wait(wrapping).error().code, Reason::kOutOfRange);
  EXPECT_TRUE(device_->write(kDeviceBytes - memory.size(), memory.span()));
  EXPECT_EQ(device_->stats().errors, 4U);
}

TEST_P(EachDevice, TakesMoreSegmentsThanTheKernelDoes) {
  Rng rng(kSeed);
  constexpr std::size_t kSegments = 2000;
  static_assert(kSegments > FileDevice::kMaxPieceSegments && kSegments * kBlock <= kDeviceBytes);
  AlignedBytes memory(kSegments * kBlock);
  memory.fill(rng);
  // Blocks in reverse, so that no two segments are neighbours.
  std::vector<IoSegment> segments;
  for (std::size_t i = kSegments; i-- > 0;) segments.push_back({memory.data() + i * kBlock, kBlock});
  Flight flight;
  auto& one = flight.add(IoOp::kWrite, 0, segments);
  flight.submit_all(*device_);
  flight.wait_all();
  ASSERT_TRUE(one.result) << one.result.error().sentence();
  AlignedBytes back(memory.size());
  ASSERT_TRUE(device_->read(0, back.span()));
  for (std::size_t i = 0; i < kSegments; ++i) {
    ASSERT_EQ(std::memcmp(back.data() + i * kBlock, memory.data() + (kSegments - 1 - i) * kBlock, kBlock), 0)
        << i;
  }
  EXPECT_EQ(device_->stats().writes, 1U);
  EXPECT_EQ(device_->stats().write_bytes, memory.size());
}

TEST_P(EachDevice, ServesManySubmittersAtOnce) {
  constexpr std::uint64_t kThreads = 8, kRounds = 20, kRegion = kDeviceBytes / kThreads;
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back("submit", [this, t] {
      Rng rng(kSeed + t);
      AlignedBytes memory(kRegion), back(kRegion);
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        memory.fill(rng);
        Flight flight;
        for (std::uint64_t at = 0; at < kRegion; at += kRegion / 16) {
          flight.add(IoOp::kWrite, t * kRegion + at, {{memory.data() + at, kRegion / 16}});
        }
        flight.add(IoOp::kFlush, 0, {});
        flight.submit_all(*device_);
        flight.wait_all();
        for (auto& one : flight.all()) {
          EXPECT_TRUE(one.result);
          EXPECT_EQ(one.completions, 1);
        }
        EXPECT_TRUE(device_->read(t * kRegion, back.span()));
        EXPECT_EQ(std::memcmp(back.data(), memory.data(), kRegion), 0);
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(device_->stats().writes, kThreads * kRounds * 16);
  EXPECT_EQ(device_->stats().flushes, kThreads * kRounds);
}

TEST_P(EachDevice, CountsByKindAndCause) {
  AlignedBytes memory(kBlock * 4);
  ASSERT_TRUE(device_->write(0, memory.span(), IoCause::kData));
  ASSERT_TRUE(device_->write(0, memory.span().first(kBlock), IoCause::kLog));
  ASSERT_TRUE(device_->write(0, memory.span().first(kBlock * 2), IoCause::kMetadata));
  ASSERT_TRUE(device_->read(0, memory.span()));
  ASSERT_TRUE(device_->flush());
  EXPECT_FALSE(device_->read(1, memory.span()));
  const DeviceStats s = device_->stats();
  EXPECT_EQ(s.writes, 3U);
  EXPECT_EQ(s.reads, 1U);
  EXPECT_EQ(s.flushes, 1U);
  EXPECT_EQ(s.errors, 1U);
  EXPECT_EQ(s.read_bytes, kBlock * 4);
  EXPECT_EQ(s.write_bytes, kBlock * 7);
  EXPECT_EQ(s.write_bytes_data, kBlock * 4);
  EXPECT_EQ(s.write_bytes_log, kBlock);
  EXPECT_EQ(s.write_bytes_metadata, kBlock * 2);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, EachDevice,
    testing::Values(
        DeviceKind{"FileDirect", [](const ScratchFolder& s) { return make_file(s, true, 0, 0); }},
        DeviceKind{"FileBuffered", [](const ScratchFolder& s) { return make_file(s, false, 0, 0); }},
        DeviceKind{"FileInPieces", [](const ScratchFolder& s) { return make_file(s, true, 3 * kBlock, 0); }},
        DeviceKind{"FileShortDirect", [](const ScratchFolder& s) { return make_file(s, true, 0, kBlock); }},
        DeviceKind{"FileShortBuffered", [](const ScratchFolder& s) { return make_file(s, false, 0, 3001); }},
        DeviceKind{"PoolDirect", [](const ScratchFolder& s) { return make_file(s, true, 0, 0, false); }},
        DeviceKind{"PoolBuffered", [](const ScratchFolder& s) { return make_file(s, false, 0, 0, false); }},
        DeviceKind{"PoolInPieces",
                   [](const ScratchFolder& s) { return make_file(s, true, 3 * kBlock, 0, false); }},
        DeviceKind{"PoolShortBuffered",
                   [](const ScratchFolder& s) { return make_file(s, false, 0, 3001, false); }},
        DeviceKind{"Ram", [](const ScratchFolder&) { return make_ram(); }},
        DeviceKind{"LimitedRam",
                   [](const ScratchFolder&) {
                     return LimitedDevice::make(make_ram(), {.bytes_per_s = 8ULL << 30,
                                                             .latency = microseconds(1),
                                                             .queue_depth = 4})
                         .value();
                   }},
        DeviceKind{"LimitedFile",
                   [](const ScratchFolder& s) {
                     return LimitedDevice::make(
                                make_file(s, true, 0, 0),
                                {.bytes_per_s = 8ULL << 30, .latency = {0}, .queue_depth = 4})
                         .value();
                   }},
        DeviceKind{"FaultyRam",
                   [](const ScratchFolder&) { return std::make_unique<FaultyDevice>(make_ram()); }}),
    [](const testing::TestParamInfo<DeviceKind>& kind) { return kind.param.name; });

TEST(NullDevice, DropsWritesAndRefusesReads) {
  NullDevice device(kDeviceBytes + 5);
  EXPECT_EQ(device.size_bytes(), kDeviceBytes);
  EXPECT_FALSE(device.keeps_data());
  AlignedBytes memory(kBlock);
  EXPECT_TRUE(device.write(0, memory.span()));
  EXPECT_TRUE(device.flush());
  EXPECT_EQ(device.read(0, memory.span()).error().code, Reason::kUnsupported);
  EXPECT_EQ(device.write(kDeviceBytes, memory.span()).error().code, Reason::kOutOfRange);
  EXPECT_EQ(device.stats().write_bytes, kBlock);
  EXPECT_EQ(device.stats().errors, 2U);
}

TEST(RamDevice, TakesMemoryOnlyWhereWritten) {
  auto device = RamDevice::make(64ULL << 30).value();
  AlignedBytes memory(kBlock * 2);
  EXPECT_EQ(device->resident_bytes(), 0U);
  ASSERT_TRUE(device->read(5ULL << 30, memory.span()));
  EXPECT_EQ(device->resident_bytes(), 0U);
  ASSERT_TRUE(device->write(5ULL << 30, memory.span()));
  EXPECT_EQ(device->resident_bytes(), RamDevice::kChunkBytes);
  // Across the edge of two chunks.
  ASSERT_TRUE(device->write((7ULL << 30) - kBlock, memory.span()));
  EXPECT_EQ(device->resident_bytes(), 3 * RamDevice::kChunkBytes);
}

TEST(RamDevice, RefusesSizesItCannotHave) {
  EXPECT_EQ(RamDevice::make(0).error().code, Reason::kInvalidArgument);
  EXPECT_EQ(RamDevice::make(4097).error().code, Reason::kInvalidArgument);
  EXPECT_EQ(RamDevice::make(1ULL << 62).error().code, Reason::kNoMemory);
  EXPECT_EQ(RamDevice::make(UINT64_MAX - 4095).error().code, Reason::kNoMemory);
}

}  // namespace
}  // namespace tidewheel
