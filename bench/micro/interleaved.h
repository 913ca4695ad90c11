// bench/micro/interleaved.h: two or more ways of doing one thing, measured in alternating rounds of one
// program, so that what else the machine does falls on all of them.
// Units: each way answers nanoseconds per operation (or as its benchmark says) for one round.
#pragma once
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tidewheel::bench {

class Stopwatch {
 public:
  Stopwatch() : start_(SteadyClock::instance().now()) {}
  double ns() const { return static_cast<double>((SteadyClock::instance().now() - start_).ns); }

 private:
  Instant start_;
};

inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Way {
  std::string name;
  std::function<double()> round;
};

// Runs the rounds and reports, per way, the median, and for each way but the first the median over rounds of
// (first / this): "wheel/fifo". lowest_* is the least of each, where disturbance is least.
inline void interleave(benchmark::State& state, int rounds, const std::vector<Way>& ways) {
  std::vector<std::vector<double>> figures(ways.size());
  for (auto _ : state) {
    const Stopwatch whole;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const std::size_t way =
            (i + static_cast<std::size_t>(round)) % ways.size();  // each goes first in turn
        figures[way].push_back(ways[way].round());
      }
    }
    state.SetIterationTime(whole.ns() * 1e-9);
  }
  for (std::size_t way = 0; way < ways.size(); ++way) {
    state.counters[ways[way].name] = quantile(figures[way], 0.5);
    state.counters["lowest_" + ways[way].name] = quantile(figures[way], 0);
    if (way == 0) continue;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < figures[0].size(); ++i) ratios.push_back(figures[0][i] / figures[way][i]);
    state.counters[ways[0].name + "/" + ways[way].name] = quantile(ratios, 0.5);
  }
}

}  // namespace tidewheel::bench
