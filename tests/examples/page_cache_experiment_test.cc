// The experiment of tests/examples: a design and a policy from outside the library keep the accounts, and do
// what they say; its timeline is an oracle's, row by row; and docs/experiments.md shows what comes out.
#define TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
#include "tests/examples/page_cache_experiment.cc"
#include "tests/examples/hit_ratios.cc"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/config.h"
#include "inode/lab/cache_model.h"
#include "tests/length.h"
#include "tests/source_text.h"

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
  ASSERT_EQ(options.design, "newest-first");
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

// ---- the timeline, by an oracle ----

// What the engine, the page cache and the device come to while nothing is throttled, nothing is reclaimed and
// background writing has nothing to do, in a page of code that shares none with them: files with dirty pages
// and the moment of their first dirt, a tick every interval that sends all that expired as one transfer, a
// device that does one transfer after the other.
class Oracle {
 public:
  explicit Oracle(const lab::ExperimentOptions& options) : o_(options) {}

  void access(const lab::Access& a) {
    advance(a.at);
    for (std::uint64_t at = a.offset; at < a.offset + a.length; at += kPageBytes) {  // whole pages
      File& file = files_[a.inode];
      const std::uint64_t page = at / kPageBytes;
      const bool hit = file.cached.count(page) != 0;
      ++row_.accesses;
      ++(hit ? row_.hits : row_.misses);
      if (a.kind == lab::AccessKind::kRead) {
        if (hit) continue;
        ++row_.device_reads;
        file.cached.insert(page);  // it has its memory from here on
        advance(transfer(kPageBytes));
      } else {
        while (file.writing.count(page) != 0) advance(std::max(now_, writes_.begin()->first));
        if (file.dirty.empty()) file.stamp = now_;
        if (file.dirty.insert(page).second) row_.dirtied_bytes += kPageBytes;
        if (tick_ == kNever) tick_ = now_ + o_.interval;
      }
      file.cached.insert(page);
    }
  }
  std::vector<lab::TimelineRow> rows;

 private:
  struct File {
    std::set<std::uint64_t> cached, dirty, writing;
    Duration stamp;
  };
  static constexpr Duration kNever = Duration::max();

  Duration transfer(std::uint64_t bytes) {
    const double ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(o_.device_bytes_per_s);
    free_at_ = std::max(now_, free_at_) + Duration{static_cast<std::int64_t>(ns)};
    return free_at_ + o_.device_latency;
  }
  void advance(Duration to) {
    for (;;) {
      const Duration written = writes_.empty() ? kNever : writes_.begin()->first;
      const Duration next = std::min({sample_, tick_, written});
      if (next > to) break;
      now_ = std::max(now_, next);
      if (next == written) {
        end_write();
      } else if (next == sample_) {
        sample();
      } else {
        tick();
      }
    }
    now_ = std::max(now_, to);
  }
  void tick() {
    std::uint64_t bytes = 0;
    std::set<std::uint64_t> sent;
    for (auto& [number, file] : files_) {
      if (file.dirty.empty() || !file.writing.empty() || file.stamp > now_ - o_.expire) continue;
      file.writing.swap(file.dirty);
      bytes += file.writing.size() * kPageBytes;
      sent.insert(number);
    }
    if (bytes != 0) {
      ++row_.device_writes;
      writes_[transfer(bytes)] = sent;
    }
    const bool any = std::any_of(files_.begin(), files_.end(), [](const auto& each) {
      return !each.second.dirty.empty() && each.second.writing.empty();
    });
    tick_ = any || !writes_.empty() ? now_ + o_.interval : kNever;
  }
  void end_write() {
    for (const std::uint64_t number : writes_.begin()->second) {
      row_.cleaned_bytes += files_[number].writing.size() * kPageBytes;
      files_[number].writing.clear();
    }
    writes_.erase(writes_.begin());
  }
  void sample() {
    row_.at = now_;
    row_.dirty_bytes = row_.writeback_bytes = row_.cached_bytes = 0;
    for (const auto& [number, file] : files_) {
      row_.dirty_bytes += file.dirty.size() * kPageBytes;
      row_.writeback_bytes += file.writing.size() * kPageBytes;
      row_.cached_bytes += file.cached.size() * kPageBytes;
    }
    rows.push_back(row_);
    sample_ = sample_ + o_.sample;
  }

  const lab::ExperimentOptions o_;
  std::map<std::uint64_t, File> files_;
  std::map<Duration, std::set<std::uint64_t>> writes_;  // by when they are complete
  Duration now_, free_at_, sample_, tick_ = kNever;
  lab::TimelineRow row_;
};

// All but what counts against the limit, which the oracle has no notion of.
void expect_row(const lab::TimelineRow& row, const lab::TimelineRow& expected) {
  EXPECT_EQ(row.at, expected.at);
  EXPECT_EQ(row.dirty_bytes, expected.dirty_bytes);
  EXPECT_EQ(row.writeback_bytes, expected.writeback_bytes);
  EXPECT_EQ(row.cached_bytes, expected.cached_bytes);
  EXPECT_EQ(row.accesses, expected.accesses);
  EXPECT_EQ(row.hits, expected.hits);
  EXPECT_EQ(row.misses, expected.misses);
  EXPECT_EQ(row.dirtied_bytes, expected.dirtied_bytes);
  EXPECT_EQ(row.cleaned_bytes, expected.cleaned_bytes);
  EXPECT_EQ(row.device_reads, expected.device_reads);
  EXPECT_EQ(row.device_writes, expected.device_writes);
  EXPECT_EQ(row.pauses, 0U);
}

