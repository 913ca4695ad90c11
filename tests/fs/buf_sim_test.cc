// The buffer cache under every order the simulator tries.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "tests/fs/buf_rig.h"

namespace tidewheel {
namespace {

// A smaller table: making one is most of a run.
BufRigOptions small(BufferPolicy* policy = nullptr, bool asynchronous = false) {
  return {.cache = {.expected_buffers = 64}, .policy = policy, .asynchronous = asynchronous};
}

SIM_TEST(BufferLookupSim, TwoThreadsThatMissTheSameBlockShareOneBuffer) {
  BufRig rig(small());
  rig.put({9}, 5);
  std::vector<Thread> threads;
  Buffer* seen[3] = {};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back("miss", [&, t] {
      auto buffer = rig.read({9});
      SIM_CHECK(buffer.has_value());
      SIM_CHECK((*buffer)->done());
      SIM_CHECK(version_of((*buffer)->bytes()) == 5);
      seen[t] = buffer->get();
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(seen[0] == seen[1] && seen[1] == seen[2]);
  const BufferStats stats = rig.cache->stats();
  SIM_CHECK(stats.buffers == 1);
  SIM_CHECK(stats.reads == 1);
  SIM_CHECK(stats.allocations == 1 + stats.lost_races);
}

// A hit may find a buffer that reclaim looks at in the same moment: one of them wins, never both.
SIM_TEST(BufferReclaimSim, NeverFreesWhatALookupHasJustFound) {
  BufRig rig(small());
  rig.put({9}, 5);
  (void)rig.read({9}).value();
  std::vector<Thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back("read", [&] {
      for (int i = 0; i < 3; ++i) {
        auto buffer = rig.read({9});
        SIM_CHECK(buffer.has_value() && version_of((*buffer)->bytes()) == 5);
        SIM_CHECK((*buffer)->holds_for_test() >= 1);
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back("shrink", [&] {
      for (int i = 0; i < 2; ++i) rig.cache->shrink(UINT64_MAX / 2);
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(rig.cache->stats().buffers <= 1);
  rig.cache->shrink(UINT64_MAX / 2);
  SIM_CHECK(rig.cache->stats().buffers == 0);
}

SIM_TEST(BufferLockSim, WakesEveryWaiter) {
  BufRig rig(small());
  int inside = 0, turns = 0;
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("lock", [&] {
      for (int i = 0; i < 2; ++i) {
        LockedBuffer buffer = std::move(rig.cache->get_for_overwrite(*rig.target, {9}, 1).value());
        SIM_CHECK(++inside == 1);
        yield_thread();
        ++turns;
        --inside;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(turns == 8);
}

// The lock and a hold go to the device's thread and come back, with a device that completes later.
SIM_TEST(BufferWriteSim, AsynchronousWritesEndBeforeTheNextOwnerLooks) {
  BufRig rig(small(nullptr, true));
  std::vector<Thread> threads;
  for (std::uint64_t t = 1; t <= 2; ++t) {
    threads.emplace_back("write", [&rig, t] {
      for (std::uint64_t i = 0; i < 2; ++i) {
        rig.cache->write_async(rig.make({9}, 10 * t + i));
        LockedBuffer after = std::move(rig.read({9}).value());
        SIM_CHECK(after->error().code == Reason::kOk);
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  LockedBuffer last = std::move(rig.read({9}).value());
  SIM_CHECK(rig.on_device({9}) == version_of(std::as_const(*last).bytes()));
}

// Transactions pin and change a buffer, the log unpins it, a pusher writes it when it can: what reaches the
// device was never pinned, and the last change gets there.
SIM_TEST(DelwriSim, NeverWritesWhatIsPinnedAndLosesNothing) {
  BufRig rig(small(nullptr, true));
  rig.put({9}, 0);
  Mutex lock{flight_class()};
  CondVar changed;
  std::vector<Buffer*> to_unpin;
  bool committing = true;
  Thread log("log", [&] {
    for (;;) {
      Buffer* buffer = nullptr;
      {
        MutexLock guard(lock);
        while (to_unpin.empty() && committing) changed.wait(lock);
        if (to_unpin.empty()) return;
        buffer = to_unpin.back();
        to_unpin.pop_back();
      }
      buffer->unpin();
    }
  });
  Thread pusher("pusher", [&] {
    DelwriQueue queue;
    for (int i = 0; i < 4; ++i) {
      {
        BufferHold held = rig.cache->find(*rig.target, {9}, 1);
        if (held && held->try_lock()) {
          if (held->done() && !held->pinned()) queue.add(*held);
          held->unlock();
        }
      }
      (void)queue.submit();
      yield_thread();
    }
    SIM_CHECK(queue.submit_and_wait().has_value());
  });
  for (std::uint64_t version = 1; version <= 3; ++version) {
    LockedBuffer buffer = std::move(rig.read({9}).value());
    fill_mock(buffer->bytes(), rig.geometry, {9}, version);
    buffer->pin();
    {
      MutexLock guard(lock);
      to_unpin.push_back(buffer.get());
      changed.notify_all();
    }
    yield_thread();
  }
  pusher.join();
  {
    MutexLock guard(lock);
    committing = false;
    changed.notify_all();
  }
  log.join();
  DelwriQueue last;
  {
    LockedBuffer buffer = std::move(rig.read({9}).value());
    last.add(*buffer);
  }
  SIM_CHECK(last.submit_and_wait().has_value());
  SIM_CHECK(rig.on_device({9}) == 3);
}

// The pin comes between the pusher's look and its lock: only the second look sees it.
SIM_TEST(DelwriSim, LooksForPinsAgainOnceItHasTheLock) {
  BufRig rig(small());
  DelwriQueue queue;
  Buffer* raw = nullptr;
  {
    LockedBuffer buffer = rig.make({9}, 1);
    queue.add(*buffer);
    raw = buffer.get();
  }
  raw->hold();
  Thread committer("commit", [raw] {
    raw->lock();
    raw->pin();
    raw->unlock();
  });
  (void)queue.submit();
  committer.join();
  raw->unpin();
  raw->release();
  SIM_CHECK(queue.submit_and_wait().has_value());
  SIM_CHECK(rig.on_device({9}) == 1);
}

// The submitter waits with the buffer locked; the last unpin must wake it.
SIM_TEST(DelwriSim, WaitsForThePinAndIsWoken) {
  BufRig rig(small());
  DelwriQueue queue;
  LockedBuffer buffer = rig.make({9}, 1);
  queue.add(*buffer);
  buffer->pin();
  buffer->pin();
  Buffer* const raw = buffer.get();
  buffer.reset();
  Thread log("log", [raw] {
    raw->unpin();
    raw->unpin();
  });
  SIM_CHECK(queue.submit_and_wait().has_value());
  log.join();
  SIM_CHECK(rig.on_device({9}) == 1);
}

// A read error that nobody else knows of: the waiter may let go while the completion is still at work.
SIM_TEST(BufferReadSim, CompletionTouchesNothingThatTheWaiterHasReleased) {
  BufRig rig(small(nullptr, true));
  rig.put({9}, 5);
  Thread reader("read", [&] {
    LockedBuffer buffer = std::move(rig.cache->make_uncached(*rig.target, {9}, 1).value());
    buffer->set_type(disk::BlockType::kAgFree);  // the verifier refuses it
    SIM_CHECK(!rig.cache->read_uncached(*buffer).has_value());
  });
  reader.join();
  rig.target->drain_io();
  SIM_CHECK(rig.cache->stats().buffers == 0);
}

SIM_TEST(BufferTeardownSim, WaitsForAReadAheadInFlight) {
  BufRig rig(small(nullptr, true));
  rig.put({9}, 5);
  rig.put({10}, 6);
  rig.cache->read_ahead(*rig.target, {9}, 1, kMockType);
  rig.cache->read_ahead(*rig.target, {10}, 1, disk::BlockType::kAgFree);  // fails its verifier
  rig.target.reset();
  SIM_CHECK(rig.cache->stats().buffers == 0);
}

// Reclaim of one target's buffers beside the end of another.
SIM_TEST(BufferTeardownSim, LeavesAShrinkersBufferToTheShrinker) {
  BufRig rig(small());
  for (std::uint64_t i = 0; i < 4; ++i) (void)rig.cache->hold(*rig.target, {i}, 1).value();
  Thread shrinker("shrink", [&] { rig.cache->shrink(UINT64_MAX / 2); });
  rig.target.reset();
  shrinker.join();
  SIM_CHECK(rig.cache->stats().buffers == 0);
}

// Shutdown in the middle of pushing: nothing is written after it, no hold is left.
SIM_TEST(BufferShutdownSim, LeavesNoHoldsAndWritesNothingMore) {
  CountingPolicy policy;
  CountingClient client;
  BufRig rig(small(&policy, true));
  Atomic<std::uint32_t> changed{0};
  Thread pusher("pusher", [&] {
    DelwriQueue queue;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      LockedBuffer buffer = rig.make({i}, i);
      buffer->set_client(&client);
      queue.add(*buffer);
      buffer.reset();
      (void)queue.submit();
      changed.fetch_add(1, std::memory_order_relaxed);
    }
    (void)queue.submit();
    queue.cancel();
  });
  Thread stopper("stop", [&] {
    yield_thread();
    rig.target->shut_down();
  });
  pusher.join();
  stopper.join();
  rig.target->drain_io();
  SIM_CHECK(client.writes.load(std::memory_order_relaxed) + client.losses.load(std::memory_order_relaxed) ==
            3);
  SIM_CHECK(policy.lost.load(std::memory_order_relaxed) == client.losses.load(std::memory_order_relaxed));
  SIM_CHECK(rig.device->stats().writes == client.writes.load(std::memory_order_relaxed));
  rig.target.reset();
  SIM_CHECK(rig.cache->stats().buffers == 0);
}

}  // namespace
}  // namespace tidewheel
