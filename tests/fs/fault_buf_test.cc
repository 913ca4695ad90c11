// Rules of the buffer cache and its queues that nothing else would miss.
#include <gtest/gtest.h>

#include <functional>

#include "base/lock_class.h"
#include "base/sim.h"
#include "base/thread.h"
#include "tests/fs/buf_rig.h"

namespace tidewheel {
namespace {

template <class T>
Reason code_of(const Result<T>& result) {
  return result ? Reason::kOk : result.error().code;
}

// ---- look-up ----

// A block of many targets, of which some share a bucket: those whose numbers lie 818 apart, in a small table.
TEST(FaultBuffer, TargetsThatShareABucketAreToldApart) {
  BufRig rig({.cache = {.expected_buffers = 1}});
  std::vector<std::unique_ptr<BufferTarget>> targets;
  for (int i = 0; i < 900; ++i) {
    targets.push_back(std::make_unique<BufferTarget>(*rig.cache, *rig.device, rig.geometry));
  }
  for (const std::uint64_t block : {0U, 100U, 1000U}) {
    for (const auto& target : targets) {
      const BufferHold held = std::move(rig.cache->hold(*target, {block}, 1).value());
      ASSERT_EQ(&held->target(), target.get()) << block;
    }
  }
}

TEST(FaultBuffer, IsReadForOneOwnerAndNotForAnother) {
  BufRig rig;
  rig.put({7}, 1);  // of owner 7
  const auto read_as = [&](std::uint64_t owner) {
    const auto buffer = rig.cache->read(*rig.target, {7}, 1, kMockType, owner);
    return buffer ? 0U : buffer.error().detail;
  };
  constexpr auto kOwner = static_cast<std::uint32_t>(disk::Fault::kOwner);
  EXPECT_EQ(read_as(8), kOwner) << "from the device";
  EXPECT_EQ(read_as(7), 0U);
  EXPECT_EQ(read_as(8), kOwner) << "from memory";
  EXPECT_EQ(read_as(disk::kAnyOwner), 0U);
}

// Whoever reads without knowing the owner has checked no owner.
TEST(FaultBuffer, ThatWasReadForAnyOwnerIsCheckedForWhoAsksForOne) {
  BufRig rig;
  rig.put({7}, 1);
  ASSERT_TRUE(rig.read({7}).has_value());
  const auto wrong = rig.cache->read(*rig.target, {7}, 1, kMockType, 8);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().detail, static_cast<std::uint32_t>(disk::Fault::kOwner));
  EXPECT_TRUE(rig.cache->read(*rig.target, {7}, 1, kMockType, 7).has_value());
  EXPECT_EQ(rig.cache->stats().reads, 1U);
}

// ---- stale ----

TEST(FaultBuffer, AFreedOneBringsNothingToWhoMakesItAnew) {
  CountingPolicy policy;
  CountingClient client;
  BufRig rig({.policy = &policy});
  {
    LockedBuffer buffer = rig.make({7}, 1);
    buffer->set_client(&client);
    rig.device->add({.op = IoOp::kWrite, .count = 3});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of(rig.cache->write(*buffer)), Reason::kIo);
    EXPECT_EQ(buffer->write_failures(), 3U);
    buffer->mark_stale();
    EXPECT_TRUE(buffer->stale());
  }
  const LockedBuffer again = rig.make({7}, 2);
  EXPECT_FALSE(again->stale());
  EXPECT_EQ(again->write_failures(), 0U) << "those were another block's";
  EXPECT_EQ(again->error().code, Reason::kOk);
  rig.device->add({.op = IoOp::kWrite});
  EXPECT_EQ(code_of(rig.cache->write(*again)), Reason::kIo);
  EXPECT_EQ(policy.lost.load(std::memory_order_relaxed), 0U);
  again->set_client(nullptr);
}

TEST(FaultBuffer, IsNotStaleOnceItIsRead) {
  for (const bool ahead : {false, true}) {
    BufRig rig;
    rig.put({7}, 1);
    {
      auto buffer = rig.read({7});
      ASSERT_TRUE(buffer.has_value());
      (*buffer)->mark_stale();
    }
    if (ahead) {
      rig.cache->read_ahead(*rig.target, {7}, 1, kMockType);
    } else {
      ASSERT_TRUE(rig.read({7}).has_value());
    }
    EXPECT_FALSE(rig.cache->find(*rig.target, {7}, 1)->stale());
  }
}

// ---- reclaim ----

