// bench/compare_table.h: the table that compare prints, and how many files and how much bandwidth it asks.
// Threads:   pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/json_report.h"
#include "bench/options.h"

namespace tidewheel::bench {

struct Spread {
  double median = 0, low = 0, high = 0;
  std::size_t count = 0;  // 0: there was none
};
Spread spread_of(std::vector<double> values);

// Three significant digits: 950, 36.4k, 120k, 1.25M.
std::string short_number(double value);

// One block per thread count: rows are the load points and the lock figures, columns the designs. Several
// rounds are also compared round by round with timer-wheel's, or the first design's where it isn't there.
std::string compare_table(const std::vector<RunFigures>& runs, const std::vector<std::string>& designs,
                          const std::vector<std::uint32_t>& threads);
// The same runs as rows of a Markdown table, without its head: design, threads, throttle, files/s, slowest
// against fastest thread (median, and the lowest round), most dirty against the limit, pauses.
inline constexpr const char* kMarkdownHead =
    "| design | threads | throttle | files/s | sustained, files/s | slowest/fastest thread | most "
    "dirty/limit | pauses |\n|---|---|---|---|---|---|---|---|\n";
std::string markdown_rows(const std::vector<RunFigures>& runs, const std::vector<std::string>& designs,
                          const std::vector<std::uint32_t>& threads, const std::string& throttle);
std::vector<SummaryRow> summarize(const std::vector<RunFigures>& runs,
                                  const std::vector<std::string>& designs,
                                  const std::vector<std::uint32_t>& threads);

// The device bandwidth at which creates at `files_per_s` pass all three load points: 40% of their bytes.
std::uint64_t bandwidth_for(double files_per_s, std::uint64_t file_bytes);
// The same, and more where the dirty limit full of data, which a run syncs at its end, would take the device
// longer than `seconds`; but at most 70%, so that creates stay ahead of it.
std::uint64_t bandwidth_in_time(double files_per_s, std::uint64_t file_bytes, std::uint64_t dirty_bytes,
                                double seconds);
// Rounds of the `planned` that fit the budget, at least one, when `done` of them took `elapsed_s`.
std::uint32_t rounds_in_time(std::uint32_t planned, std::uint32_t done, double elapsed_s, double budget_s);
// Files of all threads together, so that creates at `files_per_s` onto a device of that bandwidth stay
// throttled for `sustained_s`.
std::uint64_t files_for(double files_per_s, std::uint64_t bandwidth, const FsmarkOptions& options,
                        double sustained_s);

}  // namespace tidewheel::bench
