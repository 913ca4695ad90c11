// The house rules that a machine can check: includes go downward only, what waits or races goes through
// base/, heavy headers stay out of headers, lines are short, links lead somewhere. Each rule is first tried
// on a planted violation.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/source_text.h"

namespace {

namespace filesystem = std::filesystem;
using tidewheel::blocks_of;
using tidewheel::text_of;

struct SourceFile {
  std::string path;  // from the root, with '/'
  std::vector<std::string> lines;
};

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<SourceFile> project_sources() {
  const filesystem::path root = TW_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const char* folder : {"base", "timerwheel", "writeback", "inode", "fs", "bench", "tests"}) {
    for (const auto& entry : filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc") continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      files.push_back({filesystem::relative(entry.path(), root).generic_string(), split_lines(text.str())});
    }
  }
  return files;
}

std::vector<SourceFile> files_named(const std::vector<std::string>& paths) {
  std::vector<SourceFile> files;
  for (const std::string& path : paths) {
    std::ifstream in(filesystem::path(TW_SOURCE_DIR) / path);
    std::stringstream text;
    text << in.rdbuf();
    files.push_back({path, split_lines(text.str())});
  }
  return files;
}

std::vector<SourceFile> project_pages() {
  const filesystem::path root = TW_SOURCE_DIR;
  std::vector<std::string> paths = {"README.md"};
  for (const auto& entry : filesystem::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") {
      paths.push_back(filesystem::relative(entry.path(), root).generic_string());
    }
  }
  return files_named(paths);
}

// Comments and string literals cannot break a rule.
std::string code_of(const std::string& line) {
  static const std::regex strings(R"("(\\.|[^"\\])*")");
  std::string code = std::regex_replace(line, strings, "\"\"");
  const auto comment = code.find("//");
  return comment == std::string::npos ? code : code.substr(0, comment);
}

// Floors, lowest first; a file may include its own floor and those below. fs/block and fs/flat are named
// apart: devices know nothing of inodes.
const std::map<std::string, std::vector<std::string>>& floors_below() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"base", {"base"}},
      {"timerwheel", {"timerwheel", "base"}},
      {"writeback", {"writeback", "timerwheel", "base"}},
      {"inode", {"inode", "writeback", "timerwheel", "base"}},
      {"fs/block", {"fs/block", "base"}},
      {"fs/crash", {"fs/crash", "fs/block", "base"}},
      {"fs/flat", {"fs/flat", "fs/block", "inode", "writeback", "timerwheel", "base"}},
      {"fs/format", {"fs/format", "base"}},
      {"fs/buf", {"fs/buf", "fs/format", "fs/block", "base"}},
      {"fs/item", {"fs/item", "fs/buf", "fs/format", "fs/block", "base"}},
      {"fs/ail", {"fs/ail", "fs/item", "fs/buf", "fs/format", "fs/block", "base"}},
      {"fs/log", {"fs/log", "fs/ail", "fs/item", "fs/format", "fs/block", "base"}},
      {"fs/trans",
       {"fs/trans", "fs/log", "fs/ail", "fs/item", "fs/buf", "fs/format", "fs/block", "base"}},
      {"fs/recovery",
       {"fs/recovery", "fs/log", "fs/ail", "fs/item", "fs/buf", "fs/format", "fs/block", "base"}},
      {"fs/mock",
       {"fs/mock", "fs/trans", "fs/recovery", "fs/log", "fs/ail", "fs/item", "fs/buf", "fs/crash",
        "fs/format", "fs/block", "base"}},
      {"fs/mkfs", {"fs/mkfs", "fs/format", "fs/block", "base"}},
      {"fs/tools", {"fs/tools", "fs/mkfs", "fs/format", "fs/block", "base"}},
      {"bench",
       {"bench", "fs/tools", "fs/mkfs", "fs/mock", "fs/trans", "fs/recovery", "fs/log", "fs/ail", "fs/item",
        "fs/buf", "fs/crash", "fs/format", "fs/flat", "fs/block", "inode", "writeback", "timerwheel",
        "base"}},
  };
  return table;
}

