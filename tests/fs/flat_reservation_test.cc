// Blocks set aside for a write that comes to nothing, or to what is being written already: none is kept.
#include <gtest/gtest.h>

#include "tests/fs/flat_fixture.h"

namespace tidewheel {
namespace {

constexpr FileKey kFile = FileKey::of(0, 0, 1);

TEST(FlatReservation, OverwritingAPageThatIsBeingWrittenSetsNothingAside) {
  FlatHarness harness;
  harness.format();
  FlatStore& store = *harness.store_;
  ASSERT_TRUE(put_file(store, kFile, 4096));
  harness.device_->add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = 1});
  Thread syncer("sync", [&] { EXPECT_TRUE(store.sync()); });
  harness.device_->wait_stalled(1);
  const std::uint64_t free_blocks = store.stats().free_blocks;
  Thread writer("writer", [&] {
    auto file = store.open(kFile).value();
    EXPECT_EQ(store.write(file, 0, pattern(kFile, 0, 4096, 1)).value(), 4096U);
  });
  while (store.page_stats().stable_page_waits == 0) yield_thread();
  EXPECT_EQ(store.stats().free_blocks, free_blocks) << "the page has its block";
  harness.device_->release_stalled();
  writer.join();
  syncer.join();
  harness.settle();  // what stays set aside would be found when the inode leaves memory
  expect_pattern(store, kFile, 4096, 1);
}

TEST(FlatReservation, AWriteThatIsCutShortGivesBackTheRest) {
  FlatHarness harness({.memory_bytes = 64ULL << 20, .dirty_bytes = 1ULL << 20});
  harness.format();
  FlatStore& store = *harness.store_;
  harness.device_->add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  std::uint64_t written = 0;
  // One call to the page cache, which gets half of the limit at a time: the second half does not fit.
  constexpr std::uint64_t kBytes = WriteReservation::kMaxPages * kPageBytes;
  static_assert(kBytes == 1ULL << 20);
  Thread writer("writer", [&] {
    auto file = store.create(kFile).value();
    for (bool all = true; all;) {
      const auto n = store.write(file, written, pattern(kFile, written, kBytes));
      all = n.has_value() && *n == kBytes;
      if (n) written += *n;
    }
  });
  while (harness.engine_->throttled_threads() == 0) yield_thread();
  harness.engine_->interrupt_waiters();
  writer.join();
  EXPECT_NE(written % kBytes, 0U) << "the write was not cut short";
  harness.device_->clear_rules();
  harness.device_->release_stalled();
  harness.settle();
  expect_pattern(store, kFile, written);
}

}  // namespace
}  // namespace tidewheel