TEST(FaultBuffer, TheFreedOneIsReclaimedFirstAndNoMoreThanAsked) {
  BufRig rig;
  for (std::uint64_t block = 1; block <= 60; ++block) {
    // The second look-up is a hit, which marks it as used.
    for (int i = 0; i < 2; ++i) (void)rig.cache->hold(*rig.target, {block}, 1).value();
  }
  {
    const BufferHold freed = rig.cache->find(*rig.target, {33}, 1);
    freed->lock();
    freed->mark_stale();
    freed->unlock();
  }
  rig.cache->shrink(1);
  EXPECT_EQ(rig.cache->stats().reclaimed, 1U);
  EXPECT_FALSE(rig.cache->find(*rig.target, {33}, 1));
  rig.cache->shrink(1);
  EXPECT_EQ(rig.cache->stats().reclaimed, 2U);
}

// A list is gone through a few at a time: who misses a block waits for its lock.
TEST(FaultBuffer, ReclaimHoldsAListForAFewAtATime) {
  BufRig rig;
  constexpr std::uint64_t kBuffers = 2000, kPerHold = 32;
  std::vector<BufferHold> held;
  for (std::uint64_t block = 0; block < kBuffers; ++block) {
    held.push_back(std::move(rig.cache->hold(*rig.target, {block}, 1).value()));
  }
  const auto acquisitions = [] {
    for (const LockClassStats& stats : lock_statistics()) {
      if (std::string_view(stats.name) == "buffer-lru") return stats.acquisitions;
    }
    return std::uint64_t{0};
  };
  const std::uint64_t before = acquisitions();
  EXPECT_EQ(rig.cache->shrink(UINT64_MAX), 0U);
  EXPECT_GE(acquisitions() - before, 2 * kBuffers / kPerHold);
}

TEST(FaultBuffer, AnUncachedOneWithoutMemoryLeavesNothing) {
  for (std::uint32_t nth = 1; nth <= 2; ++nth) {
    BufRig rig;
    rig.cache->fail_allocation_for_test(nth);
    EXPECT_EQ(code_of(rig.cache->make_uncached(*rig.target, {3}, 1)), Reason::kNoMemory);
    EXPECT_EQ(rig.cache->stats().buffers, 0U);
    EXPECT_EQ(rig.budget.used_bytes(MemoryKind::kBuffers), 0U);
  }
}

// ---- errors ----

// Somebody waits for the write and hears of it: nothing is lost yet.
TEST(FaultBuffer, AFailedWriteThatIsWaitedForIsItsWaitersToRetry) {
  CountingPolicy policy;
  BufRig rig({.policy = &policy});
  const LockedBuffer buffer = rig.make({7}, 1);
  rig.device->add({.op = IoOp::kWrite});
  EXPECT_EQ(code_of(rig.cache->write(*buffer)), Reason::kIo);
  EXPECT_EQ(policy.lost.load(std::memory_order_relaxed), 0U);
  EXPECT_TRUE(rig.cache->write(*buffer).has_value());
}

// Its item unlocks what it stands for: the mount has to be dying by then.
TEST(FaultBuffer, TheMountHearsOfALostWriteBeforeTheClient) {
  struct Client final : BufferClient {
    explicit Client(const CountingPolicy& its_policy) : policy(its_policy) {}
    void written(Buffer&) override {}
    void write_failed(Buffer&, Error, bool) override {
      lost_before = policy.lost.load(std::memory_order_relaxed);
    }
    const CountingPolicy& policy;
    std::uint32_t lost_before = 0;
  };
  CountingPolicy policy;
  policy.retried = 0;
  Client client(policy);
  BufRig rig({.policy = &policy});
  const LockedBuffer buffer = rig.make({7}, 1);
  buffer->set_client(&client);
  rig.device->add({.op = IoOp::kWrite});
  EXPECT_EQ(code_of(rig.cache->write(*buffer)), Reason::kIo);
  EXPECT_EQ(client.lost_before, 1U);
  buffer->set_client(nullptr);
}

// ---- queues ----

class FaultRuns : public testing::Test {
 protected:
  void queue(BufferTarget& target, std::uint64_t block, std::uint64_t version, BufferClient* client) {
    LockedBuffer buffer = std::move(rig_.cache->get_for_overwrite(target, {block}, 1).value());
    fill_mock(buffer->bytes(), rig_.geometry, {block}, version);
    buffer->set_type(kMockType);
    buffer->set_done();
    buffer->set_client(client);
    EXPECT_TRUE(queue_.add(*buffer));
  }
  CountingClient client_;
  BufRig rig_;
  DelwriQueue queue_;
};

