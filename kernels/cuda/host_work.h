// What kernels of the host share that run as a part of a device's step: pinned memory, and their errors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/cuda/pinned.h"

namespace act::cuda {

class HostWork {
 public:
  explicit HostWork(Driver& driver) : driver_(driver) {}

  // A kernel will need so much staging memory. Kernels run one after another, so all use the same.
  void Reserve(int64_t bytes) { reserved_ = std::max(reserved_, bytes); }
  // Allocates what is reserved. Earlier memory stays, since recordings may name it.
  Status Prepare() {
    if (reserved_ == 0 || (!staging_.empty() && staging_.back().bytes() >= reserved_)) return "";
    return staging_.emplace_back().Allocate(driver_, reserved_);
  }
  std::byte* staging() const { return staging_.back().data(); }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const PinnedBuffer& buffer : staging_) sum += buffer.bytes();
    return sum;
  }

  // The first error is kept. Called on a thread of the driver.
  void Fail(std::string error) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = std::move(error);
  }
  std::string TakeError() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, "");
  }

 private:
  Driver& driver_;
  int64_t reserved_ = 0;
  std::deque<PinnedBuffer> staging_;
  std::mutex mutex_;
  std::string error_;
};

}  // namespace act::cuda