std::string floor_of(const std::string& path) {
  std::string best;
  for (const auto& [floor, below] : floors_below()) {
    if (path.starts_with(floor + "/") && floor.size() > best.size()) best = floor;
  }
  return best;
}

using Violations = std::vector<std::string>;

Violations include_violations(const std::vector<SourceFile>& files) {
  static const std::regex include(R"re(^\s*#\s*include\s*"([^"]+)")re");
  Violations found;
  for (const SourceFile& file : files) {
    const std::string floor = floor_of(file.path);
    if (floor.empty()) continue;
    const auto& allowed = floors_below().at(floor);
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string target = floor_of(match[1].str());
      if (target.empty() || std::find(allowed.begin(), allowed.end(), target) == allowed.end()) {
        found.push_back(file.path + " includes " + match[1].str());
      }
    }
  }
  return found;
}

struct Ban {
  const char* what;
  const char* pattern;
  const char* instead;
  bool in_tests;  // tests may not either
};

constexpr Ban kOutsideBase[] = {
    {"std::mutex and kin",
     R"(std::(recursive_|timed_|shared_)?(timed_)?mutex\b|std::(lock_guard|unique_lock|scoped_lock)\b)",
     "base/sync.h", true},
    {"std::condition_variable", R"(std::condition_variable)", "base/sync.h", true},
    {"std::atomic", R"(std::atomic(<|_|\b))", "base/atomic.h", true},
    {"std::thread", R"(std::(jthread|thread)\b|std::async\b|pthread_create)", "base/thread.h", true},
    {"thread_local state", R"(\bthread_local\b|__thread\b)", "base/", true},
    {"a sleep", R"(\b(usleep|nanosleep|sleep_until)\s*\(|this_thread::)", "base/thread.h", true},
    {"a raw clock", R"(std::chrono::\w*_clock|clock_gettime|gettimeofday|__rdtsc)", "base/clock.h", true},
    {"sched_getcpu", R"(sched_getcpu)", "base/thread.h", true},
    {"random_device", R"(random_device)", "base/rng.h", true},
};

// Files that may have what is banned, each with its reason.
struct Exception {
  const char* path;
  const char* what;
};

constexpr Exception kExceptions[] = {
    // Its naive variants are what it compares ours with: a bare std::mutex, and one whose holds are timed by
    // the steady clock.
    {"bench/micro/locks.cc", "std::mutex and kin"},
    {"bench/micro/locks.cc", "a raw clock"},
};

bool is_excepted(const std::string& path, const std::string& what) {
  return std::any_of(std::begin(kExceptions), std::end(kExceptions), [&](const Exception& exception) {
    return path == exception.path && what == exception.what;
  });
}

Violations ban_violations(const std::vector<SourceFile>& files) {
  Violations found;
  for (const Ban& ban : kOutsideBase) {
    const std::regex pattern(ban.pattern);
    for (const SourceFile& file : files) {
      if (file.path.starts_with("base/") || file.path.starts_with("tests/base/") ||
          file.path.starts_with("tests/tidy/")) {
        continue;
      }
      if (file.path.starts_with("tests/") && !ban.in_tests) continue;
      if (is_excepted(file.path, ban.what)) continue;
      for (std::size_t i = 0; i < file.lines.size(); ++i) {
        if (std::regex_search(code_of(file.lines[i]), pattern)) {
          found.push_back(file.path + ":" + std::to_string(i + 1) + " has " + ban.what + ": use " +
                          ban.instead);
        }
      }
    }
  }
  return found;
}

// Headers that cost seconds to compile, by bars measured on two cores.
Violations heavy_header_violations(const std::vector<SourceFile>& files) {
  static const std::regex heavy(R"(#\s*include\s*<(spdlog/|CLI/|nlohmann/json\.hpp|tbb/|oneapi/|liburing))");
  Violations found;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".h") || file.path == "base/concurrent_map.h") continue;
    for (const std::string& line : file.lines) {
      if (std::regex_search(line, heavy)) found.push_back(file.path + " has " + line);
    }
  }
  return found;
}

