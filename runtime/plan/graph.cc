#include "runtime/plan/graph.h"

#include <cstring>

namespace act {

HostTensor HostTensor::Copy(const void* data, int64_t bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
  if (bytes > 0) std::memcpy(owner->data(), data, static_cast<size_t>(bytes));
  HostTensor tensor;
  tensor.bytes = bytes;
  // A tensor without elements still is data: null would say that it is not known.
  static constexpr std::byte kNoBytes{};
  tensor.data = bytes > 0 ? owner->data() : &kNoBytes;
  tensor.owner = std::move(owner);
  return tensor;
}

}  // namespace act
