#include "bench/scaling_model.h"

#include <gtest/gtest.h>

namespace tidewheel::bench {
namespace {

RunFigures run_of(const char* design, std::uint32_t threads, double hold_ns, std::uint32_t shards) {
  RunFigures run;
  run.design = design;
  run.threads = threads;
  run.files = 1000;
  run.cpu_us_per_file = 5;
  run.list_acquisitions = 2000;
  run.list_hold_ns_mean = hold_ns;
  run.elements_under_lock = 4000;
  run.max_elements_per_hold = 32;
  run.list_shards = shards;
  return run;
}

ScalingModel only_model(const std::vector<RunFigures>& runs, bool shards_given = false,
                        bool flushers_given = false) {
  const auto models = scaling_models(runs, {runs.front().design}, shards_given, flushers_given);
  EXPECT_EQ(models.size(), 1U);
  return models.empty() ? ScalingModel{} : models.front();
}

TEST(ScalingModel, IsMadeOfTheRunsWithTheFewestThreads) {
  const std::vector<RunFigures> runs = {run_of("single-list", 16, 9000, 1), run_of("single-list", 1, 40, 1),
                                        run_of("single-list", 1, 50, 1), run_of("single-list", 1, 9000, 1)};
  const ScalingModel model = only_model(runs);
  EXPECT_EQ(model.threads, 1U);
  EXPECT_EQ(model.rounds, 3U);
  EXPECT_EQ(model.hold_ns_mean, 50) << "the median: one preempted holder must not decide";
  EXPECT_EQ(model.acquisitions_per_file, 2);
  EXPECT_EQ(model.element_ns(), 25);
}

TEST(ScalingModel, OneLockIsACeilingAndTheMoveOfItsLineCounts) {
  const ScalingModel model = only_model({run_of("single-list", 1, 50, 1)});
  // One CPU: 5 us a file; the lock would do 1e9 / (2 * 50).
  EXPECT_DOUBLE_EQ(ceiling_of(model, 1).files_per_s, 200'000);
  EXPECT_FALSE(ceiling_of(model, 1).by_lock);
  // 128 CPUs: 2 acquisitions of 50 + 100 * 127/128 ns.
  EXPECT_NEAR(ceiling_of(model, 128).files_per_s, 1e9 / (2 * (50 + 100 * 127.0 / 128)), 1);
  EXPECT_TRUE(ceiling_of(model, 128).by_lock);
  double last = 0;
  for (const std::uint32_t cpus : kModelCpus) {
    if (!ceiling_of(model, cpus).by_lock) {
      EXPECT_GT(ceiling_of(model, cpus).files_per_s, last) << cpus;
    }
    last = ceiling_of(model, cpus).files_per_s;
  }
}

TEST(ScalingModel, LocksPickedByCpuMoveNoLines) {
  const ScalingModel wheel = only_model({run_of("timer-wheel", 1, 50, 16)});
  EXPECT_EQ(wheel.locks_on(2), 16U);
  EXPECT_EQ(wheel.locks_on(8), 32U);
  EXPECT_EQ(wheel.locks_on(128), 128U);
  EXPECT_DOUBLE_EQ(ceiling_of(wheel, 64).files_per_s, 64 * 200'000.0);
  const ScalingModel one_shard = only_model({run_of("timer-wheel", 1, 50, 1)}, true);
  EXPECT_EQ(one_shard.locks_on(128), 1U);
  EXPECT_TRUE(ceiling_of(one_shard, 128).by_lock) << "--shards 1 is one lock on any machine";
  const ScalingModel lists = only_model({run_of("parallel-lists", 1, 50, 2)});
  EXPECT_EQ(lists.locks_on(8), 8U);
  EXPECT_EQ(only_model({run_of("parallel-lists", 1, 50, 2)}, false, true).locks_on(8), 2U);
}

TEST(ScalingModel, WorstStallIsOfAllRunsOfTheDesign) {
  std::vector<RunFigures> runs = {run_of("tagged-list", 1, 50, 1), run_of("tagged-list", 16, 50, 1)};
  runs[1].max_elements_per_hold = 14'092;
  EXPECT_DOUBLE_EQ(only_model(runs).worst_stall_ns(), 14'092 * 25.0);
}

TEST(ScalingModel, SaysThatItIsAModelAndNothingWithoutRuns) {
  EXPECT_TRUE(scaling_models({}, {"single-list"}, false, false).empty());
  RunFigures empty = run_of("single-list", 1, 50, 1);
  empty.files = 0;
  EXPECT_TRUE(scaling_models({empty}, {"single-list"}, false, false).empty());
  EXPECT_EQ(model_table({}), "");
  const std::string text = model_table({only_model({run_of("single-list", 1, 50, 1)})});
  EXPECT_EQ(text.rfind("MODEL, uncalibrated", 0), 0U) << text;
  EXPECT_NE(text.find("L"), std::string::npos);
  EXPECT_NE(text.find("worst stall"), std::string::npos);
}

}  // namespace
}  // namespace tidewheel::bench
