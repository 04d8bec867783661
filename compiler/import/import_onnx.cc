#include "compiler/import/import_onnx.h"

#include <llvm/Support/GlobPattern.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/import/core/computed_weights.h"
#include "compiler/import/core/control_constants.h"
#include "compiler/import/core/define_inputs.h"
#include "compiler/import/core/drawn_masks.h"
#include "compiler/import/core/find_loss.h"
#include "compiler/import/core/functions.h"
#include "compiler/import/core/hoist_initializers.h"
#include "compiler/import/core/importer.h"
#include "compiler/import/core/inference_form.h"
#include "compiler/import/core/initializers.h"
#include "compiler/import/core/needed_nodes.h"
#include "compiler/import/core/prune.h"
#include "compiler/import/core/refusals.h"
#include "compiler/import/core/running_statistics.h"
#include "compiler/import/core/subgraphs.h"
#include "compiler/import/core/unread_weights.h"
#include "compiler/import/training/inference_part.h"
#include "compiler/import/training/ort_optimizer.h"
#include "compiler/import/training/training_graph.h"
#include "compiler/import/training/training_info.h"

namespace act {
namespace onnx_import {
namespace {

// Graph inputs that are data and not yet defined. Three kinds of inputs are no data: initializers,
// which may be listed among the inputs; inputs of a training graph that have a role; the rate and
// count of an optimizer.
std::vector<const onnx::ValueInfoProto*> FedInputs(const onnx::GraphProto& graph,
                                                   const std::optional<TrainingGraph>& training,
                                                   const std::optional<TrainingInfo>& info) {
  std::set<std::string> initializers;
  if (info) initializers = info->set_by_flag;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input())
    if (!initializers.count(input.name()) && !(training && training->roles.count(input.name())))
      inputs.push_back(&input);
  return inputs;
}

// Names of the outputs that may be the loss (or, with --loss, the predictions): the named one, else
// those whose declared type allows it, else all.
llvm::Expected<std::vector<std::string>> WantedOutputs(const onnx::GraphProto& graph,
                                                       const ImportOptions& options) {
  std::vector<std::string> all, declared;
  for (const auto& output : graph.output()) {
    all.push_back(output.name());
    const auto& type = output.type().tensor_type();
    const bool is_float = type.elem_type() == onnx::TensorProto::FLOAT;
    const bool is_scalar = type.has_shape() && type.shape().dim_size() == 0;
    if (is_float && is_scalar == options.loss.empty()) declared.push_back(output.name());
  }
  if (all.empty()) return MakeError("", "the model has no output");
  if (options.keep_outputs) return all;
  if (!options.loss_output.empty()) {
    if (std::find(all.begin(), all.end(), options.loss_output) == all.end())
      return MakeError("--loss-output=" + options.loss_output, "the model has no such output",
                       "its outputs are: " + Join(all));
    return std::vector<std::string>{options.loss_output};
  }
  return declared.size() == 1 ? declared : all;
}

llvm::Expected<std::vector<ValueId>> Trainable(const Graph& graph, const std::vector<std::string>& freeze) {
  std::vector<llvm::GlobPattern> globs;
  for (const std::string& text : freeze) {
    auto glob = llvm::GlobPattern::create(text);
    if (!glob) return MakeError("--freeze=" + text, llvm::toString(glob.takeError()));
    globs.push_back(std::move(*glob));
  }
  std::vector<bool> used(globs.size(), false);
  std::vector<ValueId> trainable;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind != ValueKind::kParameter) continue;
    bool frozen = false;
    for (size_t k = 0; k < globs.size(); ++k)
      if (globs[k].match(graph.values[i].name)) used[k] = frozen = true;
    if (!frozen) trainable.push_back(static_cast<ValueId>(i));
  }
  for (size_t k = 0; k < globs.size(); ++k)
    if (!used[k]) return MakeError("--freeze=" + freeze[k], "matches no parameter of the model");
  return trainable;
}

// PyTorch's dynamo exporter notes at each node where it comes from; the TorchScript exporter does
// not.
bool IsByTorchScript(const onnx::ModelProto& model) {
  const auto& nodes = model.graph().node();
  return model.producer_name() == "pytorch" &&
         std::all_of(nodes.begin(), nodes.end(),
                     [](const onnx::NodeProto& node) { return node.metadata_props().empty(); });
}

