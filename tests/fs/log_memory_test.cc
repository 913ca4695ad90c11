// The memory of images and places: charged before it is used, bounded, given back; who would take more waits.
#include <gtest/gtest.h>

#include <list>

#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "tests/fs/log_rig.h"

namespace tidewheel {
namespace {

constexpr std::int64_t kOneImage = 6144 + 256;  // of an object of 3,000 to 6,000 bytes, its place with it

TEST(LogMemory, IsChargedAheadOfItsUseAndGivenBack) {
  MemoryBudget budget(16 << 20, 0);
  std::list<LoggedObject> objects;
  {
    LogRig rig({.sectors = 4096, .soft_bytes = 64 * 1024, .budget = &budget});
    std::int64_t most = 0;
    for (int i = 0; i < 300; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
    for (int round = 0; round < 4; ++round) {
      for (LoggedObject& object : objects) {
        ASSERT_NE(rig.change(object, std::string(1000, 'x')), 0U);
        const std::int64_t used = rig.log.cil().exact_memory_bytes();
        ASSERT_LE(used, rig.log.memory_charged_bytes() + kOneImage);
        most = std::max(most, used);
      }
    }
    EXPECT_LE(most, rig.log.memory_limit_bytes());
    EXPECT_GT(most, 64 * 1024);
    EXPECT_EQ(static_cast<std::int64_t>(budget.used_bytes(MemoryKind::kLog)), rig.log.memory_charged_bytes());
    ASSERT_TRUE(rig.log.force_all().has_value());
    rig.close();
    EXPECT_LE(rig.log.memory_charged_bytes(), rig.log.memory_limit_bytes() / 2);
  }
  EXPECT_EQ(budget.used_bytes(MemoryKind::kLog), 0U);
  EXPECT_LE(budget.stats().used_peak[static_cast<std::size_t>(MemoryKind::kLog)], budget.limit_bytes() / 4);
}

TEST(LogMemory, IsNotExceededByCommittersWhileTheDeviceStandsStill) {
  MemoryBudget budget(2 << 20, 0);
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + std::uint64_t{16384} * 512).value());
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 16384, .budget = &budget}, &device);
  for (int i = 0; i < 400; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  Atomic<std::uint32_t> committed{0};
  Thread writer("write", [&rig, &objects, &committed] {
    for (LoggedObject& object : objects) {
      EXPECT_NE(rig.change(object, std::string(3000, 'x')), 0U);
      committed.fetch_add(1, std::memory_order_relaxed);
    }
  });
  const auto waits = [&rig] { return rig.log.stats().throttled + rig.log.stats().waits_for_memory; };
  while (waits() == 0) yield_thread();
  EXPECT_LE(rig.log.cil().exact_memory_bytes(), rig.log.memory_limit_bytes() + kOneImage);
  EXPECT_GT(rig.log.stats().throttled, 0U) << "the open checkpoint is full before all memory is used";
  EXPECT_LT(committed.load(std::memory_order_relaxed), 400U) << "2.4 MB of images: more than the budget is";
  device.clear_rules();
  device.release_stalled();
  writer.join();
  EXPECT_EQ(committed.load(std::memory_order_relaxed), 400U);
}

// A roll asks nobody for memory. Its commits find the open checkpoint full, and wait for the switch; that
// waits for the device.
TEST(LogMemory, IsNotExceededByAChainOfRolls) {
  MemoryBudget budget(2 << 20, 0);
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + std::uint64_t{16384} * 512).value());
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 16384, .budget = &budget}, &device);
  for (int i = 0; i < 800; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  Atomic<std::uint32_t> committed{0};
  Thread roller("roll", [&rig, &objects, &committed]() TW_NO_THREAD_SAFETY_ANALYSIS {
    auto ticket = rig.log.reserve(3100, 2, true);
    ASSERT_TRUE(ticket.has_value());
    for (LoggedObject& object : objects) {
      object.lock.lock();
      object.text = std::string(3000, 'x');
      LogItem* const items[] = {&object};
      rig.log.commit(items, *ticket);
      committed.fetch_add(1, std::memory_order_relaxed);
      ASSERT_TRUE(rig.log.roll(*ticket).has_value());
    }
    rig.log.end(*ticket);
  });
  while (rig.log.stats().throttled == 0 && committed.load(std::memory_order_relaxed) < 800) yield_thread();
  EXPECT_LT(committed.load(std::memory_order_relaxed), 800U) << "5 MB of images: more than the budget is";
  EXPECT_LE(rig.log.cil().exact_memory_bytes(), rig.log.memory_limit_bytes() + kOneImage);
  device.clear_rules();
  device.release_stalled();
  roller.join();
  EXPECT_EQ(committed.load(std::memory_order_relaxed), 800U);
}

TEST(LogMemory, ThatOthersHaveIsAnErrorOfTheReservationAlone) {
  MemoryBudget budget(1 << 20, 0);
  LoggedObject a("a");
  LogRig rig({.budget = &budget});
  rig.add(a);
  const std::uint64_t all = budget.limit_bytes() - budget.charged_bytes();
  ASSERT_TRUE(budget.charge(MemoryKind::kOther, all, ChargeBy::kAnyone, Duration{0}).has_value());
  const auto refused = rig.log.reserve(100, 1, false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Reason::kNoMemory);
  EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
  budget.uncharge(MemoryKind::kOther, all);
  EXPECT_NE(rig.change(a, "goes on"), 0U);
}

// Committers that wait for memory, a worker that makes it free, and the log's end.
SIM_TEST_WITH(LogMemorySim, WaitsEndWhateverTheOrder, sim::Options{.schedules = 60}) {
  MemoryBudget budget(1400 * 1024, 0);
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 4096, .buffer_bytes = 32 * 1024, .budget = &budget});
  for (int i = 0; i < 24; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < 3; ++w) {
    writers.emplace_back("write", [&rig, &objects, w] {
      for (std::uint64_t i = 0; i < 8; ++i) {
        LoggedObject& object = *std::next(objects.begin(), static_cast<std::ptrdiff_t>(w * 8 + i));
        SIM_CHECK(rig.change(object, std::string(20'000, 'x')) != 0);
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  rig.close();
  SIM_CHECK(rig.log.reserve_granted_bytes() == 0);
  SIM_CHECK(rig.log.cil().exact_memory_bytes() <= rig.log.memory_limit_bytes());
}

}  // namespace
}  // namespace tidewheel
