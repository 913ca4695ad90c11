#include "writeback/bandwidth_estimate.h"

#include <algorithm>

namespace tidewheel {
namespace {

using Wide = unsigned __int128;

constexpr std::uint64_t kSecond = 1'000'000'000;

}  // namespace

BandwidthEstimate update_bandwidth(BandwidthEstimate now, const RateSample& sample) {
  if (sample.elapsed.ns <= 0) return now;
  const auto elapsed = static_cast<std::uint64_t>(sample.elapsed.ns);
  constexpr auto kWindow = static_cast<std::uint64_t>(BandwidthEstimate::kWindow.ns);
  const std::uint64_t before = now.write_bandwidth;
  if (elapsed > kWindow) {
    now.write_bandwidth = static_cast<std::uint64_t>(Wide{sample.written_bytes} * kSecond / elapsed);
    now.average_write_bandwidth = std::max<std::uint64_t>(now.write_bandwidth, 1);
    return now;
  }
  const Wide sum = Wide{sample.written_bytes} * kSecond + Wide{before} * (kWindow - elapsed);
  now.write_bandwidth = static_cast<std::uint64_t>(sum / kWindow);
  std::uint64_t& average = now.average_write_bandwidth;
  if (average > before && before >= now.write_bandwidth) {
    average -= (average - before) / 8;
  } else if (average < before && before <= now.write_bandwidth) {
    average += (before - average) / 8;
  }
  average = std::max<std::uint64_t>(average, 1);
  return now;
}

std::uint64_t follow_dirty_limit(std::uint64_t limit, std::uint64_t threshold, std::uint64_t dirty) {
  if (limit <= threshold) return threshold;
  const std::uint64_t floor = std::max(threshold, dirty);
  if (limit <= floor) return limit;
  // Rounded up, so that it arrives.
  return limit - (limit - floor + kDirtyLimitStep - 1) / kDirtyLimitStep;
}

}  // namespace tidewheel