// Errors: flags that contradict a training graph's own loss or derivatives, and flags of training
// graphs for a model that is none.
llvm::Error CheckFlags(const ImportOptions& options, const std::optional<TrainingGraph>& training) {
  const struct {
    const char* flag;
    bool given, of_training;
  } flags[] = {{"--checkpoint", !options.checkpoint.empty(), true},
               {"--optimizer-model", !options.optimizer_model.empty(), true},
               {"--loss", !options.loss.empty(), false},
               {"--loss-output", !options.loss_output.empty(), false},
               {"--freeze-bn", options.freeze_bn, false}};
  for (const auto& [flag, given, of_training] : flags) {
    if (!given || of_training == training.has_value()) continue;
    if (of_training)
      return MakeError(flag, "the model is no training graph",
                       "this belongs to one, whose parameters are inputs (docs/onnx_import.md)");
    return MakeError(flag, "the model is a training graph with its own loss and backward pass",
                     "give actc the forward model instead");
  }
  return llvm::Error::success();
}

// The optimizer of --optimizer-model, else of the file optimizer_model.onnx beside a training
// graph.
llvm::Expected<std::optional<ModelOptimizer>> FindOptimizerModel(const std::string& model_path,
                                                                 const ImportOptions& options) {
  if (!options.own_optimizer) return std::nullopt;
  std::string path = options.optimizer_model;
  if (path.empty()) {
    path = (std::filesystem::path(model_path).parent_path() / "optimizer_model.onnx").string();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  }
  ACT_TRY(ModelOptimizer optimizer, ReadOrtOptimizer(path));
  return optimizer;
}

