// The built program from outside: what it prints where, and its exit status.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/thread.h"
#include "bench/default_image.h"
#include "bench/designs.h"
#include "fs/block/file_device.h"
#include "fs/block/open_device.h"
#include "fs/flat/flat_header.h"

namespace tidewheel::bench {
namespace {

namespace stdfs = std::filesystem;

std::string program() {
  const char* path = std::getenv("TIDEWHEEL_PROGRAM");
  return path != nullptr ? path : TIDEWHEEL_PROGRAM;
}

std::string read_file(const stdfs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string pattern = (stdfs::temp_directory_path() / "tidewheel-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~ProgramTest() override { stdfs::remove_all(root_); }

  // Starts it in root_, standard output and error in files; wait() gives the exit status.
  pid_t start(std::vector<std::string> words, const std::function<void()>& before = {}) {
    words.insert(words.begin(), program());
    std::fflush(nullptr);  // or the child writes it once more
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(root_.c_str()) != 0 || freopen("stdout", "w", stdout) == nullptr ||
        freopen("stderr", "w", stderr) == nullptr) {
      _exit(99);
    }
    if (before) before();
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(98);
  }
  int wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run(const std::vector<std::string>& words, const std::function<void()>& before = {}) {
    return wait(start(words, before));
  }
  std::string out() { return read_file(root_ + "/stdout"); }
  std::string err() { return read_file(root_ + "/stderr"); }
  void expect_one_error_line(const std::string& begin) {
    const std::string text = err();
    EXPECT_EQ(text.rfind("tidewheel: " + begin, 0), 0U) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_EQ(out(), "");
  }

  std::string root_;
};

void expect_keys(const nlohmann::json& json, const std::vector<const char*>& keys) {
  for (const char* key : keys) EXPECT_TRUE(json.contains(key)) << "no key " << key;
}

void expect_fsmark_schema(const nlohmann::json& json) {
  EXPECT_EQ(json.at("schema"), "tidewheel.fsmark/1");
  expect_keys(json, {"version",
                     "machine",
                     "command",
                     "seed",
                     "started",
                     "design",
                     "target",
                     "threads",
                     "round",
                     "files",
                     "size",
                     "wall_s",
                     "user_s",
                     "sys_s",
                     "machine_cpu_s",
                     "other_cpu_s",
                     "steal_s",
                     "final_sync_s",
                     "files_per_s",
                     "sum_of_threads_per_s",
                     "threads_files",
                     "owners",
                     "loops",
                     "phases",
                     "memory",
                     "load_points",
                     "configuration",
                     "series",
                     "latency_ns",
                     "locks",
                     "dirty_list",
                     "writeback",
                     "throttle",
                     "device",
                     "write_amplification",
                     "log",
                     "ail",
                     "buffers",
                     "transactions",
                     "errors"});
  expect_keys(json.at("machine"), {"cpus", "model", "memory_bytes", "kernel"});
  expect_keys(json.at("memory"), {"limit", "resident_peak", "pages", "inodes", "buffers"});
  expect_keys(json.at("load_points"), {"below_background", "below_foreground", "sustained"});
  expect_keys(json.at("latency_ns"), {"create", "write", "close", "fsync", "stat", "read", "unlink",
                                      "mark_dirty", "throttle_pause"});
  expect_keys(json.at("latency_ns").at("create"), {"count", "p50", "p90", "p99", "p999", "max"});
  for (const auto& loop : json.at("loops")) expect_keys(loop, {"files", "files_per_s"});
  for (const auto& phase : json.at("phases")) {
    expect_keys(phase, {"name", "ops", "ops_per_s", "cpu_us_per_op"});
  }
  if (!json.at("throttle").is_null()) {
    expect_keys(json.at("throttle"), {"policy", "pauses", "ns", "most_charged_bytes", "limit_bytes"});
    expect_keys(json.at("dirty_list"), {"inserts", "redirties", "removals", "detached_buckets",
                                        "elements_under_lock", "max_elements_per_hold"});
    expect_keys(json.at("writeback"),
                {"works", "objects", "pages", "io_bytes", "ios", "batches", "oldest_age_max_ms"});
    expect_keys(json.at("device"), {"reads", "writes", "read_bytes", "write_bytes", "flushes", "by_cause"});
    expect_keys(json.at("device").at("by_cause"), {"data", "log", "metadata"});
    expect_keys(json.at("configuration").at("writeback"), {"throttle", "owners", "shards", "flushers"});
  }
  for (const auto& lock : json.at("locks")) {
    expect_keys(lock, {"name", "acquisitions", "contended", "wait_ns_total", "hold_ns_p99", "hold_ns_total",
                       "hold_samples"});
  }
  for (const char* none : {"log", "ail", "buffers", "transactions"}) {
    EXPECT_TRUE(json.at(none).is_null()) << none;
  }
}

TEST_F(ProgramTest, UsageErrorsAreOneLineAndStatus2) {
  EXPECT_EQ(run({}), 2);
  expect_one_error_line("no subcommand");
  EXPECT_EQ(run({"frob"}), 2);
  expect_one_error_line("'frob'");
  EXPECT_EQ(run({"mount", "x", "y"}), 2);
  expect_one_error_line("mount: not in this version");
  EXPECT_EQ(run({"fsmark", "-n", "x"}), 2);
  expect_one_error_line("-n: 'x' is not accepted: a whole number from 1 to 1000000000");
  EXPECT_EQ(run({"compare", "--designs", "heap"}), 2);
  expect_one_error_line("--designs: 'heap' is not accepted: ");
  EXPECT_TRUE(stdfs::is_empty(root_ + "/stdout"));
}

TEST_F(ProgramTest, HelpAndVersionGoToStandardOutput) {
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(out().rfind("tidewheel ", 0), 0U);
  EXPECT_EQ(run({"fsmark", "--help"}), 0);
  for (const char* option :
       {"-d",       "-t",       "-n",           "-s",       "-w",       "-L",
        "-D",       "-N",       "-S",           "-k",       "-F",       "-p",
        "-r",       "-l",       "-v",           "--phases", "--verify", "--zero",
        "--seed",   "--flat",   "--posix",      "--image",  "--ram",    "--null",
        "--design", "--memory", "--background", "--dirty",  "--json",   "--interval-csv"}) {
    EXPECT_NE(out().find(option), std::string::npos) << option;
  }
  EXPECT_EQ(err(), "");
}

TEST_F(ProgramTest, RunFailuresAreOneLineAndStatus1) {
  EXPECT_EQ(run({"fsmark", "--posix", "-d", root_ + "/missing/deep"}), 1);
  expect_one_error_line("-d " + root_ + "/missing/deep: No such file or directory");
  EXPECT_EQ(run({"fsmark", "--posix", "-d", root_ + "/d", "-l", root_ + "/no/log"}), 1);
  expect_one_error_line("-l " + root_ + "/no/log: No such file or directory");
  EXPECT_EQ(run({"fsmark", "--posix", "-d", root_ + "/d", "--json", root_ + "/no/json"}), 1);
  expect_one_error_line("--json " + root_ + "/no/json: No such file or directory");
  EXPECT_EQ(run({"fsmark", "--posix", "-d", root_ + "/d", "--interval-csv", root_ + "/no/csv"}), 1);
  expect_one_error_line("--interval-csv " + root_ + "/no/csv: No such file or directory");
  stdfs::create_symlink("loop", root_ + "/loop");
  EXPECT_EQ(run({"fsmark", "--image", "loop"}), 1);
  expect_one_error_line("--image loop: ");
}

TEST_F(ProgramTest, JsonOnStandardOutputComesAlone) {
  ASSERT_EQ(run({"fsmark", "--posix", "-d", "d", "-n", "50", "-s", "100", "--json", "-"}), 0) << err();
  const auto json = nlohmann::json::parse(out(), nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << out();
  expect_fsmark_schema(json);
  EXPECT_EQ(json.at("files"), 50);
  EXPECT_EQ(json.at("latency_ns").at("fsync").at("count"), 50);
  EXPECT_TRUE(json.at("latency_ns").at("stat").is_null()) << "a call that did not occur";
  EXPECT_EQ(err(), "") << "no progress where there is no terminal";
}

TEST_F(ProgramTest, TheLogIsAppendedWithTheSameText) {
  ASSERT_EQ(run({"fsmark", "--posix", "-d", "d", "-n", "5", "-l", "log"}), 0);
  const std::string first = out();
  EXPECT_EQ(read_file(root_ + "/log"), first);
  ASSERT_EQ(run({"fsmark", "--posix", "-d", "d", "-n", "5", "-l", "log"}), 0);
  EXPECT_EQ(read_file(root_ + "/log"), first + out());
  EXPECT_NE(first.find("FSUse%        Count         Size    Files/sec     App Overhead\n"),
            std::string::npos);
  EXPECT_NE(first.find("\nAverage Files/sec: "), std::string::npos);
}

TEST_F(ProgramTest, IntervalCsvHasItsHeaderAndWholeRows) {
  ASSERT_EQ(run({"fsmark", "--posix", "-d", "d", "-n", "50", "--interval-csv", "csv"}), 0);
  std::istringstream lines(read_file(root_ + "/csv"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line,
            "time_s,files,files_per_s,dirty_bytes,writeback_bytes,write_iops,write_mb_per_s,log_bytes,"
            "throttled_threads,"
            "oldest_dirty_age_ms");
  int rows = 0;
  std::string last;
  while (std::getline(lines, line)) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 9) << line;
    ++rows;
    last = line;
  }
  EXPECT_GE(rows, 1);
  EXPECT_NE(last.find(",50,"), std::string::npos) << "the last row has all files: " << last;
}

TEST_F(ProgramTest, TraceOfARunIsInOrderAndSaysWhatItLost) {
  const std::vector<std::string> words = {"fsmark", "--ram",  "64M", "--memory", "64M", "--background",
                                          "4M",     "--dirty", "8M",  "-t",       "2",   "-n",
                                          "4000",   "-s",      "4k",  "-S",       "0",   "--device-bandwidth",
                                          "64M",    "--trace"};
  std::vector<std::string> lines = words, json = words;
  lines.emplace_back("trace");
  json.emplace_back("trace.json");
  ASSERT_EQ(run(lines), 0) << err();
  std::istringstream text(read_file(root_ + "/trace"));
  std::set<std::string> seen;
  std::string line;
  double last = 0;
  while (std::getline(text, line)) {
    if (line.front() == '#') continue;
    const std::size_t flags = line.find("] ..... ");
    ASSERT_NE(flags, std::string::npos) << line;
    char* end = nullptr;
    const double at = std::strtod(line.c_str() + flags + 8, &end);
    EXPECT_GE(at, last) << line;
    last = at;
    seen.insert(std::string(end + 2, std::strchr(end + 2, ':')));
  }
  for (const char* name : {"writeback_dirty_inode", "writeback_queue", "writeback_queue_io",
                           "writeback_start", "writeback_single_inode_start", "writeback_single_inode",
                           "writeback_written",
                           "balance_dirty_pages", "global_dirty_state"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
  ASSERT_EQ(run(json), 0) << err();
  const auto parsed = nlohmann::json::parse(read_file(root_ + "/trace.json"), nullptr, false);
  ASSERT_FALSE(parsed.is_discarded());
  int begun = 0, ended = 0;
  for (const auto& event : parsed.at("traceEvents")) {
    begun += event.at("ph") == "b" ? 1 : 0;
    ended += event.at("ph") == "e" ? 1 : 0;
  }
  EXPECT_GT(begun, 0);
  EXPECT_EQ(begun, ended);
  EXPECT_EQ(run({"fsmark", "--ram", "16M", "--trace", "nowhere/x"}), 1);
  expect_one_error_line("--trace nowhere/x: ");
}

TEST_F(ProgramTest, ComparePageHoldsTheFiguresAndShowsNamesAsText) {
  const std::string name = "<script>alert(1)</script>";
  ASSERT_TRUE(stdfs::create_directories(root_ + "/" + stdfs::path(name + ".json").parent_path().string()));
  ASSERT_EQ(run({"compare", "--ram", "16M", "--memory", "16M", "-t", "1", "--rounds", "1", "-n", "20",
                 "--designs", "timer-wheel", "-d", "/0", "--json", name + ".json", "--html", name + ".html"}),
            0)
      << err();
  const std::string page = read_file(root_ + "/" + name + ".html");
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0U);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;.json"), std::string::npos);
  EXPECT_NE(page.find("model, uncalibrated"), std::string::npos);
  EXPECT_FALSE(read_file(root_ + "/" + name + ".json").empty());
  EXPECT_NE(out().find("HTML: "), std::string::npos);
  // Both outputs are looked at before any work is done.
  EXPECT_EQ(run({"compare", "--ram", "16M", "-n", "20", "--html", "nowhere/x.html"}), 1);
  expect_one_error_line("--html nowhere/x.html: ");
  // The page alone on standard output.
  ASSERT_EQ(run({"compare", "--ram", "16M", "--memory", "16M", "-t", "1", "--rounds", "1", "-n", "20",
                 "--designs", "timer-wheel", "-d", "/0", "--html", "-"}),
            0);
  EXPECT_EQ(out().rfind("<!DOCTYPE html>", 0), 0U);
  EXPECT_EQ(out().substr(out().size() - 8), "</html>\n");
}

TEST_F(ProgramTest, CompareSetsDesignsSideBySide) {
  ASSERT_EQ(
      run({"compare", "--ram",     "64M", "--memory", "64M", "--background", "4M",   "--dirty",
           "8M",      "--threads", "1,2", "--rounds", "2",   "-n",           "1000", "--device-bandwidth",
           "64M",     "-d",        "/0",  "--json",   "json"}),
      0)
      << err();
  const auto json = nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("schema"), "tidewheel.compare/1");
  expect_keys(json,
              {"version", "machine", "command", "seed", "started", "runs", "summary", "device_bandwidth"});
  const std::vector<std::string> designs = design_names();
  ASSERT_EQ(json.at("runs").size(), designs.size() * 2 * 2);
  for (const auto& one : json.at("runs")) {
    expect_fsmark_schema(one);
    EXPECT_EQ(one.at("target"), "flat");
    EXPECT_TRUE(one.at("errors").empty());
    EXPECT_FALSE(one.at("dirty_list").is_null());
    EXPECT_FALSE(one.at("locks").empty());
    const auto& series = one.at("series");
    for (const char* column :
         {"files", "device_write_bytes", "dirty_bytes", "writeback_bytes", "throttled_threads"}) {
      EXPECT_EQ(series.at(column).size(), series.at("time_s").size()) << column;
    }
    EXPECT_EQ(series.at("files").back(), one.at("files"));
    EXPECT_EQ(series.at("dirty_bytes").back(), 0) << "the final sync is part of it";
    EXPECT_EQ(one.at("configuration").at("writeback").at("dirty_bytes"), 8 << 20);
  }
  EXPECT_EQ(json.at("model").at("calibrated"), false);
  ASSERT_EQ(json.at("model").at("designs").size(), designs.size());
  for (const auto& model : json.at("model").at("designs")) {
    EXPECT_EQ(model.at("ceilings").size(), 8U);
    EXPECT_GT(model.at("ceilings").front().at("files_per_s"), 0);
  }
  EXPECT_NE(out().find("MODEL, uncalibrated"), std::string::npos);
  // Interleaved: each round holds every design once, beginning with another one.
  EXPECT_NE(json.at("runs")[0].at("design"), json.at("runs")[designs.size() * 2].at("design"));
  ASSERT_EQ(json.at("summary").size(), designs.size() * 2);
  for (const auto& row : json.at("summary")) {
    expect_keys(row, {"design", "threads", "median", "low", "high"});
    EXPECT_LE(row.at("low"), row.at("median"));
    EXPECT_LE(row.at("median"), row.at("high"));
  }
  for (const std::string& design : designs) EXPECT_NE(out().find(design), std::string::npos) << design;
  for (const char* line :
       {"below background", "below foreground", "sustained", "contended", "elements per hold"}) {
    EXPECT_NE(out().find(line), std::string::npos) << line;
  }
}

TEST_F(ProgramTest, CompareWithJsonOnStandardOutputSaysNothingElse) {
  ASSERT_EQ(run({"compare", "--ram", "64M", "--memory", "64M", "-t", "1", "--designs", "timer-wheel",
                 "--rounds", "1", "-n", "100", "--json", "-"}),
            0)
      << err();
  EXPECT_FALSE(nlohmann::json::parse(out(), nullptr, false).is_discarded()) << out();
  EXPECT_EQ(err(), "");
}

TEST_F(ProgramTest, AFailedRunFailsTheComparisonWithOneLine) {
  EXPECT_EQ(run({"compare", "--ram", "1M", "--memory", "64M", "-t", "1", "--designs", "timer-wheel",
                 "--rounds", "1", "-n", "10000", "--device-bandwidth", "64M", "--json", "-"}),
            1);
  const std::string text = err();
  EXPECT_EQ(text.rfind("tidewheel: round 1 of 1, timer-wheel, 1 thread, failed: ", 0), 0U) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

// What is said of a run in two ways is the same in both, wherever the run was cut short.
void expect_figures_agree(const nlohmann::json& json) {
  const std::uint64_t files = json.at("files");
  const std::uint64_t threads = json.at("threads");
  const std::uint64_t bytes = json.at("size");
  std::uint64_t of_loops = 0;
  double create_s = 0;
  for (const auto& loop : json.at("loops")) {
    const std::uint64_t made = loop.at("files");
    const double rate = loop.at("files_per_s");
    of_loops += made;
    if (made != 0) create_s += static_cast<double>(made) / rate;
  }
  EXPECT_EQ(of_loops, files);
  EXPECT_GE(json.at("threads_files").at("fastest"), json.at("threads_files").at("slowest"));
  ASSERT_FALSE(json.at("phases").empty());
  EXPECT_EQ(json.at("phases")[0].at("name"), "create");
  EXPECT_EQ(json.at("phases")[0].at("ops"), files);
  if (files != 0) {
    EXPECT_NEAR(static_cast<double>(files) / json.at("files_per_s").get<double>(), create_s, 0.01 * create_s);
  }
  // One file of each thread was under way when it was told to end.
  for (const char* call : {"create", "close"}) {
    const auto& latency = json.at("latency_ns").at(call);  // null: told to end before there was any
    const std::uint64_t calls = latency.is_null() ? 0 : latency.at("count").get<std::uint64_t>();
    EXPECT_GE(calls, files) << call;
    EXPECT_LE(calls, files + threads) << call;
  }
  const double wall_s = json.at("wall_s"), sync_s = json.at("final_sync_s");
  EXPECT_GE(wall_s * 1.001, create_s + sync_s);
  if (json.at("target") != "flat") return;
  EXPECT_GE(json.at("device").at("write_bytes"), files * bytes) << "the final sync has written all of them";
  EXPECT_EQ(json.at("writeback").at("io_bytes"), files * bytes);
  const auto& series = json.at("series");
  EXPECT_EQ(series.at("files").back(), files);
  EXPECT_EQ(series.at("dirty_bytes").back(), 0);
  EXPECT_EQ(series.at("writeback_bytes").back(), 0);
  EXPECT_TRUE(std::is_sorted(series.at("files").begin(), series.at("files").end()));
  double in_points = 0;
  for (const auto& [name, point] : json.at("load_points").items()) {
    if (!point.is_null()) in_points += point.at("seconds").get<double>();
  }
  EXPECT_LE(in_points, wall_s * 1.001) << "the load points are parts of the run";
}

// Loops that are through, one that is cut short, and nothing after it: no verification, no other phase.
TEST_F(ProgramTest, FiguresOfAnInterruptedRunAgreeAndSaySo) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child =
        start({"fsmark", "--image", "image", "--size", "1G", "--memory", "64M", "-k", "-t", "2", "-n", "500",
               "-L", "1000", "-S", "0", "-s", "4k", "--device-bandwidth", "8M", "--dirty", "4M",
               "--background", "2M", "--verify", "--phases", "create,stat", "--json", "json"});
    // Two rows and more behind the header: it is in the middle of the loops.
    const auto rows = [&] {
      const std::string text = out();
      return std::count(text.begin(), text.end(), '\n');
    };
    long header = 0;
    for (int i = 0; i < 3000; ++i) {
      const std::string text = out();
      const std::size_t title = text.find("FSUse%");
      header = title == std::string::npos ? 0 : std::count(text.begin(), text.begin() + title, '\n') + 1;
      if (header != 0 && rows() >= header + 3) break;
      sleep_for(milliseconds(10));
    }
    kill(child, signal);
    EXPECT_EQ(wait(child), 0) << err();
    const auto json = nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false);
    ASSERT_FALSE(json.is_discarded());
    expect_fsmark_schema(json);
    EXPECT_EQ(json.at("interrupted"), true);
    EXPECT_EQ(json.at("full"), false);
    EXPECT_TRUE(json.at("verified_files").is_null()) << "--verify did not take place";
    EXPECT_EQ(json.at("phases").size(), 1U);
    EXPECT_LT(json.at("loops").size(), 1000U);
    expect_figures_agree(json);
    // The rows are the loops; the last counts all files.
    const std::string text = out();
    EXPECT_NE(text.find("\n# interrupted: figures are of what was done until then\n"), std::string::npos);
    std::istringstream lines(text.substr(text.find("FSUse%")));
    std::string line;
    std::getline(lines, line);
    std::uint64_t count = 0, loops = 0;
    for (std::uint64_t used = 0, last = 0; std::getline(lines, line);) {
      std::istringstream columns(line);
      if (!(columns >> used >> last)) break;
      count = last;
      ++loops;
    }
    EXPECT_EQ(loops, json.at("loops").size());
    EXPECT_EQ(count, json.at("files"));
    auto device = open_device({.kind = DeviceSpec::Kind::kFile, .path = root_ + "/image"});
    ASSERT_TRUE(device);
    const auto flat = read_header(**device);
    ASSERT_TRUE(flat);
    EXPECT_EQ(flat->state, FlatHeader::State::kClean);
    EXPECT_EQ(json.at("files"), flat->files) << "what is counted is what is there";
    stdfs::remove(root_ + "/image");
    stdfs::remove(root_ + "/stdout");  // or the next one seems to be under way already
  }
}

