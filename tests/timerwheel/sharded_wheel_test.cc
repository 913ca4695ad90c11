// Many threads on one sharded wheel: on real threads, and under the simulator's schedules.
#include "timerwheel/sharded_wheel.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "base/sim.h"
#include "base/thread.h"
#include "timerwheel/typed.h"

namespace tidewheel {
namespace {

constinit LockClass test_shards{"test_wheel_shard", LockRank::kListShard};

// state: who has the element. Written under the lock of the shard it is listed in, or by who has it claimed.
// Release stores pair with acquire loads: who sees "clean" or "listed" sees the node as it was left.
struct Item {
  static constexpr std::uint32_t kClean = 0;
  static constexpr std::uint32_t kTaken = 1;   // by a writer or a flusher
  static constexpr std::uint32_t kListed = 2;  // + shard
  WheelNode node;
  Atomic<std::uint32_t> state{kClean};
  std::uint32_t shard = 0;  // while taken by a flusher: where it was listed
  bool of_sync = false;     // constant: listed by the sync thread alone
};
using Items = WheelElement<Item, &Item::node>;

ShardedWheelOptions options_of(std::uint32_t shards, bool grow = false) {
  ShardedWheelOptions options;
  options.wheel.slots = 8;
  options.wheel.slot = Duration{1 << 10};
  options.wheel.late_reading = Duration{1LL << 40};  // threads read the clock before they lock
  options.shards = shards;
  options.grow_when_contended = grow;
  options.lock_class = &test_shards;
  return options;
}

struct Scenario {
  std::uint32_t shards = 4;
  std::uint32_t writers = 2;
  std::uint32_t items = 8;
  std::uint32_t steps = 12;  // of each thread
  bool grow = false;
  bool mover = false;  // a move during a cut may carry an element from a shard not yet cut to one that is
};

// Writers dirty and clean shared items, a flusher detaches, claims, finishes or puts back, a sync takes all
// and must get what its own thread had listed before, a mover moves between shards. Afterwards: nothing is
// lost, nothing is twice.
class Crowd {
 public:
  explicit Crowd(const Scenario& scenario)
      : scenario_(scenario),
        wheel_(options_of(scenario.shards, scenario.grow)),
        items_(scenario.items),
        synced_(2) {
    for (Item& item : synced_) item.of_sync = true;
  }

  void run(std::uint64_t seed) {
    std::vector<Thread> threads;
    for (std::uint32_t i = 0; i < scenario_.writers; ++i) {
      threads.emplace_back("writer" + std::to_string(i), [this, i, seed] { write(Rng(seed * 100 + i)); });
    }
    threads.emplace_back("flusher", [this, seed] { flush(Rng(seed * 100 + 50)); });
    threads.emplace_back("sync", [this] { sync(); });
    if (scenario_.mover) threads.emplace_back("mover", [this, seed] { move(Rng(seed * 100 + 60)); });
    for (Thread& thread : threads) thread.join();
    settle();
  }

