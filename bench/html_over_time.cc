#include "bench/html_over_time.h"

#include <algorithm>

#include "bench/compare_table.h"
#include "bench/html_chart.h"
#include "bench/html_text.h"

namespace tidewheel::bench {

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kStretchesInChart = 80;

std::string mib_text(double mib) { return short_number(mib); }

const RunFigures* median_run(std::vector<const RunFigures*> runs) {
  std::erase_if(runs, [](const RunFigures* run) { return run->series.time_s.size() < 2; });
  if (runs.empty()) return nullptr;
  std::sort(runs.begin(), runs.end(),
            [](const RunFigures* a, const RunFigures* b) { return a->files_per_s < b->files_per_s; });
  return runs[(runs.size() - 1) / 2];
}

std::vector<Mark> moments_of(const RunFigures::Series& series) {
  std::vector<Mark> moments;
  if (series.background_passed_s) moments.push_back({*series.background_passed_s, "background"});
  if (series.first_throttled_s) moments.push_back({*series.first_throttled_s, "throttled"});
  std::sort(moments.begin(), moments.end(), [](const Mark& a, const Mark& b) { return a.at < b.at; });
  return moments;
}

Curve rate_curve(const std::vector<Stretch>& stretches, double until_s, const char* style) {
  Curve curve{.x = {0}, .y = {}, .style = style, .steps = true};
  for (const Stretch& one : stretches) {
    if (curve.x.size() > 1 && one.to_s > until_s) break;
    curve.x.push_back(one.to_s);
    curve.y.push_back(one.files_per_s);
  }
  const double first = curve.y.empty() ? 0 : curve.y.front();
  curve.y.insert(curve.y.begin(), first);
  return curve;
}

Curve level_curve(const RunFigures::Series& series, bool total, const char* style) {
  Curve curve{.x = series.time_s, .y = series.dirty_bytes, .style = style};
  for (std::size_t i = 0; i < curve.y.size(); ++i) {
    if (total) curve.y[i] += series.writeback_bytes[i];
    curve.y[i] /= kMiB;
  }
  return curve;
}

double sync_from(const RunFigures& run) {
  return run.series.final_sync_from_s.value_or(run.series.time_s.empty() ? 0 : run.series.time_s.back());
}

std::string table_of(const std::vector<Stretch>& stretches, const std::string& caption) {
  std::vector<std::vector<std::string>> rows = {
      {"s", "files/s", "MB/s written", "dirty MiB", "writeback MiB", "throttled"}};
  for (const Stretch& one : stretches) {
    rows.push_back({fixed(one.to_s, 3), fixed(one.files_per_s, 0), fixed(one.mb_per_s, 1),
                    fixed(one.dirty_bytes / kMiB, 2), fixed(one.writeback_bytes / kMiB, 2),
                    fixed(one.throttled_threads, 0)});
  }
  return html_table(html_escape(caption), rows);
}

}  // namespace

std::vector<Stretch> stretches_of(const RunFigures::Series& series, double least_s) {
  std::vector<Stretch> out;
  std::size_t from = 0, from_before = 0;
  bool may_join = false;  // the one before is of the same phase
  Stretch open;
  double most = -1;
  for (std::size_t i = 1; i < series.time_s.size(); ++i) {
    const double both = series.dirty_bytes[i] + series.writeback_bytes[i];
    if (both > most) {
      most = both;
      open.dirty_bytes = series.dirty_bytes[i];
      open.writeback_bytes = series.writeback_bytes[i];
    }
    open.throttled_threads = std::max(open.throttled_threads, series.throttled_threads[i]);
    const double length = series.time_s[i] - series.time_s[from];
    const bool last = i + 1 == series.time_s.size();
    // The final sync is not averaged with the creates before it.
    const bool syncs = series.final_sync_from_s && series.time_s[i] <= *series.final_sync_from_s + 1e-3 &&
                       !last && series.time_s[i + 1] > *series.final_sync_from_s;
    if ((length < least_s && !last && !syncs) || length <= 0) continue;
    if (length < least_s / 2 && may_join) {
      // Too short for a rate of its own: it joins the one before.
      const Stretch& before = out.back();
      if (before.dirty_bytes + before.writeback_bytes > most) {
        open.dirty_bytes = before.dirty_bytes;
        open.writeback_bytes = before.writeback_bytes;
      }
      open.throttled_threads = std::max(open.throttled_threads, before.throttled_threads);
      from = from_before;
      out.pop_back();
    }
    open.to_s = series.time_s[i];
    const double whole = series.time_s[i] - series.time_s[from];
    open.files_per_s = (series.files[i] - series.files[from]) / whole;
    open.mb_per_s = (series.device_write_bytes[i] - series.device_write_bytes[from]) / whole / 1e6;
    out.push_back(open);
    open = {};
    most = -1;
    may_join = !syncs;
    from_before = from;
    from = i;
  }
  return out;
}

