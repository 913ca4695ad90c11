// The experiment of tests/examples: a design and a policy from outside the library keep the accounts, and do
// what they say; and what docs/experiments.md shows is what comes out.
#define TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
#include "tests/examples/page_cache_experiment.cc"
#include "tests/examples/hit_ratios.cc"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "inode/lab/cache_model.h"
#include "tests/length.h"

namespace {

std::vector<lab::Access> load(lab::Pattern kind, std::uint32_t write_percent) {
  lab::PatternOptions pattern;
  pattern.pattern = kind;
  pattern.accesses = 20'000;
  pattern.write_percent = write_percent;
  return lab::make_pattern(pattern).list;
}

TEST(PageCacheExperiment, KeepsItsAccountsUnderADesignAndAPolicyOfItsOwn) {
  lab::ExperimentOptions options = my_options();
  options.device_bytes_per_s = 10 << 20;
  options.dirty_bytes = 1 << 20;
  ASSERT_EQ(options.design, "oldest-first");
  ASSERT_EQ(options.reclaim, "fifo");
  const lab::Experiment done = lab::run_experiment(options, load(lab::Pattern::kMixed, 90));
  ASSERT_EQ(done.error, "");
  for (const lab::TimelineRow& row : done.timeline) {
    ASSERT_EQ(row.dirtied_bytes, row.dirty_bytes + row.writeback_bytes + row.cleaned_bytes) << row.at.ns;
    ASSERT_EQ(row.hits + row.misses, row.accesses);
    ASSERT_LE(row.charged_bytes, options.dirty_bytes);
  }
  EXPECT_EQ(done.timeline.back().accesses, 20'000U);
  EXPECT_EQ(done.timeline.back().charged_bytes, 0U);
  EXPECT_GT(done.timeline.back().pauses, 0U);
  EXPECT_EQ(done.to_csv(), lab::run_experiment(options, load(lab::Pattern::kMixed, 90)).to_csv());
}

TEST(PageCacheExperiment, ItsPolicyIsFirstInFirstOut) {
  my_options();  // registers
  const std::vector<std::uint64_t> pages = lab::pages_of(load(lab::Pattern::kZipf, 0));
  const auto model = lab::make_cache_model("fifo", 500);
  lab::PolicyCache mine(make_reclaim_policy("fifo"), 500, lab::PolicyCache::Spread::kOneShard);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    ASSERT_EQ(mine.access(pages[i]), model->access(pages[i])) << "access " << i;
  }
}

std::string text_of(const std::string& path) {
  std::ifstream in(std::string(TW_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(HitRatios, TheTableInTheDocumentIsWhatIsPrinted) {
  if (tidewheel::is_quick()) GTEST_SKIP() << "a minute under a sanitizer, and the same figures";
  const std::string table =
      hit_ratio_table(std::string(TW_SOURCE_DIR) + "/tests/examples/traces/compile.trace");
  ASSERT_EQ(table.front(), '|') << table;
  EXPECT_NE(text_of("docs/experiments.md").find(table), std::string::npos)
      << "docs/experiments.md does not have this table:\n" << table;
}

}  // namespace
