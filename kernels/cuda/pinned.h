// Host memory that a device's copies may reach.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/driver.h"

namespace act::cuda {

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedBuffer() {
    if (data_) driver_->FreePinned(data_);
  }

  // Replaces what there was, which no pending copy may use.
  Status Allocate(Driver& driver, int64_t bytes) {
    *this = PinnedBuffer();
    driver_ = &driver;
    Status status = driver.AllocatePinned(bytes, &data_);
    bytes_ = status.empty() ? bytes : 0;
    return status;
  }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Driver* driver_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace act::cuda
