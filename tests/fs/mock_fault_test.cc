// An error at every single operation of the device: what is acknowledged stays, what is held is given back
// (pins, log space and buffers are asserted where the machine, its log and its buffers end).
#include <gtest/gtest.h>

#include "fs/mock/mock_workload.h"
#include "tests/fs/fault_rig.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kSeed = 5;

struct FaultyRun : FaultyRunOf<MockWorkload> {
  FaultyRun() : FaultyRunOf(kSeed) {}
};

// Until the run has no such operation left. How many runs ended with an error.
std::uint32_t fail_each(FaultRule rule) {
  std::uint32_t failed = 0;
  for (rule.first = 0;; ++rule.first) {
    FaultyRun run;
    run.device.add(rule);
    if (!run.run()) ++failed;
    const bool reached = run.device.injected() != 0;
    run.expect_recovers(name_of(rule));
    if (!reached || testing::Test::HasFailure()) return failed;
  }
}

TEST(MockFaults, EachWriteFailsOnce) {
  EXPECT_GT(fail_each({.op = IoOp::kWrite, .effect = FaultEffect::kIoError}), 20U);
}
TEST(MockFaults, EachWriteTearsOnce) {
  EXPECT_GT(fail_each({.op = IoOp::kWrite, .effect = FaultEffect::kTorn}), 20U);
}
TEST(MockFaults, EveryWriteFailsFromEachOn) {
  const FaultRule rule{.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .count = FaultRule::kForEver};
  EXPECT_GT(fail_each(rule), 20U);
}
TEST(MockFaults, EachReadFailsOnce) {
  EXPECT_GT(fail_each({.op = IoOp::kRead, .effect = FaultEffect::kIoError}), 5U);
}

// A crashed image for each of these, and an error at each operation of its recovery.
void fail_recovery(FaultRule rule, std::uint64_t crash_at_write) {
  FaultyRun crashed;
  crashed.device.add({.op = IoOp::kWrite,
                      .effect = FaultEffect::kIoError,
                      .first = crash_at_write,
                      .count = FaultRule::kForEver});
  if (crashed.run()) return;
  crashed.device.clear_rules();
  std::vector<std::byte> image(crashed.workload.image_bytes());
  ASSERT_TRUE(crashed.device.read(0, image));
  for (rule.first = 0;; ++rule.first) {
    ASSERT_TRUE(crashed.device.write(0, image));
    const std::uint64_t before = crashed.device.injected();
    crashed.device.add(rule);
    const auto recovered = crashed.workload.recover(crashed.device);
    crashed.device.clear_rules();
    const std::string what = name_of(rule) + ", crashed at write " + std::to_string(crash_at_write);
    if (!recovered) {
      LogReader reader(crashed.device, MockLayout{}.log());
      const auto scan = scan_log(reader);
      ASSERT_TRUE(scan) << what;
      // Either the log does not say that it is clean, or all of it is home: it failed only later.
      if (scan->unmount_sequence != 0) {
        const CheckResult wrong = crashed.workload.check(crashed.device, crashed.recorded.trace().notes);
        EXPECT_FALSE(wrong) << what << ": it says that it is clean, and " << wrong->detail;
      }
    }
    const bool reached = crashed.device.injected() != before;
    crashed.expect_recovers(what);
    if (!reached || testing::Test::HasFailure()) return;
  }
}

TEST(MockFaults, EachOperationOfARecoveryFails) {
  for (std::uint64_t write = 3; write < 200; write += 13) {
    for (const IoOp op : {IoOp::kRead, IoOp::kWrite, IoOp::kFlush}) {
      fail_recovery({.op = op, .effect = FaultEffect::kIoError}, write);
    }
    fail_recovery({.op = IoOp::kWrite, .effect = FaultEffect::kTorn}, write);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tidewheel
