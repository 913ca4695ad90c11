// bench/run_figures.h: what compare reads out of a child's JSON, for the table, the model and the page.
// Threads:   pure functions.
// Units:     as named; the series counts from the start of the first loop.
// Errors:    nullopt for a text that is not the JSON of a run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tidewheel::bench {

struct RunFigures {
  std::string design;
  std::uint32_t threads = 0, round = 0;
  double files_per_s = 0, cpu_us_per_file = 0, wall_s = 0, final_sync_s = 0;
  std::uint64_t files = 0;
  std::uint64_t slowest_files = 0, fastest_files = 0;  // of the threads, when the first one was through
  std::uint64_t throttle_pauses = 0;
  std::uint64_t most_charged_bytes = 0, limit_bytes = 0;  // dirty, under writeback and granted; its limit
  struct Point {
    double files_per_s = 0, write_iops = 0, write_mb_per_s = 0, seconds = 0;
  };
  std::optional<Point> below_background, below_foreground, sustained;
  // Of the dirty list's locks, all threads.
  double contended_per_million = 0;
  double lock_wait_ms = 0;
  std::uint64_t list_acquisitions = 0, list_contended = 0;
  double list_hold_ns_mean = 0;  // of the holds that were timed; 0: none was
  double list_hold_ns_p99 = 0;
  // Of the dirty list.
  std::uint64_t max_elements_per_hold = 0;
  std::uint64_t elements_under_lock = 0;
  std::uint32_t list_shards = 0;
  double write_amplification = 0;
  bool disturbed = false, interrupted = false;
  std::vector<std::string> errors;

  struct Latency {
    std::string call;
    std::uint64_t count = 0;
    double p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;  // ns
  };
  std::vector<Latency> latencies;  // of the calls that occurred
  struct Lock {
    std::string name;
    std::uint64_t acquisitions = 0, contended = 0;
    double wait_ms = 0, hold_ns_p99 = 0, hold_ns_mean = 0;
  };
  std::vector<Lock> locks;
  struct Series {
    std::vector<double> time_s, files, device_write_bytes, dirty_bytes, writeback_bytes, throttled_threads;
    std::optional<double> background_passed_s, first_throttled_s, final_sync_from_s;
  };
  Series series;  // its columns are of one length
};
// nullopt: the text is not such a JSON.
std::optional<RunFigures> read_figures(const std::string& json);

}  // namespace tidewheel::bench
