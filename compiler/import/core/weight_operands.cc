#include "compiler/import/core/weight_operands.h"

namespace act::onnx_import {
namespace {

struct Row {
  const char* op;
  int first, last;
};
constexpr Row kRows[] = {
    {"Conv", 1, 2},
    {"ConvTranspose", 1, 2},
    {"Gemm", 1, 2},
    {"BatchNormalization", 1, 4},
    {"InstanceNormalization", 1, 2},
    {"LayerNormalization", 1, 2},
    {"GroupNormalization", 1, 2},
    {"RMSNormalization", 1, 1},
    {"PRelu", 1, 1},
    {"RNN", 1, 3},
    {"GRU", 1, 3},
    {"LSTM", 1, 3},
};

bool IsOneOf(const onnx::NodeProto& node, std::initializer_list<const char*> ops) {
  for (const char* op : ops)
    if (node.op_type() == op) return true;
  return false;
}

class Finder {
 public:
  void Visit(const onnx::NodeProto& node) {
    for (const std::string& name : WeightOperands(node)) found_.insert(name);
    const bool product = IsOneOf(node, {"MatMul", "Einsum"});
    if (product) found_.insert(node.input().begin(), node.input().end());
    if (product || IsOneOf(node, {"Gemm", "Conv", "ConvTranspose"})) Mark(node);
    // What only moves numbers.
    const bool moves = IsOneOf(node, {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity"});
    if (moves && node.input_size() > 0 && products_.count(node.input(0))) Mark(node);
    if (IsOneOf(node, {"Add"}) && node.input_size() == 2)
      for (int i = 0; i < 2; ++i)
        if (products_.count(node.input(1 - i))) found_.insert(node.input(i));
    for (const auto& attribute : node.attribute())
      for (const onnx::NodeProto& inner : attribute.g().node()) Visit(inner);
  }
  std::set<std::string> Take() { return std::move(found_); }

 private:
  void Mark(const onnx::NodeProto& node) { products_.insert(node.output().begin(), node.output().end()); }

  std::set<std::string> products_, found_;
};

}  // namespace

std::vector<std::string> WeightOperands(const onnx::NodeProto& node) {
  std::vector<std::string> names;
  for (const Row& row : kRows)
    if (node.op_type() == row.op)
      for (int i = row.first; i <= row.last && i < node.input_size(); ++i) names.push_back(node.input(i));
  return names;
}

std::set<std::string> MayBeWeights(const std::vector<const onnx::NodeProto*>& nodes) {
  Finder finder;
  for (const onnx::NodeProto* node : nodes) finder.Visit(*node);
  return finder.Take();
}

}  // namespace act::onnx_import
