// `tidewheel crash`: what its options accept, its JSON, its exit status.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/crash.h"
#include "bench/crash_json.h"
#include "bench/crash_workloads.h"

namespace tidewheel::bench {
namespace {

std::variant<CrashOptions, UsageError> read(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"crash"};
  all.insert(all.end(), words.begin(), words.end());
  const ParseResult parsed = parse_arguments(subcommand_specs(), "0", all);
  if (parsed.kind != ParseResult::Kind::kRun) return UsageError{parsed.text};
  return crash_options(parsed.arguments, all);
}

CrashOptions accepted(const std::vector<std::string>& words) {
  auto options = read(words);
  if (const auto* error = std::get_if<UsageError>(&options)) {
    ADD_FAILURE() << error->line;
    return {};
  }
  return std::get<CrashOptions>(options);
}

TEST(CrashOptions, HaveDefaultsAndTakeWhatIsGiven) {
  const CrashOptions usual = accepted({});
  EXPECT_EQ(usual.workloads.size(), crash_workloads().size());
  EXPECT_EQ(usual.seed, 1U);
  EXPECT_EQ(usual.states, 100'000U);
  EXPECT_EQ(usual.time, Duration::max());
  EXPECT_TRUE(usual.recover);
  const CrashOptions all =
      accepted({"--workload", "toy", "--seed", "7", "--runs", "3", "--states", "500", "--time", "2s",
                "--threads", "2", "--without-recovery", "--json", "-"});
  EXPECT_EQ(all.workloads, std::vector<std::string>{"toy"});
  EXPECT_EQ(all.seed, 7U);
  EXPECT_EQ(all.runs, 3U);
  EXPECT_EQ(all.states, 500U);
  EXPECT_EQ(all.time, seconds(2));
  EXPECT_EQ(all.threads, 2U);
  EXPECT_FALSE(all.recover);
  EXPECT_EQ(accepted({"--time", "2s"}).states, UINT64_MAX) << "the time is the limit";
  const CrashOptions replay = accepted({"--replay", "toy:seed=5:trace=00000000:cut=1"});
  EXPECT_EQ(replay.seed, 5U);
  EXPECT_EQ(replay.workloads, std::vector<std::string>{"toy"});
}

TEST(CrashOptions, AnswerNonsenseWithOneLineThatNamesTheOption) {
  const std::string good = "toy:seed=5:trace=00000000:cut=1";
  const std::vector<std::vector<std::string>> table = {
      {"--workload", ""},
      {"--workload", "frob"},
      {"--workload", "toy,toy"},
      {"--workload", "toy,"},
      {"--workload", "all,toy"},
      {"--seed", "-1"},
      {"--seed", "9223372036854775808"},
      {"--runs", "0"},
      {"--runs", "x"},
      {"--states", "0"},
      {"--states", "1e3"},
      {"--states", "1000000001"},
      {"--time", "0"},
      {"--time", "5"},
      {"--time", "-5s"},
      {"--threads", "0"},
      {"--threads", "1025"},
      {"--json", ""},
      {"--replay", ""},
      {"--replay", "toy"},
      {"--replay", "frob:seed=1:trace=00000000:cut=1"},
      {"--replay", good + "\n"},
      {"--seed", "3", "--replay", good},
      {"--time", "1s", "--replay", good},
      {"--states", "3", "--replay", good}};
  for (const auto& words : table) {
    const auto options = read(words);
    const std::string shown = words[0] + " '" + words[1] + "'";
    ASSERT_TRUE(std::holds_alternative<UsageError>(options)) << shown << " was accepted";
    const std::string& line = std::get<UsageError>(options).line;
    EXPECT_EQ(line.rfind(words[0] + ":", 0), 0U) << shown << " gave " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << shown;
  }
}

// A command line with the program's name in place of PROGRAM: its two outputs together, and its status.
int run_line(std::string command, std::string& text) {
  const char* path = std::getenv("TIDEWHEEL_PROGRAM");
  command.replace(command.find("PROGRAM"), 7, path != nullptr ? path : TIDEWHEEL_PROGRAM);
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return -1;
  text.clear();
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, pipe)) != 0;) text.append(part, n);
  const int status = ::pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run(const std::string& words, std::string& text) { return run_line("PROGRAM crash " + words, text); }

TEST(CrashProgram, ExploresAndSaysSoInJson) {
  std::string text;
  EXPECT_EQ(run("--workload toy --states 300 --seed 4 --json -", text), 0) << text;
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("schema"), "tidewheel.crash/1");
  for (const char* key : {"version", "machine", "command", "seed", "started", "workloads", "states",
                          "seconds", "states_per_s", "failures", "details", "errors"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.at("seed"), 4);
  EXPECT_EQ(json.at("workloads"), nlohmann::json::array({"toy"}));
  EXPECT_GE(json.at("states"), 300);
  EXPECT_TRUE(json.at("failures").empty());
}

TEST(CrashProgram, FailsWithAStringThatRepeatsTheFailure) {
  std::string text;
  EXPECT_EQ(run("--without-recovery --states 300 --json -", text), 1);
  const auto json = nlohmann::json::parse(text);
  ASSERT_FALSE(json.at("failures").empty());
  const auto failure = json.at("failures").at(0);
  for (const char* key : {"workload", "state", "oracle", "detail", "replay"}) {
    EXPECT_TRUE(failure.at(key).is_string()) << key;
  }
  const std::string replay = failure.at("replay");
  EXPECT_EQ(run("--without-recovery --replay " + replay, text), 1) << text;
  EXPECT_NE(text.find("FAILED toy: " + std::string(failure.at("oracle"))), std::string::npos) << text;
  EXPECT_EQ(run("--replay " + replay, text), 0) << "with recovery that state is whole: " << text;
  EXPECT_NE(text.find("passes every check"), std::string::npos) << text;
}

TEST(CrashProgram, RefusesOneLineAtATime) {
  std::string text;
  EXPECT_EQ(run("--states x", text), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(run("--replay toy:seed=1:trace=00000000:cut=1", text), 1);
  EXPECT_EQ(text.rfind("tidewheel: crash: toy: the run with this seed has another trace", 0), 0U) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(run("--json /no-such-folder/x --states 10", text), 1);
  EXPECT_EQ(text.rfind("tidewheel: --json /no-such-folder/x: ", 0), 0U) << text;
}

TEST(CrashProgram, EndsInOrderWhenInterrupted) {
  std::string text;
  // timeout answers 124 when the program ended after the signal, whatever its own status.
  EXPECT_EQ(run_line("timeout -s INT 3 PROGRAM crash --states 1000000000 --json -", text), 124);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << text;
  EXPECT_TRUE(json.at("interrupted"));
  EXPECT_GT(json.at("states"), 0);
}

}  // namespace
}  // namespace tidewheel::bench