llvm::Expected<ImportResult> Import(ModelFile& file, const ImportOptions& options) {
  ImportResult result;
  HoistInitializers(*file.proto->mutable_graph());
  FixControlConstants(*file.proto);
  const onnx::GraphProto& graph = file.proto->graph();
  std::optional<TrainingGraph> training;
  std::optional<TrainingInfo> info;
  if (!options.keep_outputs) {
    // A loss named on the command line replaces the one of the training information.
    if (options.loss.empty() && options.loss_output.empty()) {
      ACT_TRY(info, ReadTrainingInfo(file, options.seed));
    }
    ACT_TRY(training, FindTrainingGraph(graph));
  }
  ACT_CHECK_OK(CheckFlags(options, training));
  if (!training) ACT_CHECK_OK(MaterializeWeights(file));  // a training graph's parameters are inputs
  ACT_TRY(const FlatNodes flat, ExpandFunctions(*file.proto));
  std::vector<std::string> outputs;
  Sides sides;
  if (training) {
    outputs = {training->loss};
    ACT_TRY(sides, SplitAtLoss(flat, *training));
  } else {
    if (info) {
      outputs = {info->loss};
    } else {
      ACT_TRY(outputs, WantedOutputs(graph, options));
    }
    ACT_TRY(sides.nodes, NeededNodes(flat, outputs));
    sides.phases.assign(sides.nodes.size(), Phase::kForward);
  }
  const Nodes& nodes = sides.nodes;

  Importer importer(result.graph, file.opset);
  importer.freeze_bn = options.freeze_bn;
  importer.keeps_outputs = options.keep_outputs;
  importer.torchscript = IsByTorchScript(*file.proto);
  importer.own_backward = training.has_value();
  importer.onnx_statistics = info.has_value();
  importer.drawn_masks = MasksOfDraws(nodes, outputs);
  if (info) importer.parameters = info->parameters;
  if (training) ACT_CHECK_OK(DefineParameters(importer, file, *training, options));
  ACT_TRY(const std::optional<int64_t> fixed_batch,
          DefineInputs(importer, FedInputs(graph, training, info), options));
  result.fixed_batch = fixed_batch.has_value();
  result.batch = fixed_batch.value_or(1);
  std::set<std::string> read(outputs.begin(), outputs.end());
  for (const onnx::NodeProto* node : nodes)
    for (const std::string& name : ReadNames(*node)) read.insert(name);
  ACT_CHECK_OK(DefineInitializers(importer, file, nodes, read, options, training.has_value()));
  std::map<std::string, size_t> readers;  // that are not imported yet
  for (const onnx::NodeProto* node : nodes)
    for (const std::string& name : ReadNames(*node)) ++readers[name];
  for (const std::string& name : outputs) ++readers[name];
  Refusals refusals;
  const auto import_node = [&](size_t i) -> llvm::Error {
    // This check goes first: it holds whatever the node reads.
    ACT_CHECK_OK(CheckSupported(*nodes[i], file.opset));
    if (refusals.Follows(*nodes[i])) return llvm::Error::success();
    ACT_CHECK_OK(CheckInputsDefined(importer, nodes, i));
    return importer.ImportNode(*nodes[i]);
  };
  const auto import_side = [&](bool forward) -> llvm::Error {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if ((sides.phases[i] == Phase::kForward) != forward) continue;
      importer.builder().SetPhase(sides.phases[i]);
      if (llvm::Error why = import_node(i)) refusals.Add(*nodes[i], std::move(why));
      for (const std::string& name : ReadNames(*nodes[i]))
        if (--readers[name] == 0) importer.Forget(name);
    }
    return refusals.Take();
  };
  ACT_CHECK_OK(import_side(true));
  for (const std::string& name : outputs)
    if (!importer.Find(name)) return MakeError("output '" + name + "'", "nothing makes it");
  ValueId loss = kNoValue;
  std::string loss_name;
  if (options.keep_outputs) {
    for (const std::string& name : outputs) {
      ACT_TRY(const ValueId value, importer.Materialize(*importer.Find(name)));
      result.graph.outputs.push_back(value);
    }
  } else if (options.loss.empty()) {
    ACT_TRY(const FoundLoss found, FindLoss(importer, outputs));
    loss = found.value;
    loss_name = found.name;
    result.graph.outputs = {loss};
  } else {
    ACT_TRY(loss, AddLoss(importer, outputs, options.loss));
    result.graph.outputs = {loss};
  }
  ACT_TRY(result.trainable, Trainable(result.graph, options.freeze));
  if (info) {
    std::erase_if(result.trainable,
                  [&](ValueId id) { return info->parameters.count(result.graph.value(id).name) == 0; });
    if (options.own_optimizer) result.optimizer = info->optimizer;
  }
  if (training) {
    ACT_CHECK_OK(import_side(false));
    result.own_backward = true;
    ACT_TRY(result.trainable, AddGradientOutputs(importer, *training, result.trainable));
    ACT_TRY(result.optimizer, FindOptimizerModel(file.path, options));
  }

  if (options.freeze_bn && !HasRunningStatistics(result.graph))
    importer.warnings.push_back("--freeze-bn: the model has no BatchNormalization");

  const std::map<std::string, HostTensor> weights = StoredWeights(result.graph);
  const std::vector<ValueId> moved = Prune(result.graph);
  ReturnUnreadWeights(*file.proto->mutable_graph(), weights, result.graph);
  ACT_CHECK_OK(CheckRunningStatistics(result.graph));
  const auto where = [&moved](ValueId id) {
    return id == kNoValue ? kNoValue : moved[static_cast<size_t>(id)];
  };
  result.loss = where(loss);
  result.logits = where(importer.logits);
  result.label = where(importer.label);
  std::erase_if(result.trainable, [&where](ValueId id) { return where(id) == kNoValue; });
  for (ValueId& id : result.trainable) id = where(id);
  result.warnings = std::move(importer.warnings);
  result.onnx_nodes = static_cast<int>(flat.nodes.size());
  result.model_name = std::filesystem::path(file.path).filename().string();
  if (training) KeepInferencePart(*file.proto->mutable_graph(), sides, *training, result.graph);
  if (info) DropAlgorithm(*file.proto, *info);
  if (!training && !info && !loss_name.empty()) DropLoss(*file.proto->mutable_graph(), loss_name);
  SettleMasks(*file.proto->mutable_graph(), importer.masks);
  result.skeleton = Skeleton(file, result.graph);
  return result;
}

}  // namespace
}  // namespace onnx_import

llvm::Expected<ImportResult> ImportOnnx(const std::string& path, const ImportOptions& options) {
  ACT_TRY(onnx_import::ModelFile file, onnx_import::ReadModel(path));
  llvm::Expected<ImportResult> result = onnx_import::Import(file, options);
  if (!result) return WithPlace(result.takeError(), path);
  return result;
}

}  // namespace act