 private:
  Instant now() {
    clock_.advance(Duration{300});
    return clock_.now();
  }
  void list(Item& item) {
    wheel_.insert(item.node, now(), [&item](std::uint32_t shard) {
      item.state.store(Item::kListed + shard, std::memory_order_release);
    });
  }
  static void mark_claimed(WheelNode& node) {
    Item& item = Items::of(node);
    const std::uint32_t state = item.state.load(std::memory_order_relaxed);
    TW_ASSERT(state >= Item::kListed, "something is claimed that is not listed");
    item.shard = state - Item::kListed;
    item.state.store(Item::kTaken, std::memory_order_relaxed);
  }
  void clean(Item& item) {
    const std::uint32_t state = item.state.load(std::memory_order_acquire);
    if (state < Item::kListed) return;
    wheel_.remove_if(item.node, state - Item::kListed, [&item, state] {
      if (item.state.load(std::memory_order_relaxed) != state) return false;
      // Taken until the removal has happened: another writer may list it as soon as it is clean.
      item.state.store(Item::kTaken, std::memory_order_relaxed);
      return true;
    }) ? item.state.store(Item::kClean, std::memory_order_release)
       : void();
  }
  void write(Rng rng) {
    for (std::uint32_t step = 0; step < scenario_.steps; ++step) {
      Item& item = items_[rng.below(items_.size())];
      std::uint32_t expected = Item::kClean;
      if (rng.chance(3)) {
        clean(item);
      } else if (item.state.compare_exchange(expected, Item::kTaken, std::memory_order_acquire)) {
        list(item);
      }
    }
  }
  void finish(Item& item) { item.state.store(Item::kClean, std::memory_order_release); }
  void flush(Rng rng) {
    std::uint32_t cursor = 0;
    WheelNode* out[3];
    for (std::uint32_t step = 0; step < scenario_.steps; ++step) {
      const Instant read = now();
      rng.chance(2) ? void(wheel_.detach_oldest()) : void(wheel_.detach_expired(read - Duration{2000}, read));
      const std::size_t count = wheel_.claim(out, cursor, Instant::max(), mark_claimed);
      for (WheelNode* node : std::span(out).first(count)) {
        Item& item = Items::of(*node);
        if (rng.chance(2) || item.of_sync) {
          finish(item);
          continue;
        }
        WheelShard& shard = wheel_.shard(item.shard);
        MutexLock lock(shard.lock);
        shard.wheel.requeue_front(*node);
        item.state.store(Item::kListed + item.shard, std::memory_order_release);
      }
    }
  }
  void sync() {
    for (std::uint32_t step = 0; step < scenario_.steps / 4; ++step) {
      for (Item& item : synced_) {
        std::uint32_t expected = Item::kClean;
        if (item.state.compare_exchange(expected, Item::kTaken, std::memory_order_acquire)) list(item);
      }
      ShardedWheel::SyncCut cut(wheel_);
      wheel_.take_all(cut);
      if (step % 3 == 2) continue;  // stops early: all of it is put back
      WheelNode* out[4];
      while (const std::size_t count = cut.claim(out, mark_claimed)) {
        for (WheelNode* node : std::span(out).first(count)) finish(Items::of(*node));
      }
      if (scenario_.mover) continue;
      // Listed before the cut, and no one lists them but this thread: the sync has them, or a flusher.
      for (Item& item : synced_) {
        const std::uint32_t state = item.state.load(std::memory_order_acquire);
        TW_ASSERT(state < Item::kListed, "a sync missed what was listed before it began");
      }
    }
  }
  void move(Rng rng) {
    for (std::uint32_t step = 0; step < scenario_.steps / 4; ++step) {
      const std::uint32_t count = wheel_.shards();
      const auto from = static_cast<std::uint32_t>(rng.below(count));
      const auto to = static_cast<std::uint32_t>(rng.below(count));
      ShardedWheel::move_between(wheel_, from, wheel_, to, now(), [to](WheelNode& node) {
        Items::of(node).state.store(Item::kListed + to, std::memory_order_release);
      });
    }
  }
  void settle() {
    wheel_.check_invariants();
    std::uint64_t listed = 0;
    for (std::vector<Item>* items : {&items_, &synced_}) {
      for (Item& item : *items) {
        const std::uint32_t state = item.state.load(std::memory_order_relaxed);
        TW_ASSERT(state != Item::kTaken, "an element is left between two places");
        TW_ASSERT((state >= Item::kListed) == item.node.hook.is_linked(), "element and wheel disagree");
        listed += state >= Item::kListed ? 1 : 0;
      }
    }
    TW_ASSERT(listed == wheel_.listed(), "elements are lost or counted twice");
    TW_ASSERT((wheel_.oldest() == Instant::max()) == (listed == 0), "the hints are wrong about being empty");
    while (wheel_.detach_oldest()) {
    }
    std::uint32_t cursor = 0;
    WheelNode* out[kMaxClaim];
    std::uint64_t claimed = 0;
    while (const std::size_t count = wheel_.claim(out, cursor, Instant::max(), mark_claimed)) {
      claimed += count;
    }
    TW_ASSERT(claimed == listed, "not everything that was listed comes out");
    const WheelStats stats = wheel_.stats();
    TW_ASSERT(stats.inserts == stats.removals + stats.claimed, "the counters don't add up");
  }

