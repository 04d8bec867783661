#include "runtime/plan/graph.h"

#include <cstring>

#include "runtime/codec/encode_numbers.h"

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

std::optional<TensorType> CodedParameter::ArenaType() const {
  if (!EncodesNumbers(codec)) return std::nullopt;
  if (codec.IsCast()) return TensorType{DType::kBFloat16, type.dims};
  return CodeType(codec, type.dims);
}

std::vector<Updated> UpdatesOf(const Graph& graph) {
  std::vector<Updated> updates;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<int64_t> pairs = graph.nodes[i].attrs.Ints("gradients");
    for (size_t k = 0; k + 1 < pairs.size(); k += 2)
      updates.push_back({i, static_cast<size_t>(pairs[k]), static_cast<size_t>(pairs[k + 1])});
  }
  return updates;
}

}  // namespace act
