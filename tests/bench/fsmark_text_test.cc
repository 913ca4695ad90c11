// The text is compared letter for letter with what fs_mark 3.3 prints for the same options.
#include "bench/fsmark_text.h"

#include <gtest/gtest.h>

namespace tidewheel::bench {
namespace {

FsmarkOptions options_for(std::vector<std::string> command) {
  FsmarkOptions options;
  options.command = std::move(command);
  options.workload.directories = {"/a"};
  return options;
}

TEST(FsmarkText, HeaderHasTheLinesOfTheOriginalAndOneMore) {
  FsmarkOptions options = options_for({"fs_mark", "-d", "/a", "-n", "10", "-s", "100"});
  options.workload.file_bytes = 100;
  EXPECT_EQ(
      fsmark_header(options, "Mon Nov 30 15:18:03 2026", "flat on RAM"),
      "\n#  fs_mark  -d  /a  -n  10  -s  100 \n"
      "#\tVersion 3.3, 1 thread(s) starting at Mon Nov 30 15:18:03 2026\n"
      "#\tSync method: INBAND FSYNC: fsync() per file in write loop.\n"
      "#\tDirectories:  no subdirectories used\n"
      "#\tFile names: 40 bytes long, (16 initial bytes of time stamp with 24 random bytes at end of name)\n"
      "#\tFiles info: size 100 bytes, written with an IO size of 16384 bytes per write\n"
      "#\tApp overhead is time in microseconds spent in the test not doing file writing related system "
      "calls.\n"
      "#\tTarget: flat on RAM\n"
      "\n"
      "FSUse%        Count         Size    Files/sec     App Overhead\n");
}

TEST(FsmarkText, VerboseHeaderHasSixMoreColumns) {
  FsmarkOptions options = options_for({"fs_mark"});
  options.workload.verbose = true;
  const std::string text = fsmark_header(options, "now", "t");
  EXPECT_NE(text.find("#\tAll system call times are reported in microseconds.\n"), std::string::npos);
  EXPECT_EQ(
      text.substr(text.find("FSUse%")),
      "FSUse%        Count         Size    Files/sec     App Overhead        CREAT (Min/Avg/Max)        "
      "WRITE "
      "(Min/Avg/Max)        FSYNC (Min/Avg/Max)         SYNC (Min/Avg/Max)        CLOSE (Min/Avg/Max)       "
      "UNLINK (Min/Avg/Max)\n");
}

TEST(FsmarkText, SubdirectoriesAreNamedAsTheOriginalDoes) {
  FsmarkOptions options = options_for({"fs_mark"});
  options.workload.subdirectories = 4;
  EXPECT_NE(
      fsmark_header(options, "now", "t")
          .find(
              "#\tDirectories:  Time based hash between directories across 4 subdirectories with 180 seconds "
              "per subdirectory.\n"),
      std::string::npos);
  options.workload.files_per_subdirectory = 3;
  EXPECT_NE(
      fsmark_header(options, "now", "t")
          .find("#\tDirectories:  Round Robin between directories across 4 subdirectories with 3 files per "
                "subdirectory.\n"),
      std::string::npos);
}

TEST(FsmarkText, EachSyncMethodHasItsLine) {
  const char* lines[] = {
      "NO SYNC: Test does not issue sync() or fsync() calls.",
      "INBAND FSYNC: fsync() per file in write loop.",
      "SYSTEM SYNC/SINGLE FSYNC: Issue sync() after main write loop and 1 file fsync() per subdirectory.",
      "POST REVERSE: Reopen and fsync() each file in reverse order after main write loop.",
      "SYNC POST REVERSE: Issue sync() and then reopen and fsync() each file in reverse order after main "
      "write loop.",
      "POST: Reopen and fsync() each file in order after main write loop.",
      "SYNC POST: Issue sync() and then reopen and fsync() each file in order after main write loop."};
  for (std::uint32_t method = 0; method <= 6; ++method) {
    FsmarkOptions options = options_for({"fs_mark"});
    options.workload.sync_method = method;
    EXPECT_NE(fsmark_header(options, "now", "t").find("#\tSync method: " + std::string(lines[method]) + "\n"),
              std::string::npos)
        << method;
  }
}

TEST(FsmarkText, RowHasTheWidthsOfTheOriginal) {
  WorkloadOptions workload;
  workload.file_bytes = 4096;
  LoopResult loop;
  loop.files = 1000;
  loop.seconds = 1000 / 51234.5;
  loop.app_overhead_us = 123456;
  loop.used_percent = 2;
  EXPECT_EQ(fsmark_row(workload, loop, 20000),
            "     2        20000         4096      51234.5           123456\n");
  workload.verbose = true;
  loop.calls[static_cast<std::size_t>(Call::kCreate)] = {
      .count = 2, .total_ns = 18'000, .min_ns = 7'000, .max_ns = 17'000};
  EXPECT_EQ(fsmark_row(workload, loop, 20000),
            "     2        20000         4096      51234.5           123456        7        9       17       "
            " 0        0"
            "        0        0        0        0        0        0        0        0        0        0      "
            "  0        0"
            "        0\n");
}

TEST(FsmarkText, SumOfThreadsIsALineAfterTheAverageNeverAColumn) {
  std::vector<LoopResult> loops(3);
  const double rates[] = {100, 300, 200};
  for (std::size_t i = 0; i < 3; ++i) {
    loops[i].files = static_cast<std::uint64_t>(rates[i]);
    loops[i].seconds = 1;
    loops[i].sum_of_threads_per_s = rates[i] * 1.5;
  }
  EXPECT_EQ(fsmark_footer(loops),
            "Average Files/sec:        200.0\n"
            "sum of threads   :        300.0\n"
            "p50 Files/sec: 200\n"
            "p90 Files/sec: 100\n"
            "p99 Files/sec: 100\n");
  EXPECT_EQ(fsmark_footer({}), "");
}

TEST(FsmarkText, EachOfSeveralOwnersHasALine) {
  RunResult result;
  EXPECT_EQ(fsmark_owners(result), "");
  result.owners = {{.threads = 1, .files = 50, .seconds = 0.5}, {.threads = 2, .files = 100, .seconds = 4}};
  result.figures.owners.resize(1);
  result.figures.owners[0].writeback = {.works = 1, .objects = 51, .pages = 52, .batches = 3};
  EXPECT_EQ(fsmark_owners(result),
            "owner 0: 1 thread, 50 files, 100.0 files/s; written: 51 objects, 52 pages in 3 batches\n"
            "owner 1: 2 threads, 100 files, 25.0 files/s\n");
}

}  // namespace
}  // namespace tidewheel::bench
