// The crash enumerator on the toy log: clean without a fault, and each planted fault found, named, replayed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "fs/crash/explorer.h"
#include "fs/crash/toy_log.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

ExploreOptions options_of(ToyFault fault) {
  ExploreOptions options;
  options.workload = "toy";
  options.make = [fault](std::uint64_t seed) { return std::make_unique<ToyLog>(seed, fault); };
  options.runs = 0;
  return options;
}

Replay replay_string(const ExploreOptions& options, const std::string& text) {
  const auto name = parse_replay(text);
  if (const auto* wrong = std::get_if<std::string>(&name)) {
    ADD_FAILURE() << text << ": " << *wrong;
    return {};
  }
  return replay(options, std::get<ReplayName>(name));
}

std::string all_of(const Exploration& found) {
  std::string text = found.broken;
  for (const CrashFailure& failure : found.failures) {
    text += failure.oracle + ": " + failure.detail + "\n  " + failure.state + "\n  " + failure.replay + "\n";
  }
  return text;
}

TEST(ToyLog, SurvivesEveryCrash) {
  ExploreOptions options = options_of(ToyFault::kNone);
  options.states = loop_length(100'000);
  const Exploration found = explore(options);
  EXPECT_EQ(all_of(found), "");
  EXPECT_GE(found.states, options.states);
  EXPECT_GT(found.nested, found.states / 10);
  EXPECT_GT(found.second_recoveries, found.states / 20);
  std::printf("crash states: %llu distinct by content in %llu runs, %llu of them inside a recovery\n",
              static_cast<unsigned long long>(found.states), static_cast<unsigned long long>(found.runs),
              static_cast<unsigned long long>(found.nested));
}

TEST(ToyLog, IsBrokenWithoutReplay) {
  ExploreOptions options = options_of(ToyFault::kNone);
  options.states = 2'000;
  options.recover = false;
  options.max_failures = 1'000;
  const Exploration found = explore(options);
  EXPECT_GT(found.failures.size(), found.states / 4);
  // The same states are whole with it.
  options.recover = true;
  for (std::size_t i = 0; i < found.failures.size(); i += 10) {
    const Replay with = replay_string(options, found.failures[i].replay);
    EXPECT_EQ(with.refused, "");
    EXPECT_TRUE(with.failures.empty()) << found.failures[i].replay;
  }
}

class PlantedFault : public testing::TestWithParam<ToyFault> {};

// How many states each took when this was written is in docs/crash-model.md.
std::uint64_t enough_states() { return is_quick() ? 5'000 : 20'000; }

TEST_P(PlantedFault, IsFoundNamedAndReplayed) {
  ExploreOptions options = options_of(GetParam());
  options.states = enough_states();
  options.max_failures = 3;
  const Exploration found = explore(options);
  ASSERT_FALSE(found.failures.empty()) << found.states << " states are clean";
  for (const CrashFailure& failure : found.failures) {
    EXPECT_LE(failure.states_before, enough_states());
    const Replay again = replay_string(options, failure.replay);
    EXPECT_EQ(again.refused, "");
    ASSERT_FALSE(again.failures.empty()) << failure.replay << " is clean when replayed";
    EXPECT_EQ(again.failures.front().oracle, failure.oracle);
    EXPECT_EQ(again.failures.front().replay, failure.replay);
    EXPECT_EQ(again.state, failure.state);
  }
  std::printf("%s: %s after %llu states, %s\n", name_of(GetParam()), found.failures[0].oracle.c_str(),
              static_cast<unsigned long long>(found.failures[0].states_before),
              found.failures[0].replay.c_str());
}

TEST_P(PlantedFault, IsGoneInTheSameRunWithoutIt) {
  ExploreOptions options = options_of(GetParam());
  options.states = enough_states();
  options.max_failures = 1;
  const Exploration found = explore(options);
  ASSERT_EQ(found.failures.size(), 1U);
  const auto name = std::get<ReplayName>(parse_replay(found.failures[0].replay));
  ExploreOptions fixed = options_of(ToyFault::kNone);
  fixed.seed = name.seed;
  fixed.runs = 1;
  fixed.states = enough_states();
  EXPECT_EQ(all_of(explore(fixed)), "");
  // A fault of recovery leaves the run as it is: the very state is clean without it.
  const Replay again = replay(fixed, name);
  if (GetParam() == ToyFault::kNoHashes || GetParam() == ToyFault::kRecoveryMovesTailFirst) {
    if (name.levels.size() == 1) {
      EXPECT_EQ(again.refused, "");
    }
    EXPECT_TRUE(again.failures.empty());
  } else {
    EXPECT_NE(again.refused, "") << "another trace, and nobody noticed";
  }
}

INSTANTIATE_TEST_SUITE_P(Toy, PlantedFault, testing::ValuesIn(kToyFaults),
                         [](const testing::TestParamInfo<ToyFault>& fault) {
                           std::string name = name_of(fault.param);
                           std::erase_if(name, [](char c) { return c == ' '; });
                           return name;
                         });

TEST(CrashExplorer, FindsTheSameOnAnyNumberOfThreads) {
  for (const ToyFault fault : {ToyFault::kNone, ToyFault::kReuseBeforeTail}) {
    ExploreOptions options = options_of(fault);
    options.states = loop_length(10'000);
    options.threads = 1;
    const Exploration one = explore(options);
    for (const std::uint32_t threads : {2U, 5U}) {
      options.threads = threads;
      const Exploration many = explore(options);
      EXPECT_EQ(one.states, many.states);
      EXPECT_EQ(one.rechecks, many.rechecks);
      EXPECT_EQ(one.nested, many.nested);
      EXPECT_EQ(one.duplicates, many.duplicates);
      EXPECT_EQ(one.second_recoveries, many.second_recoveries);
      EXPECT_EQ(all_of(one), all_of(many));
    }
  }
}

TEST(CrashExplorer, OtherSeedsFindOtherStates) {
  ExploreOptions options = options_of(ToyFault::kNone);
  options.runs = 1;
  options.states = 3'000;
  std::vector<std::string> strings;
  options.recover = false;
  options.max_failures = 1;
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    options.seed = seed;
    const Exploration found = explore(options);
    ASSERT_EQ(found.failures.size(), 1U);
    EXPECT_EQ(found.failures[0].replay.find("toy:seed=" + std::to_string(seed) + ":"), 0U);
    strings.push_back(found.failures[0].replay.substr(10));
  }
  EXPECT_NE(strings[0], strings[1]);
  EXPECT_NE(strings[1], strings[2]);
}

TEST(CrashExplorer, KeepsToItsBudgets) {
  ExploreOptions options = options_of(ToyFault::kNone);
  options.states = 500;
  const Exploration few = explore(options);
  EXPECT_GE(few.states, 500U);
  EXPECT_LT(few.states, 5'000U) << "one batch, with what is nested in it";

  options.states = 100'000'000;
  options.time = milliseconds(1);
  const Exploration brief = explore(options);
  EXPECT_TRUE(brief.timed_out);
  EXPECT_LT(brief.states, 20'000U);

  options.time = Duration::max();
  int asked = 0;
  options.stop = [&] { return ++asked == 3; };
  const Exploration stopped = explore(options);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_GT(stopped.states, 0U);
  options.stop = nullptr;

  // A share of the states for each run, spread over all its cuts.
  options.runs = 4;
  options.states = 400;
  const Exploration spread = explore(options);
  EXPECT_EQ(spread.runs, 4U);
  EXPECT_GT(spread.cuts, 4U * 10U);
  EXPECT_LT(spread.states, 4'000U);
}

// A workload whose parts misbehave, one at a time.
class Odd final : public CrashWorkload {
 public:
  enum class Kind {
    kFine, kFormatFails, kRunFails, kOddSize, kRecoveryFails, kRecoveryNeverEnds, kSecondWrites,
    kRecoveryDies
  };
  explicit Odd(Kind kind) : kind_(kind) {}
  std::uint64_t image_bytes() const override { return kind_ == Kind::kOddSize ? 5000 : 16 * 4096; }
  Result<void> format(BlockDevice&) override {
    if (kind_ == Kind::kFormatFails) return TW_FAIL(kNoSpace);
    return {};
  }
  Result<void> run(BlockDevice& device, AckLog&) override {
    if (kind_ == Kind::kRunFails) return TW_FAIL(kBusy);
    const std::vector<std::byte> block(4096, std::byte{7});
    TW_TRY(device.write(0, block));
    TW_TRY(device.flush());
    return device.write(4096, block);
  }
  Result<void> recover(BlockDevice& device) const override {
    if (kind_ == Kind::kRecoveryFails) return TW_FAIL(kCorrupt);
    if (kind_ == Kind::kRecoveryDies) std::abort();
    std::vector<std::byte> block(4096);
    TW_TRY(device.read(8192, block));
    while (kind_ == Kind::kRecoveryNeverEnds) TW_TRY(device.read(0, block));
    if (kind_ == Kind::kSecondWrites) {
      block[0] = static_cast<std::byte>(std::to_integer<int>(block[0]) + 1);
      TW_TRY(device.write(8192, block));
    }
    return {};
  }
  CheckResult check(BlockDevice&, Acks) const override { return {}; }

 private:
  const Kind kind_;
};

Exploration explore_odd(Odd::Kind kind) {
  ExploreOptions options;
  options.workload = "odd";
  options.make = [kind](std::uint64_t) { return std::make_unique<Odd>(kind); };
  options.max_failures = 1;
  options.states = 200;
  options.requests = 1'000;
  return explore(options);
}

TEST(CrashExplorer, SaysWhenTheWorkloadItselfIsBroken) {
  EXPECT_EQ(explore_odd(Odd::Kind::kFine).broken, "");
  EXPECT_EQ(explore_odd(Odd::Kind::kFormatFails).broken,
            "format of the run with seed 1 failed: no space left on the device");
  EXPECT_EQ(explore_odd(Odd::Kind::kRunFails).broken, "run of the run with seed 1 failed: it is in use");
  EXPECT_NE(explore_odd(Odd::Kind::kOddSize).broken.find("5000 bytes"), std::string::npos);
}

TEST(CrashExplorer, ReportsRecoveriesThatFailNeverEndOrAreNotIdempotent) {
  EXPECT_TRUE(explore_odd(Odd::Kind::kFine).failures.empty());
  const Exploration failing = explore_odd(Odd::Kind::kRecoveryFails);
  ASSERT_EQ(failing.failures.size(), 1U);
  EXPECT_EQ(failing.failures[0].oracle, "recovery");
  EXPECT_EQ(failing.failures[0].detail, "its content is not what was written");
  const Exploration endless = explore_odd(Odd::Kind::kRecoveryNeverEnds);
  ASSERT_EQ(endless.failures.size(), 1U);
  EXPECT_NE(endless.failures[0].detail.find("does not end"), std::string::npos);
  const Exploration growing = explore_odd(Odd::Kind::kSecondWrites);
  ASSERT_EQ(growing.failures.size(), 1U);
  EXPECT_EQ(growing.failures[0].oracle, "second recovery");
}

TEST(CrashExplorerDeathTest, NamesTheStateWhoseRecoveryKillsTheProgram) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a dying program says of its other threads is read beside them";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, [](int) {
          write_states_under_way(STDERR_FILENO);
          _exit(7);
        });
        explore_odd(Odd::Kind::kRecoveryDies);
      },
      testing::ExitedWithCode(7), "odd:seed=1:trace=[0-9a-f]*:cut=[0-9]");
}

