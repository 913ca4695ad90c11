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
  const std::uint64_t last = rig.change(b, std::string(40'000, 'x'));
  rig.log.force(ForceMode::kStart);
  device.wait_stalled(2);  // the first of three records, which a force does not hold back
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

// What the tail passes when an item is relogged must not be part of a checkpoint that is still in the log
// alone.
TEST(FaultLog, AnItemEntersTheAilAtItsCheckpointsStart) {
  LoggedObject a("a");
  LogRig rig({.sectors = 4096, .pusher = false});
  rig.add(a);
  for (int i = 0; i < 2; ++i) {
    const Lsn start = rig.log.head();
    rig.change(a, std::string(40'000, 'x'));  // three records
    ASSERT_TRUE(rig.log.force_all().has_value());
    EXPECT_EQ(a.last_committed, start);
    EXPECT_EQ(rig.ail.lsn_of(a), start);
    EXPECT_EQ(rig.ail.tail_lsn(), start);
  }
}

// Everything before the new tail is home; the record that says so is on its way. Until it is stable a crash
// finds the old one, and what that covers must be there.
TEST(FaultLog, SpaceIsNotUsedAgainBeforeATailThatFreesItIsStable) {
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + 256 * 512).value());
  LoggedObject a("a"), b("b"), c("c"), d("d");
  LogRig rig({.sectors = 256, .pusher = false}, &device);
  for (LoggedObject* const object : {&a, &b, &c, &d}) rig.add(*object);
  for (LoggedObject* const object : {&a, &b, &c}) {
    rig.change(*object, std::string(object == &c ? 10 : 30'000, 'x'));
    ASSERT_TRUE(rig.log.force_all().has_value());
  }
  LogItem* const home[] = {&a, &b, &c};
  rig.ail.remove(home);
  EXPECT_EQ(rig.log.published_tail(), Lsn::make(1, 0));
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  rig.change(d, "y");
  rig.log.force(ForceMode::kStart);
  device.wait_stalled(1);
  Atomic<bool> granted{false};
  Thread waiter("reserve", [&] {
    auto ticket = rig.log.reserve(45'000, 1, false);
    granted.store(true, std::memory_order_release);
    ASSERT_TRUE(ticket.has_value());
    rig.log.end(*ticket);
  });
  while (rig.log.stats().waits_for_space == 0 && !granted.load(std::memory_order_acquire)) yield_thread();
  for (int i = 0; i < 1000; ++i) yield_thread();
  EXPECT_FALSE(granted.load(std::memory_order_acquire));
  device.clear_rules();
  device.release_stalled();
  waiter.join();
}

// A commit record that waits for the one before it, and then the mount dies: it is not sent after that.
TEST(FaultLog, NothingIsSubmittedAfterAShutdown) {
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + 1024 * 512).value());
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall});
  LoggedObject a("a");
  LogRig rig({.pusher = false}, &device);
  rig.add(a);
  rig.change(a, std::string(20'000, 'x'));  // two records
  rig.log.force(ForceMode::kStart);
  device.wait_stalled(1);
  while (rig.log.stats().buffers.records < 2) yield_thread();
  rig.log.shut_down(Error{Reason::kIo, 0, 0});
  device.release_stalled();
  rig.close();
  EXPECT_EQ(device.stats().writes, 1U);
  EXPECT_EQ(rig.log.stable_sequence(), 0U);
  EXPECT_EQ(a.aborts.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(a.pins.load(std::memory_order_relaxed), 0);
}

// A thread of the log that needs log space waits for itself.
TEST(FaultLogDeathTest, ThreadsThatFreeLogSpaceNeverReserveIt) {
#if !defined(TW_DASSERT_ON)
  GTEST_SKIP() << "debug assertions are off";
#endif
  struct Opener final : LoggedObject {
    using LoggedObject::LoggedObject;
    void unpin(bool aborted) noexcept override {
      LoggedObject::unpin(aborted);
      static_cast<void>(log->reserve(100, 1, false));
    }
    Log* log = nullptr;
  };
  EXPECT_DEATH(
      {
        Opener a("a");
        LogRig rig({});
        a.log = &rig.log;
        rig.add(a);
        rig.change(a, "x");
        static_cast<void>(rig.log.force_all());
      },
      "a thread that frees log space waits for log space");
}

// The worker would close a checkpoint that holds nothing.
TEST(FaultLogDeathTest, WhatNoCommitHasAnsweredIsNotForced) {
  LogRig rig({});
  EXPECT_DEATH(static_cast<void>(rig.log.force(1)), "no commit has answered");
}

// An item of the test's, told of its commit and its checkpoint's end.
struct ToldObject final : LoggedObject {
  using LoggedObject::LoggedObject;
  void committing(std::uint64_t sequence) noexcept override {
    SIM_CHECK(pins.load(std::memory_order_relaxed) > 0);  // its checkpoint has not ended
    LoggedObject::committing(sequence);
    if (forces == nullptr) return;
    forces->store(true, std::memory_order_relaxed);
    for (int i = 0; i < 200; ++i) yield_thread();  // time for the checkpoint to be written, if it could
  }
  void unpin(bool aborted) noexcept override {
    SIM_CHECK(inside->fetch_add(1, std::memory_order_relaxed) == 0);
    yield_thread();
    inside->fetch_sub(1, std::memory_order_relaxed);
    LoggedObject::unpin(aborted);
  }
  Atomic<std::uint32_t>* inside = nullptr;
  Atomic<bool>* forces = nullptr;  // set when the commit has begun to unlock
};

// The checkpoint was written and its items unpinned before the commit had unlocked them.
SIM_TEST_WITH(FaultLogSim, ACheckpointIsNotWrittenBeforeItsCommitsHaveUnlocked, kFew) {
  Atomic<std::uint32_t> inside{0};
  ToldObject a("a"), b("b");
  LogRig rig({.pusher = false});
  for (ToldObject* const object : {&a, &b}) {
    object->inside = &inside;
    rig.add(*object);
  }
  Atomic<bool> forces{false};
  a.forces = &forces;
  Thread forcer("force", [&] {
    while (!forces.load(std::memory_order_relaxed)) yield_thread();
    rig.log.force(ForceMode::kStart);
  });
  auto ticket = rig.log.reserve(200, 1, false);
  SIM_CHECK(ticket.has_value());
  [&]() TW_NO_THREAD_SAFETY_ANALYSIS {
    a.lock.lock();
    b.lock.lock();
  }();
  LogItem* const items[] = {&a, &b};
  rig.log.commit(items, *ticket);
  rig.log.end(*ticket);
  forcer.join();
  rig.close();
}

// Two checkpoints end at a shutdown, one on the completion thread, one on the worker: an item in both was
// told by both at once.
SIM_TEST_WITH(FaultLogSim, ItemsAreToldByOneThreadAtATimeAlsoAtAShutdown, (sim::Options{.schedules = 300})) {
  SimDevice device({.size_bytes = LogRig::kLogOffset + 1024 * 512});
  Atomic<std::uint32_t> inside{0};
  ToldObject a("a");
  a.inside = &inside;
  LogRig rig({.pusher = false}, &device);
  rig.add(a);
  rig.change(a, "first");
  rig.log.force(ForceMode::kStart);
  Thread killer("kill", [&rig] { rig.log.shut_down(Error{Reason::kIo, 0, 0}); });
  rig.change(a, "second");
  killer.join();
  rig.close();
  SIM_CHECK(a.pins.load(std::memory_order_relaxed) == 0);
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

// ---- how full the open checkpoint is ----

constexpr std::uint32_t kSoft = 6400;  // a shard tells its sum in steps of 100

class CilFill : public testing::Test {
 protected:
  // Operations of so many bytes in all, in one item.
  Cil::Fill commit(LoggedObject& object, std::size_t bytes) TW_NO_THREAD_SAFETY_ANALYSIS {
    object.lock.lock();
    object.text = std::string(bytes - 2 * LogVectorWriter::kOpBytes - object.name.size(), 'x');
    LogItem* const items[] = {&object};
    return cil.commit(items, ticket).fill;
  }
  ~CilFill() override { static_cast<void>(cil.close()); }

  LoggedObject a{"a"}, b{"b"};
  LogTicket ticket{.available_bytes = 1 << 20};
  Cil cil{{.payload_bytes = 16'000, .header_bytes = 512},
          {.soft_bytes = kSoft, .soft_memory_bytes = 1ULL << 30},
          1};
};

TEST_F(CilFill, IsLowBelowItsSoftLimit) { EXPECT_EQ(commit(a, kSoft - 1), Cil::Fill::kLow); }
TEST_F(CilFill, IsSoftFromThereOn) { EXPECT_EQ(commit(a, kSoft), Cil::Fill::kSoft); }
TEST_F(CilFill, IsSoftBelowTwiceThat) { EXPECT_EQ(commit(a, 2 * kSoft - 1), Cil::Fill::kSoft); }
TEST_F(CilFill, IsHardFromTwiceThatOn) { EXPECT_EQ(commit(a, 2 * kSoft), Cil::Fill::kHard); }

TEST_F(CilFill, IsLowAgainOnceItHasShrunk) {
  EXPECT_EQ(commit(a, 2 * kSoft), Cil::Fill::kHard);
  EXPECT_EQ(commit(a, 200), Cil::Fill::kLow);
}

TEST_F(CilFill, IsLowAgainOnceAnIntentIsDone) {
  EXPECT_EQ(commit(a, 2 * kSoft), Cil::Fill::kHard);
  b.done_with = &a;
  EXPECT_EQ(commit(b, 200), Cil::Fill::kLow);
}

TEST_F(CilFill, IsLowAgainAfterTheSwitch) {
  EXPECT_EQ(commit(a, 2 * kSoft), Cil::Fill::kHard);
  const auto closed = cil.close();
  EXPECT_EQ(commit(b, 200), Cil::Fill::kLow);
  EXPECT_GE(closed->granted_bytes, 2 * kSoft);
}

// ---- grants ----

struct NobodyAsked final : GrantHead::Queued {
  void space_wanted() override {}
};

TEST(FaultGrant, GivesTheLastByteAndNoMore) {
  GrantHead head(100);
  NobodyAsked nobody;
  EXPECT_TRUE(head.take(100, nobody).has_value());
  EXPECT_EQ(head.used_bytes(), 100);
  head.give_back(100);
}

// Found dead only once it queues: it would wait for ever.
TEST(FaultGrant, RefusesWhoWouldWaitForADeadLog) {
  GrantHead head(100);
  NobodyAsked nobody;
  head.take_unchecked(100);
  head.shut_down();
  const auto refused = head.take(1, nobody);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Reason::kShutDown);
}

// A roll beyond its units has its share of one head, waits for the other, and the log dies.
SIM_TEST_WITH(FaultLogSim, ARollThatTheLogDiesUnderGivesBackWhatItHad, (sim::Options{.schedules = 20})) {
  LoggedObject a("a");
  LogRig rig({.sectors = 160, .pusher = false});
  rig.add(a);
  auto rolling = rig.log.reserve(20'000, 1, true);
  SIM_CHECK(rolling.has_value());
  auto other = rig.log.reserve(28'000, 1, false);
  SIM_CHECK(other.has_value());
  [&]() TW_NO_THREAD_SAFETY_ANALYSIS { a.lock.lock(); }();
  a.text = std::string(19'900, 'x');  // and stays where it is: there is no pusher
  LogItem* const items[] = {&a};
  rig.log.commit(items, *rolling);
  Thread roller("roll", [&] { SIM_CHECK(!rig.log.roll(*rolling).has_value()); });
  while (rig.log.stats().waits_for_space < 1) sleep_for(milliseconds(1));
  rig.log.shut_down(Error{Reason::kIo, 0, 0});
  roller.join();
  rig.log.end(*rolling);
  rig.log.end(*other);
  rig.close();
  SIM_CHECK(rig.log.reserve_granted_bytes() == 0);
  SIM_CHECK(rig.log.write_granted_bytes() == 0);
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
