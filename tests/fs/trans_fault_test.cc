// An error at every single operation of the device, of a run through all upper layers: the run ends with an
// error or goes on; what is acknowledged stays; pins, log space and holds are given back (asserted where the
// buffers, the log and the target end).
#include <gtest/gtest.h>

#include "base/thread.h"
#include "fs/mock/trans_workload.h"
#include "tests/fs/fault_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kSeed = 3;
constexpr std::uint32_t kSteps = 110;

struct FaultyRun : FaultyRunOf<TransWorkload> {
  FaultyRun() : FaultyRunOf(kSeed, kSteps) {}
};

struct Faults {
  std::uint64_t operations = 0;  // that the run has of this kind
  std::uint64_t failed = 0;      // runs that ended with an error
};

// At each operation of this kind, until the run has none left; every one but in a quick run.
Faults fail_each(FaultRule rule) {
  const std::uint64_t stride = is_quick() ? 7 : 1;
  Faults faults;
  for (rule.first = 0;; rule.first += stride) {
    FaultyRun run;
    run.device.add(rule);
    const auto ran = run.run();
    if (!ran) {
      ++faults.failed;
      EXPECT_NE(ran.error().code, Reason::kCorrupt) << name_of(rule) << ": an error is told as what it is";
    }
    const bool reached = run.device.injected() != 0;
    run.expect_recovers(name_of(rule));
    if (!reached || testing::Test::HasFailure()) return faults;
    faults.operations = rule.first + 1;
  }
}

struct Effect {
  const char* name;
  FaultRule rule;
  std::uint64_t operations;  // at least
  std::uint64_t failed;
};

void PrintTo(const Effect& effect, std::ostream* out) { *out << effect.name; }

class TransFaults : public testing::TestWithParam<Effect> {};

TEST_P(TransFaults, AtEachOperationEndCleanly) {
  const Faults faults = fail_each(GetParam().rule);
  EXPECT_GE(faults.operations, GetParam().operations);
  EXPECT_GE(faults.failed, is_quick() ? 1 : GetParam().failed);
  std::printf("%llu operations, %llu runs ended with an error\n", (unsigned long long)faults.operations,
              (unsigned long long)faults.failed);
}

constexpr std::uint64_t kForEver = FaultRule::kForEver;
INSTANTIATE_TEST_SUITE_P(
    All, TransFaults,
    testing::Values(
        Effect{"WriteError", {.op = IoOp::kWrite, .effect = FaultEffect::kIoError}, 50, 20},
        Effect{"WriteNoSpace", {.op = IoOp::kWrite, .effect = FaultEffect::kNoSpace}, 50, 20},
        Effect{"WriteShort", {.op = IoOp::kWrite, .effect = FaultEffect::kShort}, 50, 20},
        Effect{"WriteTorn", {.op = IoOp::kWrite, .effect = FaultEffect::kTorn}, 50, 20},
        Effect{"WriteErrorFromThereOn",
               {.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .count = kForEver}, 50, 50},
        Effect{"WriteTornFromThereOn",
               {.op = IoOp::kWrite, .effect = FaultEffect::kTorn, .count = kForEver}, 50, 50},
        Effect{"ReadError", {.op = IoOp::kRead, .effect = FaultEffect::kIoError}, 10, 10},
        Effect{"ReadShort", {.op = IoOp::kRead, .effect = FaultEffect::kShort}, 10, 10},
        Effect{"ReadErrorFromThereOn",
               {.op = IoOp::kRead, .effect = FaultEffect::kIoError, .count = kForEver}, 10, 10},
        Effect{"FlushError", {.op = IoOp::kFlush, .effect = FaultEffect::kIoError}, 1, 1},
        Effect{"FlushErrorFromThereOn",
               {.op = IoOp::kFlush, .effect = FaultEffect::kIoError, .count = kForEver}, 1, 1}),
    [](const auto& param) { return std::string(param.param.name); });

// No answer: the run stands still until there is one, and then goes on as if nothing had been.
TEST(TransStalls, AtEachOperationTheRunWaitsAndGoesOn) {
  std::uint64_t stalls = 0;
  for (const IoOp op : {IoOp::kRead, IoOp::kWrite, IoOp::kFlush}) {
    for (std::uint64_t first = 0;; first += is_quick() ? 7 : 1) {
      FaultyRun run;
      run.device.add({.op = op, .effect = FaultEffect::kStall, .first = first});
      Atomic<bool> over{false};  // release and acquire: who sees it sees the result
      Result<void> ran;
      Thread thread("run", [&] {
        ran = run.run();
        over.store(true, std::memory_order_release);
      });
      bool stalled = false;
      while (!over.load(std::memory_order_acquire)) {
        if (run.device.stalled() != 0) {
          EXPECT_FALSE(over.load(std::memory_order_acquire)) << "it ended without the answer";
          stalled = true;
          run.device.release_stalled();
        }
        yield_thread();
      }
      thread.join();
      EXPECT_TRUE(ran) << first;
      run.expect_recovers("no answer to " + std::to_string(first));
      if (HasFailure() || !stalled) break;
      ++stalls;
    }
  }
  EXPECT_GT(stalls, is_quick() ? 10U : 80U);
}

// A crashed image for each of these, and an error at each operation of its recovery.
void fail_recovery(FaultRule rule, std::uint64_t crash_at_write, std::uint64_t& failed) {
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
      ++failed;
      // Either the log does not say that it is clean, or all of it is home: it failed only later.
      if (is_log_clean(crashed.device, crashed.workload.layout().log())) {
        const CheckResult wrong = crashed.workload.check(crashed.device, crashed.recorded.trace().notes);
        EXPECT_FALSE(wrong) << what << ": it says that it is clean, and " << wrong->detail;
      }
    }
    const bool reached = crashed.device.injected() != before;
    crashed.expect_recovers(what);
    if (!reached || testing::Test::HasFailure()) return;
  }
}

TEST(TransRecoveryFaults, AtEachOperationOfARecoveryEndCleanly) {
  std::uint64_t failed = 0;
  for (std::uint64_t write = 3; write < 90; write += is_quick() ? 31 : 7) {
    for (const IoOp op : {IoOp::kRead, IoOp::kWrite, IoOp::kFlush}) {
      fail_recovery({.op = op, .effect = FaultEffect::kIoError}, write, failed);
    }
    fail_recovery({.op = IoOp::kWrite, .effect = FaultEffect::kTorn}, write, failed);
    fail_recovery({.op = IoOp::kWrite, .effect = FaultEffect::kShort}, write, failed);
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, is_quick() ? 20U : 200U);
}

}  // namespace
}  // namespace tidewheel
