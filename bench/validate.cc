// What each value may be. The first bad value ends the reading: one line, which names the option as it
// was given, the value, and what it accepts.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "bench/command_line.h"
#include "bench/designs.h"
#include "bench/machine.h"
#include "bench/numbers.h"
#include "writeback/throttle.h"

namespace tidewheel::bench {

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kCreate: return "create";
    case Phase::kStat: return "stat";
    case Phase::kRead: return "read";
    case Phase::kUnlink: return "unlink";
  }
  return "?";
}

namespace {

std::string dashed(std::string_view name) {
  return (name.size() == 1 ? "-" : "--") + std::string(name);
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

class Reader {
 public:
  explicit Reader(const Arguments& arguments) : arguments_(arguments) {}

  bool failed() const { return !error_.empty(); }
  UsageError error() const { return UsageError{error_}; }
  bool has(std::string_view name) const { return arguments_.has(name); }
  const std::string* text(std::string_view name) const { return arguments_.value(name); }

  void fail(std::string line) {
    // What was given may hold anything; the message stays one line.
    std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, '?');
    if (error_.empty()) error_ = std::move(line);
  }
  void fail_value(std::string_view name, std::string_view given, const std::string& accepts) {
    fail(dashed(name) + ": '" + std::string(given) + "' is not accepted: " + accepts);
  }

  template <class T>
  void count(std::string_view name, T& into, std::uint64_t low, std::uint64_t high) {
    const std::string* given = text(name);
    if (given == nullptr) return;
    const auto value = parse_count(*given);
    if (!value || *value < low || *value > high) {
      fail_value(name, *given, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
      return;
    }
    into = static_cast<T>(*value);
  }
  void size(std::string_view name, std::uint64_t& into, std::uint64_t low, std::uint64_t high) {
    const std::string* given = text(name);
    if (given == nullptr) return;
    const auto value = parse_size(*given);
    if (!value || *value < low || *value > high) {
      fail_value(name, *given,
                 "a size from " + format_size(low) + " to " + format_size(high) + ", as 4096, 4k or 1M");
      return;
    }
    into = *value;
  }
  void duration(std::string_view name, Duration& into, Duration low, Duration high, const char* accepts,
                bool zero_too) {
    const std::string* given = text(name);
    if (given == nullptr) return;
    const auto value = parse_duration(*given);
    if (!value || *value > high || (*value < low && !(zero_too && value->ns == 0))) {
      fail_value(name, *given, accepts);
      return;
    }
    into = *value;
  }
  void path(std::string_view name, std::string& into) {
    const std::string* given = text(name);
    if (given == nullptr) return;
    if (given->empty()) {
      fail_value(name, *given, "the name of a file");
      return;
    }
    into = *given;
  }
  // One of the two stands in the way of the other.
  void exclusive(std::string_view a, std::string_view b, const char* why) {
    if (has(a) && has(b)) fail(dashed(a) + ": not together with " + dashed(b) + ": " + why);
  }

 private:
  const Arguments& arguments_;
  std::string error_;
};

void read_phases(Reader& reader, WorkloadOptions& workload) {
  const std::string* given = reader.text("phases");
  if (given == nullptr) return;
  const char* accepts = "a list of create,stat,read,unlink in that order, create first, each once";
  std::vector<Phase> phases;
  for (const std::string& part : split(*given)) {
    bool known = false;
    for (const Phase phase : {Phase::kCreate, Phase::kStat, Phase::kRead, Phase::kUnlink}) {
      if (part != phase_name(phase)) continue;
      if (!phases.empty() && phases.back() >= phase) return reader.fail_value("phases", *given, accepts);
      phases.push_back(phase);
      known = true;
    }
    if (!known) return reader.fail_value("phases", *given, accepts);
  }
  if (phases.front() != Phase::kCreate) return reader.fail_value("phases", *given, accepts);
  workload.phases = phases;
}

// 36^characters, or the largest number where that overflows.
std::uint64_t names_possible(std::uint32_t characters) {
  std::uint64_t names = 1;
  for (std::uint32_t i = 0; i < characters; ++i) {
    if (names > UINT64_MAX / 36) return UINT64_MAX;
    names *= 36;
  }
  return names;
}

void read_workload(Reader& reader, WorkloadOptions& workload) {
  reader.count("n", workload.files_per_thread, 1, kMaxFilesPerLoop);
  reader.size("s", workload.file_bytes, 0, kMaxFileBytes);
  reader.size("w", workload.write_bytes, 1, kMaxWriteBytes);
  reader.count("L", workload.loops, 0, kMaxLoops);
  workload.loops = std::max(workload.loops, 1U);
  reader.count("D", workload.subdirectories, 2, kMaxSubdirectories);
  reader.count("N", workload.files_per_subdirectory, 1, kMaxFilesPerLoop);
  if (reader.has("N") && !reader.has("D")) {
    reader.fail("-N: needs -D: it says how many files go to a subdirectory before the next one");
  }
  reader.count("S", workload.sync_method, 0, 6);
  workload.until_full = reader.has("F");
  workload.keep = reader.has("k") || reader.has("L") || workload.until_full;
  reader.count("p", workload.name_bytes, 1, kMaxNameBytes);
  workload.random_bytes = std::min(workload.random_bytes, workload.name_bytes);
  reader.count("r", workload.random_bytes, 1, workload.name_bytes);
  reader.path("l", workload.log_file);
  workload.log_given = reader.has("l");
  workload.verbose = reader.has("v");
  read_phases(reader, workload);
  workload.verify = reader.has("verify");
  workload.zero = reader.has("zero");
  reader.count("seed", workload.seed, 0, INT64_MAX);
  if (workload.until_full && workload.loops > 1) {
    reader.fail("-F: not together with -L: it loops until the target is full");
  }
}

// Every file of a run has a name of its own: its number is in the random part.
void check_names(Reader& reader, const WorkloadOptions& workload) {
  const std::uint64_t possible = names_possible(workload.random_bytes);
  const unsigned __int128 wanted =
      static_cast<unsigned __int128>(workload.files_per_thread) * workload.threads * workload.loops;
  if (wanted > possible) {
    reader.fail("-r: " + std::to_string(workload.random_bytes) + " random characters give " +
                std::to_string(possible) + " names, fewer than the files asked for: raise -r (and -p)");
  }
}

void read_directories(Reader& reader, const Arguments& arguments, WorkloadOptions& workload) {
  const auto given = arguments.values.find("d");
  if (given == arguments.values.end()) return;
  std::unordered_set<std::string> seen;
  for (const std::string& directory : given->second) {
    if (directory.empty()) return reader.fail("-d: '' is not accepted: the path of a directory");
    if (!seen.insert(directory).second) return reader.fail("-d: '" + directory + "' is given twice");
    if (seen.size() > kMaxThreads) {
      return reader.fail("-d: at most " + std::to_string(kMaxThreads) + " directories");
    }
  }
  workload.directories = given->second;
}

void read_target(Reader& reader, FsmarkOptions& options) {
  for (const char* other : {"flat", "image", "ram", "null", "size", "device-bandwidth", "device-latency"}) {
    reader.exclusive(other, "posix", "real directories have their own device");
  }
  reader.exclusive("ram", "image", "there is one device");
  reader.exclusive("null", "image", "there is one device");
  reader.exclusive("null", "ram", "there is one device");
  reader.exclusive("size", "ram", "--ram names the size itself");
  DeviceOptions& device = options.device;
  options.target = reader.has("posix") ? TargetKind::kPosix : TargetKind::kFlat;
  if (reader.has("image")) {
    reader.path("image", device.image_path);
    device.image_is_default = false;
  }
  constexpr std::uint64_t kLeast = 1ULL << 20;
  if (reader.has("size")) {
    std::uint64_t bytes = 0;
    reader.size("size", bytes, kLeast, 1ULL << 50);
    device.image_bytes = bytes;
  }
  if (reader.has("ram")) {
    device.kind = DeviceKind::kRam;
    reader.size("ram", device.ram_bytes, kLeast, 1ULL << 50);
  }
  if (reader.has("null")) device.kind = DeviceKind::kNull;
  reader.size("device-bandwidth", device.bandwidth, 1ULL << 16, 1ULL << 50);
  reader.duration("device-latency", device.latency, Duration{0}, seconds(60),
                  "a time from 0 to 60s, as 500us or 5ms", true);
  if (device.kind == DeviceKind::kNull) {
    if (options.workload.verify) reader.fail("--verify: not on a null device, which drops what is written");
    if (options.workload.has_phase(Phase::kRead)) {
      reader.fail("--phases: 'read' is not accepted on a null device, which drops what is written");
    }
  }
  if (options.target == TargetKind::kPosix && options.workload.directories.empty()) {
    reader.fail("-d: --posix needs at least one directory");
  }
}

void read_writeback(Reader& reader, WritebackOptions& writeback, SizeOrPercent background,
                    SizeOrPercent dirty) {
  // The page arena holds 2^31 pages at most, and a machine no more than it has.
  constexpr std::uint64_t kMost = 1ULL << 43;
  const std::uint64_t machine = machine_memory_bytes() >> 20 << 20;
  const std::uint64_t most = machine < (16ULL << 20) ? kMost : std::min(kMost, machine);
  if (const std::string* given = reader.text("memory"); given != nullptr) {
    const auto value = parse_size(*given);
    if (!value || *value < (16ULL << 20) || *value > most) {
      reader.fail_value("memory", *given,
                        "a size from 16M to " + format_size(most) + ", which is what this machine has");
    } else {
      writeback.memory_bytes = *value;
    }
  }
  const auto level = [&](const char* name, SizeOrPercent& into) {
    const std::string* given = reader.text(name);
    if (given == nullptr) return;
    const auto value = parse_size_or_percent(*given);
    if (!value || value->value == 0 || value->of(writeback.memory_bytes) > writeback.memory_bytes) {
      reader.fail_value(name, *given, "a size up to --memory, as 64M, or a part of it from 1% to 100%");
      return;
    }
    into = *value;
  };
  level("background", background);
  level("dirty", dirty);
  writeback.background_bytes = background.of(writeback.memory_bytes);
  writeback.dirty_bytes = dirty.of(writeback.memory_bytes);
  if (writeback.background_bytes >= writeback.dirty_bytes) {
    reader.fail("--background: " + format_size(writeback.background_bytes) +
                " is not below --dirty, which is " + format_size(writeback.dirty_bytes) +
                ": writers would wait before writeback runs");
  }
  if (writeback.dirty_bytes < (1ULL << 20)) {
    reader.fail("--dirty: " + format_size(writeback.dirty_bytes) + " is less than 1M");
  }
  reader.duration("expire", writeback.expire, milliseconds(10), seconds(86400), "a time from 10ms to 24h",
                  false);
  reader.duration("interval", writeback.interval, milliseconds(10), seconds(86400),
                  "0, or a time from 10ms to 24h", true);
  if (const std::string* given = reader.text("throttle"); given != nullptr) {
    if (find_throttle_policy(*given) == nullptr) {
      std::string all;
      for (const ThrottlePolicy& one : throttle_policies()) all += (all.empty() ? "" : ", ") + one.name;
      reader.fail_value("throttle", *given, all);
    } else {
      writeback.throttle = *given;
    }
  }
  reader.count("shards", writeback.shards, 1, 128);
  if ((writeback.shards & (writeback.shards - 1)) != 0) {
    reader.fail_value("shards", *reader.text("shards"), "a power of two from 1 to 128");
  }
  reader.count("flushers", writeback.flushers, 1, 64);
  reader.count("owners", writeback.owners, 1, kMaxOwners);
  if (reader.has("o")) reader.fail("-o: mount options belong to tidefs, which is not in this version");
}

// Before --owners itself is validated, which has its say later.
std::uint32_t owners_asked_for(const Reader& reader) {
  const std::string* given = reader.text("owners");
  const auto value = given == nullptr ? std::nullopt : parse_count(*given);
  return value && *value >= 1 && *value <= kMaxOwners ? static_cast<std::uint32_t>(*value) : 1;
}

void add_directories(WorkloadOptions& workload, std::uint32_t number) {
  for (std::uint32_t i = 0; i < number; ++i) workload.directories.push_back("/" + std::to_string(i));
}

// Each owner gets as many directories, and so threads, as the others.
void split_directories(Reader& reader, const FsmarkOptions& options, std::uint32_t fewest_threads) {
  const std::uint32_t owners = options.writeback.owners;
  if (owners == 1) return;
  const std::string given = std::to_string(owners);
  if (options.target == TargetKind::kPosix) {
    reader.fail("--owners: not together with --posix: the kernel has owners of its own");
  }
  const std::size_t directories = options.workload.directories.size();
  if (directories % owners != 0) {
    reader.fail("--owners: '" + given + "' is not accepted: the " + std::to_string(directories) +
                " directories (-d) can't be split over so many evenly");
  }
  if (fewest_threads < owners) {
    reader.fail("--owners: '" + given + "' is not accepted: with " + std::to_string(fewest_threads) +
                (fewest_threads == 1 ? " thread" : " threads") + " (--threads) there is not one for each");
  }
}

void check_design(Reader& reader, const char* option, const std::string& name) {
  const std::vector<std::string> known = design_names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
  reader.fail_value(option, name, all);
}

void spread_threads(Reader& reader, const char* option, std::uint32_t threads, std::size_t directories) {
  if (threads % directories != 0) {
    reader.fail(dashed(option) + ": " + std::to_string(threads) + " is not a multiple of the " +
                std::to_string(directories) + " directories (-d)");
  }
}

// A device or a pipe may be written by several.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code none;  // where there is no such file yet, or it can't be asked: no
  if (std::filesystem::exists(a, none) && !std::filesystem::is_regular_file(a, none)) return false;
  return a == b || std::filesystem::equivalent(a, b, none);
}

// Each of these is written as a whole or appended to: none may be the image, or what another one writes.
void check_outputs(Reader& reader, const FsmarkOptions& options,
                   std::vector<std::pair<const char*, std::string>> outputs) {
  outputs.emplace_back("l", options.workload.log_file);
  outputs.emplace_back("json", options.json_path);
  const bool on_image = options.target == TargetKind::kFlat && options.device.kind == DeviceKind::kImage;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, path] = outputs[i];
    if (path.empty()) continue;
    if (on_image && is_same_file(path, options.device.image_path)) {
      reader.fail(dashed(name) + ": '" + path + "' is the image (--image)");
    }
    for (std::size_t other = i + 1; other < outputs.size(); ++other) {
      if (!outputs[other].second.empty() && is_same_file(path, outputs[other].second)) {
        reader.fail(dashed(name) + ": '" + path + "' is where " + dashed(outputs[other].first) + " goes");
      }
    }
  }
}

}  // namespace