// The first run was whole, the second is cut short: the medians, the model and the page know of one.
TEST_F(ProgramTest, AnInterruptedComparisonHoldsTheRunsThatWereComplete) {
  const pid_t child = start({"compare", "--ram", "256M", "--memory", "64M", "-t", "1", "--rounds", "3", "-n",
                             "4000", "-s", "4k", "--designs", "timer-wheel,single-list", "--dirty", "4M",
                             "--background", "2M", "--device-bandwidth", "8M", "--json", "json", "--html",
                             "page.html"});
  // A line for each run that is through: each takes two seconds, of the device's time.
  for (int i = 0; i < 6000 && err().find("files/s, ") == std::string::npos; ++i) sleep_for(milliseconds(10));
  sleep_for(milliseconds(300));  // into the next one
  kill(child, SIGINT);
  EXPECT_EQ(wait(child), 0) << err();
  const auto json = nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("interrupted"), true);
  std::map<std::string, std::vector<double>> whole;
  std::size_t cut_short = 0;
  for (const auto& run : json.at("runs")) {
    expect_figures_agree(run);
    if (run.at("interrupted") == true) {
      ++cut_short;
      EXPECT_LT(run.at("files"), 4000);
    } else {
      EXPECT_EQ(run.at("files"), 4000);
      whole[run.at("design")].push_back(run.at("files_per_s"));
    }
  }
  EXPECT_EQ(cut_short, 1U) << "it is kept, and says what it is";
  EXPECT_EQ(whole.count("timer-wheel"), 1U);
  for (const auto& row : json.at("summary")) {
    const std::vector<double>& rates = whole[row.at("design")];
    ASSERT_FALSE(rates.empty()) << "a row of no complete run: " << row;
    EXPECT_DOUBLE_EQ(row.at("low"), *std::min_element(rates.begin(), rates.end()));
    EXPECT_DOUBLE_EQ(row.at("high"), *std::max_element(rates.begin(), rates.end()));
  }
  for (const auto& model : json.at("model").at("designs")) {
    EXPECT_EQ(model.at("rounds"), whole[model.at("design")].size());
  }
  EXPECT_NE(out().find("interrupted: the table holds the runs that were complete\n"), std::string::npos);
  EXPECT_NE(read_file(root_ + "/page.html").find("<strong>Interrupted.</strong>"), std::string::npos);
}

