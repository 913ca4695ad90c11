// Rules of transactions that nothing else would miss: what a home says, in which order items are logged.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tidewheel
