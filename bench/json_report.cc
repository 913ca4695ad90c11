#include "bench/json_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/command_line.h"

namespace tidewheel::bench {

namespace {

using nlohmann::ordered_json;

ordered_json machine_json() {
  const MachineDescription machine = describe_machine();
  return {{"cpus", machine.cpus},
          {"model", machine.model},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", machine.kernel}};
}

ordered_json head(const char* schema, const std::vector<std::string>& command, std::uint64_t seed,
                  const std::string& started) {
  return {{"schema", schema},   {"version", program_version()}, {"machine", machine_json()},
          {"command", command}, {"seed", seed},                 {"started", started}};
}

ordered_json point_json(const std::optional<LoadPoint>& point) {
  if (!point) return nullptr;
  return {{"files", point->files},
          {"seconds", point->seconds},
          {"files_per_s", point->files_per_s},
          {"write_iops", point->write_iops},
          {"write_mb_per_s", point->write_mb_per_s}};
}

ordered_json latency_json(const LatencySummary& summary) {
  if (summary.count == 0) return nullptr;
  return {{"count", summary.count}, {"p50", summary.p50},   {"p90", summary.p90},
          {"p99", summary.p99},     {"p999", summary.p999}, {"max", summary.max}};
}

template <class T, class Fill>
ordered_json or_null(const std::optional<T>& value, Fill fill) {
  return value ? fill(*value) : ordered_json(nullptr);
}

ordered_json latencies_json(const RunResult& result) {
  const auto call = [&](Call c) {
    return latency_json(result.latencies[static_cast<std::size_t>(c)].summary());
  };
  const auto inside = [](const std::optional<LatencySummary>& s) {
    return latency_json(s.value_or(LatencySummary{}));
  };
  return {{"create", call(Call::kCreate)},
          {"write", call(Call::kWrite)},
          {"close", call(Call::kClose)},
          {"fsync", call(Call::kFsync)},
          {"stat", call(Call::kStat)},
          {"read", call(Call::kRead)},
          {"unlink", call(Call::kUnlink)},
          {"mark_dirty", inside(result.figures.mark_dirty)},
          {"throttle_pause", inside(result.figures.throttle_pause)}};
}

ordered_json list_json(const DirtyListFigures& f) {
  return {{"inserts", f.inserts},
          {"redirties", f.redirties},
          {"removals", f.removals},
          {"insert_waits", f.insert_waits},
          {"detached_buckets", f.detached_buckets},
          {"elements_under_lock", f.elements_under_lock},
          {"max_elements_per_hold", f.max_elements_per_hold},
          {"shards", f.shards}};
}

ordered_json writeback_json(const WritebackFigures& f) {
  return {{"works", f.works},
          {"objects", f.objects},
          {"pages", f.pages},
          {"io_bytes", f.io_bytes},
          {"ios", f.ios},
          {"batches", f.batches},
          {"oldest_age_max_ms", f.oldest_age_max_ms}};
}

// Null: there is one owner, whose figures are the run's.
ordered_json owners_json(const RunResult& result) {
  if (result.owners.empty()) return nullptr;
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < result.owners.size(); ++i) {
    const OwnerResult& own = result.owners[i];
    const bool known = i < result.figures.owners.size();
    out.push_back({{"owner", i},
                   {"threads", own.threads},
                   {"files", own.files},
                   {"seconds", own.seconds},
                   {"files_per_s", own.files_per_s()},
                   {"dirty_list", known ? list_json(result.figures.owners[i].dirty_list) : nullptr},
                   {"writeback", known ? writeback_json(result.figures.owners[i].writeback) : nullptr}});
  }
  return out;
}

ordered_json target_figures_json(const TargetFigures& figures) {
  ordered_json out;
  out["dirty_list"] = or_null(figures.dirty_list, list_json);
  out["writeback"] = or_null(figures.writeback, writeback_json);
  out["throttle"] = or_null(figures.throttle, [](const ThrottleFigures& f) -> ordered_json {
    return {{"policy", f.policy},
            {"pauses", f.pauses},
            {"ns", f.ns},
            {"most_charged_bytes", f.most_charged_bytes},
            {"limit_bytes", f.limit_bytes}};
  });
  out["device"] = or_null(figures.device, [](const DeviceFigures& f) -> ordered_json {
    return {{"reads", f.reads},
            {"writes", f.writes},
            {"read_bytes", f.read_bytes},
            {"write_bytes", f.write_bytes},
            {"flushes", f.flushes},
            {"by_cause", {{"data", f.data_bytes}, {"log", f.log_bytes}, {"metadata", f.metadata_bytes}}}};
  });
  return out;
}

const char* kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kImage: return "image";
    case DeviceKind::kRam: return "ram";
    case DeviceKind::kNull: break;
  }
  return "null";
}

