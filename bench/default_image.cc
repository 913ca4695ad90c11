#include "bench/default_image.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "fs/block/file_device.h"
#include "fs/flat/flat_header.h"

namespace tidewheel::bench {

std::variant<DefaultImage, std::string> DefaultImage::lock(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return folder + " for " + path + ": " + error.message() + ": name a device (--image, --ram, --null)";
  }
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return DefaultImage(path, -1);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const bool busy = errno == EWOULDBLOCK;
    ::close(fd);
    if (busy) return path + ": it is in use by another run: name another device (--image, --ram, --null)";
    return DefaultImage(path, -1);
  }
  return DefaultImage(path, fd);
}

DefaultImage::~DefaultImage() {
  if (folder_ >= 0) ::close(folder_);
}

void DefaultImage::remove() {
  auto device = FileDevice::open({.path = path_, .create = false});
  if (!device) return;
  const auto content = probe_device(**device);
  if (content || content.error().code == Reason::kCorrupt) (*device)->unlink_file();
}

}  // namespace tidewheel::bench
