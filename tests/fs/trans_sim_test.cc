// Transactions of several threads over one journal, under every order the simulator tries.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "tests/fs/trans_rig.h"

namespace tidewheel {
namespace {

constexpr sim::Options kFew{.schedules = 60};

void check_at_rest(TransRig& rig) {
  rig.expect_at_rest();  // GoogleTest's expectations fail a SIM_TEST's run
}

// Transactions that change two blocks each, in the order of addresses, in a log with room for few: what is at
// home in the end is what was committed last, and both halves of each change agree.
SIM_TEST_WITH(TransactionSim, BringsHomeWhatManyThreadsCommit, kFew) {
  TransRig rig(true, 160);
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back("commit", [&rig, t] {
      for (std::uint64_t i = 0; i < 3; ++i) {
        const std::uint64_t version = 100 * (t + 1) + i;
        auto transaction = rig.begin();
        SIM_CHECK(transaction.has_value());
        SIM_CHECK(rig.write(*transaction, 0, version));
        SIM_CHECK(rig.write(*transaction, 1 + t % 2, version));
        SIM_CHECK(transaction->commit().has_value());
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(rig.journal->quiesce().has_value());
  const std::uint64_t last = rig.home(0);
  SIM_CHECK(rig.home(1) == last || rig.home(2) == last);
  check_at_rest(rig);
  SIM_CHECK(rig.journal->unmount().has_value());
}

SIM_TEST_WITH(TransactionSim, RollsWithWhatItKeeps, kFew) {
  TransRig rig(true, 160);
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back("roll", [&rig, t] {
      auto transaction = rig.begin(2);
      SIM_CHECK(transaction.has_value());
      for (std::uint64_t version = 1; version <= 4; ++version) {
        SIM_CHECK(rig.write(*transaction, t, version));
        const BufferHold held = rig.buf.cache->find(*rig.buf.target, TransRig::at(t), 1);
        transaction->keep(*held);
        SIM_CHECK(transaction->roll().has_value());
      }
      SIM_CHECK(transaction->commit().has_value());
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(rig.journal->quiesce().has_value());
  SIM_CHECK(rig.home(0) == 4 && rig.home(1) == 4);
  check_at_rest(rig);
}

// A block is freed while an earlier checkpoint with it is under way, and made anew by another thread.
SIM_TEST_WITH(TransactionSim, MakesAFreedBlockAnewOnlyAfterThatIsStable, kFew) {
  TransRig rig(true);
  SIM_CHECK(rig.change(0, 1) != 0);
  Thread forcer("force", [&rig] { SIM_CHECK(rig.journal->log().force_all().has_value()); });
  Thread freer("free", [&rig] {
    auto transaction = rig.begin();
    SIM_CHECK(transaction.has_value());
    const auto buffer = transaction->read(TransRig::at(0), 1, kMockType);
    SIM_CHECK(buffer.has_value());
    transaction->invalidate(**buffer);
    const auto sequence = transaction->commit();
    SIM_CHECK(sequence.has_value());
    SIM_CHECK(rig.journal->log().force(*sequence).has_value());
  });
  forcer.join();
  freer.join();
  SIM_CHECK(rig.change(0, 2) != 0);
  SIM_CHECK(rig.journal->quiesce().has_value());
  SIM_CHECK(rig.home(0) == 2);
  check_at_rest(rig);
}

SIM_TEST_WITH(TransactionSim, LeavesNothingBehindWhenTheMountDies, kFew) {
  TransRig rig(true, 160);
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back("commit", [&rig, t] {
      for (std::uint64_t i = 0; i < 3; ++i) {
        auto transaction = rig.begin();
        if (!transaction) return;
        if (!rig.write(*transaction, t, i) || !rig.write(*transaction, 3, i)) return;
        const auto sequence = transaction->commit();
        if (!sequence || !rig.journal->log().force(*sequence)) return;
      }
    });
  }
  threads.emplace_back("kill", [&rig] {
    sleep_for(microseconds(15));
    rig.journal->shut_down(Error{Reason::kIo, 0, 0});
  });
  for (Thread& thread : threads) thread.join();
  rig.journal->close();
  check_at_rest(rig);
}

}  // namespace
}  // namespace tidewheel