ordered_json configuration_json(const FsmarkOptions& options) {
  const WorkloadOptions& work = options.workload;
  ordered_json out = {{"directories", work.directories.size()},
                      {"files_per_thread", work.files_per_thread},
                      {"loops", work.loops},
                      {"write_bytes", work.write_bytes},
                      {"sync_method", work.sync_method},
                      {"device", nullptr},
                      {"writeback", nullptr}};
  if (options.target == TargetKind::kPosix) return out;
  const DeviceOptions& device = options.device;
  const bool limited = device.bandwidth != 0;
  out["device"] = {{"kind", kind_name(device.kind)},
                   {"bytes_per_s", limited ? ordered_json(device.bandwidth) : ordered_json(nullptr)},
                   {"latency_ns", device.latency.ns}};
  const WritebackOptions& writeback = options.writeback;
  out["writeback"] = {{"memory_bytes", writeback.memory_bytes},
                      {"background_bytes", writeback.background_bytes},
                      {"dirty_bytes", writeback.dirty_bytes},
                      {"expire_s", writeback.expire.seconds()},
                      {"interval_s", writeback.interval.seconds()},
                      {"shards", writeback.shards},
                      {"flushers", writeback.flushers},
                      {"throttle", writeback.throttle},
                      {"owners", writeback.owners}};
  return out;
}

// Columns, each on a line of its own.
ordered_json series_json(const RunSeries& series) {
  if (series.points.empty()) return nullptr;
  const Instant start = series.points.front().at;
  const auto column = [&](auto value) {
    ordered_json values = ordered_json::array();
    for (const SeriesPoint& point : series.points) values.push_back(value(point));
    return values;
  };
  // Thousandths: more digits would be noise, and most of the file.
  const auto since = [&](const std::optional<Instant>& at) -> ordered_json {
    if (!at) return nullptr;
    return std::round((*at - start).seconds() * 1e4) / 1e4;
  };
  return {{"background_passed_s", since(series.background_passed)},
          {"first_throttled_s", since(series.first_throttled)},
          {"final_sync_from_s", since(series.final_sync_from)},
          {"time_s", column([&](const SeriesPoint& p) { return since(p.at); })},
          {"files", column([](const SeriesPoint& p) { return p.files; })},
          {"device_write_bytes", column([](const SeriesPoint& p) { return p.device_write_bytes; })},
          {"dirty_bytes", column([](const SeriesPoint& p) { return p.dirty_bytes; })},
          {"writeback_bytes", column([](const SeriesPoint& p) { return p.writeback_bytes; })},
          {"throttled_threads", column([](const SeriesPoint& p) { return p.throttled_threads; })}};
}

double per(double total, std::uint64_t n) { return n == 0 ? 0 : total / static_cast<double>(n); }

