// bench/options.h: what the command line says, after validation, as plain values.
// Threads:   constant once made.
// Units:     bytes and Durations.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace tidewheel::bench {

enum class Phase : std::uint8_t { kCreate, kStat, kRead, kUnlink };
std::string_view phase_name(Phase phase);

enum class TargetKind : std::uint8_t { kFlat, kPosix };
enum class DeviceKind : std::uint8_t { kImage, kRam, kNull };

inline constexpr std::uint32_t kMaxThreads = 1024;
inline constexpr std::uint64_t kMaxFilesPerLoop = 1'000'000'000;
inline constexpr std::uint32_t kMaxLoops = 1'000'000;
inline constexpr std::uint32_t kMaxNameBytes = 255;        // NAME_MAX
inline constexpr std::uint64_t kMaxWriteBytes = 1ULL << 30;
inline constexpr std::uint64_t kMaxFileBytes = 1ULL << 43;  // 8 TiB
inline constexpr std::uint32_t kMaxOwners = 64;             // a flusher thread and its batches each
inline constexpr std::uint32_t kMaxSubdirectories = 1'000'000;

// The default image, made sparse where it is missing and made anew by each run that uses it.
inline constexpr std::string_view kDefaultImage = "out/default.img";
inline constexpr std::uint64_t kDefaultImageBytes = 64ULL << 30;

struct WorkloadOptions {
  std::vector<std::string> directories;
  std::uint32_t threads = 1;
  std::uint64_t files_per_thread = 1000;  // per loop
  std::uint64_t file_bytes = 51200;
  std::uint64_t write_bytes = 16384;
  std::uint32_t loops = 1;
  bool keep = false;         // -k, or implied by -L and -F
  bool until_full = false;
  std::uint32_t subdirectories = 0;           // 0: none
  std::uint64_t files_per_subdirectory = 0;   // 0: one subdirectory per loop and thread, by time
  std::uint32_t sync_method = 1;
  std::uint32_t name_bytes = 40;
  std::uint32_t random_bytes = 24;
  std::string log_file;  // empty: none
  bool log_given = false;  // false: a run goes on without it
  bool verbose = false;
  std::vector<Phase> phases = {Phase::kCreate};
  bool verify = false;
  bool zero = false;
  std::uint64_t seed = 1;

  bool has_phase(Phase phase) const {
    for (const Phase p : phases) {
      if (p == phase) return true;
    }
    return false;
  }
};

struct DeviceOptions {
  DeviceKind kind = DeviceKind::kImage;
  std::string image_path{kDefaultImage};
  bool image_is_default = true;
  bool image_is_locked = false;  // the default image, by the parent of this run
  std::optional<std::uint64_t> image_bytes;  // --size
  std::uint64_t ram_bytes = 0;
  std::uint64_t bandwidth = 0;  // bytes per second; 0: not limited
  Duration latency{0};
};

struct WritebackOptions {
  std::string design = "timer-wheel";
  std::uint64_t memory_bytes = 1ULL << 30;
  std::uint64_t background_bytes = 0;
  std::uint64_t dirty_bytes = 0;
  Duration expire = seconds(30);
  Duration interval = seconds(5);
  std::string throttle = "hard-limit";
  std::uint32_t shards = 0;    // 0: the design's own choice
  std::uint32_t flushers = 0;  // 0: the engine's own choice
  std::uint32_t owners = 1;    // a divisor of the directories; thread t writes for owner t % owners
};

struct FsmarkOptions {
  WorkloadOptions workload;
  TargetKind target = TargetKind::kFlat;
  DeviceOptions device;
  WritebackOptions writeback;
  std::string json_path;          // empty: none; "-": standard output
  std::string interval_csv_path;  // empty: none
  std::string trace_path;         // empty: none; *.json: trace-event JSON, else lines
  std::vector<std::string> command;
  std::uint32_t round = 0;
};

struct CompareOptions {
  FsmarkOptions base;  // design, threads and round are set per run
  std::vector<std::string> designs;
  std::vector<std::uint32_t> threads;
  std::uint32_t rounds = 3;
  bool files_given = false;      // -n was given: not chosen by calibration
  bool rounds_given = false;     // --rounds was given: all of them are done, however long they take
  // The program chooses how much it does, and so can keep it short.
  bool time_is_bounded() const { return !files_given && !rounds_given; }
  bool bandwidth_given = false;  // --device-bandwidth was given
  std::string html_path;         // empty: no page
  std::string markdown_path;     // empty: no rows
};

}  // namespace tidewheel::bench