std::variant<FsmarkOptions, UsageError> fsmark_options(const Arguments& arguments,
                                                       std::vector<std::string> command) {
  Reader reader(arguments);
  FsmarkOptions options;
  options.command = std::move(command);
  WorkloadOptions& workload = options.workload;
  workload.log_file = "fs_log.txt";
  read_directories(reader, arguments, workload);
  read_workload(reader, workload);
  reader.count("t", workload.threads, 1, kMaxThreads);
  read_target(reader, options);
  if (workload.directories.empty()) add_directories(workload, owners_asked_for(reader));
  const std::size_t directories = workload.directories.size();
  workload.threads = std::max(workload.threads, static_cast<std::uint32_t>(directories));
  spread_threads(reader, "t", workload.threads, directories);
  check_names(reader, workload);
  read_writeback(reader, options.writeback, {.is_percent = true, .value = 10},
                 {.is_percent = true, .value = 20});
  split_directories(reader, options, workload.threads);
  if (const std::string* design = reader.text("design"); design != nullptr) {
    check_design(reader, "design", *design);
    options.writeback.design = *design;
  }
  reader.path("json", options.json_path);
  reader.path("interval-csv", options.interval_csv_path);
  reader.path("trace", options.trace_path);
  check_outputs(reader, options,
                {{"interval-csv", options.interval_csv_path}, {"trace", options.trace_path}});
  if (reader.failed()) return reader.error();
  return options;
}

