// How often the page cache hits under each reclaim policy, beside the same policy alone (in all of its
// shards, and in one), a plain model of it, LRU, FIFO, and the best that is possible. Prints the table of
// docs/experiments.md; the same on every machine (a release build, whose page descriptors are smaller, holds
// a few pages more). Links tidewheel::inode.
//   hit_ratios [TRACE]     default: tests/examples/traces/compile.trace, where that is to be found
#include <tidewheel/base/config.h>
#include <tidewheel/inode/lab/cache_model.h>
#include <tidewheel/inode/lab/experiment.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace tidewheel;

struct Load {
  std::string name;
  std::vector<lab::Access> accesses;
  std::uint64_t memory_bytes;
};

std::string percent(double ratio) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.1f", ratio * 100);
  return text;
}

// The page cache first: the others then have as many pages as it held.
std::string row(const Load& load, const std::string& reclaim) {
  lab::ExperimentOptions options;
  options.reclaim = reclaim;
  options.memory_bytes = load.memory_bytes;
  options.dirty_bytes = load.memory_bytes / 4;
  options.background_bytes = load.memory_bytes / 8;
  const lab::Experiment done = lab::run_experiment(options, load.accesses);
  if (!done.error.empty()) return "| " + load.name + " | " + reclaim + " | " + done.error + " |\n";
  const std::uint64_t pages = done.timeline.back().cached_bytes / kPageBytes;
  const std::vector<std::uint64_t> order = lab::pages_of(load.accesses);
  std::string line = "| " + load.name + " | " + reclaim + " | " + std::to_string(pages) + " | " +
                     percent(done.hit_ratio());
  for (const auto spread : {lab::PolicyCache::Spread::kAllShards, lab::PolicyCache::Spread::kOneShard}) {
    lab::PolicyCache policy(make_reclaim_policy(reclaim), pages, spread);
    line += " | " + percent(lab::hit_ratio(policy, order));
  }
  for (const std::string& model : {reclaim, std::string("lru"), std::string("fifo")}) {
    line += " | " + percent(lab::hit_ratio(*lab::make_cache_model(model, pages), order));
  }
  return line + " | " + percent(lab::best_hit_ratio(order, pages)) + " |\n";
}

lab::Accesses pattern(lab::Pattern kind) {
  lab::PatternOptions o;
  o.pattern = kind;
  o.accesses = 100'000;
  o.interval = milliseconds(1);
  return lab::make_pattern(o);
}

}  // namespace

std::string hit_ratio_table(const std::string& trace) {
  std::vector<Load> loads;
  for (const lab::Pattern kind :
       {lab::Pattern::kZipf, lab::Pattern::kMixed, lab::Pattern::kLoop, lab::Pattern::kScan}) {
    loads.push_back({name_of(kind), pattern(kind).list, 16 << 20});
  }
  const lab::Accesses recorded = lab::read_trace(trace);
  if (!recorded.error.empty()) return recorded.error + "\n";
  loads.push_back({"recorded", recorded.list, 4 << 20});
  std::string table =
      "| pattern | reclaim | pages | page cache | 16 shards | one shard | model | LRU | FIFO | best |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Load& load : loads) {
    for (const char* reclaim : {"two-list", "sieve", "s3-fifo"}) table += row(load, reclaim);
  }
  return table;
}

#ifndef TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
int main(int argc, char** argv) {
  const std::string table = hit_ratio_table(argc > 1 ? argv[1] : "tests/examples/traces/compile.trace");
  std::fputs(table.c_str(), stdout);
  return table.front() == '|' ? 0 : 1;
}
#endif
