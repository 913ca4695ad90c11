#include "bench/posix_target.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/workload.h"

namespace tidewheel::bench {
namespace {

namespace stdfs = std::filesystem;

class PosixTargetTest : public testing::Test {
 protected:
  PosixTargetTest() {
    std::string pattern = (stdfs::temp_directory_path() / "tidewheel-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~PosixTargetTest() override { stdfs::remove_all(root_); }

  FsmarkOptions options() {
    FsmarkOptions o;
    o.target = TargetKind::kPosix;
    o.workload.directories = {root_ + "/a", root_ + "/b"};
    o.workload.threads = 4;
    o.workload.files_per_thread = 20;
    o.workload.file_bytes = 10'000;
    o.workload.write_bytes = 4096;
    o.workload.keep = true;
    return o;
  }
  std::vector<stdfs::path> files_below(const std::string& path) {
    std::vector<stdfs::path> found;
    for (const auto& entry : stdfs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }
  RunResult run(const FsmarkOptions& o) {
    auto made = make_posix_target(o.workload.directories);
    EXPECT_TRUE(std::holds_alternative<std::unique_ptr<WorkloadTarget>>(made));
    return run_workload(o, *std::get<0>(made), {});
  }

  std::string root_;
};

TEST_F(PosixTargetTest, FilesAreThereWithNameSizeAndContent) {
  FsmarkOptions o = options();
  o.workload.verify = true;
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(result.verified_files, 80U);
  for (const char* directory : {"/a", "/b"}) {
    const auto files = files_below(root_ + directory);
    EXPECT_EQ(files.size(), 40U);
    for (const auto& file : files) {
      EXPECT_EQ(stdfs::file_size(file), 10'000U);
      EXPECT_EQ(file.filename().string().size(), 40U);
    }
  }
}

TEST_F(PosixTargetTest, AFileChangedOnDiskIsFound) {
  FsmarkOptions o = options();
  ASSERT_TRUE(run(o).errors.empty());
  auto made = make_posix_target(o.workload.directories);
  const auto files = files_below(root_);
  // Through the access of a second run: the name as the first one made it, one byte changed.
  std::fstream file(files.front(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000);
  file.put('x');
  file.close();
  auto access = std::get<0>(made)->make_thread(0);
  const std::string name = files.front().filename().string();
  const FileRef ref{.thread = 0,
                    .loop = 0,
                    .number = 0,
                    .directory = files.front().parent_path().filename() == "a" ? 0U : 1U,
                    .path = name.c_str()};
  const auto handle = access->open(ref);
  ASSERT_TRUE(handle);
  std::vector<std::byte> content(10'000);
  ASSERT_EQ(access->read(*handle, 0, content).value(), 10'000U);
  EXPECT_EQ(content[5000], std::byte{'x'});
  EXPECT_TRUE(access->close(*handle));
}

TEST_F(PosixTargetTest, WithoutKeepingOnlyDirectoriesStay) {
  FsmarkOptions o = options();
  o.workload.keep = false;
  o.workload.subdirectories = 3;
  o.workload.files_per_subdirectory = 2;
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_TRUE(files_below(root_).empty());
  for (const char* name : {"/a/00", "/a/01", "/a/02", "/b/00"}) {
    EXPECT_TRUE(stdfs::is_directory(root_ + name)) << name;
  }
}

TEST_F(PosixTargetTest, PhasesAllWork) {
  FsmarkOptions o = options();
  o.workload.phases = {Phase::kCreate, Phase::kStat, Phase::kRead, Phase::kUnlink};
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  for (const PhaseResult& phase : result.phases) EXPECT_EQ(phase.ops, 80U) << phase.name;
  EXPECT_TRUE(files_below(root_).empty());
  EXPECT_FALSE(result.load_points_known) << "the kernel does not say when it passed its thresholds";
}

TEST_F(PosixTargetTest, EverySyncMethodWorksOnRealFiles) {
  for (std::uint32_t method = 0; method <= 6; ++method) {
    FsmarkOptions o = options();
    o.workload.sync_method = method;
    o.workload.keep = false;
    const RunResult result = run(o);
    EXPECT_TRUE(result.errors.empty()) << "-S " << method << ": " << result.errors.front();
  }
}

TEST_F(PosixTargetTest, OnlyTheLastPathComponentIsMade) {
  auto made = make_posix_target({root_ + "/missing/deep"});
  ASSERT_TRUE(std::holds_alternative<std::string>(made));
  EXPECT_EQ(std::get<std::string>(made), "-d " + root_ + "/missing/deep: No such file or directory");
  std::ofstream(root_ + "/file") << "x";
  made = make_posix_target({root_ + "/file"});
  ASSERT_TRUE(std::holds_alternative<std::string>(made));
  EXPECT_EQ(std::get<std::string>(made), "-d " + root_ + "/file: Not a directory");
}

}  // namespace
}  // namespace tidewheel::bench