ordered_json run_json(const RunResult& result, const std::vector<std::string>& command) {
  ordered_json out = head("tidewheel.fsmark/1", command, result.seed, result.started);
  out["design"] = result.design.empty() ? ordered_json(nullptr) : ordered_json(result.design);
  out["target"] = result.target;
  out["threads"] = result.threads;
  out["round"] = result.round;
  out["files"] = result.files;
  out["size"] = result.file_bytes;
  out["wall_s"] = result.wall_s;
  out["user_s"] = result.cpu.user_s;
  out["sys_s"] = result.cpu.sys_s;
  out["machine_cpu_s"] = result.cpu.machine_s;
  out["other_cpu_s"] = result.other_cpu_s();
  out["steal_s"] = result.cpu.steal_s;
  out["disturbed"] = result.disturbed();
  out["final_sync_s"] = result.final_sync_s;
  out["files_per_s"] = result.files_per_s();
  out["sum_of_threads_per_s"] = result.sum_of_threads_per_s;
  out["threads_files"] = {{"slowest", result.threads_files.slowest},
                          {"fastest", result.threads_files.fastest}};
  out["owners"] = owners_json(result);
  out["cpu_us_per_file"] = per(result.cpu.process_s() * 1e6, result.files);
  out["configuration"] =
      result.configuration ? configuration_json(*result.configuration) : ordered_json(nullptr);
  ordered_json loops = ordered_json::array();
  for (const LoopResult& loop : result.loops) {
    loops.push_back({{"files", loop.files}, {"files_per_s", loop.files_per_s()}});
  }
  out["loops"] = std::move(loops);
  ordered_json phases = ordered_json::array();
  for (const PhaseResult& phase : result.phases) {
    phases.push_back({{"name", phase.name},
                      {"ops", phase.ops},
                      {"ops_per_s", phase.seconds > 0 ? static_cast<double>(phase.ops) / phase.seconds : 0},
                      {"cpu_us_per_op", per(phase.cpu_s * 1e6, phase.ops)}});
  }
  out["phases"] = std::move(phases);
  const MemoryFigures memory = result.figures.memory.value_or(MemoryFigures{});
  const bool has_memory = result.figures.memory.has_value();
  const auto held = [&](std::uint64_t bytes) {
    return has_memory ? ordered_json(bytes) : ordered_json(nullptr);
  };
  out["memory"] = {{"limit", held(memory.limit)},   {"resident_peak", result.resident_peak},
                   {"pages", held(memory.pages)},   {"inodes", held(memory.inodes)},
                   {"buffers", held(memory.buffers)}, {"index", held(memory.index)},
                   {"device", held(memory.device)}};
  out["load_points"] = {{"below_background", point_json(result.load_points.below_background)},
                        {"below_foreground", point_json(result.load_points.below_foreground)},
                        {"sustained", point_json(result.load_points.sustained)}};
  out["series"] = series_json(result.series);
  out["latency_ns"] = latencies_json(result);
  ordered_json locks = ordered_json::array();
  for (const LockClassStats& lock : result.locks) {
    locks.push_back({{"name", lock.name},
                     {"acquisitions", lock.acquisitions},
                     {"contended", lock.contended},
                     {"wait_ns_total", lock.wait_ns_total},
                     {"hold_ns_p99", lock.hold_ns_p99},
                     {"hold_ns_total", lock.hold_ns_total},
                     {"hold_samples", lock.hold_samples}});
  }
  out["locks"] = std::move(locks);
  out.update(target_figures_json(result.figures));
  out["write_amplification"] =
      result.figures.device && result.workload_bytes > 0
          ? ordered_json(static_cast<double>(result.figures.device->write_bytes) /
                         static_cast<double>(result.workload_bytes))
          : ordered_json(nullptr);
  // No target of this version has a log, an AIL, buffers or transactions.
  for (const char* none : {"log", "ail", "buffers", "transactions"}) out[none] = nullptr;
  out["verified_files"] =
      result.verified_files ? ordered_json(*result.verified_files) : ordered_json(nullptr);
  out["full"] = result.full;
  out["interrupted"] = result.interrupted;
  out["errors"] = result.errors;
  return out;
}

