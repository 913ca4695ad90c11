// The page of compare: its sections, in their order. Charts: html_chart.cc. Over time: html_over_time.cc.
#include "bench/html_page.h"

#include <algorithm>
#include <functional>

#include "bench/command_line.h"
#include "bench/compare_table.h"
#include "bench/html_chart.h"
#include "bench/html_over_time.h"
#include "bench/html_style.h"
#include "bench/html_text.h"
#include "bench/numbers.h"

namespace tidewheel::bench {

namespace {

using Runs = std::vector<const RunFigures*>;
using PointOf = std::optional<RunFigures::Point> RunFigures::*;
using ValueOf = std::function<double(const RunFigures&)>;

constexpr std::pair<const char*, PointOf> kPoints[] = {
    {"below background", &RunFigures::below_background},
    {"below foreground", &RunFigures::below_foreground},
    {"sustained", &RunFigures::sustained},
};

std::string threads_text(std::uint32_t threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::string figure(const std::string& caption, const std::string& note, const std::string& body,
                   const char* style = "") {
  return "<figure class=\"" + std::string(style) + "\"><figcaption>" + html_escape(caption) +
         (note.empty() ? "" : " <small>" + html_escape(note) + "</small>") + "</figcaption>\n" + body +
         "</figure>\n";
}

std::string section(const std::string& id, const std::string& heading, const std::string& text) {
  return "<h2 id=\"" + id + "\">" + heading + "</h2>\n<p>" + text + "</p>\n";
}

std::string range_text(const Spread& spread, const Format& format) {
  if (spread.count == 0) return "not reached";
  if (spread.count == 1) return format(spread.median);
  return format(spread.median) + " (" + format(spread.low) + "–" + format(spread.high) + ")";
}

std::string number(double value) { return short_number(value); }
std::string two_digits(double value) { return fixed(value, 2); }

class Page {
 public:
  explicit Page(const ComparePage& page) : page_(page), options_(page.options) {
    for (const std::uint32_t threads : options_.threads) {
      if (std::any_of(page.runs.begin(), page.runs.end(),
                      [&](const RunFigures& run) { return run.threads == threads; })) {
        threads_.push_back(threads);
      }
    }
  }
  std::string make();

 private:
  Runs runs_of(const std::string& design, std::uint32_t threads) const {
    Runs found;
    for (const RunFigures& run : page_.runs) {
      if (run.design == design && run.threads == threads) found.push_back(&run);
    }
    return found;
  }
  Spread spread(const std::string& design, std::uint32_t threads, const ValueOf& value) const {
    std::vector<double> values;
    for (const RunFigures* run : runs_of(design, threads)) values.push_back(value(*run));
    return spread_of(std::move(values));
  }
  Spread point_spread(const std::string& design, std::uint32_t threads, PointOf point,
                      double RunFigures::Point::*member) const {
    std::vector<double> values;
    for (const RunFigures* run : runs_of(design, threads)) {
      if (run->*point) values.push_back((*(run->*point)).*member);
    }
    return spread_of(std::move(values));
  }
  std::string id() { return "f" + std::to_string(++figures_); }
  BarGroup bars(const std::string& label, std::uint32_t threads, const ValueOf& value) const {
    BarGroup group{.label = label, .bars = {}};
    for (std::size_t d = 0; d < options_.designs.size(); ++d) {
      group.bars.push_back({.label = options_.designs[d],
                            .colour = d,
                            .value = spread(options_.designs[d], threads, value),
                            .absent = "no run"});
    }
    return group;
  }

  std::string head() const;
  std::string facts() const;
  std::string load_points();
  std::string whole_run();
  std::string over_time();
  std::string latencies();
  std::string locks();
  std::string model();
  std::string configuration() const;
  std::string commands() const;

  const ComparePage& page_;
  const CompareOptions& options_;
  std::vector<std::uint32_t> threads_;  // that have a complete run
  std::size_t figures_ = 0;
};

std::string Page::head() const {
  const std::size_t disturbed = static_cast<std::size_t>(
      std::count_if(page_.runs.begin(), page_.runs.end(), [](const RunFigures& r) { return r.disturbed; }));
  std::string thread_list;
  for (const std::uint32_t threads : options_.threads) {
    thread_list += (thread_list.empty() ? "" : ", ") + std::to_string(threads);
  }
  std::uint32_t rounds = 0;
  for (const RunFigures& run : page_.runs) rounds = std::max(rounds, run.round);
  const std::size_t designs = options_.designs.size();
  std::string out =
      "<header><h1>tidewheel compare</h1>\n<p class=\"lead\">" + std::to_string(designs) +
      (designs == 1 ? " dirty-list design" : " dirty-list designs") + " under the same load: files of " +
      html_escape(format_size(options_.base.workload.file_bytes)) + ", " + thread_list +
      (options_.threads.size() == 1 && options_.threads.front() == 1 ? " thread, " : " threads, ") +
      std::to_string(rounds) + (rounds == 1 ? " round" : " rounds, interleaved") + ". " +
      html_escape(page_.document.started) + ", tidewheel " + html_escape(program_version()) + ", " +
      std::to_string(page_.machine.cpus) + (page_.machine.cpus == 1 ? " CPU" : " CPUs") + " (" +
      html_escape(page_.machine.model) + ").</p>\n";
  if (!page_.error.empty()) {
    out += "<p class=\"warn\"><strong>Incomplete.</strong> " + html_escape(page_.error) + "</p>\n";
  }
  if (page_.document.interrupted) {
    out +=
        "<p class=\"warn\"><strong>Interrupted.</strong> The page holds the runs that were complete.</p>\n";
  }
  if (disturbed != 0) {
    out +=
        "<p class=\"warn\"><strong>Disturbed.</strong> In " + std::to_string(disturbed) + " of " +
        std::to_string(page_.runs.size()) +
        " runs other programs or the hypervisor took more than 5% of the CPU used: times and rates are less "
        "sure than counts.</p>\n";
  }
  return out;
}

// Said plainly, and next to it what chance does: differences within the spread of rounds are none.
std::string Page::facts() const {
  if (threads_.empty()) return "<p>No run was complete.</p>\n";
  const std::uint32_t threads = *std::max_element(threads_.begin(), threads_.end());
  const auto item = [](const std::string& figure_text, const std::string& text) {
    return "<li><b>" + html_escape(figure_text) + "</b><span>" + html_escape(text) + "</span></li>\n";
  };
  std::string low_design, high_design, small_design, large_design;
  double low = 0, high = 0, widest = 0;
  double small = 0, large = 0;
  for (const std::string& design : options_.designs) {
    const Spread rate =
        point_spread(design, threads, &RunFigures::sustained, &RunFigures::Point::files_per_s);
    if (rate.count != 0) {
      if (low_design.empty() || rate.median < low) low = rate.median, low_design = design;
      if (high_design.empty() || rate.median > high) high = rate.median, high_design = design;
      if (rate.count > 1 && rate.median > 0) widest = std::max(widest, (rate.high - rate.low) / rate.median);
    }
    const Spread most = spread(
        design, threads, [](const RunFigures& r) { return static_cast<double>(r.max_elements_per_hold); });
    if (most.count == 0) continue;
    if (small_design.empty() || most.high < small) small = most.high, small_design = design;
    if (large_design.empty() || most.high > large) large = most.high, large_design = design;
  }
  std::string out = "<ul class=\"facts\">\n";
  if (high_design.empty()) {
    out += item("not reached", "sustained load, " + threads_text(threads) + ": no writer was throttled");
  } else if (low_design == high_design) {
    out += item(number(high) + " files/s", "sustained, " + threads_text(threads) + ", " + high_design);
  } else {
    out +=
        item(number(low) + "–" + number(high) + " files/s",
             "sustained, " + threads_text(threads) + ", medians from " + low_design + " to " + high_design);
  }
  if (widest > 0) {
    out += item("±" + fixed(50 * widest, 0) + "%",
                "is how far rounds of one design lie apart there; smaller differences between designs show "
                "nothing");
  }
  if (!large_design.empty()) {
    out += item(large_design == small_design ? number(large) : number(small) + " against " + number(large),
                "most elements handled in one hold of a list lock, " + threads_text(threads) +
                    (large_design == small_design ? ", " + large_design
                                                  : ": " + small_design + " against " + large_design));
  }
  return out + "</ul>\n";
}

std::string Page::load_points() {
  std::string out = section(
      "load-points", "Load points",
      "Files created per second while everything stays in memory (below background), while a flusher writes "
      "beside the writers (below foreground), and while writers are throttled (sustained). Bars: median of "
      "the rounds; whiskers: lowest and highest round.");
  out += "<div class=\"grid\">\n";
  for (const std::uint32_t threads : threads_) {
    std::vector<BarGroup> groups;
    std::vector<std::vector<std::string>> rows = {
        {"load point, design", "files/s (low–high)", "device writes/s", "MB/s", "seconds", "rounds"}};
    for (const auto& [name, point] : kPoints) {
      BarGroup group{.label = name, .bars = {}};
      for (std::size_t d = 0; d < options_.designs.size(); ++d) {
        const std::string& design = options_.designs[d];
        const Spread files = point_spread(design, threads, point, &RunFigures::Point::files_per_s);
        group.bars.push_back({.label = design, .colour = d, .value = files});
        const auto median = [&](double RunFigures::Point::*member) {
          return files.count == 0 ? std::string("–")
                                  : number(point_spread(design, threads, point, member).median);
        };
        rows.push_back(
            {html_escape(std::string(name) + ", " + design), range_text(files, number),
             median(&RunFigures::Point::write_iops), median(&RunFigures::Point::write_mb_per_s),
             files.count == 0
                 ? "–"
                 : two_digits(point_spread(design, threads, point, &RunFigures::Point::seconds).median),
             std::to_string(files.count) + " of " + std::to_string(runs_of(design, threads).size())});
      }
      groups.push_back(std::move(group));
    }
    out +=
        figure("Files per second, " + threads_text(threads), "",
               bar_chart({id(), "Files per second at the three load points, " + threads_text(threads),
                          "Horizontal bars, one per design and load point; the table below has the values."},
                         groups, number, false) +
                   html_details("Table, with device writes and bandwidth",
                                html_table("Load points, " + threads_text(threads), rows)));
  }
  return out + "</div>\n";
}

std::string Page::whole_run() {
  struct Column {
    const char* name;
    ValueOf value;
    Format format;
  };
  const std::vector<Column> columns = {
      {"files/s", [](const RunFigures& r) { return r.files_per_s; }, number},
      {"CPU per file, µs", [](const RunFigures& r) { return r.cpu_us_per_file; }, two_digits},
      {"final sync, s", [](const RunFigures& r) { return r.final_sync_s; }, two_digits},
      {"write amplification", [](const RunFigures& r) { return r.write_amplification; }, two_digits}};
  std::string out = section("whole-run", "Whole runs",
                            "All creates by wall clock, without the final sync; CPU of the process with the "
                            "final sync, flushers included. Median, with the lowest and highest round.");
  out += "<div class=\"grid\">\n";
  for (const std::uint32_t threads : threads_) {
    std::vector<std::vector<std::string>> rows = {{"design"}};
    for (const Column& column : columns) rows[0].emplace_back(column.name);
    for (const std::string& design : options_.designs) {
      std::vector<std::string> row = {html_escape(design)};
      for (const Column& column : columns) {
        row.push_back(range_text(spread(design, threads, column.value), column.format));
      }
      rows.push_back(std::move(row));
    }
    const std::string chart = bar_chart(
        {id(), "CPU per file, " + threads_text(threads), "Microseconds of CPU per file, by design."},
        {bars("CPU per file, µs", threads, columns[1].value)}, two_digits, false);
    out += figure("Whole runs, " + threads_text(threads), "",
                  chart + html_details("Table", html_table("Whole runs, " + threads_text(threads), rows)));
  }
  return out + "</div>\n";
}

std::string Page::over_time() {
  const WritebackOptions& writeback = options_.base.writeback;
  std::string out = section("over-time", "Over time",
                            "Each design's run over time: above, the rate of creates; below, dirty and "
                            "writeback bytes with the two "
                            "thresholds. The strong line is the round with the median rate, thin lines are "
                            "the other rounds. Dotted "
                            "verticals: when the background threshold was passed, and when the first writer "
                            "was throttled. All charts "
                            "of one thread count have the same scales. <span class=\"noprint\">Point at a "
                            "chart for the figures of "
                            "that moment.</span>");
  for (const std::uint32_t threads : threads_) {
    std::vector<DesignRuns> all;
    for (std::size_t d = 0; d < options_.designs.size(); ++d) {
      all.push_back({options_.designs[d], d, runs_of(options_.designs[d], threads)});
    }
    out += "<h3>" + threads_text(threads) + "</h3>\n" +
           over_time_charts(all, threads_text(threads), writeback.background_bytes, writeback.dirty_bytes,
                            [this] { return id(); });
  }
  return out;
}

std::string Page::latencies() {
  // In the order of the JSON; of the calls that occurred in any run.
  std::vector<std::string> calls;
  for (const RunFigures& run : page_.runs) {
    for (const RunFigures::Latency& latency : run.latencies) {
      if (std::find(calls.begin(), calls.end(), latency.call) == calls.end()) calls.push_back(latency.call);
    }
  }
  if (calls.empty()) return "";
  static constexpr const char* kShapes[] = {
      "<circle cx=\"13\" cy=\"6\" r=\"4\"/>", "<rect x=\"9.4\" y=\"2.4\" width=\"7.2\" height=\"7.2\"/>",
      "<polygon points=\"13,1.4 17.6,9.8 8.4,9.8\"/>", "<polygon points=\"13,1 17.6,6 13,11 8.4,6\"/>",
      "<rect x=\"11.7\" y=\".5\" width=\"2.6\" height=\"11\"/>"};
  static constexpr const char* kNames[] = {"half of the calls took at most this", "90%", "99%", "99.9%",
                                           "the longest"};
  std::string out =
      section("latencies", "Latency",
              "Percentiles of each call, each the median of the rounds' percentiles; the scale is "
              "logarithmic. With more threads than CPUs the longest calls show preemption.");
  out += "<ul class=\"key\">";
  for (std::size_t i = 0; i < 5; ++i) {
    out += "<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><g class=\"dot c6\">" +
           std::string(kShapes[i]) + "</g></svg>" + kNames[i] + "</li>";
  }
  out += "</ul>\n";
  for (const std::uint32_t threads : threads_) {
    out += "<h3>" + threads_text(threads) + "</h3>\n<div class=\"grid\">\n";
    for (const std::string& call : calls) {
      std::vector<Percentiles> rows;
      std::vector<std::vector<std::string>> table = {
          {"design", "calls", "p50", "p90", "p99", "p99.9", "max"}};
      bool any = false;
      for (std::size_t d = 0; d < options_.designs.size(); ++d) {
        std::vector<double> values[6];
        for (const RunFigures* run : runs_of(options_.designs[d], threads)) {
          for (const RunFigures::Latency& one : run->latencies) {
            if (one.call != call) continue;
            const double all[] = {one.p50,  one.p90, one.p99,
                                  one.p999, one.max, static_cast<double>(one.count)};
            for (std::size_t i = 0; i < 6; ++i) values[i].push_back(all[i]);
          }
        }
        Percentiles row{.label = options_.designs[d], .colour = d, .values = {}};
        std::vector<std::string> cells = {html_escape(options_.designs[d])};
        if (values[0].empty()) {
          cells.insert(cells.end(), {"0", "–", "–", "–", "–", "–"});
        } else {
          any = true;
          cells.push_back(fixed(spread_of(values[5]).median, 0));
          for (std::size_t i = 0; i < 5; ++i) {
            row.values.push_back(spread_of(values[i]).median);
            cells.push_back(short_time(row.values.back()));
          }
        }
        rows.push_back(std::move(row));
        table.push_back(std::move(cells));
      }
      if (!any) continue;
      out += figure(
          call, threads_text(threads),
          percentile_chart({id(), "Latency of " + call + ", " + threads_text(threads),
                            "Percentiles per design on a logarithmic scale; the table has the values."},
                           rows) +
              html_details("Table", html_table(html_escape(call + ", " + threads_text(threads)), table)));
    }
    out += "</div>\n";
  }
  return out;
}

std::string Page::locks() {
  std::string out = section(
      "locks", "List locks",
      "What the designs differ in: the locks of their dirty lists, all threads together. Counts are exact; "
      "waiting is timed when contended. Scales are logarithmic and begin at 1: what is below has no bar.");
  const std::pair<const char*, ValueOf> rows[] = {
      {"acquisitions", [](const RunFigures& r) { return static_cast<double>(r.list_acquisitions); }},
      {"contended acquisitions", [](const RunFigures& r) { return static_cast<double>(r.list_contended); }},
      {"wait, µs in all", [](const RunFigures& r) { return r.lock_wait_ms * 1e3; }},
      {"most elements in one hold",
       [](const RunFigures& r) { return static_cast<double>(r.max_elements_per_hold); }}};
  out += "<div class=\"grid\">\n";
  for (const std::uint32_t threads : threads_) {
    std::vector<BarGroup> groups;
    for (const auto& [name, value] : rows) groups.push_back(bars(name, threads, value));
    std::vector<std::vector<std::string>> table = {
        {"design", "lock", "acquisitions", "contended", "per million", "wait", "mean hold", "p99 hold"}};
    for (const std::string& design : options_.designs) {
      const Runs runs = runs_of(design, threads);
      std::vector<std::string> names;
      for (const RunFigures* run : runs) {
        for (const RunFigures::Lock& lock : run->locks) {
          if (std::find(names.begin(), names.end(), lock.name) == names.end()) names.push_back(lock.name);
        }
      }
      for (const std::string& name : names) {
        std::vector<double> values[5];
        for (const RunFigures* run : runs) {
          for (const RunFigures::Lock& lock : run->locks) {
            if (lock.name != name) continue;
            const double all[] = {static_cast<double>(lock.acquisitions),
                                  static_cast<double>(lock.contended), lock.wait_ms * 1e6, lock.hold_ns_mean,
                                  lock.hold_ns_p99};
            for (std::size_t i = 0; i < 5; ++i) values[i].push_back(all[i]);
          }
        }
        const auto median = [&](std::size_t i) { return spread_of(values[i]).median; };
        table.push_back({html_escape(design), html_escape(name), fixed(median(0), 0), fixed(median(1), 0),
                         number(median(0) > 0 ? median(1) * 1e6 / median(0) : 0), short_time(median(2)),
                         short_time(median(3)), short_time(median(4))});
      }
    }
    out +=
        figure("List locks, " + threads_text(threads), "",
               bar_chart({id(), "List locks, " + threads_text(threads),
                          "Acquisitions, contended acquisitions, waiting and elements per hold, by design."},
                         groups, number, true) +
                   html_details("Table: every lock, medians of the rounds",
                                html_table("Locks, " + threads_text(threads), table)));
  }
  return out + "</div>\n";
}

std::string Page::model() {
  const std::vector<ScalingModel>& models = page_.document.model;
  if (models.empty()) return "";
  std::string out =
      "<h2 id=\"model\">Throughput ceilings <span class=\"model\">model, uncalibrated</span></h2>\n"
      "<p>Not a measurement. From the runs with the fewest threads (here " +
      threads_text(models.front().threads) +
      "): CPU time per file C, list-lock acquisitions per file A, mean hold H. With N CPUs, of which k "
      "share "
      "each of S locks, a lock line comes from another CPU with probability 1&minus;1/k and costs then " +
      fixed(kLineMoveNs, 0) +
      " ns, m = 100 ns (1&minus;1/k); the ceiling is the smaller of N/(C + A m) and S/(A (H + m)). Left "
      "out: "
      "memory bandwidth, all other locks, preempted holders, the device. Worst stall: the most elements "
      "that "
      "any run handled in one hold, times the mean cost of one.</p>\n";
  std::vector<double> cpus;
  for (const std::uint32_t n : kModelCpus) cpus.push_back(n);
  std::vector<CpuLine> lines;
  std::vector<std::vector<std::string>> ceilings = {{"design"}};
  for (const std::uint32_t n : kModelCpus) {
    ceilings[0].push_back(std::to_string(n) + (n == 1 ? " CPU" : " CPUs"));
  }
  std::vector<std::vector<std::string>> inputs = {{"design", "CPU per file", "acquisitions per file",
                                                   "mean hold", "elements per file", "locks here",
                                                   "locks at 128 CPUs"}};
  BarGroup stalls{.label = "worst stall, ns", .bars = {}};
  for (const ScalingModel& one : models) {
    const auto at = std::find(options_.designs.begin(), options_.designs.end(), one.design);
    CpuLine row{.label = one.design,
                .colour = static_cast<std::size_t>(at - options_.designs.begin()),
                .values = {}};
    std::vector<std::string> cells = {html_escape(one.design)};
    for (const std::uint32_t n : kModelCpus) {
      const Ceiling ceiling = ceiling_of(one, n);
      row.values.push_back(ceiling.files_per_s);
      cells.push_back(number(ceiling.files_per_s) + (ceiling.by_lock ? " (lock)" : ""));
    }
    stalls.bars.push_back({.label = one.design,
                           .colour = row.colour,
                           .value = spread_of({one.worst_stall_ns()}),
                           .absent = "none"});
    inputs.push_back({html_escape(one.design), short_time(one.cpu_ns_per_file),
                      two_digits(one.acquisitions_per_file), short_time(one.hold_ns_mean),
                      two_digits(one.elements_per_file), std::to_string(one.locks),
                      std::to_string(one.locks_on(128))});
    lines.push_back(std::move(row));
    ceilings.push_back(std::move(cells));
  }
  out += "<div class=\"grid\">\n";
  out += figure("Files per second that CPUs and list locks would allow", "model, uncalibrated",
                cpu_chart({id(), "Throughput ceilings at 1 to 128 CPUs: a model, uncalibrated",
                           "One line per design on logarithmic scales; the table has the values."},
                          cpus, lines) +
                    html_details("Table: (lock) where the list lock is the limit",
                                 html_table("Ceilings, files/s: model, uncalibrated", ceilings)));
  out += figure("Worst stall behind one hold", "model, uncalibrated",
                bar_chart({id(), "Worst stall behind one hold of a list lock: a model, uncalibrated",
                           "Most elements in one hold times mean cost per element, by design, logarithmic."},
                          {stalls}, short_time, true) +
                    html_details("Table: what the model was given",
                                 html_table("Inputs, medians of the rounds", inputs)));
  return out + "</div>\n";
}

std::string Page::configuration() const {
  const FsmarkOptions& base = options_.base;
  const WritebackOptions& writeback = base.writeback;
  const auto own_choice = [](std::uint32_t n) {
    return n == 0 ? std::string("each design's own choice") : std::to_string(n);
  };
  const DeviceOptions& device = base.device;
  const std::string kind = device.kind == DeviceKind::kRam    ? "memory, " + format_size(device.ram_bytes)
                           : device.kind == DeviceKind::kNull ? "null (drops what is written)"
                                                              : "file " + device.image_path;
  std::vector<std::vector<std::string>> rows = {{"what", "value"}};
  const auto row = [&](const std::string& name, const std::string& value) {
    rows.push_back({name, html_escape(value)});
  };
  row("target", "flat store: extents on the device and nothing else");
  row("device", kind + (device.latency.ns > 0
                            ? ", each request at least " + short_time(static_cast<double>(device.latency.ns))
                            : ""));
  if (page_.document.device_bandwidth != 0) {
    row("device bandwidth", format_size(page_.document.device_bandwidth) + "/s" +
                                (options_.bandwidth_given ? " (given)" : " (from calibration)"));
  } else {
    row("device bandwidth", "not limited");
  }
  if (page_.document.calibrated_files_per_s > 0) {
    row("calibrated rate", number(page_.document.calibrated_files_per_s) + " files/s");
  }
  row("memory", format_size(writeback.memory_bytes));
  row("background threshold", about_size(writeback.background_bytes));
  row("dirty limit", about_size(writeback.dirty_bytes));
  row("expire, interval", short_time(static_cast<double>(writeback.expire.ns)) + ", " +
                              short_time(static_cast<double>(writeback.interval.ns)));
  row("shards", own_choice(writeback.shards));
  row("flushers", own_choice(writeback.flushers));
  row("throttle", writeback.throttle);
  row("owners", std::to_string(writeback.owners));
  row("directories", std::to_string(base.workload.directories.size()));
  row("file size, write size",
      format_size(base.workload.file_bytes) + ", " + format_size(base.workload.write_bytes));
  row("loops, sync method",
      std::to_string(base.workload.loops) + ", -S " + std::to_string(base.workload.sync_method));
  row("seed", std::to_string(page_.document.seed));
  row("machine", std::to_string(page_.machine.cpus) + " CPUs, " + page_.machine.model + ", " +
                     about_size(page_.machine.memory_bytes) + " memory");
  row("kernel", page_.machine.kernel);
  std::vector<std::vector<std::string>> runs = {
      {"run", "threads", "round", "files", "files/s", "wall, s", "disturbed"}};
  for (const RunFigures& run : page_.runs) {
    runs.push_back({html_escape(run.design), std::to_string(run.threads), std::to_string(run.round),
                    std::to_string(run.files), fixed(run.files_per_s, 0), two_digits(run.wall_s),
                    run.disturbed ? "yes" : "no"});
  }
  return "<h2 id=\"configuration\">Configuration</h2>\n<div class=\"texts\">" +
         html_table("What the runs were set to, and the machine", rows) + "</div>\n" +
         html_details("All runs", html_table("Runs, in the order they were made", runs));
}

std::string Page::commands() const {
  std::vector<std::string> same = page_.document.command;
  if (!options_.bandwidth_given && page_.document.device_bandwidth != 0) {
    same.insert(same.end(), {"--device-bandwidth", format_size(page_.document.device_bandwidth)});
  }
  std::string out = "<h2 id=\"commands\">To repeat it</h2>\n<p>The command:</p>\n<pre>" +
                    html_escape(shell_line(page_.document.command)) + "</pre>\n";
  if (same.size() != page_.document.command.size()) {
    out += "<p>The same with the device bandwidth of this page, instead of one calibrated anew:</p>\n<pre>" +
           html_escape(shell_line(same)) + "</pre>\n";
  }
  if (!options_.base.json_path.empty()) {
    out += "<p>All figures, of every run: <code>" + html_escape(options_.base.json_path) + "</code></p>\n";
  }
  return out;
}

std::string Page::make() {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>tidewheel compare, " +
      html_escape(page_.document.started) + "</title>\n<style>" + kPageStyle + "</style>\n</head>\n<body>\n";
  out += head();
  out += facts() + "</header>\n<main>\n";
  if (!threads_.empty()) {
    out += load_points();
    out += over_time();
    out += latencies();
    out += locks();
    out += whole_run();
    out += model();
  }
  out += configuration();
  out += commands();
  return out + "</main>\n<footer>Made by tidewheel " + html_escape(program_version()) +
         "; this page loads nothing from anywhere.</footer>\n<script>" + kPageScript +
         "</script>\n</body>\n</html>\n";
}

}  // namespace

std::string compare_page(const ComparePage& page) { return Page(page).make(); }

}  // namespace tidewheel::bench