// As fs_mark's flags say: until full. An empty file takes its place in the index, so a device ends too.
TEST_F(ProgramTest, EmptyFilesFillAStoreToo) {
  ASSERT_EQ(run({"fsmark", "--image", "image", "--size", "1M", "--memory", "64M", "-F", "-k", "-n", "5000",
                 "-s", "0", "-S", "0", "--verify", "--json", "json"}),
            0)
      << err();
  const auto json = nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("full"), true);
  EXPECT_EQ(json.at("files"), 255 * 170) << "of 255 blocks beside the header";
  EXPECT_EQ(json.at("verified_files"), json.at("files"));
}

TEST_F(ProgramTest, CtrlCOnAnImageLeavesItMountable) {
  const pid_t child =
      start({"fsmark", "--image", "image", "--size", "8G", "-n", "1000000", "-L", "1000", "-S", "0", "-s",
             "4k", "--device-bandwidth", "16M", "--memory", "64M", "--interval-csv", "csv"});
  for (int i = 0; i < 3000 && read_file(root_ + "/csv").size() < 200; ++i) sleep_for(milliseconds(10));
  kill(child, SIGINT);
  EXPECT_EQ(wait(child), 0) << err();
  EXPECT_NE(out().find("\n# interrupted"), std::string::npos);
  auto device = open_device({.kind = DeviceSpec::Kind::kFile, .path = root_ + "/image"});
  ASSERT_TRUE(device);
  const auto header = read_header(**device);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->state, FlatHeader::State::kClean);
  EXPECT_GT(header->files, 0U);
}

