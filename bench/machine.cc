#include "bench/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/thread.h"

namespace tidewheel::bench {

namespace {

std::string read_file(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

}  // namespace

void parse_proc_stat(std::string_view text, double ticks_per_second, double& machine_s, double& steal_s) {
  machine_s = 0;
  steal_s = 0;
  std::istringstream line{std::string(text.substr(0, text.find('\n')))};
  std::string label;
  // user nice system idle iowait irq softirq steal (guest time is inside user)
  double field[8] = {};
  line >> label;
  if (label != "cpu") return;
  for (double& value : field) {
    if (!(line >> value)) value = 0;
  }
  machine_s = (field[0] + field[1] + field[2] + field[5] + field[6]) / ticks_per_second;
  steal_s = field[7] / ticks_per_second;
}

std::uint64_t parse_status_kib(std::string_view text, std::string_view key) {
  const std::string wanted = std::string(key) + ":";
  std::size_t at = text.rfind(wanted, 0) == 0 ? 0 : text.find("\n" + wanted);
  if (at == std::string_view::npos) return 0;
  if (text[at] == '\n') ++at;
  std::istringstream rest{std::string(text.substr(at + wanted.size(), 64))};
  std::uint64_t kib = 0;
  rest >> kib;
  return kib * 1024;
}

std::uint64_t machine_memory_bytes() { return parse_status_kib(read_file("/proc/meminfo"), "MemTotal"); }

MachineDescription describe_machine() {
  MachineDescription machine;
  machine.cpus = cpu_count();
  machine.memory_bytes = machine_memory_bytes();
  machine.model = "unknown";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      machine.model = line.substr(line.find(": ") + 2);
      break;
    }
  }
  utsname name{};
  machine.kernel = uname(&name) == 0 ? name.release : "unknown";
  return machine;
}

CpuUse read_cpu_use() {
  CpuUse use;
  rusage self{};
  getrusage(RUSAGE_SELF, &self);
  use.user_s = seconds_of(self.ru_utime);
  use.sys_s = seconds_of(self.ru_stime);
  parse_proc_stat(read_file("/proc/stat"), static_cast<double>(sysconf(_SC_CLK_TCK)), use.machine_s,
                  use.steal_s);
  return use;
}

std::uint64_t resident_peak_bytes() { return parse_status_kib(read_file("/proc/self/status"), "VmHWM"); }

void reset_resident_peak() {
  // "5" resets the high-water mark; where that is refused the mark stays what it was.
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w"); file != nullptr) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace tidewheel::bench
