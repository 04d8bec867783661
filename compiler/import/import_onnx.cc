#include "compiler/import/import_onnx.h"

#include <llvm/Support/GlobPattern.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/import/append_loss.h"
#include "compiler/import/computed_weights.h"
#include "compiler/import/functions.h"
#include "compiler/import/importer.h"
#include "compiler/import/initializers.h"
#include "compiler/import/onnx_versions.h"
#include "compiler/import/prune.h"
#include "compiler/import/symbols.h"

namespace act {
namespace onnx_import {
namespace {

using Nodes = std::vector<const onnx::NodeProto*>;

std::string Join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// Graph inputs that are fed: initializers may be listed among the inputs as their defaults.
std::vector<const onnx::ValueInfoProto*> FedInputs(const onnx::GraphProto& graph) {
  std::set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input())
    if (!initializers.count(input.name())) inputs.push_back(&input);
  return inputs;
}

// Names of the outputs that may be the loss (or, with --loss, the predictions): the named one, else those
// whose declared type allows it, else all.
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

// The nodes that the outputs need, in the model's order.
llvm::Expected<Nodes> NeededNodes(const FlatNodes& flat, const std::vector<std::string>& outputs) {
  std::map<std::string, size_t> producer;
  for (size_t i = 0; i < flat.nodes.size(); ++i)
    for (const std::string& name : flat.nodes[i]->output())
      if (!name.empty() && !producer.emplace(name, i).second)
        return MakeError(PlaceOf(*flat.nodes[i]),
                         "'" + name + "' is made twice; every name may have one producer");
  std::vector<bool> needed(flat.nodes.size(), false);
  std::vector<std::string> open = outputs;
  while (!open.empty()) {
    const auto it = producer.find(open.back());
    open.pop_back();
    if (it == producer.end() || needed[it->second]) continue;
    needed[it->second] = true;
    for (const std::string& name : flat.nodes[it->second]->input()) open.push_back(name);
  }
  Nodes nodes;
  for (size_t i = 0; i < flat.nodes.size(); ++i)
    if (needed[i]) nodes.push_back(flat.nodes[i]);
  return nodes;
}

// Below opset 7 operators broadcast by attributes, and had other attributes and inputs than since. Only those
// that mean there what they mean at opset 7 are read.
bool HasOldForm(const onnx::NodeProto& node, int64_t opset) {
  constexpr int64_t kOldestForms = 7;
  return opset < kOldestForms &&
         OnnxVersionAt(node.op_type(), opset) != OnnxVersionAt(node.op_type(), kOldestForms);
}

// Every operator that is missing, not only the first.
llvm::Error CheckSupported(const Nodes& nodes, int64_t opset) {
  constexpr size_t kShown = 20;
  std::vector<std::string> missing;
  for (const onnx::NodeProto* node : nodes) {
    if (IsSupported(*node) && HasOldForm(*node, opset))
      return MakeError(
          PlaceOf(*node), "has at opset " + std::to_string(opset) + " a form that changed until opset 7",
          "export the model again with opset_version=17, or convert it with onnx.version_converter");
    if (IsSupported(*node)) continue;
    const std::string domain = node->domain().empty() ? "ai.onnx" : node->domain();
    missing.push_back(PlaceOf(*node) + " of domain " + domain + ", opset " + std::to_string(opset));
  }
  if (missing.empty()) return llvm::Error::success();
  const size_t count = missing.size();
  if (count > kShown) {
    missing.resize(kShown);
    missing.push_back("and " + std::to_string(count - kShown) + " more");
  }
  return MakeError(count == 1 ? "1 node" : std::to_string(count) + " nodes",
                   "operators that are not supported: " + Join(missing));
}

llvm::Error CheckInputsDefined(const Importer& importer, const Nodes& nodes, size_t position) {
  const onnx::NodeProto& node = *nodes[position];
  for (const std::string& name : node.input()) {
    if (name.empty() || importer.Find(name)) continue;
    for (size_t i = position; i < nodes.size(); ++i)
      for (const std::string& made : nodes[i]->output())
        if (made == name)
          return MakeError(PlaceOf(node), "reads '" + name + "', which " + PlaceOf(*nodes[i]) +
                                              " makes later: a cycle, or nodes out of order");
    return MakeError(PlaceOf(node), "reads '" + name + "', which nothing makes");
  }
  return llvm::Error::success();
}

llvm::Error DefineInputs(Importer& importer, const onnx::GraphProto& graph, const ImportOptions& options,
                         ImportResult& result) {
  const auto inputs = FedInputs(graph);
  const auto batch = BatchSymbol(inputs, options.dims);
  std::set<std::string> symbols;
  for (const auto* input : inputs) {
    for (const auto& dim : input->type().tensor_type().shape().dim()) symbols.insert(dim.dim_param());
    ACT_TRY(const TensorType type, InputType(*input, batch, options.dims));
    const ValueId value = importer.builder().Input(input->name(), type, ValueKind::kInput);
    ACT_CHECK_OK(importer.Define(input->name(), Operand{type, value, std::nullopt, {}, {}, kNoValue}));
  }
  symbols.erase("");
  for (const auto& [name, extent] : options.dims) {
    if (!symbols.count(name))
      return MakeError("--dim=" + name, "no axis of an input has this name",
                       symbols.empty() ? "the model has no symbolic axes"
                                       : "the symbolic axes are: " + Join({symbols.begin(), symbols.end()}));
    if (extent < 1) return MakeError("--dim=" + name, "the extent must be positive");
  }
  result.fixed_batch = !batch;
  if (!batch && !inputs.empty() && importer.Find(inputs[0]->name())->type.rank() > 0)
    result.batch = importer.Find(inputs[0]->name())->type.dims[0].fixed;
  return llvm::Error::success();
}

// The loss in the model: the named output, or the only one that is a scalar float.
llvm::Expected<ValueId> FindLoss(Importer& importer, const std::vector<std::string>& outputs) {
  std::vector<std::string> scalars, all;
  for (const std::string& name : outputs) {
    const TensorType& type = importer.Find(name)->type;
    all.push_back(name + " " + ToString(type));
    if (type.dtype == DType::kFloat32 && type.Elements() == Dim(1)) scalars.push_back(name);
  }
  if (scalars.size() == 1) {
    ACT_TRY(const ValueId loss, importer.Materialize(*importer.Find(scalars[0])));
    if (importer.builder().graph().value(loss).kind != ValueKind::kActivation)
      return MakeError("output '" + scalars[0] + "'", "does not depend on anything that trains");
    return importer.builder().Reshape(loss, {}, "loss");
  }
  if (scalars.empty())
    return MakeError("", "no output is a loss (a scalar float); the outputs are: " + Join(all),
                     "--loss=cross-entropy (or mse, l1, smooth-l1, bce-with-logits) adds a loss to a model "
                     "that ends in predictions");
  return MakeError("", "several outputs may be the loss: " + Join(scalars),
                   "name it with --loss-output=NAME");
}

llvm::Expected<ValueId> AddLoss(Importer& importer, const std::vector<std::string>& outputs,
                                const std::string& kind) {
  if (outputs.size() != 1)
    return MakeError("--loss", "the model has several outputs: " + Join(outputs),
                     "name the predictions with --loss-output=NAME");
  if (importer.Find("label")) return MakeError("--loss", "the model already has a value 'label'");
  ACT_TRY(const ValueId predictions, importer.Materialize(*importer.Find(outputs[0])));
  ACT_TRY(const AppendedLoss added, AppendLoss(importer.builder(), kind, predictions));
  if (added.logits != kNoValue) {
    importer.logits = added.logits;
    importer.label = added.label;
  }
  return added.loss;
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

llvm::Expected<ImportResult> Import(ModelFile& file, const ImportOptions& options) {
  ImportResult result;
  ACT_CHECK_OK(MaterializeWeights(file));
  ACT_TRY(const FlatNodes flat, ExpandFunctions(*file.proto));
  const onnx::GraphProto& graph = file.proto->graph();
  ACT_TRY(const std::vector<std::string> outputs, WantedOutputs(graph, options));
  ACT_TRY(const Nodes nodes, NeededNodes(flat, outputs));
  ACT_CHECK_OK(CheckSupported(nodes, file.opset));

  Importer importer(result.graph, file.opset);
  importer.freeze_bn = options.freeze_bn;
  ACT_CHECK_OK(DefineInputs(importer, graph, options, result));
  std::set<std::string> read(outputs.begin(), outputs.end());
  for (const onnx::NodeProto* node : nodes) read.insert(node->input().begin(), node->input().end());
  ACT_CHECK_OK(DefineInitializers(importer, file, nodes, read, options));
  for (size_t i = 0; i < nodes.size(); ++i) {
    ACT_CHECK_OK(CheckInputsDefined(importer, nodes, i));
    ACT_CHECK_OK(importer.ImportNode(*nodes[i]));
  }
  for (const std::string& name : outputs)
    if (!importer.Find(name)) return MakeError("output '" + name + "'", "nothing makes it");
  ValueId loss = kNoValue;
  if (options.keep_outputs) {
    for (const std::string& name : outputs) {
      ACT_TRY(const ValueId value, importer.Materialize(*importer.Find(name)));
      result.graph.outputs.push_back(value);
    }
  } else {
    ACT_TRY(loss,
            options.loss.empty() ? FindLoss(importer, outputs) : AddLoss(importer, outputs, options.loss));
    result.graph.outputs = {loss};
  }
  const std::vector<ValueId> moved = Prune(result.graph);
  const auto where = [&moved](ValueId id) {
    return id == kNoValue ? kNoValue : moved[static_cast<size_t>(id)];
  };
  result.loss = where(loss);
  result.logits = where(importer.logits);
  result.label = where(importer.label);
  result.onnx_nodes = static_cast<int>(flat.nodes.size());
  result.model_name = std::filesystem::path(file.path).filename().string();
  ACT_TRY(result.trainable, Trainable(result.graph, options.freeze));
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