TEST_F(ProgramTest, CtrlCPrintsWhatWasMeasured) {
  const pid_t child = start({"fsmark", "--posix", "-d", "d", "-n", "1000000", "-L", "1000", "-S", "0", "-s",
                             "0", "--json", "json"});
  // Until it has made a file, which it does for hours.
  for (int i = 0; i < 3000 && (!stdfs::exists(root_ + "/d") || stdfs::is_empty(root_ + "/d")); ++i) {
    sleep_for(milliseconds(10));
  }
  kill(child, SIGINT);
  EXPECT_EQ(wait(child), 0);
  EXPECT_NE(out().find("\n# interrupted"), std::string::npos);
  const auto json = nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("interrupted"), true);
  EXPECT_GT(json.at("files"), 0);
  EXPECT_EQ(json.at("files"),
            std::distance(stdfs::directory_iterator(root_ + "/d"), stdfs::directory_iterator{}));
}

const std::vector<std::string> kSmallRun = {"fsmark", "--ram", "64M", "--memory", "64M",
                                            "-n",     "5",     "-s",  "100"};

std::vector<std::string> operator+(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(ProgramTest, ALostReportIsAnError) {
  const auto onto = [](const char* path) {
    return [path] {
      const int fd = open(path, O_WRONLY);
      dup2(fd, STDOUT_FILENO);
    };
  };
  const auto close_it = [] { close(STDOUT_FILENO); };
  const auto onto_nobody = [] {
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]), close(ends[1]);
  };
  for (const auto& words : {kSmallRun,
                            {"--help"},
                            kSmallRun + std::vector<std::string>{"--json", "-"},
                            {"compare", "--ram", "64M", "--memory", "64M", "-n", "5", "-t", "1", "--rounds",
                             "1", "--designs", "timer-wheel", "--device-bandwidth", "64M"}}) {
    EXPECT_EQ(run(words, onto("/dev/full")), 1) << words.front();
    EXPECT_NE(err().find("standard output: No space left on device\n"), std::string::npos) << err();
    EXPECT_EQ(run(words, close_it), 1) << words.front();
    EXPECT_NE(err().find("standard output: Bad file descriptor\n"), std::string::npos) << err();
    EXPECT_EQ(run(words, onto_nobody), 1) << words.front();
    EXPECT_NE(err().find("standard output: Broken pipe\n"), std::string::npos) << err();
  }
}

