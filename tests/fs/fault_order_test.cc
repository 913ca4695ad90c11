// Every order in which the writes of a full ring of log buffers can complete; and no allocation while a
// checkpoint is shared (docs/faults-machinery.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <numeric>

#include "fs/log/checkpoint.h"
#include "fs/log/iclog.h"
#include "tests/fs/log_rig.h"
#include "tests/heap_count.h"

namespace tidewheel {
namespace {

constexpr std::size_t kRing = disk::kMaxLogBuffers;

// Keeps what is submitted until the test completes it.
class HoldingDevice final : public BlockDevice {
 public:
  std::string_view name() const override { return "holding"; }
  std::uint64_t size_bytes() const override { return 1 << 20; }
  std::uint32_t block_bytes() const override { return 4096; }
  std::uint32_t memory_alignment() const override { return 1; }
  void submit(IoRequest& request) override {
    const std::uint32_t number = submitted.load(std::memory_order_relaxed);
    held[number] = &request;
    if (request.preflush && completed.load(std::memory_order_acquire) != number) flushed_early = true;
    submitted.store(number + 1, std::memory_order_release);
  }
  DeviceStats stats() const override { return {}; }
  void begin() {
    submitted.store(0, std::memory_order_relaxed);
    completed.store(0, std::memory_order_relaxed);
  }
  void wait_submitted(std::uint32_t count) {
    while (submitted.load(std::memory_order_acquire) < count) yield_thread();
  }

  std::array<IoRequest*, kRing> held{};  // of the round, in the order of submission
  // release in submit() pairs with acquire in wait_submitted(); of those that the test has completed, release
  // in Ring::complete() with acquire in submit().
  Atomic<std::uint32_t> submitted{0}, completed{0};
  bool flushed_early = false;
};

// One ring, filled and completed again and again. The records' numbers are their places in a round.
class Ring final : public RecordOwner {
 public:
  Ring() : tickets_(device), ring_(device, tickets_, place(), kRing, disk::kMinLogBufferBytes, *this) {}
  static LogPlace place() { return {.offset_bytes = 0, .sectors = 512, .uuid = Uuid::from_random(1, 2)}; }

  void fill(std::size_t records, bool last_flushes) {
    device.begin();
    retired_.clear();
    completed_.fill(false);
    for (std::size_t i = 0; i < records; ++i) {
      Iclog& record = ring_.acquire();
      record.flushes = last_flushes && i + 1 == records;
      record.finish(place(), head_, head_, UINT32_MAX);
      numbers_[i] = head_;
      head_ = log_advance(head_, record.sectors(), place().sectors);
      ring_.seal(record);
    }
  }
  void complete(std::size_t number, bool good = true) {
    // Before its owner hears of it: what is retired by then must all have completed.
    completed_[number] = true;
    device.completed.fetch_add(1, std::memory_order_release);
    IoRequest& request = *device.held[number];
    request.done(request, good ? Result<void>() : TW_FAIL(kIo));
  }
  void wait_idle() { ring_.wait_idle(); }

  void commit_record_written() override {}
  void record_retired(Iclog& record, bool stable) override {
    const auto number = static_cast<std::size_t>(
        std::find(numbers_.begin(), numbers_.end(), record.lsn()) - numbers_.begin());
    for (std::size_t before = 0; before <= number; ++before) early_ = early_ || !completed_[before];
    retired_.push_back({number, stable});
  }
  void record_failed(Error) override { ++failures_; }

  struct Retired {
    std::size_t number;
    bool stable;
    bool operator==(const Retired&) const = default;
  };
  HoldingDevice device;
  std::vector<Retired> retired_;  // of the round; the completion thread's until wait_idle()
  bool early_ = false;
  std::uint32_t failures_ = 0;

