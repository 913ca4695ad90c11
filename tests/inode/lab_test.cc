// The laboratory: patterns, recorded traces, the models of policies beside the real ones, experiments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/config.h"
#include "inode/lab/access.h"
#include "inode/lab/cache_model.h"
#include "inode/lab/experiment.h"
#include "writeback/dirty_list.h"
#include "writeback/throttle.h"

namespace tidewheel::lab {
namespace {

// ---- patterns ----

std::vector<Access> pattern(Pattern kind, std::uint64_t accesses, std::uint64_t seed = 1) {
  PatternOptions o;
  o.pattern = kind;
  o.accesses = accesses;
  o.seed = seed;
  o.loop_pages = 3000;
  const Accesses made = make_pattern(o);
  EXPECT_EQ(made.error, "");
  return made.list;
}

TEST(AccessPattern, IsTheSameForASeedAndAnotherForAnother) {
  EXPECT_EQ(pattern(Pattern::kMixed, 5000, 7), pattern(Pattern::kMixed, 5000, 7));
  EXPECT_NE(pattern(Pattern::kMixed, 5000, 7), pattern(Pattern::kMixed, 5000, 8));
}

TEST(AccessPattern, ZipfGivesRanksTheirShare) {
  const std::vector<std::uint64_t> pages = pages_of(pattern(Pattern::kZipf, 200'000));
  std::map<std::uint64_t, std::uint64_t> times;
  for (const std::uint64_t page : pages) ++times[page];
  std::vector<std::uint64_t> by_rank;
  for (const auto& [page, n] : times) by_rank.push_back(n);
  std::sort(by_rank.rbegin(), by_rank.rend());
  double sum = 0;
  for (std::uint64_t rank = 1; rank <= 16 * 1024; ++rank) sum += std::pow(static_cast<double>(rank), -0.9);
  for (const std::size_t rank : {1U, 2U, 5U, 20U, 100U}) {
    const double expected = 200'000 * std::pow(static_cast<double>(rank), -0.9) / sum;
    EXPECT_NEAR(static_cast<double>(by_rank[rank - 1]), expected, 5 * std::sqrt(expected) + 20) << rank;
  }
}

TEST(AccessPattern, ScanLoopAndMixedTouchWhatTheySay) {
  const auto scan = pages_of(pattern(Pattern::kScan, 16 * 1024));
  EXPECT_EQ(std::set<std::uint64_t>(scan.begin(), scan.end()).size(), 16U * 1024);
  const auto loop = pages_of(pattern(Pattern::kLoop, 10'000));
  EXPECT_EQ(std::set<std::uint64_t>(loop.begin(), loop.end()).size(), 3000U);
  EXPECT_EQ(loop[0], loop[3000]);
  const auto mixed = pattern(Pattern::kMixed, 8000);
  for (std::size_t i = 2001; i < 4000; ++i) {
    const std::uint64_t before = mixed[i - 1].inode * 1024 + mixed[i - 1].offset / kPageBytes;
    ASSERT_EQ(mixed[i].inode * 1024 + mixed[i].offset / kPageBytes, before + 1) << i;
  }
}

TEST(AccessPattern, RefusesWhatMakesNoSense) {
  const auto flaw = [](auto change) {
    PatternOptions o;
    change(o);
    return make_pattern(o).error;
  };
  EXPECT_NE(flaw([](PatternOptions& o) { o.files = 0; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.pages_per_file = UINT64_MAX; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.write_percent = 101; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.interval = {-1}; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.skew = -1; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.skew = NAN; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.pattern = Pattern::kLoop, o.loop_pages = 0; }), "");
  EXPECT_NE(flaw([](PatternOptions& o) { o.pattern = Pattern::kMixed, o.scan_every = 0; }), "");
  EXPECT_EQ(flaw([](PatternOptions& o) { o.accesses = 0; }), "");
}

// ---- recorded ----

TEST(AccessTrace, ReadsWhatItWrites) {
  const std::vector<Access> list = pattern(Pattern::kMixed, 1000);
  const Accesses again = parse_trace(to_trace(list));
  EXPECT_EQ(again.error, "");
  EXPECT_EQ(again.list, list);
}

TEST(AccessTrace, PassesOverCommentsAndBlanks) {
  const Accesses read = parse_trace("# a\n\n 5\twrite 1 4096 10 # b\r\n5 read 1 0 1");
  ASSERT_EQ(read.error, "");
  ASSERT_EQ(read.list.size(), 2U);
  EXPECT_EQ(read.list[0], (Access{microseconds(5), AccessKind::kWrite, 1, 4096, 10}));
}

struct BadTrace {
  const char* text;
  const char* error;
};
class AccessTraceErrors : public testing::TestWithParam<BadTrace> {};
TEST_P(AccessTraceErrors, NamesTheLineAndTheField) {
  const Accesses read = parse_trace(GetParam().text);
  EXPECT_EQ(read.error, GetParam().error);
  EXPECT_TRUE(read.list.empty());
}
INSTANTIATE_TEST_SUITE_P(
    Texts, AccessTraceErrors,
    testing::Values(
        BadTrace{"", "the trace has no access"}, BadTrace{"# only\n", "the trace has no access"},
        BadTrace{"1 read 1 0\n", "line 1: length is missing (a line is: time_us op inode offset length)"},
        BadTrace{"0 read 1 0 1\n1 wrte 1 0 1\n", "line 2: op 'wrte' is neither read nor write"},
        BadTrace{"1 read 1 0 1 9", "line 1: '9' follows the length, the last field"},
        BadTrace{"1 read 1 -4 1", "line 1: offset '-4' is not a decimal number"},
        BadTrace{"1 read 0x1 4 1", "line 1: inode '0x1' is not a decimal number"},
        BadTrace{"1 read 1 99999999999999999999 1",
                 "line 1: offset '99999999999999999999' is not a decimal number"},
        BadTrace{"2 read 1 0 1\n\n1 read 1 0 1", "line 3: time_us goes back"},
        BadTrace{"1 read 1 0 0", "line 1: length is 0"},
        BadTrace{"1 read 1 0 1073741825", "line 1: length is more than 1 GiB"},
        BadTrace{"1 read 1 9223372036854775807 1", "line 1: the end is beyond 2^63 - 1"},
        BadTrace{"9223372036854776 read 1 0 1", "line 1: time_us is beyond 292 years"},
        BadTrace{"1.5 read 1 0 1", "line 1: time_us '1.5' is not a decimal number"}));

TEST(AccessTrace, SaysWhichFileCannotBeRead) {
  EXPECT_EQ(read_trace("/no/such/trace").error, "/no/such/trace: cannot be opened");
}

// ---- policies beside their models ----

struct Comparison {
  Pattern pattern;
  std::uint64_t capacity;
};
class PolicyModel : public testing::TestWithParam<Comparison> {
 protected:
  std::vector<std::uint64_t> pages_ = pages_of(pattern(GetParam().pattern, 60'000));
};

TEST_P(PolicyModel, SieveAndTwoListInOneShardAreTheirModelsAccessByAccess) {
  for (const char* name : {"sieve", "two-list"}) {
    const auto model = make_cache_model(name, GetParam().capacity);
    PolicyCache real(make_reclaim_policy(name), GetParam().capacity, PolicyCache::Spread::kOneShard);
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      ASSERT_EQ(real.access(pages_[i]), model->access(pages_[i])) << name << ": access " << i;
      ASSERT_LE(real.size(), GetParam().capacity);
    }
  }
}

// Its small queue is a tenth of what is there, its ghost loses a few entries early.
TEST_P(PolicyModel, S3FifoIsWithinOnePointOfTheModel) {
  const auto model = make_cache_model("s3-fifo", GetParam().capacity);
  PolicyCache real(make_reclaim_policy("s3-fifo"), GetParam().capacity, PolicyCache::Spread::kOneShard);
  EXPECT_NEAR(hit_ratio(real, pages_), hit_ratio(*model, pages_), 0.01);
}

// Sixteen shards take turns, so the coldest of one goes, not of all.
TEST_P(PolicyModel, ShardsCostAtMostTwoPoints) {
  for (const char* name : {"sieve", "two-list", "s3-fifo"}) {
    const auto model = make_cache_model(name, GetParam().capacity);
    PolicyCache real(make_reclaim_policy(name), GetParam().capacity, PolicyCache::Spread::kAllShards);
    EXPECT_NEAR(hit_ratio(real, pages_), hit_ratio(*model, pages_), 0.02) << name;
  }
}

TEST_P(PolicyModel, NothingBeatsTheBest) {
  const double best = best_hit_ratio(pages_, GetParam().capacity);
  for (const char* name : {"sieve", "two-list", "s3-fifo", "lru", "fifo"}) {
    EXPECT_LE(hit_ratio(*make_cache_model(name, GetParam().capacity), pages_), best) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, PolicyModel,
                         testing::Values(Comparison{Pattern::kZipf, 500}, Comparison{Pattern::kZipf, 4000},
                                         Comparison{Pattern::kScan, 1000}, Comparison{Pattern::kLoop, 1000},
                                         Comparison{Pattern::kLoop, 4000}, Comparison{Pattern::kMixed, 1000},
                                         Comparison{Pattern::kMixed, 4000}),
                         [](const auto& each) {
                           return std::string(name_of(each.param.pattern)) +
                                  std::to_string(each.param.capacity);
                         });

TEST(CacheModel, BeladyByHand) {
  const std::vector<std::uint64_t> pages = {1, 2, 3, 1, 2, 4, 1, 2};
  EXPECT_DOUBLE_EQ(best_hit_ratio(pages, 3), 4.0 / 8) << "3 goes, being needed last";
  EXPECT_DOUBLE_EQ(best_hit_ratio(pages, 1), 0.0);
  EXPECT_EQ(make_cache_model("clock", 3), nullptr);
  EXPECT_EQ(make_cache_model("lru", 0), nullptr);
}

// ---- experiments ----

ExperimentOptions small() {
  ExperimentOptions o;
  o.memory_bytes = 8 << 20;
  o.background_bytes = 512 << 10;
  o.dirty_bytes = 1 << 20;
  o.expire = seconds(2);
  o.interval = seconds(1);
  return o;
}

std::vector<Access> writes(std::uint64_t accesses, std::uint32_t percent) {
  PatternOptions o;
  o.pattern = Pattern::kMixed;
  o.accesses = accesses;
  o.write_percent = percent;
  return make_pattern(o).list;
}

void check_timeline(const Experiment& e, const ExperimentOptions& o, std::uint64_t accesses) {
  ASSERT_EQ(e.error, "");
  ASSERT_GE(e.timeline.size(), 2U);
  const TimelineRow* before = nullptr;
  for (const TimelineRow& row : e.timeline) {
    ASSERT_EQ(row.dirtied_bytes, row.dirty_bytes + row.writeback_bytes + row.cleaned_bytes) << row.at.ns;
    ASSERT_EQ(row.hits + row.misses, row.accesses);
    ASSERT_LE(row.charged_bytes, o.dirty_bytes);
    ASSERT_LE(row.dirty_bytes + row.writeback_bytes, row.charged_bytes);
    ASSERT_LE(row.cached_bytes, o.memory_bytes);
    if (before != nullptr) {
      ASSERT_GE(row.at, before->at);
      ASSERT_GE(row.hits, before->hits);
      ASSERT_GE(row.pauses, before->pauses);
      ASSERT_GE(row.cleaned_bytes, before->cleaned_bytes);
    }
    before = &row;
  }
  EXPECT_EQ(before->accesses, accesses);
  EXPECT_EQ(before->dirty_bytes + before->writeback_bytes, 0U) << "everything is written at the end";
  EXPECT_EQ(before->charged_bytes, 0U);
}

struct Setting {
  const char* design;
  const char* throttle;
  const char* reclaim;
};
class Experiments : public testing::TestWithParam<Setting> {};

TEST_P(Experiments, KeepTheirAccountsInEveryRow) {
  ExperimentOptions o = small();
  o.design = GetParam().design;
  o.throttle = GetParam().throttle;
  o.reclaim = GetParam().reclaim;
  o.device_bytes_per_s = 10 << 20;
  const Experiment e = run_experiment(o, writes(20'000, 90));
  check_timeline(e, o, 20'000);
  EXPECT_GT(e.timeline.back().hits, 0U);
  EXPECT_GT(e.timeline.back().pauses, 0U) << "this load is beyond what the device takes";
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const DirtyListDesign& design : dirty_list_designs()) {
    all.push_back({design.name.c_str(), "hard-limit", "two-list"});
  }
  for (const ThrottlePolicy& policy : throttle_policies()) {
    all.push_back({"timer-wheel", policy.name.c_str(), "sieve"});
  }
  all.push_back({"timer-wheel", "linux", "s3-fifo"});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Settings, Experiments, testing::ValuesIn(settings()), [](const auto& each) {
  std::string name = std::string(each.param.design) + each.param.throttle + each.param.reclaim;
  std::erase(name, '-');
  return name;
});

TEST(Experiment, IsRepeatable) {
  const std::vector<Access> list = writes(10'000, 30);
  const std::string first = run_experiment(small(), list).to_csv();
  EXPECT_EQ(first, run_experiment(small(), list).to_csv());
  ExperimentOptions other = small();
  other.device_bytes_per_s /= 2;
  EXPECT_NE(first, run_experiment(other, list).to_csv());
}

// By hand: 1 MiB/s, no latency, four reads of one page each, the third and fourth of the same page.
TEST(Experiment, TakesTheTimeTheDeviceTakes) {
  ExperimentOptions o = small();
  o.device_bytes_per_s = 4096 * 100;  // 10 ms a page
  o.device_latency = milliseconds(1);
  std::vector<Access> list;
  for (const std::uint64_t page : {0U, 1U, 2U, 2U}) {
    list.push_back({{}, AccessKind::kRead, 1, page * kPageBytes, kPageBytes});
  }
  const Experiment e = run_experiment(o, list);
  ASSERT_EQ(e.error, "");
  EXPECT_EQ(e.timeline.back().hits, 1U);
  EXPECT_EQ(e.timeline.back().misses, 3U);
  EXPECT_EQ(e.timeline.back().device_reads, 3U);
  EXPECT_EQ(e.timeline.back().at, milliseconds(33));
}

// Dirty data waits for its age, no longer.
TEST(Experiment, ShowsTheAgeAtWhichDirtIsWritten) {
  ExperimentOptions o = small();
  std::vector<Access> list = {{{}, AccessKind::kWrite, 1, 0, kPageBytes},
                              {seconds(10), AccessKind::kRead, 1, 0, kPageBytes}};
  const Experiment e = run_experiment(o, list);
  ASSERT_EQ(e.error, "");
  for (const TimelineRow& row : e.timeline) {
    if (row.at <= seconds(2)) {
      EXPECT_EQ(row.cleaned_bytes, 0U) << row.at.ns;
    }
    if (row.at >= milliseconds(3200)) {
      EXPECT_EQ(row.cleaned_bytes, kPageBytes) << row.at.ns;
    }
  }
}

// Parts of pages: of an absent one the rest is read in first.
TEST(Experiment, WritesPartsOfPages) {
  std::vector<Access> list = {{{}, AccessKind::kWrite, 3, 100, 10'000},
                              {{}, AccessKind::kRead, 3, 0, 20'000},
                              {{}, AccessKind::kWrite, 3, 4096, 1}};
  const Experiment e = run_experiment(small(), list);
  check_timeline(e, small(), 3 + 5 + 1);
  EXPECT_EQ(e.timeline.back().misses, 5U);
  EXPECT_EQ(e.timeline.back().device_reads, 4U) << "two ends of the first write, two pages of the read";
}

TEST(Experiment, RefusesWhatItCannotRun) {
  const auto flaw = [](auto change) {
    ExperimentOptions o = small();
    std::vector<Access> list = {{{}, AccessKind::kRead, 1, 0, 1}, {seconds(1), AccessKind::kRead, 1, 0, 1}};
    change(o, list);
    return run_experiment(o, list).error;
  };
  using O = ExperimentOptions;
  using L = std::vector<Access>;
  EXPECT_EQ(flaw([](O&, L&) {}), "");
  EXPECT_EQ(flaw([](O& o, L&) { o.design = "heap"; }), "design 'heap' is not registered");
  EXPECT_EQ(flaw([](O& o, L&) { o.throttle = "none"; }), "throttle 'none' is not registered");
  EXPECT_EQ(flaw([](O& o, L&) { o.reclaim = "clock"; }), "reclaim policy 'clock' is not registered");
  EXPECT_EQ(flaw([](O& o, L&) { o.memory_bytes = 4096; }), "memory_bytes is at least 4 MiB");
  EXPECT_EQ(flaw([](O& o, L&) { o.dirty_bytes = 5 << 20; }), "dirty_bytes is at most half of memory_bytes");
  EXPECT_NE(flaw([](O& o, L&) { o.dirty_bytes = 0; }), "");
  EXPECT_NE(flaw([](O& o, L&) { o.sample = {0}; }), "");
  EXPECT_NE(flaw([](O& o, L&) { o.device_bytes_per_s = 0; }), "");
  EXPECT_NE(flaw([](O& o, L&) { o.device_latency = {-1}; }), "");
  EXPECT_EQ(flaw([](O&, L& l) { l[1].at = {-1}; }), "access 2 is earlier than the one before it");
  EXPECT_EQ(flaw([](O&, L& l) { l[0].at = {-1}; }), "access 1 is before the beginning");
  EXPECT_NE(flaw([](O&, L& l) { l[1].length = 0; }), "");
  EXPECT_NE(flaw([](O&, L& l) { l[1].offset = UINT64_MAX; }), "");
}

// The whole cache against the model of as many pages. Reclaim goes by rounds of 256 KiB, over 16 shards.
TEST(Experiment, HitsAsTheModelDoes) {
  for (const char* reclaim : {"two-list", "sieve", "s3-fifo"}) {
    for (const Pattern kind : {Pattern::kZipf, Pattern::kLoop, Pattern::kMixed}) {
      ExperimentOptions o = small();
      o.reclaim = reclaim;
      o.memory_bytes = 16 << 20;
      const std::vector<Access> list = pattern(kind, 60'000);
      const Experiment e = run_experiment(o, list);
      ASSERT_EQ(e.error, "");
      const auto model = make_cache_model(reclaim, e.timeline.back().cached_bytes / kPageBytes);
      EXPECT_NEAR(e.hit_ratio(), hit_ratio(*model, pages_of(list)), 0.02) << reclaim << " " << name_of(kind);
    }
  }
}

}  // namespace
}  // namespace tidewheel::lab
