#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/clock.h"
#include "base/entropy.h"
#include "bench/fsmark.h"
#include "bench/image_tools.h"
#include "bench/json_report.h"
#include "bench/machine.h"
#include "bench/numbers.h"
#include "bench/outputs.h"
#include "fs/block/file_device.h"
#include "fs/flat/flat_header.h"
#include "fs/format/log_sizes.h"
#include "fs/format/verify.h"
#include "fs/mkfs/mkfs.h"

namespace tidewheel::bench {

namespace {

constexpr std::uint64_t kMostImageBytes = 1ULL << 53;  // 8 PiB

// Where it is known: what the host's file systems can hold.
constexpr const char* kTooLargeForHost =
    "its file system cannot hold a file so large (ext4 ends at 16T): a smaller --size, or an image on XFS or "
    "tmpfs";

std::string size_text(std::uint64_t bytes) { return format_size(bytes); }

// "flag: why", so that the line names what to change.
std::string refusal_text(const MkfsOptions& options, const mkfs::Refusal& refusal) {
  using Why = mkfs::Refusal::Why;
  const std::string size = options.size_bytes != 0 ? "--size" : options.image;
  const std::string limit = size_text(refusal.limit);
  switch (refusal.why) {
    case Why::kDeviceTooSmall: return size + ": too small: a tidefs takes at least " + limit;
    case Why::kDeviceTooLarge: return size + ": too large: a tidefs takes at most " + limit;
    case Why::kTooManyGroups:
      return "--ag-count: each group would be too small: at most " + std::to_string(refusal.limit) +
             " groups for this size";
    case Why::kTooFewGroups:
      return "--ag-count: each group would be too large: at least " + std::to_string(refusal.limit) +
             " groups for this size";
    case Why::kLogTooSmall:
      return "--log-size: the largest transaction needs a log of at least " + limit + " here";
    case Why::kLogTooLarge: return "--log-size: the log lies in one group, which has room for " + limit;
  }
  return "the geometry is impossible";
}

std::string error_text(Error error) {
  switch (error.code) {
    case Reason::kFileTooLarge: return kTooLargeForHost;
    case Reason::kBusy: return "it is in use: mounted, or open in another program";
    case Reason::kSystem:
      if (error.detail != 0) return std::strerror(static_cast<int>(error.detail));
      break;
    default: break;
  }
  return std::string(error.sentence());
}

int fail(const std::string& line, int status = 1) {
  print_error(line);
  return status;
}

// What an image that is not empty holds, in words.
std::string content_of(BlockDevice& device) {
  alignas(kFsBlockBytes) static std::byte block[kFsBlockBytes];
  if (!device.read(0, block, IoCause::kMetadata)) return "something";
  if (disk::view<disk::BlockHeader>(std::span<const std::byte>(block)).magic == disk::kSuperMagic) {
    return "a tidefs";
  }
  if (decode_header(std::span<const std::byte, kFsBlockBytes>(block))) return "a flat store";
  return "something";
}

class Progress {
 public:
  void operator()(std::uint64_t done, std::uint64_t all) {
    const Instant now = SteadyClock::instance().now();
    if (now - last_ < milliseconds(200) || now - start_ < milliseconds(500)) return;
    last_ = now;
    const double seconds = (now - start_).seconds();
    const double rate = static_cast<double>(done) / seconds;
    std::fprintf(stderr, "\rmkfs: %llu of %llu MiB, %.0f MiB/s, %.0f s left   ",
                 static_cast<unsigned long long>(done >> 20), static_cast<unsigned long long>(all >> 20),
                 rate / (1 << 20), static_cast<double>(all - done) / rate);
    shown_ = true;
  }
  void end() {
    if (shown_) std::fprintf(stderr, "\r%60s\r", "");
  }

 private:
  const Instant start_ = SteadyClock::instance().now();
  Instant last_{start_};
  bool shown_ = false;
};

std::uint64_t bytes_used(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)
             ? static_cast<std::uint64_t>(st.st_blocks) * 512
             : 0;
}

// Makes the device of the wanted size and empty. Answers whether all of it is zeros now.
Result<bool> empty_device(FileDevice& device, std::uint64_t size_bytes, bool holds_data) {
  if (!holds_data && device.size_bytes() == size_bytes) return true;
  const Result<void> renewed = device.renew(size_bytes);
  if (renewed) return true;
  // A disk: it keeps its size, and what it held.
  if (renewed.error().code != Reason::kUnsupported) return Unexpected(renewed.error());
  return !holds_data;
}

}  // namespace

