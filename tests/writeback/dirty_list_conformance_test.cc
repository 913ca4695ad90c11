// The properties that a dirty list can keep, one scenario each, asked of every design. The table says which
// design keeps which: the wheel all of them, the classic ones not, as their originals. A design that
// unexpectedly breaks one fails here, and so does one that unexpectedly keeps it: its fault is part of what
// is compared. What every design must keep whatever its order (one place, counters, nothing lost, sync
// complete under random sequences) is in dirty_list_life_test.cc. P6 (throttling) and P11 (contexts) are the
// engine's. P4c's other half, cost independent of clean objects, holds by construction: clean objects are on
// no list.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/writeback/list_rig.h"

namespace tidewheel {
namespace {

constexpr Duration kSlotWidth = {1LL << 27};
constexpr Duration kTick = seconds(5);
constexpr Duration kExpire = seconds(30);

// Periodic work at `at`, everything written; when objects[i] was claimed, or Instant::max().
bool periodic_writes(ListRig& rig, std::size_t i, const ListRig::Decide& decide = {}) {
  const auto order = rig.work(WorkKind::kPeriodic, decide);
  return std::find(order.begin(), order.end(), &rig[i]) != order.end();
}
// Ticks until objects[i] is clean; answers when its write began, or max after `most` ticks.
Instant written_at(ListRig& rig, std::size_t i, int most = 40, const ListRig::Decide& decide = {}) {
  for (int tick = 0; tick < most; ++tick) {
    rig.pass(kTick);
    if (periodic_writes(rig, i, decide) && rig[i].state().clean()) return rig.now;
  }
  return Instant::max();
}

// P1: busy once when it expires, then written with the next tick.
bool age_survives_a_skip(ListRig& rig) {
  rig.add(60);
  const Instant dirtied = rig.now;
  rig.mark(0);
  bool skipped = false;
  for (std::size_t second = 1; second < 60; ++second) {
    rig.pass(seconds(1));
    rig.mark(second);
    if (second % 5 != 0) continue;
    const bool claimed = periodic_writes(rig, 0, [&](DirtyObject& object) {
      if (&object != &rig[0] || skipped) return WriteOutcome::kWritten;
      skipped = true;
      return WriteOutcome::kSkipped;
    });
    if (claimed && rig[0].state().clean()) return rig.now <= dirtied + kExpire + kTick * 2 + kSlotWidth;
  }
  return false;
}

// P1: the flusher is held up three times for 20 s; each delays what is due by at most that.
bool age_survives_a_slow_flusher(ListRig& rig) {
  rig.add(2);
  rig.mark(1);
  rig.pass(kTick);
  periodic_writes(rig, 0);
  rig.mark(0);
  const Instant bound = rig.now + kExpire + kTick + seconds(20) + kSlotWidth;
  for (const std::int64_t wait : {5, 20, 5, 20, 5, 20, 5, 5, 5, 5, 5, 5}) {
    rig.pass(seconds(wait));
    if (periodic_writes(rig, 0)) return rig.now <= bound;
  }
  return false;
}

// P1: dirty_expire is what it is set to.
bool expire_is_honoured(ListRig& rig) {
  rig.add(1);
  rig.expire = seconds(10);
  const Instant dirtied = rig.now;
  rig.mark(0);
  const Instant written = written_at(rig, 0);
  return written >= dirtied + rig.expire && written <= dirtied + rig.expire + kTick + kSlotWidth;
}

// P1: dirtied again early in a slow write, it is as old as that when the write ends.
bool age_counts_from_the_redirty(ListRig& rig) {
  rig.add(41);
  rig.mark(0);
  auto work = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*work, 1);
  rig.pass(seconds(1));
  rig.mark(0);
  const Instant dirtied = rig.now;
  rig.pass(seconds(14));
  for (std::size_t i = 1; i < 41; ++i) rig.mark(i);  // something younger on every list
  rig.pass(seconds(5));
  rig.end(slots[0], WriteOutcome::kWritten);
  work.reset();
  return written_at(rig, 0) <= dirtied + kExpire + kTick + kSlotWidth;
}

// P2: a skip leaves the stamp alone.
bool stamp_survives_a_skip(ListRig& rig) {
  rig.add(2);
  const Instant dirtied = rig.now;
  rig.mark(0);
  rig.mark(1);
  auto work = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*work, 2);
  rig.pass(seconds(10));
  rig.add(40);
  for (std::size_t i = 2; i < 42; ++i) rig.mark(i);  // something younger on every list
  rig.pass(seconds(1));
  for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kSkipped);
  return rig[0].dirtied_when() == dirtied && rig[1].dirtied_when() == dirtied;
}

