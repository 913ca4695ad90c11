// The buffer cache, one thread at a time: look-ups, verifiers, errors, queues, memory.
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "tests/fs/buf_rig.h"

namespace tidewheel {
namespace {

template <class T>
Reason code_of(const Result<T>& result) {
  return result ? Reason::kOk : result.error().code;
}

TEST(BufferLookupTest, AllocatesOnceAndHitsFromThenOn) {
  BufRig rig;
  Buffer* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    BufferHold held = std::move(rig.cache->hold(*rig.target, {40}, 1).value());
    EXPECT_TRUE(first == nullptr || held.get() == first);
    first = held.get();
    EXPECT_EQ(held->holds_for_test(), 1U);
  }
  const BufferStats stats = rig.cache->stats();
  EXPECT_EQ(stats.lookups, 10U);
  EXPECT_EQ(stats.hits, 9U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.allocations, 1U) << "a hit allocates nothing";
}

TEST(BufferLookupTest, AllocatesForEachLookupInTheSeedsFirstVariant) {
  BufRig rig({.cache = {.lookup = BufferLookup::kAllocateFirst}});
  for (int i = 0; i < 10; ++i) (void)rig.cache->hold(*rig.target, {40}, 1).value();
  EXPECT_EQ(rig.cache->stats().allocations, 10U);
  EXPECT_EQ(rig.cache->stats().hits, 9U);
  EXPECT_EQ(rig.cache->stats().buffers, 1U);
}

TEST(BufferLookupTest, TellsTargetsAndLengthsApart) {
  BufRig rig;
  BufferTarget other(*rig.cache, *rig.device, rig.geometry);
  BufferHold a = std::move(rig.cache->hold(*rig.target, {40}, 1).value());
  BufferHold b = std::move(rig.cache->hold(other, {40}, 1).value());
  BufferHold c = std::move(rig.cache->hold(*rig.target, {40}, 2).value());
  EXPECT_NE(a.get(), b.get());
  EXPECT_NE(a.get(), c.get());
  EXPECT_FALSE(rig.cache->find(other, {41}, 1));
  EXPECT_EQ(rig.cache->find(other, {40}, 1).get(), b.get());
}

TEST(BufferLookupTest, RefusesWhatLiesOutsideTheDevice) {
  BufRig rig;
  EXPECT_EQ(code_of(rig.cache->hold(*rig.target, {2500}, 1)), Reason::kOutOfRange);
  EXPECT_EQ(code_of(rig.cache->hold(*rig.target, {2499}, 2)), Reason::kOutOfRange);
  EXPECT_EQ(code_of(rig.cache->hold(*rig.target, {UINT64_MAX}, 1)), Reason::kOutOfRange);
  EXPECT_EQ(code_of(rig.cache->hold(*rig.target, {0}, 0)), Reason::kInvalidArgument);
  EXPECT_EQ(code_of(rig.cache->hold(*rig.target, {0}, 17)), Reason::kInvalidArgument);
}

// A buffer whose memory could not be had must never be met by another look-up.
TEST(BufferLookupTest, LeavesNothingBehindWhenTheNthAllocationFails) {
  for (const BufferLookup lookup : {BufferLookup::kHit, BufferLookup::kAllocateFirst}) {
    for (std::uint32_t nth = 1; nth <= 2; ++nth) {
      BufRig rig({.cache = {.lookup = lookup}});
      rig.cache->fail_allocation_for_test(nth);
      EXPECT_EQ(code_of(rig.cache->hold(*rig.target, {7}, 1)), Reason::kNoMemory);
      EXPECT_EQ(rig.cache->stats().buffers, 0U);
      EXPECT_FALSE(rig.cache->find(*rig.target, {7}, 1)) << "a half-made buffer is visible";
      EXPECT_EQ(rig.budget.used_bytes(MemoryKind::kBuffers), 0U);
      rig.put({7}, 3);
      EXPECT_EQ(version_of((*rig.read({7}))->bytes()), 3U) << "and the next one works";
    }
  }
}

TEST(BufferReadTest, ReadsOnceAndVerifies) {
  BufRig rig;
  rig.put({9}, 5);
  for (int i = 0; i < 3; ++i) {
    auto buffer = rig.read({9});
    ASSERT_TRUE(buffer);
    EXPECT_EQ(version_of((*buffer)->bytes()), 5U);
  }
  EXPECT_EQ(rig.cache->stats().reads, 1U);
  EXPECT_EQ(code_of(rig.cache->read(*rig.target, {9}, 1, disk::BlockType::kAgFree)), Reason::kCorrupt)
      << "a block has one type";
}

TEST(BufferReadTest, AnswersEachVerifierFailureAndKeepsNoHold) {
  BufRig rig;
  for (std::uint32_t type = 0; type < disk::kBlockTypes; ++type) {
    const std::uint32_t blocks = type == static_cast<std::uint32_t>(disk::BlockType::kInodeCluster) ? 2 : 1;
    const DeviceAddress address{100 + 2 * type};
    auto buffer = rig.cache->read(*rig.target, address, blocks, static_cast<disk::BlockType>(type));
    ASSERT_EQ(code_of(buffer), Reason::kCorrupt) << type;
    BufferHold held = rig.cache->find(*rig.target, address, blocks);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->holds_for_test(), 1U) << "ours alone: the failed read has left none";
    EXPECT_FALSE(held->locked());
    EXPECT_FALSE(held->done());
  }
  EXPECT_EQ(rig.cache->stats().corrupt_reads, disk::kBlockTypes);
}

