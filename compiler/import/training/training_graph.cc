#include "compiler/import/training/training_graph.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/import/core/initial_numbers.h"
#include "compiler/import/core/symbols.h"
#include "compiler/import/file/ort_checkpoint.h"

namespace act::onnx_import {
namespace {

constexpr std::string_view kBufferSuffix = "_grad.accumulation.buffer";

bool Is(const onnx::NodeProto& node, const char* op) {
  return node.domain() == kMicrosoft && node.op_type() == op;
}

// The values of --checkpoint, else of the file `checkpoint` beside the model where it is there.
llvm::Expected<std::optional<OrtCheckpoint>> FindCheckpoint(const std::string& model_path,
                                                            const ImportOptions& options) {
  std::string path = options.checkpoint;
  if (path.empty()) {
    path = (std::filesystem::path(model_path).parent_path() / "checkpoint").string();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  }
  ACT_TRY(OrtCheckpoint checkpoint, ReadOrtCheckpoint(path));
  return checkpoint;
}

llvm::Expected<HostTensor> InitialValue(const std::string& name, const TensorType& type,
                                        const std::optional<OrtCheckpoint>& checkpoint,
                                        const ImportOptions& options) {
  const std::string place = "parameter '" + name + "'";
  if (checkpoint) {
    const auto it = checkpoint->find(name);
    if (it == checkpoint->end()) return MakeError(place, "the checkpoint does not hold it");
    if (it->second.type != type)
      return MakeError(
          place, "is " + ToString(it->second.type) + " in the checkpoint, the model takes " + ToString(type));
    return it->second.data;
  }
  if (options.init_he) return HeNormal(name, type, options.seed);
  if (options.report_only) return HostTensor{};
  return MakeError(
      place, "has no initial value",
      "put the file `checkpoint` beside the model, name it with --checkpoint=FILE, or start from "
      "seeded weights with --init=he");
}

}  // namespace

llvm::Expected<std::optional<TrainingGraph>> FindTrainingGraph(const onnx::GraphProto& graph) {
  TrainingGraph training;
  std::set<std::string> inputs;
  for (const auto& input : graph.input()) inputs.insert(input.name());
  for (const onnx::NodeProto& node : graph.node()) {
    if (Is(node, "BatchNormInternal") && node.input_size() == 5)
      for (int i : {3, 4}) training.roles[node.input(i)] = TrainingGraph::Role::kStatistic;
    if (!Is(node, "InPlaceAccumulatorV2")) continue;
    if (node.input_size() != 3) return MakeError(PlaceOf(node), "must have 3 inputs");
    const std::string& buffer = node.input(0);
    const std::string parameter(buffer, 0, buffer.size() - std::min(buffer.size(), kBufferSuffix.size()));
    if (!buffer.ends_with(kBufferSuffix) || !inputs.count(buffer) || !inputs.count(parameter))
      return MakeError(PlaceOf(node), "accumulates into '" + buffer + "', which belongs to no parameter",
                       "a parameter P is an input, and so is P" + std::string(kBufferSuffix));
    if (!training.roles.emplace(buffer, TrainingGraph::Role::kAccumulation).second)
      return MakeError(PlaceOf(node), "is the second one of '" + parameter + "'");
    training.roles[node.input(2)] = TrainingGraph::Role::kAccumulation;
    training.roles[parameter] = TrainingGraph::Role::kParameter;
    training.gradients.push_back({parameter, node.input(1)});
  }
  if (training.gradients.empty()) return std::nullopt;
  if (graph.output_size() == 0) return MakeError("", "the model has no output");
  training.loss = graph.output(0).name();
  return training;
}

llvm::Expected<Sides> SplitAtLoss(const FlatNodes& flat, const TrainingGraph& training) {
  std::vector<std::string> wanted;
  for (const TrainingGraph::Gradient& g : training.gradients) wanted.push_back(g.gradient);
  ACT_TRY(Nodes forward, NeededNodes(flat, {training.loss}));
  ACT_TRY(const Nodes needed, NeededNodes(flat, wanted));
  Sides sides{forward, std::vector<Phase>(forward.size(), Phase::kForward)};
  const std::set<const onnx::NodeProto*> is_forward(forward.begin(), forward.end());
  const std::string start = training.loss + "_grad";
  std::set<std::string> of_backward{start};
  for (const onnx::NodeProto* node : needed) {
    if (is_forward.count(node)) continue;
    bool backward = false;
    for (const std::string& name : node->input()) backward |= of_backward.count(name) != 0;
    for (const std::string& name : node->output())
      if (backward && !name.empty()) of_backward.insert(name);
    sides.nodes.push_back(node);
    sides.phases.push_back(backward ? Phase::kBackward : Phase::kDerived);
  }
  for (const TrainingGraph::Gradient& g : training.gradients)
    if (!of_backward.count(g.gradient))
      return MakeError("gradient '" + g.gradient + "'",
                       "does not depend on that of the loss, '" + start + "'");
  return sides;
}

llvm::Error DefineParameters(Importer& importer, const ModelFile& file, TrainingGraph& training,
                             const ImportOptions& options) {
  using Role = TrainingGraph::Role;
  ACT_TRY(const std::optional<OrtCheckpoint> checkpoint, FindCheckpoint(file.path, options));
  for (const auto& input : file.proto->graph().input()) {
    const std::string& name = input.name();
    if (checkpoint && checkpoint->count(name)) training.roles.emplace(name, Role::kParameter);
    const auto role = training.roles.find(name);
    if (role == training.roles.end() || role->second == Role::kAccumulation) continue;
    ACT_TRY(const TensorType type, InputType(input, std::nullopt, {}));
    if (type.dtype != DType::kFloat32)
      return MakeError("parameter '" + name + "'", "is " + ToString(type) + "; training computes in f32");
    ACT_TRY(HostTensor data, InitialValue(name, type, checkpoint, options));
    const ValueKind kind = role->second == Role::kStatistic ? ValueKind::kBuffer : ValueKind::kParameter;
    const ValueId value = importer.builder().Input(name, type, kind, std::move(data));
    ACT_CHECK_OK(importer.Define(name, Operand{.type = type, .value = value}));
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<ValueId>> AddGradientOutputs(Importer& importer, const TrainingGraph& training,
                                                        const std::vector<ValueId>& trainable) {
  Graph& graph = importer.builder().graph();
  std::set<ValueId> read;
  for (const Node& node : graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  std::vector<ValueId> trained;
  for (const TrainingGraph::Gradient& g : training.gradients) {
    const Operand& parameter = *importer.Find(g.parameter);
    const Operand& gradient = *importer.Find(g.gradient);
    if (std::find(trainable.begin(), trainable.end(), parameter.value) == trainable.end())
      continue;  // --freeze
    const std::string place = "gradient '" + g.gradient + "'";
    if (!read.count(parameter.value)) return MakeError(place, "is of a parameter that nothing reads");
    if (gradient.type != parameter.type)
      return MakeError(place,
                       "is " + ToString(gradient.type) + ", its parameter is " + ToString(parameter.type));
    llvm::Expected<ValueId> value = importer.Materialize(gradient);
    if (!value) return WithPlace(value.takeError(), place);
    trained.push_back(parameter.value);
    graph.outputs.push_back(*value);
  }
  return trained;
}

}  // namespace act::onnx_import
