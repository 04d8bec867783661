#include "runtime/executor/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/dim.h"

namespace act {
namespace {

// The number in a one-line file. `fallback` if the file cannot be read or says "max".
int64_t ReadNumber(const std::string& path, int64_t fallback) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : fallback;
}

// The number that follows `key` in a file of "key number" lines.
int64_t ReadKey(const std::string& path, const std::string& key, int64_t fallback) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) == 0) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return fallback;
}

// The bytes that one cgroup has left: its limit less its usage. File pages that can be given back
// do not count as usage.
int64_t LeftInCgroup(const std::string& folder, const char* limit_file, const char* usage_file) {
  const int64_t limit = ReadNumber(folder + limit_file, kTooLarge);
  if (limit >= kTooLarge) return kTooLarge;
  const int64_t reclaimable = ReadKey(folder + "/memory.stat", "inactive_file ", 0);
  return std::max<int64_t>(0, limit - ReadNumber(folder + usage_file, 0) + reclaimable);
}

// In version 2, every limit on the path from the root to the process's own group applies.
int64_t CgroupMemoryBytes() {
  // version 1
  int64_t left = LeftInCgroup("/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes");
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.compare(0, 3, "0::") != 0) continue;
    for (std::string path = line.substr(3);; path.resize(path.rfind('/'))) {
      left = std::min(left, LeftInCgroup("/sys/fs/cgroup" + path, "/memory.max", "/memory.current"));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return left;
}

}  // namespace

int PhysicalCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::pair<int64_t, int64_t>> cores;  // (package, core)
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(ReadNumber(topology + "physical_package_id", 0), ReadNumber(topology + "core_id", cpu));
  }
  return std::max(1, static_cast<int>(cores.size()));
}

int64_t AvailableMemoryBytes() {
  const int64_t kib = ReadKey("/proc/meminfo", "MemAvailable:", kTooLarge);
  return std::min(SaturatingMul(kib, 1024), CgroupMemoryBytes());
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system = {};
  return uname(&system) == 0 ? system.machine : "unknown processor";
}

int64_t ResidentPeakBytes() {
  // getrusage would also count the process that started this one, up to its exec.
  const int64_t kib = ReadKey("/proc/self/status", "VmHWM:", 0);
  if (kib > 0) return SaturatingMul(kib, 1024);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace act