// SIGXFSZ does not kill it.
TEST_F(ProgramTest, AnOutputThatMayNotGrowIsAnError) {
  const auto little_room = [] {
    const rlimit little{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &little);
  };
  EXPECT_EQ(run(kSmallRun + std::vector<std::string>{"--json", "json"}, little_room), 1);
  EXPECT_NE(err().find("json: File too large\n"), std::string::npos) << err();
}

TEST_F(ProgramTest, AClosedStandardOutputIsNotTheImage) {
  EXPECT_EQ(run({"fsmark", "--image", "image", "--size", "64M", "--memory", "64M", "-n", "5", "-s", "100"},
                [] { close(STDIN_FILENO), close(STDOUT_FILENO); }), 1);
  auto device = open_device({.kind = DeviceSpec::Kind::kFile, .path = root_ + "/image"}).value();
  EXPECT_EQ(read_header(*device).value().state, FlatHeader::State::kClean);
}

TEST_F(ProgramTest, JsonIsReplacedAsAWhole) {
  std::ofstream(root_ + "/json") << "old";
  EXPECT_EQ(run({"fsmark", "--ram", "1M", "--memory", "64M", "-n", "5", "-s", "4M", "--json", "json", "-l",
                 "/no/log"}),
            1);
  EXPECT_EQ(read_file(root_ + "/json"), "old") << "a run that never began";
  stdfs::create_symlink("json", root_ + "/link");
  EXPECT_EQ(run(kSmallRun + std::vector<std::string>{"--json", "link"}), 0) << err();
  EXPECT_TRUE(stdfs::is_symlink(root_ + "/link"));
  EXPECT_FALSE(nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false).is_discarded());
  std::size_t files = 0;
  for (const auto& entry : stdfs::directory_iterator(root_)) {
    files += entry.path().filename().string().starts_with("json") ? 1 : 0;
  }
  EXPECT_EQ(files, 1U) << "no temporary file stays";
}