// P4: a sync writes what was dirty when it began, although background work has detached what came later.
bool sync_writes_nothing_younger(ListRig& rig) {
  rig.add(20);
  for (std::size_t i = 0; i < 10; ++i) rig.mark(i);
  rig.pass(seconds(1));
  auto sync = rig.select(WorkKind::kSync);
  rig.pass(seconds(1));
  for (std::size_t i = 10; i < 20; ++i) rig.mark(i);
  DirtyObject* taken = nullptr;
  {
    auto background = rig.select(WorkKind::kBackground);
    if (background->claim(std::span(&taken, 1)) == 1) rig.list->unclaim(*taken, rig.now);
  }
  std::set<std::size_t> written;
  while (true) {
    auto slots = rig.begin(*sync, 8);
    if (slots.empty()) break;
    for (WriteSlot& slot : slots) {
      written.insert(rig.index_of(slot.object));
      rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
    }
  }
  return written.size() >= 9 && *written.rbegin() < 10;
}

// P4: what is in a batch, dirtied again before the sync began, is the sync's when it comes back.
bool sync_meets_what_comes_back(ListRig& rig) {
  rig.add(4);
  for (std::size_t i = 0; i < 4; ++i) rig.mark(i);
  auto background = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*background, 4);
  rig.pass(seconds(1));
  rig.mark(rig.index_of(slots[0].object));
  rig.pass(seconds(1));
  auto sync = rig.select(WorkKind::kSync);
  rig.pass(seconds(1));
  rig.end(slots[0], WriteOutcome::kWritten);
  rig.end(slots[1], WriteOutcome::kPartial);
  rig.end(slots[2], WriteOutcome::kSkipped);
  rig.mark(rig.index_of(slots[3].object));  // after the sync began
  rig.end(slots[3], WriteOutcome::kWritten);
  std::set<DirtyObject*> met;
  for (auto begun = rig.begin(*sync, 4); !begun.empty(); begun = rig.begin(*sync, 4)) {
    for (WriteSlot& slot : begun) {
      met.insert(slot.object);
      rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
    }
  }
  return met.count(slots[0].object) == 1 && met.count(slots[1].object) == 1 &&
         met.count(slots[2].object) == 1;
}

// P4: a sync of 10 looks at some 10 elements, whatever was dirtied after it began.
bool sync_costs_what_is_in_scope(ListRig& rig) {
  rig.add(5010);
  for (std::size_t i = 0; i < 10; ++i) rig.mark(i);
  rig.pass(seconds(1));
  const std::uint64_t before = rig.list->stats().elements_under_lock;
  auto sync = rig.select(WorkKind::kSync);
  std::uint64_t looked_at = rig.list->stats().elements_under_lock - before;
  rig.pass(seconds(1));
  for (std::size_t i = 10; i < 5010; ++i) rig.mark(i);
  const std::uint64_t marked = rig.list->stats().elements_under_lock;
  for (auto slots = rig.begin(*sync, 4); !slots.empty(); slots = rig.begin(*sync, 4)) {
    for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
  }
  sync.reset();
  looked_at += rig.list->stats().elements_under_lock - marked;
  return looked_at <= 10 * 4 + 32;
}

// P4: writers that dirty everything again as it is written don't keep a sync from ending.
bool sync_ends_beside_writers(ListRig& rig) {
  rig.add(50);
  for (std::size_t i = 0; i < 50; ++i) rig.mark(i);
  rig.pass(seconds(1));
  auto sync = rig.select(WorkKind::kSync);
  std::size_t writes = 0;
  while (writes < 500) {
    auto slots = rig.begin(*sync, 4);
    if (slots.empty()) break;
    for (WriteSlot& slot : slots) {
      ++writes;
      rig.pass(milliseconds(1));
      rig.mark(rig.index_of(slot.object));
      rig.end(slot, WriteOutcome::kWritten, WorkKind::kSync);
    }
  }
  return writes == 50;
}

