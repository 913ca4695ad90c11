#include "base/trace.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/log.h"
#include "base/thread.h"

namespace tidewheel {
namespace {

class Tracing : public ::testing::Test {
 protected:
  void SetUp() override {
    clear_trace();
    set_tracing(true);
  }
  void TearDown() override {
    set_tracing(false);
    clear_trace();
  }
};

TEST_F(Tracing, RecordsNothingWhileOff) {
  set_tracing(false);
  TW_TRACE(test_event, 1, 2, 3);
  EXPECT_TRUE(read_trace().empty());
}

TEST_F(Tracing, KeepsWhatEveryThreadDidInOrderOfTime) {
  TW_TRACE(writeback_dirty_inode, 10, 4, 77);
  Thread other("other", [] { TW_TRACE(writeback_queue_io, 1, 500, 20); });
  other.join();
  TW_TRACE(balance_dirty_pages, 1, 4096, 0);
  const std::vector<TraceEvent> events = read_trace();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].point, TracePoint::writeback_dirty_inode);
  EXPECT_EQ(events[1].point, TracePoint::writeback_queue_io);
  EXPECT_EQ(events[1].arguments[2], 20U);
  EXPECT_NE(events[1].thread, events[0].thread);
  EXPECT_NE(to_string(events[1]).find("writeback_queue_io"), std::string::npos);
  EXPECT_NE(to_string(events[1]).find("dirtied_before_ns=500 objects=20"), std::string::npos);
}

TEST_F(Tracing, KeepsTheLastEventsWhenTheRingIsFull) {
  for (std::uint64_t i = 0; i < 3 * kTraceRingEvents; ++i) TW_TRACE(test_event, i, 0, 0);
  const std::vector<TraceEvent> events = read_trace();
  ASSERT_EQ(events.size(), kTraceRingEvents);
  EXPECT_EQ(events.front().arguments[0], 2 * kTraceRingEvents);
  EXPECT_EQ(events.back().arguments[0], 3 * kTraceRingEvents - 1);
  EXPECT_EQ(read_trace(5).size(), 5U);
  EXPECT_EQ(read_trace(5).back().arguments[0], 3 * kTraceRingEvents - 1);
}

TEST_F(Tracing, CountsWhatWasOverwritten) {
  Thread other("counted", [] {
    for (std::uint64_t i = 0; i < kTraceRingEvents + 41; ++i) TW_TRACE(test_event, i, 0, 0);
  });
  other.join();
  TW_TRACE(test_event, 7, 8, 9);
  TraceSnapshot snapshot = snapshot_trace();
  EXPECT_EQ(snapshot.events.size(), kTraceRingEvents + 1);
  EXPECT_EQ(snapshot.dropped, 41U);
  bool named = false;
  for (const TraceThread& one : snapshot.threads) named = named || one.name == "counted";
  EXPECT_TRUE(named);
  clear_trace();
  EXPECT_EQ(snapshot_trace().dropped, 0U);
}

TEST_F(Tracing, RingsAreAsLongAsAskedFor) {
  set_trace_ring_events(4 * kTraceRingEvents);
  Thread other("long", [] {
    for (std::uint64_t i = 0; i < 3 * kTraceRingEvents; ++i) TW_TRACE(test_event, i, 0, 0);
  });
  other.join();
  set_trace_ring_events(kTraceRingEvents);
  EXPECT_EQ(read_trace().size(), 3 * kTraceRingEvents);
  EXPECT_EQ(snapshot_trace().dropped, 0U);
}

TEST_F(Tracing, KeepsTheFourthArgumentAndLeavesOutUnusedOnes) {
  TW_TRACE(writeback_start, 3, 1, 99, 12);
  TW_TRACE(writeback_queue, 3, 1, 99);
  const std::vector<TraceEvent> events = read_trace();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].arguments[3], 12U);
  EXPECT_NE(to_string(events[0]).find("objects=99 batch=12"), std::string::npos);
  EXPECT_EQ(to_string(events[1]).find("unused"), std::string::npos);
}

// What "near nothing" rests on: a point that is off doesn't even look at its thread's ring.
TEST_F(Tracing, StoresNothingWhileOffNotEvenARing) {
  set_tracing(false);
  std::size_t threads_before = 0, threads_after = 0;
  threads_before = snapshot_trace().threads.size();
  Thread other("silent", [] {
    for (int i = 0; i < 1000; ++i) TW_TRACE(test_event, i, 0, 0);
  });
  other.join();
  const TraceSnapshot snapshot = snapshot_trace();
  threads_after = snapshot.threads.size();
  EXPECT_EQ(threads_before, threads_after);
  for (const TraceThread& one : snapshot.threads) EXPECT_NE(one.name, "silent");
  EXPECT_TRUE(snapshot.events.empty());
}

TEST_F(Tracing, NeverShowsATornEventBesideWriters) {
  Atomic<bool> stop{false};  // relaxed: only ends the loop
  std::vector<Thread> writers;
  for (std::uint64_t t = 0; t < 2; ++t) {
    writers.emplace_back("writer", [&] {
      for (std::uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        TW_TRACE(test_event, i, i + 1, i + 2);
      }
    });
  }
  std::size_t seen = 0;
  for (int round = 0; round < 50 || seen == 0; ++round) {
    for (const TraceEvent& event : read_trace()) {
      ++seen;
      ASSERT_EQ(event.arguments[1], event.arguments[0] + 1);
      ASSERT_EQ(event.arguments[2], event.arguments[0] + 2);
    }
  }
  stop.store(true, std::memory_order_relaxed);
  for (Thread& writer : writers) writer.join();
}

using TracingDeathTest = Tracing;

TEST_F(TracingDeathTest, AFailedAssertionPrintsTheLastEvents) {
  TW_TRACE(writeback_start, 3, 1, 99);
  EXPECT_DEATH(TW_ASSERT(1 + 1 == 3, "planted"), "planted: 1 \\+ 1 == 3(.|\n)*writeback_start");
}

class LogFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tidewheel-log-XXXXXX";
    const int fd = ::mkstemp(name);
    ASSERT_GE(fd, 0);
    ::close(fd);
    path_ = name;
  }
  void TearDown() override {
    ASSERT_TRUE(set_up_log({}));
    std::remove(path_.c_str());
  }
  std::string text() const {
    std::ifstream in(path_);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  std::string path_;
};

TEST_F(LogFile, HasSeverityWhoTextAndReason) {
  ASSERT_TRUE(set_up_log({.level = LogLevel::kWarning, .file = path_}));
  log_info("engine", "not this");
  log_warning("vda", "slow");
  log_error("flat:image", "writeback failed", Error{Reason::kIo, 81, 5});
  EXPECT_EQ(text().find("not this"), std::string::npos);
  EXPECT_NE(text().find("[warning] vda: slow"), std::string::npos) << text();
  EXPECT_NE(
      text().find(
          "[error] flat:image: writeback failed: the device reported an error (kIo, line 81, detail 5)"),
      std::string::npos)
      << text();
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
}

TEST_F(LogFile, SaysWhyItCannotBeOpened) {
  EXPECT_FALSE(set_up_log({.file = path_ + "/not-a-directory/log"}));
  log_error("still", "works");
}

}  // namespace
}  // namespace tidewheel