TEST_F(ProgramTest, ADefaultLogThatCannotBeMadeIsOnlyAWarning) {
  stdfs::create_directory(root_ + "/fs_log.txt");
  EXPECT_EQ(run(kSmallRun), 0);
  EXPECT_EQ(err(), "tidewheel: fs_log.txt: Is a directory: this run keeps no log\n");
  EXPECT_EQ(run(kSmallRun + std::vector<std::string>{"-l", "fs_log.txt"}), 1);
  expect_one_error_line("-l fs_log.txt: Is a directory");
}

TEST_F(ProgramTest, MemoryThatTheMachineHasNotIsNamed) {
  EXPECT_EQ(run({"fsmark", "--ram", "64M", "--memory", "100T"}), 2);
  expect_one_error_line("--memory: '100T' is not accepted: a size from 16M to ");
  EXPECT_EQ(run({"fsmark", "--ram", "1P", "-n", "1", "-l", "/dev/null"}), 1);
  expect_one_error_line("--ram 1P: the system does not give so much memory");
}

// The first thread that does not fit is one of the device's, then a flusher, the sampler, a worker.
TEST_F(ProgramTest, ThreadsThatTheSystemRefusesAreOneLine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space that this test takes away";
#endif
  constexpr std::uint64_t kStack = 16ULL << 30;
  bool whole = false;
  int refused = 0;
  for (std::uint64_t fitting = 0; fitting < 30 && !whole; ++fitting) {
    const auto little = [fitting] {
      const rlimit stack{kStack, kStack};
      const rlimit all{fitting * kStack + kStack / 2, fitting * kStack + kStack / 2};
      if (setrlimit(RLIMIT_STACK, &stack) != 0 || setrlimit(RLIMIT_AS, &all) != 0) _exit(97);
    };
    const int status = run({"fsmark", "--image", "image", "--size", "64M", "--memory", "64M", "-n", "5", "-s",
                            "100", "-t", "4", "--device-bandwidth", "1G", "-l", "/dev/null"},
                           little);
    whole = status == 0;
    if (whole) break;
    EXPECT_EQ(status, 1) << fitting;
    ++refused;
    const std::string text = err();
    EXPECT_EQ(text.rfind("tidewheel: threads: the system allows no further thread", 0), 0U)
        << fitting << ": " << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
  EXPECT_TRUE(whole) << err();
  EXPECT_GE(refused, 7) << "a flusher, two of the device, the sampler and four workers";
}

TEST_F(ProgramTest, TheDefaultImageIsTakenOnlyWhenItIsFreeAndOurs) {
  const std::vector<std::string> words = {"fsmark", "--size", "64M", "--memory", "64M",
                                          "-n",     "5",      "-s",  "100"};
  const std::vector<std::string> comparison = {"compare", "--size",    "64M",        "--memory", "64M",
                                               "-n",      "5",         "-t",         "1",        "--rounds",
                                               "1",       "--designs", "timer-wheel"};
  const std::string image = root_ + "/out/default.img";
  ASSERT_EQ(run(words), 0) << err();
  struct stat before, after;
  ASSERT_EQ(stat(image.c_str(), &before), 0);
  ASSERT_EQ(run(words), 0) << err();
  ASSERT_EQ(stat(image.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  {
    const auto user = FileDevice::open({.path = image}).value();
    for (const auto& one : {words, comparison}) {
      EXPECT_EQ(run(one), 1);
      EXPECT_NE(err().find("out/default.img: it is in use"), std::string::npos) << err();
      EXPECT_TRUE(stdfs::exists(image));
    }
  }
  ASSERT_EQ(run(comparison), 0) << err();
  EXPECT_FALSE(stdfs::exists(image)) << "compare takes it away";
  // Somebody's data, behind 2 MiB of zeros.
  std::ofstream(image) << std::string(2 << 20, '\0') << "letters";
  const std::string content = read_file(image);
  for (const auto& one : {words, comparison}) {
    EXPECT_EQ(run(one), 1);
    EXPECT_NE(err().find("out/default.img: what it holds is neither nothing nor a flat store"),
              std::string::npos)
        << err();
    EXPECT_EQ(read_file(image), content);
  }
}

TEST_F(ProgramTest, ASecondRunInTheFolderIsToldThatTheDefaultImageIsInUse) {
  const pid_t child = start({"fsmark", "-n", "1000000", "-L", "1000", "-S", "0", "-s", "4k",
                             "--device-bandwidth", "16M", "--memory", "64M", "--interval-csv", "csv"});
  for (int i = 0; i < 3000 && read_file(root_ + "/csv").size() < 200; ++i) sleep_for(milliseconds(10));
  const pid_t second = fork();
  if (second == 0) {
    if (chdir(root_.c_str()) != 0 || freopen("stderr2", "w", stderr) == nullptr) _exit(99);
    execl(program().c_str(), program().c_str(), "compare", "--rounds", "1", "--json", "-", nullptr);
    _exit(98);
  }
  EXPECT_EQ(wait(second), 1);
  EXPECT_EQ(read_file(root_ + "/stderr2").rfind("tidewheel: out/default.img: it is in use by another run", 0),
            0U);
  kill(child, SIGINT);
  EXPECT_EQ(wait(child), 0) << err();
}

TEST_F(ProgramTest, ATerminalIsToldWhatASyncAfterCtrlCHasLeftAndHowToStopIt) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const std::string name = ptsname(terminal);
  const pid_t child = start({"fsmark", "--ram", "256M", "-n", "100000", "-L", "1000", "-S", "0", "-s", "16k",
                             "--device-bandwidth", "1M", "--memory", "256M", "--interval-csv", "csv"},
                            [&] {
                              const int fd = open(name.c_str(), O_RDWR | O_NOCTTY);
                              if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(96);
                            });
  for (int i = 0; i < 3000 && read_file(root_ + "/csv").size() < 150; ++i) sleep_for(milliseconds(10));
  kill(child, SIGINT);
  std::string said;
  const auto has = [&](const char* text) { return said.find(text) != std::string::npos; };
  for (int i = 0; i < 1000 && !(has("final sync: 2 s") && has("M left (Ctrl-C again")); ++i) {
    char chunk[4096];
    const ssize_t n = read(terminal, chunk, sizeof chunk);
    if (n > 0) said.append(chunk, static_cast<std::size_t>(n));
    if (n <= 0) sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(has("M left (Ctrl-C again to stop at once)")) << said;
  kill(child, SIGINT);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  close(terminal);
}

// The run of a comparison is a process of its own, which must not go on with its sync, and keep the image.
TEST_F(ProgramTest, ARunOfAComparisonEndsWithIt) {
  for (const int signal : {SIGKILL, SIGINT}) {
    const pid_t parent = start({"compare", "--size", "256M", "--memory", "256M", "--threads", "1", "--rounds",
                                "1", "--designs", "timer-wheel", "-n", "20000", "-s", "4k",
                                "--device-bandwidth", "1M"});
    const std::string image = root_ + "/out/default.img";
    for (int i = 0; i < 3000 && !(stdfs::exists(image) && stdfs::file_size(image) != 0); ++i) {
      sleep_for(milliseconds(10));
    }
    sleep_for(milliseconds(300));  // until something is dirty
    kill(parent, signal);
    if (signal == SIGINT) {
      sleep_for(milliseconds(300));
      kill(parent, signal);
    }
    int status = 0;
    ASSERT_EQ(waitpid(parent, &status, 0), parent);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    bool free = false;
    for (int i = 0; i < 500 && !free; ++i) {
      free = std::holds_alternative<DefaultImage>(DefaultImage::lock(image)) &&
             FileDevice::open({.path = image, .create = false}).has_value();
      if (!free) sleep_for(milliseconds(10));
    }
    EXPECT_TRUE(free) << "the image is in use 5 s later";
  }
}

TEST_F(ProgramTest, AFolderForTheDefaultImageThatCannotBeMadeIsSaid) {
  std::ofstream(root_ + "/out") << "a file";
  EXPECT_EQ(run({"fsmark", "-n", "1", "-l", "/dev/null"}), 1);
  expect_one_error_line("out for out/default.img: Not a directory");
}

TEST_F(ProgramTest, CalibrationFitsTheDeviceAndTheFilesAskedFor) {
  EXPECT_EQ(run({"compare", "--ram", "64M", "-n", "5", "--threads", "1", "--rounds", "1", "--designs",
                 "timer-wheel"}),
            0)
      << err();
  EXPECT_EQ(run({"compare", "--ram", "16M", "--threads", "1", "--rounds", "1", "--designs", "timer-wheel"}),
            0)
      << err();
}

// A folder of 20 MB that is full after as many.
class FullDiskTest : public ProgramTest {
 protected:
  void SetUp() override {
    stdfs::create_directory(root_ + "/disk");
    if (mount("none", (root_ + "/disk").c_str(), "tmpfs", 0, "size=20m") != 0) {
      GTEST_SKIP() << "mounting a tmpfs is not allowed here";
    }
    mounted_ = true;
  }
  ~FullDiskTest() override {
    if (mounted_) umount2((root_ + "/disk").c_str(), MNT_DETACH);
  }
  bool mounted_ = false;
};

TEST_F(FullDiskTest, AFullHostDiskIsOneLine) {
  EXPECT_EQ(run({"fsmark", "--image", "disk/image", "--size", "1G", "-n", "60000", "-S", "0", "-s", "4k",
                 "--memory", "256M", "-l", "/dev/null"}, [] { alarm(120); }), 1);
  const std::string text = err();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("no space left on the device"), std::string::npos) << text;
}

TEST_F(FullDiskTest, TheFirstSignalEndsARunOnAFullHostDisk) {
  const pid_t child = start({"fsmark", "--image", "disk/image", "--size", "1G", "-n", "60000", "-S", "0",
                             "-s", "4k", "-t", "4", "-l", "/dev/null", "--interval-csv", "csv"},
                            [] { alarm(120); });
  for (int i = 0; i < 300 && read_file(root_ + "/csv").size() < 150; ++i) sleep_for(milliseconds(10));
  kill(child, SIGTERM);
  EXPECT_EQ(wait(child), 1) << "what was acknowledged could not be written";
  EXPECT_NE(out().find("Average Files/sec"), std::string::npos) << out();
}

}  // namespace
}  // namespace tidewheel::bench
