// TrainingInfoProto's initialization: a graph without inputs whose results are the first values of
// initializers.
#include <map>

#include "compiler/import/core/computed_weights.h"
#include "compiler/import/core/importer.h"
#include "compiler/import/core/initial_numbers.h"
#include "compiler/import/training/training_info.h"

namespace act::onnx_import {
namespace {

// The most that a model file could hold itself.
constexpr int64_t kMostBytes = INT32_MAX;
constexpr char kHint[] =
    "initialization may draw RandomNormal and RandomUniform, and take Constant, ConstantOfShape and "
    "initializers";

// A tensor of ours as ONNX stores it, under the name that `to` has.
void Store(const TensorType& type, const HostTensor& data, onnx::TensorProto& to) {
  onnx::TensorProto tensor;
  tensor.set_name(to.name());
  tensor.set_data_type(to.data_type());
  for (const Dim& dim : type.dims) tensor.add_dims(dim.fixed);
  tensor.set_raw_data(data.data, static_cast<size_t>(data.bytes));
  to = std::move(tensor);
}

class Initialization {
 public:
  Initialization(const onnx::GraphProto& graph, uint64_t seed) : seed_(seed) {
    for (const auto& tensor : graph.initializer()) tensors_[tensor.name()] = &tensor;
    for (const auto& node : graph.node())
      for (const std::string& name : node.output()) nodes_[name] = &node;
  }

  // Gives the tensor the elements of the result `name`.
  llvm::Error Fill(onnx::TensorProto& tensor, const std::string& name) {
    const auto node = nodes_.find(name);
    if (node != nodes_.end()) return FillBy(*node->second, tensor);
    const auto stored = tensors_.find(name);
    if (stored == tensors_.end())
      return MakeError("initialization of '" + tensor.name() + "'", "nothing makes '" + name + "'");
    return Copy(*stored->second, tensor);
  }

 private:
  llvm::Error FillBy(const onnx::NodeProto& node, onnx::TensorProto& tensor) {
    ACT_TRY(const TensorType type, TypeOf(tensor));
    const NodeAttributes attrs(node);
    bytes_ = SaturatingAdd(bytes_, type.Bytes().fixed);
    if (bytes_ > kMostBytes)
      return MakeError(PlaceOf(node), "the values that the initialization makes have more than 2 GiB");
    const std::string& op = node.op_type();
    if (op == "Constant") {
      const onnx::TensorProto* value = attrs.Tensor("value");
      ACT_CHECK_OK(attrs.Check());
      return value ? Copy(*value, tensor) : MakeError(PlaceOf(node), "is not supported here", kHint);
    }
    if (op != "RandomNormal" && op != "RandomUniform" && op != "ConstantOfShape")
      return MakeError(PlaceOf(node), "is not supported in an initialization", kHint);
    if (type.dtype != DType::kFloat32)
      return MakeError(PlaceOf(node), "makes f32, '" + tensor.name() + "' is " + ToString(type));
    if (op == "ConstantOfShape") return FillBySame(node, type, tensor);
    const std::vector<int64_t> shape = attrs.Ints("shape");
    const double seed_given = attrs.Float("seed", 0);
    const double mean = attrs.Float("mean", 0), scale = attrs.Float("scale", 1);
    const double low = attrs.Float("low", 0), high = attrs.Float("high", 1);
    ACT_CHECK_OK(attrs.Check());
    if (type.dims != Dims(shape.begin(), shape.end()))
      return MakeError(PlaceOf(node), "has another shape than '" + tensor.name() + "', " + ToString(type));
    // A seed of the node's own is combined with the run's.
    const auto own = static_cast<uint64_t>(static_cast<int64_t>(seed_given * 0x1p16));
    const uint64_t seed = seed_ ^ (own << 8);
    Store(type,
          op == "RandomNormal" ? Normal(tensor.name(), type, mean, scale, seed)
                               : Uniform(tensor.name(), type, low, high, seed),
          tensor);
    return llvm::Error::success();
  }

  // ConstantOfShape: fills the tensor with the node's number. Another shape is an error.
  llvm::Error FillBySame(const onnx::NodeProto& node, const TensorType& type,
                         onnx::TensorProto& tensor) const {
    const std::optional<float> value = FillValue(node);
    const auto stored = node.input_size() == 1 ? tensors_.find(node.input(0)) : tensors_.end();
    const auto made = node.input_size() == 1 ? nodes_.find(node.input(0)) : nodes_.end();
    const onnx::TensorProto* shape = stored != tensors_.end() ? stored->second
                                     : made != nodes_.end()   ? NodeAttributes(*made->second).Tensor("value")
                                                              : nullptr;
    const auto extents = shape ? StoredShape(*shape) : std::nullopt;
    if (!value || !extents) return MakeError(PlaceOf(node), "is not supported in this form", kHint);
    if (type.dims != Dims(extents->begin(), extents->end()))
      return MakeError(PlaceOf(node), "has another shape than '" + tensor.name() + "', " + ToString(type));
    Store(type, Filled(type, *value), tensor);
    return llvm::Error::success();
  }

  static llvm::Error Copy(const onnx::TensorProto& from, onnx::TensorProto& to) {
    ACT_TRY(const TensorType want, TypeOf(to));
    ACT_TRY(const TensorType type, TypeOf(from));
    if (type != want)
      return MakeError("initialization of '" + to.name() + "'",
                       "is " + ToString(type) + ", the initializer is " + ToString(want));
    const std::string name = to.name();
    to = from;
    to.set_name(name);
    return llvm::Error::success();
  }

  uint64_t seed_;
  int64_t bytes_ = 0;  // made so far
  std::map<std::string, const onnx::TensorProto*> tensors_;
  std::map<std::string, const onnx::NodeProto*> nodes_;
};

}  // namespace

llvm::Error Initialize(onnx::GraphProto& graph, const onnx::TrainingInfoProto& info, uint64_t seed) {
  std::map<std::string, onnx::TensorProto*> initializers;
  for (auto& tensor : *graph.mutable_initializer()) initializers[tensor.name()] = &tensor;
  Initialization initialization(info.initialization(), seed);
  for (const auto& binding : info.initialization_binding()) {
    const auto it = initializers.find(binding.key());
    if (it == initializers.end())
      return MakeError("initialization of '" + binding.key() + "'", "the model has no such initializer");
    ACT_CHECK_OK(initialization.Fill(*it->second, binding.value()));
  }
  return llvm::Error::success();
}

}  // namespace act::onnx_import