TEST(BufferReadTest, RefusesAnLsnAheadOfTheLog) {
  BufRig rig;
  rig.target->set_newest_lsn(Lsn::make(3, 8));
  LockedBuffer buffer = rig.make({9}, 1);
  buffer->set_write_lsn(Lsn::make(3, 16));
  ASSERT_TRUE(rig.cache->write(*buffer));
  buffer->mark_stale();
  buffer.reset();
  const auto again = rig.read({9});
  ASSERT_EQ(code_of(again), Reason::kCorrupt);
  EXPECT_EQ(again.error().detail, static_cast<std::uint32_t>(disk::Fault::kLsn));
  rig.target->set_newest_lsn(Lsn::make(3, 16));
  EXPECT_TRUE(rig.read({9})) << "a failed read is done again";
}

TEST(BufferReadTest, ReportsTheDevicesErrorAndReadsAgain) {
  BufRig rig;
  rig.put({9}, 5);
  rig.device->add({.op = IoOp::kRead});
  EXPECT_EQ(code_of(rig.read({9})), Reason::kIo);
  EXPECT_TRUE(rig.read({9}));
  EXPECT_EQ(rig.cache->stats().read_errors, 1U);
}

TEST(BufferReadTest, ReadsAheadWithoutWaiting) {
  BufRig rig;
  rig.put({9}, 5);
  rig.device->add({.op = IoOp::kRead, .effect = FaultEffect::kStall});
  rig.cache->read_ahead(*rig.target, {9}, 1, kMockType);
  EXPECT_EQ(rig.device->stalled(), 1U);
  rig.cache->read_ahead(*rig.target, {9}, 1, kMockType);  // locked: dropped
  EXPECT_EQ(rig.cache->stats().read_aheads_dropped, 1U);
  rig.device->release_stalled();
  EXPECT_EQ(version_of((*rig.read({9}))->bytes()), 5U);
  EXPECT_EQ(rig.cache->stats().reads, 1U) << "the reader found it there";
  rig.cache->read_ahead(*rig.target, {9}, 1, kMockType);
  EXPECT_EQ(rig.cache->stats().read_aheads, 1U) << "nothing to do";
}

TEST(BufferReadTest, ForgetsAReadAheadThatFailed) {
  BufRig rig;
  rig.put({9}, 5);
  rig.device->add({.op = IoOp::kRead});
  rig.cache->read_ahead(*rig.target, {9}, 1, kMockType);
  EXPECT_TRUE(rig.read({9}));
}

TEST(BufferWriteTest, StampsLsnAndCrc) {
  BufRig rig;
  LockedBuffer buffer = rig.make({9}, 77);
  buffer->set_write_lsn(Lsn::make(2, 24));
  ASSERT_TRUE(rig.cache->write(*buffer));
  EXPECT_EQ(rig.on_device({9}), 77U);
  EXPECT_EQ(disk::view<disk::BlockHeader>(std::as_const(*buffer).bytes()).lsn, Lsn::make(2, 24).value);
}

