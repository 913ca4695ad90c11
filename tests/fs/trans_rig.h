// A journal over the buffer cache's rig, and transactions that write versions into mock blocks.
#pragma once
#include "fs/trans/transaction.h"
#include "tests/fs/buf_rig.h"
#include "tests/fs/log_reader.h"

namespace tidewheel {

class TransRig final : public BufferPolicy, public Journal::Listener {
 public:
  explicit TransRig(bool asynchronous = false, std::uint32_t log_sectors = 0, std::uint32_t retries = 0,
                    Duration worker_interval = Duration::max())
      : retries_(retries), buf({.policy = this, .asynchronous = asynchronous}) {
    place = {.offset_bytes = buf.geometry.address_of(buf.geometry.log_start).bytes(),
             .sectors = log_sectors != 0 ? log_sectors : buf.geometry.log_blocks * 8,
             .uuid = buf.geometry.uuid};
    const Lsn start = Lsn::make(1, 0);
    JournalOptions options;
    options.log.buffer_bytes = 16 * 1024;
    options.log.buffers = 4;
    options.log.worker_interval = worker_interval;
    const LogPosition position{.tail = start, .head = start};
    journal = std::make_unique<Journal>(*buf.target, place, position, options, this);
  }
  ~TransRig() { journal->close(); }

  static DeviceAddress at(std::uint64_t i) { return {100 + i}; }
  Result<Transaction> begin(std::uint32_t units = 1) {
    return Transaction::begin(*journal, {.payload_bytes = 3 * 4300, .units = units, .rolls = units > 1});
  }
  // The block's whole content becomes this version, in a transaction of its own. 0: shut down.
  std::uint64_t change(std::uint64_t block, std::uint64_t version) {
    auto transaction = begin();
    if (!transaction) return 0;
    if (!write(*transaction, block, version)) return 0;
    const auto sequence = transaction->commit();
    return sequence ? *sequence : 0;
  }
  bool write(Transaction& transaction, std::uint64_t block, std::uint64_t version) {
    const auto buffer = transaction.make(at(block), 1, kMockType);
    if (!buffer) return false;
    fill_mock((*buffer)->bytes(), buf.geometry, at(block), version);
    transaction.log_all(**buffer);
    return true;
  }
  std::uint64_t home(std::uint64_t block) { return buf.on_device(at(block)); }
  void expect_at_rest() {
    EXPECT_EQ(journal->log().reserve_granted_bytes(), 0);
    EXPECT_EQ(journal->log().write_granted_bytes(), 0);
    EXPECT_EQ(journal->ail().stats().items, 0U);
    for (std::uint64_t i = 0; i < 16; ++i) {
      const BufferHold held = buf.cache->find(*buf.target, at(i), 1);
      if (!held) continue;
      EXPECT_EQ(held->holds_for_test(), 1U) << i;
      EXPECT_FALSE(held->pinned()) << i;
      EXPECT_FALSE(held->locked()) << i;
      EXPECT_EQ(held->client(), nullptr) << i;
    }
  }

  std::uint32_t shutdowns = 0;

 private:
  WriteErrorAction on_write_error(const Buffer&, Error, std::uint32_t failures) override {
    return failures <= retries_ ? WriteErrorAction::kRetry : WriteErrorAction::kGiveUp;
  }
  void on_lost_write(const Buffer&, Error error) override { journal->shut_down(error); }
  void journal_shut_down(Error) override { ++shutdowns; }

  const std::uint32_t retries_;

 public:
  BufRig buf;
  LogPlace place;
  std::unique_ptr<Journal> journal;
};

}  // namespace tidewheel
