// Opening and growing of a FileDevice.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "fs/block/file_device.h"

namespace tidewheel {

namespace {

Unexpected fail_errno(int error_number) {
  const Reason reason = reason_of_errno(error_number);
  return Unexpected(Error{reason, static_cast<std::uint16_t>(__LINE__), static_cast<std::uint32_t>(error_number)});
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int open_retrying(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path, flags, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// O_DIRECT can be accepted at open and refused at the first transfer: one block is read to know.
bool direct_works(int fd) {
  void* block = nullptr;
  if (::posix_memalign(&block, FileDevice::kBlockBytes, FileDevice::kBlockBytes) != 0) return false;
  ssize_t n;
  do {
    n = ::pread(fd, block, FileDevice::kBlockBytes, 0);
  } while (n < 0 && errno == EINTR);
  const bool works = n >= 0 || errno != EINVAL;
  std::free(block);
  return works;
}

}  // namespace

Result<std::unique_ptr<FileDevice>> FileDevice::open(const FileDeviceOptions& options) {
  TW_ASSERT(options.queue_depth != 0 && options.queue_depth <= 4096, "the queue depth is out of bounds");
  const char* path = options.path.c_str();
  struct stat st;
  bool created = false;
  if (::stat(path, &st) != 0) {
    if (errno != ENOENT || !options.create || options.read_only) return fail_errno(errno);
    // A size is wanted before a file is made.
    if (options.size_bytes < kBlockBytes) return TW_FAIL(kInvalidArgument);
    Descriptor made(open_retrying(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644));
    if (made.get() < 0) return fail_errno(errno);
    created = true;
    if (::fstat(made.get(), &st) != 0) return fail_errno(errno);
  } else if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
    // Before it is opened: opening a pipe waits, and opening a device can act.
    return TW_FAIL(kNotAFile);
  }
  // What was made here goes again when the rest fails.
  struct Unmake {
    const char* path;
    bool armed;
    ~Unmake() {
      if (armed) ::unlink(path);
    }
  } unmake{path, created};

  const bool disk = S_ISBLK(st.st_mode);
  const int flags = (options.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | (disk && !options.read_only ? O_EXCL : 0);
  Descriptor fd(open_retrying(path, flags));
  if (fd.get() < 0) return fail_errno(errno);
  if (::flock(fd.get(), (options.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Result<std::unique_ptr<FileDevice>>(TW_FAIL(kBusy)) : fail_errno(errno);
  }
  if (::fstat(fd.get(), &st) != 0) return fail_errno(errno);

  std::uint64_t size = static_cast<std::uint64_t>(st.st_size);
  if (disk && ::ioctl(fd.get(), BLKGETSIZE64, &size) != 0) return fail_errno(errno);
  const std::uint64_t asked = options.size_bytes - options.size_bytes % kBlockBytes;
  if (disk && asked > size) return TW_FAIL(kOutOfRange);
  if (size == 0) {
    if (asked == 0) return TW_FAIL(kInvalidArgument);
    if (options.read_only) return TW_FAIL(kReadOnly);
    if (asked > INT64_MAX) return TW_FAIL(kFileTooLarge);
    if (::ftruncate(fd.get(), static_cast<off_t>(asked)) != 0) return fail_errno(errno);
    size = asked;
  }
  if (size < kBlockBytes) return TW_FAIL(kNotEmpty);
  size -= size % kBlockBytes;
  if (asked != 0 && asked < size) size = asked;

  bool direct = false;
  if (options.direct) {
    // Set on the open descriptor: opening again would drop the lock.
    const int now = ::fcntl(fd.get(), F_GETFL);
    direct = now >= 0 && ::fcntl(fd.get(), F_SETFL, now | O_DIRECT) == 0;
    if (direct && !direct_works(fd.get())) {
      ::fcntl(fd.get(), F_SETFL, now);
      direct = false;
    }
    if (!direct) {
      log_warning(options.path, "O_DIRECT does not work here: writes go through the host's page cache, and "
                                "figures include it");
    }
  }
  std::unique_ptr<FileDevice> device(new FileDevice(options, fd.release(), size, direct, created));
  TW_TRY(device->start());
  unmake.armed = false;
  return device;
}

Result<void> FileDevice::grow(std::uint64_t size) {
  {
    MutexLock lock(lock_);
    TW_ASSERT(in_flight_ == 0, "a device grows with requests in flight");
  }
  size -= size % kBlockBytes;
  if (size <= size_bytes_) return {};
  struct stat st;
  if (::fstat(fd_, &st) != 0) return fail_errno(errno);
  if (!S_ISREG(st.st_mode)) return TW_FAIL(kOutOfRange);
  if (options_.read_only) return TW_FAIL(kReadOnly);
  if (size > INT64_MAX) return TW_FAIL(kFileTooLarge);
  if (static_cast<std::uint64_t>(st.st_size) < size && ::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    return fail_errno(errno);
  }
  size_bytes_ = size;
  return {};
}

}  // namespace tidewheel
