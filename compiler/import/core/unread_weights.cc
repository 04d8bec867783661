#include "compiler/import/core/unread_weights.h"

namespace act::onnx_import {
namespace {

bool IsWeight(const Value& value) {
  return value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer;
}

}  // namespace

std::map<std::string, HostTensor> StoredWeights(const Graph& graph) {
  std::map<std::string, HostTensor> weights;
  for (const Value& value : graph.values)
    if (IsWeight(value) && value.data.data) weights[value.name] = value.data;
  return weights;
}

void ReturnUnreadWeights(onnx::GraphProto& model, const std::map<std::string, HostTensor>& weights,
                         const Graph& graph) {
  std::map<std::string, HostTensor> unread = weights;
  for (const Value& value : graph.values)
    if (IsWeight(value)) unread.erase(value.name);
  for (onnx::TensorProto& tensor : *model.mutable_initializer()) {
    const auto it = unread.find(tensor.name());
    const bool is_empty = !tensor.has_raw_data() && tensor.float_data_size() == 0 &&
                          tensor.data_location() != onnx::TensorProto::EXTERNAL;
    if (it != unread.end() && is_empty)
      tensor.set_raw_data(it->second.data, static_cast<size_t>(it->second.bytes));
  }
}

}  // namespace act::onnx_import
