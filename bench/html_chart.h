// bench/html_chart.h: charts as inline SVG, drawn for a width of 360 and scaled by the page.
// Threads:   pure functions.
// Units:     pixels of the SVG; values as the caller names them.
// Note:      no chart tells by colour alone: bars and rows carry their names, lines have dashes and end
//            labels, percentiles have shapes. Each has <title> and <desc>; exact figures stand in the page.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/compare_table.h"

namespace tidewheel::bench {

using Format = std::function<std::string(double)>;

struct ChartText {
  std::string id;     // unique in the page
  std::string title;  // plain text
  std::string desc;
};

struct Bar {
  std::string label;
  std::size_t colour = 0;
  Spread value;         // count 0: not reached
  std::string absent = "not reached";
};
struct BarGroup {
  std::string label;
  std::vector<Bar> bars;
};
// Horizontal bars with the spread as a whisker. `log`: lengths by powers of ten, from 1.
std::string bar_chart(const ChartText& text, const std::vector<BarGroup>& groups, const Format& format,
                      bool log);

struct Curve {
  std::vector<double> x, y;
  std::string style;  // classes of the SVG path: "main", "other", "area"
  bool steps = false;
};
struct Mark {
  double at = 0;
  std::string label;
};
struct TimeChart {
  double x_most = 1, y_most = 1;
  std::string y_unit;
  std::vector<Curve> curves;
  std::vector<Mark> levels;   // horizontal
  std::vector<Mark> moments;  // vertical
  double shaded_from = -1;    // to the end; below 0: nothing
  std::size_t colour = 0;
};
std::string time_chart(const ChartText& text, const TimeChart& chart, const Format& format);

struct Percentiles {
  std::string label;
  std::size_t colour = 0;
  std::vector<double> values;  // p50, p90, p99, p99.9, max, ns; empty: the call did not occur
};
std::string percentile_chart(const ChartText& text, const std::vector<Percentiles>& rows);

struct CpuLine {
  std::string label;
  std::size_t colour = 0;
  std::vector<double> values;  // one for each of `cpus`
};
std::string cpu_chart(const ChartText& text, const std::vector<double>& cpus,
                      const std::vector<CpuLine>& lines);

}  // namespace tidewheel::bench
