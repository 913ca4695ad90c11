// What do a lock's figures cost? base/'s Mutex counts every acquisition and samples holds 1 in 64, in
// release builds too. Expected: uncontended within 1 to 2 ns of std::mutex per lock and unlock; with two
// threads on one lock the same order of time per operation.
// Naive variants beside it: std::mutex bare; std::mutex with every hold timed by the steady clock.
// Run: build/release/bin/micro_locks --benchmark_enable_random_interleaving=true
//      --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>

#include "base/counter.h"
#include "base/histogram.h"
#include "base/pattern.h"
#include "base/sync.h"
#include "base/trace.h"

namespace {

using namespace tidewheel;

LockClass bench_locks{"bench", LockRank::kNone};
LockClass bench_many{"bench-many", LockRank::kNone, LockCounting::kClassOnly};

struct TimedMutex {
  std::mutex mutex;
  std::chrono::steady_clock::time_point since;
  std::int64_t held_ns = 0;
  void lock() {
    mutex.lock();
    since = std::chrono::steady_clock::now();
  }
  void unlock() {
    held_ns += (std::chrono::steady_clock::now() - since).count();
    mutex.unlock();
  }
};

template <class Lock>
void lock_and_unlock(benchmark::State& state, Lock& mutex) {
  std::uint64_t guarded = 0;
  for (auto _ : state) {
    mutex.lock();
    benchmark::DoNotOptimize(++guarded);
    mutex.unlock();
  }
}

void uncontended_std_mutex(benchmark::State& state) {
  std::mutex mutex;
  lock_and_unlock(state, mutex);
}
void uncontended_mutex(benchmark::State& state) {
  Mutex mutex{bench_locks};
  lock_and_unlock(state, mutex);
}
void uncontended_mutex_class_only(benchmark::State& state) {
  Mutex mutex{bench_many};
  lock_and_unlock(state, mutex);
}
void uncontended_std_mutex_every_hold_timed(benchmark::State& state) {
  TimedMutex mutex;
  lock_and_unlock(state, mutex);
}
void uncontended_std_shared_mutex_read(benchmark::State& state) {
  std::shared_mutex mutex;
  for (auto _ : state) {
    mutex.lock_shared();
    mutex.unlock_shared();
  }
}
void uncontended_shared_mutex_read(benchmark::State& state) {
  SharedMutex mutex{bench_locks};
  for (auto _ : state) {
    mutex.lock_shared();
    mutex.unlock_shared();
  }
}

std::mutex contended_std;
Mutex contended_own{bench_locks};
void contended_std_mutex(benchmark::State& state) { lock_and_unlock(state, contended_std); }
void contended_mutex(benchmark::State& state) { lock_and_unlock(state, contended_own); }

void sharded_counter_add(benchmark::State& state) {
  static ShardedCounter counter;
  for (auto _ : state) counter.add(1);
}
void histogram_record(benchmark::State& state) {
  LatencyHistogram histogram;
  std::uint64_t ns = 12'345;
  for (auto _ : state) {
    histogram.record(ns);
    ns = ns * 6364136223846793005ULL % 1'000'003;
  }
  benchmark::DoNotOptimize(histogram.max_ns());
}
void trace_point_off(benchmark::State& state) {
  for (auto _ : state) TW_TRACE(test_event, 1, 2, 3);
}
void trace_point_on(benchmark::State& state) {
  set_tracing(true);
  for (auto _ : state) TW_TRACE(test_event, 1, 2, 3);
  set_tracing(false);
}
void thread_and_cpu_number(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(thread_number() + current_cpu());
}
void pattern_fill_4k(benchmark::State& state) {
  alignas(64) static std::byte page[4096];
  Pattern pattern{.seed = 1, .file = 0};
  for (auto _ : state) {
    ++pattern.file;
    pattern.fill(0, page);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 4096);
}
void pattern_verify_4k(benchmark::State& state) {
  alignas(64) static std::byte page[4096];
  const Pattern pattern{.seed = 1, .file = 9};
  pattern.fill(0, page);
  for (auto _ : state) {
    if (pattern.first_difference(0, page)) state.SkipWithError("the pattern differs from itself");
  }
  state.SetBytesProcessed(state.iterations() * 4096);
}

BENCHMARK(uncontended_std_mutex);
BENCHMARK(uncontended_mutex);
BENCHMARK(uncontended_mutex_class_only);
BENCHMARK(uncontended_std_mutex_every_hold_timed);
BENCHMARK(uncontended_std_shared_mutex_read);
BENCHMARK(uncontended_shared_mutex_read);
BENCHMARK(contended_std_mutex)->Threads(2);
BENCHMARK(contended_mutex)->Threads(2);
BENCHMARK(sharded_counter_add);
BENCHMARK(histogram_record);
BENCHMARK(trace_point_off);
BENCHMARK(trace_point_on);
BENCHMARK(thread_and_cpu_number);
BENCHMARK(pattern_fill_4k);
BENCHMARK(pattern_verify_4k);

}  // namespace
