// Rules of transactions that nothing else would miss: what a home says, in which order items are logged.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "tests/fs/trans_rig.h"

namespace tidewheel {
namespace {

Lsn lsn_at_home(TransRig& rig, std::uint64_t block) {
  AlignedBytes bytes(kFsBlockBytes);
  EXPECT_TRUE(rig.buf.device->read(TransRig::at(block).bytes(), bytes.span()).has_value());
  return Lsn{disk::view<disk::BlockHeader>(std::span<const std::byte>(bytes.span())).lsn};
}

// By it recovery tells what it need not replay.
TEST(FaultHome, CarriesTheStartOfTheLastCheckpointInIt) {
  TransRig rig;
  rig.change(0, 1);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(lsn_at_home(rig, 0), Lsn::make(1, 0));
  const Lsn head = rig.journal->ail().tail_lsn();
  rig.change(0, 2);
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  const Lsn second = rig.journal->ail().max_lsn();
  EXPECT_GT(second, head);
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  EXPECT_EQ(lsn_at_home(rig, 0), second);
}

// Locks that items take before the commit are taken in one order, whatever that of joining.
TEST(FaultHome, ItemsAreLoggedInTheOrderOfTheirPlaces) {
  TransRig rig;
  {
    auto transaction = Transaction::begin(*rig.journal, {.payload_bytes = 6 * 4300});
    for (const std::uint64_t block : {3, 1, 4, 0, 2}) ASSERT_TRUE(rig.write(*transaction, block, 9));
    ASSERT_TRUE(transaction->commit().has_value());
  }
  ASSERT_TRUE(rig.journal->log().force_all().has_value());
  const ReadLog read = read_log(*rig.buf.device, rig.place, Lsn::make(1, 0));
  ASSERT_EQ(read.committed.size(), 1U);
  std::vector<std::uint64_t> order;
  for (const std::string& region : read.committed[0].regions) {
    if (region.size() == kFsBlockBytes) continue;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(region));
    order.push_back(disk::view<disk::BufferItemFormat>(bytes).address - TransRig::at(0).value);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  ASSERT_TRUE(rig.journal->quiesce().has_value());
  rig.expect_at_rest();
}

// An item may join what must be logged with it, once, before any is written into the checkpoint.
TEST(FaultHome, EachDirtyItemIsAskedOnceBeforeTheFirstIsFormatted) {
  struct Item final : LogItem {
    explicit Item(std::vector<std::string>& its_calls) : calls(its_calls) {}
    void precommit() noexcept override { calls.emplace_back("precommit"); }
    LogSize size() const noexcept override { return {1, sizeof(disk::LogItemHeader)}; }
    void format(LogVectorWriter& out) noexcept override {
      calls.emplace_back("format");
      disk::LogItemHeader header{};
      header.regions = 1;
      out.region(std::as_bytes(std::span(&header, 1)));
    }
    void pin() noexcept override {}
    void unpin(bool) noexcept override {}
    void committing(std::uint64_t) noexcept override {}
    void release() noexcept override { calls.emplace_back("release"); }
    Lsn committed(Lsn) noexcept override { return kNeverLsn; }
    PushResult push(PushScope&) noexcept override { return PushResult::kLocked; }
    std::vector<std::string>& calls;
  };
  std::vector<std::string> calls;
  Item first(calls), second(calls), clean(calls);
  TransRig rig;
  auto transaction = rig.begin();
  for (Item* const item : {&first, &second, &clean}) transaction->join(*item);
  transaction->log(first);
  transaction->log(second);
  ASSERT_TRUE(transaction->commit().has_value());
  EXPECT_EQ(calls, (std::vector<std::string>{"precommit", "precommit", "release", "format", "format"}));
  ASSERT_TRUE(rig.journal->quiesce().has_value());
}

// A log that fails by itself: what it aborts is unpinned while a pusher may have it in hand, queued from
// before it was changed.
SIM_TEST_WITH(FaultHomeSim, WhatAFailingLogAbortsNeverReachesTheDevice, (sim::Options{.schedules = 400})) {
  TransRig rig;
  SIM_CHECK(rig.change(0, 1) != 0);
  SIM_CHECK(rig.journal->log().force_all().has_value());
  rig.buf.device->add({.op = IoOp::kWrite});
  Thread pusher("push", [&rig] { rig.journal->ail().push_all(); });
  const std::uint64_t second = rig.change(0, 2);
  static_cast<void>(rig.journal->log().force_all());
  pusher.join();
  rig.journal->close();
  SIM_CHECK((second != 0 && rig.journal->log().stable_sequence() >= second) || rig.home(0) != 2);
  rig.expect_at_rest();
}

// Without a policy of the mount's a lost write ends the journal all the same: its item cannot leave the AIL.
TEST(FaultHome, ALostWriteShutsTheJournalDown) {
  BufRig buf;
  const LogPlace place{.offset_bytes = buf.geometry.address_of(buf.geometry.log_start).bytes(),
                       .sectors = buf.geometry.log_blocks * 8,
                       .uuid = buf.geometry.uuid};
  JournalOptions options;
  options.log.buffer_bytes = 16 * 1024;
  options.log.worker_interval = Duration::max();
  const Lsn start = Lsn::make(1, 0);
  Journal journal(*buf.target, place, {.tail = start, .head = start}, options);
  {
    auto transaction = Transaction::begin(journal, {.payload_bytes = 2 * 4300});
    const auto buffer = transaction->make({100}, 1, kMockType);
    fill_mock((*buffer)->bytes(), buf.geometry, {100}, 1);
    transaction->log_all(**buffer);
    ASSERT_TRUE(transaction->commit().has_value());
  }
  ASSERT_TRUE(journal.log().force_all().has_value());
  buf.device->add({.op = IoOp::kWrite, .count = FaultRule::kForEver});
  EXPECT_FALSE(journal.ail().wait_empty().has_value());
  EXPECT_TRUE(journal.is_shut_down());
  journal.close();
  EXPECT_EQ(buf.on_device({100}), UINT64_MAX);
}

}  // namespace
}  // namespace tidewheel
