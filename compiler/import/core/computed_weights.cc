#include "compiler/import/core/computed_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/core/weight_operands.h"
#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

constexpr int64_t kMostBytes = INT32_MAX;

std::set<std::string> ReadAsWeights(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const onnx::NodeProto& node : graph.node())
    for (const std::string& name : WeightOperands(node)) names.insert(name);
  return names;
}

}  // namespace

std::optional<float> FillValue(const onnx::NodeProto& node) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() != "value") continue;
    const onnx::TensorProto& t = attribute.t();
    if (t.data_type() != onnx::TensorProto::FLOAT) return std::nullopt;
    if (t.float_data_size() == 1) return t.float_data(0);
    float value = 0;
    if (t.raw_data().size() != sizeof value) return std::nullopt;
    std::memcpy(&value, t.raw_data().data(), sizeof value);
    return value;
  }
  return 0.f;
}

std::optional<std::vector<int64_t>> StoredShape(const onnx::TensorProto& tensor) {
  onnx::TensorProto copy = tensor;
  ExternalData none("");
  llvm::Expected<TensorType> type = TypeOf(copy);
  if (!type) return llvm::consumeError(type.takeError()), std::nullopt;
  if (type->dtype != DType::kInt64 || type->rank() != 1 || tensor.has_data_location()) return std::nullopt;
  llvm::Expected<HostTensor> data = TakeData(copy, *type, none, false);
  if (!data) return llvm::consumeError(data.takeError()), std::nullopt;
  const auto* extents = reinterpret_cast<const int64_t*>(data->data);
  std::vector<int64_t> shape(extents, extents + type->Elements().fixed);
  if (shape.empty() || std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; }))
    return std::nullopt;
  return shape;
}

llvm::Error MaterializeWeights(ModelFile& file) {
  onnx::GraphProto& graph = *file.proto->mutable_graph();
  const std::set<std::string> weights = ReadAsWeights(graph);
  std::map<std::string, const onnx::TensorProto*> stored;
  for (const auto& tensor : graph.initializer()) stored[tensor.name()] = &tensor;
  std::vector<onnx::TensorProto> made;
  std::vector<bool> replaced(static_cast<size_t>(graph.node_size()), false);
  int64_t total_bytes = 0;
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    if (node.op_type() != "ConstantOfShape" || node.input_size() != 1 || node.output_size() != 1) continue;
    const std::string& name = node.output(0);
    const auto shape_tensor = stored.find(node.input(0));
    if (!weights.count(name) || stored.count(name) || shape_tensor == stored.end()) continue;
    const std::optional<float> value = FillValue(node);
    const auto shape = StoredShape(*shape_tensor->second);
    if (!value || !shape || !file.fills.emplace(name, *value).second) continue;
    total_bytes = SaturatingAdd(total_bytes, SaturatingMul(ElementCount(*shape), sizeof(float)));
    if (total_bytes > kMostBytes)
      return MakeError("node '" + name + "' (ConstantOfShape)",
                       "the weights that the model computes have more than 2 GiB",
                       "store them as initializers with external data");
    onnx::TensorProto& tensor = made.emplace_back();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t extent : *shape) tensor.add_dims(extent);
    replaced[static_cast<size_t>(i)] = true;
  }
  google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
  for (int i = 0; i < graph.node_size(); ++i)
    if (!replaced[static_cast<size_t>(i)]) *kept.Add() = std::move(*graph.mutable_node(i));
  graph.mutable_node()->Swap(&kept);
  for (onnx::TensorProto& tensor : made) *graph.add_initializer() = std::move(tensor);
  return llvm::Error::success();
}

HostTensor Filled(const TensorType& type, float value) {
  const auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(type.Elements().fixed), value);
  return {data, reinterpret_cast<const std::byte*>(data->data()), type.Bytes().fixed};
}

}  // namespace act::onnx_import
