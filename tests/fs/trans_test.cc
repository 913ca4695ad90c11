// Transactions over real buffers, log and AIL, one thread at a time.
#include <gtest/gtest.h>

#include "base/thread.h"
#include "tests/fs/trans_rig.h"

namespace tidewheel {
namespace {

using disk::LogItemType;

std::vector<const disk::BufferItemFormat*> buffer_items(const ReadCheckpoint& checkpoint) {
  std::vector<const disk::BufferItemFormat*> items;
  for (std::size_t i = 0; i < checkpoint.regions.size();) {
    const auto& head = *reinterpret_cast<const disk::LogItemHeader*>(checkpoint.regions[i].data());
    if (head.type == static_cast<std::uint16_t>(LogItemType::kBuffer)) {
      items.push_back(reinterpret_cast<const disk::BufferItemFormat*>(checkpoint.regions[i].data()));
    }
    i += head.regions;
  }
  return items;
}

TEST(TransactionCommit, IsLoggedAndThenGoesHome) {
  TransRig rig;
  const std::uint64_t sequence = rig.change(0, 7);
  ASSERT_TRUE(rig.journal->log().force(sequence).has_value());
  EXPECT_NE(rig.home(0), 7U) << "in the log, not yet at home";
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(rig.home(0), 7U);
  rig.expect_at_rest();
}

TEST(TransactionCommit, WithoutAChangeLogsNothing) {
  TransRig rig;
  rig.buf.put(TransRig::at(0), 3);
  auto transaction = rig.begin();
  ASSERT_TRUE(transaction.has_value());
  ASSERT_TRUE(transaction->read(TransRig::at(0), 1, kMockType).has_value());
  EXPECT_EQ(*transaction->commit(), 0U);
  EXPECT_EQ(rig.journal->log().stats().cil.commits, 0U);
  rig.expect_at_rest();
}

TEST(TransactionCommit, AnswersABufferThatHasJoinedAgain) {
  TransRig rig;
  rig.buf.put(TransRig::at(0), 3);
  auto transaction = rig.begin();
  const auto first = transaction->read(TransRig::at(0), 1, kMockType);
  const auto again = transaction->read(TransRig::at(0), 1, kMockType);
  EXPECT_EQ(*first, *again);
  transaction->cancel();
  rig.expect_at_rest();
}

// The tail passes the first image once the item has moved: the second must hold everything.
TEST(TransactionCommit, LogsAllThatIsNotAtHomeYet) {
  TransRig rig;
  rig.change(0, 1);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  for (const std::uint32_t chunk : {2U, 9U}) {
    auto transaction = rig.begin();
    const auto buffer = transaction->read(TransRig::at(0), 1, kMockType);
    ASSERT_TRUE(buffer.has_value());
    transaction->log(**buffer, chunk * 128 + 5, chunk * 128 + 6);
    ASSERT_TRUE(transaction->commit().has_value());
    ASSERT_TRUE(rig.journal->log().force_all().has_value());
  }
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 3U);
  EXPECT_EQ(read.committed[0].regions.size(), 2U);
  ASSERT_EQ(read.committed[1].regions.size(), 2U);
  EXPECT_EQ(read.committed[1].regions[1].size(), 128U);
  ASSERT_EQ(read.committed[2].regions.size(), 3U) << "both chunks, though one changed";
  const auto* const item = buffer_items(read.committed[2]).at(0);
  const auto& words = *reinterpret_cast<const disk::Le32*>(item + 1);
  EXPECT_EQ(words, (1U << 2 | 1U << 9));
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  rig.expect_at_rest();
}

TEST(TransactionCommit, SaysThatANewBlockIsNew) {
  TransRig rig;
  rig.change(0, 1);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(0), 1, kMockType);
  transaction->log(**buffer, 0, 0);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  EXPECT_EQ(buffer_items(read.committed.at(0)).at(0)->flags, disk::kBufferNew);
  EXPECT_EQ(buffer_items(read.committed.at(1)).at(0)->flags, 0);
}

// ---- cancel ----

TEST(TransactionCancel, LeavesNothingWhenNothingWasChanged) {
  TransRig rig;
  rig.buf.put(TransRig::at(0), 3);
  {
    auto transaction = rig.begin();
    ASSERT_TRUE(transaction->read(TransRig::at(0), 1, kMockType).has_value());
  }
  EXPECT_FALSE(rig.journal->is_shut_down());
  rig.expect_at_rest();
}

TEST(TransactionCancel, ShutsDownBeforeAChangedBufferIsUnlocked) {
  TransRig rig;
  rig.change(0, 1);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  {
    auto transaction = rig.begin();
    ASSERT_TRUE(rig.write(*transaction, 0, 2));
  }  // never committed
  EXPECT_TRUE(rig.journal->is_shut_down());
  EXPECT_EQ(rig.shutdowns, 1U);
  EXPECT_FALSE(rig.begin().has_value());
  rig.journal->close();
  EXPECT_EQ(rig.home(0), 1U);
  rig.expect_at_rest();
}