// Memory is poisoned in test builds; a new block's LSN must not be what lay there.
TEST(BufferWriteTest, GivesANewBlockNoOldLsn) {
  BufRig rig;
  rig.target->set_newest_lsn(Lsn::make(1, 8));
  LockedBuffer buffer = rig.make({9}, 1);
  ASSERT_TRUE(rig.cache->write(*buffer));
  buffer->mark_stale();
  buffer.reset();
  auto again = rig.read({9});
  ASSERT_TRUE(again);
  EXPECT_EQ(disk::view<disk::BlockHeader>((*again)->bytes()).lsn, 0U);
}

TEST(BufferWriteTest, NeverLetsABadBufferReachTheDevice) {
  CountingPolicy policy;
  CountingClient client;
  BufRig rig({.policy = &policy});
  rig.put({9}, 1);
  const std::uint64_t before = rig.device->stats().writes;
  LockedBuffer buffer = std::move(rig.read({9}).value());
  disk::view<disk::MockBlock>(buffer->bytes()).bytes = 5000;
  buffer->set_client(&client);
  EXPECT_EQ(code_of(rig.cache->write(*buffer)), Reason::kCorrupt);
  disk::view<disk::MockBlock>(buffer->bytes()).bytes = 0;
  disk::view<disk::BlockHeader>(buffer->bytes()).block = 10;  // another block's number
  EXPECT_EQ(code_of(rig.cache->write(*buffer)), Reason::kCorrupt);
  EXPECT_EQ(rig.device->stats().writes, before);
  EXPECT_EQ(rig.on_device({9}), 1U);
  EXPECT_EQ(rig.cache->stats().corrupt_writes, 2U);
  EXPECT_EQ(policy.lost.load(std::memory_order_relaxed), 2U);
  EXPECT_EQ(client.losses.load(std::memory_order_relaxed), 2U);
}