std::variant<CompareOptions, UsageError> compare_options(const Arguments& arguments,
                                                         std::vector<std::string> command) {
  Reader reader(arguments);
  CompareOptions options;
  options.base.command = std::move(command);
  WorkloadOptions& workload = options.base.workload;
  workload.file_bytes = 4096;
  workload.sync_method = 0;
  read_directories(reader, arguments, workload);
  read_workload(reader, workload);
  workload.keep = true;  // each run has a store of its own, which goes as a whole
  read_target(reader, options.base);
  if (workload.directories.empty()) {
    const std::uint32_t owners = owners_asked_for(reader);
    add_directories(workload, 8 % owners == 0 ? 8 : owners);
  }
  read_writeback(reader, options.base.writeback, {.is_percent = true, .value = 20},
                 {.is_percent = true, .value = 40});
  if (options.base.target == TargetKind::kPosix) {
    reader.fail(
        "--posix: compare sets designs of tidewheel side by side; 'tidewheel fsmark --posix' measures "
        "real directories");
  }

  options.designs = design_names();
  if (const std::string* given = reader.text("designs"); given != nullptr && *given != "all") {
    options.designs = split(*given);
    std::unordered_set<std::string> seen;
    for (const std::string& name : options.designs) {
      check_design(reader, "designs", name);
      if (!seen.insert(name).second) reader.fail("--designs: '" + name + "' is there twice");
    }
  }
  options.threads = {1, 16};
  reader.exclusive("t", "threads", "-t N means a list of one");
  const char* threads_option = reader.has("t") ? "t" : "threads";
  if (const std::string* given = reader.text(threads_option); given != nullptr) {
    options.threads.clear();
    const auto parts = reader.has("t") ? std::vector<std::string>{*given} : split(*given);
    for (const std::string& part : parts) {
      const auto value = parse_count(part);
      if (!value || *value == 0 || *value > kMaxThreads) {
        reader.fail_value(
            threads_option, *given,
            std::string(reader.has("t") ? "a whole number" : "whole numbers, with commas between,") +
                " from 1 to " + std::to_string(kMaxThreads));
        break;
      }
      const auto threads = static_cast<std::uint32_t>(*value);
      if (std::find(options.threads.begin(), options.threads.end(), threads) != options.threads.end()) {
        reader.fail("--threads: '" + part + "' is there twice");
      }
      options.threads.push_back(threads);
    }
  }
  for (const std::uint32_t threads : options.threads) {
    if (threads > workload.directories.size()) {
      spread_threads(reader, threads_option, threads, workload.directories.size());
    }
    workload.threads = std::max(workload.threads, threads);
  }
  split_directories(reader, options.base, *std::min_element(options.threads.begin(), options.threads.end()));
  check_names(reader, workload);
  reader.count("rounds", options.rounds, 1, 1000);
  options.files_given = reader.has("n") || reader.has("F");
  options.rounds_given = reader.has("rounds");
  options.bandwidth_given = reader.has("device-bandwidth");
  reader.path("json", options.base.json_path);
  reader.path("html", options.html_path);
  reader.path("markdown", options.markdown_path);
  if (options.markdown_path == "-") reader.fail("--markdown: '-' is not accepted: a file to append to");
  check_outputs(reader, options.base, {{"html", options.html_path}, {"markdown", options.markdown_path}});
  if (reader.failed()) return reader.error();
  return options;
}

}  // namespace tidewheel::bench
