#include "compiler/import/ops/inner_graph.h"

#include <deque>

#include "compiler/import/core/constant_node.h"
#include "compiler/import/core/subgraphs.h"

namespace act::onnx_import {
namespace {

// The most elements that folding may make in them, so that a small file cannot ask for hours of it.
constexpr int64_t kMaxInnerElements = int64_t{1} << 25;

}  // namespace

InnerGraph::InnerGraph(const NodeContext& owner, const onnx::GraphProto& graph, const std::string& label)
    : owner_(owner), graph_(graph) {
  for (const std::string& name : owner.node.output())
    if (prefix_.empty()) prefix_ = name;
  prefix_ += "/" + label + "/";
}

std::string InnerGraph::Renamed(const std::string& name, const std::string& copy) const {
  if (own_.count(name)) return prefix_ + copy + name;
  return shared_.count(name) ? prefix_ + name : name;
}

onnx::NodeProto InnerGraph::Copy(const onnx::NodeProto& node, const std::string& copy) const {
  onnx::NodeProto made = node;
  RenameReads(made, [&](const std::string& name) { return Renamed(name, copy); });
  for (std::string& name : *made.mutable_output())
    if (!name.empty()) name = Renamed(name, copy);
  made.set_name(prefix_ + copy + (node.name().empty() ? node.op_type() : node.name()));
  return made;
}

llvm::Error InnerGraph::Prepare() {
  if (prepared_) return llvm::Error::success();
  prepared_ = true;
  if (graph_.sparse_initializer_size() > 0) return owner_.Fail("sparse initializers are not supported");
  FlatNodes flat;
  for (const auto& node : graph_.node()) flat.nodes.push_back(&node);
  std::vector<std::string> outputs;
  for (const auto& output : graph_.output()) outputs.push_back(output.name());
  ACT_TRY(const Nodes needed, NeededNodes(flat, outputs));
  for (const auto& input : graph_.input()) own_.insert(input.name());
  for (const onnx::NodeProto* node : needed) {
    if (!IsShared(*node)) nodes_.push_back(node);
    for (const std::string& name : node->output())
      if (!name.empty()) (IsShared(*node) ? shared_ : own_).insert(name);
  }
  for (const auto& tensor : graph_.initializer())
    if (!own_.count(tensor.name())) shared_.insert(tensor.name());
  for (const onnx::NodeProto* node : needed)
    if (IsShared(*node)) ACT_CHECK_OK(owner_.importer.ImportNode(Copy(*node, "")));
  for (const auto& tensor : graph_.initializer())
    if (shared_.count(tensor.name()))
      ACT_CHECK_OK(owner_.importer.ImportNode(ConstantNode(tensor, Renamed(tensor.name(), ""))));
  return llvm::Error::success();
}

llvm::Expected<std::vector<Operand>> InnerGraph::Import(const std::string& copy,
                                                        std::vector<Operand> inputs) {
  Importer& importer = owner_.importer;
  if (llvm::Error error = Prepare()) return WithPlace(std::move(error), PlaceOf(owner_.node));
  // One more than its nodes: an endless loop may have none.
  ACT_CHECK_OK(
      owner_.CountUnrolled(static_cast<int64_t>(nodes_.size()) + 1,
                           "a loop is unrolled: scan fewer steps, or use one of ONNX's recurrent layers"));
  std::deque<onnx::NodeProto> made;
  Nodes nodes;
  for (const onnx::NodeProto* node : nodes_) nodes.push_back(&made.emplace_back(Copy(*node, copy)));
  for (size_t i = 0; i < inputs.size(); ++i)
    ACT_CHECK_OK(
        importer.Define(Renamed(graph_.input(static_cast<int>(i)).name(), copy), std::move(inputs[i])));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto import = [&]() -> llvm::Error {
      ACT_CHECK_OK(CheckSupported(*nodes[i], importer.opset()));
      ACT_CHECK_OK(CheckInputsDefined(importer, nodes, i));
      return importer.ImportNode(*nodes[i]);
    };
    if (llvm::Error error = import()) return WithPlace(std::move(error), PlaceOf(owner_.node));
  }
  std::vector<Operand> results;
  for (const auto& output : graph_.output()) {
    const Operand* found = importer.Find(Renamed(output.name(), copy));
    if (!found) return owner_.Fail("output '" + output.name() + "' of its graph is not made");
    results.push_back(*found);
  }
  for (const std::string& name : own_) {
    const Operand* inner = importer.Find(prefix_ + copy + name);
    if (inner && inner->known) importer.inner_elements += static_cast<int64_t>(inner->known->elements.size());
    importer.Erase(prefix_ + copy + name);
  }
  if (importer.inner_elements > kMaxInnerElements)
    return owner_.Fail("its iterations fold more than " + std::to_string(kMaxInnerElements) + " numbers");
  return results;
}

}  // namespace act::onnx_import
