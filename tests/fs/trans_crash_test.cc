// The transaction machine across every crash: Journal, Transaction, buffer cache, AIL, items, recovery.
#include <gtest/gtest.h>

#include <set>

#include "fs/crash/explorer.h"
#include "fs/crash/recording.h"
#include "fs/mock/trans_workload.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

ExploreOptions options(std::uint64_t seed, std::uint64_t states) {
  ExploreOptions options;
  options.workload = "trans";
  options.make = [](std::uint64_t run_seed) { return std::make_unique<TransWorkload>(run_seed); };
  options.seed = seed;
  options.runs = 0;
  options.states_of_run = 2'000;
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

TEST(TransCrash, SurvivesCrashesFirst) { expect_survives(1); }
TEST(TransCrash, SurvivesCrashesSecond) { expect_survives(1001); }
TEST(TransCrash, SurvivesCrashesThird) { expect_survives(2001); }
TEST(TransCrash, SurvivesCrashesFourth) { expect_survives(3001); }

TEST(TransCrash, IsBrokenWithoutRecovery) {
  ExploreOptions without = options(1, 500);
  without.recover = false;
  without.max_failures = 1000;
  const Exploration found = explore(without);
  EXPECT_EQ(found.broken, "");
  EXPECT_GT(found.failures.size(), found.states / 2);
}

// Its failures without recovery are states with a name; with recovery each of them is well.
TEST(TransCrash, StatesAreFoundAgainByTheirStrings) {
  ExploreOptions without = options(4, 100);
  without.recover = false;
  without.max_failures = 20;
  const Exploration found = explore(without);
  ASSERT_FALSE(found.failures.empty());
  for (const CrashFailure& failure : found.failures) {
    const auto name = parse_replay(failure.replay);
    ASSERT_TRUE(std::holds_alternative<ReplayName>(name)) << failure.replay;
    const Replay broken = replay(without, std::get<ReplayName>(name));
    EXPECT_EQ(broken.refused, "");
    EXPECT_FALSE(broken.failures.empty()) << failure.replay;
    const Replay recovered = replay(options(4, 100), std::get<ReplayName>(name));
    EXPECT_TRUE(recovered.failures.empty()) << failure.replay;
  }
}

// What is to be shown has to happen: in every run, or in some of a few.
TEST(TransCrash, RunsDoWhatTheySayAndRepeatThemselves) {
  TransWorkload::Counts all;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Recording first;
    ASSERT_EQ(record(options(1, 1).make, seed, first), "");
    // The log's own threads may seldom write another number of tail records: replay() tries as often.
    std::set<std::uint32_t> seen{first.trace_hash};
    bool repeats = false;
    for (int tries = 0; tries < 10 && !repeats; ++tries) {
      Recording again;
      ASSERT_EQ(record(options(1, 1).make, seed, again), "");
      repeats = !seen.insert(again.trace_hash).second;
    }
    EXPECT_TRUE(repeats) << seed;
    const TransWorkload::Counts& counts = dynamic_cast<TransWorkload&>(*first.workload).counts();
    EXPECT_GE(counts.rounds, 2U) << "the log is gone round, seed " << seed;
    EXPECT_GT(counts.transactions, 30U) << seed;
    EXPECT_GT(counts.relogs, 0U) << seed;
    all.whiteouts += counts.whiteouts;
    all.freed += counts.freed;
    all.ordered += counts.ordered;
    all.data += counts.data;
    all.locked += counts.locked;
  }
  EXPECT_GT(all.whiteouts, 20U);
  EXPECT_GT(all.freed, 30U);
  EXPECT_GT(all.ordered, 20U);
  EXPECT_GT(all.data, 20U);
  EXPECT_GT(all.locked, 20U) << "blocks pushed while a transaction had them";
}

}  // namespace
}  // namespace tidewheel
