// bench/sampler.h: looks at a run from beside it: load-point samples, the interval CSV, live progress.
// Owns:      its thread and the CSV file.
// Threads:   begin(), end(), phase() and finish() from the thread that conducts the run.
// Locks:     Sampler::lock_ (rank kBench), held while a sample is taken: reads of counters only.
// Units:     a sample every 10 ms until writers have been throttled, then every 25 ms (the contract: 50).
// Errors:    a CSV that cannot be written is reported by csv_failed(); the run goes on.
#pragma once
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sync.h"
#include "base/thread.h"
#include "bench/load_points.h"
#include "bench/target.h"
#include "bench/time_series.h"

namespace tidewheel::bench {

inline constexpr const char* kIntervalCsvHeader =
    "time_s,files,files_per_s,dirty_bytes,writeback_bytes,write_iops,write_mb_per_s,log_bytes,"
    "throttled_threads,oldest_dirty_age_ms";

class Sampler {
 public:
  struct Options {
    std::FILE* csv = nullptr;  // closed by finish()
    bool progress = false;     // on standard error
    std::string label;         // before the phase's name in the progress line
  };
  // `files` answers how many files have been acknowledged; it may be called at any time until finish().
  Sampler(WorkloadTarget& target, std::function<std::uint64_t()> files, Options options);
  ~Sampler();
  Result<void> start();  // kNoThread
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // What lies between begin() and end() is counted; both take a sample of their own, so that the edges
  // are exact.
  void begin() TW_EXCLUDES(lock_);
  void end() TW_EXCLUDES(lock_);
  // The time series begins with the first begin() and ends here.
  void end_series() TW_EXCLUDES(lock_);
  // For the progress line; total 0: not known. writes_back: what is dirty is its rest.
  void phase(std::string name, std::uint64_t total, bool writes_back = false) TW_EXCLUDES(lock_);
  // Stops, and writes the CSV's last row.
  void finish() TW_EXCLUDES(lock_);
  bool csv_failed() const { return csv_failed_; }
  // After finish().
  const std::vector<LoadSample>& samples() const TW_NO_THREAD_SAFETY_ANALYSIS { return samples_; }
  std::vector<SeriesPoint> series() const TW_NO_THREAD_SAFETY_ANALYSIS { return series_.points(); }

 private:
  void run() TW_EXCLUDES(lock_);
  void take_sample_locked(bool counted) TW_REQUIRES(lock_);
  void add_to_series_locked(Instant at, std::uint64_t files, const TargetGauges& gauges) TW_REQUIRES(lock_);
  void write_row_locked() TW_REQUIRES(lock_);
  void show_progress_locked() TW_REQUIRES(lock_);

  WorkloadTarget& target_;
  const std::function<std::uint64_t()> files_;
  const Options options_;
  bool csv_failed_ = false;  // written under lock_, read after finish()
  Mutex lock_;
  CondVar changed_;
  bool stopping_ TW_GUARDED_BY(lock_) = false;
  bool counting_ TW_GUARDED_BY(lock_) = false;
  bool throttled_seen_ TW_GUARDED_BY(lock_) = false;
  std::vector<LoadSample> samples_ TW_GUARDED_BY(lock_);
  bool recording_ TW_GUARDED_BY(lock_) = false;
  TimeSeries series_ TW_GUARDED_BY(lock_);
  Instant start_ TW_GUARDED_BY(lock_);
  Instant row_at_ TW_GUARDED_BY(lock_);
  Instant next_row_ TW_GUARDED_BY(lock_);
  LoadSample row_base_ TW_GUARDED_BY(lock_);
  std::string phase_name_ TW_GUARDED_BY(lock_) = "start";
  std::uint64_t phase_total_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t phase_base_ TW_GUARDED_BY(lock_) = 0;
  Instant phase_start_ TW_GUARDED_BY(lock_);
  bool phase_writes_back_ TW_GUARDED_BY(lock_) = false;
  bool progress_shown_ TW_GUARDED_BY(lock_) = false;
  bool interruption_shown_ TW_GUARDED_BY(lock_) = false;
  Thread thread_;
};

}  // namespace tidewheel::bench