TEST(TransactionNesting, IsRefusedInDebugBuilds) {
#if !defined(TW_DASSERT_ON)
  GTEST_SKIP() << "debug assertions are off";
#endif
  TransRig rig;
  auto outer = rig.begin();
  EXPECT_DEATH(static_cast<void>(rig.begin()), "transaction within a transaction");
  outer->cancel();
}

// ---- roll ----

TEST(TransactionRoll, KeepsItsBuffersLockedAndCommitsEachStep) {
  TransRig rig;
  auto transaction = rig.begin(2);
  for (std::uint64_t version = 1; version <= 5; ++version) {
    ASSERT_TRUE(rig.write(*transaction, 0, version));
    const BufferHold held = rig.buf.cache->find(*rig.buf.target, TransRig::at(0), 1);
    transaction->keep(*held);
    ASSERT_TRUE(transaction->roll().has_value());
    EXPECT_TRUE(held->locked());
    ASSERT_TRUE(rig.journal->log().force_all().has_value());
  }
  EXPECT_EQ(*transaction->commit(), 0U) << "nothing was changed since the last roll";
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  EXPECT_EQ(read.committed.size(), 5U);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(rig.home(0), 5U);
  rig.expect_at_rest();
}

// ---- freed blocks ----

TEST(TransactionInvalidate, KeepsTheBufferLockedUntilItIsStableAndWritesItNoMore) {
  TransRig rig;
  rig.change(0, 1);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  rig.change(0, 2);
  ASSERT_TRUE(rig.journal->log().force_all().has_value());  // in the AIL, not at home
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(0), 1, kMockType);
  transaction->invalidate(**buffer);
  const auto sequence = transaction->commit();
  ASSERT_TRUE(sequence.has_value());
  {
    const BufferHold held = rig.buf.cache->find(*rig.buf.target, TransRig::at(0), 1);
    EXPECT_TRUE(held->locked()) << "its block can't be anything else yet";
  }
  ASSERT_TRUE(rig.journal->log().force(*sequence).has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(rig.home(0), 1U) << "the image of version 2 stays where it is: in the log, cancelled";
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  EXPECT_EQ(buffer_items(read.committed.back()).at(0)->flags, disk::kBufferCancel);
  EXPECT_EQ(read.committed.back().regions.size(), 1U);
  rig.expect_at_rest();
}

TEST(TransactionInvalidate, ReplacesAnImageOfTheSameCheckpoint) {
  TransRig rig;
  rig.change(0, 2);
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(0), 1, kMockType);
  transaction->invalidate(**buffer);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.committed[0].regions.size(), 1U);
  rig.expect_at_rest();
}

TEST(TransactionOrder, BringsABufferHomeWithoutLoggingIt) {
  TransRig rig;
  auto transaction = rig.begin();
  const auto buffer = transaction->make(TransRig::at(1), 1, kMockType);
  fill_mock((*buffer)->bytes(), rig.buf.geometry, TransRig::at(1), 9);
  transaction->order(**buffer);
  ASSERT_TRUE(rig.write(*transaction, 0, 1));  // from which it could be made again
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(rig.home(1), 9U);
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  EXPECT_EQ(read.committed.at(0).item_count, 1U);
  EXPECT_EQ(buffer_items(read.committed[0]).size(), 1U);
  rig.expect_at_rest();
}

// Block 1 is made, ordered and stable, and not home yet.
void make_ordered(TransRig& rig) {
  auto transaction = rig.begin();
  const auto buffer = transaction->make(TransRig::at(1), 1, kMockType);
  fill_mock((*buffer)->bytes(), rig.buf.geometry, TransRig::at(1), 9);
  transaction->order(**buffer);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
}

// What it was made from may lie before the tail when the change is replayed.
TEST(TransactionOrder, LogsAllOfAnOrderedBufferThatIsChangedBeforeItIsHome) {
  TransRig rig;
  make_ordered(rig);
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(1), 1, kMockType);
  transaction->log(**buffer, 1000, 1000);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.back().regions.size(), 2U);
  EXPECT_EQ(read.committed.back().regions[1].size(), kFsBlockBytes);
  EXPECT_EQ(buffer_items(read.committed.back()).at(0)->flags, disk::kBufferNew);
  rig.expect_at_rest();
}

