#include "bench/compare_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tidewheel::bench {
namespace {

TEST(ShortNumber, HasThreeDigits) {
  const std::pair<double, const char*> table[] = {{0, "0"},
                                                  {0.4567, "0.46"},
                                                  {7, "7"},
                                                  {9.99, "9.99"},
                                                  {36.42, "36.4"},
                                                  {120.4, "120"},
                                                  {999.4, "999"},
                                                  {999.6, "1.00k"},
                                                  {36'420, "36.4k"},
                                                  {120'000, "120k"},
                                                  {999'400, "999k"},
                                                  {999'600, "1.00M"},
                                                  {1'254'000, "1.25M"},
                                                  {99'960'000, "100M"},
                                                  {2e9, "2.00G"}};
  for (const auto& [value, text] : table) EXPECT_EQ(short_number(value), text) << value;
}

TEST(SpreadOf, TakesTheMiddleAndTheEnds) {
  EXPECT_EQ(spread_of({}).count, 0U);
  EXPECT_EQ(spread_of({5}).median, 5);
  const Spread odd = spread_of({9, 1, 5});
  EXPECT_EQ(odd.median, 5);
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.high, 9);
  EXPECT_EQ(spread_of({4, 1, 3, 2}).median, 2.5);
}

RunFigures figures(const char* design, std::uint32_t threads, double rate, bool reached) {
  RunFigures run;
  run.design = design;
  run.threads = threads;
  run.files_per_s = rate;
  run.below_background =
      RunFigures::Point{.files_per_s = 2 * rate, .write_iops = 0, .write_mb_per_s = 0, .seconds = 1};
  if (reached) {
    run.sustained =
        RunFigures::Point{.files_per_s = rate, .write_iops = 37'000, .write_mb_per_s = 210, .seconds = 1};
  }
  return run;
}

TEST(CompareTable, RowsAreLoadPointsAndColumnsAreDesigns) {
  const std::vector<RunFigures> runs = {
      figures("single-list", 16, 60'000, true), figures("timer-wheel", 16, 70'000, false),
      figures("single-list", 16, 62'000, true), figures("timer-wheel", 16, 71'000, true)};
  const std::string text = compare_table(runs, {"single-list", "timer-wheel"}, {16});
  EXPECT_NE(text.find("16 threads                          single-list           timer-wheel\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("below background *                 122k · 0 · 0          141k · 0 · 0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("below foreground *                  not reached           not reached\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("sustained *                 61.0k · 37.0k · 210   71.0k · 37.0k · 210\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  low–high, files/s                 60.0k–62.0k  71.0k–71.0k (1 of 2)\n"),
            std::string::npos)
      << text;
}

TEST(CompareTable, ComparesRoundByRound) {
  std::vector<RunFigures> runs;
  const double rates[][2] = {{100, 110}, {10, 10}, {1000, 800}};  // a machine that swings, the same for both
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (const std::size_t design : {0U, 1U}) {
      runs.push_back(figures(design == 0 ? "single-list" : "timer-wheel", 16, rates[round][design], false));
      runs.back().round = round + 1;
      runs.back().cpu_us_per_file = 1000 / rates[round][design];
    }
  }
  const std::string text = compare_table(runs, {"single-list", "timer-wheel"}, {16});
  EXPECT_NE(text.find("  to timer-wheel †             1.00 (0.91–1.25)                     –\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  to timer-wheel †             1.00 (0.80–1.10)                     –\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("† against that design"), std::string::npos);

  runs.resize(2);
  EXPECT_EQ(compare_table(runs, {"single-list", "timer-wheel"}, {16}).find("†"), std::string::npos)
      << "one round is no spread";
  EXPECT_EQ(compare_table({}, {"single-list"}, {16}).find("†"), std::string::npos);
}

TEST(MarkdownRows, HaveMediansAndTheWorstOfTheRounds) {
  std::vector<RunFigures> runs(3);
  for (std::size_t i = 0; i < 3; ++i) {
    runs[i].design = "timer-wheel";
    runs[i].threads = 16;
    runs[i].files_per_s = 1000.0 * static_cast<double>(i + 1);
    runs[i].slowest_files = 50 + 10 * i;
    runs[i].fastest_files = 100;
    runs[i].throttle_pauses = 7;
    runs[i].most_charged_bytes = 900 + 50 * i;
    runs[i].limit_bytes = 1000;
  }
  EXPECT_EQ(markdown_rows(runs, {"timer-wheel", "single-list"}, {16}, "linux"),
            "| timer-wheel | 16 | linux | 2.00k (1.00k–3.00k) | not reached | 0.60 (lowest 0.50) | 1.000 | "
            "7 |\n");
  const std::string head = kMarkdownHead;
  const std::string row = markdown_rows(runs, {"timer-wheel"}, {16}, "linux");
  EXPECT_EQ(std::count(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(head.find('\n')), '|'),
            std::count(row.begin(), row.end(), '|'));
}

TEST(Summary, IsOfEachDesignAndThreadCountThatRan) {
  const std::vector<RunFigures> runs = {figures("a", 1, 10, true), figures("a", 1, 30, true),
                                        figures("a", 1, 20, true), figures("a", 4, 7, true),
                                        figures("b", 4, 8, true)};
  const auto rows = summarize(runs, {"a", "b"}, {1, 4});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].design, "a");
  EXPECT_EQ(rows[0].threads, 1U);
  EXPECT_EQ(rows[0].median, 20);
  EXPECT_EQ(rows[0].low, 10);
  EXPECT_EQ(rows[0].high, 30);
  EXPECT_EQ(rows[2].design, "b");
}

TEST(Calibration, TheDeviceIsSlowerThanTheCreates) {
  const std::uint64_t bandwidth = bandwidth_for(500'000, 4096);
  EXPECT_NEAR(static_cast<double>(bandwidth), 0.4 * 500'000 * 4096, 1 << 20);
  EXPECT_EQ(bandwidth % (1 << 20), 0U) << "can be given back to --device-bandwidth";
  EXPECT_EQ(bandwidth_for(1, 1), 1U << 20) << "never nothing";
}

TEST(Calibration, FilesFillTheLimitAndThenLastAsLongAsAsked) {
  FsmarkOptions options;
  options.workload.file_bytes = 4096;
  options.writeback.background_bytes = 4096 * 1000;
  options.writeback.dirty_bytes = 4096 * 2000;
  // 7,500 a second (three quarters) onto a device of 4,000: 1,000 until background, 1,000 pile up at 3,500/s,
  // during which 7,500/s are made, then 4,000/s for 2 s.
  const std::uint64_t files = files_for(10'000, 4096 * 4000, options, 2);
  EXPECT_NEAR(static_cast<double>(files), 1000 + 1000.0 / 3500 * 7'500 + 8000, 2);
  // A device as fast as the creates is never caught up with: the number stays finite.
  EXPECT_LT(files_for(10'000, 4096 * 20'000, options, 2), 200'000U);
}

TEST(Calibration, ASlowMachineGetsAFasterDevice) {
  constexpr std::uint64_t kDirty = 400ULL << 20;
  EXPECT_EQ(bandwidth_in_time(500'000, 4096, kDirty, 2), bandwidth_for(500'000, 4096)) << "fast enough";
  // 30,000 files a second are 117 MiB/s: 40% of that would drain the limit in 8.5 s.
  const std::uint64_t bandwidth = bandwidth_in_time(30'000, 4096, kDirty, 5);
  EXPECT_EQ(bandwidth, 80ULL << 20);
  EXPECT_EQ(bandwidth_in_time(30'000, 4096, kDirty, 0.1), 82ULL << 20) << "something piles up";
}

TEST(Calibration, RoundsAreLeftOutWhenTheyTakeTooLong) {
  EXPECT_EQ(rounds_in_time(3, 1, 20, 150), 3U);
  EXPECT_EQ(rounds_in_time(3, 1, 60, 150), 2U);
  EXPECT_EQ(rounds_in_time(3, 2, 120, 150), 2U);
  EXPECT_EQ(rounds_in_time(3, 1, 500, 150), 1U) << "what was done stays";
  EXPECT_EQ(rounds_in_time(3, 3, 500, 150), 3U);
}

}  // namespace
}  // namespace tidewheel::bench
