#include "kernels/cuda/device_table.h"

#include <algorithm>
#include <cstring>

namespace act::cuda {

std::shared_ptr<DeviceTable> DeviceTable::Of(const CudaContext& context, const void* data, int64_t bytes,
                                             std::string* why) {
  Driver& driver = context.driver();
  std::byte *address = nullptr, *pinned = nullptr;
  const int64_t room = std::max<int64_t>(bytes, 1);
  if (*why = driver.Allocate(room, &address); !why->empty()) return nullptr;
  std::shared_ptr<DeviceTable> table(new DeviceTable(driver, address));
  if (*why = driver.AllocatePinned(room, &pinned); !why->empty()) return nullptr;
  if (bytes > 0) {
    std::memcpy(pinned, data, static_cast<size_t>(bytes));
    *why = driver.CopyToDevice(context.stream, address, pinned, bytes);
    if (why->empty()) *why = driver.Synchronize(context.stream);
  }
  driver.FreePinned(pinned);
  return why->empty() ? table : nullptr;
}

}  // namespace act::cuda
