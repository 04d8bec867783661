// A descriptor of cuDNN's backend interface, which owns what it was made of.
#pragma once

#include <cudnn_graph.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/driver.h"

namespace act::cuda {

// "CUDNN_STATUS_NOT_SUPPORTED: what cuDNN says of its last error", or an empty string.
Status CheckCudnn(cudnnStatus_t result, const std::string& call);

// Set any attributes, then Finalize, which returns the first error of them all.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(error_, other.error_);
    std::swap(parts_, other.parts_);
    return *this;
  }
  ~Descriptor() {
    if (handle_) cudnnBackendDestroyDescriptor(handle_);
  }

  Descriptor& Int64s(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
    return Set(name, CUDNN_TYPE_INT64, values.size(), values.data());
  }
  Descriptor& Int64(cudnnBackendAttributeName_t name, int64_t value) { return Int64s(name, {&value, 1}); }
  Descriptor& Float(cudnnBackendAttributeName_t name, float value) {
    return Set(name, CUDNN_TYPE_FLOAT, 1, &value);
  }
  Descriptor& Text(cudnnBackendAttributeName_t name, const std::string& text) {
    return Set(name, CUDNN_TYPE_CHAR, text.size(), text.data());
  }
  // A finished descriptor, which stays with this one.
  Descriptor& Part(cudnnBackendAttributeName_t name, Descriptor part);
  // Several.
  Descriptor& Parts(cudnnBackendAttributeName_t name, std::vector<Descriptor> parts);
  // One that somebody else keeps.
  Descriptor& Reference(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values);

  Status Finalize();

  // At most `most` numbers of an attribute; none if it has none.
  template <class T>
  std::vector<T> Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most) const {
    std::vector<T> values(most);
    int64_t count = 0;
    if (cudnnBackendGetAttribute(handle_, name, type, most, &count, values.data()) != CUDNN_STATUS_SUCCESS)
      count = 0;
    values.resize(std::min(count, most));
    return values;
  }
  // The descriptors that an attribute holds, of the given type. `most`: for an attribute that does not tell
  // how many it has.
  std::vector<Descriptor> GetParts(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                   int64_t most = 0) const;

  cudnnBackendDescriptor_t handle() const { return handle_; }
  const Status& error() const { return error_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
  Status error_;
  std::vector<Descriptor> parts_;
};

}  // namespace act::cuda
