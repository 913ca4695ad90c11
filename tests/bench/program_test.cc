// The built program from outside: what it prints where, and its exit status.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/thread.h"
#include "bench/designs.h"
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
  pid_t start(std::vector<std::string> words) {
    words.insert(words.begin(), program());
    std::fflush(nullptr);  // or the child writes it once more
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(root_.c_str()) != 0 || freopen("stdout", "w", stdout) == nullptr || freopen("stderr", "w", stderr) == nullptr) {
      _exit(99);
    }
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
  int run(const std::vector<std::string>& words) { return wait(start(words)); }
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
  expect_keys(json, {"version", "machine", "command", "seed", "started", "design", "target", "threads", "round", "files",
                     "size", "wall_s", "user_s", "sys_s", "machine_cpu_s", "other_cpu_s", "steal_s", "final_sync_s",
                     "files_per_s", "sum_of_threads_per_s", "loops", "phases", "memory", "load_points", "latency_ns",
                     "locks", "dirty_list", "writeback", "throttle", "device", "write_amplification", "log", "ail",
                     "buffers", "transactions", "errors"});
  expect_keys(json.at("machine"), {"cpus", "model", "memory_bytes", "kernel"});
  expect_keys(json.at("memory"), {"limit", "resident_peak", "pages", "inodes", "buffers"});
  expect_keys(json.at("load_points"), {"below_background", "below_foreground", "sustained"});
  expect_keys(json.at("latency_ns"), {"create", "write", "close", "fsync", "stat", "read", "unlink", "mark_dirty", "throttle_pause"});
  expect_keys(json.at("latency_ns").at("create"), {"count", "p50", "p90", "p99", "p999", "max"});
  for (const auto& loop : json.at("loops")) expect_keys(loop, {"files", "files_per_s"});
  for (const auto& phase : json.at("phases")) expect_keys(phase, {"name", "ops", "ops_per_s", "cpu_us_per_op"});
  for (const char* none : {"log", "ail", "buffers", "transactions"}) EXPECT_TRUE(json.at(none).is_null()) << none;
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
  for (const char* option : {"-d", "-t", "-n", "-s", "-w", "-L", "-D", "-N", "-S", "-k", "-F", "-p", "-r", "-l", "-v",
                             "--phases", "--verify", "--zero", "--seed", "--flat", "--posix", "--image", "--ram",
                             "--null", "--design", "--memory", "--background", "--dirty", "--json", "--interval-csv"}) {
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
  EXPECT_NE(first.find("FSUse%        Count         Size    Files/sec     App Overhead\n"), std::string::npos);
  EXPECT_NE(first.find("\nAverage Files/sec: "), std::string::npos);
}

TEST_F(ProgramTest, IntervalCsvHasItsHeaderAndWholeRows) {
  ASSERT_EQ(run({"fsmark", "--posix", "-d", "d", "-n", "50", "--interval-csv", "csv"}), 0);
  std::istringstream lines(read_file(root_ + "/csv"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line,
            "time_s,files,files_per_s,dirty_bytes,writeback_bytes,write_iops,write_mb_per_s,log_bytes,throttled_threads,"
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

TEST_F(ProgramTest, CompareSetsDesignsSideBySide) {
  ASSERT_EQ(run({"compare", "--ram", "64M", "--memory", "64M", "--background", "4M", "--dirty", "8M", "--threads", "1,2",
                 "--rounds", "2", "-n", "1000", "--device-bandwidth", "64M", "-d", "/0", "--json", "json"}), 0) << err();
  const auto json = nlohmann::json::parse(read_file(root_ + "/json"), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("schema"), "tidewheel.compare/1");
  expect_keys(json, {"version", "machine", "command", "seed", "started", "runs", "summary", "device_bandwidth"});
  const std::vector<std::string> designs = design_names();
  ASSERT_EQ(json.at("runs").size(), designs.size() * 2 * 2);
  for (const auto& one : json.at("runs")) {
    expect_fsmark_schema(one);
    EXPECT_EQ(one.at("target"), "flat");
    EXPECT_TRUE(one.at("errors").empty());
    EXPECT_FALSE(one.at("dirty_list").is_null());
    EXPECT_FALSE(one.at("locks").empty());
  }
  // Interleaved: each round holds every design once, beginning with another one.
  EXPECT_NE(json.at("runs")[0].at("design"), json.at("runs")[designs.size() * 2].at("design"));
  ASSERT_EQ(json.at("summary").size(), designs.size() * 2);
  for (const auto& row : json.at("summary")) {
    expect_keys(row, {"design", "threads", "median", "low", "high"});
    EXPECT_LE(row.at("low"), row.at("median"));
    EXPECT_LE(row.at("median"), row.at("high"));
  }
  for (const std::string& design : designs) EXPECT_NE(out().find(design), std::string::npos) << design;
  for (const char* line : {"below background", "below foreground", "sustained", "contended", "elements per hold"}) {
    EXPECT_NE(out().find(line), std::string::npos) << line;
  }
}

TEST_F(ProgramTest, CompareWithJsonOnStandardOutputSaysNothingElse) {
  ASSERT_EQ(run({"compare", "--ram", "64M", "--memory", "64M", "-t", "1", "--designs", "timer-wheel", "--rounds", "1",
                 "-n", "100", "--json", "-"}), 0) << err();
  EXPECT_FALSE(nlohmann::json::parse(out(), nullptr, false).is_discarded()) << out();
  EXPECT_EQ(err(), "");
}

TEST_F(ProgramTest, AFailedRunFailsTheComparisonWithOneLine) {
  EXPECT_EQ(run({"compare", "--ram", "1M", "--memory", "64M", "-t", "1", "--designs", "timer-wheel", "--rounds", "1",
                 "-n", "10000", "--device-bandwidth", "64M", "--json", "-"}), 1);
  const std::string text = err();
  EXPECT_EQ(text.rfind("tidewheel: round 1 of 1, timer-wheel, 1 thread, failed: ", 0), 0U) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(ProgramTest, CtrlCOnAnImageLeavesItMountable) {
  const pid_t child = start({"fsmark", "--image", "image", "--size", "8G", "-n", "1000000", "-L", "1000", "-S", "0", "-s",
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
  const pid_t child = start({"fsmark", "--posix", "-d", "d", "-n", "1000000", "-L", "1000", "-S", "0", "-s", "0",
                             "--json", "json"});
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
  EXPECT_EQ(json.at("files"), std::distance(stdfs::directory_iterator(root_ + "/d"), stdfs::directory_iterator{}));
}

}  // namespace
}  // namespace tidewheel::bench
