// Faults that others shipped, asked of transactions and buffers (docs/faults-machinery.md), and those that a
// review of this machine has found. One test each, with what it looked like.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "tests/fs/trans_rig.h"

namespace tidewheel {
namespace {

// Two find at once that the mount must die. The second comes back from shut_down() while the first has not
// yet told the buffers' target: it unlocked a buffer that was changed and not logged, and the pusher wrote
// it.
SIM_TEST_WITH(FaultTransactionSim, WhatWasChangedAndNotLoggedNeverReachesTheDevice,
              (sim::Options{.schedules = 400})) {
  TransRig rig;
  SIM_CHECK(rig.change(0, 1) != 0);
  SIM_CHECK(rig.journal->log().force_all().has_value());
  Thread killer("kill", [&rig] { rig.journal->shut_down(Error{Reason::kIo, 0, 0}); });
  Thread pusher("push", [&rig] { rig.journal->ail().push_all(); });
  {
    auto transaction = rig.begin();
    if (transaction) SIM_CHECK(rig.write(*transaction, 0, 2));
  }  // never committed
  pusher.join();
  killer.join();
  rig.journal->close();
  SIM_CHECK(rig.home(0) != 2);
  rig.expect_at_rest();
}

// The same of what was committed and will never be stable: it was unpinned before the buffers' target had
// heard that the log is dead, and went home.
SIM_TEST_WITH(FaultTransactionSim, WhatIsAbortedNeverReachesTheDevice, (sim::Options{.schedules = 400})) {
  TransRig rig;
  SIM_CHECK(rig.change(0, 1) != 0);
  SIM_CHECK(rig.journal->log().force_all().has_value());
  const std::uint64_t second = rig.change(0, 2);
  SIM_CHECK(second != 0);
  Thread killer("kill", [&rig] { rig.journal->shut_down(Error{Reason::kIo, 0, 0}); });
  Thread pusher("push", [&rig] {
    for (int i = 0; i < 3; ++i) rig.journal->ail().push_all();
  });
  const std::uint64_t third = rig.change(1, 3);  // wakes the worker of a dead log
  pusher.join();
  killer.join();
  rig.journal->close();
  // The pusher forces the log for what is pinned: now and then that is over before the end comes.
  const std::uint64_t stable = rig.journal->log().stable_sequence();
  SIM_CHECK(stable >= second || rig.home(0) != 2);
  SIM_CHECK((third != 0 && stable >= third) || rig.home(1) != 3);
  rig.expect_at_rest();
}

// A checkpoint with a block's last image completes after the block was freed, and before that is stable. A
// crash brings the block back, so the tail must not pass that image.
TEST(FaultTransaction, ABlockThatIsFreedPinsTheTailUntilThatIsStable) {
  TransRig rig;
  rig.buf.device->add({.op = IoOp::kWrite, .effect = FaultEffect::kStall});
  const std::uint64_t first = rig.change(0, 1);
  rig.journal->log().force(ForceMode::kStart);
  rig.buf.device->wait_stalled(1);
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(0), 1, kMockType);
  ASSERT_TRUE(buffer.has_value());
  transaction->invalidate(**buffer);
  ASSERT_TRUE(transaction->commit().has_value());
  rig.buf.device->release_stalled();
  while (rig.journal->log().stable_sequence() < first) yield_thread();
  EXPECT_EQ(rig.journal->ail().min_lsn(), Lsn::make(1, 0));
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  rig.expect_at_rest();
}

TEST(FaultTransaction, ACommitIntoADeadLogIsRefused) {
  for (const bool rolls : {false, true}) {
    TransRig rig;
    auto transaction = rig.begin(2);
    ASSERT_TRUE(rig.write(*transaction, 0, 1));
    rig.journal->shut_down(Error{Reason::kIo, 0, 0});
    const auto refused = rolls ? transaction->roll() : transaction->commit();
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Reason::kShutDown);
    EXPECT_EQ(rig.journal->log().stats().cil.commits, 0U);
    rig.journal->close();
    rig.expect_at_rest();
  }
}

// The pusher meets a buffer whose write is on its way, and does not try its lock.
TEST(FaultTransaction, AWriteOnItsWayHomeIsPassedBy) {
  TransRig rig(true);
  rig.change(0, 1);
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  rig.buf.device->add({.op = IoOp::kWrite, .effect = FaultEffect::kStall});
  rig.journal->ail().push_all();
  rig.buf.device->wait_stalled(1);
  while (rig.journal->ail().stats().flushing + rig.journal->ail().stats().locked == 0) {
    rig.journal->ail().push_all();
    yield_thread();
  }
  EXPECT_EQ(rig.journal->ail().stats().locked, 0U);
  rig.buf.device->release_stalled();
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  rig.expect_at_rest();
}

