#include "bench/time_series.h"

#include <algorithm>

namespace tidewheel::bench {

void SeriesPoint::merge(const SeriesPoint& next) {
  at = next.at;
  files = next.files;
  device_write_bytes = next.device_write_bytes;
  throttled_threads = std::max(throttled_threads, next.throttled_threads);
  if (next.dirty_bytes + next.writeback_bytes > dirty_bytes + writeback_bytes) {
    dirty_bytes = next.dirty_bytes;
    writeback_bytes = next.writeback_bytes;
  }
}

void TimeSeries::add(const SeriesPoint& sample) {
  if (points_.empty()) {
    points_.push_back(sample);  // where the run starts
    return;
  }
  if (open_samples_ == 0) {
    open_ = sample;
  } else {
    open_.merge(sample);
  }
  if (++open_samples_ < samples_per_point_) return;
  open_samples_ = 0;
  points_.push_back(open_);
  // One place stays free for the stretch that points() closes early.
  if (points_.size() < kMostPoints - 1) return;
  std::size_t kept = 1;
  std::size_t i = 1;
  for (; i + 1 < points_.size(); i += 2) {
    points_[i].merge(points_[i + 1]);
    points_[kept++] = points_[i];
  }
  if (i < points_.size()) {
    open_ = points_[i];
    open_samples_ = samples_per_point_;
  }
  points_.resize(kept);
  samples_per_point_ *= 2;
}

std::vector<SeriesPoint> TimeSeries::points() const {
  std::vector<SeriesPoint> all = points_;
  if (open_samples_ != 0) all.push_back(open_);
  return all;
}

}  // namespace tidewheel::bench
