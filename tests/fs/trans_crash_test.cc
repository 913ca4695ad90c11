// The transaction machine across every crash: Journal, Transaction, buffer cache, AIL, items, recovery.
#include <gtest/gtest.h>

#include <set>

#include "fs/crash/explorer.h"
#include "fs/crash/recording.h"
#include "fs/mock/trans_workload.h"
#include "tests/fs/crash_rig.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

ExploreOptions options(std::uint64_t seed, std::uint64_t states) {
  return crash_rig::options_of<TransWorkload>("trans", seed, states, 2'000);
}

void expect_survives(std::uint64_t seed) {
  crash_rig::expect_survives_nested(options(seed, loop_length(25'000)));
}

TEST(TransCrash, SurvivesCrashesFirst) { expect_survives(1); }
TEST(TransCrash, SurvivesCrashesSecond) { expect_survives(1001); }
TEST(TransCrash, SurvivesCrashesThird) { expect_survives(2001); }
TEST(TransCrash, SurvivesCrashesFourth) { expect_survives(3001); }

TEST(TransCrash, IsBrokenWithoutRecovery) {
  crash_rig::expect_broken_without_recovery(options(1, 500));
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
