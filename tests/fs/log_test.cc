// The log on a RAM device: what is written can be read back, in order, whole, and space comes back.
#include <gtest/gtest.h>

#include <list>

#include "base/rng.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "tests/fs/log_reader.h"
#include "tests/fs/log_rig.h"

namespace tidewheel {
namespace {

using Regions = std::vector<std::string>;

TEST(LogCommit, IsReadBackOnceItWasForced) {
  LoggedObject a("a"), b("b");
  LogRig rig({});
  rig.add(a);
  rig.add(b);
  rig.change(a, "one");
  const std::uint64_t sequence = rig.change(b, "two");
  ASSERT_TRUE(rig.log.force(sequence).has_value());
  EXPECT_EQ(rig.log.stable_sequence(), sequence);
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.committed[0].regions, (Regions{"a", "one", "b", "two"}));
  EXPECT_EQ(read.committed[0].item_count, 2U);
  EXPECT_EQ(read.committed[0].sequence, 1U);
  EXPECT_EQ(read.head, rig.log.head());
}

TEST(LogCommit, AnswersAForceOfWhatIsStableAtOnce) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  EXPECT_TRUE(rig.log.force_all().has_value()) << "nothing was committed";
  EXPECT_TRUE(rig.log.force(0).has_value());
  const std::uint64_t sequence = rig.change(a, "x");
  ASSERT_TRUE(rig.log.force(sequence).has_value());
  const std::uint64_t records = rig.log.stats().buffers.records;
  ASSERT_TRUE(rig.log.force(sequence).has_value());
  ASSERT_TRUE(rig.log.force_all().has_value());
  EXPECT_EQ(rig.log.stats().buffers.records, records);
}

TEST(LogCommit, KeepsOnePlaceAndTheNewestImageOfWhatIsRelogged) {
  LoggedObject a("a"), b("b");
  LogRig rig({});
  rig.add(a);
  rig.add(b);
  rig.change(a, "first");
  rig.change(b, "between");
  for (int i = 0; i < 100'000; ++i) rig.change(a, "last" + std::to_string(i % 10));
  EXPECT_EQ(a.pins.load(std::memory_order_relaxed), 1) << "pinned once for its checkpoint";
  ASSERT_TRUE(rig.log.force_all().has_value());
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U) << "the checkpoint did not grow, so it was never full";
  EXPECT_EQ(read.committed[0].regions, (Regions{"b", "between", "a", "last9"}))
      << "in the order of the last commits";
  EXPECT_EQ(a.pins.load(std::memory_order_relaxed), 0);
  EXPECT_EQ(a.unpins.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(rig.log.stats().cil.relogs, 100'000U);
}

TEST(LogCommit, PinsAgainForTheNextCheckpoint) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  for (int i = 0; i < 3; ++i) {
    rig.change(a, std::to_string(i));
    ASSERT_TRUE(rig.log.force_all().has_value());
  }
  EXPECT_EQ(a.unpins.load(std::memory_order_relaxed), 3U);
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.committed[i].sequence, i + 1);
    EXPECT_EQ(read.committed[i].regions[1], std::to_string(i));
  }
}