// P5: whatever is listed, oldest() or next_retry() tells when to look.
bool what_is_dirty_arms_a_timer(ListRig& rig) {
  constexpr std::array kOutcomes = {WriteOutcome::kPartial, WriteOutcome::kSkipped, WriteOutcome::kFailed,
                                    WriteOutcome::kWritten};
  for (const WriteOutcome outcome : kOutcomes) {
    rig.add(1);
    const std::size_t i = rig.objects.size() - 1;
    rig.mark(i);
    if (rig.list->oldest() > rig[i].dirtied_when()) return false;
    {
      auto work = rig.select(WorkKind::kBackground);
      auto slots = rig.begin(*work, 8);
      rig.pass(seconds(1));
      rig.mark(i);
      for (WriteSlot& slot : slots) rig.end(slot, slot.object == &rig[i] ? outcome : WriteOutcome::kWritten);
    }
    const bool retry = rig[i].state().phase() == DirtyPhase::kRetry;
    if (retry && rig.list->next_retry() == Instant::max()) return false;
    if (!retry && rig.list->oldest() > rig[i].dirtied_when()) return false;
  }
  return true;
}

// P7: a failed object is left alone until its back-off ends, by background work too; then it is tried again.
bool failure_backs_off(ListRig& rig) {
  rig.add(1);
  rig.mark(0);
  const auto fail = [](DirtyObject&) { return WriteOutcome::kFailed; };
  rig.work(WorkKind::kBackground, fail, 1, 1);
  if (!rig.work(WorkKind::kBackground, fail, 1, 1).empty()) return false;
  rig.pass(milliseconds(1200));
  if (rig.work(WorkKind::kBackground, fail, 1, 1).size() != 1) return false;
  rig.pass(milliseconds(1200));  // the second back-off is 2 s
  if (!rig.work(WorkKind::kBackground, fail, 1, 1).empty()) return false;
  rig.pass(milliseconds(1200));
  return rig.work(WorkKind::kBackground).size() == 1;
}

// P9: periodic work takes nothing younger than its cut-off, not even what background work detached and left.
bool nothing_is_early(ListRig& rig) {
  rig.add(10);
  for (std::size_t i = 0; i < 10; ++i) rig.mark(i);
  rig.pass(seconds(1));
  DirtyObject* taken = nullptr;
  {
    auto background = rig.select(WorkKind::kBackground);
    if (background->claim(std::span(&taken, 1)) != 1) return false;
    rig.list->unclaim(*taken, rig.now);
  }
  return rig.work(WorkKind::kPeriodic).empty();
}

// P9: what is older than the cut-off by a slot is taken, exactly.
bool lateness_is_one_slot(ListRig& rig) {
  rig.add(200);
  for (std::size_t i = 0; i < 200; ++i) {
    rig.mark(i);
    rig.pass(milliseconds(10));
  }
  rig.pass(seconds(29));
  const Instant cut_off = rig.now - kExpire;
  const auto order = rig.work(WorkKind::kPeriodic);
  for (const DirtyObject* object : order) {
    if (!object->state().clean()) return false;
  }
  for (std::size_t i = 0; i < 200; ++i) {
    const bool taken = rig[i].state().clean();
    const Instant stamp = rig[i].dirtied_when();
    if (taken && stamp > cut_off) return false;
    if (!taken && stamp <= cut_off - kSlotWidth) return false;
  }
  return true;
}

// P9: the clock jumps an hour ahead: everything is due.
bool jump_ahead_expires_everything(ListRig& rig) {
  rig.add(10);
  for (std::size_t i = 0; i < 10; ++i) {
    rig.mark(i);
    rig.pass(seconds(1));
  }
  rig.pass(seconds(3600));
  return rig.work(WorkKind::kPeriodic).size() == 10;
}

// P9: the clock is set back an hour: what is dirtied then keeps its age bound, and nothing is lost.
bool jump_back_keeps_the_age_bound(ListRig& rig) {
  rig.add(2);
  rig.pass(seconds(4000));
  rig.mark(0);
  rig.work(WorkKind::kPeriodic);
  rig.pass(seconds(-3600));
  rig.mark(1);
  const Instant bound = rig.now + kExpire + kTick + kSlotWidth;
  while (rig.now < bound && !(rig[0].state().clean() && rig[1].state().clean())) {
    rig.pass(kTick);
    rig.work(WorkKind::kPeriodic);
  }
  return rig.now <= bound && rig[0].state().clean() && rig[1].state().clean();
}

