#include "bench/compare_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "base/config.h"

namespace tidewheel::bench {

namespace {

constexpr std::size_t kLabelColumns = 25;
constexpr std::size_t kCellColumns = 22;

std::size_t columns_of(const std::string& utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string left(std::string text, std::size_t width) {
  const std::size_t used = columns_of(text);
  if (used < width) text.append(width - used, ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  const std::size_t used = columns_of(text);
  return (used < width ? std::string(width - used, ' ') : std::string()) + text;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

using Runs = std::vector<const RunFigures*>;
using PointOf = std::optional<RunFigures::Point> RunFigures::*;

class Table {
 public:
  Table(const std::vector<RunFigures>& runs, const std::vector<std::string>& designs, std::uint32_t threads)
      : designs_(designs) {
    for (const std::string& design : designs) {
      Runs of_design;
      for (const RunFigures& run : runs) {
        if (run.design == design && run.threads == threads) of_design.push_back(&run);
      }
      columns_.push_back(std::move(of_design));
    }
  }

  void line(const std::string& label, const std::function<std::string(const Runs&)>& cell) {
    text_ += left(label, kLabelColumns);
    for (const Runs& runs : columns_) text_ += right(cell(runs), kCellColumns);
    text_ += "\n";
  }
  void heading(const std::string& label) {
    text_ += left(label, kLabelColumns);
    for (const std::string& design : designs_) text_ += right(design, kCellColumns);
    text_ += "\n" + std::string(kLabelColumns + kCellColumns * designs_.size(), '-') + "\n";
  }
  void load_point(const std::string& label, PointOf point) {
    const auto values = [point](const Runs& runs, double RunFigures::Point::*member) {
      std::vector<double> found;
      for (const RunFigures* run : runs) {
        if (run->*point) found.push_back((*(run->*point)).*member);
      }
      return spread_of(std::move(found));
    };
    line(label, [&](const Runs& runs) {
      const Spread files = values(runs, &RunFigures::Point::files_per_s);
      if (files.count == 0) return std::string("not reached");
      return short_number(files.median) + " · " +
             short_number(values(runs, &RunFigures::Point::write_iops).median) + " · " +
             short_number(values(runs, &RunFigures::Point::write_mb_per_s).median);
    });
    const bool several =
        std::any_of(columns_.begin(), columns_.end(), [](const Runs& runs) { return runs.size() > 1; });
    if (!several) return;
    line("  low–high, files/s", [&](const Runs& runs) {
      const Spread files = values(runs, &RunFigures::Point::files_per_s);
      if (files.count == 0) return std::string();
      const std::string some = files.count < runs.size() ? " (" + std::to_string(files.count) + " of " +
                                                               std::to_string(runs.size()) + ")"
                                                         : "";
      return short_number(files.low) + "–" + short_number(files.high) + some;
    });
  }
  void figure(const std::string& label, const std::function<double(const RunFigures&)>& value,
              const std::function<std::string(double)>& format) {
    line(label, [&](const Runs& runs) {
      std::vector<double> found;
      for (const RunFigures* run : runs) found.push_back(value(*run));
      const Spread spread = spread_of(std::move(found));
      if (spread.count == 0) return std::string("none");
      if (spread.count == 1) return format(spread.median);
      return format(spread.median) + " (" + format(spread.low) + "–" + format(spread.high) + ")";
    });
  }
  // Each design's value against that of the reference, round by round: what the machine does to a whole
  // round falls out. No line where none of the others has two rounds to compare.
  void paired(const std::string& label, std::size_t reference,
              const std::function<std::optional<double>(const RunFigures&)>& value) {
    std::vector<Spread> spreads(columns_.size());
    bool any = false;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::vector<double> ratios;
      for (const RunFigures* run : columns_[i]) {
        for (const RunFigures* other : columns_[reference]) {
          if (other->round != run->round) continue;
          const std::optional<double> mine = value(*run), theirs = value(*other);
          if (mine && theirs && *theirs > 0) ratios.push_back(*mine / *theirs);
        }
      }
      spreads[i] = spread_of(std::move(ratios));
      any = any || (i != reference && spreads[i].count > 1);
    }
    if (!any) return;
    text_ += left(label, kLabelColumns);
    for (std::size_t i = 0; i < spreads.size(); ++i) {
      const Spread& spread = spreads[i];
      std::string cell = "–";
      if (i != reference && spread.count != 0) {
        cell = fixed(spread.median, 2) + " (" + fixed(spread.low, 2) + "–" + fixed(spread.high, 2) + ")";
      }
      text_ += right(cell, kCellColumns);
    }
    text_ += "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  const std::vector<std::string>& designs_;
  std::vector<Runs> columns_;
  std::string text_;
};

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {.median = median, .low = values.front(), .high = values.back(), .count = n};
}

std::string short_number(double value) {
  const char* suffix = "";
  if (value >= 999'500'000) {
    value /= 1e9;
    suffix = "G";
  } else if (value >= 999'500) {
    value /= 1e6;
    suffix = "M";
  } else if (value >= 999.5) {
    value /= 1e3;
    suffix = "k";
  } else if (value == std::floor(value)) {
    return fixed(value, 0);
  }
  return fixed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + suffix;
}

std::string compare_table(const std::vector<RunFigures>& runs, const std::vector<std::string>& designs,
                          const std::vector<std::uint32_t>& threads) {
  std::string text;
  // The wheel is what the others are compared with.
  const auto wheel = std::find(designs.begin(), designs.end(), "timer-wheel");
  const auto reference = wheel == designs.end() ? 0 : static_cast<std::size_t>(wheel - designs.begin());
  const std::string against = "  to " + (designs.empty() ? "" : designs[reference]) + " †";
  for (const std::uint32_t count : threads) {
    Table table(runs, designs, count);
    table.heading(std::to_string(count) + (count == 1 ? " thread" : " threads"));
    table.load_point("below background *", &RunFigures::below_background);
    table.paired(against, reference, [](const RunFigures& r) {
      return r.below_background ? std::optional(r.below_background->files_per_s) : std::nullopt;
    });
    table.load_point("below foreground *", &RunFigures::below_foreground);
    table.load_point("sustained *", &RunFigures::sustained);
    const auto number = [](double v) { return short_number(v); };
    table.figure("create, files/s", [](const RunFigures& r) { return r.files_per_s; }, number);
    if (count > 1) {
      table.figure(
          "slowest/fastest thread",
          [](const RunFigures& r) {
            return static_cast<double>(r.slowest_files) /
                   static_cast<double>(std::max<std::uint64_t>(r.fastest_files, 1));
          },
          [](double v) { return fixed(v, 2); });
    }
    table.figure("CPU per file, µs", [](const RunFigures& r) { return r.cpu_us_per_file; },
                 [](double v) { return fixed(v, 2); });
    table.paired(against, reference,
                 [](const RunFigures& r) { return std::optional(r.cpu_us_per_file); });
    table.figure(
        "list lock: contended/M", [](const RunFigures& r) { return r.contended_per_million; }, number);
    table.figure("list lock: wait, ms", [](const RunFigures& r) { return r.lock_wait_ms; }, number);
    table.figure("most elements per hold",
                 [](const RunFigures& r) { return static_cast<double>(r.max_elements_per_hold); }, number);
    table.figure("write amplification", [](const RunFigures& r) { return r.write_amplification; },
                 [](double v) { return fixed(v, 2); });
    text += table.take() + "\n";
  }
  text +=
      "* files/s · device writes/s · MB/s; medians of the rounds. Other lines: median (low–high); contended\n"
      "  acquisitions are per million.\n";
  if (text.find("†") != std::string::npos) {
    text +=
        "† against that design in the same round, so that what the machine does to a round falls out;\n"
        "  median (low–high).\n";
  }
  const auto disturbed =
      std::count_if(runs.begin(), runs.end(), [](const RunFigures& run) { return run.disturbed; });
  if (disturbed != 0) {
    text += "! in " + std::to_string(disturbed) + " of " + std::to_string(runs.size()) +
            " runs other programs or the hypervisor took more than 5% of the CPU used.\n";
  }
  return text;
}

std::string markdown_rows(const std::vector<RunFigures>& runs, const std::vector<std::string>& designs,
                          const std::vector<std::uint32_t>& threads, const std::string& throttle) {
  std::string text;
  for (const std::uint32_t count : threads) {
    for (const std::string& design : designs) {
      std::vector<double> rates, sustained, fairness, dirty, pauses;
      for (const RunFigures& run : runs) {
        if (run.design != design || run.threads != count) continue;
        const auto part = [](std::uint64_t of, std::uint64_t whole) {
          return static_cast<double>(of) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
        };
        rates.push_back(run.files_per_s);
        if (run.sustained) sustained.push_back(run.sustained->files_per_s);
        fairness.push_back(part(run.slowest_files, run.fastest_files));
        dirty.push_back(part(run.most_charged_bytes, run.limit_bytes));
        pauses.push_back(static_cast<double>(run.throttle_pauses));
      }
      if (rates.empty()) continue;
      const Spread rate = spread_of(std::move(rates));
      const Spread fair = spread_of(std::move(fairness));
      const Spread held = spread_of(std::move(sustained));
      text += "| " + design + " | " + std::to_string(count) + " | " + throttle + " | " +
              short_number(rate.median) + " (" + short_number(rate.low) + "–" + short_number(rate.high) +
              ") | " + (held.count == 0 ? "not reached" : short_number(held.median)) + " | " +
              (count == 1 ? "–" : fixed(fair.median, 2) + " (lowest " + fixed(fair.low, 2) + ")") + " | " +
              fixed(spread_of(std::move(dirty)).high, 3) + " | " +
              short_number(spread_of(std::move(pauses)).median) + " |\n";
    }
  }
  return text;
}

std::vector<SummaryRow> summarize(const std::vector<RunFigures>& runs,
                                  const std::vector<std::string>& designs,
                                  const std::vector<std::uint32_t>& threads) {
  std::vector<SummaryRow> rows;
  for (const std::uint32_t count : threads) {
    for (const std::string& design : designs) {
      std::vector<double> rates;
      for (const RunFigures& run : runs) {
        if (run.design == design && run.threads == count) rates.push_back(run.files_per_s);
      }
      const Spread spread = spread_of(std::move(rates));
      if (spread.count == 0) continue;
      rows.push_back({.design = design, .threads = count, .median = spread.median, .low = spread.low,
                      .high = spread.high});
    }
  }
  return rows;
}

std::uint64_t bandwidth_for(double files_per_s, std::uint64_t file_bytes) {
  // Whole MiB, so that the line that prints it can be given back to --device-bandwidth.
  const double bytes_per_s = 0.4 * files_per_s * static_cast<double>(file_bytes);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes_per_s) >> 20) << 20;
}

std::uint64_t bandwidth_in_time(double files_per_s, std::uint64_t file_bytes, std::uint64_t dirty_bytes,
                                double seconds) {
  const std::uint64_t usual = bandwidth_for(files_per_s, file_bytes);
  const double most = 0.7 * files_per_s * static_cast<double>(file_bytes);
  const double wanted = std::min(static_cast<double>(dirty_bytes) / std::max(seconds, 1e-3), most);
  return std::max(usual, static_cast<std::uint64_t>(wanted) >> 20 << 20);
}

std::uint32_t rounds_in_time(std::uint32_t planned, std::uint32_t done, double elapsed_s, double budget_s) {
  if (done == 0 || elapsed_s <= 0) return planned;
  const double fitting = budget_s * done / elapsed_s;
  const std::uint32_t rounds = fitting < planned ? static_cast<std::uint32_t>(fitting) : planned;
  return std::clamp(rounds, std::min(done, planned), planned);
}

std::uint64_t files_for(double files_per_s, std::uint64_t bandwidth, const FsmarkOptions& options,
                        double sustained_s) {
  const std::uint64_t size = std::max<std::uint64_t>(options.workload.file_bytes, 1);
  const double file_pages = static_cast<double>((size + kPageBytes - 1) / kPageBytes * kPageBytes);
  const double drain = static_cast<double>(bandwidth) / file_pages;  // files per second
  const double until_background = static_cast<double>(options.writeback.background_bytes) / file_pages;
  const double between =
      static_cast<double>(options.writeback.dirty_bytes - options.writeback.background_bytes) / file_pages;
  // Between the thresholds files pile up at the difference of the two rates. A device that is nearly as
  // fast as the creates would never let them: what it takes in ten seconds is enough then.
  // Other designs, more threads or a busy machine may create at three quarters of the rate: the slower the
  // creates, the more of them it takes until the limit is met.
  const double slow = 0.75 * files_per_s;
  const double piling = std::max(slow - drain, 0.1 * slow);
  const double in_between_s = std::min(between / std::max(piling, 1.0), 10.0);
  return static_cast<std::uint64_t>(until_background + in_between_s * slow + sustained_s * drain) + 1;
}

}  // namespace tidewheel::bench
