// bench/default_image.h: out/default.img, the device of runs that name none.
// Owns:      a lock on the folder it lies in (flock: ends with the process), so that one program at a time
//            uses the image, also between the runs of a comparison. The image's own lock is FileDevice's.
// Threads:   one.
// Errors:    a line: the folder cannot be made, or another program uses the image.
#pragma once
#include <string>
#include <utility>
#include <variant>

namespace tidewheel::bench {

class DefaultImage {
 public:
  // Makes the folder where it is missing.
  static std::variant<DefaultImage, std::string> lock(const std::string& path);
  DefaultImage(DefaultImage&& other) noexcept
      : path_(std::move(other.path_)), folder_(std::exchange(other.folder_, -1)) {}
  DefaultImage& operator=(DefaultImage&&) = delete;
  ~DefaultImage();

  // Takes the image away when it holds a flat store that nobody uses; leaves it otherwise.
  void remove();

 private:
  DefaultImage(std::string path, int folder) : path_(std::move(path)), folder_(folder) {}

  std::string path_;
  int folder_;  // -1: this file system has no such lock
};

}  // namespace tidewheel::bench