ordered_json model_json(const std::vector<ScalingModel>& models) {
  ordered_json designs = ordered_json::array();
  for (const ScalingModel& model : models) {
    ordered_json ceilings = ordered_json::array();
    for (const std::uint32_t cpus : kModelCpus) {
      const Ceiling ceiling = ceiling_of(model, cpus);
      ceilings.push_back({{"cpus", cpus},
                          {"files_per_s", ceiling.files_per_s},
                          {"limit", ceiling.by_lock ? "list lock" : "CPU"}});
    }
    designs.push_back({{"design", model.design},
                       {"threads", model.threads},
                       {"rounds", model.rounds},
                       {"cpu_ns_per_file", model.cpu_ns_per_file},
                       {"acquisitions_per_file", model.acquisitions_per_file},
                       {"hold_ns_mean", model.hold_ns_mean},
                       {"elements_per_file", model.elements_per_file},
                       {"locks", model.locks},
                       {"locks_follow_cpus", model.locks_on(128) != model.locks_on(1)},
                       {"ceilings", std::move(ceilings)},
                       {"max_elements_per_hold", model.max_elements_per_hold},
                       {"element_ns_mean", model.element_ns()},
                       {"worst_stall_ns", model.worst_stall_ns()}});
  }
  return {{"calibrated", false},
          {"note", kModelNote},
          {"line_move_ns", kLineMoveNs},
          {"designs", std::move(designs)}};
}

// As dump(2), but a list of plain numbers stays on one line. Words of the command line may be any bytes;
// JSON takes UTF-8.
void print_indented(const ordered_json& json, std::size_t indent, std::string& out) {
  const auto scalar = [](const ordered_json& one) { return one.is_number() || one.is_null(); };
  if (json.empty() || !json.is_structured() ||
      (json.is_array() && std::all_of(json.begin(), json.end(), scalar))) {
    out += json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return;
  }
  const std::string margin(indent + 2, ' ');
  const char* separator = json.is_array() ? "[\n" : "{\n";
  for (auto it = json.begin(); it != json.end(); ++it) {
    out += separator + margin;
    if (json.is_object()) {
      out += ordered_json(it.key()).dump(-1, ' ', false, ordered_json::error_handler_t::replace) + ": ";
    }
    print_indented(*it, indent + 2, out);
    separator = ",\n";
  }
  out += "\n" + std::string(indent, ' ') + (json.is_array() ? "]" : "}");
}

std::string dump(const ordered_json& json) {
  std::string out;
  print_indented(json, 0, out);
  return out + "\n";
}

}  // namespace

std::string fsmark_json(const RunResult& result, const std::vector<std::string>& command) {
  return dump(run_json(result, command));
}

std::string compare_json(const CompareDocument& document) {
  ordered_json out = head("tidewheel.compare/1", document.command, document.seed, document.started);
  out["device_bandwidth"] = document.device_bandwidth;
  out["calibrated_files_per_s"] = document.calibrated_files_per_s > 0
                                      ? ordered_json(document.calibrated_files_per_s)
                                      : ordered_json(nullptr);
  out["interrupted"] = document.interrupted;
  ordered_json summary = ordered_json::array();
  for (const SummaryRow& row : document.summary) {
    summary.push_back({{"design", row.design},
                       {"threads", row.threads},
                       {"median", row.median},
                       {"low", row.low},
                       {"high", row.high}});
  }
  out["summary"] = std::move(summary);
  out["model"] = model_json(document.model);
  ordered_json runs = ordered_json::array();
  for (const std::string& run : document.runs) runs.push_back(ordered_json::parse(run));
  out["runs"] = std::move(runs);
  return dump(out);
}

std::string mkfs_json(const MkfsFigures& figures, const std::vector<std::string>& command,
                      const std::string& started) {
  ordered_json out = head("tidewheel.mkfs/1", command, 0, started);
  out["size"] = figures.size;
  out["ag_count"] = figures.ag_count;
  out["ag_blocks"] = figures.ag_blocks;
  out["log_bytes"] = figures.log_bytes;
  out["uuid"] = figures.uuid;
  out["image_bytes_used"] = figures.image_bytes_used;
  out["seconds"] = figures.seconds;
  return dump(out);
}

}  // namespace tidewheel::bench