// The tail passes the image that is logged when the item moves.
TEST(TransactionOrder, DoesNotTakeWhatIsLoggedOutOfTheLog) {
  TransRig rig;
  rig.change(1, 3);
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  auto transaction = rig.begin();
  const auto buffer = transaction->read(TransRig::at(1), 1, kMockType);
  transaction->order(**buffer);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.back().regions.size(), 2U);
  EXPECT_EQ(read.committed.back().regions[1].size(), kFsBlockBytes);
  rig.expect_at_rest();
}

TEST(TransactionOrder, SaysThatAnOrderedBufferWasFreed) {
  TransRig rig;
  make_ordered(rig);
  auto transaction = rig.begin();
  transaction->invalidate(**transaction->read(TransRig::at(1), 1, kMockType));
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_FALSE(read.committed.back().regions.empty());
  EXPECT_EQ(buffer_items(read.committed.back()).at(0)->flags, disk::kBufferCancel);
  rig.expect_at_rest();
}

// ---- intents ----

struct OneExtent {
  disk::IntentExtent extent{};
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(&extent, 1)); }
};

TEST(TransactionIntent, IsWhitedOutWhenItsChainEndsInOneCheckpoint) {
  TransRig rig;
  auto transaction = rig.begin(3);
  ASSERT_TRUE(rig.write(*transaction, 0, 1));
  IntentItem& intent = transaction->log_intent(LogItemType::kFreeExtentIntent, 1, 1, OneExtent().bytes());
  ASSERT_TRUE(transaction->roll().has_value());
  ASSERT_TRUE(rig.write(*transaction, 1, 1));
  transaction->log_done(LogItemType::kFreeExtentDone, intent);
  ASSERT_TRUE(transaction->commit().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  EXPECT_EQ(read.committed[0].item_count, 2U);
  EXPECT_EQ(buffer_items(read.committed[0]).size(), 2U);
  EXPECT_EQ(rig.journal->log().stats().cil.whiteouts, 1U);
  rig.expect_at_rest();
}

TEST(TransactionIntent, PinsTheTailUntilItsDoneItemIsStable) {
  TransRig rig;
  auto transaction = rig.begin(3);
  IntentItem& intent = transaction->log_intent(LogItemType::kFreeExtentIntent, 1, 1, OneExtent().bytes());
  ASSERT_TRUE(transaction->roll().has_value());
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  EXPECT_EQ(rig.journal->ail().min_lsn(), Lsn::make(1, 0));
  transaction->log_done(LogItemType::kFreeExtentDone, intent);
  ASSERT_TRUE(transaction->commit().has_value());
  EXPECT_EQ(rig.journal->ail().min_lsn(), Lsn::make(1, 0)) << "done, and not yet stable";
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  rig.expect_at_rest();
}

TEST(TransactionIntent, GoesWithItsChainAtAShutdown) {
  TransRig rig;
  auto transaction = rig.begin(2);
  IntentItem& intent = transaction->log_intent(LogItemType::kFreeExtentIntent, 1, 1, OneExtent().bytes());
  ASSERT_TRUE(transaction->roll().has_value());
  rig.journal->shut_down(Error{Reason::kIo, 0, 0});
  EXPECT_FALSE(transaction->roll().has_value());
  intent.forsake();
  rig.journal->close();
  rig.expect_at_rest();
}

// ---- errors ----

TEST(TransactionErrors, RetriesAWriteHomeThatFailed) {
  TransRig rig(true, 0, 3);
  rig.buf.device->add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .first = 1});  // 0 is the log's
  rig.change(0, 5);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(rig.home(0), 5U);
  EXPECT_EQ(rig.buf.cache->stats().write_errors, 1U);
  rig.expect_at_rest();
}

// An error at every single write, of log and metadata: a clean end, with nothing pinned, granted or held.
TEST(TransactionErrors, EndCleanlyWhicheverWriteFails) {
  for (std::uint64_t nth = 0;; ++nth) {
    SCOPED_TRACE(nth);
    TransRig rig(nth % 2 == 1);
    rig.buf.device->add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .first = nth});
    std::uint64_t acknowledged = 0;  // blocks with gaps: each is a write of its own
    for (std::uint64_t version = 1; version <= 24; ++version) {
      const std::uint64_t sequence = rig.change(version % 4 * 2, version);
      if (sequence == 0) break;
      if (version % 3 == 0 && rig.journal->log().force(sequence)) acknowledged = sequence;
      if (version % 8 == 0 && !rig.journal->quiesce()) break;
    }
    const bool died = rig.journal->is_shut_down();
    rig.journal->close();
    EXPECT_GE(rig.journal->log().stable_sequence(), acknowledged);
    rig.expect_at_rest();
    if (HasFailure()) break;
    if (!died) {
      EXPECT_GT(nth, 12U) << "the run has that many writes";
      break;
    }
    EXPECT_EQ(rig.shutdowns, 1U);
  }
}

}  // namespace
}  // namespace tidewheel
