#include "compiler/import/core/weight_operands.h"

#include <functional>

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

constexpr Row kKnown[] = {
    {"Resize", 1, 3}, {"Upsample", 1, 1}, {"Dropout", 1, 1}, {"Range", 0, 2},
    {"OneHot", 1, 1}, {"Slice", 1, 4},    {"Reshape", 1, 1}, {"Expand", 1, 1},
    {"Tile", 1, 1},   {"Pad", 1, 1},      {"TopK", 1, 1},    {"ConstantOfShape", 0, 0},
};
constexpr Row kClassWeights[] = {
    {"SoftmaxCrossEntropyLoss", 2, 2},
    {"NegativeLogLikelihoodLoss", 2, 2},
};

template <size_t N>
std::vector<std::string> Operands(const Row (&rows)[N], const onnx::NodeProto& node) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    if (node.op_type() == row.op)
      for (int i = row.first; i <= row.last && i < node.input_size(); ++i) names.push_back(node.input(i));
  return names;
}

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

std::vector<std::string> WeightOperands(const onnx::NodeProto& node) { return Operands(kRows, node); }

std::vector<std::string> KnownOperands(const onnx::NodeProto& node) { return Operands(kKnown, node); }

std::set<std::string> NeverWeights(const std::vector<const onnx::NodeProto*>& nodes) {
  std::set<std::string> names;
  const std::function<void(const onnx::NodeProto&)> visit = [&](const onnx::NodeProto& node) {
    for (const std::string& name : Operands(kClassWeights, node)) names.insert(name);
    for (const std::string& name : KnownOperands(node)) names.insert(name);
    for (const auto& attribute : node.attribute())
      for (const onnx::NodeProto& inner : attribute.g().node()) visit(inner);
  };
  for (const onnx::NodeProto* node : nodes) visit(*node);
  return names;
}

bool MixesNumbersWithWeights(const onnx::ModelProto& model) {
  const std::string& producer = model.producer_name();
  return !producer.empty() && producer != "pytorch" && producer.rfind("onnx", 0) != 0;
}

std::set<std::string> MayBeWeights(const std::vector<const onnx::NodeProto*>& nodes) {
  Finder finder;
  for (const onnx::NodeProto* node : nodes) finder.Visit(*node);
  return finder.Take();
}

}  // namespace act::onnx_import
