#include "bench/outputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

namespace tidewheel::bench {

namespace {

std::string put_into(std::FILE* file, const std::string& text) {
  const bool wrote = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  return wrote ? "" : std::strerror(errno);
}

// What the name leads to, so that a symbolic link stays one.
std::string resolved(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) != nullptr ? real : path;
}

bool is_special(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode);
}

// A new file beside `path`, open; or -1.
int open_beside(const std::string& path, std::string& name) {
  name = path + ".XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat st;
  if (::stat(path.c_str(), &st) == 0) {
    ::fchmod(fd, st.st_mode & 07777);
  } else {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(fd, 0666 & ~mask);
  }
  return fd;
}

[[noreturn]] void end_on_exception() {
  const char* why = "an unknown failure";
  try {
    if (const std::exception_ptr thrown = std::current_exception(); thrown != nullptr) {
      std::rethrow_exception(thrown);
    }
    std::abort();  // terminate() without an exception is a fault of ours
  } catch (const std::bad_alloc&) {
    why = "the system gives no more memory";
  } catch (const std::system_error& error) {
    why = error.code() == std::errc::resource_unavailable_try_again
              ? "the system allows no further thread, or no memory for one (ulimit -u, -v)"
              : error.what();
  } catch (const std::exception& error) {
    why = error.what();
  }
  // Nothing here allocates.
  for (const char* part : {"tidewheel: ", why, "\n"}) {
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  ::_exit(1);
}

}  // namespace

std::string check_output(const std::string& given) {
  if (given == "-") return "";
  const std::string path = resolved(given);
  struct stat st;
  const bool exists = ::stat(path.c_str(), &st) == 0;
  if (exists && S_ISDIR(st.st_mode)) return given + ": " + std::strerror(EISDIR);
  if (exists) return ::access(path.c_str(), W_OK) == 0 ? "" : given + ": " + std::strerror(errno);
  std::string name;
  const int fd = open_beside(path, name);
  if (fd < 0) return given + ": " + std::strerror(errno);
  ::close(fd);
  ::unlink(name.c_str());
  return "";
}

std::string write_text(const std::string& given, const std::string& text) {
  if (given == "-") {
    const std::string why = put_into(stdout, text);
    return why.empty() ? "" : "standard output: " + why;
  }
  const std::string path = resolved(given);
  std::string name;
  const int fd = is_special(path) ? -1 : open_beside(path, name);
  std::FILE* file = fd >= 0 ? ::fdopen(fd, "w") : std::fopen(path.c_str(), "we");
  if (file == nullptr) return given + ": " + std::strerror(errno);
  std::string why = put_into(file, text);
  if (std::fclose(file) != 0 && why.empty()) why = std::strerror(errno);
  if (fd >= 0) {
    if (why.empty() && ::rename(name.c_str(), path.c_str()) != 0) why = std::strerror(errno);
    if (!why.empty()) ::unlink(name.c_str());
  }
  return why.empty() ? "" : given + ": " + why;
}

void keep_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. The wrong way round, so that what is written is not lost unseen.
    (void)!::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void take_failed_writes_as_errors() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void end_quietly_on_exceptions() { std::set_terminate(end_on_exception); }

}  // namespace tidewheel::bench
