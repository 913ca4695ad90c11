// fs/mock/mock_workload.h: the mock machine for the crash enumerator (`tidewheel crash --workload mock`).
//
// A run: transactions over one to four objects, chains of two with an intent between them (several open at
// once), forces, which acknowledge, and pushing home, in a log that is gone round several times. Requests
// come in one order: one thread, which is the pusher too, and a device that completes at once; so a run
// repeats itself. Other orders of the same machine are the simulator's to find (tests/fs/mock_sim_test.cc).
//
// Oracle: after recovery the homes are, block by block, what the first k transactions leave and the intents
// that are open then, once they are finished; for some k not before the last that was acknowledged. So no
// acknowledged transaction is lost, each is there whole or not at all, and no intent is finished twice.
// Threads:   as CrashWorkload.
// Invariant: recovery leaves a log that says that nothing is to be replayed.
#pragma once
#include <cstdint>
#include <vector>

#include "fs/crash/workload.h"
#include "fs/mock/mock_machine.h"

namespace tidewheel {

class MockWorkload final : public CrashWorkload {
 public:
  static constexpr std::uint32_t kSteps = 90;

  explicit MockWorkload(std::uint64_t seed, const MockLayout& layout = {}) : seed_(seed), layout_(layout) {}

  std::uint64_t image_bytes() const override { return layout_.bytes(); }
  Result<void> format(BlockDevice& device) override;
  Result<void> run(BlockDevice& device, AckLog& acks) override;
  Result<void> recover(BlockDevice& device) const override;
  CheckResult check(BlockDevice& device, Acks acks) const override;

  // Of the run: the log's head at its end, in rounds.
  std::uint32_t rounds() const { return rounds_; }

 private:
  using States = std::vector<MockState>;
  class Run;

  const std::uint64_t seed_;
  const MockLayout layout_;
  std::vector<States> after_;  // what recovery must leave of k transactions; constant after run()
  std::uint32_t rounds_ = 0;
};

}  // namespace tidewheel
