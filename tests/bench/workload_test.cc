#include "bench/workload.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <functional>

#include "bench/interrupt.h"
#include "tests/bench/fake_target.h"

namespace tidewheel::bench {
namespace {

using Lines = std::vector<std::string>;

FsmarkOptions small(std::uint32_t threads, std::uint64_t files) {
  FsmarkOptions options;
  options.workload.directories = {"/0"};
  options.workload.threads = threads;
  options.workload.files_per_thread = files;
  options.workload.file_bytes = 10;
  options.workload.write_bytes = 4;
  options.workload.sync_method = 0;
  options.workload.keep = true;
  options.workload.name_bytes = 13;  // the number alone: names come in order
  options.workload.random_bytes = 13;
  return options;
}

std::string name_of(std::uint64_t number) {
  std::string name(13, '0');
  const char* digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (std::size_t i = 13; i-- > 0 && number != 0; number /= 36) name[i] = digits[number % 36];
  return "0:" + name;
}

RunResult run(const FsmarkOptions& options, FakeTarget& target, RunWatch watch = {}) {
  return run_workload(options, target, watch);
}

TEST(Workload, EachFileIsMadeWrittenInPiecesAndClosed) {
  FakeTarget target;
  const RunResult result = run(small(1, 2), target);
  EXPECT_EQ(target.log(),
            (Lines{"create " + name_of(0), "write 4", "write 4", "write 2", "close " + name_of(0),
                   "create " + name_of(1), "write 4", "write 4", "write 2", "close " + name_of(1), "sync "}));
  EXPECT_EQ(result.files, 2U);
  EXPECT_EQ(result.workload_bytes, 20U);
  EXPECT_EQ(result.calls[static_cast<std::size_t>(Call::kWrite)].count, 6U);
  EXPECT_EQ(result.latencies[static_cast<std::size_t>(Call::kCreate)].count(), 2U);
  EXPECT_TRUE(result.errors.empty());
}

TEST(Workload, AnEmptyFileGetsOneWriteOfNothing) {
  FakeTarget target;
  FsmarkOptions options = small(1, 1);
  options.workload.file_bytes = 0;
  EXPECT_TRUE(run(options, target).errors.empty());
  EXPECT_EQ(target.log_of("write"), Lines{"0"});
}

TEST(Workload, SyncMethodsActInTheirOrderOnTheTargetAlone) {
  const Lines forward = {name_of(0), name_of(1), name_of(2)};
  const Lines backward = {name_of(2), name_of(1), name_of(0)};
  const struct {
    std::uint32_t method;
    std::size_t syncs;  // beside the final one
    Lines fsyncs;
  } table[] = {{0, 0, {}},       {1, 0, forward}, {2, 1, {name_of(0)}}, {3, 0, backward},
               {4, 1, backward}, {5, 0, forward}, {6, 1, forward}};
  for (const auto& row : table) {
    FakeTarget target;
    FsmarkOptions options = small(1, 3);
    options.workload.sync_method = row.method;
    const RunResult result = run(options, target);
    EXPECT_EQ(target.log_of("fsync"), row.fsyncs) << "-S " << row.method;
    EXPECT_EQ(target.log_of("sync").size(), row.syncs + 1) << "-S " << row.method;
    const Lines log = target.log();
    if (row.method >= 2) {
      const auto last_create = std::find(log.rbegin(), log.rend(), "create " + name_of(2));
      const auto first_fsync =
          std::find_if(log.begin(), log.end(), [](const auto& l) { return l.rfind("fsync", 0) == 0; });
      EXPECT_LT(last_create.base(), first_fsync) << "after the loop";
      if (row.syncs == 1) {
        EXPECT_LT(std::find(log.begin(), log.end(), "sync "), first_fsync) << "sync comes first";
      }
      EXPECT_EQ(target.log_of("open").size(), row.fsyncs.size());
      EXPECT_EQ(target.log_of("close").size(), 3 + row.fsyncs.size());
    }
    EXPECT_EQ(target.open_files(), 0U);
    EXPECT_EQ(result.calls[static_cast<std::size_t>(Call::kFsync)].count, row.fsyncs.size());
  }
}

TEST(Workload, TheTargetIsSyncedOncePerLoopHoweverManyThreads) {
  FakeTarget target;
  FsmarkOptions options = small(5, 3);
  options.workload.sync_method = 6;
  options.workload.loops = 2;
  EXPECT_TRUE(run(options, target).errors.empty());
  EXPECT_EQ(target.log_of("sync").size(), 2U + 1U);
  EXPECT_EQ(target.log_of("fsync").size(), 30U);
}

TEST(Workload, WithoutKeepingEachThreadUnlinksItsFilesInCreationOrder) {
  FakeTarget target;
  FsmarkOptions options = small(1, 3);
  options.workload.keep = false;
  EXPECT_TRUE(run(options, target).errors.empty());
  EXPECT_EQ(target.log_of("unlink"), (Lines{name_of(0), name_of(1), name_of(2)}));
  EXPECT_TRUE(target.files().empty());
}

TEST(Workload, ThreadsShareDirectoriesAndNeverANumber) {
  FakeTarget target;
  FsmarkOptions options = small(6, 50);
  options.workload.directories = {"/0", "/1", "/2"};
  options.workload.loops = 3;
  std::vector<std::uint64_t> counts;
  RunWatch watch;
  watch.on_loop = [&](const LoopResult& loop, std::uint64_t count) {
    EXPECT_EQ(loop.files, 300U);
    counts.push_back(count);
  };
  const RunResult result = run(options, target, watch);
  EXPECT_EQ(result.files, 900U);
  EXPECT_EQ(target.files().size(), 900U);
  EXPECT_EQ(counts, (std::vector<std::uint64_t>{300, 600, 900}));
  std::map<char, int> per_directory;
  for (const auto& [key, content] : target.files()) {
    EXPECT_EQ(content.size(), 10U);
    ++per_directory[key[0]];
  }
  EXPECT_EQ(per_directory, (std::map<char, int>{{'0', 300}, {'1', 300}, {'2', 300}}));
}

TEST(Workload, RoundRobinPutsThatManyFilesIntoASubdirectory) {
  FakeTarget target;
  FsmarkOptions options = small(1, 12);
  options.workload.subdirectories = 4;
  options.workload.files_per_subdirectory = 3;
  EXPECT_TRUE(run(options, target).errors.empty());
  EXPECT_EQ(target.subdirectories_made, 4U);
  std::map<std::string, int> per_subdirectory;
  for (const auto& [key, content] : target.files()) ++per_subdirectory[key.substr(2, 2)];
  EXPECT_EQ(per_subdirectory, (std::map<std::string, int>{{"00", 3}, {"01", 3}, {"02", 3}, {"03", 3}}));
}

TEST(Workload, WithoutRoundRobinALoopAndThreadHasOneSubdirectory) {
  FakeTarget target;
  FsmarkOptions options = small(1, 12);
  options.workload.subdirectories = 4;
  EXPECT_TRUE(run(options, target).errors.empty());
  std::set<std::string> used;
  for (const auto& [key, content] : target.files()) used.insert(key.substr(2, 2));
  EXPECT_EQ(used.size(), 1U);
}

TEST(Workload, PhasesRunInOrderAndAreCountedEach) {
  FakeTarget target;
  FsmarkOptions options = small(2, 5);
  options.workload.phases = {Phase::kCreate, Phase::kStat, Phase::kRead, Phase::kUnlink};
  const RunResult result = run(options, target);
  EXPECT_TRUE(result.errors.empty());
  ASSERT_EQ(result.phases.size(), 4U);
  const char* names[] = {"create", "stat", "read", "unlink"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.phases[i].name, names[i]);
    EXPECT_EQ(result.phases[i].ops, 10U);
  }
  EXPECT_EQ(target.log_of("read").size(), 10U * 3U);
  EXPECT_TRUE(target.files().empty());
}

TEST(Workload, VerifyReadsEveryByteAfterARemount) {
  FakeTarget target;
  FsmarkOptions options = small(2, 5);
  options.workload.verify = true;
  const RunResult result = run(options, target);
  EXPECT_TRUE(result.errors.empty());
  EXPECT_EQ(result.verified_files, 10U);
  const Lines log = target.log();
  EXPECT_LT(std::find(log.begin(), log.end(), "remount "), std::find(log.begin(), log.end(), "read 4"));
}

TEST(Workload, VerifyFindsAByteThatChanged) {
  FakeTarget target({.flip_byte_on_read = 7});
  FsmarkOptions options = small(1, 5);
  options.workload.verify = true;
  const RunResult result = run(options, target);
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_NE(result.errors[0].find("byte 7 is not what was written"), std::string::npos) << result.errors[0];
  EXPECT_FALSE(result.verified_files);
}

TEST(Workload, DataFollowsFromSeedFileAndOffset) {
  const auto content = [](std::uint64_t seed, std::uint64_t write_bytes, bool zero) {
    FakeTarget target({.names = false});
    FsmarkOptions options = small(1, 2);
    options.workload.seed = seed;
    options.workload.write_bytes = write_bytes;
    options.workload.file_bytes = 1000;
    options.workload.zero = zero;
    EXPECT_TRUE(run(options, target).errors.empty());
    return target.files();
  };
  const auto one = content(1, 16, false);
  EXPECT_EQ(one, content(1, 1000, false)) << "whatever the pieces";
  EXPECT_EQ(one, content(1, 7, false)) << "whatever the pieces";
  EXPECT_NE(one, content(2, 16, false));
  EXPECT_NE(one.at("t0/l0/n0"), one.at("t0/l0/n1"));
  for (const auto& [key, text] : content(1, 16, true)) EXPECT_EQ(text, std::string(1000, '\0'));
}

TEST(Workload, UntilFullEndsCleanlyAndKeepsWhatWasAcknowledged) {
  FakeTarget target({.capacity_bytes = 1234});
  FsmarkOptions options = small(4, 7);
  options.workload.until_full = true;
  options.workload.verify = true;
  const RunResult result = run(options, target);
  EXPECT_TRUE(result.full);
  EXPECT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(target.files().size(), result.files);
  for (const auto& [key, content] : target.files()) EXPECT_EQ(content.size(), 10U) << "no half file stays";
  EXPECT_EQ(result.verified_files, result.files);
  // Half files of other threads may stand in the way of the last ones, no more.
  EXPECT_GE(result.files, 123U - 4U);
  EXPECT_LE(result.files, 123U);
  EXPECT_EQ(target.open_files(), 0U);
}

TEST(Workload, WithoutUntilFullNoSpaceIsAnErrorWithOneLine) {
  FakeTarget target({.capacity_bytes = 25});
  const RunResult result = run(small(1, 7), target);
  EXPECT_FALSE(result.full);
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_NE(result.errors[0].find("no space left"), std::string::npos);
  EXPECT_EQ(target.files().size(), 2U);
}

TEST(Workload, OneFailedThreadFailsTheRunAndStopsTheOthers) {
  for (const char* call : {"create", "write", "fsync", "close"}) {
    for (const std::uint32_t method : {1U, 6U}) {
      FakeTarget target({.fail_call = call, .fail_at = 5});
      FsmarkOptions options = small(4, 100'000);
      options.workload.sync_method = method;
      if (method == 6) options.workload.files_per_thread = 20;
      const RunResult result = run(options, target);
      ASSERT_EQ(result.errors.size(), 1U) << call << " -S " << method;
      EXPECT_NE(result.errors[0].find(call), std::string::npos) << result.errors[0];
      EXPECT_NE(result.errors[0].find("the device reported an error"), std::string::npos) << result.errors[0];
      EXPECT_EQ(target.open_files(), 0U) << call;
      EXPECT_LT(result.files, 4U * 100'000U);
    }
  }
}

TEST(Workload, FailuresOfLaterPhasesAreReported) {
  const struct {
    const char* call;
    const char* line;
  } table[] = {{"stat", "stat "}, {"read", "read "}, {"unlink", "unlink "}, {"sync", "final sync: "}};
  for (const auto& row : table) {
    FakeTarget target({.fail_call = row.call, .fail_at = 1});
    FsmarkOptions options = small(2, 5);
    options.workload.phases = {Phase::kCreate, Phase::kStat, Phase::kRead, Phase::kUnlink};
    const RunResult result = run(options, target);
    ASSERT_FALSE(result.errors.empty()) << row.call;
    EXPECT_EQ(result.errors[0].rfind(row.line, 0), 0U) << result.errors[0];
    EXPECT_EQ(target.open_files(), 0U) << row.call;
  }
}

TEST(Workload, AFileThatExistsIsNeverTakenAgain) {
  FakeTarget target;
  FsmarkOptions options = small(1, 3);  // no time stamp in the names: a second run makes the same
  EXPECT_TRUE(run(options, target).errors.empty());
  const RunResult again = run(options, target);
  ASSERT_EQ(again.errors.size(), 1U);
  EXPECT_NE(again.errors[0].find("it exists already"), std::string::npos);
  EXPECT_EQ(target.files().size(), 3U) << "the first run's file is still there";
}

TEST(Workload, RunsOfOneSeedInOneSecondMakeOtherNames) {
  FakeTarget target;
  FsmarkOptions options = small(1, 3);
  for (const std::uint32_t name_bytes : {13U + 5U, 13U + 16U}) {  // the stamp's low digits, and all of it
    options.workload.name_bytes = name_bytes;
    for (int i = 0; i < 5; ++i) {
      const RunResult result = run(options, target);
      EXPECT_TRUE(result.errors.empty()) << result.errors.front();
    }
  }
  EXPECT_EQ(target.files().size(), 30U);
}

TEST(Workload, CtrlCEndsEarlyWithWhatWasMeasured) {
  clear_interrupt_for_test();
  catch_interrupts();
  std::uint64_t calls = 0;
  FakeTarget target({.on_call = [&calls](const std::string& call) {
    if (call == "create" && ++calls == 50) raise(SIGINT);
  }});
  FsmarkOptions options = small(1, 1'000'000'000);
  options.workload.sync_method = 6;
  options.workload.phases = {Phase::kCreate, Phase::kStat};
  options.workload.verify = true;
  const RunResult result = run(options, target);
  clear_interrupt_for_test();
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.errors.empty());
  EXPECT_EQ(result.files, 50U) << "the file being written is finished";
  EXPECT_EQ(result.loops.size(), 1U);
  EXPECT_TRUE(target.log_of("stat").empty()) << "further phases are left out";
  EXPECT_EQ(target.log().back(), "sync ") << "but what was made is synced";
}

TEST(Workload, CtrlCEndsACallThatWaitsForRoom) {
  clear_interrupt_for_test();
  catch_interrupts();
  std::uint64_t calls = 0;
  bool ended = false;
  FakeTarget* waited_for = nullptr;
  FakeTarget target({.fail_call = "write",
                     .fail_at = 8,
                     .fail_reason = Reason::kInterrupted,
                     .on_call = [&](const std::string& call) {
                       if (call != "write" || ++calls != 8) return;
                       raise(SIGINT);
                       ended = waited_for->wait_interrupted();
                     }});
  waited_for = &target;
  const RunResult result = run(small(1, 1'000'000'000), target);
  clear_interrupt_for_test();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.errors.empty()) << "to be told to end is no error";
  EXPECT_EQ(result.files, 2U);
  EXPECT_EQ(target.files().size(), 2U) << "the file that was being written is taken away";
}

TEST(Workload, CtrlCGivesUpAFileOfWhichMuchIsLeft) {
  clear_interrupt_for_test();
  catch_interrupts();
  std::uint64_t calls = 0;
  FakeTarget target({.on_call = [&calls](const std::string& call) {
    if (call == "write" && ++calls == 2) raise(SIGINT);
  }});
  FsmarkOptions options = small(1, 1000);
  options.workload.file_bytes = 128ULL << 20;
  options.workload.write_bytes = 1ULL << 20;
  options.workload.zero = true;
  const RunResult result = run(options, target);
  clear_interrupt_for_test();
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.errors.empty()) << "to be told to end is no error";
  EXPECT_EQ(result.files, 0U);
  EXPECT_EQ(calls, 2U) << "nothing more of it is written";
  EXPECT_TRUE(target.files().empty()) << "and what was is taken away";
}

TEST(Workload, CtrlCInsideALargeFileThatIsReadDoesNotCountIt) {
  for (const bool verify : {false, true}) {
    clear_interrupt_for_test();
    catch_interrupts();
    std::uint64_t calls = 0;
    FakeTarget target({.on_call = [&calls](const std::string& call) {
      if (call == "read" && ++calls == 2) raise(SIGINT);
    }});
    FsmarkOptions options = small(1, 1);
    options.workload.file_bytes = 128ULL << 20;
    options.workload.write_bytes = 1ULL << 20;
    options.workload.verify = verify;
    options.workload.phases = {Phase::kCreate};
    if (!verify) options.workload.phases.push_back(Phase::kRead);
    const RunResult result = run(options, target);
    clear_interrupt_for_test();
    EXPECT_TRUE(result.interrupted);
    EXPECT_TRUE(result.errors.empty());
    EXPECT_EQ(calls, 2U) << "nothing more of it is read";
    EXPECT_EQ(result.verified_files.value_or(0), 0U) << "a part is not the file";
    EXPECT_EQ(target.open_files(), 0U);
  }
}

}  // namespace
}  // namespace tidewheel::bench
