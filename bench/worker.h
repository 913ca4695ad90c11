// bench/worker.h: one thread's part of the workload.
// Owns:      its TargetThread, buffers and figures.
// Threads:   one crew thread; acknowledged() may be read by the sampler meanwhile, the rest when the
//            crew rests.
// Errors:    the first one is kept as a line of text and raises Shared::stop, which ends all threads' work.
// Invariant: made(loop) files of each loop exist and are wholly written: a file that failed half-way has
//            been taken away again.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "base/config.h"
#include "bench/crew.h"
#include "bench/file_data.h"
#include "bench/file_names.h"
#include "bench/options.h"
#include "bench/run_result.h"
#include "bench/target.h"
#include "bench/ticks.h"

namespace tidewheel::bench {

// What the workers of a run share.
struct WorkerShared {
  const WorkloadOptions& options;
  WorkloadTarget& target;
  const FileNames& names;
  const Ticks& ticks;
  Meeting meeting;                // in the timed part of -S 2 to 6
  // Both are polled once per file and ordered by the crew's lock at the end: relaxed.
  Atomic<bool> stop{false};       // some thread failed
  Atomic<bool> full{false};       // -F: the target is full
  // Raised by the first thread that has made all its files of a loop, which then notes how far all are.
  // Relaxed: one thread wins, and what it notes is read when the crew rests.
  Atomic<bool> one_is_through{false};
  std::function<void()> note_progress;

  WorkerShared(const WorkloadOptions& o, WorkloadTarget& t, const FileNames& n, const Ticks& k)
      : options(o), target(t), names(n), ticks(k), meeting(o.threads) {}
};

class alignas(kCacheLine) Worker {
 public:
  Worker(WorkerShared& shared, std::uint32_t thread);

  void create_loop(std::uint32_t loop);  // with the sync of -S 2 to 6
  void stat_files();
  void read_files();
  void verify_files();
  void unlink_files();
  // A file open across a remount would keep the old store busy: the thread's access is made anew.
  void leave_target() { access_.reset(); }
  void enter_target() { access_ = shared_.target.make_thread(thread_); }

  std::uint64_t acknowledged() const { return acknowledged_.load(std::memory_order_relaxed); }
  std::uint64_t made(std::uint32_t loop) const { return loop < made_.size() ? made_[loop] : 0; }
  std::uint64_t operations() const { return operations_; }  // of the last phase
  Instant started() const { return started_; }
  Instant ended() const { return ended_; }
  std::uint64_t app_overhead_ns() const { return app_overhead_ns_; }
  std::uint64_t written_bytes() const { return written_bytes_; }
  const std::string& error() const { return error_; }
  const std::array<LatencyHistogram, kCalls>& latencies() const { return *latencies_; }
  // Since the last call of this function.
  CallSummaries take_calls();

 private:
  FileRef file(std::uint32_t loop, std::uint64_t number);
  bool create_one(const FileRef& file);
  void sync_after_loop(std::uint32_t loop);
  void fsync_one(const FileRef& file);
  void fail(const char* what, const FileRef& file, Error error);
  void fail(std::string line);
  std::string label_of(const FileRef& file) const;
  // Ends a call that began at `from`; returns the moment, where the next may begin.
  std::uint64_t note(Call call, std::uint64_t from);
  bool stopped() const;
  // Runs `body` on every file that exists, in creation order: until something fails or Ctrl-C, or, to
  // clean up, to the end.
  enum class Until : std::uint8_t { kTrouble, kTheEnd };
  template <class Body>
  void for_each_file(Until until, Body body);

  WorkerShared& shared_;
  const std::uint32_t thread_;
  const std::uint32_t directory_;
  std::unique_ptr<TargetThread> access_;
  FileData data_;
  std::vector<std::byte> read_buffer_;
  char name_[FileNames::kBufferBytes] = {};
  std::vector<std::uint64_t> made_;
  std::unique_ptr<std::array<LatencyHistogram, kCalls>> latencies_;
  CallSummaries calls_;
  std::uint64_t timed_ns_ = 0;  // inside calls, in this loop
  std::uint64_t app_overhead_ns_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t operations_ = 0;
  bool given_up_ = false;  // Ctrl-C came inside the file at hand: it does not count
  Instant started_, ended_;
  std::string error_;
  // Alone on its line: the sampler reads it while this thread writes. Relaxed: only a count.
  alignas(kCacheLine) Atomic<std::uint64_t> acknowledged_{0};
};

}  // namespace tidewheel::bench
