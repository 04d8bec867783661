#include "compiler/import/core/subgraphs.h"

#include <set>

namespace act::onnx_import {
namespace {

using Naming = std::function<std::string(const std::string&)>;

// What the graph itself makes or is given.
std::set<std::string> OwnNames(const onnx::GraphProto& graph) {
  std::set<std::string> own;
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& node : graph.node()) own.insert(node.output().begin(), node.output().end());
  return own;
}

void RenameOuter(onnx::GraphProto& graph, const Naming& name) {
  const std::set<std::string> own = OwnNames(graph);
  const auto outer = [&](const std::string& n) { return own.count(n) ? n : name(n); };
  for (auto& node : *graph.mutable_node()) RenameReads(node, outer);
  for (auto& output : *graph.mutable_output())
    if (!output.name().empty()) output.set_name(outer(output.name()));
}

void RenameGraph(onnx::GraphProto& graph, const Naming& name, const std::string& prefix) {
  const std::set<std::string> own = OwnNames(graph);
  const Naming inner = [&](const std::string& n) {
    if (n.empty()) return n;
    return own.count(n) ? prefix + n : name(n);
  };
  for (auto& input : *graph.mutable_input()) input.set_name(inner(input.name()));
  for (auto& tensor : *graph.mutable_initializer()) tensor.set_name(inner(tensor.name()));
  for (auto& output : *graph.mutable_output()) output.set_name(inner(output.name()));
  for (auto& node : *graph.mutable_node()) RenameAll(node, inner, prefix);
}

}  // namespace

void RenameAll(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name,
               const std::string& prefix) {
  for (std::string& input : *node.mutable_input()) input = name(input);
  for (std::string& output : *node.mutable_output()) output = name(output);
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) RenameGraph(*attribute.mutable_g(), name, prefix);
    for (auto& graph : *attribute.mutable_graphs()) RenameGraph(graph, name, prefix);
  }
}

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
