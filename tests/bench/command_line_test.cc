#include "bench/command_line.h"

#include <gtest/gtest.h>

#include "bench/designs.h"

namespace tidewheel::bench {
namespace {

struct Outcome {
  std::string usage;  // empty: accepted
  FsmarkOptions fsmark;
  CompareOptions compare;
};

Outcome read(const std::vector<std::string>& words) {
  Outcome outcome;
  const ParseResult parsed = parse_arguments(subcommand_specs(), "0", words);
  if (parsed.kind == ParseResult::Kind::kUsage) {
    outcome.usage = parsed.text;
    return outcome;
  }
  EXPECT_EQ(parsed.kind, ParseResult::Kind::kRun);
  if (parsed.arguments.subcommand == "fsmark") {
    auto options = fsmark_options(parsed.arguments, words);
    if (auto* error = std::get_if<UsageError>(&options)) {
      outcome.usage = error->line;
    } else {
      outcome.fsmark = std::get<FsmarkOptions>(options);
    }
  } else {
    auto options = compare_options(parsed.arguments, words);
    if (auto* error = std::get_if<UsageError>(&options)) {
      outcome.usage = error->line;
    } else {
      outcome.compare = std::get<CompareOptions>(options);
    }
  }
  return outcome;
}

struct Nonsense {
  const char* option;              // what the line must begin with
  std::vector<std::string> words;  // after the subcommand
};
using Table = std::vector<Nonsense>;

void expect_one_line_each(const char* subcommand, const Table& table) {
  for (const Nonsense& row : table) {
    std::vector<std::string> words = {subcommand};
    words.insert(words.end(), row.words.begin(), row.words.end());
    std::string shown = subcommand;
    for (const std::string& word : row.words) shown += " '" + word + "'";
    const Outcome outcome = read(words);
    EXPECT_FALSE(outcome.usage.empty()) << shown << " was accepted";
    EXPECT_EQ(outcome.usage.rfind(std::string(row.option) + ":", 0), 0U)
        << shown << " gave '" << outcome.usage << "', which does not begin with " << row.option;
    EXPECT_EQ(outcome.usage.find('\n'), std::string::npos) << shown;
    EXPECT_GT(outcome.usage.size(), std::string(row.option).size() + 10) << shown << ": says nothing";
  }
}

void add(Table& table, const char* option, std::initializer_list<const char*> bad_values) {
  for (const char* bad : bad_values) table.push_back({option, {option, bad}});
}

// Of both subcommands.
Table common_nonsense() {
  Table table;
  add(table, "-n", {"", "x", "-1", "0", "1.5", "1e3", "1000000001", "99999999999999999999", "4 ", "1\n2"});
  add(table, "-s", {"", "x", "-1", "4q", "9T", "4 k"});
  add(table, "-w", {"", "x", "0", "-1", "2G"});
  add(table, "-L", {"", "x", "-1", "1000001"});
  add(table, "-D", {"", "x", "0", "1", "-1", "1000001"});
  for (const char* bad : {"", "x", "0", "-1"}) table.push_back({"-N", {"-D", "4", "-N", bad}});
  table.push_back({"-N", {"-N", "4"}});
  add(table, "-S", {"", "x", "7", "-1"});
  add(table, "-p", {"", "x", "0", "256", "-1"});
  add(table, "-r", {"", "x", "0", "41", "-1"});
  table.push_back({"-r", {"-p", "10", "-r", "11"}});
  table.push_back({"-r", {"-p", "2", "-n", "5000"}});
  table.push_back({"-d", {"-d", ""}});
  table.push_back({"-d", {"-d", "/a", "-d", "/a"}});
  table.push_back({"-l", {"-l", ""}});
  table.push_back({"-F", {"-F", "-L", "2"}});
  add(table, "--phases",
      {"", "x", "create,", "stat", "stat,create", "create,create", "create,unlink,read", ",create"});
  add(table, "--seed", {"", "x", "-1", "9223372036854775808"});
  add(table, "--size", {"", "x", "0", "4k", "2P", "-1"});
  add(table, "--ram", {"", "x", "0", "4k", "2P", "-1"});
  add(table, "--image", {""});
  table.push_back({"--image", {"--image", "x", "--posix", "-d", "/x"}});
  table.push_back({"--flat", {"--flat", "--posix", "-d", "/x"}});
  table.push_back({"--ram", {"--ram", "64M", "--image", "x"}});
  table.push_back({"--null", {"--null", "--image", "x"}});
  table.push_back({"--null", {"--null", "--ram", "64M"}});
  table.push_back({"--size", {"--size", "64M", "--ram", "64M"}});
  add(table, "--device-bandwidth", {"", "x", "0", "1k", "-1", "5s"});
  add(table, "--device-latency", {"", "x", "5", "61s", "-1ms", "5k"});
  table.push_back({"--verify", {"--null", "--verify"}});
  table.push_back({"--phases", {"--null", "--phases", "create,read"}});
  add(table, "--memory", {"", "x", "0", "1M", "2P", "-1"});
  add(table, "--background", {"", "x", "0", "0%", "101%", "2G", "-1"});
  add(table, "--dirty", {"", "x", "0", "0%", "101%", "2G", "-1"});
  table.push_back({"--background", {"--background", "30%", "--dirty", "30%"}});
  table.push_back({"--background", {"--background", "512M", "--dirty", "256M"}});
  table.push_back({"--dirty", {"--background", "4k", "--dirty", "512k"}});
  add(table, "--expire", {"", "x", "0", "5", "1ms", "25h"});
  add(table, "--interval", {"", "x", "5", "1ms", "25h"});
  add(table, "--throttle", {"", "x", "Linux", "delay_curve", "hard-limit,linux"});
  add(table, "--shards", {"", "x", "0", "3", "256", "-1"});
  add(table, "--flushers", {"", "x", "0", "65", "-1"});
  add(table, "--owners", {"", "x", "0", "65", "-1", "1,2"});
  table.push_back({"--owners", {"--owners", "2", "-d", "/a", "-d", "/b", "-d", "/c", "-t", "3"}});
  add(table, "-o", {"buffer_lookup=hit"});
  add(table, "--json", {""});
  table.push_back({"-l", {"-l", "same", "--json", "same"}});
  table.push_back({"-l", {"--image", "same", "-l", "same"}});
  table.push_back({"--json", {"--image", "same", "--json", "same"}});
  table.push_back({"--json", {"--json", std::string(kDefaultImage)}});
  // What no option is, and options without their value.
  table.push_back({"--frob", {"--frob"}});
  table.push_back({"-q", {"-q"}});
  table.push_back({"'word'", {"word"}});
  table.push_back({"--seed", {"--seed"}});
  table.push_back({"-n", {"-n"}});
  return table;
}

TEST(FsmarkOptions, EachNonsenseGetsOneLineThatNamesTheOption) {
  Table table = common_nonsense();
  add(table, "-t", {"", "x", "0", "1025", "-1"});
  table.push_back({"-t", {"-d", "/a", "-d", "/b", "-t", "3"}});
  add(table, "--design", {"heap", ""});
  add(table, "--interval-csv", {""});
  table.push_back({"--interval-csv", {"--interval-csv", "same", "--trace", "same"}});
  table.push_back({"--interval-csv", {"--image", "same", "--interval-csv", "same"}});
  table.push_back({"--trace", {"--trace", "same", "--json", "same"}});
  table.push_back({"--trace", {"--trace", "-", "--json", "-"}});
  table.push_back({"-d", {"--posix"}});
  table.push_back({"--owners", {"--owners", "2", "--posix", "-d", "/a", "-d", "/b"}});
  table.push_back({"-kq", {"-kq"}});
  table.push_back({"--verify", {"--verify=3"}});
  expect_one_line_each("fsmark", table);
}

TEST(CompareOptions, EachNonsenseGetsOneLineThatNamesTheOption) {
  Table table = common_nonsense();
  add(table, "--threads", {"", "x", "0", "1025", "1,", "1,1", "1,x", "-1", "1;2", "12"});
  add(table, "-t", {"", "x", "0", "1,2"});
  table.push_back({"-t", {"-t", "1", "--threads", "2"}});
  add(table, "--designs", {"", "heap", "timer-wheel,", "timer-wheel,timer-wheel", "all,timer-wheel"});
  add(table, "--rounds", {"", "x", "0", "1001"});
  add(table, "--html", {""});
  table.push_back({"--html", {"--html", "same", "--json", "same"}});
  table.push_back({"--markdown", {"--markdown", "same", "--json", "same"}});
  table.push_back({"--posix", {"--posix", "-d", "/x"}});
  table.push_back({"-v", {"-v"}});
  table.push_back({"--owners", {"--owners", "2"}});  // one thread can't write for two
  add(table, "--markdown", {"", "-"});
  expect_one_line_each("compare", table);
}

TEST(Subcommands, WhatIsNotThereYetSaysSo) {
  for (const char* name :
       {"fsck", "mount", "reproduce", "top", "freeze", "thaw", "replay", "lab"}) {
    EXPECT_EQ(not_available_line(name).rfind(std::string(name) + ": not in this version", 0), 0U);
  }
  EXPECT_EQ(not_available_line("fsmark"), "");
  EXPECT_NE(read({"frobnicate"}).usage, "");
  EXPECT_NE(read({}).usage, "");
  EXPECT_NE(read({""}).usage, "");
}

TEST(Subcommands, HelpAndVersionAreTexts) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"fsmark", "--help"},
                                                {"compare", "--help"},
                                                {"compare", "-h"},
                                                {"--version"}}) {
    const ParseResult parsed = parse_arguments(subcommand_specs(), "1.2.3", words);
    EXPECT_EQ(parsed.kind, ParseResult::Kind::kText) << words.back();
    EXPECT_FALSE(parsed.text.empty());
  }
  EXPECT_EQ(parse_arguments(subcommand_specs(), "1.2.3", {"--version"}).text, "tidewheel 1.2.3\n");
}

