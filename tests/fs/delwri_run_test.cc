// Delwri queues write neighbours by one request: how many that is, and what an error of one means for each.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "tests/fs/buf_rig.h"

namespace tidewheel {
namespace {

class DelwriRunTest : public testing::Test {
 protected:
  // Queued, with the client that hears of it.
  void queue(std::uint64_t block, std::uint64_t version, BufferClient* client) {
    LockedBuffer buffer = rig_.make({block}, version);
    buffer->set_client(client);
    EXPECT_TRUE(queue_.add(*buffer));
  }
  void expect_clean(std::uint64_t block) {
    const BufferHold held = rig_.cache->find(*rig_.target, {block}, 1);
    ASSERT_TRUE(held);
    EXPECT_FALSE(held->locked());
    EXPECT_EQ(held->holds_for_test(), 1U);
    held->lock();
    held->set_client(nullptr);
    held->unlock();
  }
  CountingPolicy policy_;
  BufRig rig_{{.policy = &policy_}};
  DelwriQueue queue_;
  CountingClient client_;
};

TEST_F(DelwriRunTest, NeighboursAreOneWriteAndOthersAreNot) {
  for (const std::uint64_t block : {12, 10, 11, 20, 30, 31}) queue(block, block, &client_);
  const DelwriQueue::Submitted submitted = queue_.submit();
  EXPECT_EQ(submitted.writing, 6U);
  EXPECT_EQ(submitted.requests, 3U);
  EXPECT_EQ(rig_.device->stats().writes, 3U);
  EXPECT_EQ(rig_.device->stats().write_bytes, 6U * 4096);
  EXPECT_EQ(rig_.cache->stats().writes, 6U);
  EXPECT_EQ(rig_.cache->stats().runs, 2U);
  EXPECT_EQ(client_.writes.load(std::memory_order_relaxed), 6U);
  for (const std::uint64_t block : {10, 11, 12, 20, 30, 31}) {
    EXPECT_EQ(rig_.on_device({block}), block);
    expect_clean(block);
  }
}

TEST_F(DelwriRunTest, IsBoundedInBuffersAndBytes) {
  constexpr std::uint64_t kMany = DelwriQueue::kMostRunBuffers * 2 + 1;
  for (std::uint64_t i = 0; i < kMany; ++i) queue(100 + i, i + 1, &client_);
  EXPECT_EQ(queue_.submit().requests, 3U);
  EXPECT_EQ(rig_.device->stats().writes, 3U);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(rig_.on_device({100 + i}), i + 1);
    expect_clean(100 + i);
  }
}

// How they are gathered is what counts: mock blocks have one block, and the verifier refuses each of these.
TEST_F(DelwriRunTest, OfLargeBuffersIsBoundedInBytes) {
  constexpr std::uint64_t kBlocks = 16;
  constexpr std::uint64_t kBuffers = DelwriQueue::kMostRunBytes / (kBlocks * 4096) + 1;
  for (std::uint64_t i = 0; i < kBuffers; ++i) {
    const DeviceAddress at{64 + i * kBlocks};
    const LockedBuffer buffer = std::move(rig_.cache->get_for_overwrite(*rig_.target, at, kBlocks).value());
    fill_mock(buffer->bytes(), rig_.geometry, at, i);
    buffer->set_type(kMockType);
    buffer->set_done();
    buffer->set_client(&client_);
    EXPECT_TRUE(queue_.add(*buffer));
  }
  EXPECT_EQ(queue_.submit().requests, 2U);
  EXPECT_EQ(client_.losses.load(std::memory_order_relaxed), kBuffers);
  for (std::uint64_t i = 0; i < kBuffers; ++i) {
    const BufferHold held = rig_.cache->find(*rig_.target, {64 + i * kBlocks}, kBlocks);
    held->lock();
    held->set_client(nullptr);
    held->unlock();
  }
}

TEST_F(DelwriRunTest, StopsAtWhatIsPinnedOrLocked) {
  for (const std::uint64_t block : {10, 11, 12}) queue(block, block, &client_);
  const BufferHold middle = rig_.cache->find(*rig_.target, {11}, 1);
  middle->lock();
  EXPECT_EQ(queue_.submit().requests, 2U);
  middle->unlock();
  EXPECT_EQ(queue_.submit().requests, 1U);
  EXPECT_EQ(rig_.device->stats().writes, 3U);
}

// Torn, short or refused as a whole: all of the run stay dirty, nobody's failure counts, and each is written
// alone.
class DelwriRunErrors : public DelwriRunTest, public testing::WithParamInterface<FaultEffect> {};

TEST_P(DelwriRunErrors, AreTriedAgainByThemselves) {
  rig_.device->add({.op = IoOp::kWrite, .effect = GetParam()});
  for (const std::uint64_t block : {10, 11, 12}) queue(block, block, &client_);
  queue_.submit();
  EXPECT_EQ(rig_.cache->stats().failed_runs, 1U);
  EXPECT_EQ(client_.retries.load(std::memory_order_relaxed), 3U);
  EXPECT_EQ(client_.writes.load(std::memory_order_relaxed), 0U);
  EXPECT_EQ(policy_.lost.load(std::memory_order_relaxed), 0U);
  for (const std::uint64_t block : {10, 11, 12}) {
    LockedBuffer again = rig_.make({block}, block);
    EXPECT_EQ(again->write_failures(), 0U);
    EXPECT_TRUE(queue_.add(*again));
  }
  EXPECT_EQ(queue_.submit().requests, 3U) << "alone, so that an error names its buffer";
  EXPECT_EQ(client_.writes.load(std::memory_order_relaxed), 3U);
  for (const std::uint64_t block : {10, 11, 12}) EXPECT_EQ(rig_.on_device({block}), block);
  // Once it was written it goes with its neighbours again.
  for (const std::uint64_t block : {10, 11, 12}) queue(block, block + 100, &client_);
  EXPECT_EQ(queue_.submit().requests, 1U);
  for (const std::uint64_t block : {10, 11, 12}) expect_clean(block);
}

INSTANTIATE_TEST_SUITE_P(Effects, DelwriRunErrors,
                         testing::Values(FaultEffect::kIoError, FaultEffect::kShort, FaultEffect::kTorn),
                         [](const auto& param) {
                           return param.param == FaultEffect::kIoError ? "Refused"
                                  : param.param == FaultEffect::kShort ? "Short"
                                                                       : "Torn";
                         });

// One place of the device is bad for good: its buffer's failures count, its neighbours' do not.
TEST_F(DelwriRunTest, GivesUpTheBufferAtFaultAlone) {
  policy_.retried = 0;
  CountingClient bad;
  queue(10, 1, &client_);
  queue(11, 1, &bad);
  queue(12, 1, &client_);
  rig_.device->add({.op = IoOp::kWrite, .first = 0});  // the run
  rig_.device->add({.op = IoOp::kWrite, .first = 2});  // of the three alone the second
  queue_.submit();
  EXPECT_EQ(bad.losses.load(std::memory_order_relaxed), 0U);
  for (const std::uint64_t block : {10, 11, 12}) queue_.add(*rig_.make({block}, 1));
  queue_.submit();
  EXPECT_EQ(client_.writes.load(std::memory_order_relaxed), 2U);
  EXPECT_EQ(client_.losses.load(std::memory_order_relaxed), 0U);
  EXPECT_EQ(bad.losses.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(policy_.lost.load(std::memory_order_relaxed), 1U);
  for (const std::uint64_t block : {10, 11, 12}) expect_clean(block);
}

// A buffer that is wrong in memory is not sent; those on both of its sides are.
TEST_F(DelwriRunTest, LeavesOutWhatTheVerifierRefuses) {
  CountingClient wrong;
  for (const std::uint64_t block : {10, 11, 13, 14}) queue(block, block, &client_);
  queue(12, 12, &wrong);
  {
    const BufferHold middle = rig_.cache->find(*rig_.target, {12}, 1);
    middle->lock();
    middle->bytes()[0] = std::byte{0xFF};  // its magic
    middle->unlock();
  }
  queue_.submit();
  EXPECT_EQ(rig_.device->stats().writes, 2U);
  EXPECT_EQ(wrong.losses.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(client_.writes.load(std::memory_order_relaxed), 4U);
  EXPECT_EQ(rig_.on_device({12}), UINT64_MAX);
  for (const std::uint64_t block : {10, 11, 12, 13, 14}) expect_clean(block);
}

// Recovery's way: a run that fails is written buffer by buffer, and only what fails then is an error.
TEST_F(DelwriRunTest, WaitedForIsAnErrorOnlyOfWhatFailsByItself) {
  for (const std::uint64_t block : {10, 11, 12}) queue(block, block, nullptr);
  rig_.device->add({.op = IoOp::kWrite, .effect = FaultEffect::kTorn});
  EXPECT_TRUE(queue_.submit_and_wait().has_value());
  EXPECT_EQ(rig_.cache->stats().failed_runs, 1U);
  for (const std::uint64_t block : {10, 11, 12}) EXPECT_EQ(rig_.on_device({block}), block);
  for (const std::uint64_t block : {10, 11, 12}) queue(block, block + 1, nullptr);
  rig_.device->clear_rules();
  rig_.device->add({.op = IoOp::kWrite, .first = 0});
  rig_.device->add({.op = IoOp::kWrite, .first = 2});
  EXPECT_EQ(queue_.submit_and_wait().error().code, Reason::kIo);
  EXPECT_EQ(rig_.on_device({10}), 11U);
  EXPECT_EQ(rig_.on_device({11}), 11U) << "the old one";
  EXPECT_EQ(rig_.on_device({12}), 13U);
}

// Who has one of the neighbours may want another: what has been gathered is sent before one is waited for.
SIM_TEST(DelwriRunSim, WaitsForNoLockWithOthersLocked) {
  BufRig rig;
  DelwriQueue queue;
  for (const std::uint64_t block : {10, 11}) queue.add(*rig.make({block}, 1));
  Thread other("lock", [&rig] {
    const BufferHold second = rig.cache->find(*rig.target, {11}, 1);
    second->lock();
    const BufferHold first = rig.cache->find(*rig.target, {10}, 1);
    first->lock();
    first->unlock();
    second->unlock();
  });
  SIM_CHECK(queue.submit_and_wait().has_value());
  other.join();
}

// The same where it is pinned: who would unpin it may want one of those that have been gathered before.
SIM_TEST(DelwriRunSim, WaitsForNoPinWithOthersLocked) {
  BufRig rig;
  DelwriQueue queue;
  for (const std::uint64_t block : {10, 11}) queue.add(*rig.make({block}, 1));
  const BufferHold second = rig.cache->find(*rig.target, {11}, 1);
  second->lock();
  second->pin();
  second->unlock();
  Thread other("unpin", [&rig, &second] {
    const BufferHold first = rig.cache->find(*rig.target, {10}, 1);
    first->lock();
    first->unlock();
    second->unpin();
  });
  SIM_CHECK(queue.submit_and_wait().has_value());
  other.join();
}

}  // namespace
}  // namespace tidewheel