void expect_oracles_timeline(const lab::ExperimentOptions& options, const lab::PatternOptions& pattern) {
  const lab::Accesses accesses = lab::make_pattern(pattern);
  const lab::Experiment done = lab::run_experiment(options, accesses);
  ASSERT_EQ(done.error, "");
  Oracle oracle(options);
  for (const lab::Access& access : accesses.list) oracle.access(access);
  ASSERT_GT(oracle.rows.size(), 20U);
  ASSERT_GE(done.timeline.size(), oracle.rows.size());
  std::uint64_t seen_writing = 0;
  for (std::size_t i = 0; i < oracle.rows.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "row " << i << ", seed " << pattern.seed);
    expect_row(done.timeline[i], oracle.rows[i]);
    seen_writing += oracle.rows[i].writeback_bytes;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen_writing, 0U) << "nothing was ever seen under writeback: the rows say little";
  EXPECT_EQ(done.timeline.back().accesses, pattern.accesses);
  EXPECT_EQ(done.timeline.back().cleaned_bytes, done.timeline.back().dirtied_bytes);
}

// Slow enough that transfers span samples and writers meet pages under writeback.
TEST(PageCacheExperiment, ItsTimelineIsTheOraclesRowByRow) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    lab::ExperimentOptions options = my_options();
    options.memory_bytes = 16 << 20;
    options.sample = milliseconds(37);
    options.background_bytes = 2 << 20;
    options.batch_bytes = 2 << 20;  // what expires at one tick is one transfer
    options.device_bytes_per_s = seed % 2 == 0 ? 1 << 20 : 8 << 20;
    lab::PatternOptions pattern;
    pattern.accesses = 6000;
    pattern.files = 24;
    pattern.pages_per_file = 16;  // 1.5 MiB in all: no reclaim, no background work
    pattern.write_percent = 10;
    pattern.interval = microseconds(2137);  // no access at the moment of a tick or a sample
    pattern.seed = seed;
    expect_oracles_timeline(options, pattern);
    options.design = "single-list";  // the wheel's ages have the grain of its slots
    expect_oracles_timeline(options, pattern);
  }
}

// Two files, 400 KiB and then 160, over a background threshold of 512 KiB: the excess is less than either.
// Then the beginning of the second is written again, which makes dirty what of it had been written back.
std::uint64_t dirty_after_writing_again(const std::string& design) {
  lab::ExperimentOptions options = my_options();
  options.design = design;
  options.background_bytes = 512 << 10;
  options.expire = seconds(60);
  const lab::Accesses accesses{.list = {{{}, lab::AccessKind::kWrite, 1, 0, 400 << 10},
                                        {seconds(1), lab::AccessKind::kWrite, 2, 0, 160 << 10},
                                        {milliseconds(2500), lab::AccessKind::kWrite, 2, 0, 12 << 10},
                                        {seconds(4), lab::AccessKind::kRead, 2, 0, 1}},
                               .error = ""};
  const lab::Experiment done = lab::run_experiment(options, accesses);
  EXPECT_EQ(done.error, "");
  for (const lab::TimelineRow& row : done.timeline) {
    if (row.at == seconds(3)) return row.dirty_bytes;
  }
  return 0;
}
TEST(PageCacheExperiment, ItsDesignWritesTheNewestFirst) {
  const std::uint64_t oldest_first = dirty_after_writing_again("timer-wheel");
  EXPECT_LE(oldest_first, 512U << 10);
  EXPECT_EQ(dirty_after_writing_again("newest-first"), oldest_first + (12 << 10));
}

// Twice the memory: the oracle is the textbook's FIFO of as many pages, within the rounds of reclaim.
TEST(PageCacheExperiment, ItHitsAsFifoDoesAllAlong) {
  const std::vector<lab::Access> accesses = load(lab::Pattern::kZipf, 0);
  const lab::Experiment done = lab::run_experiment(my_options(), accesses);
  ASSERT_EQ(done.error, "");
  const auto fifo = lab::make_cache_model("fifo", done.timeline.back().cached_bytes / kPageBytes);
  const std::vector<std::uint64_t> pages = lab::pages_of(accesses);
  std::uint64_t at = 0, hits = 0;
  for (const lab::TimelineRow& row : done.timeline) {
    for (; at < row.accesses; ++at) hits += fifo->access(pages[at]) ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(row.hits), static_cast<double>(hits), 0.02 * static_cast<double>(at));
  }
  EXPECT_EQ(at, pages.size());
}

TEST(HitRatios, TheTableInTheDocumentIsWhatIsPrinted) {
  if (tidewheel::is_quick()) GTEST_SKIP() << "a minute under a sanitizer, and the same figures";
  const std::string table =
      hit_ratio_table(std::string(TW_SOURCE_DIR) + "/tests/examples/traces/compile.trace");
  ASSERT_EQ(table.front(), '|') << table;
  EXPECT_NE(tidewheel::text_of("docs/experiments.md").find(table), std::string::npos)
      << "docs/experiments.md does not have this table:\n" << table;
}

}  // namespace
