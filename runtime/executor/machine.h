// What this machine offers to the process: cores and memory.
#pragma once

#include <cstdint>

namespace act {

// Physical cores that the process may run on (its affinity mask; hyper-threads count once). At least 1.
int PhysicalCores();

// Bytes that can still be allocated without swapping or being killed: the least of the kernel's MemAvailable
// and what the memory cgroup leaves. kTooLarge where neither can be read.
int64_t AvailableMemoryBytes();

// The most memory that the process has had resident so far, in bytes (its libraries and mapped files
// included).
int64_t ResidentPeakBytes();

}  // namespace act