TEST(CrashExplorer, StopsARunOfStatesThatAreAllKnown) {
  ExploreOptions options;
  options.workload = "odd";
  options.make = [](std::uint64_t) { return std::make_unique<Odd>(Odd::Kind::kFine); };
  options.runs = 0;
  const Exploration found = explore(options);  // four blocks can be there or not: few contents, and an end
  EXPECT_LT(found.runs, 10'000U);
  EXPECT_GT(found.states, 2U);
}

TEST(CrashReplay, RefusesWhatNamesNoState) {
  const ExploreOptions options = options_of(ToyFault::kNone);
  ExploreOptions broken = options;
  broken.recover = false;
  broken.max_failures = 1;
  const Exploration found = explore(broken);
  ASSERT_EQ(found.failures.size(), 1U);
  const std::string good = found.failures[0].replay;
  const std::string run = good.substr(0, good.find(":cut="));
  EXPECT_EQ(replay_string(options, good).refused, "");
  // The first event is an acknowledgement, the second the first write.
  EXPECT_NE(replay_string(options, run + ":cut=0").refused, "");
  EXPECT_NE(replay_string(options, run + ":cut=1000000").refused, "");
  EXPECT_NE(replay_string(options, run + ":cut=1:lost=0x1").refused, "");
  EXPECT_NE(replay_string(options, run + ":cut=1:torn=0@512").refused, "");
  EXPECT_NE(replay_string(options, run + ":cut=1/cut=0:lost=0x1").refused, "");
  EXPECT_NE(replay_string(options, "toy:seed=1:trace=00000000:cut=0").refused.find("another trace"),
            std::string::npos);
  EXPECT_EQ(replay_string(options, run + ":cut=1").refused, "");
}

}  // namespace
}  // namespace tidewheel
