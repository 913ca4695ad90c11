// bench/machine.h: what the machine and this process say about themselves.
// Threads:   pure functions of /proc.
// Units:     seconds (machine CPU in ticks of 10 ms), bytes.
// Errors:    what cannot be read is 0 or "unknown".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tidewheel::bench {

struct MachineDescription {
  std::uint32_t cpus = 0;
  std::string model;
  std::uint64_t memory_bytes = 0;
  std::string kernel;
};
MachineDescription describe_machine();
std::uint64_t machine_memory_bytes();  // 0: not known

// All CPU used so far: by this process, and by the whole machine.
struct CpuUse {
  double user_s = 0, sys_s = 0;       // this process
  double machine_s = 0, steal_s = 0;  // everything that ran; what the hypervisor took

  double process_s() const { return user_s + sys_s; }
  CpuUse since(const CpuUse& start) const {
    return {user_s - start.user_s, sys_s - start.sys_s, machine_s - start.machine_s, steal_s - start.steal_s};
  }
};
CpuUse read_cpu_use();

std::uint64_t resident_peak_bytes();  // of this process since the last reset
void reset_resident_peak();

std::string utc_now();  // 2026-01-31T12:00:00Z

// The two readings behind these, from text, so that they can be tested.
void parse_proc_stat(std::string_view text, double ticks_per_second, double& machine_s, double& steal_s);
std::uint64_t parse_status_kib(std::string_view text, std::string_view key);

}  // namespace tidewheel::bench
