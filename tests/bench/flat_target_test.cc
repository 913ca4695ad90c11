#include "bench/flat_target.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/designs.h"
#include "bench/workload.h"
#include "fs/block/open_device.h"
#include "fs/flat/flat_header.h"

namespace tidewheel::bench {
namespace {

namespace stdfs = std::filesystem;

FsmarkOptions on_ram(std::uint64_t bytes) {
  FsmarkOptions o;
  o.device.kind = DeviceKind::kRam;
  o.device.ram_bytes = bytes;
  o.workload.directories = {"/0"};
  o.workload.threads = 2;
  o.workload.files_per_thread = 500;
  o.workload.file_bytes = 4096;
  o.workload.sync_method = 0;
  o.workload.keep = true;
  o.writeback.memory_bytes = 64ULL << 20;
  o.writeback.background_bytes = 6ULL << 20;
  o.writeback.dirty_bytes = 12ULL << 20;
  return o;
}

RunResult run(const FsmarkOptions& o) {
  auto made = make_flat_target(o);
  if (auto* why = std::get_if<std::string>(&made)) {
    ADD_FAILURE() << *why;
    return {};
  }
  RunResult result = run_workload(o, *std::get<0>(made), {});
  EXPECT_TRUE(std::get<0>(made)->shut_down().has_value());
  return result;
}

TEST(FlatTarget, EveryDesignKeepsEveryByteThroughARemount) {
  for (const std::string& design : design_names()) {
    FsmarkOptions o = on_ram(64ULL << 20);
    o.writeback.design = design;
    o.workload.file_bytes = 9000;
    o.workload.write_bytes = 4000;
    o.workload.loops = 2;
    o.workload.verify = true;
    const RunResult result = run(o);
    ASSERT_TRUE(result.errors.empty()) << design << ": " << result.errors.front();
    EXPECT_EQ(result.files, 2000U) << design;
    EXPECT_EQ(result.verified_files, 2000U) << design;
    EXPECT_EQ(result.design, design);
    ASSERT_TRUE(result.figures.device && result.figures.dirty_list && result.figures.writeback) << design;
    EXPECT_GE(result.figures.device->write_bytes, 2000U * 9000U) << design;
    EXPECT_GE(result.figures.dirty_list->inserts, 2000U) << design;
  }
}

TEST(FlatTarget, PhasesAndEverySyncMethodWork) {
  for (std::uint32_t method = 0; method <= 6; ++method) {
    FsmarkOptions o = on_ram(32ULL << 20);
    o.workload.files_per_thread = 50;
    o.workload.sync_method = method;
    o.workload.phases = {Phase::kCreate, Phase::kStat, Phase::kRead, Phase::kUnlink};
    const RunResult result = run(o);
    ASSERT_TRUE(result.errors.empty()) << "-S " << method << ": " << result.errors.front();
    for (const PhaseResult& phase : result.phases) EXPECT_EQ(phase.ops, 100U) << phase.name;
  }
}

TEST(FlatTarget, EmptyFilesAreFilesToo) {
  FsmarkOptions o = on_ram(16ULL << 20);
  o.workload.file_bytes = 0;
  o.workload.verify = true;
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(result.verified_files, 1000U);
}

TEST(FlatTarget, UntilFullKeepsAllThatWasAcknowledged) {
  FsmarkOptions o = on_ram(16ULL << 20);
  o.workload.threads = 4;
  o.workload.until_full = true;
  o.workload.files_per_thread = 100;
  o.workload.file_bytes = 3 * 4096;
  o.workload.write_bytes = 4096;
  o.workload.verify = true;
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_TRUE(result.full);
  EXPECT_EQ(result.verified_files, result.files);
  EXPECT_GE(result.files, (16U << 20) / (3 * 4096) * 9 / 10) << "the device was not full";
}

TEST(FlatTarget, ASlowDeviceShowsAllThreeLoadPoints) {
  // 500 files a second: far below what the writers make on any machine, under any sanitizer.
  FsmarkOptions o = on_ram(64ULL << 20);
  o.device.bandwidth = 2ULL << 20;
  o.writeback.background_bytes = 512ULL << 10;
  o.writeback.dirty_bytes = 1ULL << 20;
  o.workload.files_per_thread = 600;
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  ASSERT_TRUE(result.load_points_known);
  ASSERT_TRUE(result.load_points.below_background && result.load_points.sustained);
  EXPECT_TRUE(result.load_points.below_foreground);
  EXPECT_GT(result.load_points.sustained->write_mb_per_s, 0);
  ASSERT_TRUE(result.figures.throttle);
  EXPECT_GT(result.figures.throttle->pauses, 0U);
}

TEST(FlatTarget, EveryThrottleHoldsItsWritersAndSaysSo) {
  for (const char* throttle : {"hard-limit", "linux", "delay-curve"}) {
    SCOPED_TRACE(throttle);
    FsmarkOptions o = on_ram(64ULL << 20);
    o.device.bandwidth = 4ULL << 20;
    o.writeback.background_bytes = 512ULL << 10;
    o.writeback.dirty_bytes = 1ULL << 20;
    o.writeback.throttle = throttle;
    o.workload.threads = 2;
    o.workload.files_per_thread = 400;
    const RunResult result = run(o);
    ASSERT_TRUE(result.errors.empty()) << result.errors.front();
    ASSERT_TRUE(result.figures.throttle);
    EXPECT_EQ(result.figures.throttle->policy, throttle);
    EXPECT_GT(result.figures.throttle->pauses, 0U);
    ASSERT_TRUE(result.figures.throttle_pause);
    EXPECT_GT(result.figures.throttle_pause->count, 0U);
    EXPECT_GT(result.threads_files.fastest, 0U);
    EXPECT_LE(result.threads_files.fastest, o.workload.files_per_thread);
    EXPECT_LE(result.threads_files.slowest, result.threads_files.fastest);
    EXPECT_EQ(result.figures.throttle->limit_bytes, 1U << 20);
    EXPECT_GT(result.figures.throttle->most_charged_bytes, 512U << 10);
    EXPECT_LE(result.figures.throttle->most_charged_bytes, 1U << 20);
  }
}

TEST(FlatTarget, OwnersHaveFiguresOfTheirOwn) {
  FsmarkOptions o = on_ram(64ULL << 20);
  o.writeback.owners = 2;
  o.workload.directories = {"/0", "/1"};
  o.workload.threads = 4;
  o.workload.files_per_thread = 30;
  o.workload.loops = 2;
  o.workload.keep = true;
  o.workload.verify = true;  // over a remount, after which the contexts are others
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  ASSERT_EQ(result.owners.size(), 2U);
  ASSERT_EQ(result.figures.owners.size(), 2U);
  std::uint64_t inserts = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(result.owners[i].threads, 2U);
    EXPECT_EQ(result.owners[i].files, 2U * 30 * 2);
    EXPECT_GT(result.owners[i].files_per_s(), 0);
    EXPECT_GE(result.figures.owners[i].dirty_list.inserts, 120U);
    EXPECT_GE(result.figures.owners[i].writeback.objects, 120U);
    inserts += result.figures.owners[i].dirty_list.inserts;
  }
  EXPECT_EQ(inserts, result.figures.dirty_list->inserts);
  EXPECT_EQ(result.verified_files.value_or(0), 240U);
  o.writeback.owners = 1;
  EXPECT_TRUE(run(o).owners.empty());
}

TEST(FlatTarget, WithoutUntilFullAFullDeviceIsOneError) {
  FsmarkOptions o = on_ram(4ULL << 20);
  o.workload.files_per_thread = 10'000;
  const RunResult result = run(o);
  ASSERT_FALSE(result.errors.empty());
  EXPECT_NE(result.errors[0].find("no space left"), std::string::npos) << result.errors[0];
}

class ImageTest : public testing::Test {
 protected:
  ImageTest() {
    std::string pattern = (stdfs::temp_directory_path() / "tidewheel-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~ImageTest() override { stdfs::remove_all(root_); }
  FsmarkOptions on_image(const std::string& path) {
    FsmarkOptions o = on_ram(0);
    o.device.kind = DeviceKind::kImage;
    o.device.image_path = path;
    o.device.image_is_default = false;
    return o;
  }
  std::string root_;
};

TEST_F(ImageTest, AnImageIsMadeSparseVerifiedAndLeftMountable) {
  FsmarkOptions o = on_image(root_ + "/image");
  o.device.image_bytes = 64ULL << 20;
  o.workload.verify = true;
  const RunResult result = run(o);
  ASSERT_TRUE(result.errors.empty()) << result.errors.front();
  EXPECT_EQ(result.verified_files, 1000U);
  EXPECT_EQ(stdfs::file_size(root_ + "/image"), 64U << 20);
  auto device = open_device({.kind = DeviceSpec::Kind::kFile, .path = root_ + "/image"});
  ASSERT_TRUE(device);
  const auto header = read_header(**device);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->state, FlatHeader::State::kClean);
  EXPECT_EQ(header->files, 1000U);
}

TEST_F(ImageTest, WhatIsNotOursIsRefusedAndNotTouched) {
  const std::string path = root_ + "/letters";
  std::ofstream(path) << std::string(8 << 20, 'x');
  auto made = make_flat_target(on_image(path));
  ASSERT_TRUE(std::holds_alternative<std::string>(made));
  EXPECT_EQ(std::get<std::string>(made).rfind("--image " + path + ": ", 0), 0U)
      << std::get<std::string>(made);
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), std::string(8 << 20, 'x'));
}

TEST_F(ImageTest, ADirectoryOrAMissingPathIsOneLine) {
  for (const std::string& path : {root_, root_ + "/missing/image"}) {
    FsmarkOptions o = on_image(path);
    o.device.image_bytes = 16ULL << 20;
    auto made = make_flat_target(o);
    ASSERT_TRUE(std::holds_alternative<std::string>(made)) << path;
    EXPECT_EQ(std::get<std::string>(made).rfind("--image " + path + ": ", 0), 0U)
        << std::get<std::string>(made);
  }
}

}  // namespace
}  // namespace tidewheel::bench
