#include "bench/html_chart.h"

#include <algorithm>
#include <cmath>

#include "bench/html_text.h"

namespace tidewheel::bench {

namespace {

std::string px(double value) { return fixed(value, 1); }

std::string open_svg(const ChartText& text, double height, const std::string& more = "") {
  return "<svg viewBox=\"0 0 360 " + px(height) + "\" role=\"img\" aria-labelledby=\"" + text.id + "-t " +
         text.id + "-d\"" + more + "><title id=\"" + text.id + "-t\">" + html_escape(text.title) +
         "</title><desc id=\"" + text.id + "-d\">" + html_escape(text.desc) + "</desc>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return "<line class=\"" + std::string(style) + "\" x1=\"" + px(x1) + "\" y1=\"" + px(y1) + "\" x2=\"" +
         px(x2) + "\" y2=\"" + px(y2) + "\"/>";
}

std::string label(double x, double y, const std::string& text, const char* anchor, const char* style) {
  return "<text class=\"" + std::string(style) + "\" x=\"" + px(x) + "\" y=\"" + px(y) +
         "\" text-anchor=\"" + anchor + "\">" + html_escape(text) + "</text>\n";
}

std::string colour_class(std::size_t colour) { return "c" + std::to_string(colour % 8); }

// A round number of the form 1, 2 or 5 times a power of ten, about a quarter of `most`.
double tick_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(std::max(most, 1e-9) / 3)));
  const double lead = most / 3 / power;
  return power * (lead >= 5 ? 5 : lead >= 2 ? 2 : 1);
}

// Five shapes that differ without colour.
std::string shape(std::size_t which, double x, double y, const std::string& title) {
  const std::string inside = "<title>" + html_escape(title) + "</title>";
  const auto points = [&](std::initializer_list<std::pair<double, double>> corners) {
    std::string list;
    for (const auto& [dx, dy] : corners) list += px(x + dx) + "," + px(y + dy) + " ";
    return "<polygon points=\"" + list + "\">" + inside + "</polygon>";
  };
  switch (which % 5) {
    case 0:
      return "<circle cx=\"" + px(x) + "\" cy=\"" + px(y) + "\" r=\"4\">" + inside + "</circle>";
    case 1:
      return points({{-3.6, -3.6}, {3.6, -3.6}, {3.6, 3.6}, {-3.6, 3.6}});
    case 2:
      return points({{0, -4.6}, {4.6, 3.8}, {-4.6, 3.8}});
    case 3:
      return points({{0, -5}, {4.6, 0}, {0, 5}, {-4.6, 0}});
    default:
      return points({{-1.3, -5.5}, {1.3, -5.5}, {1.3, 5.5}, {-1.3, 5.5}});
  }
}

std::string path_of(const Curve& curve, const std::function<double(double)>& x,
                    const std::function<double(double)>& y, double floor_y) {
  std::string d;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    const double at_x = x(curve.x[i]), at_y = y(curve.y[i]);
    if (i == 0) {
      d = "M" + px(at_x) + " " + px(at_y);
    } else if (curve.steps) {
      d += "V" + px(at_y) + "H" + px(at_x);  // a value holds for the stretch that ends at its x
    } else {
      d += "L" + px(at_x) + " " + px(at_y);
    }
  }
  if (curve.style == "area" && !curve.x.empty()) {
    d += "V" + px(floor_y) + "H" + px(x(curve.x.front())) + "Z";
  }
  return d;
}

}  // namespace