Violations header_head_violations(const std::vector<SourceFile>& files) {
  Violations found;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".h") || file.path.starts_with("tests/")) continue;
    if (file.lines.empty() || !file.lines.front().starts_with("// " + file.path + ": ")) {
      found.push_back(file.path + " does not begin with `// " + file.path + ": what it is`");
    }
    const bool guarded = std::any_of(file.lines.begin(), file.lines.end(),
                                     [](const std::string& line) { return line == "#pragma once"; });
    if (!guarded) found.push_back(file.path + " has no #pragma once");
  }
  return found;
}

Violations name_violations(const std::vector<SourceFile>& files) {
  static const std::regex names(R"(\b(class|struct)\s+\w*(Manager|Helper|Util|Utils|Impl|Handler)\b)");
  Violations found;
  for (const SourceFile& file : files) {
    for (const std::string& line : file.lines) {
      if (std::regex_search(code_of(line), names)) found.push_back(file.path + ": " + line);
    }
  }
  return found;
}

Violations leftover_violations(const std::vector<SourceFile>& files) {
  static const std::regex leftovers(R"(\b(TODO|FIXME|XXX|HACK)\b)");
  Violations found;
  for (const SourceFile& file : files) {
    if (file.path.starts_with("tests/tidy/")) continue;
    for (const std::string& line : file.lines) {
      if (std::regex_search(line, leftovers)) found.push_back(file.path + ": " + line);
    }
  }
  return found;
}

constexpr std::size_t kColumns = 110;

// Of UTF-8: bytes that continue a character take no column.
std::size_t columns_of(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Violations long_line_violations(const std::vector<SourceFile>& files) {
  Violations found;
  for (const SourceFile& file : files) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (columns_of(file.lines[i]) <= kColumns) continue;
      found.push_back(file.path + ":" + std::to_string(i + 1) + " has " +
                      std::to_string(columns_of(file.lines[i])) + " columns, more than " +
                      std::to_string(kColumns));
    }
  }
  return found;
}

// Relative links, `#part` cut off; those to other machines are not looked at, nor code between back-quotes.
Violations dead_link_violations(const std::vector<SourceFile>& pages) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  static const std::regex quoted("`[^`]*`");
  const filesystem::path root = TW_SOURCE_DIR;
  Violations found;
  for (const SourceFile& page : pages) {
    bool fenced = false;
    for (const std::string& raw : page.lines) {
      if (raw.starts_with("```")) fenced = !fenced;
      if (fenced) continue;
      const std::string line = std::regex_replace(raw, quoted, "");
      for (auto match = std::sregex_iterator(line.begin(), line.end(), link); match != std::sregex_iterator();
           ++match) {
        std::string target = (*match)[1].str();
        if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
        target.resize(std::min(target.find('#'), target.size()));
        if (target.empty()) continue;  // a part of the same page
        if (!filesystem::exists(root / filesystem::path(page.path).parent_path() / target)) {
          found.push_back(page.path + " links to " + target + ", which does not exist");
        }
      }
    }
  }
  return found;
}

std::string joined(const Violations& violations) {
  std::string text;
  for (const std::string& violation : violations) text += violation + "\n";
  return text;
}

