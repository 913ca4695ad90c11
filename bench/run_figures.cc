#include "bench/run_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/designs.h"

namespace tidewheel::bench {

namespace {

using nlohmann::json;

std::optional<RunFigures::Point> point_of(const json& point) {
  if (point.is_null()) return std::nullopt;
  return RunFigures::Point{.files_per_s = point.at("files_per_s"),
                           .write_iops = point.at("write_iops"),
                           .write_mb_per_s = point.at("write_mb_per_s"),
                           .seconds = point.at("seconds")};
}

std::optional<double> number_or_none(const json& number) {
  if (number.is_null()) return std::nullopt;
  return number.get<double>();
}

void read_locks(const json& locks, RunFigures& figures) {
  double timed_ns = 0, timed = 0;
  for (const json& lock : locks) {
    const double samples = lock.at("hold_samples");
    const double hold_ns = lock.at("hold_ns_total");
    figures.locks.push_back({.name = lock.at("name"),
                             .acquisitions = lock.at("acquisitions"),
                             .contended = lock.at("contended"),
                             .wait_ms = lock.at("wait_ns_total").get<double>() * 1e-6,
                             .hold_ns_p99 = lock.at("hold_ns_p99"),
                             .hold_ns_mean = samples > 0 ? hold_ns / samples : 0});
    const RunFigures::Lock& read = figures.locks.back();
    // The dirty list's own locks are what the designs differ in.
    if (!is_list_lock(read.name)) continue;
    figures.list_acquisitions += read.acquisitions;
    figures.list_contended += read.contended;
    figures.lock_wait_ms += read.wait_ms;
    figures.list_hold_ns_p99 = std::max(figures.list_hold_ns_p99, read.hold_ns_p99);
    timed_ns += hold_ns;
    timed += samples;
  }
  figures.list_hold_ns_mean = timed > 0 ? timed_ns / timed : 0;
  if (figures.list_acquisitions != 0) {
    figures.contended_per_million =
        static_cast<double>(figures.list_contended) * 1e6 / static_cast<double>(figures.list_acquisitions);
  }
}

RunFigures::Series series_of(const json& series) {
  RunFigures::Series out;
  if (series.is_null()) return out;
  out.background_passed_s = number_or_none(series.at("background_passed_s"));
  out.first_throttled_s = number_or_none(series.at("first_throttled_s"));
  out.final_sync_from_s = number_or_none(series.at("final_sync_from_s"));
  series.at("time_s").get_to(out.time_s);
  series.at("files").get_to(out.files);
  series.at("device_write_bytes").get_to(out.device_write_bytes);
  series.at("dirty_bytes").get_to(out.dirty_bytes);
  series.at("writeback_bytes").get_to(out.writeback_bytes);
  series.at("throttled_threads").get_to(out.throttled_threads);
  return out;
}

std::vector<RunFigures::Latency> latencies_of(const json& latencies) {
  std::vector<RunFigures::Latency> out;
  for (const auto& [call, of] : latencies.items()) {
    if (of.is_null()) continue;
    out.push_back({.call = call,
                   .count = of.at("count"),
                   .p50 = of.at("p50"),
                   .p90 = of.at("p90"),
                   .p99 = of.at("p99"),
                   .p999 = of.at("p999"),
                   .max = of.at("max")});
  }
  return out;
}

}  // namespace

std::optional<RunFigures> read_figures(const std::string& text) {
  const json run = json::parse(text, nullptr, false);
  if (run.is_discarded() || !run.is_object() || run.value("schema", "") != "tidewheel.fsmark/1") {
    return std::nullopt;
  }
  RunFigures figures;
  figures.design = run.at("design").is_null() ? "" : run.at("design").get<std::string>();
  figures.threads = run.at("threads");
  figures.round = run.at("round");
  figures.files = run.at("files");
  figures.files_per_s = run.at("files_per_s");
  if (run.contains("threads_files")) {
    figures.slowest_files = run.at("threads_files").at("slowest");
    figures.fastest_files = run.at("threads_files").at("fastest");
  }
  figures.cpu_us_per_file = run.at("cpu_us_per_file");
  figures.wall_s = run.at("wall_s");
  figures.final_sync_s = run.at("final_sync_s");
  const json& points = run.at("load_points");
  figures.below_background = point_of(points.at("below_background"));
  figures.below_foreground = point_of(points.at("below_foreground"));
  figures.sustained = point_of(points.at("sustained"));
  read_locks(run.at("locks"), figures);
  if (const json& list = run.at("dirty_list"); !list.is_null()) {
    figures.max_elements_per_hold = list.at("max_elements_per_hold");
    figures.elements_under_lock = list.at("elements_under_lock");
    figures.list_shards = list.at("shards");
  }
  if (const json& throttle = run.at("throttle"); !throttle.is_null()) {
    figures.throttle_pauses = throttle.at("pauses");
    figures.most_charged_bytes = throttle.at("most_charged_bytes");
    figures.limit_bytes = throttle.at("limit_bytes");
  }
  if (!run.at("write_amplification").is_null()) figures.write_amplification = run.at("write_amplification");
  figures.latencies = latencies_of(run.at("latency_ns"));
  figures.series = series_of(run.at("series"));
  figures.disturbed = run.at("disturbed");
  figures.interrupted = run.at("interrupted");
  figures.errors = run.at("errors").get<std::vector<std::string>>();
  return figures;
}

}  // namespace tidewheel::bench
