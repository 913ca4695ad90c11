// Dirty lists between threads: markers, flushers, syncs, fsyncs, and owners that cancel and free at once. The
// same scene on real threads (for tsan and asan) and under the simulator (every design, many schedules, weak
// memory too); and the re-dirty pair, with the variant that loses dirt.
#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "base/sim.h"
#include "base/thread.h"
#include "tests/writeback/list_rig.h"

namespace tidewheel {
namespace {

using TakeOut = DirtyList::TakeOut;

LockClass scene_lock_class{"races_scene", LockRank::kNone};

#define SCENE_CHECK(expr) TW_ASSERT(expr, "the scene went wrong")

// An object whose content is a version: `written` must reach `dirtied` before it is clean.
struct Page {
  DirtyObject object;
  Atomic<std::uint32_t> dirtied{0};  // the writer's tag: published before mark_dirty
  Atomic<std::uint32_t> written{0};
  Atomic<std::uint32_t> failed{0};  // its last write that ended for good or ill failed
};

class Scene {
 public:
  // With lazytime a part of the dirt is timestamps alone: a version as any other.
  Scene(const std::string& design, std::uint32_t shards, bool lazytime = false)
      : lazytime_(lazytime), lock_(scene_lock_class) {
    DirtyListOptions options;
    options.lazytime = lazytime;
    options.lazytime_expire = seconds(1);
    options.shards = design == "timer-wheel" ? shards : 0;
    options.flushers = 2;
    list_ = find_dirty_list_design(design)->make(options);
    for (auto& page : shared_) page.object.set_hash(static_cast<std::uint8_t>(1 + (&page - shared_.data())));
  }

  void run(int owners, int rounds, std::uint64_t seed) {
    std::vector<Thread> threads;
    for (int i = 0; i < owners; ++i) {
      threads.emplace_back("owner",
                           [this, i, rounds, seed] { own(rounds, seed * 100 + static_cast<unsigned>(i)); });
    }
    for (std::size_t i = 0; i < kFlushers; ++i) {
      threads.emplace_back("flusher", [this, i, rounds, seed] { flush(rounds, seed * 100 + 50 + i); });
    }
    threads.emplace_back("syncer", [this, rounds] { sync(rounds); });
    for (Thread& thread : threads) thread.join();
    for (Page& page : shared_) {
      SCENE_CHECK(page.object.state().clean() || page.object.state().classes() != 0);
      SCENE_CHECK(!page.object.state().clean() || page.written.load(std::memory_order_seq_cst) ==
                                                      page.dirtied.load(std::memory_order_seq_cst));
      while (list_->cancel(page.object) == TakeOut::kInBatch) {
      }
    }
    SCENE_CHECK(list_->listed() == 0);
    list_->check_invariants();
  }

 private:
  static constexpr std::size_t kFlushers = 2;

  Instant tick() { return Instant{clock_ns_.fetch_add(100'000'000, std::memory_order_relaxed)}; }
  void dirty(Page& page) {
    const std::uint32_t version = page.dirtied.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t classes = lazytime_ && version % 3 != 1 ? kDirtyTimestamps : kDirtyData;
    list_->mark_dirty(page.object, classes, tick());
  }
  void wake() {
    MutexLock hold(lock_);
    changed_.notify_all();
  }
  void wait_for(DirtyObject& object) {
    MutexLock hold(lock_);
    while (object.state().has_waiters()) changed_.wait(lock_);
  }

  // Makes objects, dirties them and shared ones, and takes its own away again in whatever phase they are.
  void own(int rounds, std::uint64_t seed) {
    Rng rng(seed);
    for (int round = 0; round < rounds; ++round) {
      auto mine = std::make_unique<Page>();
      mine->object.set_hash(static_cast<std::uint8_t>(1 + rng.below(255)));
      dirty(*mine);
      dirty(shared_[rng.below(shared_.size())]);
      if (rng.chance(3)) fsync(*mine);
      if (rng.chance(2)) dirty(*mine);
      while (list_->cancel(mine->object) == TakeOut::kInBatch) wait_for(mine->object);
      mine.reset();
    }
  }