  const Scenario scenario_;
  VirtualClock clock_;
  ShardedWheel wheel_;
  std::vector<Item> items_;
  std::vector<Item> synced_;  // listed by the sync thread alone
};

SIM_TEST_WITH(ShardedWheelSim, LosesNothingInACrowd, (sim::Options{.schedules = 600})) {
  Crowd(Scenario{}).run(1);
}

SIM_TEST_WITH(ShardedWheelSim, LosesNothingWhileElementsMove, (sim::Options{.schedules = 600})) {
  Crowd(Scenario{.mover = true}).run(5);
}

SIM_TEST_WITH(ShardedWheelSim, LosesNothingWhileShardsAreAdded, (sim::Options{.schedules = 400})) {
  Crowd(Scenario{.shards = 4, .grow = true}).run(2);
}

SIM_TEST_WITH(ShardedWheelSim, LosesNothingOnOneShard, (sim::Options{.schedules = 400})) {
  Crowd(Scenario{.shards = 1, .writers = 3, .items = 4}).run(3);
}

// Who learns of an insert by any means sees the shard non-empty by its hint, without the lock.
SIM_TEST_WITH(ShardedWheelSim, TheHintShowsWhatWasListedBefore, (sim::Options{.schedules = 400})) {
  ShardedWheel wheel(options_of(2));
  Item item;
  Atomic<bool> listed{false};
  Thread writer("writer", [&] {
    wheel.insert(item.node, Instant{5000}, [&](std::uint32_t shard) { item.shard = shard; });
    listed.store(true, std::memory_order_release);  // pairs with acquire below
  });
  if (listed.load(std::memory_order_acquire)) SIM_CHECK(wheel.oldest() == Instant{4096});
  writer.join();
  SIM_CHECK(wheel.oldest() == Instant{4096});
  wheel.remove_if(item.node, item.shard, [] { return true; });
  SIM_CHECK(wheel.oldest() == Instant::max());
}

// Whoever holds a shard may have been preempted: a claim waits for it only when nothing else is left.
SIM_TEST_WITH(ShardedWheelSim, AClaimWaitsForAHeldShardLast, (sim::Options{.schedules = 100})) {
  ShardedWheel wheel(options_of(4));
  Item items[4];
  for (std::uint32_t i = 0; i < 4; ++i) {
    MutexLock lock(wheel.shard(i).lock);
    wheel.shard(i).wheel.insert(items[i].node, Instant{1000});
  }
  Atomic<bool> held{false}, release{false};
  Thread holder("holder", [&] {
    MutexLock lock(wheel.shard(0).lock);
    held.store(true, std::memory_order_seq_cst);
    while (!release.load(std::memory_order_seq_cst)) yield_thread();
  });
  while (!held.load(std::memory_order_seq_cst)) yield_thread();
  std::uint32_t cursor = 0;
  WheelNode* out[kMaxClaim];
  const auto claim = [&] {
    return wheel.claim_expired(out, cursor, Instant::max(), Instant{100'000}, [](WheelNode&) {});
  };
  for (int i = 0; i < 3; ++i) {
    SIM_CHECK(claim() == 1);
    SIM_CHECK(out[0] != &items[0].node);
  }
  release.store(true, std::memory_order_seq_cst);
  SIM_CHECK(claim() == 1);
  SIM_CHECK(out[0] == &items[0].node);
  SIM_CHECK(claim() == 0);
  holder.join();
}

constinit LockClass yielded_to{"yielded_to", LockRank::kListShard};

// A holder that is about to unlock is let run: nobody sleeps, and the holder wakes nobody.
SIM_TEST_WITH(ShardedWheelSim, AClaimLooksAgainBeforeItWaits, (sim::Options{.schedules = 400})) {
  ShardedWheelOptions options = options_of(1);
  options.lock_class = &yielded_to;
  ShardedWheel wheel(options);
  Item item;
  wheel.insert(item.node, Instant{1000}, [](std::uint32_t) {});
  const std::uint64_t contended = yielded_to.stats().contended;
  Atomic<bool> held{false};
  Thread holder("holder", [&] {
    MutexLock lock(wheel.shard(0).lock);
    held.store(true, std::memory_order_seq_cst);
  });
  while (!held.load(std::memory_order_seq_cst)) yield_thread();
  std::uint32_t cursor = 0;
  WheelNode* out[kMaxClaim];
  SIM_CHECK(wheel.claim_expired(out, cursor, Instant::max(), Instant{100'000}, [](WheelNode&) {}) == 1);
  SIM_CHECK(yielded_to.stats().contended == contended);
  holder.join();
}

// Writers don't meet in a shard while there are enough, whatever CPU they are moved to.
SIM_TEST_WITH(ShardedWheelSim, AThreadHasItsOwnShard, (sim::Options{.schedules = 100, .cpus = 2})) {
  ShardedWheel wheel(options_of(8));
  std::array<Atomic<std::uint32_t>, 8> users{};  // a thread counts itself once where it inserts
  Atomic<std::uint32_t> ready{0};
  const auto writer = [&] {
    const std::uint32_t mine = wheel.pick();
    users[mine].fetch_add(1, std::memory_order_seq_cst);
    ready.fetch_add(1, std::memory_order_seq_cst);
    for (int i = 0; i < 5; ++i) {
      yield_thread();
      SIM_CHECK(wheel.pick() == mine);
    }
    while (ready.load(std::memory_order_seq_cst) != 6) yield_thread();
  };
  std::vector<Thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back("writer", writer);
  for (Thread& thread : threads) thread.join();
  for (const auto& count : users) SIM_CHECK(count.load(std::memory_order_seq_cst) <= 1);
}

TEST(ShardedWheel, ClaimsFewPerHoldWhereWritersHaveBeen) {
  ShardedWheel wheel(options_of(1));
  std::vector<Item> items(100);
  for (Item& item : items) {
    MutexLock lock(wheel.shard(0).lock);
    wheel.shard(0).wheel.insert(item.node, Instant{1000});
  }
  std::uint32_t cursor = 0;
  WheelNode* out[kMaxClaim];
  const auto claim = [&] {
    return wheel.claim_expired(out, cursor, Instant::max(), Instant{100'000}, [](WheelNode&) {});
  };
  EXPECT_EQ(claim(), kBusyClaim);
  EXPECT_EQ(claim(), kMaxClaim);
  EXPECT_TRUE(wheel.remove_if(items.back().node, 0, [] { return true; }));
  EXPECT_EQ(claim(), kBusyClaim);
  EXPECT_EQ(claim(), kMaxClaim);
  EXPECT_EQ(claim(), 100U - 2 * kMaxClaim - 2 * kBusyClaim - 1);
  EXPECT_EQ(claim(), 0U);
}

TEST(ShardedWheel, ClaimExpiredNoticesAClockThatWasSetBack) {
  ShardedWheelOptions options = options_of(2);
  options.wheel.late_reading = Duration{1 << 10};
  ShardedWheel wheel(options);
  Item item;
  {
    MutexLock lock(wheel.shard(1).lock);
    wheel.shard(1).wheel.insert(item.node, Instant{100'000});
  }
  std::uint32_t cursor = 0;
  WheelNode* out[1];
  EXPECT_EQ(wheel.claim_expired(out, cursor, Instant{40'000}, Instant{50'000}, [](WheelNode&) {}), 1U);
  EXPECT_EQ(wheel.stats().clock_steps, 1U);
}

TEST(ShardedWheel, LosesNothingInACrowdOfRealThreads) {
  for (const bool grow : {false, true}) {
    Crowd(Scenario{.shards = 16, .writers = 6, .items = 500, .steps = 20'000, .grow = grow, .mover = grow})
        .run(4);
  }
}

// ---- counted costs ----

std::uint64_t acquisitions() { return test_shards.stats().acquisitions; }

TEST(ShardedWheel, TakesNoLockWhereTheHintSaysNothingIsDue) {
  ShardedWheel wheel(options_of(16));
  Item items[2];
  for (std::uint32_t i = 0; i < 2; ++i) {
    MutexLock lock(wheel.shard(i).lock);
    wheel.shard(i).wheel.insert(items[i].node, Instant{i * 100'000});
  }
  const std::uint64_t before = acquisitions();
  EXPECT_EQ(wheel.oldest(), Instant{0});
  EXPECT_EQ(acquisitions() - before, 0U);
  EXPECT_EQ(wheel.detach_expired(Instant{50'000}, Instant{100'000}), 1U);
  EXPECT_EQ(acquisitions() - before, 1U) << "one shard of sixteen has something due";
  std::uint32_t cursor = 0;
  WheelNode* out[kMaxClaim];
  EXPECT_EQ(wheel.claim(out, cursor, Instant{50'000}, [](WheelNode&) {}), 1U);
  EXPECT_EQ(acquisitions() - before, 2U);
  {
    ShardedWheel::SyncCut cut(wheel);
    wheel.take_all(cut);
    EXPECT_EQ(acquisitions() - before, 18U) << "a sync waits for every hold that is under way";
    EXPECT_EQ(cut.claim(out, [](WheelNode&) {}), 1U);
  }
  EXPECT_EQ(wheel.listed(), 0U);
}

TEST(ShardedWheel, DetachesTheOldestOfAllShards) {
  ShardedWheel wheel(options_of(4));
  Item items[4];
  for (std::uint32_t i = 0; i < 4; ++i) {
    MutexLock lock(wheel.shard(i).lock);
    wheel.shard(i).wheel.insert(items[i].node, Instant{(5 - i) * 10'000});
  }
  for (std::uint32_t i = 4; i-- > 0;) {
    std::uint32_t cursor = 0;
    WheelNode* out[kMaxClaim];
    ASSERT_TRUE(wheel.detach_oldest());
    ASSERT_EQ(wheel.claim(out, cursor, Instant::max(), [](WheelNode&) {}), 1U);
    EXPECT_EQ(out[0], &items[i].node);
  }
  EXPECT_FALSE(wheel.detach_oldest());
}

TEST(ShardedWheel, APollAfterTheClockWasSetBackVisitsEveryShard) {
  ShardedWheelOptions options = options_of(2);
  options.wheel.late_reading = Duration{1 << 10};
  ShardedWheel wheel(options);
  Item item;
  {
    MutexLock lock(wheel.shard(1).lock);
    wheel.shard(1).wheel.insert(item.node, Instant{100'000});
  }
  EXPECT_EQ(wheel.detach_expired(Instant{90'000}, Instant{104'000}), 0U);
  wheel.detach_expired(Instant{40'000}, Instant{50'000});
  std::uint32_t cursor = 0;
  WheelNode* out[1];
  EXPECT_EQ(wheel.claim(out, cursor, Instant{40'000}, [](WheelNode&) {}), 1U);
  EXPECT_EQ(wheel.stats().clock_steps, 1U);
}

TEST(ShardedWheel, HasAtLeast16ShardsAndFourPerCpu) {
  const std::uint32_t shards = default_wheel_shards();
  EXPECT_EQ(shards & (shards - 1), 0U);
  EXPECT_GE(shards, 16U);
  EXPECT_GE(shards, std::min(kMaxWheelShards, 4 * cpu_count()));
  ShardedWheel wheel(options_of(0));
  EXPECT_LT(wheel.pick(), shards);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&wheel.shard(1)) % 128, 0U);
}

}  // namespace
}  // namespace tidewheel
