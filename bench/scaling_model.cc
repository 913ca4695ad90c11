#include "bench/scaling_model.h"

#include <algorithm>

#include "bench/compare_table.h"
#include "timerwheel/sharded_wheel.h"

namespace tidewheel::bench {

namespace {

double median_of(const std::vector<const RunFigures*>& runs, double (*value)(const RunFigures&)) {
  std::vector<double> values;
  for (const RunFigures* run : runs) values.push_back(value(*run));
  return spread_of(std::move(values)).median;
}

double per_file(std::uint64_t count, const RunFigures& run) {
  return run.files == 0 ? 0 : static_cast<double>(count) / static_cast<double>(run.files);
}

LockRule rule_of(const std::string& design, bool shards_given, bool flushers_given) {
  if (design == "timer-wheel") return shards_given ? LockRule::kPerCpuFixed : LockRule::kPerCpu;
  if (design == "parallel-lists" && !shards_given && !flushers_given) return LockRule::kPerFlusher;
  return LockRule::kFixed;
}

std::string padded(const std::string& text, std::size_t width) {
  return (text.size() < width ? std::string(width - text.size(), ' ') : std::string()) + text;
}

}  // namespace

std::uint32_t ScalingModel::locks_on(std::uint32_t cpus) const {
  switch (rule) {
    case LockRule::kPerFlusher: return std::clamp(cpus, 2U, 16U);
    case LockRule::kPerCpu: return default_wheel_shards(cpus);
    case LockRule::kFixed:
    case LockRule::kPerCpuFixed: break;
  }
  return std::max(locks, 1U);
}

double ScalingModel::element_ns() const {
  return elements_per_file > 0 ? acquisitions_per_file * hold_ns_mean / elements_per_file : 0;
}

std::vector<ScalingModel> scaling_models(const std::vector<RunFigures>& runs,
                                         const std::vector<std::string>& designs, bool shards_given,
                                         bool flushers_given) {
  std::vector<ScalingModel> models;
  for (const std::string& design : designs) {
    std::uint32_t fewest = UINT32_MAX;
    std::uint64_t most_elements = 0;
    for (const RunFigures& run : runs) {
      if (run.design != design || run.files == 0 || run.list_acquisitions == 0) continue;
      fewest = std::min(fewest, run.threads);
      most_elements = std::max(most_elements, run.max_elements_per_hold);
    }
    std::vector<const RunFigures*> used;
    for (const RunFigures& run : runs) {
      if (run.design == design && run.threads == fewest && run.files != 0) used.push_back(&run);
    }
    if (used.empty()) continue;
    models.push_back(
        {.design = design,
         .threads = fewest,
         .rounds = static_cast<std::uint32_t>(used.size()),
         .cpu_ns_per_file = 1e3 * median_of(used, [](const RunFigures& r) { return r.cpu_us_per_file; }),
         .acquisitions_per_file =
             median_of(used, [](const RunFigures& r) { return per_file(r.list_acquisitions, r); }),
         .hold_ns_mean = median_of(used, [](const RunFigures& r) { return r.list_hold_ns_mean; }),
         .elements_per_file =
             median_of(used, [](const RunFigures& r) { return per_file(r.elements_under_lock, r); }),
         .locks = used.front()->list_shards,
         .rule = rule_of(design, shards_given, flushers_given),
         .max_elements_per_hold = most_elements});
  }
  return models;
}

Ceiling ceiling_of(const ScalingModel& model, std::uint32_t cpus) {
  const double n = cpus;
  const double locks = model.locks_on(cpus);
  const bool by_cpu = model.rule == LockRule::kPerCpu || model.rule == LockRule::kPerCpuFixed;
  const double sharing = by_cpu ? std::max(1.0, n / locks) : n;
  const double move_ns = kLineMoveNs * (1 - 1 / sharing);
  const double cpu_ns = model.cpu_ns_per_file + model.acquisitions_per_file * move_ns;
  const double lock_ns = model.acquisitions_per_file * (model.hold_ns_mean + move_ns);
  const double by_cpu_time = cpu_ns > 0 ? n * 1e9 / cpu_ns : 0;
  const double by_locks = lock_ns > 0 ? locks * 1e9 / lock_ns : by_cpu_time;
  return {.files_per_s = std::min(by_cpu_time, by_locks), .by_lock = by_locks < by_cpu_time};
}

std::string model_table(const std::vector<ScalingModel>& models) {
  if (models.empty()) return "";
  constexpr std::size_t kColumn = 9;
  std::string text =
      "MODEL, uncalibrated: files/s that CPU time and list locks would allow (L: the list lock limits)\n" +
      std::string("CPUs            ");
  for (const std::uint32_t cpus : kModelCpus) text += padded(std::to_string(cpus), kColumn);
  text += "   worst stall\n" + std::string(16 + kColumn * kModelCpus.size() + 14, '-') + "\n";
  for (const ScalingModel& model : models) {
    text += model.design + std::string(model.design.size() < 16 ? 16 - model.design.size() : 1, ' ');
    for (const std::uint32_t cpus : kModelCpus) {
      const Ceiling ceiling = ceiling_of(model, cpus);
      text += padded(short_number(ceiling.files_per_s) + (ceiling.by_lock ? "L" : " "), kColumn);
    }
    text += padded(short_number(model.worst_stall_ns() * 1e-3) + " us", 14) + "\n";
  }
  return text + "from CPU time and mean hold per file at " + std::to_string(models.front().threads) +
         (models.front().threads == 1 ? " thread" : " threads") + ", " + short_number(kLineMoveNs) +
         " ns for a lock line that another CPU had; worst stall: most\nelements in one hold times the mean "
         "cost of one. Not a measurement: docs/fsmark.md says what it leaves out.\n";
}

}  // namespace tidewheel::bench
