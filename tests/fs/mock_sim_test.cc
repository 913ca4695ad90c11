// The mock machine with its pusher and several threads, under many schedules, on a disk whose power goes.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "base/rng.h"
#include "base/sim.h"
#include "fs/block/sim_device.h"
#include "fs/mock/mock_machine.h"

namespace tidewheel {
namespace {

constexpr std::uint32_t kThreads = 3;
constexpr std::uint64_t kOwn = 4;  // objects of each thread, so that its transactions have one order
using Own = std::array<MockState, kOwn>;

struct History {
  std::vector<Own> after;  // transactions, and what open intents leave
  std::size_t acknowledged = 0;
};

MockMount mount_options() {
  MockMount mount;
  mount.layout.objects = kThreads * kOwn;
  mount.layout.log_blocks = 32;  // gone round often, so that reservations wait for the tail
  return mount;
}

// Transactions of one thread until the machine dies or there were enough.
void work(MockMachine& machine, std::uint64_t thread, std::uint64_t seed, std::uint32_t steps,
          History& history) {
  Rng rng(seed * 64 + thread);
  Own now;
  for (std::uint64_t i = 0; i < kOwn; ++i) now[i] = machine.state(thread * kOwn + i);
  std::uint64_t version = 0;
  for (const MockState& state : now) version = std::max(version, state.version);
  history.after.push_back(now);
  std::uint64_t sequence = 0;
  for (std::uint32_t step = 0; step < steps; ++step) {
    if (rng.chance(3)) {
      const std::uint64_t object = rng.below(kOwn);
      const std::uint64_t target = (object + 1) % kOwn;
      version += 2;
      auto chain = machine.begin_intent(thread * kOwn + object, version - 1, thread * kOwn + target, version);
      if (!chain) return;
      now[object].version = version - 1;
      now[target] = {version, now[target].applied + 1};
      history.after.push_back(now);
      const auto done = machine.finish_intent(*chain);
      if (!done) return;
      history.after.push_back(now);
      sequence = *done;
    } else {
      std::vector<std::uint64_t> objects;
      for (std::uint64_t i = 0; i < kOwn; ++i) {
        if (rng.chance(2)) objects.push_back(thread * kOwn + i);
      }
      if (objects.empty()) continue;
      ++version;
      // Before: it may be stable, with another's force, before change() has returned.
      for (const std::uint64_t object : objects) now[object - thread * kOwn].version = version;
      history.after.push_back(now);
      const auto changed = machine.change(objects, version);
      if (!changed) return;
      sequence = *changed;
    }
    if (rng.chance(3)) {
      const std::size_t issued = history.after.size() - 1;
      if (!machine.force(sequence)) return;
      history.acknowledged = issued;
    }
  }
}

void check(MockMachine& machine, const std::array<History, kThreads>& histories) {
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    Own found;
    for (std::uint64_t i = 0; i < kOwn; ++i) found[i] = machine.state(thread * kOwn + i);
    const auto& after = histories[thread].after;
    const auto first = after.begin() + static_cast<std::ptrdiff_t>(histories[thread].acknowledged);
    EXPECT_NE(std::find(first, after.end(), found), after.end())
        << "thread " << thread << " of " << after.size() << " states, " << histories[thread].acknowledged
        << " acknowledged";
  }
}

void crash_and_recover(std::uint64_t seed, bool cut_power) {
  const MockMount mount = mount_options();
  SimDevice device({.size_bytes = mount.layout.bytes(), .seed = seed});
  ASSERT_TRUE(format_mock(device, mount.layout));
  Rng rng(seed);
  // Recover, change, crash, recover: what one recovery leaves the next one begins with.
  for (std::uint32_t round = 0; round < 3; ++round) {
    std::array<History, kThreads> histories;
    {
      auto machine = MockMachine::mount(device, mount);
      ASSERT_TRUE(machine) << machine.error().sentence();
      std::vector<Thread> threads;
      for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back("worker", [&, thread] {
          work(**machine, thread, seed * 8 + round, 10, histories[thread]);
        });
      }
      if (cut_power) {
        sleep_for(microseconds(static_cast<std::int64_t>(rng.below(3000))));
        device.power_cut(rng.next());
      }
      for (Thread& thread : threads) thread.join();
      if (!cut_power) {
        ASSERT_TRUE((*machine)->unmount());
        for (History& history : histories) history.acknowledged = history.after.size() - 1;
      }
    }
    device.power_on();
    auto machine = MockMachine::mount(device, mount);
    ASSERT_TRUE(machine) << machine.error().sentence();
    EXPECT_TRUE(cut_power || (*machine)->recovery().was_clean);
    check(**machine, histories);
    ASSERT_TRUE((*machine)->unmount());
  }
}

SIM_TEST_WITH(MockSim, SurvivesPowerCuts, (sim::Options{.schedules = 200})) { crash_and_recover(1, true); }
SIM_TEST_WITH(MockSim, SurvivesLaterPowerCuts, (sim::Options{.schedules = 200})) {
  crash_and_recover(4, true);
}
SIM_TEST_WITH(MockSim, UnmountsCleanly, (sim::Options{.schedules = 20})) { crash_and_recover(3, false); }

}  // namespace
}  // namespace tidewheel