TEST(FsmarkOptions, DefaultsAreThoseOfTheOriginal) {
  const Outcome outcome = read({"fsmark"});
  ASSERT_EQ(outcome.usage, "");
  const WorkloadOptions& w = outcome.fsmark.workload;
  EXPECT_EQ(w.threads, 1U);
  EXPECT_EQ(w.files_per_thread, 1000U);
  EXPECT_EQ(w.file_bytes, 51200U);
  EXPECT_EQ(w.write_bytes, 16384U);
  EXPECT_EQ(w.sync_method, 1U);
  EXPECT_EQ(w.name_bytes, 40U);
  EXPECT_EQ(w.random_bytes, 24U);
  EXPECT_EQ(w.log_file, "fs_log.txt");
  EXPECT_EQ(w.loops, 1U);
  EXPECT_FALSE(w.keep);
  EXPECT_EQ(outcome.fsmark.target, TargetKind::kFlat);
  EXPECT_EQ(outcome.fsmark.device.image_path, "out/default.img");
  EXPECT_EQ(outcome.fsmark.writeback.background_bytes, (1ULL << 30) / 10);
  EXPECT_EQ(outcome.fsmark.writeback.dirty_bytes, (1ULL << 30) / 5);
}

TEST(FsmarkOptions, DirectoriesAreMadeToBeSplitOverOwners) {
  Outcome outcome = read({"fsmark", "--owners", "4", "-t", "16"});
  ASSERT_EQ(outcome.usage, "");
  EXPECT_EQ(outcome.fsmark.writeback.owners, 4U);
  EXPECT_EQ(outcome.fsmark.workload.directories.size(), 4U);
  outcome = read({"fsmark", "--owners", "3"});
  ASSERT_EQ(outcome.usage, "");
  EXPECT_EQ(outcome.fsmark.workload.threads, 3U) << "one for each, as one for each directory";
  outcome = read({"compare", "--owners", "4", "-t", "16"});
  ASSERT_EQ(outcome.usage, "");
  EXPECT_EQ(outcome.compare.base.workload.directories.size(), 8U);
  outcome = read({"compare", "--owners", "3", "--threads", "3,6"});
  ASSERT_EQ(outcome.usage, "");
  EXPECT_EQ(outcome.compare.base.workload.directories.size(), 3U);
}

