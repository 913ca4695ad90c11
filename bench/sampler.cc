#include "bench/sampler.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "bench/interrupt.h"
#include "bench/numbers.h"

namespace tidewheel::bench {

namespace {

LockClass g_sampler_lock("bench_sampler", LockRank::kBench);

Instant clock_now() { return SteadyClock::instance().now(); }

}  // namespace

Sampler::Sampler(WorkloadTarget& target, std::function<std::uint64_t()> files, Options options)
    : target_(target), files_(std::move(files)), options_(std::move(options)), lock_(g_sampler_lock) {
  MutexLock hold(lock_);
  start_ = clock_now();
  phase_start_ = start_;
  next_row_ = start_ + seconds(1);
  row_base_ = LoadSample{.at = start_, .files = files_(), .write_ios = 0, .write_bytes = 0, .counted = false};
  if (options_.csv != nullptr) {
    csv_failed_ =
        std::fprintf(options_.csv, "%s\n", kIntervalCsvHeader) < 0 || std::fflush(options_.csv) != 0;
  }
}

Result<void> Sampler::start() {
  auto thread = Thread::start("sampler", [this] { run(); });
  if (!thread) return Unexpected(thread.error());
  thread_ = std::move(thread).value();
  return {};
}

Sampler::~Sampler() { finish(); }

void Sampler::begin() {
  MutexLock hold(lock_);
  recording_ = true;
  take_sample_locked(false);
  counting_ = true;
}

void Sampler::end() {
  MutexLock hold(lock_);
  take_sample_locked(true);
  counting_ = false;
}

void Sampler::end_series() {
  MutexLock hold(lock_);
  if (!recording_) return;
  add_to_series_locked(clock_now(), files_(), target_.gauges());
  recording_ = false;
}

void Sampler::phase(std::string name, std::uint64_t total, bool writes_back) {
  MutexLock hold(lock_);
  phase_writes_back_ = writes_back;
  phase_name_ = std::move(name);
  phase_total_ = total;
  phase_base_ = files_();
  phase_start_ = clock_now();
}

void Sampler::finish() {
  {
    MutexLock hold(lock_);
    if (stopping_) return;
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock hold(lock_);
  if (options_.csv != nullptr) {
    write_row_locked();
    if (std::fclose(options_.csv) != 0) csv_failed_ = true;
  }
  if (progress_shown_) std::fputs("\r\x1b[K", stderr);
}

void Sampler::run() {
  MutexLock hold(lock_);
  while (!stopping_) {
    changed_.wait_for(lock_, throttled_seen_ ? milliseconds(25) : milliseconds(10));
    if (stopping_) break;
    if (interrupted()) target_.interrupt();
    if (interrupted() && !interruption_shown_) {
      interruption_shown_ = true;
      if (options_.progress) show_progress_locked();  // at once: what follows may take long
    }
    if (counting_) {
      take_sample_locked(true);
    } else if (recording_) {
      add_to_series_locked(clock_now(), files_(), target_.gauges());
    }
    if (clock_now() >= next_row_) {
      next_row_ = next_row_ + seconds(1);
      if (options_.csv != nullptr) write_row_locked();
      if (options_.progress) show_progress_locked();
    }
  }
}

void Sampler::take_sample_locked(bool counted) {
  const TargetGauges gauges = target_.gauges();
  samples_.push_back(LoadSample{.at = clock_now(),
                                .files = files_(),
                                .write_ios = gauges.device_writes,
                                .write_bytes = gauges.device_write_bytes,
                                .counted = counted});
  if (recording_) add_to_series_locked(samples_.back().at, samples_.back().files, gauges);
  if (!throttled_seen_) {
    const auto moments = target_.moments();
    throttled_seen_ = !moments || moments->first_throttled.has_value();
  }
}

void Sampler::add_to_series_locked(Instant at, std::uint64_t files, const TargetGauges& gauges) {
  series_.add(SeriesPoint{.at = at,
                          .files = files,
                          .device_write_bytes = gauges.device_write_bytes,
                          .dirty_bytes = gauges.dirty_bytes,
                          .writeback_bytes = gauges.writeback_bytes,
                          .throttled_threads = gauges.throttled_threads});
}

void Sampler::write_row_locked() {
  const TargetGauges gauges = target_.gauges();
  const LoadSample now{.at = clock_now(),
                       .files = files_(),
                       .write_ios = gauges.device_writes,
                       .write_bytes = gauges.device_write_bytes,
                       .counted = false};
  const double elapsed = std::max((now.at - row_base_.at).seconds(), 1e-6);
  const auto rate = [&](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / elapsed;
  };
  const int written = std::fprintf(
      options_.csv, "%.3f,%llu,%.1f,%llu,%llu,%.1f,%.3f,%llu,%u,%.1f\n", (now.at - start_).seconds(),
      static_cast<unsigned long long>(now.files), rate(row_base_.files, now.files),
      static_cast<unsigned long long>(gauges.dirty_bytes),
      static_cast<unsigned long long>(gauges.writeback_bytes), rate(row_base_.write_ios, now.write_ios),
      rate(row_base_.write_bytes, now.write_bytes) / 1e6, static_cast<unsigned long long>(gauges.log_bytes),
      gauges.throttled_threads, target_.oldest_dirty_age_ms());
  if (written < 0 || std::fflush(options_.csv) != 0) csv_failed_ = true;
  row_base_ = now;
}

void Sampler::show_progress_locked() {
  const double elapsed = (clock_now() - phase_start_).seconds();
  const std::uint64_t done = files_() - phase_base_;
  const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
  std::fprintf(stderr, "\r\x1b[K%s%s: ", options_.label.c_str(), phase_name_.c_str());
  if (phase_total_ == 0) {
    std::fprintf(stderr, "%.0f s", elapsed);
    if (done != 0) std::fprintf(stderr, ", %llu files, %.0f/s", static_cast<unsigned long long>(done), rate);
    if (phase_writes_back_) {
      const TargetGauges gauges = target_.gauges();
      const std::uint64_t left_bytes = gauges.dirty_bytes + gauges.writeback_bytes;
      if (left_bytes != 0) std::fprintf(stderr, ", %s left", about_size(left_bytes).c_str());
    }
  } else {
    std::fprintf(stderr, "%llu of %llu files, %.0f/s", static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(phase_total_), rate);
    if (rate > 0 && done <= phase_total_) {
      std::fprintf(stderr, ", %.0f s left", static_cast<double>(phase_total_ - done) / rate);
    }
  }
  if (interrupted()) std::fputs(" (Ctrl-C again to stop at once)", stderr);
  std::fflush(stderr);
  progress_shown_ = true;
}

}  // namespace tidewheel::bench
