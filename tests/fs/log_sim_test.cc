// The log, its AIL and pusher with committers beside them, under every order the simulator tries: nothing
// waits for ever, everything acknowledged can be read back, everything gets home.
#include <gtest/gtest.h>

#include <charconv>
#include <list>

#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/sim_device.h"
#include "tests/fs/log_reader.h"
#include "tests/fs/log_rig.h"

namespace tidewheel {
namespace {

constexpr sim::Options kFew{.schedules = 100};

std::string text_of(std::uint64_t version, std::size_t bytes) {
  std::string text = std::to_string(version) + ' ';
  text.resize(std::max(bytes, text.size()), '.');
  return text;
}

// Not by stoull: that uses errno, which all fibers share.
std::uint64_t version_of_text(const std::string& text) {
  std::uint64_t version = 0;
  std::from_chars(text.data(), text.data() + text.size(), version);
  return version;
}

void check_at_rest(LogRig& rig) {
  SIM_CHECK(rig.log.reserve_granted_bytes() == 0);
  SIM_CHECK(rig.log.write_granted_bytes() == 0);
  for (const LoggedObject* object : rig.objects) {
    SIM_CHECK(object->pins.load(std::memory_order_relaxed) == 0);
  }
}

// The newest version of each object in what can be read is at least the one whose force returned.
SIM_TEST_WITH(LogSim, MakesDurableWhatAForceReturnedFor, kFew) {
  // Which others may write while one reads: a RAM device would let them meet in one block.
  SimDevice device({.size_bytes = LogRig::kLogOffset + 1024 * 512});
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 1024, .pusher = false}, &device);
  for (int i = 0; i < 3; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < 3; ++w) {
    writers.emplace_back("write", [&rig, &objects, w] {
      LoggedObject& mine = *std::next(objects.begin(), static_cast<std::ptrdiff_t>(w));
      for (std::uint64_t version = 1; version <= 2; ++version) {
        const std::uint64_t sequence = rig.change(mine, text_of(version, 40));
        SIM_CHECK(rig.log.force(sequence).has_value());
        const ReadLog read = read_log(rig.device, rig.place, Lsn::make(1, 0));
        std::uint64_t newest = 0;
        for (const ReadCheckpoint& checkpoint : read.committed) {
          for (std::size_t i = 0; i + 1 < checkpoint.regions.size(); i += 2) {
            if (checkpoint.regions[i] == mine.name) newest = version_of_text(checkpoint.regions[i + 1]);
          }
        }
        SIM_CHECK(newest >= version);
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  rig.close();
  check_at_rest(rig);
}

// Forces that come while a commit record is under way wait for their turn, share it, and all get it: the
// record's completion is the only thing that wakes the worker again.
SIM_TEST_WITH(LogSim, LetsForcesShareACommitRecord, (sim::Options{.schedules = 300})) {
  SimDevice device({.size_bytes = LogRig::kLogOffset + 1024 * 512, .latency = milliseconds(10)});
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 1024, .pusher = false}, &device);
  for (int i = 0; i < 5; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  SIM_CHECK(rig.change(objects.back(), "first") == 1);
  rig.log.force(ForceMode::kStart);
  while (rig.log.stats().buffers.records == 0) sleep_for(microseconds(1));
  std::vector<Thread> forcers;
  for (std::uint64_t w = 0; w < 4; ++w) {
    forcers.emplace_back("force", [&rig, &objects, w] {
      const std::uint64_t sequence =
          rig.change(*std::next(objects.begin(), static_cast<std::ptrdiff_t>(w)), "next");
      SIM_CHECK(rig.log.force(sequence).has_value());
      SIM_CHECK(rig.log.stable_sequence() >= sequence);
    });
  }
  for (Thread& forcer : forcers) forcer.join();
  SIM_CHECK(rig.log.stats().checkpoints <= 3);
  SIM_CHECK(rig.log.stats().buffers.flushes <= 3);
  rig.close();
  check_at_rest(rig);
}

// A log so small that every commit waits for space: the pusher's, a published tail's, a checkpoint's.
SIM_TEST_WITH(LogSim, GetsOnInALogThatIsAlwaysFull, kFew) {
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 160, .buffers = 2});
  for (int i = 0; i < 4; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < 3; ++w) {
    writers.emplace_back("write", [&rig, &objects, w] {
      for (std::uint64_t i = 0; i < 4; ++i) {
        LoggedObject& object = *std::next(objects.begin(), static_cast<std::ptrdiff_t>((w + i) % 4));
        SIM_CHECK(rig.change(object, text_of(i, 9000)) != 0);
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  rig.close();
  check_at_rest(rig);
  for (const LoggedObject& object : objects) SIM_CHECK(object.home == object.text);
}

// Rolls beyond the units that were reserved, two at once, in a log with room for little more.
SIM_TEST_WITH(LogSim, LetsARollingTransactionOnBeforeWhoHasNotBegun, kFew) {
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 160, .buffers = 2});
  for (int i = 0; i < 3; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < 2; ++w) {
    writers.emplace_back("roll", [&rig, &objects, w]() TW_NO_THREAD_SAFETY_ANALYSIS {
      LoggedObject& mine = *std::next(objects.begin(), static_cast<std::ptrdiff_t>(w));
      auto ticket = rig.log.reserve(3000, 2, true);
      SIM_CHECK(ticket.has_value());
      for (std::uint64_t i = 0; i < 4; ++i) {
        mine.lock.lock();
        mine.text = text_of(i, 2500);
        LogItem* const items[] = {&mine};
        rig.log.commit(items, *ticket);
        SIM_CHECK(rig.log.roll(*ticket).has_value());
      }
      rig.log.end(*ticket);
    });
  }
  writers.emplace_back("write", [&rig, &objects] {
    for (std::uint64_t i = 0; i < 3; ++i) SIM_CHECK(rig.change(objects.back(), text_of(i, 9000)) != 0);
  });
  for (Thread& writer : writers) writer.join();
  rig.close();
  check_at_rest(rig);
}

// Committers that meet a full checkpoint sleep until it is closed, whatever others relog meanwhile.
SIM_TEST_WITH(LogSim, WakesWhoWaitsForAFullCheckpoint, kFew) {
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 2048, .soft_bytes = 2048, .pusher = false});
  for (int i = 0; i < 3; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> writers;
  for (std::uint64_t w = 0; w < 3; ++w) {
    writers.emplace_back("write", [&rig, &objects, w] {
      for (std::uint64_t i = 0; i < 3; ++i) {
        LoggedObject& object = *std::next(objects.begin(), static_cast<std::ptrdiff_t>(w));
        SIM_CHECK(rig.change(object, text_of(i, i % 2 == 0 ? 5000 : 10)) != 0);
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  rig.close();
  check_at_rest(rig);
}

// Who rolls when the log dies keeps nothing.
SIM_TEST_WITH(LogSim, EndsARollWhenItDies, kFew) {
  LoggedObject a("a");
  LogRig rig({.sectors = 160, .buffers = 2, .pusher = false});
  rig.add(a);
  Thread roller("roll", [&rig, &a]() TW_NO_THREAD_SAFETY_ANALYSIS {
    auto ticket = rig.log.reserve(9000, 1, true);
    if (!ticket) return;
    for (std::uint64_t i = 0; i < 20; ++i) {
      a.lock.lock();
      a.text = text_of(i, 8900);
      LogItem* const items[] = {&a};
      const std::uint64_t sequence = rig.log.commit(items, *ticket);
      // Nothing is pushed home: sooner or later it waits in vain, or the log dies before.
      if (!rig.log.force(sequence) || !rig.log.roll(*ticket)) break;
    }
    rig.log.end(*ticket);
  });
  Thread killer("kill", [&rig] {
    sleep_for(milliseconds(1));
    rig.log.shut_down(Error{Reason::kIo, 0, 0});
  });
  roller.join();
  killer.join();
  rig.close();
  check_at_rest(rig);
}

// ---- grants alone ----

struct Nobody final : GrantHead::Queued {
  void space_wanted() override {}
};

SIM_TEST(GrantSim, LosesNoSpaceThatComesBackWhileSomebodyQueues) {
  GrantHead head(100);
  Nobody nobody;
  head.take_unchecked(100);
  Thread giver("give", [&] {
    head.give_back(40);
    head.give_back(60);
  });
  std::vector<Thread> takers;
  for (int i = 0; i < 2; ++i) {
    takers.emplace_back("take", [&] {
      SIM_CHECK(head.take(60, nobody).has_value());
      head.give_back(60);
    });
  }
  giver.join();
  for (Thread& taker : takers) taker.join();
  SIM_CHECK(head.used_bytes() == 0);
}

// Whoever asks for little does not pass by the one who waits for much.
SIM_TEST(GrantSim, LetsNobodyPassWhoWaits) {
  GrantHead head(100);
  Nobody nobody;
  head.take_unchecked(50);
  Atomic<bool> large_has{false};
  Thread large("large", [&] {
    SIM_CHECK(head.take(90, nobody).has_value());
    large_has.store(true, std::memory_order_relaxed);
    head.give_back(90);
  });
  while (!head.has_waiters()) sleep_for(microseconds(1));
  Thread small("small", [&] {
    SIM_CHECK(head.take(20, nobody).has_value());
    SIM_CHECK(large_has.load(std::memory_order_relaxed));  // both at once don't fit
    head.give_back(20);
  });
  sleep_for(microseconds(5));
  head.give_back(50);
  large.join();
  small.join();
  SIM_CHECK(head.used_bytes() == 0);
}

// What was committed right before is aborted as well, though the worker may have looked just before it.
SIM_TEST_WITH(LogSim, AbortsACommitRightBeforeItDies, (sim::Options{.schedules = 1000})) {
  LoggedObject a("a");
  LogRig rig({.sectors = 160, .buffers = 2, .pusher = false});
  rig.add(a);
  SIM_CHECK(rig.change(a, text_of(1, 100)) != 0);
  rig.log.shut_down(Error{Reason::kIo, 0, 0});
  sleep_for(milliseconds(10));
  SIM_CHECK(a.aborts.load(std::memory_order_relaxed) == 1);
  check_at_rest(rig);
}

SIM_TEST_WITH(LogSim, LeavesNothingCommittedWhenItStops, (sim::Options{.schedules = 1000})) {
  LoggedObject a("a");
  LogRig rig({.sectors = 160, .buffers = 2, .pusher = false});
  rig.add(a);
  SIM_CHECK(rig.change(a, text_of(1, 100)) != 0);
  rig.log.stop();
  check_at_rest(rig);
  SIM_CHECK(rig.log.stable_sequence() == 1);
  rig.close();
}

// Everything ends when the log dies under those who commit, force, reserve, roll and wait.
SIM_TEST_WITH(LogSim, EndsEverybodyWhenItDies, kFew) {
  std::list<LoggedObject> objects;
  LogRig rig({.sectors = 160, .buffers = 2});
  for (int i = 0; i < 3; ++i) rig.add(objects.emplace_back("object" + std::to_string(i)));
  std::vector<Thread> threads;
  for (std::uint64_t w = 0; w < 3; ++w) {
    threads.emplace_back("write", [&rig, &objects, w] {
      LoggedObject& mine = *std::next(objects.begin(), static_cast<std::ptrdiff_t>(w));
      for (std::uint64_t i = 0; i < 3; ++i) {
        const std::uint64_t sequence = rig.change(mine, text_of(i, 8000));
        if (sequence == 0 || !rig.log.force(sequence)) return;
      }
    });
  }
  threads.emplace_back("kill", [&rig] { rig.log.shut_down(Error{Reason::kIo, 0, 0}); });
  for (Thread& thread : threads) thread.join();
  rig.close();
  check_at_rest(rig);
  SIM_CHECK(rig.shutdowns.load(std::memory_order_relaxed) == 1);
}

}  // namespace
}  // namespace tidewheel
