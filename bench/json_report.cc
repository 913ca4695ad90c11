#include "bench/json_report.h"

#include <nlohmann/json.hpp>

#include "bench/command_line.h"
#include "bench/designs.h"

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

ordered_json target_figures_json(const TargetFigures& figures) {
  ordered_json out;
  out["dirty_list"] = or_null(figures.dirty_list, [](const DirtyListFigures& f) -> ordered_json {
    return {{"inserts", f.inserts},
            {"redirties", f.redirties},
            {"removals", f.removals},
            {"insert_waits", f.insert_waits},
            {"detached_buckets", f.detached_buckets},
            {"elements_under_lock", f.elements_under_lock},
            {"max_elements_per_hold", f.max_elements_per_hold}};
  });
  out["writeback"] = or_null(figures.writeback, [](const WritebackFigures& f) -> ordered_json {
    return {{"works", f.works},
            {"objects", f.objects},
            {"pages", f.pages},
            {"io_bytes", f.io_bytes},
            {"ios", f.ios},
            {"batches", f.batches},
            {"oldest_age_max_ms", f.oldest_age_max_ms}};
  });
  out["throttle"] = or_null(figures.throttle, [](const ThrottleFigures& f) -> ordered_json {
    return {{"pauses", f.pauses}, {"ns", f.ns}};
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
  out["cpu_us_per_file"] = per(result.cpu.process_s() * 1e6, result.files);
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

// Words of the command line may be any bytes; JSON takes UTF-8.
std::string dump(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::optional<RunFigures::Point> point_of(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  return RunFigures::Point{.files_per_s = json.at("files_per_s"),
                           .write_iops = json.at("write_iops"),
                           .write_mb_per_s = json.at("write_mb_per_s"),
                           .seconds = json.at("seconds")};
}

}  // namespace

std::string fsmark_json(const RunResult& result, const std::vector<std::string>& command) {
  return dump(run_json(result, command));
}

std::optional<RunFigures> read_figures(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object() || json.value("schema", "") != "tidewheel.fsmark/1") {
    return std::nullopt;
  }
  RunFigures figures;
  figures.design = json.at("design").is_null() ? "" : json.at("design").get<std::string>();
  figures.threads = json.at("threads");
  figures.round = json.at("round");
  figures.files = json.at("files");
  figures.files_per_s = json.at("files_per_s");
  figures.cpu_us_per_file = json.at("cpu_us_per_file");
  figures.wall_s = json.at("wall_s");
  const nlohmann::json& points = json.at("load_points");
  figures.below_background = point_of(points.at("below_background"));
  figures.below_foreground = point_of(points.at("below_foreground"));
  figures.sustained = point_of(points.at("sustained"));
  double acquisitions = 0, contended = 0;
  for (const nlohmann::json& lock : json.at("locks")) {
    // The dirty list's own locks are what the designs differ in.
    if (!is_list_lock(lock.at("name").get<std::string>())) continue;
    acquisitions += lock.at("acquisitions").get<double>();
    contended += lock.at("contended").get<double>();
    figures.lock_wait_ms += lock.at("wait_ns_total").get<double>() * 1e-6;
  }
  figures.contended_per_million = acquisitions > 0 ? contended * 1e6 / acquisitions : 0;
  if (!json.at("dirty_list").is_null()) {
    figures.max_elements_per_hold = json.at("dirty_list").at("max_elements_per_hold");
  }
  if (!json.at("write_amplification").is_null()) figures.write_amplification = json.at("write_amplification");
  figures.disturbed = json.at("disturbed");
  figures.interrupted = json.at("interrupted");
  figures.errors = json.at("errors").get<std::vector<std::string>>();
  return figures;
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
  ordered_json runs = ordered_json::array();
  for (const std::string& run : document.runs) runs.push_back(ordered_json::parse(run));
  out["runs"] = std::move(runs);
  return dump(out);
}

}  // namespace tidewheel::bench
