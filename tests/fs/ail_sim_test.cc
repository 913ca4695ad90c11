// The AIL and its pusher under every order the simulator tries.
#include <gtest/gtest.h>

#include <list>

#include "base/clock.h"
#include "base/sim.h"
#include "base/thread.h"
#include "fs/ail/pusher.h"
#include "tests/fs/mock_item.h"

namespace tidewheel {
namespace {

constexpr std::uint32_t kLogSectors = 1024;
LockClass log_class{"ail-sim-log", LockRank::kNone};
LockClass device_class{"ail-sim-device", LockRank::kNone};

// A log whose force unpins everything, and a device on a thread of its own that brings home what was pushed.
class Machine final : public LogForcer, public AilWriter, public TailListener {
 public:
  explicit Machine(std::size_t count)
      : ail({.log_sectors = kLogSectors}, *this, *this, *this),
        log_lock_(log_class),
        device_lock_(device_class),
        items_(count) {
    for (MockItem& item : items_) {
      item.on_push = [this](MockItem& self, PushScope& scope) { return push(self, scope); };
    }
    device_ = Thread("device", [this] { bring_home(); });
  }
  ~Machine() {
    {
      MutexLock hold(device_lock_);
      ending_ = true;
      queued_.notify_all();
    }
    device_.join();
  }

  MockItem& item(std::size_t i) { return items_[i]; }
  // A checkpoint of one item, `blocks` after the one before it.
  void commit(std::size_t i, std::uint64_t blocks) {
    MutexLock hold(log_lock_);
    head_ = log_advance(head_, blocks, kLogSectors);
    ail.checkpoint_stable(head_);
    LogItem* const one[] = {&items_[i]};
    ail.insert(one, head_);
  }
  void take_out(std::size_t i) {
    LogItem* const one[] = {&items_[i]};
    ail.remove(one);
  }
  void force(ForceMode) override { pinned_.store(false, std::memory_order_relaxed); }
  std::uint32_t submit_pushed() override { return 0; }
  void tail_moved() override { SIM_CHECK(!ail.tail_lsn().none()); }

  Ail ail;

 private:
  PushResult push(MockItem& item, PushScope& scope) {
    if (pinned_.load(std::memory_order_relaxed)) return PushResult::kPinned;
    const Lsn written = item.lsn;
    item.set(LogItem::kFlushing);
    scope.drop_list_lock();
    MutexLock hold(device_lock_);
    queue_.push_back({&item, written});
    queued_.notify_all();
    return PushResult::kPushed;
  }
  void bring_home() {
    for (;;) {
      std::pair<MockItem*, Lsn> write;
      {
        MutexLock hold(device_lock_);
        while (queue_.empty() && !ending_) queued_.wait(device_lock_, CondVar::For::kWork);
        if (queue_.empty()) return;
        write = queue_.front();
        queue_.pop_front();
      }
      write.first->clear(LogItem::kFlushing);
      ail.remove_if_unchanged(*write.first, write.second);
    }
  }

  Mutex log_lock_;
  Lsn head_ TW_GUARDED_BY(log_lock_) = Lsn::make(1, 0);
  Atomic<bool> pinned_{true};
  Mutex device_lock_;
  CondVar queued_;
  std::list<std::pair<MockItem*, Lsn>> queue_ TW_GUARDED_BY(device_lock_);
  bool ending_ TW_GUARDED_BY(device_lock_) = false;
  std::vector<MockItem> items_;
  Thread device_;
};

// Relogged while being written, pinned at first, pushed by nobody but the pusher: all gets home.
SIM_TEST(AilSim, BringsHomeWhatWritersRelogBesideIt) {
  Machine machine(6);
  AilPusher pusher(machine.ail);
  std::vector<Thread> writers;
  for (std::size_t w = 0; w < 2; ++w) {
    writers.emplace_back("commit", [&machine, w] {
      for (std::uint32_t round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < 3; ++i) machine.commit(3 * w + i, 1);
      }
    });
  }
  for (Thread& writer : writers) writer.join();
  SIM_CHECK(machine.ail.wait_empty().has_value());
  SIM_CHECK(machine.ail.tail_lsn() == Lsn::make(1, 12));
  machine.ail.check_invariants();
  pusher.stop();
}

// The pusher falls asleep over an AIL that is far from full; what then comes leaves too little free. Nobody
// waits for empty and nobody asks: only the insertion itself can wake it.
SIM_TEST(AilSim, WakesWhenWhatComesLeavesTooLittleFree) {
  Machine machine(2);
  AilPusher pusher(machine.ail);
  Thread writer("commit", [&] {
    machine.commit(0, 1);
    machine.commit(1, 900);
  });
  writer.join();
  while (machine.ail.tail_lsn() < Lsn::make(1, 901)) sleep_for(milliseconds(10));
  pusher.stop();
  machine.take_out(1);
}

SIM_TEST(AilSim, WakesForASleeperThatNeedsSpace) {
  Machine machine(2);
  AilPusher pusher(machine.ail);
  machine.commit(0, 1);
  machine.commit(1, 200);
  Thread sleeper("reserve", [&] { machine.ail.set_needed_tail(Lsn::make(1, 200)); });
  while (machine.ail.tail_lsn() < Lsn::make(1, 201)) sleep_for(milliseconds(10));
  sleeper.join();
  pusher.stop();
  machine.take_out(1);
}

// The pusher pauses when it has reached its target. Who needs space by then does not wait for that to end.
SIM_TEST(AilSim, EndsItsPauseForASleeperThatNeedsMore) {
  Machine machine(2);
  machine.force(ForceMode::kStart);
  AilPusher pusher(machine.ail);
  machine.commit(0, 1);
  machine.commit(1, 200);
  machine.ail.set_needed_tail(Lsn::make(1, 1));
  while (!machine.ail.lsn_of(machine.item(0)).none()) sleep_for(microseconds(10));
  const Instant asked = SteadyClock::instance().now();
  machine.ail.set_needed_tail(Lsn::make(1, 201));
  while (!machine.ail.empty()) sleep_for(microseconds(10));
  SIM_CHECK(SteadyClock::instance().now() - asked < Ail::kTargetReachedPause / 2);
  pusher.stop();
}

SIM_TEST(AilSim, EndsItsWaitersAtAShutdown) {
  Machine machine(1);
  AilPusher pusher(machine.ail);
  machine.item(0).on_push = [](MockItem&, PushScope&) { return PushResult::kLocked; };
  machine.commit(0, 1);
  Thread waiter("wait", [&] { SIM_CHECK(!machine.ail.wait_empty().has_value()); });
  Thread killer("shut-down", [&] { machine.ail.shut_down(); });
  waiter.join();
  killer.join();
  pusher.stop();
  machine.take_out(0);
}

}  // namespace
}  // namespace tidewheel
