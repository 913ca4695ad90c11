#include "bench/crash_workloads.h"

#include "fs/crash/toy_log.h"
#include "fs/mock/mock_workload.h"
#include "fs/mock/trans_workload.h"

namespace tidewheel::bench {

namespace {

constexpr CrashWorkloadEntry kWorkloads[] = {
    {"toy", "a log of a few records over eight blocks, in a ring of six slots",
     [](std::uint64_t seed) -> std::unique_ptr<CrashWorkload> {
       return std::make_unique<ToyLog>(seed, ToyFault::kNone);
     }},
    {"mock", "log, AIL, buffers and recovery of tidefs under twelve objects, in a log of 256 KiB",
     [](std::uint64_t seed) -> std::unique_ptr<CrashWorkload> {
       return std::make_unique<MockWorkload>(seed);
     }},
    {"trans", "transactions of three threads over tidefs's journal and buffer cache, in a log of 144 KiB",
     [](std::uint64_t seed) -> std::unique_ptr<CrashWorkload> {
       return std::make_unique<TransWorkload>(seed);
     }},
};

}  // namespace

std::span<const CrashWorkloadEntry> crash_workloads() { return kWorkloads; }

const CrashWorkloadEntry* find_crash_workload(std::string_view name) {
  for (const CrashWorkloadEntry& entry : kWorkloads) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

std::string crash_workload_names() {
  std::string names;
  for (const CrashWorkloadEntry& entry : kWorkloads) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

}  // namespace tidewheel::bench
