// Graphs inside nodes (the branches of If, the bodies of Loop and Scan): their nodes take the place of the
// node that has them, once or once an iteration.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/core/importer.h"
#include "compiler/import/core/needed_nodes.h"

namespace act::onnx_import {

class InnerGraph {
 public:
  // `owner` and `graph` must outlive this. Names inside the graph become unique by a prefix, which is made of
  // `label` and the name of the owner's first result.
  InnerGraph(const NodeContext& owner, const onnx::GraphProto& graph, const std::string& label);
  InnerGraph(const InnerGraph&) = delete;
  InnerGraph& operator=(const InnerGraph&) = delete;

  // Imports the nodes once more with these operands as the graph's inputs, and returns its outputs. `copy`
  // tells the names of this copy from those of the others. Constants of the graph are imported once, and
  // outer names are visible. Errors: what the import of a node refuses, with the owner as the first place;
  // outputs that nothing makes; more inner nodes in the whole import than the limit.
  llvm::Expected<std::vector<Operand>> Import(const std::string& copy, std::vector<Operand> inputs);

 private:
  llvm::Error Prepare();
  // Whether the node gives each copy the same known tensor. One with inputs is no valid Constant, and is refused
  // like any other node.
  bool IsShared(const onnx::NodeProto& node) const {
    return IsStandardDomain(node.domain()) && node.op_type() == "Constant" && node.input_size() == 0;
  }
  std::string Renamed(const std::string& name, const std::string& copy) const;
  onnx::NodeProto Copy(const onnx::NodeProto& node, const std::string& copy) const;

  const NodeContext& owner_;
  const onnx::GraphProto& graph_;
  std::string prefix_;
  bool prepared_ = false;
  Nodes nodes_;                   // of each copy
  std::set<std::string> own_;     // names that each copy has its own of
  std::set<std::string> shared_;  // names of constants
};

}  // namespace act::onnx_import
