// bench/micro/dirty_lists.cc: what a dirty list costs its writers, by design.
// Question:  first dirty + clean, and re-dirty, through DirtyList; and how long the longest hold gets as the
//            number of dirty objects grows.
// Expected:  re-dirty of something listed under 2 ns on every design (one load), and through the engine;
//            first dirty + clean tens of ns, growing with cache misses only; max_per_hold 32 for the wheel
//            and 1 for syncer-slots at any number, and the number itself for the lists.
// Baseline:  a bare intrusive FIFO with no lock and no state, and the same under one Mutex.
// `now` is handed in: no clock is read in the timed region.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "writeback/context.h"
#include "writeback/dirty_list.h"
#include "writeback/driver_virtual.h"
#include "writeback/engine.h"
#include "writeback/node_list.h"

namespace tidewheel {
namespace {

LockClass fifo_lock_class{"micro_fifo", LockRank::kListShard};

// One block of objects, visited in a scattered order: neighbours in time are not neighbours in memory.
struct Objects {
  explicit Objects(std::size_t n) : all(std::make_unique<DirtyObject[]>(n)), count(n) {
    for (std::size_t i = 0; i < n; ++i) all[i].set_hash(static_cast<std::uint8_t>(1 + i % 255));
  }
  DirtyObject& scattered(std::size_t i) const { return all[(i * 7919) % count]; }
  std::unique_ptr<DirtyObject[]> all;
  std::size_t count;
};

void take_out_all(DirtyList& list, Objects& objects) {
  for (std::size_t i = 0; i < objects.count; ++i) list.cancel(objects.all[i]);
  TW_ASSERT(list.listed() == 0, "the benchmark lost objects");
}

// n objects stay dirty; the oldest is taken out and dirtied anew, in turn.
void first_dirty_and_clean(benchmark::State& state, const std::string& design) {
  Objects objects(static_cast<std::size_t>(state.range(0)));
  auto list = find_dirty_list_design(design)->make({});
  Instant now{1'000'000'000'000};
  const Duration step{30'000'000'000 / static_cast<std::int64_t>(objects.count)};  // a full list spans 30 s
  for (std::size_t i = 0; i < objects.count; ++i) {
    list->mark_dirty(objects.scattered(i), kDirtyData, now);
    now = now + step;
  }
  std::size_t next = 0;
  for (auto _ : state) {
    DirtyObject& object = objects.scattered(next);
    next = next + 1 == objects.count ? 0 : next + 1;
    list->cancel(object);
    list->mark_dirty(object, kDirtyData, now);
    now = now + step;
  }
  TW_ASSERT(list->listed() == objects.count, "the benchmark lost objects");
  const DirtyListStats stats = list->stats();
  state.counters["elements_per_op"] = static_cast<double>(stats.elements_under_lock) /
                                      static_cast<double>(stats.inserts + stats.removals);
  take_out_all(*list, objects);
}

template <bool kLocked>
void bare_fifo(benchmark::State& state) {
  Objects objects(static_cast<std::size_t>(state.range(0)));
  Mutex lock(fifo_lock_class);
  NodeList list;
  for (std::size_t i = 0; i < objects.count; ++i) list.push_back(objects.scattered(i).node);
  Instant now{1'000'000'000'000};
  std::size_t next = 0;
  for (auto _ : state) {
    WheelNode& node = objects.scattered(next).node;
    next = next + 1 == objects.count ? 0 : next + 1;
    now = now + Duration{1000};
    if constexpr (kLocked) {
      {
        MutexLock hold(lock);
        unlink_node(node);
      }
      MutexLock hold(lock);
      node.stamp = now;
      list.push_back(node);
    } else {
      unlink_node(node);
      node.stamp = now;
      list.push_back(node);
    }
  }
  list.clear();
}

void redirty(benchmark::State& state, const std::string& design) {
  DirtyObject object;
  auto list = find_dirty_list_design(design)->make({});
  const Instant now{1'000'000'000'000};
  list->mark_dirty(object, kDirtyData, now);
  for (auto _ : state) {
    DirtyObject* each = &object;
    benchmark::DoNotOptimize(each);
    benchmark::DoNotOptimize(list->mark_dirty(*each, kDirtyData, now));
  }
  list->cancel(object);
}

// The same through the engine, which times one call in 64. `now` moves on by an odd number of nanoseconds, so
// that the one in 64 is met as with a real clock.
class IdleTarget final : public WritebackTarget {
 public:
  WriteEstimate estimate(const DirtyObject&) const override { return {}; }
  void write_batch(Batch& batch) override {
    for (WriteSlot& slot : batch.slots()) slot.outcome = WriteOutcome::kWritten;
    batch.complete();
  }
  void end_batch(Batch&) override {}
  Result<void> flush() override { return {}; }
};

void redirty_through_the_engine(benchmark::State& state) {
  VirtualClock clock(Instant{1'000'000'000'001});
  EngineOptions options;
  options.clock = &clock;
  auto engine = WritebackEngine::make(options, std::make_unique<VirtualDriver>(clock));
  TW_ASSERT(engine.has_value(), "the engine's options");
  IdleTarget target;
  WritebackContext* context = (*engine)->add_context(target);
  DirtyObject object;
  object.set_context(context->id());
  Instant now = clock.now();
  (*engine)->mark_dirty(object, kDirtyData, now);
  for (auto _ : state) {
    DirtyObject* each = &object;
    benchmark::DoNotOptimize(each);
    now = now + Duration{37};
    benchmark::DoNotOptimize((*engine)->mark_dirty(*each, kDirtyData, now));
  }
  state.counters["timed"] = static_cast<double>((*engine)->mark_dirty_times().count);
  (*engine)->cancel(object);
}

// n objects expire together and are claimed 1,024 at a time, written and cleaned.
void expire_all(benchmark::State& state, const std::string& design) {
  Objects objects(static_cast<std::size_t>(state.range(0)));
  std::uint64_t longest = 0;
  std::vector<DirtyObject*> claimed(1024);
  for (auto _ : state) {
    state.PauseTiming();
    auto list = find_dirty_list_design(design)->make({});
    Instant now{1'000'000'000'000};
    for (std::size_t i = 0; i < objects.count; ++i) {
      list->mark_dirty(objects.scattered(i), kDirtyData, now);
      now = now + Duration{1000};
    }
    state.ResumeTiming();
    std::size_t written = 0;
    for (int turn = 0; turn < 20 && written < objects.count; ++turn) {
      now = now + seconds(turn == 0 ? 40 : 5);  // syncer-slots needs several turns
      SelectionRequest request;
      request.kind = WorkKind::kPeriodic;
      request.now = now;
      request.dirtied_before = now - seconds(30);
      auto selection = list->select(request);
      while (const std::size_t n = selection->claim(claimed)) {
        for (std::size_t i = 0; i < n; ++i) {
          WriteSlot slot;
          slot.object = claimed[i];
          TW_ASSERT(list->begin_write(slot), "nobody cancels here");
          slot.outcome = WriteOutcome::kWritten;
          list->end_write(slot, request.kind, now);
        }
        written += n;
      }
    }
    state.PauseTiming();
    TW_ASSERT(written == objects.count && list->listed() == 0, "the benchmark lost objects");
    longest = std::max(longest, list->stats().max_elements_per_hold);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["max_per_hold"] = static_cast<double>(longest);
}

int register_all() {
  for (const std::int64_t n : {10'000, 1'000'000}) {
    benchmark::RegisterBenchmark("first_dirty+clean/bare-fifo", bare_fifo<false>)->Arg(n);
    benchmark::RegisterBenchmark("first_dirty+clean/mutex-fifo", bare_fifo<true>)->Arg(n);
    for (const DirtyListDesign& design : dirty_list_designs()) {
      benchmark::RegisterBenchmark(("first_dirty+clean/" + design.name).c_str(), first_dirty_and_clean,
                                   design.name)
          ->Arg(n);
    }
  }
  for (const DirtyListDesign& design : dirty_list_designs()) {
    benchmark::RegisterBenchmark(("redirty/" + design.name).c_str(), redirty, design.name);
  }
  benchmark::RegisterBenchmark("redirty/engine", redirty_through_the_engine);
  for (const DirtyListDesign& design : dirty_list_designs()) {
    benchmark::RegisterBenchmark(("expire_all/" + design.name).c_str(), expire_all, design.name)
        ->Arg(10'000)
        ->Arg(100'000)
        ->Arg(1'000'000)
        ->Iterations(2)
        ->Unit(benchmark::kMillisecond);
  }
  return 0;
}
[[maybe_unused]] const int registered = register_all();

}  // namespace
}  // namespace tidewheel
