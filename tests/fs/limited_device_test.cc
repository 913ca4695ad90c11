#include "fs/block/limited_device.h"

#include <gtest/gtest.h>

#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"
#include "tests/fs/io.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kDeviceBytes = 64ULL << 20;

std::unique_ptr<BlockDevice> null_device() { return std::make_unique<NullDevice>(kDeviceBytes); }

class SteppedDevice : public testing::Test {
 protected:
  // Goes to each next completion in turn; where the clock stood at each.
  std::vector<std::int64_t> run_to_the_end(LimitedDevice& device) {
    std::vector<std::int64_t> moments;
    while (device.next_due() != Instant::max()) {
      clock_.set(device.next_due());
      for (std::size_t n = device.run_due(); n != 0; --n) moments.push_back(clock_.now().ns);
    }
    return moments;
  }
  Flight::One& write(Flight& flight, BlockDevice& device, std::uint64_t bytes) {
    auto& one = flight.add(IoOp::kWrite, 0, {{memory_.data(), bytes}});
    device.submit(one.request);
    return one;
  }
  VirtualClock clock_{Instant{1'000}};
  AlignedBytes memory_{1 << 20};
};

TEST_F(SteppedDevice, TakesExactlyBytesOverBandwidth) {
  constexpr std::uint64_t kRate = 1'000'003;  // divides nothing
  LimitedDevice device(null_device(), {.bytes_per_s = kRate, .latency = {0}}, clock_);
  Flight flight;
  std::vector<std::int64_t> expected;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    const std::uint64_t bytes = (1 + i % 7) * kBlock;
    total += bytes;
    expected.push_back(1'000 + static_cast<std::int64_t>(
                                   static_cast<unsigned __int128>(total) * 1'000'000'000U / kRate));
    write(flight, device, bytes);
  }
  EXPECT_EQ(run_to_the_end(device), expected);
  EXPECT_EQ(flight.over(), 1'000U);
}

TEST_F(SteppedDevice, LetsLatenciesPassSideBySide) {
  LimitedDevice device(null_device(), {.bytes_per_s = 4'096'000, .latency = milliseconds(5)}, clock_);
  Flight flight;
  for (int i = 0; i < 3; ++i) write(flight, device, kBlock);  // 1 ms each in the pipe
  const std::int64_t ms = 1'000'000;
  EXPECT_EQ(run_to_the_end(device),
            (std::vector<std::int64_t>{1'000 + 6 * ms, 1'000 + 7 * ms, 1'000 + 8 * ms}));
}

TEST_F(SteppedDevice, SavesNoBandwidthWhileIdle) {
  LimitedDevice device(null_device(), {.bytes_per_s = 4'096'000, .latency = {0}}, clock_);
  Flight flight;
  write(flight, device, kBlock);
  run_to_the_end(device);
  clock_.advance(seconds(100));
  const std::int64_t start = clock_.now().ns;
  for (int i = 0; i < 2; ++i) write(flight, device, kBlock);
  EXPECT_EQ(run_to_the_end(device), (std::vector<std::int64_t>{start + 1'000'000, start + 2'000'000}));
}

TEST_F(SteppedDevice, CompletesNothingBeforeItsTime) {
  LimitedDevice device(null_device(), {.bytes_per_s = 0, .latency = microseconds(10)}, clock_);
  Flight flight;
  write(flight, device, kBlock);
  EXPECT_EQ(device.run_due(), 0U);
  clock_.advance(nanoseconds(9'999));
  EXPECT_EQ(device.run_due(), 0U);
  EXPECT_EQ(flight.over(), 0U);
  clock_.advance(nanoseconds(1));
  EXPECT_EQ(device.run_due(), 1U);
  EXPECT_EQ(flight.over(), 1U);
}

TEST_F(SteppedDevice, LetsAFlushOvertakeWritesUnderWay) {
  LimitedDevice device(null_device(), {.bytes_per_s = 4'096'000, .latency = microseconds(10)}, clock_);
  Flight flight;
  auto& written = write(flight, device, 100 * kBlock);
  auto& flush = flight.add(IoOp::kFlush, 0, {});
  device.submit(flush.request);
  EXPECT_EQ(device.next_due(), Instant{1'000} + microseconds(10));
  run_to_the_end(device);
  EXPECT_EQ(flight.order(), (std::vector<Flight::One*>{&flush, &written}));
}

TEST_F(SteppedDevice, HandsErrorsUpInTime) {
  LimitedDevice device(null_device(), {.bytes_per_s = 0, .latency = milliseconds(1)}, clock_);
  Flight flight;
  auto& one = flight.add(IoOp::kRead, 0, {{memory_.data(), kBlock}});
  device.submit(one.request);
  EXPECT_EQ(flight.over(), 0U);
  run_to_the_end(device);
  EXPECT_EQ(one.result.error().code, Reason::kUnsupported);
}

TEST_F(SteppedDevice, RunsWhatACompletionSubmits) {
  LimitedDevice device(null_device(), {.bytes_per_s = 0, .latency = milliseconds(1)}, clock_);
  struct Chain {
    LimitedDevice* device;
    int left;
  } chain{&device, 5};
  const IoSegment segment{memory_.data(), kBlock};
  IoRequest request{.op = IoOp::kWrite, .segments = {&segment, 1}};
  request.owner = &chain;
  request.done = [](IoRequest& done, Result<void>) {
    auto& c = *static_cast<Chain*>(done.owner);
    if (--c.left > 0) c.device->submit(done);
  };
  device.submit(request);
  EXPECT_EQ(run_to_the_end(device).size(), 5U);
  EXPECT_EQ(chain.left, 0);
  EXPECT_EQ(clock_.now(), Instant{1'000} + milliseconds(5));
}

TEST(LimitedDevice, NeverRunsAheadOfItsBandwidth) {
  constexpr std::uint64_t kRate = 256ULL << 20;
  LimitedDevice device(null_device(), {.bytes_per_s = kRate, .latency = microseconds(200), .queue_depth = 4});
  AlignedBytes memory(1 << 20);
  Flight flight;
  for (int i = 0; i < 8; ++i) flight.add(IoOp::kWrite, 0, {{memory.data(), memory.size()}});
  const Instant start = SteadyClock::instance().now();
  flight.submit_all(device);
  flight.wait_all();
  const Duration took = SteadyClock::instance().now() - start;
  EXPECT_GE(took, Duration{static_cast<std::int64_t>(8 * memory.size() * 1'000'000'000 / kRate)} +
                      microseconds(200));
  std::vector<Flight::One*> submitted;
  for (auto& one : flight.all()) submitted.push_back(&one);
  EXPECT_EQ(flight.order(), submitted);
}

}  // namespace
}  // namespace tidewheel
