// tests/fs/crash_rig.h: what the tests of every crash workload ask of it.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "fs/crash/explorer.h"
#include "tests/length.h"

namespace tidewheel::crash_rig {

// As many runs as `states` take. states_of_run 0: the explorer's own.
template <class Workload>
ExploreOptions options_of(const std::string& name, std::uint64_t seed, std::uint64_t states,
                          std::uint64_t states_of_run = 0) {
  ExploreOptions options;
  options.workload = name;
  options.make = [](std::uint64_t run_seed) { return std::make_unique<Workload>(run_seed); };
  options.seed = seed;
  options.runs = 0;
  if (states_of_run != 0) options.states_of_run = states_of_run;
  options.states = states;
  options.max_failures = 3;
  return options;
}

// All of it, with no state lost.
inline Exploration expect_survives(const ExploreOptions& options) {
  Exploration found = explore(options);
  EXPECT_EQ(found.broken, "");
  EXPECT_GE(found.states, options.states);
  for (const CrashFailure& failure : found.failures) {
    ADD_FAILURE() << failure.oracle << ": " << failure.detail << "\n"
                  << failure.state << "\n"
                  << failure.replay;
  }
  std::printf("%llu states (%llu nested) of %llu runs, %.0f/s\n", (unsigned long long)found.states,
              (unsigned long long)found.nested, (unsigned long long)found.runs, found.states_per_s());
  return found;
}

// The same with crashes of recoveries among them, and recoveries after those.
inline void expect_survives_nested(const ExploreOptions& options) {
  const Exploration found = expect_survives(options);
  EXPECT_GT(found.nested, options.states / 10);
  EXPECT_GT(found.second_recoveries, options.states / 20);
}

// The check can fail: most images are broken as a crash leaves them.
inline void expect_broken_without_recovery(ExploreOptions options) {
  options.recover = false;
  options.max_failures = 1000;
  const Exploration found = explore(options);
  EXPECT_EQ(found.broken, "");
  EXPECT_GT(found.failures.size(), found.states / 2);
}

}  // namespace tidewheel::crash_rig