  void fsync(Page& page) {
    const std::uint32_t target = page.dirtied.load(std::memory_order_seq_cst);
    while (true) {
      const TakeOut took = list_->claim_one(page.object);
      if (took == TakeOut::kInBatch) {
        wait_for(page.object);
        continue;
      }
      if (took == TakeOut::kTaken) {
        WriteSlot slot;
        slot.object = &page.object;
        write(slot, WriteOutcome::kWritten, WorkKind::kFsync);
      }
      break;
    }
    SCENE_CHECK(page.written.load(std::memory_order_seq_cst) >= target);
  }

  void write(WriteSlot& slot, WriteOutcome outcome, WorkKind kind) {
    Page& page = *reinterpret_cast<Page*>(slot.object);
    if (!list_->begin_write(slot)) return wake();  // its owner has it, and its memory
    const std::uint32_t version = page.dirtied.load(std::memory_order_seq_cst);
    yield_thread();
    if (outcome == WriteOutcome::kWritten) page.written.store(version, std::memory_order_seq_cst);
    if (outcome == WriteOutcome::kWritten) page.failed.store(0, std::memory_order_seq_cst);
    if (outcome == WriteOutcome::kFailed) page.failed.store(1, std::memory_order_seq_cst);
    slot.outcome = outcome;
    if (list_->end_write(slot, kind, tick()).waiters) wake();
  }

  void flush(int rounds, std::uint64_t seed) {
    constexpr std::array kKinds = {WorkKind::kBackground, WorkKind::kPeriodic, WorkKind::kReclaim};
    constexpr std::array kOutcomes = {WriteOutcome::kWritten, WriteOutcome::kWritten, WriteOutcome::kPartial,
                                      WriteOutcome::kSkipped, WriteOutcome::kFailed};
    Rng rng(seed);
    for (int round = 0; round < rounds; ++round) {
      SelectionRequest request;
      request.kind = kKinds[rng.below(kKinds.size())];
      request.now = tick();
      request.dirtied_before =
          request.kind == WorkKind::kPeriodic ? request.now - seconds(1) : Instant::max();
      request.lazy_before = request.now - seconds(1);
      auto selection = list_->select(request);
      begin_batch();
      std::array<DirtyObject*, 3> out{};
      const std::size_t n = selection->claim(out);
      if (rng.chance(2)) yield_thread();
      for (DirtyObject* object : std::span(out).first(n)) {
        WriteSlot slot;
        slot.object = object;
        if (rng.chance(4)) {
          if (list_->unclaim(*slot.object, tick())) wake();
        } else {
          write(slot, kOutcomes[rng.below(kOutcomes.size())], request.kind);
        }
      }
      end_batch();
    }
  }

  // Each sync covers what its own thread knows to be dirty.
  void sync(int rounds) {
    for (int round = 0; round < rounds / 2 + 1; ++round) {
      Page& page = shared_[static_cast<std::size_t>(round) % shared_.size()];
      dirty(page);
      const std::uint32_t target = page.dirtied.load(std::memory_order_seq_cst);
      SelectionRequest request;
      request.kind = WorkKind::kSync;
      request.now = request.dirtied_before = tick();
      auto selection = list_->select(request);
      while (true) {
        const std::uint64_t quiet = wait_until_quiet();
        std::array<DirtyObject*, 2> out{};
        const std::size_t n = selection->claim(out);
        for (std::size_t i = 0; i < n; ++i) {
          WriteSlot slot;
          slot.object = out[i];
          write(slot, WriteOutcome::kWritten, WorkKind::kSync);
        }
        if (n == 0 && still_quiet_since(quiet)) break;
      }
      const bool covered = page.written.load(std::memory_order_seq_cst) >= target;
      // What failed meanwhile is on the ladder (or where the design files failures): an error, not a loss.
      SCENE_CHECK(covered || page.failed.load(std::memory_order_seq_cst) != 0);
    }
  }

