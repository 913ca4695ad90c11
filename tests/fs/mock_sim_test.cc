// The mock machine with its pusher and several threads, under many schedules, on a disk whose power goes.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "base/rng.h"
#include "base/sim.h"
#include "fs/block/recorded_device.h"
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

MockMount mount_options(std::uint32_t log_blocks) {
  MockMount mount;
  mount.layout.objects = kThreads * kOwn;
  mount.layout.log_blocks = log_blocks;
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

// Nothing is written over what a tail on the device still covers. That tail is the newest one in a record
// that was stable when the write was submitted.
void expect_covered_log_is_kept(const IoTrace& trace, const LogPlace& place, Lsn tail) {
  for (const IoTrace::Event& event : trace.events) {
    if (event.kind == IoTrace::EventKind::kNote) continue;
    const IoTrace::Op& op = trace.ops[event.index];
    if (op.op != IoOp::kWrite || op.cause != IoCause::kLog) continue;
    const std::span<const std::byte> bytes(op.content, op.len_bytes);
    if (disk::claimed_record_sectors(bytes, place.uuid) == 0) continue;  // what went round the log's end
    const auto& header = disk::view<disk::LogRecordHeader>(bytes);
    if (event.kind == IoTrace::EventKind::kSubmitted) {
      const Lsn end = log_advance(Lsn{header.lsn}, header.record_sectors, place.sectors);
      EXPECT_LE(log_distance_bytes(tail, end, place.sectors), std::uint64_t{place.sectors} * kLogSectorBytes)
          << "the record at " << Lsn{header.lsn}.cycle() << ":" << Lsn{header.lsn}.block()
          << " comes over the tail";
    } else if (op.ok && op.fua) {
      tail = std::max(tail, Lsn{header.tail_lsn});
    }
  }
}

void crash_and_recover(std::uint64_t seed, bool cut_power, std::uint32_t log_blocks = 32,
                       std::uint32_t steps = 10) {
  const MockMount mount = mount_options(log_blocks);
  SimDevice disk({.size_bytes = mount.layout.bytes(), .seed = seed});
  RecordedDevice device(disk);
  ASSERT_TRUE(format_mock(device, mount.layout));
  Rng rng(seed);
  // Recover, change, crash, recover: what one recovery leaves the next one begins with.
  for (std::uint32_t round = 0; round < 3; ++round) {
    std::array<History, kThreads> histories;
    Lsn tail;
    {
      auto machine = MockMachine::mount(device, mount);
      ASSERT_TRUE(machine) << machine.error().sentence();
      tail = (*machine)->log().published_tail();
      device.clear();
      std::vector<Thread> threads;
      for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back("worker", [&, thread] {
          work(**machine, thread, seed * 8 + round, steps, histories[thread]);
        });
      }
      if (cut_power) {
        sleep_for(microseconds(static_cast<std::int64_t>(rng.below(3000))));
        disk.power_cut(rng.next());
      }
      for (Thread& thread : threads) thread.join();
      if (!cut_power) {
        EXPECT_TRUE(steps < 40 || (*machine)->log().stats().waits_for_space != 0);
        ASSERT_TRUE((*machine)->unmount());
        for (History& history : histories) history.acknowledged = history.after.size() - 1;
      }
    }
    expect_covered_log_is_kept(device.trace(), mount.layout.log(), tail);
    disk.power_on();
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
// Gone round several times in a log in which reservations wait for the tail.
SIM_TEST_WITH(MockSim, KeepsWhatATailCoversInAFullLog, (sim::Options{.schedules = 40})) {
  crash_and_recover(5, false, 20, 40);
}

}  // namespace
}  // namespace tidewheel
