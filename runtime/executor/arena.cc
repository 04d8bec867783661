#include "runtime/executor/arena.h"

#include <algorithm>
#include <string>

#include "runtime/base/dim.h"
#include "runtime/base/error.h"

namespace act {

llvm::Expected<std::unique_ptr<Arena>> Arena::Allocate(Device& device, MemoryKind kind, int64_t bytes) {
  ACT_TRY(std::unique_ptr<DeviceMemory> memory, device.Allocate(kind, bytes));
  return std::unique_ptr<Arena>(new Arena(std::move(memory)));
}

llvm::Expected<DevicePointer> Arena::HandOut(int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > this->bytes() || bytes > this->bytes() - offset) {
    return MakeError("arena", "bytes " + std::to_string(offset) + " to " +
                                  std::to_string(SaturatingAdd(offset, bytes)) + " lie outside of " +
                                  std::to_string(this->bytes()));
  }
  if (bytes > 0) high_water_bytes_ = std::max(high_water_bytes_, offset + bytes);
  return base() + offset;
}

}  // namespace act