  void begin_batch() {
    MutexLock hold(lock_);
    ++in_flight_;
    ++begun_;
  }
  void end_batch() {
    MutexLock hold(lock_);
    --in_flight_;
    changed_.notify_all();
  }
  std::uint64_t wait_until_quiet() {
    MutexLock hold(lock_);
    while (in_flight_ != 0) changed_.wait(lock_);
    return begun_;
  }
  bool still_quiet_since(std::uint64_t begun) {
    MutexLock hold(lock_);
    return in_flight_ == 0 && begun_ == begun;
  }

  const bool lazytime_;
  std::unique_ptr<DirtyList> list_;
  std::array<Page, 4> shared_;
  Atomic<std::int64_t> clock_ns_{1'000'000'000'000};
  Mutex lock_;
  CondVar changed_;
  std::uint32_t in_flight_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t begun_ TW_GUARDED_BY(lock_) = 0;
};

class DirtyListRaces : public ::testing::TestWithParam<std::string> {};

TEST_P(DirtyListRaces, NothingIsLostOrTouchedAfterItsEndOnRealThreads) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Scene(GetParam(), 4).run(4, 1500, seed);
    Scene(GetParam(), 4, /*lazytime=*/true).run(4, 1500, seed);
  }
}
INSTANTIATE_TEST_SUITE_P(Designs, DirtyListRaces, ::testing::ValuesIn(all_designs_and_orders()),
                         [](const auto& test) { return design_test_name(test.param); });

#if TW_SIM

constexpr sim::Options kSceneOptions{.schedules = 1500, .cpus = 2};
SIM_TEST_WITH(DirtyListSim, NothingIsLostByTimerWheel, kSceneOptions) {
  Scene("timer-wheel", 2).run(2, 3, 1);
}
SIM_TEST_WITH(DirtyListSim, NothingIsLostBySingleList, kSceneOptions) {
  Scene("single-list", 1).run(2, 3, 2);
}
SIM_TEST_WITH(DirtyListSim, NothingIsLostByTaggedList, kSceneOptions) {
  Scene("tagged-list", 1).run(2, 3, 3);
}
SIM_TEST_WITH(DirtyListSim, NothingIsLostBySyncerSlots, kSceneOptions) {
  Scene("syncer-slots", 1).run(2, 3, 4);
}
SIM_TEST_WITH(DirtyListSim, NothingIsLostByParallelLists, kSceneOptions) {
  Scene("parallel-lists", 1).run(2, 3, 5);
}

// Timestamps alone among the rest: on their ring, promoted beside flushers, syncs and removals.
SIM_TEST_WITH(LazytimeSim, NothingIsLostByTimerWheel, kSceneOptions) {
  Scene("timer-wheel", 2, true).run(2, 3, 1);
}
SIM_TEST_WITH(LazytimeSim, NothingIsLostBySingleList, kSceneOptions) {
  Scene("single-list", 1, true).run(2, 3, 2);
}
SIM_TEST_WITH(LazytimeSim, NothingIsLostByTaggedList, kSceneOptions) {
  Scene("tagged-list", 1, true).run(2, 3, 3);
}
SIM_TEST_WITH(LazytimeSim, NothingIsLostBySyncerSlots, kSceneOptions) {
  Scene("syncer-slots", 1, true).run(2, 3, 4);
}
SIM_TEST_WITH(LazytimeSim, NothingIsLostByParallelLists, kSceneOptions) {
  Scene("parallel-lists", 1, true).run(2, 3, 5);
}
SIM_TEST_WITH(DirtyListSim, NothingIsLostByAnOrderOfAProgram, kSceneOptions) {
  Scene("order-latest", 1).run(2, 3, 6);
}

// ---- the re-dirty pair (dirty_object.h) ----

