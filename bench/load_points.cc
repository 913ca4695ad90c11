#include "bench/load_points.h"

#include <algorithm>
#include <cmath>

namespace tidewheel::bench {

namespace {

struct Sum {
  double seconds = 0, files = 0, ios = 0, bytes = 0;

  void add(const Sum& part) {
    seconds += part.seconds;
    files += part.files;
    ios += part.ios;
    bytes += part.bytes;
  }
};

// A stretch, or what is left of one after cut_front().
struct Stretch {
  Instant begin, end;
  Sum sum;

  // Takes off what lies before `at`. Files are shared out by time; I/O as well, or, when its rate until
  // now is given, goes on at that rate: writeback starts at a threshold, not before it.
  Sum cut_front(Instant at, const Sum* rate_until_now) {
    at = std::clamp(at, begin, end);
    const double share =
        end == begin ? 0 : static_cast<double>((at - begin).ns) / static_cast<double>((end - begin).ns);
    Sum front{.seconds = (at - begin).seconds(),
              .files = sum.files * share,
              .ios = sum.ios * share,
              .bytes = sum.bytes * share};
    if (rate_until_now != nullptr && at != end) {
      front.ios = std::min(sum.ios, rate_until_now->ios * front.seconds);
      front.bytes = std::min(sum.bytes, rate_until_now->bytes * front.seconds);
    }
    begin = at;
    sum = {.seconds = (end - begin).seconds(), .files = sum.files - front.files, .ios = sum.ios - front.ios,
           .bytes = sum.bytes - front.bytes};
    return front;
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
  Sum rate;  // per second, of the stretch before
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const LoadSample& from = samples[i - 1];
    const LoadSample& to = samples[i];
    if (!to.counted || to.at <= from.at) continue;
    Stretch stretch{.begin = from.at,
                    .end = to.at,
                    .sum = {.seconds = (to.at - from.at).seconds(),
                            .files = static_cast<double>(to.files - from.files),
                            .ios = static_cast<double>(to.write_ios - from.write_ios),
                            .bytes = static_cast<double>(to.write_bytes - from.write_bytes)}};
    const Sum whole = stretch.sum;
    below_background.add(stretch.cut_front(background, &rate));
    below_foreground.add(stretch.cut_front(throttled, nullptr));
    sustained.add(stretch.sum);
    rate = {.seconds = 1, .files = whole.files / whole.seconds, .ios = whole.ios / whole.seconds,
            .bytes = whole.bytes / whole.seconds};
  }
  return {.below_background = point_of(below_background),
          .below_foreground = point_of(below_foreground),
          .sustained = point_of(sustained)};
}

}  // namespace tidewheel::bench
