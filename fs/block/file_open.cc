// Opening and growing of a FileDevice.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/log.h"
#include "fs/block/file_device.h"

namespace tidewheel {

namespace {

Unexpected fail_errno(int error_number) {
  const Reason reason = reason_of_errno(error_number);
  return Unexpected(
      Error{reason, static_cast<std::uint16_t>(__LINE__), static_cast<std::uint32_t>(error_number)});
}

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { reset(-1); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd) {
    const int error = errno;  // of the open that gave fd
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    errno = error;
  }

 private:
  int fd_ = -1;
};

constexpr int kMaxAttempts = 100;

void (*g_after_create_for_test)(const char*) = nullptr;

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

void FileDevice::set_after_create_for_test(void (*hook)(const char* path)) { g_after_create_for_test = hook; }

Result<std::unique_ptr<FileDevice>> FileDevice::open(const FileDeviceOptions& options) {
  TW_ASSERT(options.queue_depth != 0 && options.queue_depth <= 4096, "the queue depth is out of bounds");
  const char* path = options.path.c_str();
  // What was made here goes again when the rest fails: only once it is locked, and so nobody else's.
  struct Unmake {
    const char* path;
    bool armed;
    ~Unmake() {
      if (armed) ::unlink(path);
    }
  } unmake{path, false};
  struct stat st;
  bool created = false;
  bool disk = false;
  Descriptor fd;
  // Again when the file comes, goes or is replaced under us: whoever ends may take its file away.
  for (int attempt = 0;; ++attempt) {
    if (attempt == kMaxAttempts) return TW_FAIL(kBusy);
    created = false;
    if (::stat(path, &st) != 0) {
      if (errno != ENOENT || !options.create || options.read_only) return fail_errno(errno);
      // A size is wanted before a file is made.
      if (options.size_bytes < kBlockBytes) return TW_FAIL(kInvalidArgument);
      fd.reset(open_retrying(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644));
      if (fd.get() < 0 && errno == EEXIST && ::access(path, F_OK) == 0) continue;
      created = fd.get() >= 0;
    } else if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
      // Before it is opened: opening a pipe waits, and opening a device can act.
      return TW_FAIL(kNotAFile);
    } else {
      disk = S_ISBLK(st.st_mode);
      const int flags =
          (options.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | (disk && !options.read_only ? O_EXCL : 0);
      fd.reset(open_retrying(path, flags));
      if (fd.get() < 0 && errno == ENOENT && options.create) continue;
    }
    if (fd.get() < 0) return fail_errno(errno);
    if (created && g_after_create_for_test != nullptr) g_after_create_for_test(path);
    if (::flock(fd.get(), (options.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? Result<std::unique_ptr<FileDevice>>(TW_FAIL(kBusy)) : fail_errno(errno);
    }
    if (::fstat(fd.get(), &st) != 0) return fail_errno(errno);
    struct stat named;
    if (::stat(path, &named) == 0 && named.st_dev == st.st_dev && named.st_ino == st.st_ino) break;
  }
  unmake.armed = created;

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

// On the descriptor, beneath the ring: a disk or a file is looked through to its end, also where only the
// first part of it is this device.
Result<bool> FileDevice::holds_data() {
  struct stat st;
  if (::fstat(fd_, &st) != 0) return fail_errno(errno);
  const bool regular = S_ISREG(st.st_mode);
  std::uint64_t end = static_cast<std::uint64_t>(st.st_size);
  if (!regular && ::ioctl(fd_, BLKGETSIZE64, &end) != 0) return fail_errno(errno);
  constexpr std::uint64_t kPiece = 1ULL << 20;
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(kBlockBytes, kPiece), std::free);
  if (buffer == nullptr) return TW_FAIL(kNoMemory);
  for (std::uint64_t offset = 0; offset < end;) {
    if (regular) {
      const off_t data = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
      if (data < 0 && errno == ENXIO) return false;  // nothing but a hole from here on
      // Where holes cannot be asked for, all of it is read. Whole blocks, for O_DIRECT.
      if (data >= 0) offset = static_cast<std::uint64_t>(data) / kBlockBytes * kBlockBytes;
    }
    const ssize_t n = ::pread(fd_, buffer.get(), kPiece, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return TW_FAIL_WITH(kIo, errno);
    if (n == 0) return false;  // cut short meanwhile
    if (!all_zero({static_cast<const std::byte*>(buffer.get()), static_cast<std::size_t>(n)})) return true;
    // A short piece inside the file ends at a block, and O_DIRECT goes on there.
    const auto moved = static_cast<std::uint64_t>(n);
    offset += offset + moved < end ? std::max<std::uint64_t>(moved / kBlockBytes * kBlockBytes, kBlockBytes)
                                   : moved;
  }
  return false;
}

Result<void> FileDevice::renew(std::uint64_t size) {
  {
    MutexLock lock(lock_);
    TW_ASSERT(in_flight_ == 0, "a device is renewed with requests in flight");
  }
  size -= size % kBlockBytes;
  if (size == 0) return TW_FAIL(kInvalidArgument);
  if (size > INT64_MAX) return TW_FAIL(kFileTooLarge);
  if (options_.read_only) return TW_FAIL(kReadOnly);
  struct stat st;
  if (::fstat(fd_, &st) != 0) return fail_errno(errno);
  if (!S_ISREG(st.st_mode)) return TW_FAIL(kUnsupported);
  if (::ftruncate(fd_, 0) != 0 || ::ftruncate(fd_, static_cast<off_t>(size)) != 0) return fail_errno(errno);
  size_bytes_ = size;
  return {};
}

// The name is only taken away while it is this device's file, and while the lock is held.
void FileDevice::unlink_file() {
  struct stat mine, named;
  if (::fstat(fd_, &mine) != 0 || ::stat(options_.path.c_str(), &named) != 0) return;
  if (S_ISREG(mine.st_mode) && mine.st_dev == named.st_dev && mine.st_ino == named.st_ino) {
    ::unlink(options_.path.c_str());
  }
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
