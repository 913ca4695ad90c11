// base/sim.h: running a test body under many thread schedules, each decided by a seed, in virtual time.
//
//   SIM_TEST(Queue, HandsOverEverything) {        // a GoogleTest test; the body is fiber 0 of each run
//     Queue queue;
//     Thread writer("writer", [&] { queue.push(1); });
//     EXPECT_EQ(queue.pop(), 1);
//     writer.join();
//   }
//
// Inside a body base/'s locks, conditions, atomics, threads, sleeps and clocks are the simulator's. A run
// that fails prints one line with which it can be repeated: TIDEWHEEL_REPLAY=... . docs/simulator.md says
// what it finds and what it cannot find.
// Threads:   explore() runs everything on the calling thread; not from inside a simulation.
// Units:     virtual nanoseconds.
// Errors:    a failed run is an Outcome, and a failure of the GoogleTest test in a SIM_TEST.
// Environment: TIDEWHEEL_SEEDS=n        schedules per test instead of each test's own number
//              TIDEWHEEL_SEED_FACTOR=n  multiplies each test's own number
//              TIDEWHEEL_QUICK, TIDEWHEEL_FULL  a quarter of it; 50 times it
//              TIDEWHEEL_FIRST_SEED=n   other seeds than the usual ones
//              TIDEWHEEL_REPLAY=...     one schedule, as a failure printed it
//              TIDEWHEEL_SIM_LOG=1      with a replay: prints every scheduling point
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/sim_hooks.h"
#include "base/time.h"

namespace tidewheel::sim {

enum class Failure : std::uint8_t {
  kNone,
  kCheck,       // sim::fail() or SIM_CHECK in the body, or a GoogleTest expectation in a SIM_TEST
  kAssertion,   // a TW_ASSERT
  kException,   // an exception left a thread's body
  kDeadlock,    // threads wait, nothing can run and no timer is set
  kLockCycle,   // threads wait for each other's locks
  kNoProgress,  // one waited longer than Options::no_progress
  kLostWakeup,  // a timed wait ended by its deadline and found its condition true, and no notification came
  kLeak,        // the body ended before its threads, or a thread ended with a lock held
  kEndless,     // more than Options::max_steps scheduling points
  kNotRepeatable,  // the same seed decided differently: something outside the simulator steers the run
};
const char* name_of(Failure kind);

enum class Strategy : std::uint8_t {
  kRandom,  // after each operation, with a chance that differs by seed, any thread that can run
  kPct,     // priorities that change at a few random points (probabilistic concurrency testing)
};
enum class Memory : std::uint8_t {
  kStrong,  // every load returns the newest value
  kWeak,    // a load may return an older value where the C++ memory model allows it
};

// Everything that decides one run, apart from its body.
struct Schedule {
  std::uint64_t seed = 1;
  Strategy strategy = Strategy::kRandom;
  Memory memory = Memory::kStrong;
  std::uint64_t length = 0;  // kPct: the points among which priorities change
};
std::string to_string(const Schedule& schedule);
bool parse_schedule(std::string_view text, Schedule& schedule);

struct Options {
  std::uint32_t schedules = 200;  // how many runs; seeds are first_seed, first_seed + 1, ...
  std::uint64_t first_seed = 1;
  std::uint32_t cpus = 4;         // what cpu_count() and current_cpu() answer with
  std::uint64_t max_steps = 5'000'000;
  Duration no_progress = {120'000'000'000};
  std::uint32_t pct_depth = 3;    // priority changes per run + 1
  // Strategies and memory models take turns from seed to seed; these leave some out.
  bool random = true;
  bool pct = true;
  bool strong_memory = true;
  bool weak_memory = true;
  bool spurious_wakeups = true;   // in a quarter of the runs
};

struct Outcome {
  bool failed = false;
  Failure kind = Failure::kNone;
  std::string message;
  Schedule schedule;              // the run that failed
  std::uint32_t runs = 0;
  std::uint64_t distinct = 0;     // different sequences of decisions among them
  std::uint64_t steps = 0;        // scheduling points of all runs
};

#if TW_SIM

// Runs body under options.schedules schedules, or until one fails.
Outcome explore(const Options& options, const std::function<void()>& body);
// Runs body under this one.
Outcome replay(const Options& options, const Schedule& schedule, const std::function<void()>& body);

// Ends the run as failed; on a real thread (no simulation) it aborts.
[[noreturn]] void fail(const char* message);

// ---- behind SIM_TEST ----
// has_failed: whether GoogleTest has seen a failed expectation. Returns what to report; empty: nothing.
std::string run_sim_test(const char* name, const Options& options, void (*body)(), bool (*has_failed)());

#endif

}  // namespace tidewheel::sim

#define SIM_CHECK(expr)                                                         \
  do {                                                                          \
    if (!(expr)) ::tidewheel::sim::fail("SIM_CHECK failed: " #expr);            \
  } while (0)

// The body must not use state outside itself that changes from run to run. The suite's name contains Sim:
// tests/run --sim looks for it.
#define SIM_TEST(suite, name) SIM_TEST_WITH(suite, name, (::tidewheel::sim::Options{}))
// SIM_TEST_WITH(Suite, Name, (sim::Options{.schedules = 50, .cpus = 2})) { ... }
#define SIM_TEST_WITH(suite, name, options)                                                   \
  static void sim_body_##suite##_##name();                                                    \
  static_assert(::std::string_view(#suite).find("Sim") != ::std::string_view::npos,           \
                "the suite of a SIM_TEST has Sim in its name");                               \
  TEST(suite, name) {                                                                         \
    const std::string failure =                                                               \
        ::tidewheel::sim::run_sim_test(#suite "." #name, options, &sim_body_##suite##_##name, \
                                       [] { return ::testing::Test::HasFailure(); });         \
    if (!failure.empty()) ADD_FAILURE() << failure;                                           \
  }                                                                                           \
  static void sim_body_##suite##_##name()