std::string over_time_charts(const std::vector<DesignRuns>& designs, const std::string& threads,
                             std::uint64_t background_bytes, std::uint64_t dirty_bytes,
                             const std::function<std::string()>& next_id) {
  double time = 0, rate = 0, level = static_cast<double>(dirty_bytes);
  for (const DesignRuns& one : designs) {
    for (const RunFigures* run : one.runs) {
      if (!run->series.time_s.empty()) time = std::max(time, run->series.time_s.back());
    }
  }
  const double background_mib = static_cast<double>(background_bytes) / kMiB;
  const double limit_mib = static_cast<double>(dirty_bytes) / kMiB;
  const double least_s = time / kStretchesInChart;
  for (const DesignRuns& one : designs) {
    for (const RunFigures* run : one.runs) {
      for (const Stretch& stretch : stretches_of(run->series, least_s)) {
        rate = std::max(rate, stretch.files_per_s);
        level = std::max(level, stretch.dirty_bytes + stretch.writeback_bytes);
      }
    }
  }
  std::string out = "<div class=\"grid\">\n";
  for (const DesignRuns& one : designs) {
    const RunFigures* main = median_run(one.runs);
    out += "<figure><figcaption>" + html_escape(one.design) + " <small>" + html_escape(threads);
    if (main == nullptr) {
      out += "</small></figcaption><p class=\"soft\">no complete run</p></figure>\n";
      continue;
    }
    if (one.runs.size() > 1) out += ", strong line: round " + std::to_string(main->round);
    out += "</small></figcaption>\n";
    TimeChart rates{.x_most = time,
                    .y_most = rate,
                    .y_unit = "files/s",
                    .curves = {},
                    .levels = {},
                    .moments = moments_of(main->series),
                    .shaded_from = sync_from(*main),
                    .colour = one.colour};
    TimeChart levels = rates;
    levels.y_most = level / kMiB;
    levels.y_unit = "MiB: area dirty, line dirty + writeback";
    levels.levels = {{background_mib, "background"}, {limit_mib, "dirty limit"}};
    for (Mark& moment : levels.moments) moment.label.clear();  // named above
    for (const RunFigures* run : one.runs) {
      if (run == main) continue;
      rates.curves.push_back(
          rate_curve(stretches_of(run->series, least_s), sync_from(*run) + 1e-3, "other"));
      levels.curves.push_back(level_curve(run->series, true, "other"));
    }
    const std::vector<Stretch> stretches = stretches_of(main->series, least_s);
    rates.curves.push_back(rate_curve(stretches, sync_from(*main) + 1e-3, "main"));
    levels.curves.push_back(level_curve(main->series, false, "area"));
    levels.curves.push_back(level_curve(main->series, true, "total"));
    const std::string what = one.design + ", " + threads;
    out += time_chart({next_id(), "Creates per second over time, " + what,
                       "The round with the median rate, " + short_number(main->files_per_s) +
                           " files per second in all; the table has the values."},
                      rates, [](double v) { return short_number(v); });
    out += time_chart({next_id(), "Dirty and writeback bytes over time, " + what,
                       "With the background threshold at " + mib_text(background_mib) +
                           " MiB and the dirty limit at " + mib_text(limit_mib) + " MiB."},
                      levels, mib_text);
    out += "<p class=\"readout\" aria-hidden=\"true\"></p>\n";
    out += html_details("Table", table_of(stretches, what + ", round " + std::to_string(main->round)));
    out += "</figure>\n";
  }
  return out + "</div>\n";
}

}  // namespace tidewheel::bench