TEST(LogCommit, CostsOneFlushPerCheckpoint) {
  LoggedObject a("a");
  LogRig rig({.sectors = 4096});
  rig.add(a);
  for (int i = 0; i < 5; ++i) {
    rig.change(a, std::string(20'000, 'x'));  // two records
    ASSERT_TRUE(rig.log.force_all().has_value());
  }
  EXPECT_EQ(rig.log.stats().checkpoints, 5U);
  EXPECT_EQ(rig.log.stats().buffers.records, 10U);
  EXPECT_EQ(rig.device.stats().flushes, 5U);
}

TEST(LogCommit, CutsALargeItemOverSeveralRecords) {
  std::string text;
  Rng rng(3);
  for (int i = 0; i < 100'000; ++i) text += static_cast<char>(rng.below(256));
  LoggedObject a("large"), b("small");
  LogRig rig({.sectors = 4096});
  rig.add(a);
  rig.add(b);
  rig.change(a, text);
  rig.change(b, "after");
  ASSERT_TRUE(rig.log.force_all().has_value());
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.committed[0].regions, (Regions{"large", text, "small", "after"}));
  EXPECT_EQ(read.records, 7U);
}

// Every size around the ends of sectors, write units and buffers, each laid out so that it comes to lie
// across the log's end sooner or later.
TEST(LogCommit, ReadsBackAtEverySizeAndAcrossTheEnd) {
  LoggedObject a("object");
  LogRig rig({.sectors = 264});
  rig.add(a);
  Lsn from = Lsn::make(1, 0);
  std::uint32_t wrapped = 0;
  for (std::uint32_t size = 1; size < 40'000; size += size < 700 ? 13 : 997) {
    from = rig.log.head();
    const std::string text(size, static_cast<char>('a' + size % 26));
    rig.change(a, text);
    ASSERT_TRUE(rig.log.force_all().has_value());
    const ReadLog read = read_log(rig.device, rig.place, from);
    ASSERT_EQ(read.committed.size(), 1U) << size;
    ASSERT_EQ(read.committed[0].regions, (Regions{"object", text})) << size;
    ASSERT_EQ(read.head, rig.log.head());
    if (read.head.cycle() != from.cycle() && read.head.block() != 0) ++wrapped;
  }
  EXPECT_GT(wrapped, 3U);
}

class LogBufferSize : public testing::TestWithParam<std::uint32_t> {};
TEST_P(LogBufferSize, ReadsBackWhatItWrote) {
  LoggedObject a("object");
  LogRig rig({.sectors = 16384, .buffer_bytes = GetParam()});
  rig.add(a);
  for (const std::uint32_t size : {1U, 50'000U, 260'000U, 300'000U, 600'000U}) {
    const Lsn from = rig.log.head();
    std::string text(size, 'x');
    for (std::size_t i = 0; i < text.size(); i += 3) text[i] = static_cast<char>(i);
    rig.change(a, text);
    ASSERT_TRUE(rig.log.force_all().has_value());
    const ReadLog read = read_log(rig.device, rig.place, from);
    ASSERT_EQ(read.committed.size(), 1U) << size;
    ASSERT_EQ(read.committed[0].regions[1], text) << size;
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, LogBufferSize, testing::Values(16U << 10, 32U << 10, 64U << 10, 256U << 10));

// The commit operation's record is not even submitted while an earlier one is under way: its flush would not
// cover that.
TEST(LogCommit, WritesItsLastRecordAfterAllOthersHaveCompleted) {
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + 4096 * 512).value());
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = 2});
  LoggedObject a("a");
  LogRig rig({.sectors = 4096}, &device);
  rig.add(a);
  const std::uint64_t sequence = rig.change(a, std::string(20'000, 'x'));  // two records
  Thread forcer("force", [&] { EXPECT_TRUE(rig.log.force(sequence).has_value()); });
  device.wait_stalled(1);
  while (rig.log.stats().buffers.records < 2) yield_thread();  // sealed, and held back
  EXPECT_EQ(device.stalled(), 1U);
  EXPECT_EQ(device.release_stalled(), 1U);
  device.wait_stalled(1);
  EXPECT_EQ(rig.log.stable_sequence(), 0U);
  EXPECT_EQ(device.release_stalled(), 1U);
  forcer.join();
}

// A full checkpoint makes its committers wait for the switch, not for the device.
TEST(LogCommit, GoesOnOnceAFullCheckpointIsClosed) {
  FaultyDevice device(RamDevice::make(LogRig::kLogOffset + 4096 * 512).value());
  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  LoggedObject a("a");
  LogRig rig({.sectors = 4096, .soft_bytes = 1024}, &device);
  rig.add(a);
  EXPECT_EQ(rig.change(a, std::string(5000, 'x')), 1U);
  EXPECT_EQ(rig.change(a, std::string(5000, 'y')), 2U) << "each filled its checkpoint, none is written";
  EXPECT_EQ(rig.log.stats().throttled, 2U);
  device.clear_rules();
  device.wait_stalled(1);
  while (rig.log.stable_sequence() < 2) {
    device.release_stalled();
    yield_thread();
  }
}

// ---- group commit ----

// One commit record is under way for as long as a test likes.
class LogGroup : public testing::Test {
 protected:
  LogGroup() : device_(RamDevice::make(LogRig::kLogOffset + 4096 * 512).value()) {
    for (int i = 0; i < 8; ++i) rig_.add(objects_.emplace_back("object" + std::to_string(i)));
    device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
    EXPECT_EQ(rig_.change(objects_.front(), "first"), 1U);
    rig_.log.force(ForceMode::kStart);
    device_.wait_stalled(1);
    EXPECT_EQ(records(), 1U);
  }
  ~LogGroup() override { let_go(); }
  void let_go() {
    device_.clear_rules();
    device_.release_stalled();
  }
  std::uint64_t records() const { return rig_.log.stats().buffers.records; }

  FaultyDevice device_;
  std::list<LoggedObject> objects_;
  LogRig rig_{{.sectors = 4096}, &device_};
};

TEST_F(LogGroup, SharesTheNextCommitRecord) {
  std::vector<Thread> forcers;
  for (LoggedObject& object : objects_) {
    const std::uint64_t sequence = rig_.change(object, "next");
    EXPECT_EQ(sequence, 2U) << "a force closed the checkpoint, whose commit record can't be submitted yet";
    const std::uint64_t forces = rig_.log.stats().forces;
    forcers.emplace_back("force", [this, sequence] { EXPECT_TRUE(rig_.log.force(sequence).has_value()); });
    while (rig_.log.stats().forces == forces) yield_thread();
  }
  let_go();
  for (Thread& forcer : forcers) forcer.join();
  EXPECT_EQ(rig_.log.stats().checkpoints, 2U);
  EXPECT_EQ(rig_.log.stats().buffers.flushes, 2U);
}

// What closes a checkpoint by its size waits for no commit record.
TEST_F(LogGroup, LeavesAFullCheckpointAlone) {
  const std::string much(100'000, 'x');
  for (LoggedObject& object : objects_) rig_.change(object, much);  // 256 KiB are the soft limit
  while (rig_.log.cil().open_sequence() == 2) yield_thread();
  EXPECT_EQ(rig_.log.stable_sequence(), 0U);
}

// Most of a large checkpoint's records are written beside the commit record that is under way.
TEST_F(LogGroup, DoesNotHoldBackALargeCheckpoint) {
  EXPECT_EQ(rig_.change(objects_.front(), std::string(60'000, 'x')), 2U);
  EXPECT_EQ(rig_.log.cil().open_sequence(), 2U);
  rig_.log.force(ForceMode::kStart);
  device_.wait_stalled(2);
  EXPECT_EQ(rig_.log.cil().open_sequence(), 3U);
  EXPECT_EQ(rig_.log.stable_sequence(), 0U);
}

// ---- intents ----

TEST(LogIntent, IsNotWrittenWhenItWasDoneInTheSameCheckpoint) {
  LoggedObject intent("intent"), done("done"), other("other");
  done.done_with = &intent;
  LogRig rig({});
  for (LoggedObject* object : {&intent, &done, &other}) rig.add(*object);
  rig.change(intent, "to do");
  rig.change(other, "work");
  rig.change(done, "did it");
  ASSERT_TRUE(rig.log.force_all().has_value());
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.committed[0].regions, (Regions{"other", "work"}));
  EXPECT_EQ(read.committed[0].item_count, 1U);
  EXPECT_EQ(done.releases, 1U);
  EXPECT_EQ(done.unpins.load(std::memory_order_relaxed), 0U);
  EXPECT_EQ(intent.unpins.load(std::memory_order_relaxed), 1U);
  EXPECT_TRUE(rig.ail.lsn_of(intent).none());
  EXPECT_EQ(rig.log.stats().cil.whiteouts, 1U);
}

TEST(LogIntent, IsWrittenBeforeWhatSaysThatItIsDoneInALaterCheckpoint) {
  LoggedObject intent("intent"), done("done");
  intent.enters_ail = done.enters_ail = false;
  done.done_with = &intent;
  LogRig rig({});
  rig.add(intent);
  rig.add(done);
  rig.change(intent, "to do");
  ASSERT_TRUE(rig.log.force_all().has_value());
  rig.change(done, "did it");
  ASSERT_TRUE(rig.log.force_all().has_value());
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 2U);
  EXPECT_EQ(read.committed[0].regions[0], "intent");
  EXPECT_EQ(read.committed[1].regions[0], "done");
  EXPECT_EQ(done.releases, 0U);
}

// ---- space ----

TEST(LogSpace, ComesBackWholeFromEveryWayATicketEnds) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  auto unused = rig.log.reserve(1000, 3, true);
  ASSERT_TRUE(unused.has_value());
  EXPECT_GT(rig.log.reserve_granted_bytes(), 3000);
  rig.log.end(*unused);
  EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
  EXPECT_EQ(rig.log.write_granted_bytes(), 0);

  auto rolling = rig.log.reserve(1000, 2, true);
  ASSERT_TRUE(rolling.has_value());
  for (int i = 0; i < 6; ++i) {
    a.lock.lock();
    a.text = std::to_string(i);
    LogItem* const items[] = {&a};
    rig.log.commit(items, *rolling);
    ASSERT_TRUE(rig.log.roll(*rolling).has_value());
  }
  rig.log.end(*rolling);
  ASSERT_TRUE(rig.log.force_all().has_value());
  ASSERT_TRUE(rig.ail.wait_empty().has_value());
  EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
  EXPECT_EQ(rig.log.write_granted_bytes(), 0);
}

TEST(LogSpace, RefusesWhatCouldNeverFit) {
  LogRig rig({.sectors = 512});
  const auto ticket = rig.log.reserve(200'000, 1, false);
  ASSERT_FALSE(ticket.has_value());
  EXPECT_EQ(ticket.error().code, Reason::kNoSpace);
}

TEST(LogSpace, AssertsThatATransactionKeepsToItsReservation) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  auto ticket = rig.log.reserve(100, 1, false);
  ASSERT_TRUE(ticket.has_value());
  a.lock.lock();
  a.text = std::string(20'000, 'x');
  LogItem* const items[] = {&a};
  EXPECT_DEATH(rig.log.commit(items, *ticket), "logs more than it reserved");
  a.lock.unlock();
  rig.log.end(*ticket);
}

// Far more than the log holds, through it: every commit waits for the pusher and for published tails.
TEST(LogSpace, IsReusedRoundAndRound) {
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 256});
  for (int i = 0; i < 8; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back("write", [&, w] {
      Rng rng(static_cast<std::uint64_t>(w));
      for (int i = 0; i < 300; ++i) {
        auto object = std::next(objects.begin(), static_cast<std::ptrdiff_t>(rng.below(8)));
        const std::uint64_t sequence = rig.change(*object, std::string(100 + rng.below(5000), 'x'));
        if (i % 4 == 0) {
          EXPECT_TRUE(rig.log.force(sequence).has_value());
        }
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  EXPECT_GT(rig.log.head().cycle(), 3U);
  EXPECT_GT(rig.log.stats().waits_for_space, 0U);
  rig.close();
  EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
  EXPECT_EQ(rig.log.write_granted_bytes(), 0);
  for (const LoggedObject& object : objects) {
    EXPECT_EQ(object.pins.load(std::memory_order_relaxed), 0);
    EXPECT_EQ(object.home, object.text);
  }
}

// ---- life ----

TEST(LogLife, EndsWithARecordThatSaysSo) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  rig.change(a, "x");
  ASSERT_TRUE(rig.log.force_all().has_value());
  ASSERT_TRUE(rig.ail.wait_empty().has_value());
  ASSERT_TRUE(rig.log.unmount().has_value());
  const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
  EXPECT_TRUE(read.unmounted);
  EXPECT_GE(read.tail, a.last_committed);
  const auto refused = rig.log.reserve(100, 1, false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Reason::kShutDown);
}

TEST(LogLife, GoesOnWhereItWasLeft) {
  const LogPlace place{LogRig::kLogOffset, 1024, Uuid::from_random(1, 2)};
  LoggedObject a("a");
  LogRig rig({.head = Lsn::make(7, 1000)});
  rig.add(a);
  rig.change(a, std::string(30'000, 'y'));
  ASSERT_TRUE(rig.log.force_all().has_value());
  const ReadLog read = read_log(rig.device, place, Lsn::make(7, 1000));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.head.cycle(), 8U);
}

TEST(LogLife, AbortsWhatWasNotStableWhenItIsShutDown) {
  LoggedObject a("a");
  LogRig rig({});
  rig.add(a);
  rig.change(a, "x");
  rig.log.shut_down(Error{Reason::kIo, 0, 0});
  EXPECT_EQ(rig.shutdowns.load(std::memory_order_relaxed), 1U);
  EXPECT_FALSE(rig.log.force_all().has_value());
  EXPECT_FALSE(rig.log.reserve(100, 1, false).has_value());
  rig.log.shut_down(Error{Reason::kIo, 0, 0});
  rig.close();
  EXPECT_EQ(rig.shutdowns.load(std::memory_order_relaxed), 1U) << "told once";
  EXPECT_EQ(a.aborts.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(a.pins.load(std::memory_order_relaxed), 0);
  EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
  EXPECT_EQ(read_log(rig.device, rig.place, Lsn::make(1, 0)).records, 0U);
}

// An error at every single write: nothing hangs, nothing stays pinned, no space is lost, and what was said to
// be stable can be read.
TEST(LogLife, EndsCleanlyWhicheverWriteFails) {
  for (std::uint64_t nth = 0;; ++nth) {
    SCOPED_TRACE(nth);
    FaultyDevice device(RamDevice::make(LogRig::kLogOffset + 512 * 512).value());
    device.add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .first = nth});
    std::list<LoggedObject> objects;
    LogRig rig({.sectors = 512}, &device);
    for (int i = 0; i < 4; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
    std::uint64_t acknowledged = 0;
    for (int i = 0; i < 40; ++i) {
      auto object = std::next(objects.begin(), i % 4);
      const std::uint64_t sequence = rig.change(*object, std::string(3000, static_cast<char>('a' + i % 26)));
      if (sequence != 0 && i % 3 == 0 && rig.log.force(sequence)) acknowledged = sequence;
    }
    rig.close();
    if (!rig.log.is_shut_down()) {
      EXPECT_GT(nth, 10U) << "the run has that many writes";
      break;
    }
    EXPECT_GE(rig.log.stable_sequence(), acknowledged);
    const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
    EXPECT_EQ(rig.log.reserve_granted_bytes(), 0);
    EXPECT_EQ(rig.log.write_granted_bytes(), 0);
    EXPECT_EQ(rig.shutdowns.load(std::memory_order_relaxed), 1U);
    for (const LoggedObject& object : objects) EXPECT_EQ(object.pins.load(std::memory_order_relaxed), 0);
    if (rig.log.published_tail() == Lsn::make(1, 0) && acknowledged != 0) {
      ASSERT_FALSE(read.committed.empty());
      EXPECT_GE(read.committed.back().sequence, acknowledged);
    }
  }
}

}  // namespace
}  // namespace tidewheel