// A writer dirties twice while a flusher writes; afterwards what is not written must be marked. `covered` is
// the writer's test of the state.
void redirty_pair(bool (*covered)(const DirtyObject&)) {
  auto list = find_dirty_list_design("timer-wheel")->make(DirtyListOptions{.shards = 1});
  Page page;
  const Instant now{1'000'000'000'000};
  const auto dirty = [&] {
    page.dirtied.fetch_add(1, std::memory_order_seq_cst);
    if (!covered(page.object)) list->mark_dirty(page.object, kDirtyData, now);
  };
  dirty();
  Thread writer("writer", dirty);
  SelectionRequest request;
  request.now = now;
  request.dirtied_before = Instant::max();
  {
    auto selection = list->select(request);
    WriteSlot slot;
    SCENE_CHECK(selection->claim(std::span(&slot.object, 1)) == 1);
    SCENE_CHECK(list->begin_write(slot));
    page.written.store(page.dirtied.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
    slot.outcome = WriteOutcome::kWritten;
    list->end_write(slot, WorkKind::kBackground, now);
  }
  writer.join();
  const bool written =
      page.written.load(std::memory_order_seq_cst) == page.dirtied.load(std::memory_order_seq_cst);
  const bool marked = !page.object.state().clean();
  list->cancel(page.object);
  if (!written && !marked) sim::fail("dirt is lost: a page is dirty and its object clean");
}

SIM_TEST_WITH(RedirtyPairSim, NeverLosesDirt, (sim::Options{.schedules = 2000, .cpus = 2})) {
  redirty_pair([](const DirtyObject& object) { return object.covers(kDirtyData); });
}

TEST(RedirtyPairSim, LosesDirtWithARelaxedLoad) {
  const sim::Outcome outcome = sim::explore({.schedules = 1000, .cpus = 2}, [] {
    redirty_pair([](const DirtyObject& object) {
      return (DirtyState{object.state_.load(std::memory_order_relaxed)}.classes() & kDirtyData) != 0;
    });
  });
  EXPECT_TRUE(outcome.failed) << "within 1,000 schedules";
  EXPECT_EQ(outcome.kind, sim::Failure::kCheck) << outcome.message;
  // It is the memory, not the order of the threads' steps: without store buffers the same code is sound.
  const sim::Outcome strong = sim::explore({.schedules = 1000, .cpus = 2, .weak_memory = false}, [] {
    redirty_pair([](const DirtyObject& object) {
      return (DirtyState{object.state_.load(std::memory_order_relaxed)}.classes() & kDirtyData) != 0;
    });
  });
  EXPECT_FALSE(strong.failed) << strong.message;
}

// ---- claims beside writers: whoever holds a shard may have been preempted ----

LockClass claim_lock_class{"claim_beside_writers", LockRank::kListShard};

SIM_TEST_WITH(ClaimBesideWritersSim, WaitsForNoShardWhileOthersHaveSomething,
              (sim::Options{.schedules = 1000, .cpus = 2})) {
  auto list = find_dirty_list_design("timer-wheel")
                  ->make(DirtyListOptions{.shards = 4, .lock_class = &claim_lock_class});
  const Instant now{1'000'000'000'000};
  std::array<Page, 7> pages;
  Atomic<std::uint32_t> listed{0};
  Atomic<bool> done{false};
  const auto lists = [&](std::size_t first) {
    list->mark_dirty(pages[first].object, kDirtyData, now);
    listed.fetch_add(1, std::memory_order_seq_cst);
    while (listed.load(std::memory_order_seq_cst) != 4) yield_thread();
  };
  std::vector<Thread> writers;
  for (std::size_t i = 1; i < 4; ++i) {
    writers.emplace_back("writer", [&, i] {
      lists(i);
      if (i == 1) {
        for (std::size_t k = 4; k < pages.size(); ++k) {
          list->mark_dirty(pages[k].object, kDirtyData, now);
        }
      }
      while (!done.load(std::memory_order_seq_cst)) yield_thread();
    });
  }
  lists(0);
  // One object in each shard, and one thread that may hold one of them: two claims need wait for nothing.
  const std::uint64_t contended = claim_lock_class.stats().contended;
  SelectionRequest request;
  request.now = now;
  request.dirtied_before = Instant::max();
  {
    auto selection = list->select(request);
    for (int i = 0; i < 2; ++i) {
      DirtyObject* claimed = nullptr;
      SIM_CHECK(selection->claim(std::span(&claimed, 1)) == 1);
      WriteSlot slot;
      slot.object = claimed;
      SIM_CHECK(list->begin_write(slot));
      slot.outcome = WriteOutcome::kWritten;
      list->end_write(slot, WorkKind::kBackground, now);  // takes no lock
    }
  }
  SIM_CHECK(claim_lock_class.stats().contended == contended);
  done.store(true, std::memory_order_seq_cst);
  for (Thread& writer : writers) writer.join();
  for (Page& page : pages) list->cancel(page.object);
}

// ---- cancel against the begin and the end of a write, with the memory gone at once ----

SIM_TEST_WITH(CancelRaceSim, LeavesBeforeTheWriteOrWaitsForIt, (sim::Options{.schedules = 1000, .cpus = 2})) {
  auto list = find_dirty_list_design("timer-wheel")->make(DirtyListOptions{.shards = 1});
  auto page = std::make_unique<Page>();
  const Instant now{1'000'000'000'000};
  list->mark_dirty(page->object, kDirtyData, now);
  Mutex lock(scene_lock_class);
  CondVar changed;
  const auto wake = [&] {
    MutexLock hold(lock);
    changed.notify_all();
  };
  Thread owner("owner", [&] {
    while (list->cancel(page->object) == TakeOut::kInBatch) {
      MutexLock hold(lock);
      while (page->object.state().has_waiters()) changed.wait(lock);
    }
    page.reset();
  });
  SelectionRequest request;
  request.now = now;
  request.dirtied_before = Instant::max();
  auto selection = list->select(request);
  DirtyObject* claimed = nullptr;
  if (selection->claim(std::span(&claimed, 1)) == 1) {
    WriteSlot slot;
    slot.object = claimed;
    if (!list->begin_write(slot)) {
      wake();
    } else {
      slot.outcome = WriteOutcome::kWritten;
      if (list->end_write(slot, WorkKind::kBackground, now).waiters) wake();
    }
  }
  owner.join();
  SIM_CHECK(list->listed() == 0);
}

// Once cancel() has said that it waits for a claimed object, no write of it begins.
SIM_TEST_WITH(CancelRaceSim, NothingIsWrittenOnceItWaits, (sim::Options{.schedules = 500, .cpus = 2})) {
  auto list = find_dirty_list_design("single-list")->make({});
  Page page;
  const Instant now{1'000'000'000'000};
  list->mark_dirty(page.object, kDirtyData, now);
  SelectionRequest request;
  request.now = now;
  request.dirtied_before = Instant::max();
  auto selection = list->select(request);
  DirtyObject* claimed = nullptr;
  SIM_CHECK(selection->claim(std::span(&claimed, 1)) == 1);
  Atomic<bool> waits{false};
  Thread owner("owner", [&] {
    const TakeOut took = list->cancel(page.object);
    waits.store(took == TakeOut::kInBatch && page.object.state().cancelled(), std::memory_order_seq_cst);
  });
  Thread writer("writer", [&] { list->mark_dirty(page.object, kDirtyMetadata, now); });
  const bool waited = waits.load(std::memory_order_seq_cst);
  WriteSlot slot;
  slot.object = claimed;
  const bool begun = list->begin_write(slot);
  SIM_CHECK(!(waited && begun));
  owner.join();
  writer.join();
  if (begun) {
    slot.outcome = WriteOutcome::kWritten;
    list->end_write(slot, WorkKind::kBackground, now);
  }
  list->cancel(page.object);
}

#endif

}  // namespace
}  // namespace tidewheel
