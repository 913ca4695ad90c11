// The page of compare: made from figures, and looked at in a browser where there is one.
#include "bench/html_page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/html_over_time.h"
#include "bench/html_text.h"
#include "bench/scaling_model.h"

namespace tidewheel::bench {
namespace {

namespace stdfs = std::filesystem;

constexpr const char* kPlanted = "/tmp/</pre><script>document.title='planted'</script>&\"'.json";

RunFigures run_of(const std::string& design, std::uint32_t threads, std::uint32_t round) {
  RunFigures run;
  run.design = design;
  run.threads = threads;
  run.round = round;
  run.files = 90'000;
  run.files_per_s = 30'000 + 1000 * round;
  run.cpu_us_per_file = 3.5;
  run.wall_s = 3.2;
  run.final_sync_s = 0.2;
  run.below_background = {.files_per_s = 120'000, .write_iops = 0, .write_mb_per_s = 0, .seconds = 0.3};
  run.sustained = {.files_per_s = 28'000, .write_iops = 40, .write_mb_per_s = 115, .seconds = 2.4};
  run.list_acquisitions = 200'000;
  run.list_contended = 31;
  run.lock_wait_ms = 4.5;
  run.list_hold_ns_mean = 45;
  run.max_elements_per_hold = design == "timer-wheel" ? 32 : 14'092;
  run.elements_under_lock = 400'000;
  run.list_shards = design == "timer-wheel" ? 16 : 1;
  run.latencies = {
      {.call = "create", .count = 90'000, .p50 = 900, .p90 = 1500, .p99 = 9000, .p999 = 80'000, .max = 3e6}};
  run.locks = {{.name = "dirty_list",
                .acquisitions = 200'000,
                .contended = 31,
                .wait_ms = 4.5,
                .hold_ns_p99 = 300,
                .hold_ns_mean = 45}};
  for (int i = 0; i <= 100; ++i) {
    const double t = i * 0.032;
    run.series.time_s.push_back(t);
    run.series.files.push_back(900.0 * i);
    run.series.device_write_bytes.push_back(3.6e6 * i);
    run.series.dirty_bytes.push_back(std::min(1e6 * i, 30e6));
    run.series.writeback_bytes.push_back(4e6);
    run.series.throttled_threads.push_back(i > 30 ? 3 : 0);
  }
  run.series.background_passed_s = 0.5;
  run.series.first_throttled_s = 1.0;
  run.series.final_sync_from_s = 3.0;
  return run;
}

struct Case {
  CompareOptions options;
  CompareDocument document;
  std::vector<RunFigures> runs;
  std::string page() {
    document.model = scaling_models(runs, options.designs, false, false);
    return compare_page(
        {.options = options,
         .document = document,
         .runs = runs,
         .machine = {.cpus = 2, .model = "<b>a CPU</b>", .memory_bytes = 8ULL << 30, .kernel = "6.1"},
         .error = ""});
  }
};

Case case_of(const std::vector<std::string>& designs, const std::vector<std::uint32_t>& threads,
             std::uint32_t rounds) {
  Case one;
  one.options.designs = designs;
  one.options.threads = threads;
  one.options.base.writeback.background_bytes = 16 << 20;
  one.options.base.writeback.dirty_bytes = 32 << 20;
  one.options.base.json_path = kPlanted;
  one.document.command = {"tidewheel", "compare", "--json", kPlanted};
  one.document.started = "2026-01-31T12:00:00Z";
  one.document.device_bandwidth = 64 << 20;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    for (const std::uint32_t count : threads) {
      for (const std::string& design : designs) one.runs.push_back(run_of(design, count, round));
    }
  }
  return one;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Every element that is opened is closed, in order; what follows is no parser of HTML but enough for ours.
void expect_balanced(const std::string& page) {
  std::vector<std::string> open;
  const std::string none[] = {"meta", "link", "!DOCTYPE"};
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string name = page.substr(at + 1, page.find_first_of(" >/", at + 2) - at - 1);
    if (std::find(std::begin(none), std::end(none), name) != std::end(none) || page[end - 1] == '/')
      continue;
    if (name.front() != '/') {
      open.push_back(name);
      if (name == "script" || name == "style") at = page.find("</" + name, at) - 1;
      continue;
    }
    ASSERT_FALSE(open.empty()) << page.substr(at, 60);
    ASSERT_EQ("/" + open.back(), name) << page.substr(at > 200 ? at - 200 : 0, 260);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

TEST(HtmlEscape, LeavesNoMarkupAndOnlyUtf8) {
  EXPECT_EQ(html_escape("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  EXPECT_EQ(html_escape("µ–日😀"), "µ–日😀");
  EXPECT_EQ(html_escape("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(html_escape(std::string("a\0b\x1b", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(html_escape("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "an overlong slash";
  EXPECT_EQ(html_escape("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
  EXPECT_EQ(html_escape("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "cut short";
}

TEST(ShellLine, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(shell_line({"tidewheel", "-d", "/0", "a b", "it's", "", "$x"}),
            "tidewheel -d /0 'a b' 'it'\\''s' '' '$x'");
}

TEST(StretchesOf, KeepTotalsPeaksAndTheEdgeOfTheFinalSync) {
  const RunFigures run = run_of("timer-wheel", 1, 1);
  const std::vector<Stretch> stretches = stretches_of(run.series, 0.1);
  double files = 0, from = 0, most = 0;
  bool edge = false;
  for (const Stretch& one : stretches) {
    files += one.files_per_s * (one.to_s - from);
    from = one.to_s;
    most = std::max(most, one.dirty_bytes);
    edge = edge || (one.to_s <= 3.0 && one.to_s > 3.0 - 0.033);
  }
  EXPECT_NEAR(files, 90'000, 1);
  EXPECT_EQ(most, 30e6);
  EXPECT_TRUE(edge) << "a stretch ends where the final sync begins";
  EXPECT_LE(stretches.size(), 33U);
  EXPECT_TRUE(stretches_of({}, 0.1).empty());
}

TEST(StretchesOf, AStretchTooShortForARateJoinsTheOneBefore) {
  RunFigures::Series series;
  for (const double t : {0.0, 0.1, 0.2, 0.2001, 0.3, 0.3001}) {
    series.time_s.push_back(t);
    series.files.push_back(static_cast<double>(series.files.size()) * 10);
    for (auto* column : {&series.device_write_bytes, &series.dirty_bytes, &series.writeback_bytes,
                         &series.throttled_threads}) {
      column->push_back(0);
    }
  }
  series.final_sync_from_s = 0.2001;
  const std::vector<Stretch> stretches = stretches_of(series, 0.09);
  ASSERT_EQ(stretches.size(), 3U);
  EXPECT_NEAR(stretches[1].files_per_s, 20 / 0.1001, 1e-6) << "not ten files in a tenth of a millisecond";
  EXPECT_NEAR(stretches[1].to_s, 0.2001, 1e-9);
  EXPECT_NEAR(stretches[2].files_per_s, 20 / 0.1, 1) << "nor creates and the sync in one";
}

TEST(ComparePage, EscapesWhatComesFromOutsideAndLoadsNothing) {
  const std::string page = case_of({"single-list", "timer-wheel"}, {1, 16}, 3).page();
  expect_balanced(page);
  EXPECT_EQ(page.find("planted'</script>"), std::string::npos);
  EXPECT_EQ(count_of(page, "<script"), 1U);
  EXPECT_EQ(page.find("<b>a CPU"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos) << "it is shown, as text";
  for (const char* loads : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("name=\"viewport\""), std::string::npos);
}

TEST(ComparePage, HasEverySectionAndATableForEveryChart) {
  const std::string page = case_of({"single-list", "timer-wheel"}, {1, 16}, 3).page();
  for (const char* section : {"load-points", "over-time", "latencies", "locks", "whole-run", "model",
                              "configuration", "commands"}) {
    EXPECT_NE(page.find("id=\"" + std::string(section) + "\""), std::string::npos) << section;
  }
  // Two thread counts: load points, whole runs, locks, latency of one call; two designs over time, two
  // charts each; the model's two.
  EXPECT_EQ(count_of(page, "role=\"img\""), 2U * 4 + 2U * 2 * 2 + 2);
  EXPECT_EQ(count_of(page, "role=\"img\""), count_of(page, "<desc id="));
  EXPECT_EQ(count_of(page, "<figure"), count_of(page, "</details>") - 1) << "all runs have one more";
  EXPECT_GE(count_of(page, "model, uncalibrated"), 4U);
  EXPECT_NE(page.find("14.1k"), std::string::npos) << "most elements in one hold";
  EXPECT_NE(page.find("not reached"), std::string::npos) << "below foreground is null in these runs";
  for (const char* set : {"throttle", "owners"}) {
    EXPECT_NE(page.find(std::string(">") + set + "<"), std::string::npos) << set << ", in the configuration";
  }
  EXPECT_NE(page.find("--device-bandwidth 64M"), std::string::npos) << "the command that repeats it";
}

TEST(ComparePage, WorksWithLittleOrNothing) {
  Case one = case_of({"timer-wheel"}, {1}, 1);
  expect_balanced(one.page());
  one.runs[0].below_background.reset();
  one.runs[0].sustained.reset();
  one.runs[0].latencies.clear();
  one.runs[0].locks.clear();
  one.runs[0].series = {};
  one.runs[0].list_acquisitions = 0;
  std::string page = one.page();
  expect_balanced(page);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(page.find("inf"), page.find("information")) << "no figure is infinite";
  one.runs.clear();
  page = one.page();
  expect_balanced(page);
  EXPECT_NE(page.find("No run was complete"), std::string::npos);
}

// ---- in a browser ----

std::string find_browser() {
  for (const char* name : {"chromium-headless-shell", "chromium", "google-chrome"}) {
    for (std::stringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");;) {
      std::string folder;
      if (!std::getline(path, folder, ':')) break;
      if (::access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
    }
  }
  return "";
}

class ComparePageInBrowser : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the browser is not what a sanitizer looks at";
#endif
    browser_ = find_browser();
    if (browser_.empty()) GTEST_SKIP() << "no Chromium here: apt-get install chromium-headless-shell";
    std::string pattern = (stdfs::temp_directory_path() / "tidewheel-page-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    if (!folder_.empty()) stdfs::remove_all(folder_);
  }
  std::string read(const std::string& name) {
    std::ifstream in(folder_ + "/" + name);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void write_page(const std::string& page) { std::ofstream(folder_ + "/page.html") << page; }
  // Its standard output is in "out", its log in "log". What is asked of the network goes to a port that
  // nobody listens on, and is written down in "net".
  int browse(const std::string& flags, int width) {
    const std::string command =
        "timeout 60 '" + browser_ +
        "' --headless --hide-scrollbars --no-sandbox --disable-gpu --disable-dev-shm-usage"
        " --no-first-run --disable-background-networking --proxy-server=127.0.0.1:9 --enable-logging=stderr"
        " --user-data-dir='" +
        folder_ + "/profile' --log-net-log='" + folder_ + "/net' --window-size=" + std::to_string(width) +
        ",900 " + flags + " 'file://" + folder_ + "/page.html' >'" + folder_ + "/out' 2>'" + folder_ +
        "/log'";
    return std::system(command.c_str());
  }
  static std::string data_of(const std::string& dom, const std::string& name) {
    const std::string key = " data-" + name + "=\"";
    const std::size_t at = dom.find(key);
    if (at == std::string::npos) return "(none)";
    return dom.substr(at + key.size(), dom.find('"', at + key.size()) - at - key.size());
  }

  std::string browser_, folder_;
};

TEST_F(ComparePageInBrowser, RendersWithoutErrorRequestOrOverflow) {
  write_page(
      case_of({"single-list", "tagged-list", "syncer-slots", "parallel-lists", "timer-wheel"}, {1, 16}, 3)
          .page());
  for (const int width : {360, 800, 1400}) {
    ASSERT_EQ(browse("--dump-dom", width), 0) << read("log");
    const std::string dom = read("out");
    EXPECT_EQ(data_of(dom, "ready"), "yes") << width;
    EXPECT_EQ(data_of(dom, "errors"), "0") << width;
    EXPECT_EQ(data_of(dom, "overflow"), "0") << "the page is wider than its window of " << width;
    // Where the headless window has a least width of its own, this says so instead of passing unseen.
    EXPECT_EQ(data_of(dom, "width"), std::to_string(width));
    EXPECT_EQ(data_of(dom, "charts"), std::to_string(2 * 4 + 2 * 5 * 2 + 2)) << width;
    EXPECT_EQ(dom.find("<title>planted"), std::string::npos);
    const std::string log = read("log");
    EXPECT_EQ(log.find("CONSOLE"), std::string::npos) << log;
    const std::string net = read("net");
    EXPECT_FALSE(net.empty());
    EXPECT_EQ(net.find("\"url\":\"http"), std::string::npos) << "the page asked the network for something";
  }
}

TEST_F(ComparePageInBrowser, SeesAPlantedErrorOverflowAndRequest) {
  std::string page = case_of({"timer-wheel"}, {1}, 1).page();
  const std::string end = "</main>";
  const std::string policy = "img-src data:";
  page.replace(page.find(policy), policy.size(), "img-src *");
  page.insert(page.find(end), "<img alt=\"\" src=\"http://192.0.2.1/planted.png\">");
  page.insert(page.find(end),
              "<div style=\"width:900px\">wide</div><script>nothing_of_that_name();</script>");
  write_page(page);
  ASSERT_EQ(browse("--dump-dom", 360), 0) << read("log");
  EXPECT_NE(data_of(read("out"), "overflow"), "0");
  EXPECT_NE(read("log").find("CONSOLE"), std::string::npos) << read("log");
  EXPECT_NE(read("net").find("\"url\":\"http"), std::string::npos);
}

TEST_F(ComparePageInBrowser, PrintsToPaper) {
  write_page(case_of({"single-list", "timer-wheel"}, {1, 16}, 3).page());
  const std::string pdf = folder_ + "/page.pdf";
  ASSERT_EQ(browse("--no-pdf-header-footer --print-to-pdf='" + pdf + "'", 800), 0) << read("log");
  std::ifstream in(pdf, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  EXPECT_EQ(bytes.str().rfind("%PDF-", 0), 0U);
  EXPECT_GT(bytes.str().size(), 20'000U);
  const std::size_t pages = count_of(bytes.str(), "/Type /Page\n");
  EXPECT_GE(pages, 2U);
  EXPECT_LE(pages, 12U) << "closed tables stay closed on paper";
}

}  // namespace
}  // namespace tidewheel::bench