TEST(BufferWriteTest, RetriesAsThePolicySaysAndThenGivesUp) {
  CountingPolicy policy;
  CountingClient client;
  BufRig rig({.policy = &policy});
  rig.device->add({.op = IoOp::kWrite, .count = 4});
  LockedBuffer buffer = rig.make({9}, 1);
  buffer->set_client(&client);
  Buffer* const raw = buffer.get();
  buffer.reset();
  for (std::uint32_t i = 1; i <= 4; ++i) {
    DelwriQueue queue;
    LockedBuffer again = std::move(rig.read({9}).value());
    ASSERT_EQ(again.get(), raw);
    queue.add(*again);
    again.reset();
    EXPECT_EQ(queue.submit().writing, 1U);
    EXPECT_EQ(client.retries.load(std::memory_order_relaxed), std::min(i, 3U));
  }
  EXPECT_EQ(policy.lost.load(std::memory_order_relaxed), 1U) << "the fourth failure in a row";
  EXPECT_EQ(client.losses.load(std::memory_order_relaxed), 1U);
  // A write that succeeds ends the row.
  LockedBuffer last = std::move(rig.read({9}).value());
  ASSERT_TRUE(rig.cache->write(*last));
  EXPECT_EQ(last->write_failures(), 0U);
  EXPECT_EQ(client.writes.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(rig.on_device({9}), 1U);
}

TEST(BufferWriteTest, TellsThePolicyOfALostWriteThatNobodyWouldRetry) {
  CountingPolicy policy;
  BufRig rig({.policy = &policy});
  rig.device->add({.op = IoOp::kWrite});
  rig.cache->write_async(rig.make({9}, 1));
  EXPECT_EQ(policy.lost.load(std::memory_order_relaxed), 1U);
}

TEST(BufferWriteTest, ReachesNoDeviceAfterShutdown) {
  CountingClient client;
  BufRig rig;
  rig.put({9}, 1);
  LockedBuffer buffer = rig.make({9}, 2);
  buffer->set_client(&client);
  rig.target->shut_down();
  EXPECT_EQ(code_of(rig.cache->write(*buffer)), Reason::kShutDown);
  EXPECT_EQ(code_of(rig.read({10})), Reason::kShutDown);
  EXPECT_EQ(client.losses.load(std::memory_order_relaxed), 1U);
  EXPECT_EQ(rig.on_device({9}), 1U);
}

TEST(BufferWriteDeathTest, RefusesToWriteWhatIsPinned) {
  BufRig rig;
  LockedBuffer buffer = rig.make({9}, 1);
  buffer->pin();
  EXPECT_DEATH((void)rig.cache->write(*buffer), "before the log has its image");
  buffer->unpin();
}

TEST(BufferUncachedTest, IsSeenByNobodyAndFreedWithItsLastHold) {
  BufRig rig;
  rig.put({9}, 4);
  LockedBuffer buffer = std::move(rig.cache->make_uncached(*rig.target, {9}, 1).value());
  buffer->set_type(kMockType);
  ASSERT_TRUE(rig.cache->read_uncached(*buffer));
  EXPECT_EQ(version_of(std::as_const(*buffer).bytes()), 4U);
  EXPECT_FALSE(rig.cache->find(*rig.target, {9}, 1));
  BufferHold second(buffer.get());
  second->hold();
  buffer.reset();
  EXPECT_EQ(rig.cache->stats().buffers, 1U);
  second.reset();
  EXPECT_EQ(rig.cache->stats().buffers, 0U);
}

TEST(BufferStaleTest, IsReadAgainAndDroppedByItsQueue) {
  BufRig rig;
  rig.put({9}, 4);
  DelwriQueue queue;
  {
    LockedBuffer buffer = std::move(rig.read({9}).value());
    fill_mock(buffer->bytes(), rig.geometry, {9}, 5);
    EXPECT_TRUE(queue.add(*buffer));
    buffer->mark_stale();  // freed: the new content is nobody's
  }
  const DelwriQueue::Submitted submitted = queue.submit();
  EXPECT_EQ(submitted.dropped, 1U);
  EXPECT_EQ(submitted.writing, 0U);
  EXPECT_EQ(version_of((*rig.read({9}))->bytes()), 4U);
}

TEST(BufferReclaimTest, FreesWhatNobodyHoldsAndHasNotBeenUsed) {
  BufRig rig;
  BufferHold held = std::move(rig.cache->hold(*rig.target, {5}, 1).value());
  for (std::uint64_t i = 10; i < 20; ++i) (void)rig.cache->hold(*rig.target, {i}, 1).value();
  (void)rig.cache->find(*rig.target, {13}, 1);  // used: passed over once
  EXPECT_GT(rig.cache->shrink(UINT64_MAX / 2), 10U * kFsBlockBytes);
  EXPECT_EQ(rig.cache->stats().buffers, 1U) << "twice round: only the held one is left";
  EXPECT_EQ(held->holds_for_test(), 1U);
}

TEST(BufferReclaimTest, PrefersWhatHasNotBeenUsedSince) {
  BufRig rig;
  for (std::uint64_t i = 0; i < 64; ++i) (void)rig.cache->hold(*rig.target, {i}, 1).value();
  for (std::uint64_t i = 0; i < 64; i += 2) (void)rig.cache->find(*rig.target, {i}, 1);
  while (rig.cache->stats().buffers > 40) ASSERT_GT(rig.cache->shrink(1), 0U);
  int used = 0;
  for (std::uint64_t i = 0; i < 64; i += 2) used += rig.cache->find(*rig.target, {i}, 1) ? 1 : 0;
  EXPECT_EQ(used, 32) << "those that were used are all there";
}

TEST(BufferReclaimTest, LivesInItsBudgetForEver) {
  BufRig rig({.budget_bytes = 1 << 20});
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 2500; ++i) {
      auto buffer = rig.cache->get_for_overwrite(*rig.target, {i}, 1);
      ASSERT_TRUE(buffer) << i;
    }
  }
  EXPECT_LE(rig.budget.charged_bytes(), 1U << 20);
  EXPECT_GT(rig.cache->stats().reclaimed, 4000U);
}

