#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/thread.h"
#include "fs/block/file_device.h"
#include "fs/block/open_device.h"
#include "tests/base/no_threads.h"
#include "tests/fs/io.h"
#include "tests/fs/scratch.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kMiB = 1ULL << 20;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Reason open_reason(const FileDeviceOptions& options) { return FileDevice::open(options).error().code; }

TEST(FileDeviceOpen, MakesASparseImage) {
  ScratchFolder scratch;
  auto device = FileDevice::open({.path = scratch.file("image"), .size_bytes = 64ULL << 30}).value();
  EXPECT_TRUE(device->created());
  EXPECT_EQ(device->size_bytes(), 64ULL << 30);
  struct stat st;
  ASSERT_EQ(::stat(scratch.file("image").c_str(), &st), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(st.st_size), 64ULL << 30);
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
}

TEST(FileDeviceOpen, RefusesWhatIsNeitherFileNorDisk) {
  ScratchFolder scratch;
  EXPECT_EQ(open_reason({.path = scratch.path(), .size_bytes = kMiB}), Reason::kNotAFile);
  EXPECT_EQ(open_reason({.path = "/dev/null", .size_bytes = kMiB}), Reason::kNotAFile);
  ASSERT_EQ(::mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(open_reason({.path = scratch.file("pipe"), .size_bytes = kMiB}), Reason::kNotAFile);
}

TEST(FileDeviceOpen, MakesNoFileItWasNotAskedFor) {
  ScratchFolder scratch;
  EXPECT_EQ(open_reason({.path = scratch.file("a"), .size_bytes = kMiB, .create = false}), Reason::kNotFound);
  EXPECT_EQ(open_reason({.path = scratch.file("a")}), Reason::kInvalidArgument);
  EXPECT_EQ(open_reason({.path = scratch.file("a"), .size_bytes = 4095}), Reason::kInvalidArgument);
  EXPECT_EQ(open_reason({.path = scratch.file("a"), .size_bytes = kMiB, .read_only = true}),
            Reason::kNotFound);
  EXPECT_EQ(open_reason({.path = scratch.file("no/a"), .size_bytes = kMiB}), Reason::kNotFound);
  // Made, found impossible, and removed again.
  EXPECT_EQ(open_reason({.path = scratch.file("a"), .size_bytes = UINT64_MAX}), Reason::kFileTooLarge);
  EXPECT_NE(::access(scratch.file("a").c_str(), F_OK), 0);
}

TEST(FileDeviceOpen, LeavesAFileWithContentAsItIs) {
  ScratchFolder scratch;
  const std::string small(10, 'x'), large(10'000, 'y');
  std::ofstream(scratch.file("small")) << small;
  std::ofstream(scratch.file("large")) << large;
  EXPECT_EQ(open_reason({.path = scratch.file("small"), .size_bytes = kMiB}), Reason::kNotEmpty);
  EXPECT_EQ(content_of(scratch.file("small")), small);
  {
    auto device = FileDevice::open({.path = scratch.file("large"), .size_bytes = kMiB}).value();
    EXPECT_FALSE(device->created());
    EXPECT_EQ(device->size_bytes(), 2 * kBlock);
  }
  EXPECT_EQ(content_of(scratch.file("large")), large);
  {
    auto device = FileDevice::open({.path = scratch.file("large")}).value();
    ASSERT_TRUE(device->grow(kMiB));
    EXPECT_EQ(device->size_bytes(), kMiB);
    AlignedBytes memory(kBlock);
    EXPECT_TRUE(device->read(kMiB - kBlock, memory.span()));
  }
  EXPECT_EQ(content_of(scratch.file("large")).substr(0, large.size()), large);
  auto part = FileDevice::open({.path = scratch.file("large"), .size_bytes = 5 * kBlock}).value();
  EXPECT_EQ(part->size_bytes(), 5 * kBlock);
}

TEST(FileDeviceOpen, KeepsASecondOwnerOut) {
  ScratchFolder scratch;
  const std::string path = scratch.file("image");
  {
    auto first = FileDevice::open({.path = path, .size_bytes = kMiB}).value();
    EXPECT_EQ(open_reason({.path = path}), Reason::kBusy);
    EXPECT_EQ(open_reason({.path = path, .read_only = true}), Reason::kBusy);
  }
  auto reader = FileDevice::open({.path = path, .read_only = true});
  ASSERT_TRUE(reader);
  EXPECT_TRUE(FileDevice::open({.path = path, .read_only = true}));
  EXPECT_EQ(open_reason({.path = path}), Reason::kBusy);
}

TEST(FileDevice, ReadOnlyFailsWrites) {
  ScratchFolder scratch;
  const std::string path = scratch.file("image");
  ASSERT_TRUE(FileDevice::open({.path = path, .size_bytes = kMiB}));
  auto device = FileDevice::open({.path = path, .read_only = true}).value();
  AlignedBytes memory(kBlock);
  EXPECT_FALSE(device->write(0, memory.span()));
  EXPECT_TRUE(device->read(0, memory.span()));
  EXPECT_EQ(device->grow(2 * kMiB).error().code, Reason::kReadOnly);
}

TEST(FileDevice, SaysShortWhenTheFileIsCutUnderIt) {
  ScratchFolder scratch;
  for (const int way : {0, 1, 2, 3}) {
    const std::string path = scratch.file(std::to_string(way));
    auto device =
        FileDevice::open({.path = path, .size_bytes = kMiB, .direct = (way & 1) == 0, .io_uring = way < 2})
            .value();
    ASSERT_EQ(::truncate(path.c_str(), 10 * kBlock + 100), 0);
    AlignedBytes memory(20 * kBlock);
    EXPECT_EQ(device->read(0, memory.span()).error().code, Reason::kShortIo);
    EXPECT_EQ(device->read(20 * kBlock, memory.span()).error().code, Reason::kShortIo);
    EXPECT_TRUE(device->read(0, memory.span().first(10 * kBlock)));
  }
}

// What follows a piece that was cut inside a block begins inside it, which a disk need not allow.
TEST(FileDevice, UnderODirectGoesOnAtABlocksStartOnly) {
  ScratchFolder scratch;
  for (const bool ring : {true, false}) {
    auto device = FileDevice::open({.path = scratch.file(ring ? "ring" : "pool"),
                                    .size_bytes = kMiB,
                                    .direct = true,
                                    .io_uring = ring})
                      .value();
    if (!device->direct()) GTEST_SKIP() << "no O_DIRECT here";
    AlignedBytes memory(4 * kBlock), back(4 * kBlock);
    Rng rng(5);
    memory.fill(rng);
    device->set_short_transfers_for_test(512);
    const Result<void> cut = device->write(0, memory.span());
    ASSERT_FALSE(cut) << "went on 512 bytes into a block";
    if (cut.error().code == Reason::kIo && cut.error().detail == EINVAL) GTEST_SKIP() << "sectors of 4 KiB";
    EXPECT_EQ(cut.error().code, Reason::kShortIo);
    device->set_short_transfers_for_test(kBlock + 512);
    ASSERT_TRUE(device->write(0, memory.span().first(2 * kBlock))) << "by a block and its second half again";
    ASSERT_TRUE(device->read(0, back.span().first(2 * kBlock)));
    EXPECT_EQ(std::memcmp(memory.data(), back.data(), 2 * kBlock), 0);
  }
}

TEST(FileDevice, BlocksTheSubmitterWhenTheQueueIsFull) {
  ScratchFolder scratch;
  auto device =
      FileDevice::open({.path = scratch.file("image"), .size_bytes = kMiB, .queue_depth = 1}).value();
  Rng rng(1);
  AlignedBytes memory(kMiB), back(kMiB);
  memory.fill(rng);
  Flight flight;
  for (std::uint64_t at = 0; at < kMiB; at += kBlock) {
    flight.add(IoOp::kWrite, at, {{memory.data() + at, kBlock}});
  }
  flight.submit_all(*device);
  flight.wait_all();
  for (auto& one : flight.all()) EXPECT_TRUE(one.result);
  ASSERT_TRUE(device->read(0, back.span()));
  EXPECT_EQ(std::memcmp(memory.data(), back.data(), kMiB), 0);
}

// The calling thread, and those that it makes, may not set up a ring: as in a container.
void forbid_io_uring_here() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(FileDevice, WorksWhereIoUringIsForbidden) {
  ScratchFolder scratch;
  Thread("contained", [&] {
    forbid_io_uring_here();
    if (testing::Test::HasFatalFailure()) return;
    testing::internal::CaptureStderr();
    auto device = FileDevice::open({.path = scratch.file("image"), .size_bytes = kMiB}).value();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("io_uring is not to be had"), std::string::npos) << said;
    EXPECT_FALSE(device->uses_io_uring());
    Rng rng(3);
    AlignedBytes memory(kMiB), back(kMiB);
    memory.fill(rng);
    Flight flight;
    for (std::uint64_t at = 0; at < kMiB; at += kBlock) {
      flight.add(IoOp::kWrite, at, {{memory.data() + at, kBlock}});
    }
    flight.submit_all(*device);
    flight.wait_all();
    for (auto& one : flight.all()) {
      EXPECT_TRUE(one.result);
      EXPECT_EQ(one.completions, 1);
    }
    EXPECT_TRUE(device->flush());
    EXPECT_TRUE(device->read(0, back.span()));
    EXPECT_EQ(std::memcmp(memory.data(), back.data(), kMiB), 0);
    EXPECT_EQ(device->stats().writes, kMiB / kBlock);
  }).join();
}

// More requests than the queue has room for, from several threads: none is lost, none ends twice.
TEST(FileDevice, ThePoolServesSeveralSubmittersOfAShortQueue) {
  ScratchFolder scratch;
  auto device = FileDevice::open({.path = scratch.file("image"),
                                  .size_bytes = 4 * kMiB,
                                  .io_uring = false,
                                  .queue_depth = 3})
                    .value();
  AlignedBytes memory(4 * kMiB);
  std::vector<Thread> submitters;
  std::deque<Flight> flights(4);
  for (std::uint64_t s = 0; s < 4; ++s) {
    submitters.emplace_back("submitter", [&, s] {
      for (std::uint64_t at = s * kMiB; at < (s + 1) * kMiB; at += kBlock) {
        flights[s].add(at % (16 * kBlock) == 0 ? IoOp::kFlush : IoOp::kWrite, at,
                       at % (16 * kBlock) == 0 ? std::vector<IoSegment>{}
                                               : std::vector<IoSegment>{{memory.data() + at, kBlock}});
      }
      flights[s].submit_all(*device);
      flights[s].wait_all();
    });
  }
  for (Thread& thread : submitters) thread.join();
  for (Flight& flight : flights) {
    for (auto& one : flight.all()) {
      EXPECT_TRUE(one.result) << one.result.error().sentence();
      EXPECT_EQ(one.completions, 1);
    }
  }
  EXPECT_EQ(device->stats().flushes, 4 * kMiB / kBlock / 16);
}

TEST(FileDeviceOpen, SaysThatThereIsNoThreadAndLeavesNoFile) {
  ScratchFolder scratch;
  const NoThreads none;
  for (const bool io_uring : {true, false}) {
    EXPECT_EQ(open_reason({.path = scratch.file("a"), .size_bytes = kMiB, .io_uring = io_uring}),
              Reason::kNoThread);
    EXPECT_NE(::access(scratch.file("a").c_str(), F_OK), 0);
  }
  EXPECT_EQ(open_device({.kind = DeviceSpec::Kind::kNull,
                         .path = "",
                         .size_bytes = kMiB,
                         .limits = {.latency = microseconds(1)}})
                .error()
                .code,
            Reason::kNoThread);
}

TEST(FileDevice, ShowsItsWritesToOthersAfterAFlush) {
  ScratchFolder scratch;
  const std::string path = scratch.file("image");
  auto device = FileDevice::open({.path = path, .size_bytes = kMiB}).value();
  AlignedBytes memory(kMiB);
  std::memset(memory.data(), 'z', kMiB);
  ASSERT_TRUE(device->write(0, memory.span()));
  ASSERT_TRUE(device->flush());
  EXPECT_EQ(content_of(path), std::string(kMiB, 'z'));
}

TEST(FileDeviceOpen, LeavesTheFileToWhoLockedItFirst) {
  ScratchFolder scratch;
  static std::unique_ptr<FileDevice> other;
  FileDevice::set_after_create_for_test([](const char* path) {
    FileDevice::set_after_create_for_test(nullptr);
    other = FileDevice::open({.path = path, .size_bytes = kMiB}).value();
  });
  EXPECT_EQ(open_reason({.path = scratch.file("a"), .size_bytes = kMiB}), Reason::kBusy);
  EXPECT_EQ(::access(scratch.file("a").c_str(), F_OK), 0) << "it is the other's file";
  other.reset();
}

TEST(FileDeviceOpen, LooksAgainWhenTheFileIsReplacedUnderIt) {
  ScratchFolder scratch;
  FileDevice::set_after_create_for_test([](const char* path) {
    FileDevice::set_after_create_for_test(nullptr);
    ASSERT_EQ(::unlink(path), 0);
    std::ofstream(path) << std::string(2 * kBlock, 'x');
  });
  auto device = FileDevice::open({.path = scratch.file("a"), .size_bytes = kMiB}).value();
  EXPECT_FALSE(device->created());
  EXPECT_EQ(device->size_bytes(), 2 * kBlock) << "the device is the file that has the name";
}

TEST(FileDevice, HoldsDataWhereverItLies) {
  ScratchFolder scratch;
  constexpr std::uint64_t kSize = 256 * kMiB;
  const auto put = [&](const std::string& path, std::uint64_t offset, char byte) {
    std::ofstream(path, std::ios::app).close();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset)).put(byte);
  };
  for (const std::uint64_t at : {std::uint64_t{5}, 2 * kMiB, 100 * kMiB + 77, kSize - 1, kSize + 100}) {
    const std::string path = scratch.file("at" + std::to_string(at));
    put(path, kSize + 200, 0);  // sparse, and ends inside a block
    put(path, 50 * kMiB, 0);    // allocated, and zero
    auto device = FileDevice::open({.path = path, .size_bytes = kMiB}).value();
    EXPECT_EQ(device->holds_data().value(), false) << at;
    put(path, at, 'x');
    EXPECT_EQ(device->holds_data().value(), true) << at;
    EXPECT_EQ(device->stats().reads, 0U);
  }
}

