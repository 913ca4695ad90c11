// bench/target.h: what the workload needs of whatever it runs on: real directories through system calls
// (posix), or the flat store over the writeback engine.
// Owns:      a target owns its store, engine and device; a TargetThread its descriptors and buffers.
// Threads:   WorkloadTarget's own methods: one thread, except gauges(), oldest_dirty_age_ms(),
//            moments() and interrupt(), which the sampler calls beside the workers. A TargetThread belongs to
//            one worker.
// Units:     bytes; Instants of SteadyClock.
// Errors:    Result; kNoSpace from create or write means full: the file it happened to is not
//            acknowledged and has been removed again by the caller.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/result.h"
#include "base/time.h"

namespace tidewheel::bench {

// What a run says when it cannot have its threads.
inline constexpr const char* kNoThreadLine =
    "threads: the system allows no further thread, or no memory for one (ulimit -u, -v, pids.max): fewer "
    "threads need less";

// One file of the workload. A target with names uses `path` (relative to the directory); one without
// uses the numbers.
struct FileRef {
  std::uint32_t thread = 0;
  std::uint32_t loop = 0;
  std::uint64_t number = 0;     // within thread and loop
  std::uint32_t directory = 0;  // index into the -d
  const char* path = nullptr;   // NUL-terminated: "name" or "0a/name"; null for targets without names
};

using FileHandle = std::uint64_t;  // the target's own: a descriptor, a pointer

class TargetThread {
 public:
  virtual ~TargetThread() = default;
  // Makes a file that does not exist yet, open for writing.
  virtual Result<FileHandle> create(const FileRef& file) = 0;
  virtual Result<FileHandle> open(const FileRef& file) = 0;
  virtual Result<void> write(FileHandle handle, std::uint64_t offset, std::span<const std::byte> data) = 0;
  virtual Result<std::uint64_t> read(FileHandle handle, std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual Result<void> fsync(FileHandle handle) = 0;
  virtual Result<void> close(FileHandle handle) = 0;
  virtual Result<std::uint64_t> stat(const FileRef& file) = 0;  // its size
  virtual Result<void> unlink(const FileRef& file) = 0;
};

// Levels and totals so far, cheap enough to read 100 times a second.
struct TargetGauges {
  std::uint64_t dirty_bytes = 0;
  std::uint64_t writeback_bytes = 0;
  std::uint64_t device_writes = 0;
  std::uint64_t device_write_bytes = 0;
  std::uint64_t log_bytes = 0;
  std::uint32_t throttled_threads = 0;
};

// When this target first passed the two boundaries of the load points.
struct LoadMoments {
  std::optional<Instant> background_passed;
  std::optional<Instant> first_throttled;
};

struct DirtyListFigures {
  std::uint64_t inserts = 0, insert_waits = 0, redirties = 0, removals = 0, detached_buckets = 0;
  std::uint64_t elements_under_lock = 0, max_elements_per_hold = 0;
  std::uint32_t shards = 0;  // lists with a lock each
};
struct WritebackFigures {
  std::uint64_t works = 0, objects = 0, pages = 0, io_bytes = 0, ios = 0, batches = 0;
  double oldest_age_max_ms = 0;
};
struct ThrottleFigures {
  std::string policy;
  std::uint64_t pauses = 0, ns = 0;
  // The most that any sample saw dirty, under writeback and set aside for writers together, and the limit.
  std::uint64_t most_charged_bytes = 0, limit_bytes = 0;
};
// One of several owners: what is dirty of it has a list, flushers and counts of its own.
struct OwnerFigures {
  DirtyListFigures dirty_list;
  WritebackFigures writeback;
};
struct DeviceFigures {
  std::uint64_t reads = 0, writes = 0, read_bytes = 0, write_bytes = 0, flushes = 0;
  std::uint64_t data_bytes = 0, log_bytes = 0, metadata_bytes = 0;  // of write_bytes, by cause
};
struct MemoryFigures {
  std::uint64_t limit = 0;
  std::uint64_t pages = 0, inodes = 0, buffers = 0, index = 0;  // bytes held now
  std::uint64_t device = 0;                          // bytes a RAM device keeps: not part of the limit
};
// What a target can say about itself at the end; nullopt becomes null in the JSON.
struct TargetFigures {
  std::optional<DirtyListFigures> dirty_list;
  std::optional<WritebackFigures> writeback;
  std::optional<ThrottleFigures> throttle;
  std::optional<DeviceFigures> device;
  std::optional<MemoryFigures> memory;
  std::vector<OwnerFigures> owners;  // empty: there is one
  std::optional<LatencySummary> mark_dirty, throttle_pause;  // timed inside the target
  std::vector<std::string> errors;
};

class WorkloadTarget {
 public:
  virtual ~WorkloadTarget() = default;
  virtual std::string_view name() const = 0;         // "posix", "flat"
  virtual std::string description() const = 0;       // for people: what it runs on
  virtual bool has_names() const = 0;
  virtual bool keeps_data() const { return true; }   // false: what is written cannot be read back
  // Makes each directory (its last component) and `subdirectories` in it, named %02x; 0 makes none.
  virtual Result<void> make_directories(std::uint32_t subdirectories) = 0;
  virtual std::unique_ptr<TargetThread> make_thread(std::uint32_t thread) = 0;
  // Everything written before the call is durable when it returns. Acts on this target alone.
  virtual Result<void> sync() = 0;
  // Calls that wait for room end with kInterrupted from now on. Beside the workers, any number of times.
  virtual void interrupt() {}
  // Drops what is cached and opens again from what is stored, so that reads come from the device. False:
  // this target cannot, reads may come from memory. No TargetThread has a file open.
  virtual Result<bool> remount() = 0;
  // Ends cleanly: what is stored can be opened again.
  virtual Result<void> shut_down() = 0;
  virtual std::uint32_t used_percent() = 0;          // FSUse%
  // A measured run begins: moments and device totals count from here.
  virtual void start_observation() = 0;
  virtual TargetGauges gauges() = 0;
  virtual double oldest_dirty_age_ms() = 0;          // once a second
  virtual std::optional<LoadMoments> moments() = 0;  // nullopt: this target cannot know
  virtual TargetFigures figures() = 0;
};

}  // namespace tidewheel::bench
