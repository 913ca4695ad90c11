// Faults that others shipped, asked of the log and the AIL (docs/faults-machinery.md), and those that a
// review of this log has found. One test each, with what it looked like.
#include <gtest/gtest.h>

#include <list>

#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "fs/block/null_device.h"
#include "fs/block/sim_device.h"
#include "fs/recovery/log_scan.h"
#include "tests/fs/log_reader.h"
#include "tests/fs/log_rig.h"

namespace tidewheel {
namespace {

constexpr sim::Options kFew{.schedules = 100};

// A commit record with a new tail is in flight; the next checkpoint's first record, which is written without
// a flush, still carries the published one. Recovery took that for a tail that goes back, ended the log
// there, and refused the mount over the commit record behind it.
TEST(FaultLog, ATailInFlightIsNotTakenBackByTheNextCheckpointsRecords) {
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + 1024 * 512).value());
  LoggedObject a("a"), b("b");
  LogRig rig({.pusher = false}, &device);
  rig.add(a);
  rig.add(b);
  for (LoggedObject* const object : {&a, &b}) {
    rig.change(*object, "first");
    ASSERT_TRUE(rig.log.force_all().has_value());
  }
  LogItem* const home[] = {&a};
  rig.ail.remove(home);  // the tail moves, and nothing says so yet
  ASSERT_GT(rig.ail.tail_lsn(), rig.log.published_tail());
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  rig.change(a, "second");
  rig.log.force(ForceMode::kStart);
  device.wait_stalled(1);  // its commit record
  const std::uint64_t last = rig.change(b, std::string(20'000, 'x'));
  rig.log.force(ForceMode::kStart);
  device.wait_stalled(2);  // the first of two records
  device.clear_rules();
  while (rig.log.stable_sequence() < last) {
    device.release_stalled();
    yield_thread();
  }
  LogReader reader(device, rig.place);
  const auto scan = scan_log(reader, UINT64_MAX);
  ASSERT_TRUE(scan.has_value()) << scan.error().sentence();
  EXPECT_EQ(scan->head, rig.log.head());
  EXPECT_EQ(scan->tail, rig.log.published_tail());
}

// The worker looked into the CIL, then somebody committed, then the log died: the worker saw a dead log and
// an empty CIL, and slept. What had been committed stayed pinned until somebody stopped the log, and who
// waits for a freed buffer's lock is who would have to end before that.
SIM_TEST_WITH(FaultLogSim, WhatIsCommittedAsTheLogDiesIsAbortedByItself, kFew) {
  LoggedObject a("a");
  LogRig rig({.pusher = false});
  rig.add(a);
  Thread killer("kill", [&rig] { rig.log.shut_down(Error{Reason::kIo, 0, 0}); });
  rig.change(a, "x");
  killer.join();
  while (a.pins.load(std::memory_order_relaxed) != 0) sleep_for(milliseconds(1));
  rig.close();
}

SIM_TEST_WITH(FaultLogSim, WhatIsCommittedBeforeTheLogStopsIsNotLeftBehind, kFew) {
  LoggedObject a("a");
  {
    LogRig rig({.pusher = false});
    rig.add(a);
    rig.change(a, "x");
    rig.log.shut_down(Error{Reason::kIo, 0, 0});
    rig.close();
  }  // the CIL asserts that it is empty
  SIM_CHECK(a.pins.load(std::memory_order_relaxed) == 0);
}

// Somebody waited for what a ticket held. The worker had looked, and found nothing to write; then the
// ticket's space went into the open checkpoint, which nobody closed before the 30 s were over.
SIM_TEST_WITH(FaultLogSim, WhatATicketLeavesInTheOpenCheckpointIsWrittenForWhoWaits, kFew) {
  LoggedObject a("a");
  a.enters_ail = false;
  LogRig rig({.sectors = 160, .soft_bytes = 1 << 20, .pusher = false});
  rig.add(a);
  auto ticket = rig.log.reserve(24'000, 1, false);
  SIM_CHECK(ticket.has_value());
  Thread waiter("reserve", [&rig] {
    auto large = rig.log.reserve(34'000, 1, false);
    SIM_CHECK(large.has_value());
    rig.log.end(*large);
  });
  while (rig.log.stats().waits_for_space == 0) sleep_for(milliseconds(1));
  sleep_for(milliseconds(1));
  [&]() TW_NO_THREAD_SAFETY_ANALYSIS { a.lock.lock(); }();
  a.text = std::string(23'900, 'x');
  LogItem* const items[] = {&a};
  rig.log.commit(items, *ticket);
  rig.log.end(*ticket);
  waiter.join();
  rig.close();
  SIM_CHECK(rig.log.reserve_granted_bytes() == 0);
}

// In a log of 32 GiB there is room for a unit that its ticket's 32 bits cannot say.
TEST(FaultLog, AReservationBeyondItsTicketsNumbersIsRefused) {
  constexpr std::uint32_t kSectors = 64U << 20;
  NullDevice device(LogRig::kLogOffset + std::uint64_t{kSectors} * 512);
  LogRig rig({.sectors = kSectors, .pusher = false}, &device);
  for (const std::uint32_t units : {1U, 2U, UINT32_MAX}) {
    const auto ticket = rig.log.reserve(UINT32_MAX - 8, units, true);
    ASSERT_FALSE(ticket.has_value()) << units;
    EXPECT_EQ(ticket.error().code, Reason::kNoSpace);
  }
  EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
}

}  // namespace
}  // namespace tidewheel
