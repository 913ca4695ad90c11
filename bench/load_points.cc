#include "bench/load_points.h"

#include <algorithm>
#include <cmath>

namespace tidewheel::bench {

namespace {

struct Sum {
  double seconds = 0, files = 0, ios = 0, bytes = 0;

  void add_part(const LoadSample& from, const LoadSample& to, Instant begin, Instant end) {
    if (end <= begin) return;
    const double share = static_cast<double>((end - begin).ns) / static_cast<double>((to.at - from.at).ns);
    seconds += (end - begin).seconds();
    files += share * static_cast<double>(to.files - from.files);
    ios += share * static_cast<double>(to.write_ios - from.write_ios);
    bytes += share * static_cast<double>(to.write_bytes - from.write_bytes);
  }
};

std::optional<LoadPoint> point_of(const Sum& sum) {
  if (sum.seconds <= 0) return std::nullopt;
  return LoadPoint{.files = static_cast<std::uint64_t>(std::llround(sum.files)),
                   .seconds = sum.seconds,
                   .files_per_s = sum.files / sum.seconds,
                   .write_iops = sum.ios / sum.seconds,
                   .write_mb_per_s = sum.bytes / sum.seconds / 1e6};
}

}  // namespace

LoadPoints cut_load_points(std::span<const LoadSample> samples, std::optional<Instant> background_passed,
                           std::optional<Instant> first_throttled) {
  const Instant throttled = first_throttled.value_or(Instant::max());
  // A writer may be throttled before the background threshold is passed, by memory that is not dirty
  // pages; sustained goes first then.
  const Instant background = std::min(background_passed.value_or(Instant::max()), throttled);
  Sum below_background, below_foreground, sustained;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const LoadSample& from = samples[i - 1];
    const LoadSample& to = samples[i];
    if (!to.counted || to.at <= from.at) continue;
    below_background.add_part(from, to, from.at, std::min(to.at, background));
    below_foreground.add_part(from, to, std::max(from.at, background), std::min(to.at, throttled));
    sustained.add_part(from, to, std::max(from.at, throttled), to.at);
  }
  return {.below_background = point_of(below_background),
          .below_foreground = point_of(below_foreground),
          .sustained = point_of(sustained)};
}

}  // namespace tidewheel::bench