TEST(FsmarkOptions, TheSeedsCommandLineIsUnderstood) {
  std::vector<std::string> words = {"fsmark", "-D",   "10000", "-S0", "-n", "10000",
                                    "-s",     "4096", "-L",    "120", "-t", "16"};
  for (int i = 0; i < 8; ++i) {
    words.emplace_back("-d");
    words.push_back("/" + std::to_string(i));
  }
  const Outcome outcome = read(words);
  ASSERT_EQ(outcome.usage, "");
  const WorkloadOptions& w = outcome.fsmark.workload;
  EXPECT_EQ(w.directories.size(), 8U);
  EXPECT_EQ(w.subdirectories, 10000U);
  EXPECT_EQ(w.sync_method, 0U);
  EXPECT_EQ(w.loops, 120U);
  EXPECT_TRUE(w.keep);
}

TEST(FsmarkOptions, LoopsAndKeepingFollowTheOriginal) {
  EXPECT_TRUE(read({"fsmark", "-L", "1"}).fsmark.workload.keep);
  EXPECT_EQ(read({"fsmark", "-L", "0"}).fsmark.workload.loops, 1U);
  EXPECT_TRUE(read({"fsmark", "-F"}).fsmark.workload.keep);
  EXPECT_TRUE(read({"fsmark", "-F", "-s", "0"}).fsmark.workload.until_full);
  EXPECT_TRUE(read({"fsmark", "-k"}).fsmark.workload.keep);
  EXPECT_EQ(read({"fsmark", "-d", "/a", "-d", "/b", "-d", "/c"}).fsmark.workload.threads, 3U)
      << "raised to -d";
  EXPECT_EQ(read({"fsmark", "-n", "5", "-n", "6"}).fsmark.workload.files_per_thread, 6U)
      << "the last one counts";
  EXPECT_EQ(read({"fsmark", "-s", "3G"}).fsmark.workload.file_bytes, 3ULL << 30);
}

TEST(CompareOptions, DefaultsAreTheQuickComparison) {
  const Outcome outcome = read({"compare"});
  ASSERT_EQ(outcome.usage, "");
  const CompareOptions& c = outcome.compare;
  EXPECT_EQ(c.designs, design_names());
  EXPECT_EQ(c.threads, (std::vector<std::uint32_t>{1, 16}));
  EXPECT_EQ(c.rounds, 3U);
  EXPECT_EQ(c.base.workload.file_bytes, 4096U);
  EXPECT_EQ(c.base.workload.sync_method, 0U);
  EXPECT_EQ(c.base.workload.directories.size(), 8U);
  EXPECT_EQ(c.base.writeback.background_bytes, (1ULL << 30) / 5);
  EXPECT_EQ(c.base.writeback.dirty_bytes, (1ULL << 30) * 2 / 5);
  EXPECT_FALSE(c.files_given);
  EXPECT_FALSE(c.bandwidth_given);
  EXPECT_EQ(read({"compare", "-t", "4"}).compare.threads, (std::vector<std::uint32_t>{4}));
}

}  // namespace
}  // namespace tidewheel::bench
