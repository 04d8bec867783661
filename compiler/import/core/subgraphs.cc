#include "compiler/import/core/subgraphs.h"

#include <set>

namespace act::onnx_import {
namespace {

void RenameOuter(onnx::GraphProto& graph, const std::function<std::string(const std::string&)>& name) {
  std::set<std::string> own;
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& node : graph.node()) own.insert(node.output().begin(), node.output().end());
  const auto outer = [&](const std::string& n) { return own.count(n) ? n : name(n); };
  for (auto& node : *graph.mutable_node()) RenameReads(node, outer);
  for (auto& output : *graph.mutable_output())
    if (!output.name().empty()) output.set_name(outer(output.name()));
}

}  // namespace

void RenameReads(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name) {
  for (std::string& input : *node.mutable_input())
    if (!input.empty()) input = name(input);
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) RenameOuter(*attribute.mutable_g(), name);
    for (auto& graph : *attribute.mutable_graphs()) RenameOuter(graph, name);
  }
}

std::vector<std::string> ReadNames(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  const auto note = [&names](const std::string& name) {
    names.push_back(name);
    return name;
  };
  bool has_graph = false;
  for (const auto& attribute : node.attribute())
    has_graph = has_graph || attribute.has_g() || attribute.graphs_size() > 0;
  if (!has_graph) return {node.input().begin(), node.input().end()};
  onnx::NodeProto copy = node;
  RenameReads(copy, note);
  return names;
}

}  // namespace act::onnx_import
