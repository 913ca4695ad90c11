// The mock machine across every crash.
#include <gtest/gtest.h>

#include "fs/crash/explorer.h"
#include "fs/crash/recording.h"
#include "fs/mock/mock_workload.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

ExploreOptions options(std::uint64_t seed, std::uint64_t states) {
  ExploreOptions options;
  options.workload = "mock";
  options.make = [](std::uint64_t run_seed) { return std::make_unique<MockWorkload>(run_seed); };
  options.seed = seed;
  options.runs = 0;
  options.states = states;
  options.max_failures = 3;
  return options;
}

void expect_survives(std::uint64_t seed) {
  const std::uint64_t states = loop_length(25'000);
  const Exploration found = explore(options(seed, states));
  EXPECT_EQ(found.broken, "");
  EXPECT_GE(found.states, states);
  for (const CrashFailure& failure : found.failures) {
    ADD_FAILURE() << failure.oracle << ": " << failure.detail << "\n"
                  << failure.state << "\n"
                  << failure.replay;
  }
  EXPECT_GT(found.nested, states / 10);
  EXPECT_GT(found.second_recoveries, states / 20);
  std::printf("%llu states (%llu nested) of %llu runs, %.0f/s\n", (unsigned long long)found.states,
              (unsigned long long)found.nested, (unsigned long long)found.runs, found.states_per_s());
}

TEST(MockCrash, SurvivesCrashesFirst) { expect_survives(1); }
TEST(MockCrash, SurvivesCrashesSecond) { expect_survives(1001); }
TEST(MockCrash, SurvivesCrashesThird) { expect_survives(2001); }
TEST(MockCrash, SurvivesCrashesFourth) { expect_survives(3001); }

TEST(MockCrash, IsBrokenWithoutRecovery) {
  ExploreOptions without = options(1, 500);
  without.recover = false;
  without.max_failures = 1000;
  const Exploration found = explore(without);
  EXPECT_EQ(found.broken, "");
  EXPECT_GT(found.failures.size(), found.states / 2);
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
