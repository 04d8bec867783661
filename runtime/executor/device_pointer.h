// Addresses in a device's memory, which the host may not dereference.
#pragma once

#include <cstddef>
#include <cstdint>

namespace act {

class DevicePointer {
 public:
  DevicePointer() = default;
  DevicePointer(std::nullptr_t) {}  // NOLINT: null is the same for all devices
  explicit DevicePointer(void* address) : address_(static_cast<std::byte*>(address)) {}

  explicit operator bool() const { return address_ != nullptr; }
  friend bool operator==(DevicePointer, DevicePointer) = default;
  DevicePointer operator+(int64_t bytes) const { return DevicePointer(address_ + bytes); }

  // The address as a T*. Its return type is deduced, and kernels/site/dereference.h alone defines
  // it. So code that may not include that header, all of runtime/ and tools/, does not compile if
  // it dereferences a device's memory. It asks the Device instead.
  template <class T>
  auto as() const;

 private:
  std::byte* address_ = nullptr;
};

// A range of a device's memory.
struct DeviceRange {
  DevicePointer data;
  int64_t bytes = 0;
};

}  // namespace act