std::string bar_chart(const ChartText& text, const std::vector<BarGroup>& groups, const Format& format,
                      bool log) {
  constexpr double kLeft = 98, kRight = 292, kRow = 17, kHead = 22;
  double most = 0;
  std::size_t rows = 0;
  for (const BarGroup& group : groups) {
    rows += group.bars.size();
    for (const Bar& bar : group.bars) {
      if (bar.value.count != 0) most = std::max(most, bar.value.high);
    }
  }
  const double decades = std::max(1.0, std::ceil(std::log10(std::max(most, 1.0))));
  const auto x = [&](double value) {
    const double share = log ? std::log10(std::max(value, 1.0)) / decades : most > 0 ? value / most : 0;
    return kLeft + std::clamp(share, 0.0, 1.0) * (kRight - kLeft);
  };
  const double height =
      kHead * static_cast<double>(groups.size()) + kRow * static_cast<double>(rows) + (log ? 18 : 6);
  std::string out = open_svg(text, height);
  if (log) {
    for (double decade = 0; decade <= decades; ++decade) {
      const double at = x(std::pow(10, decade));
      out += line(at, 4, at, height - 16, "grid");
      if (decades < 7 || static_cast<int>(decade) % 2 == 0) {
        out += label(at, height - 4, short_number(std::pow(10, decade)), "middle", "tick");
      }
    }
  }
  double y = 0;
  for (const BarGroup& group : groups) {
    if (!group.label.empty()) out += label(2, y + 15, group.label, "start", "group");
    y += kHead;
    for (const Bar& bar : group.bars) {
      const double middle = y + kRow / 2;
      out += label(kLeft - 6, middle + 4, bar.label, "end", "name");
      if (bar.value.count == 0) {
        out += label(kLeft + 4, middle + 4, bar.absent, "start", "absent");
        y += kRow;
        continue;
      }
      const Spread& v = bar.value;
      const std::string range = v.count > 1 ? " (" + format(v.low) + " to " + format(v.high) + ", " +
                                                  std::to_string(v.count) + " rounds)"
                                            : "";
      const double end = x(v.median);
      out += "<g><title>" +
             html_escape(group.label + (group.label.empty() ? "" : ", ") + bar.label + ": " +
                         format(v.median) + range) +
             "</title><rect class=\"bar " + colour_class(bar.colour) + "\" x=\"" + px(kLeft) + "\" y=\"" +
             px(y + 2) + "\" width=\"" + px(std::max(end - kLeft, 0.6)) + "\" height=\"" + px(kRow - 5) +
             "\" rx=\"1.5\"/>";
      double text_x = end;
      if (v.count > 1 && v.high > v.low) {
        out += line(x(v.low), middle - 0.5, x(v.high), middle - 0.5, "whisker") +
               line(x(v.low), middle - 4, x(v.low), middle + 3, "whisker") +
               line(x(v.high), middle - 4, x(v.high), middle + 3, "whisker");
        text_x = std::max(end, x(v.high));
      }
      out += label(text_x + 5, middle + 3.5, format(v.median), "start", "value") + "</g>";
      y += kRow;
    }
  }
  return out + "</svg>\n";
}

std::string time_chart(const ChartText& text, const TimeChart& chart, const Format& format) {
  constexpr double kLeft = 44, kRight = 352, kTop = 36, kBottom = 158, kHeight = 188;
  const double x_most = chart.x_most > 0 ? chart.x_most : 1;
  const double y_most = chart.y_most > 0 ? chart.y_most * 1.06 : 1;
  const auto x = [&](double v) { return kLeft + std::clamp(v / x_most, 0.0, 1.0) * (kRight - kLeft); };
  const auto y = [&](double v) { return kBottom - std::clamp(v / y_most, 0.0, 1.0) * (kBottom - kTop); };
  std::string out =
      open_svg(text, kHeight,
               " class=\"time\" data-left=\"44\" data-right=\"352\" data-most=\"" + fixed(x_most, 4) + "\"");
  if (chart.shaded_from >= 0 && chart.shaded_from < x_most) {
    const double from = x(chart.shaded_from);
    out += "<rect class=\"shade\" x=\"" + px(from) + "\" y=\"" + px(kTop) + "\" width=\"" +
           px(kRight - from) + "\" height=\"" + px(kBottom - kTop) + "\"/>";
    if (kRight - from > 50) out += label((from + kRight) / 2, kBottom - 6, "final sync", "middle", "mark");
  }
  const double y_step = tick_step(y_most);
  for (double v = 0; v <= y_most * 1.001; v += y_step) {
    out += line(kLeft, y(v), kRight, y(v), v == 0 ? "axis" : "grid") +
           label(kLeft - 4, y(v) + 3.5, format(v), "end", "tick");
  }
  const double x_step = tick_step(x_most);
  for (double v = 0; v <= x_most * 1.001; v += x_step) {
    out += line(x(v), kBottom, x(v), kBottom + 3, "axis") +
           label(x(v), kBottom + 14, fixed(v, x_step < 1 ? 1 : 0), "middle", "tick");
  }
  out += label((kLeft + kRight) / 2, kBottom + 27, "seconds since the first create", "middle", "tick") +
         label(2, 10, chart.y_unit, "start", "tick");
  for (const Mark& level : chart.levels) {
    out += line(kLeft, y(level.at), kRight, y(level.at), "level") +
           label(kRight - 2, y(level.at) - 3, level.label, "end", "mark");
  }
  for (const Curve& curve : chart.curves) {
    out += "<path class=\"" + curve.style + " " + colour_class(chart.colour) + "\" d=\"" +
           path_of(curve, x, y, kBottom) + "\"/>\n";
  }
  // Their names stand above the plot, in rows, so that two that are close stay readable.
  double label_y = kTop - 15;
  for (const Mark& moment : chart.moments) {
    const double at = x(moment.at);
    out += line(at, moment.label.empty() ? kTop : label_y - 6, at, kBottom, "moment");
    if (moment.label.empty()) continue;
    const bool left = at > kRight - 80;
    out += label(at + (left ? -3 : 3), label_y + 2, moment.label, left ? "end" : "start", "mark");
    label_y += 11;
  }
  return out + "<line class=\"cursor\" y1=\"36\" y2=\"158\" x1=\"-9\" x2=\"-9\"/></svg>\n";
}

