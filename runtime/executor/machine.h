// What this machine offers the process: cores and memory.
#pragma once

#include <cstdint>
#include <string>

namespace act {

// Physical cores that the process may run on (its affinity mask; hyper-threads count once). At
// least 1.
int PhysicalCores();

// Bytes that can still be allocated without swapping or being killed: the kernel's MemAvailable or
// what the memory cgroup leaves, whichever is less. kTooLarge if neither can be read.
int64_t AvailableMemoryBytes();

// The largest resident size of the process so far, in bytes, including its libraries and mapped
// files.
int64_t ResidentPeakBytes();

// The processor's name as the system gives it, "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"; where it gives
// none, the architecture's, "aarch64".
std::string ProcessorName();

}  // namespace act
