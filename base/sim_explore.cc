// Choosing schedules, counting them, and saying how to repeat one that failed.
#include "base/sim.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unistd.h>
#include <unordered_set>
#include <vector>

#include "base/assert.h"
#include "base/sim_scheduler.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace tidewheel::sim {

const char* name_of(Failure kind) {
  switch (kind) {
    case Failure::kNone: return "no failure";
    case Failure::kCheck: return "failed check";
    case Failure::kAssertion: return "failed assertion";
    case Failure::kException: return "exception";
    case Failure::kDeadlock: return "deadlock";
    case Failure::kLockCycle: return "lock cycle";
    case Failure::kNoProgress: return "no progress";
    case Failure::kLostWakeup: return "lost wake-up";
    case Failure::kLeak: return "leak";
    case Failure::kEndless: return "no end";
    case Failure::kNotRepeatable: return "not repeatable";
  }
  return "?";
}

// random:17:strong, pct:17:weak:1200
std::string to_string(const Schedule& schedule) {
  const bool pct = schedule.strategy == Strategy::kPct;
  std::string text = pct ? "pct:" : "random:";
  text += std::to_string(schedule.seed);
  text += schedule.memory == Memory::kWeak ? ":weak" : ":strong";
  if (pct) text += ":" + std::to_string(schedule.length);
  return text;
}

bool parse_schedule(std::string_view text, Schedule& schedule) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  const auto number = [](std::string_view digits, std::uint64_t& into) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  Schedule parsed;
  if (parts.size() < 3) return false;
  if (parts[0] == "pct") {
    parsed.strategy = Strategy::kPct;
  } else if (parts[0] != "random") {
    return false;
  }
  if (!number(parts[1], parsed.seed)) return false;
  if (parts[2] == "weak") {
    parsed.memory = Memory::kWeak;
  } else if (parts[2] != "strong") {
    return false;
  }
  if (parsed.strategy == Strategy::kPct) {
    if (parts.size() != 4 || !number(parts[3], parsed.length)) return false;
  } else if (parts.size() != 3) {
    return false;
  }
  schedule = parsed;
  return true;
}

#if TW_SIM

namespace {

// ---- totals of the process, printed at its end for tests/run to add up ----

struct Totals {
  std::mutex mutex;
  std::uint64_t distinct = 0;
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  ~Totals() {
    if (runs == 0) return;
    std::printf("schedules: %llu distinct of %llu run, %llu scheduling points\n",
                static_cast<unsigned long long>(distinct), static_cast<unsigned long long>(runs),
                static_cast<unsigned long long>(steps));
  }
};
Totals totals;

// ---- a crash inside a run still says how to repeat it ----

char replay_line[512];  // empty outside a run

void print_replay_line() {
  if (replay_line[0] == '\0') return;
  const ssize_t written = ::write(STDERR_FILENO, replay_line, std::strlen(replay_line));
  static_cast<void>(written);
  replay_line[0] = '\0';
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void on_crash(int signal_number) {
  print_replay_line();
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}
#endif

void print_replay_line_on_crash() {
  static const bool done = [] {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    __sanitizer_set_death_callback(&print_replay_line);
#else
    static char signal_stack[64U << 10];  // a fiber that ran over its guard page has no stack left
    const stack_t stack{.ss_sp = signal_stack, .ss_flags = 0, .ss_size = sizeof signal_stack};
    ::sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = &on_crash;
    action.sa_flags = SA_ONSTACK;
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) ::sigaction(number, &action, nullptr);
#endif
    return true;
  }();
  static_cast<void>(done);
}

std::string repeat_with(const char* name, const Schedule& schedule) {
  std::string line = "TIDEWHEEL_REPLAY=" + to_string(schedule);
  if (name != nullptr) line += std::string(" ") + program_invocation_name + " --gtest_filter=" + name;
  return line;
}

// ---- one run ----

struct RunResult {
  Failure kind = Failure::kNone;
  std::string message;
  std::uint64_t steps = 0;
  std::uint64_t decisions = 0;
};

RunResult run_once(const char* name, const Options& options, const Schedule& schedule,
                   const std::function<void()>& body) {
  print_replay_line_on_crash();
  const std::string line = "simulator: the run crashed; repeat: " + repeat_with(name, schedule) + "\n";
  std::snprintf(replay_line, sizeof replay_line, "%s", line.c_str());
  Scheduler scheduler(options, schedule);
  scheduler.run(body);
  replay_line[0] = '\0';
  return RunResult{scheduler.kind(), scheduler.message(), scheduler.steps(), scheduler.decisions()};
}

Schedule schedule_of(const Options& options, std::uint64_t seed, std::uint64_t length) {
  std::vector<Schedule> kinds;
  for (const Memory memory : {Memory::kStrong, Memory::kWeak}) {
    if (memory == Memory::kStrong ? !options.strong_memory : !options.weak_memory) continue;
    if (options.random) kinds.push_back({seed, Strategy::kRandom, memory, 0});
    if (options.pct) kinds.push_back({seed, Strategy::kPct, memory, length});
  }
  TW_ASSERT(!kinds.empty(), "the options leave no strategy or no memory model");
  return kinds[seed % kinds.size()];
}

// after_run: looks at what the body has left; a kind other than kNone ends the exploration.
Outcome explore_named(const char* name, const Options& options, const std::function<void()>& body,
                      const std::function<Failure(const RunResult&)>& after_run) {
  Outcome outcome;
  std::unordered_set<std::uint64_t> seen;
  std::uint64_t length = 500;  // a guess, until the first run has told
  RunResult last;
  for (std::uint32_t i = 0; i < options.schedules && !outcome.failed; ++i) {
    const Schedule schedule = schedule_of(options, options.first_seed + i, length);
    last = run_once(name, options, schedule, body);
    ++outcome.runs;
    outcome.steps += last.steps;
    seen.insert(last.decisions);
    length = last.steps;
    outcome.schedule = schedule;
    outcome.kind = last.kind != Failure::kNone ? last.kind : after_run(last);
    outcome.message = std::move(last.message);
    outcome.failed = outcome.kind != Failure::kNone;
  }
  outcome.distinct = seen.size();
  const std::lock_guard guard(totals.mutex);
  totals.distinct += outcome.distinct;
  totals.runs += outcome.runs;
  totals.steps += outcome.steps;
  return outcome;
}

// A seed that decides differently the second time can't be replayed.
std::string check_repeatable(const char* name, const Options& options, const Schedule& schedule,
                             const std::function<void()>& body) {
  const RunResult first = run_once(name, options, schedule, body);
  const RunResult second = run_once(name, options, schedule, body);
  if (first.decisions == second.decisions && first.steps == second.steps) return {};
  return "one seed ran in two ways (" + std::to_string(first.steps) + " and " + std::to_string(second.steps) +
         " scheduling points): something outside the simulator steers the run, such as an address, a real "
         "clock, or state that is kept from run to run";
}

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value == 0) {
    std::fprintf(stderr, "simulator: %s=%s is not a number above 0; ignored\n", name, text);
    return otherwise;
  }
  return value;
}

}  // namespace