std::variant<MkfsOptions, UsageError> mkfs_options(const Arguments& arguments,
                                                   std::vector<std::string> command) {
  MkfsOptions options;
  options.command = std::move(command);
  const std::string* image = arguments.value("IMAGE");
  if (image == nullptr || image->empty()) return UsageError{"mkfs: which image? 'tidewheel mkfs IMAGE'"};
  options.image = *image;
  const auto size = [&](const char* name, std::uint64_t& into) -> std::string {
    const std::string* given = arguments.value(name);
    if (given == nullptr) return {};
    const auto value = parse_size(*given);
    if (!value || *value < kFsBlockBytes || *value > kMostImageBytes) {
      return std::string("--") + name + ": '" + *given +
             "' is not accepted: a size from 4k to 8192T, as 512M or 10T";
    }
    into = *value / kFsBlockBytes * kFsBlockBytes;
    return {};
  };
  if (const std::string why = size("size", options.size_bytes); !why.empty()) return UsageError{why};
  if (const std::string why = size("log-size", options.log_bytes); !why.empty()) return UsageError{why};
  if (const std::string* given = arguments.value("ag-count")) {
    const auto value = parse_count(*given);
    if (!value || *value == 0 || *value > 1'000'000) {
      return UsageError{"--ag-count: '" + *given + "' is not accepted: a whole number from 1 to 1000000"};
    }
    options.ag_count = static_cast<std::uint32_t>(*value);
  }
  if (const std::string* given = arguments.value("label")) {
    if (given->size() >= disk::kLabelBytes) {
      return UsageError{"--label: '" + *given + "' is not accepted: at most 31 bytes"};
    }
    options.label = *given;
  }
  if (const std::string* given = arguments.value("json")) {
    if (given->empty()) return UsageError{"--json: '' is not accepted: the name of a file"};
    options.json_path = *given;
  }
  options.preallocate = arguments.has("prealloc");
  options.force = arguments.has("force");
  return options;
}

int run_mkfs(const MkfsOptions& options) {
  if (!options.json_path.empty() && options.json_path != "-") {
    if (const std::string why = check_output(options.json_path); !why.empty()) return fail("--json " + why);
  }
  const std::string started = utc_now();
  const mkfs::Wishes wishes{
      .device_bytes = options.size_bytes, .ag_count = options.ag_count, .log_bytes = options.log_bytes};
  struct stat st;
  const bool missing = ::stat(options.image.c_str(), &st) != 0 && errno == ENOENT;
  if (missing && options.size_bytes == 0) {
    return fail(options.image + ": it does not exist: --size says how large to make it", 2);
  }
  // Before anything is made or opened.
  if (options.size_bytes != 0) {
    const auto plan = mkfs::plan(wishes);
    if (const auto* refusal = std::get_if<mkfs::Refusal>(&plan)) return fail(refusal_text(options, *refusal));
  }
  auto opened = FileDevice::open({.path = options.image, .size_bytes = missing ? options.size_bytes : 0});
  if (!opened && opened.error().code == Reason::kInvalidArgument && options.size_bytes != 0) {
    // An empty file: it becomes as large as it is to be.
    opened = FileDevice::open({.path = options.image, .size_bytes = options.size_bytes});
  }
  if (!opened) {
    if (opened.error().code == Reason::kInvalidArgument) {
      return fail(options.image + ": it is empty: --size says how large to make it", 2);
    }
    return fail(options.image + ": " + error_text(opened.error()));
  }
  FileDevice& device = **opened;
  // A device of ours that fails half made goes away; any other stays as it then is.
  const auto give_up = [&](const std::string& why) {
    if (device.created()) device.unlink_file();
    return fail(options.image + ": " + why);
  };
  const std::uint64_t size = options.size_bytes != 0 ? options.size_bytes : device.size_bytes();
  mkfs::Wishes settled = wishes;
  settled.device_bytes = size;
  const auto plan = mkfs::plan(settled);
  if (const auto* refusal = std::get_if<mkfs::Refusal>(&plan)) {
    if (device.created()) device.unlink_file();
    return fail(refusal_text(options, *refusal));
  }
  disk::Geometry geometry = std::get<disk::Geometry>(plan);
  const Result<bool> holds_data = device.holds_data();
  if (!holds_data) return give_up(error_text(holds_data.error()));
  if (*holds_data && !options.force) {
    return give_up("it holds " + content_of(device) + " and would be overwritten: --force does that");
  }

  const Instant start = SteadyClock::instance().now();
  const Result<bool> blank = empty_device(device, size, *holds_data);
  if (!blank) return give_up(error_text(blank.error()));
  if (device.size_bytes() < size) return give_up("it is smaller than --size");
  Progress progress;
  mkfs::Options make{.uuid = Uuid::from_random(entropy_bits(), entropy_bits()),
                     .created_ns = static_cast<std::int64_t>(std::time(nullptr)) * 1'000'000'000,
                     .label = options.label,
                     .preallocate_log = options.preallocate,
                     .blank = *blank};
  if (isatty(STDERR_FILENO) == 1)
    make.progress = [&](std::uint64_t done, std::uint64_t all) { progress(done, all); };
  const Result<void> made = mkfs::make(device, geometry, make);
  progress.end();
  if (!made) return give_up(error_text(made.error()));

  const MkfsFigures figures{.size = geometry.device_blocks * kFsBlockBytes,
                            .ag_count = geometry.ag_count,
                            .ag_blocks = geometry.ag_blocks,
                            .log_bytes = geometry.log_bytes(),
                            .uuid = make.uuid.text(),
                            .image_bytes_used = bytes_used(options.image),
                            .seconds = (SteadyClock::instance().now() - start).seconds()};
  if (options.json_path != "-") {
    std::string text = options.image + ": tidefs " + figures.uuid + "\n";
    text += "  " + size_text(figures.size) + " in " + std::to_string(figures.ag_count) + " groups of " +
            std::to_string(figures.ag_blocks) + " blocks of 4k; log " + size_text(figures.log_bytes) +
            (options.preallocate ? ", preallocated" : "") + "\n";
    if (const std::string why = write_text("-", text); !why.empty()) return fail(why);
  }
  if (!options.json_path.empty()) {
    const std::string why = write_text(options.json_path, mkfs_json(figures, options.command, started));
    if (!why.empty()) return fail("--json " + why);
  }
  return 0;
}

}  // namespace tidewheel::bench
