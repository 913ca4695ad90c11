// Rules of the devices that nothing else would miss.
#include <gtest/gtest.h>

#include <memory>

#include "base/clock.h"
#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "fs/block/file_device.h"
#include "fs/block/limited_device.h"
#include "fs/block/ram_device.h"
#include "fs/block/recorded_device.h"
#include "fs/block/sim_device.h"
#include "tests/fs/io.h"
#include "tests/fs/scratch.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBlock = 4096;

AlignedBytes filled(char letter, std::uint64_t blocks = 1) {
  AlignedBytes memory(blocks * kBlock);
  std::memset(memory.data(), letter, memory.size());
  return memory;
}

// Each segment fits by itself, and both together do not.
TEST(FaultBlock, SegmentsCountTogetherForTheDevicesEnd) {
  const auto device = RamDevice::make(4 * kBlock).value();
  AlignedBytes memory = filled('a', 2);
  Flight flight;
  const std::vector<IoSegment> both = {{memory.data(), kBlock}, {memory.data() + kBlock, kBlock}};
  auto& fits = flight.add(IoOp::kWrite, 2 * kBlock, both);
  auto& beyond = flight.add(IoOp::kWrite, 3 * kBlock, both);
  flight.submit_all(*device);
  EXPECT_TRUE(fits.result.has_value());
  ASSERT_FALSE(beyond.result.has_value());
  EXPECT_EQ(beyond.result.error().code, Reason::kOutOfRange);
}

// A device that can do no more than it must.
class PlainDevice final : public BlockDevice {
 public:
  explicit PlainDevice(std::uint64_t bytes) : ram_(RamDevice::make(bytes).value()) {}
  std::string_view name() const override { return "plain"; }
  std::uint64_t size_bytes() const override { return ram_->size_bytes(); }
  std::uint32_t block_bytes() const override { return ram_->block_bytes(); }
  std::uint32_t memory_alignment() const override { return ram_->memory_alignment(); }
  void submit(IoRequest& request) override { ram_->submit(request); }
  DeviceStats stats() const override { return ram_->stats(); }

 private:
  std::unique_ptr<RamDevice> ram_;
};

TEST(FaultBlock, DataInTheLastPieceOfADeviceIsFound) {
  PlainDevice device((1 << 20) + kBlock);
  EXPECT_FALSE(device.holds_data().value());
  AlignedBytes memory = filled('a');
  ASSERT_TRUE(device.write(1 << 20, memory.span()).has_value());
  EXPECT_TRUE(device.holds_data().value());
}

// ---- the device that fails ----

TEST(FaultBlock, OfTwoRulesThatApplyTheFirstDecides) {
  FaultyDevice device(RamDevice::make(4 * kBlock).value());
  AlignedBytes memory = filled('a');
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kNoSpace, .first = 1});
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .first = 1, .count = 2});
  EXPECT_TRUE(device.write(0, memory.span()).has_value());
  EXPECT_EQ(device.write(0, memory.span()).error().code, Reason::kNoSpace);
  EXPECT_EQ(device.write(0, memory.span()).error().code, Reason::kIo) << "the second has counted it as well";
  EXPECT_TRUE(device.write(0, memory.span()).has_value());
}

// What reaches the device of a torn write is a write like it: its flush comes before it.
TEST(FaultBlock, ATornWriteFlushesFirstAsTheWholeOneWould) {
  const auto ram = RamDevice::make(4 * kBlock).value();
  auto recorded = std::make_unique<RecordedDevice>(*ram);
  RecordedDevice& trace = *recorded;
  FaultyDevice device(std::move(recorded));
  AlignedBytes memory = filled('a');
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kTorn});
  EXPECT_FALSE(device.write_durably(0, memory.span()).has_value());
  ASSERT_EQ(trace.trace().ops.size(), 1U);
  EXPECT_TRUE(trace.trace().ops[0].preflush);
}

// ---- the disk with a cache ----