std::string percentile_chart(const ChartText& text, const std::vector<Percentiles>& rows) {
  constexpr double kLeft = 98, kRight = 346, kRow = 20, kTop = 6;
  static constexpr const char* kNames[] = {"p50", "p90", "p99", "p99.9", "max"};
  double least = 1e18, most = 0;
  for (const Percentiles& row : rows) {
    for (const double v : row.values) {
      least = std::min(least, std::max(v, 1.0));
      most = std::max(most, v);
    }
  }
  const double low = std::floor(std::log10(std::min(least, 1e17)));
  const double high = std::max(low + 1, std::ceil(std::log10(std::max(most, 1.0))));
  const auto x = [&](double v) {
    return kLeft +
           std::clamp((std::log10(std::max(v, 1.0)) - low) / (high - low), 0.0, 1.0) * (kRight - kLeft);
  };
  const double bottom = kTop + kRow * static_cast<double>(rows.size());
  std::string out = open_svg(text, bottom + 18);
  const int every = high - low > 5 ? 2 : 1;
  for (int decade = static_cast<int>(low); decade <= static_cast<int>(high); ++decade) {
    const double at = x(std::pow(10, decade));
    out += line(at, kTop, at, bottom, "grid");
    if ((decade - static_cast<int>(low)) % every == 0) {
      out += label(at, bottom + 13, short_time(std::pow(10, decade)), "middle", "tick");
    }
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Percentiles& row = rows[r];
    const double y = kTop + kRow * (static_cast<double>(r) + 0.5);
    out += label(kLeft - 8, y + 4, row.label, "end", "name");
    if (row.values.empty()) {
      out += label(kLeft + 4, y + 4, "did not occur", "start", "absent");
      continue;
    }
    out += line(x(row.values.front()), y, x(row.values.back()), y, "span") + "<g class=\"dot " +
           colour_class(row.colour) + "\">";
    for (std::size_t i = row.values.size(); i-- > 0;) {
      out +=
          shape(i, x(row.values[i]), y, row.label + " " + kNames[i % 5] + ": " + short_time(row.values[i]));
    }
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

std::string cpu_chart(const ChartText& text, const std::vector<double>& cpus,
                      const std::vector<CpuLine>& lines) {
  constexpr double kLeft = 44, kRight = 262, kTop = 26, kBottom = 232, kHeight = 264;
  double least = 1e18, most = 0;
  for (const CpuLine& one : lines) {
    for (const double v : one.values) {
      least = std::min(least, std::max(v, 1.0));
      most = std::max(most, v);
    }
  }
  const double low = std::floor(std::log10(std::min(least, 1e17)));
  const double high = std::max(low + 1, std::ceil(std::log10(std::max(most, 1.0))));
  const double widest = std::log2(std::max(cpus.back(), 2.0));
  const auto x = [&](double v) { return kLeft + std::log2(v) / widest * (kRight - kLeft); };
  const auto y = [&](double v) {
    return kBottom - (std::log10(std::max(v, 1.0)) - low) / (high - low) * (kBottom - kTop);
  };
  std::string out = open_svg(text, kHeight);
  for (int decade = static_cast<int>(low); decade <= static_cast<int>(high); ++decade) {
    const double v = std::pow(10, decade);
    out += line(kLeft, y(v), kRight, y(v), "grid") +
           label(kLeft - 4, y(v) + 3.5, short_number(v), "end", "tick");
  }
  for (const double v : cpus) {
    out += line(x(v), kBottom, x(v), kBottom + 3, "axis") +
           label(x(v), kBottom + 14, fixed(v, 0), "middle", "tick");
  }
  out += line(kLeft, kBottom, kRight, kBottom, "axis") +
         label((kLeft + kRight) / 2, kBottom + 27, "CPUs", "middle", "tick") +
         label(2, 10, "files/s, model", "start", "tick");
  // End labels in the order of their lines, none over another.
  std::vector<std::size_t> order(lines.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lines[a].values.back() > lines[b].values.back();
  });
  double free_y = kTop - 10;
  for (const std::size_t i : order) {
    const CpuLine& one = lines[i];
    std::string d;
    std::string dots;
    for (std::size_t c = 0; c < cpus.size(); ++c) {
      d += (c == 0 ? "M" : "L") + px(x(cpus[c])) + " " + px(y(one.values[c]));
      dots += shape(i, x(cpus[c]), y(one.values[c]),
                    one.label + ", " + fixed(cpus[c], 0) + " CPUs: " + short_number(one.values[c]) +
                        " files/s (model, uncalibrated)");
    }
    free_y = std::max(free_y + 13, y(one.values.back()) + 4);
    out += "<path class=\"main dash" + std::to_string(i % 5) + " " + colour_class(one.colour) + "\" d=\"" +
           d + "\"/><g class=\"dot " + colour_class(one.colour) + "\">" + dots + "</g>" +
           line(x(cpus.back()) + 6, y(one.values.back()), kRight + 12, free_y - 4, "leader") +
           label(kRight + 14, free_y, one.label, "start", "name");
  }
  return out + "</svg>\n";
}

}  // namespace tidewheel::bench
