// What the driver of standalone.cc watches while an input runs: crashes, time and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/sanitizer.h"

namespace act::fuzz {

// Of one input: seconds of the processor, and seconds. With the address sanitizer the compilation of a large model takes
// four times as long.
#ifdef ACT_ADDRESS_SANITIZER
inline constexpr int kMostSeconds = 40;
#else
inline constexpr int kMostSeconds = 10;
#endif
inline constexpr int kMostWaitSeconds = 120;
inline constexpr int64_t kMostMemory = int64_t{2} << 30;

// Keeps the input that runs in a file, so that it is there whatever ends the process.
class FaultWatch {
 public:
  explicit FaultWatch(std::string path);
  // Runs the target. A fault ends the process with a line that names the file.
  void Run(std::span<const uint8_t> input);
  // No fault was found: takes the file away.
  void Done();

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace act::fuzz