TEST(FileDevice, RenewsTheSameFile) {
  ScratchFolder scratch;
  auto device = FileDevice::open({.path = scratch.file("a"), .size_bytes = kMiB}).value();
  struct stat before, after;
  ASSERT_EQ(::stat(scratch.file("a").c_str(), &before), 0);
  AlignedBytes memory(kBlock);
  std::memset(memory.data(), 'x', kBlock);
  ASSERT_TRUE(device->write(0, memory.span()));
  ASSERT_TRUE(device->renew(4 * kMiB));
  EXPECT_EQ(device->size_bytes(), 4 * kMiB);
  EXPECT_EQ(device->holds_data().value(), false);
  ASSERT_EQ(::stat(scratch.file("a").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(after.st_blocks, 0);
  EXPECT_EQ(open_reason({.path = scratch.file("a")}), Reason::kBusy) << "still locked";
  device->unlink_file();
  EXPECT_NE(::access(scratch.file("a").c_str(), F_OK), 0);
}

TEST(FileDevice, KeepsNobodyWaitingWhileTheKernelIsBusy) {
  ScratchFolder scratch;
  auto device = FileDevice::open({.path = scratch.file("a"), .size_bytes = kMiB}).value();
  if (!device->uses_io_uring()) GTEST_SKIP() << "io_uring is forbidden here";
  AlignedBytes memory(kBlock), inner(kBlock);
  bool second = false;
  device->set_busy_once_for_test([&] { second = device->read(kBlock, inner.span()).has_value(); });
  EXPECT_TRUE(device->read(0, memory.span()));
  EXPECT_TRUE(second) << "another request went through where the first one waits";
  EXPECT_EQ(device->stats().reads, 2U);
}

// A file system of 1 MiB: the kernel moves a part of the write and has no room for the rest.
TEST(FileDevice, SaysNoSpaceWhenTheHostIsFull) {
  ScratchFolder scratch;
  const std::string mount_point = scratch.file("small");
  ASSERT_EQ(::mkdir(mount_point.c_str(), 0700), 0);
  if (::mount("tidewheel-test", mount_point.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "may not mount";
  }
  struct Unmount {
    const std::string& path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } unmount{mount_point};
  for (const int way : {0, 1, 2, 3}) {
    const std::string path = mount_point + "/image";
    auto device =
        FileDevice::open(
            {.path = path, .size_bytes = 4 * kMiB, .direct = (way & 1) == 0, .io_uring = way < 2})
            .value();
    AlignedBytes memory(2 * kMiB);
    std::memset(memory.data(), 'q', memory.size());
    EXPECT_EQ(device->write(0, memory.span()).error().code, Reason::kNoSpace);
    // What fitted is there and what is overwritten needs no room.
    EXPECT_TRUE(device->write(0, memory.span().first(kMiB / 2)));
    EXPECT_TRUE(device->read(0, memory.span().first(kMiB / 2)));
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST(OpenDevice, MakesWhatTheSpecSays) {
  ScratchFolder scratch;
  auto file =
      open_device({.kind = DeviceSpec::Kind::kFile, .path = scratch.file("image"), .size_bytes = kMiB + 100});
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size_bytes(), kMiB);
  auto ram = open_device({.kind = DeviceSpec::Kind::kRam, .path = "", .size_bytes = kMiB + 1});
  ASSERT_TRUE(ram);
  EXPECT_EQ((*ram)->name(), "ram");
  auto null = open_device({.kind = DeviceSpec::Kind::kNull,
                           .path = "",
                           .size_bytes = kMiB,
                           .limits = {.latency = microseconds(1)}});
  ASSERT_TRUE(null);
  EXPECT_EQ((*null)->name(), "limited null");
  EXPECT_FALSE((*null)->keeps_data());
  EXPECT_FALSE(open_device({.kind = DeviceSpec::Kind::kRam, .path = ""}));
  EXPECT_FALSE(open_device({.kind = DeviceSpec::Kind::kNull, .path = ""}));
}

}  // namespace
}  // namespace tidewheel
