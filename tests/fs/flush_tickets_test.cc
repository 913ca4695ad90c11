// Flush tickets: how many flushes many who need one send, which flush covers what, and that nothing that was
// acknowledged is lost by a crash.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <list>

#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "fs/block/ram_device.h"
#include "fs/block/recorded_device.h"
#include "fs/crash/explorer.h"
#include "tests/fs/io.h"
#include "tests/fs/log_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

class FlushTicketsTest : public testing::Test {
 protected:
  void stall_flushes() {
    device_.add({.op = IoOp::kFlush, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  }
  void wait_for_stalled(std::size_t count) {
    while (device_.stalled() < count) yield_thread();
  }
  void let_go() {
    device_.clear_rules();
    device_.release_stalled();
  }
  FaultyDevice device_{RamDevice::make(1 << 20).value()};
  FlushTickets tickets_{device_};
};

TEST_F(FlushTicketsTest, SendsNoneWhereOneBeganAfterTheTicket) {
  const FlushTicket early = tickets_.take();
  ASSERT_TRUE(tickets_.flush(tickets_.take()).has_value());
  ASSERT_TRUE(tickets_.flush(early).has_value());
  EXPECT_EQ(device_.stats().flushes, 1U);
  ASSERT_TRUE(tickets_.flush(tickets_.take()).has_value());
  EXPECT_EQ(device_.stats().flushes, 2U) << "what completed after the first is covered by another";
  EXPECT_EQ(tickets_.stats().shared, 1U);
}

// A flush that runs when a write completes does not cover it, however late it ends.
TEST_F(FlushTicketsTest, ShareTheNextFlushNotTheOneThatRuns) {
  constexpr std::uint32_t kMany = 8;
  stall_flushes();
  Thread first("flush", [this] { EXPECT_TRUE(tickets_.flush(tickets_.take()).has_value()); });
  wait_for_stalled(1);
  Atomic<std::uint32_t> asked{0};
  std::list<Thread> many;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    many.emplace_back("flush", [this, &asked] {
      const FlushTicket ticket = tickets_.take();
      asked.fetch_add(1, std::memory_order_relaxed);
      EXPECT_TRUE(tickets_.flush(ticket).has_value());
    });
  }
  while (asked.load(std::memory_order_relaxed) != kMany) yield_thread();
  EXPECT_EQ(device_.stalled(), 1U) << "one at a time";
  let_go();
  first.join();
  for (Thread& thread : many) thread.join();
  EXPECT_EQ(device_.stats().flushes, 2U);
  EXPECT_EQ(tickets_.stats().sent, 2U);
  EXPECT_EQ(tickets_.stats().shared, kMany - 1);
}

TEST_F(FlushTicketsTest, TellsAFailureToAllWhomItWouldHaveCovered) {
  const FlushTicket early = tickets_.take();
  device_.add({.op = IoOp::kFlush});
  EXPECT_EQ(tickets_.flush(early).error().code, Reason::kIo);
  const FlushTicket late = tickets_.take();
  EXPECT_TRUE(tickets_.flush(late).has_value());
  EXPECT_EQ(tickets_.flush(early).error().code, Reason::kIo) << "a later success brings nothing back";
  EXPECT_TRUE(tickets_.flush(late).has_value());
}

TEST_F(FlushTicketsTest, RememberAFailureBehindALaterOne) {
  const FlushTicket early = tickets_.take();
  device_.add({.op = IoOp::kFlush});
  EXPECT_EQ(tickets_.flush(tickets_.take()).error().code, Reason::kIo);
  const FlushTicket middle = tickets_.take();
  EXPECT_TRUE(tickets_.flush(middle).has_value());
  device_.add({.op = IoOp::kFlush});
  EXPECT_EQ(tickets_.flush(tickets_.take()).error().code, Reason::kIo);
  EXPECT_EQ(tickets_.flush(early).error().code, Reason::kIo) << "the first one failed, whatever came after";
  EXPECT_TRUE(tickets_.flush(middle).has_value()) << "a flush between the two covers it";
}

// The flush before a commit record serves an fsync's data: a commit, a force, no flush besides.
TEST(LogFlush, IsSharedWithTheCommitRecords) {
  LoggedObject a("a");
  LogRig rig({.pusher = false});
  rig.add(a);
  for (int i = 0; i < 10; ++i) {
    const FlushTicket ticket = rig.log.flush_ticket();
    const std::uint64_t sequence = rig.change(a, std::to_string(i));
    ASSERT_TRUE(rig.log.force(sequence).has_value());
    ASSERT_TRUE(rig.log.flush(ticket).has_value());
  }
  EXPECT_EQ(rig.log.stats().flushes.sent, 0U);
  EXPECT_EQ(rig.log.stats().flushes.shared, 10U);
  EXPECT_EQ(rig.device.stats().flushes, 10U);
  // Nothing to commit: one of its own.
  ASSERT_TRUE(rig.log.flush(rig.log.flush_ticket()).has_value());
  EXPECT_EQ(rig.device.stats().flushes, 11U);
}

// ---- every crash of many fsyncs ----

constexpr std::uint64_t kWriters = 4;
constexpr std::uint64_t kVersions = 4;

// Writers overwrite a block each, by version, and acknowledge a version once it is flushed. The runs take
// place in the simulator, under many orders; the device completes in any order and loses what no flush
// covers.
class FsyncWorkload final : public CrashWorkload {
 public:
  explicit FsyncWorkload(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t image_bytes() const override { return kWriters * 4096; }
  Result<void> format(BlockDevice& device) override {
    AlignedBytes zero(4096);
    std::memset(zero.data(), 0, 4096);
    for (std::uint64_t w = 0; w < kWriters; ++w) TW_TRY(device.write(w * 4096, zero.span()));
    return device.flush();
  }
  Result<void> run(BlockDevice& device, AckLog&) override {
    std::vector<std::byte> image(image_bytes());
    TW_TRY(device.read(0, image));
    const sim::Outcome outcome = sim::explore({.schedules = 1, .first_seed = seed_}, [&] {
      SimDevice disk({.size_bytes = image_bytes(), .seed = seed_});
      disk.preload(0, image);
      RecordedDevice recorded(disk);
      FlushTickets tickets(recorded);
      std::vector<Thread> writers;
      for (std::uint64_t w = 0; w < kWriters; ++w) {
        writers.emplace_back("write", [&recorded, &tickets, w] { write(recorded, tickets, w); });
      }
      for (Thread& writer : writers) writer.join();
      keep(recorded.trace());
    });
    if (outcome.failed) return TW_FAIL(kCorrupt);
    return {};
  }
  const IoTrace* own_trace() const override { return &trace_; }
  Result<void> recover(BlockDevice&) const override { return {}; }
  CheckResult check(BlockDevice& device, Acks acks) const override {
    std::array<std::uint64_t, kWriters> acknowledged{};
    for (const Ack& ack : acks) acknowledged[ack.what] = std::max(acknowledged[ack.what], ack.value);
    AlignedBytes block(4096);
    for (std::uint64_t w = 0; w < kWriters; ++w) {
      if (!device.read(w * 4096, block.span())) return CheckFailure{"unreadable", std::to_string(w)};
      for (std::uint64_t sector = 0; sector < 8; ++sector) {
        const auto found = std::to_integer<std::uint64_t>(block.span()[sector * 512]);
        if (found < acknowledged[w]) {
          return CheckFailure{"lost acknowledged write", "writer " + std::to_string(w)};
        }
      }
    }
    return {};
  }

 private:
  static void write(RecordedDevice& device, FlushTickets& tickets, std::uint64_t writer) {
    AlignedBytes block(4096);
    for (std::uint64_t version = 1; version <= kVersions; ++version) {
      std::memset(block.data(), static_cast<int>(version), 4096);
      SIM_CHECK(device.write(writer * 4096, block.span()).has_value());
      SIM_CHECK(tickets.flush(tickets.take()).has_value());
      device.note(writer, version);
    }
  }

  // What was written lies in the recorder, which ends with its simulation.
  void keep(const IoTrace& trace) {
    trace_ = trace;
    content_.clear();
    for (IoTrace::Op& op : trace_.ops) {
      if (op.content == nullptr) continue;
      content_.emplace_back(op.content, op.content + op.len_bytes);
      op.content = content_.back().data();
    }
  }

  const std::uint64_t seed_;
  IoTrace trace_;
  std::deque<std::vector<std::byte>> content_;
};

TEST(FlushTicketsCrash, LoseNothingThatWasAcknowledged) {
  ExploreOptions options;
  options.workload = "fsync";
  options.make = [](std::uint64_t seed) { return std::make_unique<FsyncWorkload>(seed); };
  options.seed = 1;
  options.runs = 0;
  options.states_of_run = 500;
  options.states = loop_length(5'000);
  options.max_failures = 3;
  const Exploration found = explore(options);
  EXPECT_EQ(found.broken, "");
  EXPECT_GE(found.states, options.states);
  for (const CrashFailure& failure : found.failures) {
    ADD_FAILURE() << failure.oracle << ": " << failure.detail << "\n" << failure.replay;
  }
}

// The same in one run, for the orders of the threads: a crash right after the last acknowledgement.
SIM_TEST(FlushTicketsSim, CoverWhatHadCompletedWhenTheyWereTaken) {
  SimDevice disk({.size_bytes = kWriters * 4096});
  FlushTickets tickets(disk);
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    writers.emplace_back("write", [&disk, &tickets, w] {
      AlignedBytes block(4096);
      std::memset(block.data(), static_cast<int>(w + 1), 4096);
      SIM_CHECK(disk.write(w * 4096, block.span()).has_value());
      SIM_CHECK(tickets.flush(tickets.take()).has_value());
    });
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(disk.lose_unflushed().has_value());
  AlignedBytes block(4096);
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    SIM_CHECK(disk.read(w * 4096, block.span()).has_value());
    SIM_CHECK(block.span()[0] == std::byte(w + 1));
  }
  SIM_CHECK(tickets.stats().sent + tickets.stats().shared == kWriters);
}

}  // namespace
}  // namespace tidewheel
