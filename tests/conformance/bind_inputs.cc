#include "tests/conformance/bind_inputs.h"

#include <algorithm>
#include <iterator>

#include "compiler/import/core/constant_node.h"

namespace act::conformance {
namespace {

// The operands that are read while compiling. All others are data. docs/onnx_import.md says why.
struct ConstantOperands {
  const char* op;
  std::vector<int> positions;
};
const std::vector<ConstantOperands>& Table() {
  static const std::vector<ConstantOperands> table = {
      {"Reshape", {1}},
      {"Expand", {1}},
      {"Tile", {1}},
      {"Slice", {1, 2, 3, 4}},
      {"Pad", {1, 2, 3}},
      {"Split", {1}},
      {"Squeeze", {1}},
      {"Unsqueeze", {1}},
      {"Resize", {1, 2, 3}},
      {"Upsample", {1}},
      {"Range", {0, 1, 2}},
      {"ConstantOfShape", {0}},
      {"OneHot", {1}},
      {"TopK", {1}},
      {"CumSum", {1}},
      {"Dropout", {1, 2}},
      {"Trilu", {1}},
      {"NonZero", {0}},
      {"Compress", {1}},
      {"SplitToSequence", {1}},
      {"SequenceAt", {1}},
      {"ReduceSum", {1}},
      {"ReduceMean", {1}},
      {"ReduceMax", {1}},
      {"ReduceMin", {1}},
      {"ReduceProd", {1}},
      {"ReduceL1", {1}},
      {"ReduceL2", {1}},
      {"ReduceLogSum", {1}},
      {"ReduceLogSumExp", {1}},
      {"ReduceSumSquare", {1}},
      {"AffineGrid", {1}},
      {"Col2Im", {1, 2}},
      {"If", {0}},
      {"DFT", {1, 2}},
      {"STFT", {1, 3}},
      {"Loop", {0, 1}},
      {"SequenceErase", {1}},
      {"SequenceInsert", {2}},
  };
  return table;
}

bool IsConstantOperand(const std::string& op, int position) {
  for (const ConstantOperands& row : Table())
    if (op == row.op)
      return std::find(row.positions.begin(), row.positions.end(), position) != row.positions.end();
  return false;
}

}  // namespace

std::set<std::string> ConstantInputs(const onnx::GraphProto& graph) {
  std::set<std::string> constant;
  for (auto node = graph.node().rbegin(); node != graph.node().rend(); ++node) {
    const std::string& op = node->op_type();
    const bool all = op != "Shape" && op != "Size" &&
                     std::any_of(node->output().begin(), node->output().end(),
                                 [&](const std::string& name) { return constant.count(name) > 0; });
    for (int i = 0; i < node->input_size(); ++i)
      if (all || IsConstantOperand(op, i)) constant.insert(node->input(i));
  }
  std::set<std::string> inputs;
  for (const auto& input : graph.input())
    if (constant.count(input.name())) inputs.insert(input.name());
  return inputs;
}

void BindInput(onnx::GraphProto& graph, const std::string& name, const onnx::TensorProto& value) {
  auto& inputs = *graph.mutable_input();
  inputs.erase(
      std::remove_if(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name() == name; }),
      inputs.end());
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  *nodes.Add() = onnx_import::ConstantNode(value, name);
  nodes.MergeFrom(graph.node());
  graph.mutable_node()->Swap(&nodes);
}

void NarrowInputs(onnx::GraphProto& graph) {
  for (const auto& node : graph.node())
    if (node.op_type().starts_with("Cast")) return;
  for (auto& input : *graph.mutable_input()) {
    auto& tensor = *input.mutable_type()->mutable_tensor_type();
    if (tensor.elem_type() == onnx::TensorProto::DOUBLE) tensor.set_elem_type(onnx::TensorProto::FLOAT);
  }
}

}  // namespace act::conformance