TEST_F(FaultRuns, OfTwoTargetsGoToEachByItself) {
  const auto other_device = RamDevice::make(rig_.geometry.device_blocks * kFsBlockBytes).value();
  BufferTarget other(*rig_.cache, *other_device, rig_.geometry);
  // Sorted by target and then by place, the last of the first and the first of the second are neighbours.
  for (const std::uint64_t block : {12, 10, 11}) queue(*rig_.target, block, block, &client_);
  for (const std::uint64_t block : {14, 13, 15}) queue(other, block, block, &client_);
  EXPECT_EQ(queue_.submit().requests, 2U);
  EXPECT_EQ(rig_.device->stats().writes, 1U);
  EXPECT_EQ(other_device->stats().writes, 1U);
  EXPECT_EQ(rig_.device->stats().write_bytes, 3U * kFsBlockBytes);
  // And where both have the same places.
  for (const std::uint64_t block : {20, 21}) {
    queue(other, block, block, &client_);
    queue(*rig_.target, block, block, &client_);
  }
  EXPECT_EQ(queue_.submit().requests, 2U);
}

TEST_F(FaultRuns, HoldAllThatTheyMay) {
  for (std::uint64_t i = 0; i < DelwriQueue::kMostRunBuffers; ++i) queue(*rig_.target, 100 + i, 1, &client_);
  EXPECT_EQ(queue_.submit().requests, 1U);
  // As many bytes as a run may have. Mock blocks have one block: the verifier refuses them, all in one run.
  constexpr std::uint64_t kBlocks = 16, kBuffers = DelwriQueue::kMostRunBytes / (kBlocks * kFsBlockBytes);
  for (std::uint64_t i = 0; i < kBuffers; ++i) {
    const DeviceAddress at{512 + i * kBlocks};
    const LockedBuffer buffer =
        std::move(rig_.cache->get_for_overwrite(*rig_.target, at, kBlocks).value());
    buffer->set_done();
    buffer->set_client(&client_);
    EXPECT_TRUE(queue_.add(*buffer));
  }
  EXPECT_EQ(queue_.submit().requests, 1U);
}

// One that is to be written alone takes neither the neighbour before it nor the one behind.
TEST_F(FaultRuns, LeaveOutWhatIsToBeWrittenAloneOnBothSides) {
  rig_.device->add({.op = IoOp::kWrite});
  for (const std::uint64_t block : {10, 11}) queue(*rig_.target, block, 1, &client_);
  EXPECT_EQ(queue_.submit().requests, 1U);
  EXPECT_EQ(rig_.cache->stats().failed_runs, 1U);
  for (const std::uint64_t block : {8, 9, 10, 11, 12, 13}) queue(*rig_.target, block, 2, &client_);
  EXPECT_EQ(queue_.submit().requests, 4U) << "8 with 9, 10, 11, 12 with 13";
}

// Nobody would write it again if it failed with others.
TEST_F(FaultRuns, TakeNobodyWithoutAClient) {
  for (const std::uint64_t block : {10, 11, 12}) {
    queue(*rig_.target, block, 1, block == 11 ? nullptr : &client_);
  }
  EXPECT_EQ(queue_.submit().requests, 3U);
}

TEST_F(FaultRuns, WhatWasCancelledIsQueuedAgain) {
  queue(*rig_.target, 10, 1, &client_);
  queue_.cancel();
  queue(*rig_.target, 10, 2, &client_);
  EXPECT_EQ(queue_.submit().writing, 1U);
  EXPECT_EQ(rig_.on_device({10}), 2U);
}

// Who is to unpin one may want the lock of another: what has been gathered is sent first.
SIM_TEST(FaultRunsSim, WaitForNoPinWithOthersLocked) {
  BufRig rig;
  DelwriQueue queue;
  for (const std::uint64_t block : {10, 11}) queue.add(*rig.make({block}, 1));
  BufferHold pinned = rig.cache->find(*rig.target, {11}, 1);
  pinned->lock();
  pinned->pin();
  pinned->unlock();
  Thread other("unpin", [&rig, &pinned] {
    const BufferHold first = rig.cache->find(*rig.target, {10}, 1);
    first->lock();
    first->unlock();
    pinned->unpin();
  });
  SIM_CHECK(queue.submit_and_wait().has_value());
  other.join();
}

}  // namespace
}  // namespace tidewheel
