// The age promise (tests/writeback/age_run.h) over a thousand million dirtying events in virtual time, a
// quarter of them each with sparse and dense dirt on a fast and a slow device. Prints the seed of each run
// and how far it is; what fails is run again alone with --seed (and a fortieth of the events).
//   age_promise [--events N] [--seed S]
// Exit: 0 the promise was kept, 1 it was not, 2 usage. tests/run --full runs it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "tests/writeback/age_run.h"

namespace tidewheel {
namespace {

struct Kind {
  std::uint64_t dirtied = 0, first_dirtied = 0, writes = 0, failed = 0, clock_steps = 0;
  Duration passed, oldest, promise;
};

// Goes on until `events` were dirtied. False: a write began too late.
bool run_one(std::uint64_t seed, std::uint64_t events, Kind& kind) {
  AgeRun run(AgeRun::setup_of(seed));
  std::uint64_t steps = 0;
  while (run.dirtied < events && run.kept()) {
    run.step();
    ++steps;
  }
  kind.dirtied += run.dirtied;
  kind.first_dirtied += run.first_dirtied;
  kind.writes += run.writes;
  kind.failed += run.failed_writes;
  kind.clock_steps += run.clock_steps;
  kind.passed += run.passed();
  kind.oldest = std::max(kind.oldest, run.oldest_write());
  kind.promise = run.promise();
  if (run.kept()) return true;
  std::printf("seed %llu: a write began %.3f s after the first dirt, %.3f s are promised, in step %llu\n",
              static_cast<unsigned long long>(seed), run.oldest_write().seconds(), run.promise().seconds(),
              static_cast<unsigned long long>(steps));
  return false;
}

int run_all(std::uint64_t events, std::uint64_t only_seed) {
  constexpr std::uint64_t kRuns = 40;
  constexpr std::array<const char*, 4> kNames{"sparse, fast device", "dense, fast device",
                                              "sparse, slow device", "dense, slow device"};
  std::array<Kind, 4> kinds;
  const Instant begun = SteadyClock::instance().now();
  std::uint64_t dirtied = 0;
  const std::uint64_t runs = only_seed != 0 ? 1 : kRuns;
  for (std::uint64_t i = 0; i < runs; ++i) {
    const std::uint64_t seed = only_seed != 0 ? only_seed : i + 1;
    Kind& kind = kinds[seed % 4];
    const std::uint64_t before = kind.dirtied;
    if (!run_one(seed, events / runs, kind)) return 1;
    dirtied += kind.dirtied - before;
    std::printf("seed %llu: %llu of %llu events, %.0f s\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(dirtied), static_cast<unsigned long long>(events),
                (SteadyClock::instance().now() - begun).seconds());
    std::fflush(stdout);
  }
  double hours = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const Kind& kind = kinds[k];
    if (kind.dirtied == 0) continue;
    hours += kind.passed.seconds() / 3600;
    std::printf("%s: %llu events (%llu began an age), %llu writes (%llu failed), %llu clock steps, %.1f h; "
                "oldest at its write %.3f s, promised %.3f\n",
                kNames[k], static_cast<unsigned long long>(kind.dirtied),
                static_cast<unsigned long long>(kind.first_dirtied),
                static_cast<unsigned long long>(kind.writes), static_cast<unsigned long long>(kind.failed),
                static_cast<unsigned long long>(kind.clock_steps), kind.passed.seconds() / 3600,
                kind.oldest.seconds(), kind.promise.seconds());
  }
  std::printf("kept: %llu dirtying events in %.0f simulated hours, %.0f s\n",
              static_cast<unsigned long long>(dirtied), hours,
              (SteadyClock::instance().now() - begun).seconds());
  return 0;
}

bool to_number(const char* text, std::uint64_t& number) {
  char* end = nullptr;
  number = std::strtoull(text, &end, 10);
  return end != text && *end == '\0' && number != 0;
}

}  // namespace
}  // namespace tidewheel

int main(int argc, char** argv) {
  std::uint64_t events = 1'000'000'000;
  std::uint64_t seed = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const bool known = std::strcmp(argv[i], "--events") == 0   ? tidewheel::to_number(argv[i + 1], events)
                       : std::strcmp(argv[i], "--seed") == 0 ? tidewheel::to_number(argv[i + 1], seed)
                                                               : false;
    if (known) continue;
    std::fprintf(stderr, "age_promise [--events N] [--seed S]\n");
    return 2;
  }
  if (argc % 2 == 0) return 2;
  return tidewheel::run_all(events, seed);
}
