// What this process has in memory of the files that it maps.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace act::testing {

inline int64_t ResidentFileBytes() {
  std::ifstream status("/proc/self/statm");
  int64_t all = 0, resident = 0, of_files = 0;
  status >> all >> resident >> of_files;
  return of_files * ::sysconf(_SC_PAGESIZE);
}

}  // namespace act::testing
