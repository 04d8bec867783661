// The allocations of a run, one for each memory. Every tensor and every workspace is a range of one
// of them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>

#include "runtime/executor/device.h"

namespace act {

class Arena {
 public:
  static llvm::Expected<std::unique_ptr<Arena>> Allocate(Device& device, MemoryKind kind, int64_t bytes);

  // The range [offset, offset + bytes). Raises the high-water mark. It is an error if the range
  // leaves the arena.
  llvm::Expected<DevicePointer> HandOut(int64_t offset, int64_t bytes);

  // The highest byte that was ever handed out, plus one. Measured here, not taken from the plan.
  int64_t high_water_bytes() const { return high_water_bytes_; }
  int64_t bytes() const { return memory_->bytes(); }
  DevicePointer base() const { return memory_->base(); }

 private:
  explicit Arena(std::unique_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}

  std::unique_ptr<DeviceMemory> memory_;
  int64_t high_water_bytes_ = 0;
};

}  // namespace act
