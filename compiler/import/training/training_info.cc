#include "compiler/import/training/training_info.h"

#include "compiler/import/core/importer.h"
#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

// "An execution of the training algorithm step is performed by executing the graph obtained by
// combining the inference graph and the algorithm graph": a concatenation. Returns the names that
// the algorithm makes. Errors: one that the model has too.
llvm::Expected<std::set<std::string>> Append(const onnx::GraphProto& algorithm, onnx::GraphProto& graph) {
  const auto names_of = [](const onnx::GraphProto& g) {
    std::set<std::string> names;
    for (const auto& node : g.node()) names.insert(node.output().begin(), node.output().end());
    for (const auto& tensor : g.initializer()) names.insert(tensor.name());
    for (const auto& input : g.input()) names.insert(input.name());
    names.erase("");
    return names;
  };
  const std::set<std::string> of_model = names_of(graph);
  std::set<std::string> names = names_of(algorithm);
  for (const std::string& name : names)
    if (of_model.count(name))
      return MakeError("value '" + name + "'", "is made by the model and by its training algorithm");
  graph.mutable_node()->MergeFrom(algorithm.node());
  graph.mutable_initializer()->MergeFrom(algorithm.initializer());
  graph.mutable_input()->MergeFrom(algorithm.input());
  graph.mutable_value_info()->MergeFrom(algorithm.value_info());
  return names;
}

}  // namespace

llvm::Expected<std::optional<TrainingInfo>> ReadTrainingInfo(ModelFile& file, uint64_t seed) {
  const onnx::TrainingInfoProto* proto = nullptr;
  for (const auto& info : file.proto->training_info()) {
    if (info.algorithm().node_size() == 0) continue;
    if (proto)
      return MakeError("training_info", "the model has several training algorithms", "a plan has one");
    proto = &info;
  }
  if (!proto) return std::nullopt;
  onnx::GraphProto& graph = *file.proto->mutable_graph();
  ACT_TRY(const std::set<std::string> names, Append(proto->algorithm(), graph));
  ACT_CHECK_OK(Initialize(graph, *proto, seed));
  ACT_TRY(TrainingInfo info, ReadAlgorithm(graph, *proto, file.path));
  info.names = names;
  return info;
}

void DropAlgorithm(onnx::ModelProto& model, const TrainingInfo& info) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto drop = [](auto* list, const auto& name_of, const std::set<std::string>& names) {
    for (int i = list->size() - 1; i >= 0; --i)
      if (names.count(name_of(list->Get(i)))) list->DeleteSubrange(i, 1);
  };
  const auto name = [](const auto& item) { return item.name(); };
  drop(
      graph.mutable_node(),
      [](const onnx::NodeProto& node) { return node.output_size() > 0 ? node.output(0) : ""; }, info.names);
  drop(graph.mutable_initializer(), name, info.names);
  drop(graph.mutable_input(), name, info.names);
  drop(graph.mutable_value_info(), name, info.names);
  model.clear_training_info();
}

}  // namespace act::onnx_import