Outcome explore(const Options& options, const std::function<void()>& body) {
  return explore_named(nullptr, options, body, [](const RunResult&) { return Failure::kNone; });
}

Outcome replay(const Options& options, const Schedule& schedule, const std::function<void()>& body) {
  const RunResult result = run_once(nullptr, options, schedule, body);
  return Outcome{.failed = result.kind != Failure::kNone,
                 .kind = result.kind,
                 .message = result.message,
                 .schedule = schedule,
                 .runs = 1,
                 .distinct = 1,
                 .steps = result.steps};
}

void fail(const char* message) {
  if (running == nullptr) {
    std::fprintf(stderr, "%s\n", message);
    std::abort();
  }
  running->fail(Failure::kCheck, message);
}

void assertion_failed(const char* expression, const char* file, int line, const char* message) {
  running->fail(Failure::kAssertion, std::string("assertion failed: ") + message + ": " + expression + " (" +
                                         file + ":" + std::to_string(line) + ")");
}

std::string run_sim_test(const char* name, const Options& test_options, void (*body)(),
                         bool (*has_failed)()) {
  Options options = test_options;
  std::uint64_t schedules = options.schedules * environment_number("TIDEWHEEL_SEED_FACTOR", 1);
  if (std::getenv("TIDEWHEEL_QUICK") != nullptr) schedules = std::max<std::uint64_t>(schedules / 4, 1);
  if (std::getenv("TIDEWHEEL_FULL") != nullptr) schedules *= 50;
  options.schedules = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(environment_number("TIDEWHEEL_SEEDS", schedules), UINT32_MAX));
  options.first_seed = environment_number("TIDEWHEEL_FIRST_SEED", options.first_seed);
  const auto after_run = [has_failed](const RunResult&) {
    return has_failed() ? Failure::kCheck : Failure::kNone;
  };

  Outcome outcome;
  if (const char* const wanted = std::getenv("TIDEWHEEL_REPLAY"); wanted != nullptr) {
    Schedule schedule;
    if (!parse_schedule(wanted, schedule)) {
      return std::string("TIDEWHEEL_REPLAY=") + wanted + " is no schedule, such as pct:17:weak:1200";
    }
    RunResult result = run_once(name, options, schedule, body);
    outcome.kind = result.kind != Failure::kNone ? result.kind : after_run(result);
    outcome.failed = outcome.kind != Failure::kNone;
    outcome.message = std::move(result.message);
    outcome.schedule = schedule;
  } else {
    outcome = explore_named(name, options, body, after_run);
    if (!outcome.failed) {
      outcome.message = check_repeatable(name, options, outcome.schedule, body);
      outcome.failed = !outcome.message.empty();
      outcome.kind = outcome.failed ? Failure::kNotRepeatable : Failure::kNone;
    }
  }
  if (!outcome.failed) return {};
  return std::string(name_of(outcome.kind)) + " in run " + std::to_string(outcome.runs) + ": " +
         outcome.message + "\nrepeat: " + repeat_with(name, outcome.schedule) + "\n";
}

#endif

}  // namespace tidewheel::sim