// Nobody forces, nobody needs space: the log's worker brings it home all the same.
SIM_TEST_WITH(FaultTransactionSim, WhatNobodyAsksForGoesHomeWithTime, (sim::Options{.schedules = 20})) {
  TransRig rig(false, 0, 0, seconds(1));
  SIM_CHECK(rig.change(0, 1) != 0);
  sleep_for(seconds(4));
  rig.journal->close();  // what had not gone home by itself stays where it is
  SIM_CHECK(rig.home(0) == 1);
}

// An interval of 0 is none, as everywhere: the worker sleeps, and what is committed waits for a force.
SIM_TEST_WITH(FaultTransactionSim, AnIntervalOfNothingIsNone, (sim::Options{.schedules = 20})) {
  TransRig rig(false, 0, 0, Duration{0});
  SIM_CHECK(rig.change(0, 1) != 0);
  sleep_for(seconds(100));
  SIM_CHECK(rig.journal->log().stable_sequence() == 0);
  rig.journal->close();
}

// A buffer that was queued to go home, relogged before it was submitted, and then the mount died.
SIM_TEST_WITH(FaultTransactionSim, AQueueHoldsNothingAfterAShutdown, (sim::Options{.schedules = 400})) {
  TransRig rig;
  for (std::uint64_t block = 0; block < 3; ++block) SIM_CHECK(rig.change(block, 1) != 0);
  SIM_CHECK(rig.journal->log().force_all().has_value());
  Thread pusher("push", [&rig] { rig.journal->ail().push_all(); });
  for (std::uint64_t block = 0; block < 3; ++block) SIM_CHECK(rig.change(block, 2) != 0);
  rig.journal->shut_down(Error{Reason::kIo, 0, 0});
  pusher.join();
  rig.journal->close();
  rig.expect_at_rest();
}

// A buffer that has joined, and one whose verifier refuses it.
TEST(FaultTransaction, ABlockThatIsRefusedLeavesNoHoldOnThoseThatHaveJoined) {
  TransRig rig;
  rig.buf.put(TransRig::at(0), 3);
  rig.buf.put(TransRig::at(1), 4);
  AlignedBytes damaged(kFsBlockBytes);
  ASSERT_TRUE(rig.buf.device->read(TransRig::at(1).bytes(), damaged.span()));
  damaged.span()[100] ^= std::byte{1};
  ASSERT_TRUE(rig.buf.device->write(TransRig::at(1).bytes(), damaged.span()));
  auto transaction = rig.begin();
  ASSERT_TRUE(transaction->read(TransRig::at(0), 1, kMockType).has_value());
  const auto refused = transaction->read(TransRig::at(1), 1, kMockType);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Reason::kCorrupt);
  transaction->cancel();
  EXPECT_FALSE(rig.journal->is_shut_down());
  rig.expect_at_rest();
}

// The log unlocks a freed block's buffer. A transaction that kept it would unlock it again, whoever has it
// then.
TEST(FaultTransactionDeathTest, AFreedBufferIsNotKept) {
  TransRig rig;
  auto transaction = rig.begin(2);
  const auto first = transaction->make(TransRig::at(0), 1, kMockType);
  const auto second = transaction->make(TransRig::at(1), 1, kMockType);
  transaction->keep(**first);
  EXPECT_DEATH(transaction->invalidate(**first), "a buffer is freed that is to stay locked");
  transaction->invalidate(**second);
  EXPECT_DEATH(transaction->keep(**second), "a freed buffer's lock is the log's to give up");
}

LockClass cil_rank{"fault-cil-shard", LockRank::kCilShard};

// The buffer lock goes from thread to thread, and so is on no thread's stack of locks; whoever waits for it
// is checked all the same.
TEST(FaultBufferDeathTest, NobodyWaitsForABufferBelowItsRank) {
#if !defined(TW_DASSERT_ON)
  GTEST_SKIP() << "debug assertions are off";
#endif
  BufRig rig;
  const BufferHold held = std::move(rig.cache->hold(*rig.target, {1}, 1).value());
  Mutex below{cil_rank};
  EXPECT_DEATH(
      {
        MutexLock lock(below);
        held->lock();
      },
      "a lock of 'buffer' .* is waited for while 'fault-cil-shard'");
}

