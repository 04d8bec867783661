#include "compiler/import/core/initializers.h"

#include <algorithm>
#include <map>

#include "compiler/import/core/computed_weights.h"
#include "compiler/import/core/initial_numbers.h"
#include "compiler/import/core/running_statistics.h"
#include "compiler/import/core/weight_operands.h"

namespace act::onnx_import {
namespace {

// By the dynamo exporter: PARAMETER, BUFFER or CONSTANT_TENSOR.
constexpr char kKindKey[] = "pkg.torch.export.graph_signature.InputSpec.kind";
// By the Python helper, of running statistics: "stored" where the layer is in evaluation mode.
constexpr char kStatisticsKey[] = "act.statistics";

// name -> what the metadata of its value_info has under this key.
std::map<std::string, std::string> InMetadata(const onnx::GraphProto& graph, const char* key) {
  std::map<std::string, std::string> found;
  for (const auto& info : graph.value_info())
    for (const auto& entry : info.metadata_props())
      if (entry.key() == key) found[info.name()] = entry.value();
  return found;
}

bool IsExportersName(const std::string& name) {
  for (const char* prefix : {"onnx::", "/", "val_", "_to_copy", "scalar_tensor"})
    if (name.rfind(prefix, 0) == 0) return true;
  return false;
}

// "'a', 'b', 'c' and 5 more"
std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kMost ? text + " and " + std::to_string(names.size() - kMost) + " more" : text;
}

}  // namespace

llvm::Error DefineInitializers(Importer& importer, ModelFile& file,
                               const std::vector<const onnx::NodeProto*>& nodes,
                               const std::set<std::string>& read, const ImportOptions& options,
                               bool all_constant) {
  onnx::GraphProto& graph = *file.proto->mutable_graph();
  if (graph.sparse_initializer_size() > 0)
    return MakeError("tensor '" + graph.sparse_initializer(0).values().name() + "'",
                     "sparse initializers are not supported");
  const auto kinds = InMetadata(graph, kKindKey);
  for (const auto& [name, which] : InMetadata(graph, kStatisticsKey))
    if (which == "stored") importer.stored_statistics.insert(name);
  const auto statistics = RunningStatistics(nodes), never = NeverWeights(nodes);
  const bool numbers_too = MixesNumbersWithWeights(*file.proto);
  const auto weights = numbers_too ? MayBeWeights(nodes) : std::set<std::string>();
  std::vector<std::string> numbers;
  ExternalData external(file.path);
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    const std::string& name = tensor.name();
    if (!read.count(name)) continue;
    if (name.empty()) return MakeError("", "an initializer of the model has no name");
    ACT_TRY(const TensorType type, TypeOf(tensor));
    const auto it = kinds.find(name);
    const std::string kind = it == kinds.end() ? "" : it->second;
    const bool is_buffer = kind == "BUFFER" || statistics.count(name);
    const auto fill = file.fills.find(name);
    const bool exporters =
        fill == file.fills.end() && kind.empty() && IsExportersName(name) && type.Elements() == Dim(1);
    // A bias has an axis, even if the layer has one result. The scalar that jax2onnx gives Gemm is a 0.
    const bool number = numbers_too && type.Elements() == Dim(1) && kind.empty() &&
                        (type.rank() == 0 || !weights.count(name)) && fill == file.fills.end();
    const bool is_constant =
        !IsFloat(type.dtype) || (kind == "BUFFER" && type.dtype != DType::kFloat32) ||
        (!importer.parameters.count(name) && (kind == "CONSTANT_TENSOR" || exporters || number ||
                                              all_constant || (kind.empty() && never.count(name))));

    if (is_constant && !statistics.count(name)) {
      if (number && IsFloat(type.dtype) && !all_constant) numbers.push_back(name);
      onnx::TensorProto copy = tensor;  // the skeleton keeps these
      ACT_TRY(const ConstantTensor constant, TakeConstant(copy, external));
      Operand operand{.type = constant.type};
      if (type.Elements().fixed <= kMaxKnownElements) {
        llvm::Expected<Known> known = ToKnown(constant.type, constant.data);
        if (!known) return WithPlace(known.takeError(), "tensor '" + name + "'");
        operand.known = std::move(*known);
      } else {
        operand.value = importer.builder().Constant(name, constant.type, constant.data);
      }
      ACT_CHECK_OK(importer.Define(name, std::move(operand)));
      continue;
    }
    if (type.dtype != DType::kFloat32)
      return MakeError("tensor '" + name + "'",
                       "is " + std::string(ToString(type.dtype)) + "; training computes in f32",
                       "export the model in float32");
    HostTensor data;
    if (fill == file.fills.end()) {
      ACT_TRY(data, TakeData(tensor, type, external, options.init_he || options.report_only));
      if (!data.owner && options.init_he) data = HeNormal(name, type, options.seed);
    } else if (options.init_he && type.rank() > 1) {
      data = HeNormal(name, type, options.seed);
    } else if (!options.report_only) {
      data = Filled(type, fill->second);
    }
    const ValueId value = importer.builder().Input(
        name, type, is_buffer ? ValueKind::kBuffer : ValueKind::kParameter, std::move(data));
    ACT_CHECK_OK(importer.Define(name, Operand{.type = type, .value = value}));
  }
  if (!numbers.empty())
    importer.warnings.push_back(
        "initializers of one element that no layer reads as a weight are constants and do not train: " +
        Some(numbers));
  return llvm::Error::success();
}

HostTensor Skeleton(ModelFile& file, const Graph& graph) {
  std::set<std::string> in_graph;
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer) in_graph.insert(value.name);
  for (onnx::TensorProto& tensor : *file.proto->mutable_graph()->mutable_initializer()) {
    if (!in_graph.count(tensor.name())) continue;
    tensor.clear_raw_data();
    tensor.clear_float_data();
    tensor.clear_external_data();
    tensor.clear_data_location();
  }
  const auto bytes = std::make_shared<const std::string>(file.proto->SerializeAsString());
  return {bytes, reinterpret_cast<const std::byte*>(bytes->data()), static_cast<int64_t>(bytes->size())};
}

}  // namespace act::onnx_import