TEST(FaultBlock, APreflushTakesALatencyBeforeItsWrite) {
  VirtualClock clock;
  SimDevice device({.size_bytes = 4 * kBlock, .latency = microseconds(10), .spread = Duration{0}}, clock);
  AlignedBytes memory = filled('a');
  Flight flight;
  auto& one = flight.add(IoOp::kWrite, 0, {{memory.data(), kBlock}});
  one.request.preflush = true;
  const Instant begun = clock.now();
  device.submit(one.request);
  EXPECT_EQ(device.next_due() - begun, microseconds(20));
  clock.set(device.next_due());
  device.run_due();
}

// What is on its way when the power goes may be there, and may not.
TEST(FaultBlock, AWriteInFlightAtAPowerCutIsThereNowAndThen) {
  std::uint32_t there = 0;
  constexpr std::uint32_t kRounds = 64;
  for (std::uint64_t seed = 1; seed <= kRounds; ++seed) {
    VirtualClock clock;
    SimDevice device({.size_bytes = 4 * kBlock, .seed = seed}, clock);
    AlignedBytes memory = filled('a');
    Flight flight;
    device.submit(flight.add(IoOp::kWrite, 0, {{memory.data(), kBlock}}).request);
    device.power_cut(seed);
    device.power_on();
    there += device.holds_data().value() ? 1 : 0;
  }
  EXPECT_GT(there, 0U);
  EXPECT_LT(there, kRounds);
}

// ---- queues ----

// Nobody submits more than the queue holds: whoever would waits.
SIM_TEST_WITH(FaultBlockSim, ALimitedQueueNeverHoldsMore, (sim::Options{.schedules = 50})) {
  constexpr std::uint32_t kDepth = 2, kRequests = 8;
  LimitedDevice device(RamDevice::make(kRequests * kBlock).value(),
                       {.bytes_per_s = 0, .latency = microseconds(50), .queue_depth = kDepth});
  AlignedBytes memory = filled('a', kRequests);
  Flight flight;
  for (std::uint64_t i = 0; i < kRequests; ++i) {
    flight.add(IoOp::kWrite, i * kBlock, {{memory.data() + i * kBlock, kBlock}});
  }
  std::size_t submitted = 0;
  for (auto& one : flight.all()) {
    device.submit(one.request);
    ++submitted;
    // One more may have left the queue and not have told its owner yet.
    SIM_CHECK(submitted - flight.over() <= kDepth + 1);
  }
  flight.wait_all();
}

// The completion thread is inside the first's owner, so that nothing completes: the second fills the queue,
// and who submits the third waits.
TEST(FaultBlock, AFileDevicesFullQueueBlocksItsSubmitter) {
  ScratchFolder scratch;
  auto device =
      FileDevice::open({.path = scratch.file("image"), .size_bytes = 1 << 20, .queue_depth = 1}).value();
  struct Gate {
    Atomic<bool> inside{false}, open{false};
  } gate;
  AlignedBytes memory = filled('a');
  const IoSegment segment{memory.data(), kBlock};
  IoRequest first{.op = IoOp::kWrite,
                  .offset_bytes = 0,
                  .segments = {&segment, 1},
                  .done =
                      [](IoRequest& request, Result<void>) {
                        auto& its = *static_cast<Gate*>(request.owner);
                        its.inside.store(true, std::memory_order_release);
                        while (!its.open.load(std::memory_order_acquire)) yield_thread();
                      },
                  .owner = &gate};
  device->submit(first);
  while (!gate.inside.load(std::memory_order_acquire)) yield_thread();
  Flight flight;
  for (std::uint64_t i = 1; i <= 2; ++i) flight.add(IoOp::kWrite, i * kBlock, {{memory.data(), kBlock}});
  Atomic<std::uint32_t> submitted{0};
  Thread submitter("submit", [&] {
    for (auto& one : flight.all()) {
      device->submit(one.request);
      submitted.fetch_add(1, std::memory_order_release);
    }
  });
  while (submitted.load(std::memory_order_acquire) == 0) yield_thread();
  for (int i = 0; i < 2000; ++i) {
    yield_thread();
    ASSERT_EQ(submitted.load(std::memory_order_acquire), 1U);
  }
  gate.open.store(true, std::memory_order_release);
  submitter.join();
  flight.wait_all();
  for (auto& one : flight.all()) EXPECT_TRUE(one.result.has_value());
}

}  // namespace
}  // namespace tidewheel
