#include "compiler/import/core/needed_nodes.h"

#include <map>

#include "compiler/import/core/node_opset.h"
#include "compiler/import/core/subgraphs.h"
#include "compiler/import/file/onnx_versions.h"

namespace act::onnx_import {
namespace {

// Below opset 7 operators broadcast by attributes, and some had other attributes and inputs than
// later. Only operators whose meaning is still that of opset 7 are read.
bool HasOldForm(const onnx::NodeProto& node, int64_t opset) {
  constexpr int64_t kOldestForms = 7;
  return opset < kOldestForms &&
         OnnxVersionAt(node.op_type(), opset) != OnnxVersionAt(node.op_type(), kOldestForms);
}

// What can be done about an operator that is not supported.
std::string HintFor(const onnx::NodeProto& node) {
  const std::string& op = node.op_type();
  if (node.domain() == kMicrosoft && op.find("Grad") != std::string::npos)
    return "compile the forward model with --loss=KIND: actc derives its gradients";
  if (op.find("Quantize") != std::string::npos || op.starts_with("QLinear") || op.ends_with("Integer"))
    return "train the float32 model that was quantized";
  if (!IsStandardDomain(node.domain()))
    return "export the model with standard operators, or with a function for this one in the file";
  return "docs/operators.md lists those that are supported";
}

}  // namespace

std::string Join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

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
    for (const std::string& name : ReadNames(*flat.nodes[it->second])) open.push_back(name);
  }
  Nodes nodes;
  for (size_t i = 0; i < flat.nodes.size(); ++i)
    if (needed[i]) nodes.push_back(flat.nodes[i]);
  return nodes;
}

llvm::Error CheckSupported(const onnx::NodeProto& node, int64_t models_opset) {
  const int64_t opset = OpsetOf(node, models_opset);
  const std::string at = "opset " + std::to_string(opset);
  if (!IsSupported(node))
    return MakeError(PlaceOf(node),
                     "the operator is not supported (domain " +
                         (node.domain().empty() ? "ai.onnx" : node.domain()) + ", " + at + ")",
                     HintFor(node));
  if (HasOldForm(node, opset))
    return MakeError(
        PlaceOf(node), "has at " + at + " a form that changed until opset 7",
        "export the model again with opset_version=17, or convert it with onnx.version_converter");
  return llvm::Error::success();
}

llvm::Error CheckInputsDefined(const Importer& importer, const Nodes& nodes, size_t position) {
  const onnx::NodeProto& node = *nodes[position];
  for (const std::string& name : ReadNames(node)) {
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

}  // namespace act::onnx_import
