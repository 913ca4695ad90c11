// The mock machine across every crash.
#include <gtest/gtest.h>

#include "fs/crash/explorer.h"
#include "fs/crash/recording.h"
#include "fs/mock/mock_workload.h"
#include "tests/fs/crash_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

ExploreOptions options(std::uint64_t seed, std::uint64_t states) {
  return crash_rig::options_of<MockWorkload>("mock", seed, states);
}

void expect_survives(std::uint64_t seed) {
  crash_rig::expect_survives_nested(options(seed, loop_length(25'000)));
}

TEST(MockCrash, SurvivesCrashesFirst) { expect_survives(1); }
TEST(MockCrash, SurvivesCrashesSecond) { expect_survives(1001); }
TEST(MockCrash, SurvivesCrashesThird) { expect_survives(2001); }
TEST(MockCrash, SurvivesCrashesFourth) { expect_survives(3001); }

TEST(MockCrash, IsBrokenWithoutRecovery) {
  crash_rig::expect_broken_without_recovery(options(1, 500));
}

TEST(MockCrash, RunsRepeatThemselves) {
  Recording first, second;
  ASSERT_EQ(record(options(1, 1).make, 7, first), "");
  ASSERT_EQ(record(options(1, 1).make, 7, second), "");
  EXPECT_EQ(first.trace_hash, second.trace_hash);
  EXPECT_GE(dynamic_cast<MockWorkload&>(*first.workload).rounds(), 2U);  // the log was gone round
}

}  // namespace
}  // namespace tidewheel