TEST(BufferReclaimTest, SaysSoWhenEverythingIsHeld) {
  BufRig rig({.cache = {.memory_patience = milliseconds(1)}, .budget_bytes = 64 << 10});
  std::vector<BufferHold> held;
  Reason last = Reason::kOk;
  for (std::uint64_t i = 0; i < 100 && last == Reason::kOk; ++i) {
    auto buffer = rig.cache->hold(*rig.target, {i}, 1);
    last = code_of(buffer);
    if (buffer) held.push_back(std::move(*buffer));
  }
  EXPECT_EQ(last, Reason::kNoMemory);
  held.clear();
  EXPECT_TRUE(rig.cache->hold(*rig.target, {99}, 1));
}

TEST(BufferTeardownDeathTest, RefusesToEndWithAHold) {
  EXPECT_DEATH(
      {
        BufRig rig;
        BufferHold held = std::move(rig.cache->hold(*rig.target, {5}, 1).value());
        rig.target.reset();
      },
      "held after its target ended");
}

TEST(BufferTeardownTest, FreesOnlyItsOwnBuffers) {
  BufRig rig;
  auto other = std::make_unique<BufferTarget>(*rig.cache, *rig.device, rig.geometry);
  for (std::uint64_t i = 0; i < 50; ++i) {
    (void)rig.cache->hold(*rig.target, {i}, 1).value();
    (void)rig.cache->hold(*other, {i}, 1).value();
  }
  other.reset();
  EXPECT_EQ(rig.cache->stats().buffers, 50U);
}

// ---- queues ----

TEST(DelwriQueueTest, WritesInTheOrderOfBlocks) {
  BufRig rig;
  // Stalled requests are sent on in the order in which they came.
  rig.device->add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = FaultRule::kForEver});
  DelwriQueue queue;
  for (const std::uint64_t block : {30, 10, 20}) {
    LockedBuffer buffer = rig.make({block}, block);
    EXPECT_TRUE(queue.add(*buffer));
    EXPECT_FALSE(queue.add(*buffer)) << "on the queue already";
  }
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_EQ(queue.submit().writing, 3U);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(rig.device->stalled(), 3U);
  rig.device->clear_rules();
  rig.device->release_stalled();
  for (const std::uint64_t block : {10, 20, 30}) EXPECT_EQ(rig.on_device({block}), block);
}

TEST(DelwriQueueTest, HasOneOwnerPerBuffer) {
  BufRig rig;
  DelwriQueue mine, theirs;
  LockedBuffer buffer = rig.make({9}, 1);
  EXPECT_TRUE(mine.add(*buffer));
  EXPECT_FALSE(theirs.add(*buffer));
  buffer.reset();
  EXPECT_TRUE(theirs.empty());
  EXPECT_EQ(mine.submit().writing, 1U);
}

TEST(DelwriQueueTest, KeepsWhatIsPinnedOrLocked) {
  BufRig rig;
  DelwriQueue queue;
  LockedBuffer locked = rig.make({1}, 1);
  LockedBuffer pinned = rig.make({2}, 2);
  LockedBuffer plain = rig.make({3}, 3);
  for (LockedBuffer* buffer : {&locked, &pinned, &plain}) queue.add(**buffer);
  pinned->pin();
  BufferHold pin_hold = pinned.unlock();
  plain.reset();
  DelwriQueue::Submitted submitted = queue.submit();
  EXPECT_EQ(submitted.writing, 1U);
  EXPECT_EQ(submitted.pinned, 1U);
  EXPECT_EQ(submitted.locked, 1U);
  EXPECT_EQ(queue.size(), 2U);
  pin_hold->unpin();
  locked.reset();
  submitted = queue.submit();
  EXPECT_EQ(submitted.writing, 2U);
  EXPECT_EQ(rig.on_device({2}), 2U);
}

TEST(DelwriQueueTest, DropsWhatWasWrittenMeanwhile) {
  BufRig rig;
  DelwriQueue queue;
  LockedBuffer buffer = rig.make({9}, 1);
  queue.add(*buffer);
  ASSERT_TRUE(rig.cache->write(*buffer));
  EXPECT_FALSE(buffer->on_delwri());
  // Dirtied again before its queue comes: it stays on that queue, and nobody else's.
  DelwriQueue other;
  EXPECT_FALSE(other.add(*buffer));
  EXPECT_TRUE(buffer->on_delwri());
  ASSERT_TRUE(rig.cache->write(*buffer));
  buffer.reset();
  EXPECT_EQ(queue.submit().dropped, 1U);
  EXPECT_EQ(rig.device->stats().writes, 2U);
}

