// What a file's device asks of the kernel for a flush, a preflush and FUA. No test can lose a host's cache:
// the calls are counted, by standing before the C library's.
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include "base/sync.h"
#include "fs/block/file_device.h"
#include "tests/fs/io.h"
#include "tests/fs/scratch.h"

namespace {

// The device's pool is one thread in these tests, and the test waits for it.
std::string* g_calls = nullptr;

}  // namespace

extern "C" int fdatasync(int fd) {
  if (g_calls != nullptr) *g_calls += "sync ";
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

extern "C" ssize_t pwritev2(int fd, const iovec* segments, int count, off_t offset, int flags) {
  if (g_calls != nullptr) *g_calls += (flags & RWF_DSYNC) != 0 ? "write-durably " : "write ";
  return ::syscall(SYS_pwritev2, fd, segments, count, offset, 0L, flags);
}

namespace tidewheel {
namespace {

TEST(FileFlush, IsAskedOfTheKernelForEachThatIsWanted) {
  ScratchFolder scratch;
  const auto device = FileDevice::open({.path = scratch.file("image"),
                                        .size_bytes = 1 << 20,
                                        .io_uring = false,
                                        .queue_depth = 1})
                          .value();
  AlignedBytes memory(4096);
  const auto calls_of = [&](auto request) {
    std::string calls;
    g_calls = &calls;
    EXPECT_TRUE(request().has_value());
    g_calls = nullptr;
    return calls;
  };
  EXPECT_EQ(calls_of([&] { return device->write(0, memory.span()); }), "write ");
  EXPECT_EQ(calls_of([&] { return device->flush(); }), "sync ");
  EXPECT_EQ(calls_of([&] { return device->write_durably(0, memory.span()); }), "sync write-durably ");
}

}  // namespace
}  // namespace tidewheel