TEST(Tidy, IncludesGoDownward) {
  EXPECT_EQ(include_violations({{"base/x.h", {"#include \"writeback/batch.h\""}}}).size(), 1U);
  EXPECT_EQ(include_violations({{"fs/block/x.h", {"#include \"inode/inode.h\""}}}).size(), 1U);
  EXPECT_EQ(include_violations({{"fs/flat/x.h", {"#include \"inode/inode.h\""}}}).size(), 0U);
  const Violations found = include_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Tidy, WhatWaitsOrRacesGoesThroughBase) {
  for (const char* line : {"std::mutex m;", "std::atomic<int> n;", "std::thread t;", "thread_local int x;",
                           "usleep(3);", "std::chrono::steady_clock::now();", "sched_getcpu();",
                           "std::random_device r;", "std::condition_variable c;"}) {
    EXPECT_FALSE(ban_violations({{"writeback/x.cc", {line}}}).empty()) << line;
  }
  EXPECT_TRUE(ban_violations({{"writeback/x.cc", {"// not std::mutex", "f(\"std::mutex\");"}}}).empty());
  EXPECT_TRUE(ban_violations({{"bench/micro/locks.cc", {"std::mutex m;"}}}).empty());
  EXPECT_FALSE(ban_violations({{"bench/micro/locks.cc", {"std::thread t;"}}}).empty());
  const Violations found = ban_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Tidy, HeavyHeadersStayOutOfHeaders) {
  EXPECT_EQ(heavy_header_violations({{"base/x.h", {"#include <spdlog/spdlog.h>"}}}).size(), 1U);
  const Violations found = heavy_header_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Tidy, HeadersSayWhatTheyAre) {
  EXPECT_EQ(header_head_violations({{"base/x.h", {"#pragma once"}}}).size(), 1U);
  const Violations found = header_head_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Tidy, NamesSayWhatAThingIs) {
  EXPECT_EQ(name_violations({{"base/x.h", {"class ListManager {"}}}).size(), 1U);
  const Violations found = name_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Tidy, NothingIsLeftOver) {
  const Violations found = leftover_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Tidy, LinesHaveAtMost110Columns) {
  const std::string full(110, 'x');
  EXPECT_TRUE(long_line_violations({{"base/x.h", {full}}}).empty());
  EXPECT_EQ(long_line_violations({{"base/x.h", {full + "x"}}}).size(), 1U);
  EXPECT_TRUE(long_line_violations({{"base/x.h", {full.substr(1) + "\u00b5"}}}).empty())
      << "counted in characters";
  const Violations found = long_line_violations(project_sources());
  EXPECT_TRUE(found.empty()) << joined(found);
  const Violations scripts = long_line_violations(files_named({"tests/run", "bench/run", "cmake/setup.sh"}));
  EXPECT_TRUE(scripts.empty()) << joined(scripts);
}

TEST(Tidy, LinksLeadSomewhere) {
  EXPECT_EQ(dead_link_violations({{"docs/x.md", {"[y](y-that-is-not.md)"}}}).size(), 1U);
  EXPECT_EQ(dead_link_violations({{"docs/x.md", {"[r](README.md)"}}}).size(), 1U) << "seen from docs/";
  EXPECT_TRUE(
      dead_link_violations({{"docs/x.md",
                             {"[r](../README.md), [p](../README.md#part), [w](https://x.org/y), `[q](z)`",
                              "```", "[q](z)", "```"}}})
          .empty());
  const Violations found = dead_link_violations(project_pages());
  EXPECT_TRUE(found.empty()) << joined(found);
}

// Word for word, of an example or of the target that is one.
TEST(Tidy, PagesShowCodeOfTheExamples) {
  std::string examples = text_of("writeback/write_behind.cc");
  for (const SourceFile& file : project_sources()) {
    if (file.path.starts_with("tests/examples/")) examples += text_of(file.path);
  }
  std::size_t seen = 0;
  for (const char* page : {"docs/embedding.md", "docs/experiments.md"}) {
    for (const std::string& block : blocks_of(page, "cpp")) {
      ++seen;
      EXPECT_NE(examples.find(block), std::string::npos)
          << page << " shows what is in no example:\n" << block;
    }
  }
  EXPECT_GE(seen, 10U);
}

TEST(Tidy, FindsTheProject) { EXPECT_GT(project_sources().size(), 20U); }

}  // namespace