TEST(DelwriQueueTest, ReportsTheFirstErrorOfAWaitedSubmit) {
  CountingPolicy policy;
  BufRig rig({.policy = &policy});
  rig.device->add({.op = IoOp::kWrite, .first = 1});
  DelwriQueue queue;
  for (const std::uint64_t block : {1, 3, 5}) queue.add(*rig.make({block}, block));
  EXPECT_EQ(code_of(queue.submit_and_wait()), Reason::kIo);
  EXPECT_EQ(rig.on_device({1}), 1U);
  EXPECT_EQ(rig.on_device({5}), 5U);
}

// After a shutdown a relogged, pinned buffer may still be queued: unmount must find no hold of the queue.
TEST(DelwriQueueTest, LetsGoOfEverythingWhenCancelled) {
  BufRig rig;
  DelwriQueue queue;
  LockedBuffer buffer = rig.make({9}, 1);
  queue.add(*buffer);
  buffer->pin();
  BufferHold held = buffer.unlock();
  rig.target->shut_down();
  EXPECT_EQ(queue.submit().pinned, 1U);
  queue.cancel();
  held->unpin();
  EXPECT_EQ(held->holds_for_test(), 1U);
  held.reset();
  rig.target.reset();
  EXPECT_EQ(rig.cache->stats().buffers, 0U);
}

TEST(DelwriQueueDeathTest, EndsEmpty) {
  EXPECT_DEATH(
      {
        BufRig rig;
        DelwriQueue queue;
        queue.add(*rig.make({9}, 1));
      },
      "a delwri queue ends empty");
}

// Random work against a plain map of what is on the device and what is in memory.
TEST(BufferModelTest, AgreesWithAPlainMap) {
  const std::uint64_t seed = 4242;
  Rng rng(seed);
  BufRig rig({.budget_bytes = 256 << 10});  // about 50 buffers: reclaim is part of it
  constexpr std::uint64_t kBlocks = 200;
  std::map<std::uint64_t, std::uint64_t> device, dirty;  // dirty: what a queue has yet to write
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    rig.put({block}, 0);
    device[block] = 0;
  }
  auto queue = std::make_unique<DelwriQueue>();
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t block = rng.below(kBlocks);
    SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(step));
    const auto current = [&] { return dirty.count(block) != 0 ? dirty[block] : device[block]; };
    switch (rng.below(8)) {
      case 0:
      case 1:
      case 2: {
        auto buffer = rig.read({block});
        ASSERT_TRUE(buffer);
        ASSERT_EQ(version_of((*buffer)->bytes()), current());
        break;
      }
      case 3:
      case 4: {  // change and queue, as long as there is room to hold
        auto buffer = rig.read({block});
        ASSERT_TRUE(buffer);
        if (queue->size() > 20 && dirty.count(block) == 0) break;
        fill_mock((*buffer)->bytes(), rig.geometry, {block}, static_cast<std::uint64_t>(step));
        queue->add(**buffer);
        dirty[block] = static_cast<std::uint64_t>(step);
        break;
      }
      case 5: {  // freed and made anew on the device
        auto buffer = rig.read({block});
        ASSERT_TRUE(buffer);
        (*buffer)->mark_stale();
        dirty.erase(block);
        break;
      }
      case 6: rig.cache->shrink(rng.below(100'000)); break;
      case 7:
        if (rng.chance(10)) {
          ASSERT_TRUE(queue->submit_and_wait());
          for (const auto& [at, version] : dirty) device[at] = version;
          dirty.clear();
        }
        break;
    }
  }
  ASSERT_TRUE(queue->submit_and_wait());
  for (const auto& [at, version] : dirty) device[at] = version;
  for (const auto& [at, version] : device) ASSERT_EQ(rig.on_device({at}), version);
  EXPECT_GT(rig.cache->stats().reclaimed, 100U);
}

}  // namespace
}  // namespace tidewheel
