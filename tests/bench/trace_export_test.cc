#include "bench/trace_export.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "fs/block/block_device.h"
#include "writeback/batch.h"
#include "writeback/dirty_object.h"

namespace tidewheel::bench {
namespace {

TraceEvent event_of(TracePoint point, std::int64_t at_ns, std::uint32_t thread,
                    std::initializer_list<std::uint64_t> arguments) {
  TraceEvent event;
  event.point = point;
  event.at_ns = at_ns;
  event.thread = thread;
  event.cpu = static_cast<std::uint16_t>(thread % 2);
  std::copy(arguments.begin(), arguments.end(), event.arguments);
  return event;
}

std::uint64_t kind(WorkKind work) { return static_cast<std::uint64_t>(work); }

TraceSnapshot snapshot() {
  TraceSnapshot trace;
  trace.threads = {{.thread = 0, .name = "writer \"1\"", .system_id = 4711},
                   {.thread = 1, .name = "flusher", .system_id = 4712}};
  trace.events = {
      event_of(TracePoint::writeback_dirty_inode, 1'000'000'000, 0,
               {4096, kDirtyData | kDirtyMetadata, 1'000'000'000, 3}),
      event_of(TracePoint::writeback_queue, 1'000'100'000, 1, {3, kind(WorkKind::kBackground), 8192}),
      event_of(TracePoint::writeback_queue_io, 1'500'000'000, 1,
               {3, INT64_MAX, 1, kind(WorkKind::kBackground)}),
      event_of(TracePoint::writeback_start, 1'500'001'000, 1, {3, kind(WorkKind::kBackground), 1, 7}),
      event_of(TracePoint::writeback_start, 1'500'002'000, 1, {3, kind(WorkKind::kSync), 2, 8}),
      event_of(TracePoint::balance_dirty_pages, 1'600'000'000, 0, {3, 9000, 40'000'000, 10'000}),
      event_of(TracePoint::writeback_written, 1'700'000'000, 1, {3, 1, 4096, 7}),
      event_of(TracePoint::global_dirty_state, 1'700'000'500, 1, {100, 200, 300, 400}),
      event_of(TracePoint::writeback_written, 1'700'001'000, 1, {3, 1, 4096, 6}),  // its start was lost
      event_of(TracePoint::writeback_queue_io, 3'000'000'000, 1,
               {3, 1'000'000'000, 5, kind(WorkKind::kPeriodic)}),
  };
  trace.dropped = 12;
  return trace;
}

// A strict reader of one line: comm-tid [cpu] ..... s.us: name: fields.
struct Line {
  std::string comm, name;
  unsigned long tid = 0, cpu = 0;
  double at_s = 0;
  std::map<std::string, std::string> fields;
};
std::optional<Line> read_line(const std::string& text) {
  Line line;
  const std::size_t open = text.find(" [");
  if (open == std::string::npos || open < 24) return std::nullopt;
  const std::size_t dash = text.rfind('-', open);
  if (dash == std::string::npos || dash < 16) return std::nullopt;
  line.comm = text.substr(text.find_first_not_of(' '), dash - text.find_first_not_of(' '));
  char* end = nullptr;
  line.tid = std::strtoul(text.c_str() + dash + 1, &end, 10);
  line.cpu = std::strtoul(text.c_str() + open + 2, &end, 10);
  const std::string after(end);
  if (after.rfind("] ..... ", 0) != 0) return std::nullopt;
  const std::string rest = after.substr(8);
  line.at_s = std::strtod(rest.c_str(), &end);
  const std::string tail(end);
  if (tail.rfind(": ", 0) != 0 || rest.find('.') + 7 != rest.size() - tail.size()) return std::nullopt;
  const std::size_t colon = tail.find(": ", 2);
  if (colon == std::string::npos) return std::nullopt;
  line.name = tail.substr(2, colon - 2);
  std::istringstream words(tail.substr(colon + 2));
  std::string word;
  for (bool first = true; words >> word; first = false) {
    if (first && word == "bdi") {
      if (!(words >> word) || word.back() != ':') return std::nullopt;
      word.pop_back();
      line.fields["bdi"] = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) return std::nullopt;
    if (!line.fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second) return std::nullopt;
  }
  return line;
}

std::vector<Line> read_lines(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream in(text);
  std::string one;
  while (std::getline(in, one)) {
    if (one.front() == '#') continue;
    const auto line = read_line(one);
    EXPECT_TRUE(line.has_value()) << one;
    if (line) lines.push_back(*line);
  }
  return lines;
}

// Slices of one id and of one thread begin and end by turns, and what can be counted is.
void expect_balanced(const nlohmann::json& json) {
  std::set<std::string> open;
  for (const auto& event : json.at("traceEvents")) {
    const std::string phase = event.at("ph");
    EXPECT_GE(event.at("ts").get<double>(), 0);
    if (phase == "b") {
      EXPECT_TRUE(open.insert(event.at("id").get<std::string>()).second) << event;
    } else if (phase == "e") {
      EXPECT_EQ(open.erase(event.at("id").get<std::string>()), 1U) << event;
    } else if (phase == "X") {
      EXPECT_GE(event.at("dur").get<double>(), 0);
    } else {
      EXPECT_TRUE(phase == "M" || phase == "i" || phase == "C") << phase;
    }
  }
  EXPECT_TRUE(open.empty()) << *open.begin();
}

TEST(TraceLines, ReadBackAsWhatWasRecorded) {
  const std::string text = trace_lines(snapshot());
  EXPECT_EQ(text.rfind("# tracer: nop\n", 0), 0U);
  EXPECT_NE(text.find("10/22   dropped: 12"), std::string::npos) << text;
  const std::vector<Line> lines = read_lines(text);
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_EQ(lines[0].comm, "writer \"1\"");
  EXPECT_EQ(lines[0].tid, 4711U);
  EXPECT_EQ(lines[1].cpu, 1U);
  EXPECT_DOUBLE_EQ(lines[0].at_s, 1.0);
  EXPECT_EQ(lines[0].name, "writeback_dirty_inode");
  EXPECT_EQ(lines[0].fields, (std::map<std::string, std::string>{{"bdi", "tw-3"},
                                                                 {"ino", "4096"},
                                                                 {"state", "I_DIRTY_SYNC|I_DIRTY_PAGES"},
                                                                 {"flags", "I_DIRTY_SYNC|I_DIRTY_PAGES"}}));
  auto start = lines[3].fields;
  EXPECT_EQ(start["background"], "1");
  EXPECT_EQ(start["sync_mode"], "0");
  EXPECT_EQ(start["reason"], "background");
  EXPECT_EQ(start["nr_inodes"], "1");
  auto sync = lines[4].fields;
  EXPECT_EQ(sync["sync_mode"], "1");
  EXPECT_EQ(sync["reason"], "sync");
  auto balance = lines[5].fields;
  EXPECT_EQ(balance["paused"], "40");
  EXPECT_EQ(balance["limit_bytes"], "10000");
  auto background = lines[2].fields;
  EXPECT_EQ(background["age"], "0") << "no cut-off";
  auto periodic = lines[9].fields;
  EXPECT_EQ(periodic["older"], "1000");
  EXPECT_EQ(periodic["age"], "2000");
}

// Word for word: scripts of the field take these lines apart by position.
TEST(TraceLines, BlockAndReclaimEventsReadAsTheKernels) {
  TraceSnapshot trace;
  trace.threads = {{.thread = 0, .name = "tw-flush", .system_id = 12}};
  const IoTraceFlags log{IoOp::kWrite, IoCause::kLog, true, true, Reason::kOk};
  IoTraceFlags meta{IoOp::kRead, IoCause::kMetadata, false, false, Reason::kIo};
  const IoTraceFlags flush{IoOp::kFlush, IoCause::kData, false, false, Reason::kOk};
  trace.events = {
      event_of(TracePoint::block_rq_issue, 1'000'000'000, 0, {7 << 6, 1 << 20, 8192, log.packed()}),
      event_of(TracePoint::block_rq_complete, 1'000'001'000, 0, {7 << 6, 1 << 20, 8192, meta.packed()}),
      event_of(TracePoint::block_rq_issue, 1'000'002'000, 0, {9 << 6, 0, 0, flush.packed()}),
      event_of(TracePoint::writeback_sb_inodes_requeue, 2'000'000'000, 0, {64, 4, 500'000'000, 3}),
      event_of(TracePoint::mm_vmscan_direct_reclaim_begin, 2'000'000'000, 0, {262144, 4096}),
      event_of(TracePoint::mm_vmscan_direct_reclaim_end, 2'000'000'000, 0, {12}),
      event_of(TracePoint::mm_shrink_slab_start, 2'000'000'000, 0, {0xAB, 4096, 8192}),
      event_of(TracePoint::mm_shrink_slab_end, 2'000'000'000, 0, {0xAB, 4096, 1024}),
  };
  std::string text = trace_lines(trace);
  text = text.substr(text.find("FUNCTION\n") + 9);
  const std::string head = "        tw-flush-12      [000] .....     ";
  EXPECT_EQ(text,
            head + "1.000000: block_rq_issue: 0,7 FWFS 8192 () 2048 + 16 [tw-flush]\n" +
            head + "1.000001: block_rq_complete: 0,7 RM () 2048 + 16 [-5]\n" +
            head + "1.000002: block_rq_issue: 0,9 F 0 () 0 + 0 [tw-flush]\n" +
            head + "2.000000: writeback_sb_inodes_requeue: bdi tw-3: ino=64 outcome=4 dirtied_when=500 "
                   "age=1500\n" +
            head + "2.000000: mm_vmscan_direct_reclaim_begin: order=0 to_reclaim_bytes=262144 "
                   "listed_bytes=4096\n" +
            head + "2.000000: mm_vmscan_direct_reclaim_end: nr_reclaimed=12\n" +
            head + "2.000000: mm_shrink_slab_start: ab: bytes to shrink 4096 charged bytes 8192\n" +
            head + "2.000000: mm_shrink_slab_end: ab: bytes to shrink 4096 last shrinker return val 1024\n");
  EXPECT_FALSE(nlohmann::json::parse(trace_json(trace), nullptr, false).is_discarded());
}

TEST(TraceJson, IsValidAndEverySliceEnds) {
  const auto json = nlohmann::json::parse(trace_json(snapshot()), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json.at("otherData").at("dropped_events"), 12);
  expect_balanced(json);
  std::map<std::string, int> phases;
  bool unfinished = false;
  for (const auto& event : json.at("traceEvents")) {
    ++phases[event.at("ph").get<std::string>()];
    if (event.at("ph") == "e") unfinished = unfinished || event.at("args").contains("unfinished");
    if (event.at("ph") == "X") {
      EXPECT_DOUBLE_EQ(event.at("ts").get<double>(), 1'560'000.0) << "a pause begins before it is recorded";
      EXPECT_DOUBLE_EQ(event.at("dur").get<double>(), 40'000.0);
    }
    if (event.at("ph") == "C") {
      EXPECT_EQ(event.at("args").at("writeback"), 200);
    }
  }
  EXPECT_EQ(phases["b"], 2);
  EXPECT_EQ(phases["e"], 2) << "the written without a start is left out, the sync is closed";
  EXPECT_TRUE(unfinished);
  EXPECT_EQ(phases["M"], 2);
}

TEST(TraceJson, ABatchWhoseEndWasLostIsClosedWhenItsNumberComesAgain) {
  TraceSnapshot trace = snapshot();
  trace.events.push_back(
      event_of(TracePoint::writeback_start, 3'100'000'000, 1, {3, kind(WorkKind::kSync), 2, 8}));
  const auto json = nlohmann::json::parse(trace_json(trace), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  expect_balanced(json);
  EXPECT_NE(trace_json(trace).find("lost_end"), std::string::npos);
}

TEST(TraceJson, OfNothingIsValid) {
  const auto json = nlohmann::json::parse(trace_json({}), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_TRUE(json.at("traceEvents").empty());
  EXPECT_TRUE(read_lines(trace_lines({})).empty());
}

}  // namespace
}  // namespace tidewheel::bench
