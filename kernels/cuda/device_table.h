// A table that a kernel reads, which does not change from run to run: device memory outside of the arena, for tables of
// kilobytes.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/context.h"

namespace act::cuda {

class DeviceTable {
 public:
  // Copies `bytes` bytes to the device. On failure returns null, with the driver's reason in *why.
  static std::shared_ptr<DeviceTable> Of(const CudaContext& context, const void* data, int64_t bytes,
                                         std::string* why);
  template <class T>
  static std::shared_ptr<DeviceTable> Of(const CudaContext& context, const std::vector<T>& rows,
                                         std::string* why) {
    return Of(context, rows.data(), static_cast<int64_t>(rows.size() * sizeof(T)), why);
  }
  ~DeviceTable() { driver_.Free(address_); }
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  template <class T>
  const T* as() const {
    return static_cast<const T*>(static_cast<void*>(address_));
  }

 private:
  DeviceTable(Driver& driver, std::byte* address) : driver_(driver), address_(address) {}

  Driver& driver_;
  std::byte* address_;
};

}  // namespace act::cuda