// P10: filing, marking and taking out are O(1): elements per operation don't grow.
bool file_and_unfile_are_constant(ListRig& rig) {
  constexpr std::size_t kMany = 20'000;
  rig.add(kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    rig.mark(i);
    rig.pass(microseconds(100));
  }
  if (rig.list->stats().elements_under_lock > kMany) return false;
  for (std::size_t i = 0; i < kMany; ++i) rig.cancel(rig[(i * 7919) % kMany]);
  return rig.list->stats().elements_under_lock <= 2 * kMany && rig.list->stats().max_elements_per_hold <= 1;
}

// P10: giving back what was claimed is O(1) each (the quadratic switch of 2025 was a sorted insert).
bool requeue_is_constant(ListRig& rig) {
  constexpr std::size_t kMany = 2'000;
  rig.add(kMany + 40);
  for (std::size_t i = 0; i < kMany; ++i) {
    rig.mark(i);
    rig.pass(microseconds(100));
  }
  auto work = rig.select(WorkKind::kBackground);
  auto slots = rig.begin(*work, kMany);
  for (std::size_t i = kMany; i < kMany + 40; ++i) rig.mark(i);  // something younger on every list
  const std::uint64_t before = rig.list->stats().elements_under_lock;
  for (WriteSlot& slot : slots) rig.end(slot, WriteOutcome::kPartial);
  return slots.size() == kMany && rig.list->stats().elements_under_lock - before <= 4 * kMany + 40;
}