 private:
  FlushTickets tickets_;
  std::array<Lsn, kRing> numbers_{};
  std::array<bool, kRing> completed_{};
  Lsn head_ = Lsn::make(1, 0);
  IclogRing ring_;
};

std::vector<Ring::Retired> in_order(std::size_t records, std::size_t stable) {
  std::vector<Ring::Retired> all;
  for (std::size_t i = 0; i < records; ++i) all.push_back({i, i < stable});
  return all;
}

// 40,320 of them, all tried.
TEST(FaultOrder, RecordsAreRetiredInTheirOrderWhateverThatOfTheirWrites) {
  Ring ring;
  std::array<std::size_t, kRing> order;
  std::iota(order.begin(), order.end(), 0);
  std::uint32_t orders = 0;
  const std::vector<Ring::Retired> expected = in_order(kRing, kRing);
  do {
    ring.fill(kRing, false);
    ASSERT_EQ(ring.device.submitted.load(std::memory_order_relaxed), kRing) << "none waits for another";
    for (const std::size_t number : order) ring.complete(number);
    ring.wait_idle();
    ASSERT_EQ(ring.retired_, expected) << "order " << orders;
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 40'320U);
  EXPECT_FALSE(ring.early_);
}

// The commit record's flush covers what had completed before it was submitted: that must be all.
TEST(FaultOrder, ACommitRecordIsSubmittedOnceAllBeforeItHaveCompleted) {
  Ring ring;
  std::array<std::size_t, kRing - 1> order;
  std::iota(order.begin(), order.end(), 0);
  do {
    ring.fill(kRing, true);
    for (const std::size_t number : order) ring.complete(number);
    ring.device.wait_submitted(kRing);
    ring.complete(kRing - 1);
    ring.wait_idle();
    ASSERT_EQ(ring.retired_, in_order(kRing, kRing));
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_FALSE(ring.early_);
  EXPECT_FALSE(ring.device.flushed_early);
}

// One of five fails: those before it are stable, it and those behind it are not, whatever came first.
TEST(FaultOrder, NothingBehindAFailedRecordIsStable) {
  constexpr std::size_t kRecords = 5;
  for (std::size_t bad = 0; bad < kRecords; ++bad) {
    std::array<std::size_t, kRecords> order;
    std::iota(order.begin(), order.end(), 0);
    do {
      Ring ring;
      ring.fill(kRecords, false);
      for (const std::size_t number : order) ring.complete(number, number != bad);
      ring.wait_idle();
      ASSERT_EQ(ring.retired_, in_order(kRecords, bad)) << bad;
      EXPECT_EQ(ring.failures_, 1U);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// ---- no allocation while the checkpoint is shared ----

// What it asks of the heap between its image's being written and its being unlocked: memory may have to come
// from buffers that only a checkpoint can unpin.
class CountingObject final : public LoggedObject {
 public:
  using LoggedObject::LoggedObject;
  void format(LogVectorWriter& out) noexcept override {
    at_format = tests::heap_allocations();
    LoggedObject::format(out);
  }
  void committing(std::uint64_t sequence) noexcept override {
    allocated = tests::heap_allocations() - at_format;
    LoggedObject::committing(sequence);
  }
  long at_format = 0;
  long allocated = 0;
};

TEST(FaultOrder, NothingIsAllocatedWhileACheckpointIsShared) {
  // The least of a few rounds, each with objects that have nothing yet: threads of the log may be starting
  // beside the first.
  long fewest[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  for (int round = 0; round < 4; ++round) {
    CountingObject a("a"), b("b");
    LogRig rig({.pusher = false});
    rig.add(a);
    rig.add(b);
    // Both in one commit: the second's place and image come between the first's image and its being unlocked.
    const auto change = [&](std::size_t bytes) TW_NO_THREAD_SAFETY_ANALYSIS {
      auto ticket = rig.log.reserve(2 * static_cast<std::uint32_t>(bytes + 30), 1, false);
      ASSERT_TRUE(ticket.has_value());
      for (CountingObject* const object : {&a, &b}) {
        object->lock.lock();
        object->text = std::string(bytes, 'x');
      }
      LogItem* const items[] = {&a, &b};
      rig.log.commit(items, *ticket);
      rig.log.end(*ticket);
    };
    const long before = tests::heap_allocations();
    change(10);
    EXPECT_GT(tests::heap_allocations(), before) << "places and images are new";
    fewest[0] = std::min(fewest[0], a.allocated);
    change(2000);  // outgrow their images
    fewest[1] = std::min(fewest[1], a.allocated);
    ASSERT_TRUE(rig.log.force_all().has_value());
    change(3000);  // places and images in the next checkpoint
    fewest[2] = std::min(fewest[2], a.allocated);
  }
  EXPECT_EQ(fewest[0], 0);
  EXPECT_EQ(fewest[1], 0);
  EXPECT_EQ(fewest[2], 0);
}

}  // namespace
}  // namespace tidewheel
