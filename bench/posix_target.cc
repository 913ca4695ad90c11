#include "bench/posix_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tidewheel::bench {

namespace {

Unexpected fail_errno(int error_number, int line) {
  return Unexpected(Error{.code = reason_of_errno(error_number),
                          .line = static_cast<std::uint16_t>(line),
                          .detail = static_cast<std::uint32_t>(error_number)});
}

int descriptor(FileHandle handle) { return static_cast<int>(handle); }

class PosixThread final : public TargetThread {
 public:
  explicit PosixThread(const std::vector<int>& directories) : directories_(directories) {}

  Result<FileHandle> create(const FileRef& file) override {
    return open_with(file, O_CREAT | O_EXCL | O_RDWR);
  }
  Result<FileHandle> open(const FileRef& file) override { return open_with(file, O_RDWR); }

  Result<void> write(FileHandle handle, std::uint64_t offset, std::span<const std::byte> data) override {
    do {
      const ssize_t n = ::pwrite(descriptor(handle), data.data(), data.size(), static_cast<off_t>(offset));
      if (n < 0) {
        if (errno == EINTR) continue;
        return fail_errno(errno, __LINE__);
      }
      if (n == 0 && !data.empty()) return TW_FAIL(kShortIo);
      data = data.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    } while (!data.empty());
    return {};
  }

  Result<std::uint64_t> read(FileHandle handle, std::uint64_t offset, std::span<std::byte> into) override {
    std::uint64_t done = 0;
    while (done < into.size()) {
      const ssize_t n = ::pread(descriptor(handle), into.data() + done, into.size() - done,
                                static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno(errno, __LINE__);
      if (n == 0) break;
      done += static_cast<std::uint64_t>(n);
    }
    return done;
  }

  Result<void> fsync(FileHandle handle) override {
    if (::fsync(descriptor(handle)) != 0) return fail_errno(errno, __LINE__);
    return {};
  }
  Result<void> close(FileHandle handle) override {
    // Never again after EINTR: on Linux the descriptor is gone then.
    if (::close(descriptor(handle)) != 0 && errno != EINTR) return fail_errno(errno, __LINE__);
    return {};
  }
  Result<std::uint64_t> stat(const FileRef& file) override {
    struct stat found {};
    if (::fstatat(directories_[file.directory], file.path, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_errno(errno, __LINE__);
    }
    return static_cast<std::uint64_t>(found.st_size);
  }
  Result<void> unlink(const FileRef& file) override {
    if (::unlinkat(directories_[file.directory], file.path, 0) != 0) return fail_errno(errno, __LINE__);
    return {};
  }

 private:
  Result<FileHandle> open_with(const FileRef& file, int flags) {
    const int fd = ::openat(directories_[file.directory], file.path, flags | O_CLOEXEC, 0666);
    if (fd < 0) return fail_errno(errno, __LINE__);
    return static_cast<FileHandle>(fd);
  }

  const std::vector<int>& directories_;
};

class PosixTarget final : public WorkloadTarget {
 public:
  PosixTarget(std::vector<std::string> paths, std::vector<int> directories)
      : paths_(std::move(paths)), directories_(std::move(directories)) {}
  ~PosixTarget() override {
    for (const int fd : directories_) ::close(fd);
  }

  std::string_view name() const override { return "posix"; }
  std::string description() const override { return "real directories from " + paths_.front(); }
  bool has_names() const override { return true; }

  Result<void> make_directories(std::uint32_t subdirectories) override {
    for (const int fd : directories_) {
      for (std::uint32_t i = 0; i < subdirectories; ++i) {
        char name[16];
        std::snprintf(name, sizeof name, "%02x", i);
        if (::mkdirat(fd, name, 0777) != 0 && errno != EEXIST) return fail_errno(errno, __LINE__);
      }
    }
    return {};
  }

  std::unique_ptr<TargetThread> make_thread(std::uint32_t) override {
    return std::make_unique<PosixThread>(directories_);
  }

  Result<void> sync() override {
    std::vector<dev_t> done;
    for (const int fd : directories_) {
      struct stat found {};
      if (::fstat(fd, &found) != 0) return fail_errno(errno, __LINE__);
      if (std::find(done.begin(), done.end(), found.st_dev) != done.end()) continue;
      done.push_back(found.st_dev);
      if (::syncfs(fd) != 0) return fail_errno(errno, __LINE__);
    }
    return {};
  }
  Result<bool> remount() override { return false; }
  Result<void> shut_down() override { return {}; }

  std::uint32_t used_percent() override {
    struct statvfs found {};
    if (::fstatvfs(directories_.front(), &found) != 0 || found.f_blocks == 0) return 0;
    // As fs_mark has it: what is kept for root counts as used.
    return static_cast<std::uint32_t>((found.f_blocks - found.f_bavail) * 100 / found.f_blocks);
  }
  void start_observation() override {}
  TargetGauges gauges() override { return {}; }
  double oldest_dirty_age_ms() override { return 0; }
  std::optional<LoadMoments> moments() override { return std::nullopt; }
  TargetFigures figures() override { return {}; }

 private:
  const std::vector<std::string> paths_;
  const std::vector<int> directories_;
};

}  // namespace

std::variant<std::unique_ptr<WorkloadTarget>, std::string> make_posix_target(
    const std::vector<std::string>& directories) {
  std::vector<int> opened;
  const auto give_up = [&](const std::string& path, int error_number) {
    for (const int fd : opened) ::close(fd);
    return "-d " + path + ": " + std::strerror(error_number);
  };
  for (const std::string& path : directories) {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return give_up(path, errno);
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return give_up(path, errno);
    opened.push_back(fd);
  }
  return std::unique_ptr<WorkloadTarget>(std::make_unique<PosixTarget>(directories, std::move(opened)));
}

}  // namespace tidewheel::bench