// P10: no hold grows with the number of dirty objects.
bool holds_are_bounded(ListRig& rig) {
  rig.add(20'000);
  for (std::size_t i = 0; i < 20'000; ++i) rig.mark(i);
  rig.pass(seconds(1));
  rig.work(WorkKind::kSync, {}, 1024, 4096);
  rig.pass(seconds(60));
  rig.work(WorkKind::kPeriodic, {}, 1024);
  rig.work(WorkKind::kBackground, {}, 1024);
  return rig.list->stats().max_elements_per_hold <= 32;
}

// Order: background work writes oldest first, within a slot.
bool oldest_first(ListRig& rig) {
  rig.add(40);
  for (std::size_t i = 0; i < 40; ++i) {
    rig.mark(i);
    rig.pass(milliseconds(150));
  }
  Instant youngest = Instant::min();
  for (const DirtyObject* object : rig.work(WorkKind::kBackground)) {
    if (object->dirtied_when() + kSlotWidth < youngest) return false;
    youngest = std::max(youngest, object->dirtied_when());
  }
  return rig.list->listed() == 0;
}

// P12: a large object that needs many turns doesn't keep small ones waiting.
bool large_objects_take_turns(ListRig& rig) {
  rig.add(51);
  for (std::size_t i = 0; i < 51; ++i) {
    rig.mark(i);
    rig.pass(milliseconds(300));
  }
  int large_turns = 0;
  rig.work(WorkKind::kBackground, [&](DirtyObject& object) {
    return &object == &rig[0] && ++large_turns < 100 ? WriteOutcome::kPartial : WriteOutcome::kWritten;
  }, 8, 8 * 12);
  for (std::size_t i = 1; i < 51; ++i) {
    if (!rig[i].state().clean()) return false;
  }
  return large_turns > 1;
}

struct Row {
  const char* property;
  const char* scenario;
  bool (*keeps)(ListRig& rig);
  // timer-wheel, single-list, tagged-list, syncer-slots, parallel-lists (four lists)
  std::array<bool, 5> expected;
};
constexpr bool Y = true;
constexpr bool n = false;
constexpr std::array kDesigns = {"timer-wheel", "single-list", "tagged-list", "syncer-slots",
                                 "parallel-lists"};
// docs/dirty-lists.md prints this table; IsWhatTheDocumentationPrints compares.
constexpr std::array kTable = {
    Row{"P1", "AgeSurvivesASkip", age_survives_a_skip, {Y, n, Y, Y, n}},
    Row{"P1", "AgeSurvivesASlowFlusher", age_survives_a_slow_flusher, {Y, Y, Y, n, Y}},
    Row{"P1", "ExpireIsHonoured", expire_is_honoured, {Y, Y, Y, n, Y}},
    Row{"P1", "AgeCountsFromTheRedirty", age_counts_from_the_redirty, {Y, n, Y, n, n}},
    Row{"P2", "StampSurvivesASkip", stamp_survives_a_skip, {Y, n, Y, Y, n}},
    Row{"P4", "SyncWritesNothingYounger", sync_writes_nothing_younger, {Y, n, Y, Y, n}},
    Row{"P4", "SyncMeetsWhatComesBack", sync_meets_what_comes_back, {Y, Y, Y, Y, Y}},
    Row{"P4", "SyncCostsWhatIsInScope", sync_costs_what_is_in_scope, {Y, Y, Y, Y, Y}},
    Row{"P4", "SyncEndsBesideWriters", sync_ends_beside_writers, {Y, Y, Y, Y, Y}},
    Row{"P5", "WhatIsDirtyArmsATimer", what_is_dirty_arms_a_timer, {Y, Y, Y, Y, Y}},
    Row{"P7", "FailureBacksOff", failure_backs_off, {Y, Y, Y, n, Y}},
    Row{"P9", "NothingIsEarly", nothing_is_early, {Y, n, Y, n, n}},
    Row{"P9", "LatenessIsOneSlot", lateness_is_one_slot, {Y, Y, Y, n, Y}},
    Row{"P9", "JumpAheadExpiresEverything", jump_ahead_expires_everything, {Y, Y, Y, n, Y}},
    Row{"P9", "JumpBackKeepsTheAgeBound", jump_back_keeps_the_age_bound, {Y, n, n, Y, n}},
    Row{"P10", "FileAndUnfileAreConstant", file_and_unfile_are_constant, {Y, Y, Y, Y, Y}},
    Row{"P10", "RequeueIsConstant", requeue_is_constant, {Y, Y, n, Y, Y}},
    Row{"P10", "HoldsAreBounded", holds_are_bounded, {Y, n, n, Y, n}},
    Row{"order", "OldestFirst", oldest_first, {Y, Y, Y, n, n}},
    Row{"P12", "LargeObjectsTakeTurns", large_objects_take_turns, {Y, Y, Y, Y, Y}},
};

using RowAndDesign = std::tuple<std::size_t, std::size_t>;
class DirtyListConformance : public ::testing::TestWithParam<RowAndDesign> {};

TEST_P(DirtyListConformance, KeepsOrBreaksItAsTheTableSays) {
  const auto [row, design] = GetParam();
  DirtyListOptions options;
  options.flushers = 4;  // of use to parallel-lists alone
  ListRig rig(kDesigns[design], 0, options);
  EXPECT_EQ(kTable[row].keeps(rig), kTable[row].expected[design])
      << kDesigns[design] << (kTable[row].expected[design] ? " breaks " : " unexpectedly keeps ")
      << kTable[row].property << ", " << kTable[row].scenario;
  rig.list->check_invariants();
}

INSTANTIATE_TEST_SUITE_P(Table, DirtyListConformance,
                         ::testing::Combine(::testing::Range<std::size_t>(0, kTable.size()),
                                            ::testing::Range<std::size_t>(0, kDesigns.size())),
                         [](const auto& test) {
                           return std::string(kTable[std::get<0>(test.param)].scenario) + "On" +
                                  design_test_name(kDesigns[std::get<1>(test.param)]);
                         });

TEST(ConformanceTable, IsWhatTheDocumentationPrints) {
  std::ifstream file(std::string(TW_SOURCE_DIR) + "/docs/dirty-lists.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string table = "| property | scenario |";
  for (const char* design : kDesigns) table += std::string(" ") + design + " |";
  table += "\n|---|---|---|---|---|---|---|\n";
  for (const Row& row : kTable) {
    table += std::string("| ") + row.property + " | " + row.scenario + " |";
    for (const bool keeps : row.expected) table += keeps ? " keeps |" : " **breaks** |";
    table += "\n";
  }
  EXPECT_NE(text.find(table), std::string::npos) << "docs/dirty-lists.md should contain:\n" << table;
}

TEST(ConformanceTable, CoversEveryDesign) {
  const std::set<std::string> named(kDesigns.begin(), kDesigns.end());
  for (const std::string& design : all_designs()) EXPECT_EQ(named.count(design), 1U) << design;
  for (const Row& row : kTable) {
    EXPECT_TRUE(row.expected[0]) << "the wheel keeps every property: " << row.scenario;
  }
}

}  // namespace
}  // namespace tidewheel