// A queue asked whether a buffer was on another's list by looking at links that the other's thread changes as
// it takes out the neighbours. Found by the thread sanitizer alone.
TEST(FaultDelwri, TwoQueuesDoNotLookAtEachOthersLinks) {
  BufRig rig;
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back("queue", [&rig, t] {
      DelwriQueue queue;
      for (std::uint64_t version = 1; version <= 200; ++version) {
        for (std::uint64_t block = 1; block <= 3; ++block) {
          const LockedBuffer buffer = rig.make({block}, 1000 * t + version);
          queue.add(*buffer);
        }
        (void)queue.submit();
      }
      EXPECT_TRUE(queue.submit_and_wait().has_value());
    });
  }
  for (Thread& thread : threads) thread.join();
  for (std::uint64_t block = 1; block <= 3; ++block) {
    const auto buffer = rig.read({block});
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(rig.on_device({block}), version_of(std::as_const(**buffer).bytes()));
  }
}

// Written by somebody else while it was queued, changed again, and queued by a third: it is still linked.
TEST(FaultDelwri, WhatWasWrittenMeanwhileStaysOnTheQueueItIsOn) {
  BufRig rig;
  DelwriQueue first, second;
  {
    const LockedBuffer buffer = rig.make({1}, 1);
    EXPECT_TRUE(first.add(*buffer));
    ASSERT_TRUE(rig.cache->write(*buffer).has_value());
    fill_mock(buffer->bytes(), rig.geometry, {1}, 2);
    EXPECT_FALSE(second.add(*buffer));
  }
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(first.submit().writing, 1U);
  EXPECT_EQ(rig.on_device({1}), 2U);
  EXPECT_TRUE(first.empty());
}

// What an ordered buffer holds is not in the log. Its next change was not either: its item still took the
// buffer for ordered.
TEST(FaultTransaction, AnOrderedBufferIsLoggedWholeOnceItIsChanged) {
  TransRig rig;
  {
    auto transaction = rig.begin();
    const auto buffer = transaction->make(TransRig::at(1), 1, kMockType);
    fill_mock((*buffer)->bytes(), rig.buf.geometry, TransRig::at(1), 9);
    transaction->order(**buffer);
    ASSERT_TRUE(rig.write(*transaction, 0, 1));
    ASSERT_TRUE(transaction->commit().has_value());
  }
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(1), 1, kMockType);
  ASSERT_TRUE(buffer.has_value());
  fill_mock((*buffer)->bytes(), rig.buf.geometry, TransRig::at(1), 10);
  transaction->log(**buffer, 64, 71);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 2U);
  EXPECT_EQ(read.committed[1].item_count, 1U);
  ASSERT_EQ(read.committed[1].regions.size(), 2U);
  EXPECT_EQ(read.committed[1].regions[1].size(), kFsBlockBytes)
      << "the tail passes what it could be made from: all of it is in the log now";
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(rig.home(1), 10U);
  rig.expect_at_rest();
}

// A transaction that wanted to make a block new and was cancelled before it logged anything left its buffer
// behind as if it had been read: the next reader got what happened to be in memory.
TEST(FaultTransaction, ABlockThatWasNotMadeAfterAllIsReadFromTheDevice) {
  for (const bool cached : {false, true}) {
    for (const bool commits : {false, true}) {
      TransRig rig;
      rig.buf.put(TransRig::at(0), 3);
      if (cached) {
        ASSERT_TRUE(rig.buf.read(TransRig::at(0)).has_value());
      }
      {
        auto transaction = rig.begin();
        const auto buffer = transaction->make(TransRig::at(0), 1, kMockType);
        ASSERT_TRUE(buffer.has_value());
        fill_mock((*buffer)->bytes(), rig.buf.geometry, TransRig::at(0), 99);
        if (commits) {
          ASSERT_TRUE(transaction->commit().has_value());
        }
      }
      EXPECT_FALSE(rig.journal->is_shut_down()) << "nothing was dirty";
      const auto buffer = rig.buf.read(TransRig::at(0));
      ASSERT_TRUE(buffer.has_value());
      EXPECT_EQ(version_of(std::as_const(**buffer).bytes()), 3U) << cached << commits;
    }
  }
}

}  // namespace
}  // namespace tidewheel
