// Devices with threads of their own, under every order the simulator tries, in virtual time.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "fs/block/limited_device.h"
#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"
#include "tests/fs/io.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kDeviceBytes = 1 << 20;

SIM_TEST(LimitedDeviceSim, CompletesEachRequestOnceWithABoundedQueue) {
  LimitedDevice device(RamDevice::make(kDeviceBytes).value(),
                       {.bytes_per_s = 100'000'000, .latency = microseconds(50), .queue_depth = 2});
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back("submit", [&device, t] {
      AlignedBytes memory(4 * kBlock), back(4 * kBlock);
      std::memset(memory.data(), 'a' + static_cast<int>(t), memory.size());
      Flight flight;
      for (std::uint64_t i = 0; i < 4; ++i) {
        flight.add(IoOp::kWrite, (4 * t + i) * kBlock, {{memory.data() + i * kBlock, kBlock}});
      }
      flight.submit_all(device);
      flight.wait_all();
      for (auto& one : flight.all()) SIM_CHECK(one.result && one.completions == 1);
      SIM_CHECK(device.read(4 * t * kBlock, back.span()).has_value());
      SIM_CHECK(std::memcmp(memory.data(), back.data(), memory.size()) == 0);
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(device.stats().writes == 12 && device.stats().reads == 3);
}

SIM_TEST(LimitedDeviceSim, TakesBytesOverBandwidthAndOneLatency) {
  LimitedDevice device(std::make_unique<NullDevice>(kDeviceBytes),
                       {.bytes_per_s = 4'096'000, .latency = milliseconds(3), .queue_depth = 64});
  AlignedBytes memory(kBlock);
  Flight flight;
  for (int i = 0; i < 10; ++i) flight.add(IoOp::kWrite, 0, {{memory.data(), kBlock}});
  const Instant start = SteadyClock::instance().now();
  flight.submit_all(device);
  flight.wait_all();
  const Duration took = SteadyClock::instance().now() - start;
  // 10 ms in the pipe. Scheduling points take virtual nanoseconds of their own.
  SIM_CHECK(took >= milliseconds(13) && took < milliseconds(14));
}

SIM_TEST(LimitedDeviceSim, EndsWhenItsLastRequestHas) {
  AlignedBytes memory(kBlock);
  for (int i = 0; i < 3; ++i) {
    LimitedDevice device(RamDevice::make(kDeviceBytes).value(),
                         {.bytes_per_s = 0, .latency = microseconds(1)});
    SIM_CHECK(device.write(0, memory.span()).has_value());
  }
}

SIM_TEST(FaultyDeviceSim, ReleasesEveryRequestItHeldBack) {
  FaultyDevice device(RamDevice::make(kDeviceBytes).value());
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = 2});
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back("write", [&device, t] {
      AlignedBytes memory(kBlock);
      SIM_CHECK(device.write(t * kBlock, memory.span()).has_value());
    });
  }
  device.wait_stalled(2);
  SIM_CHECK(device.release_stalled() == 2);
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(device.stats().writes == 3);
}

}  // namespace
}  // namespace tidewheel
