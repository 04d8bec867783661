// The prior treats a network as one whose layers are alike: the gradient of each activation has the same
// squared norm D, and each activation a mean square of 1. Both hold roughly where normalizations keep them
// so. What is left is counting.
// * A weight's gradient is a sum of products dy x, and each element of dy meets `fan` elements of x (the
// inputs
//   of a convolution times its kernel): errors of variance e in x make one of e fan D. So what wide
//   convolutions read matters more than what only a normalization's own parameters read. The root of fan is
//   taken: wide layers stand behind others, and D grows towards the front. Between 1 and fan it fits best. Of
//   a convolution fan is its kernel times the mean of inputs and outputs: depthwise ones, of one input, are
//   initialized for as many outputs as others have, and their small results normalized make large gradients.
// * A number that backward multiplies a gradient with (a slope, what attention reads) disturbs that gradient,
// and
//   with it each weight's gradient that is made of it: e times the sum of what these weigh.
// * The gradient behind a normalization over M elements is dy - mean(dy) - xhat mean(dy xhat): an error in
// xhat
//   enters it by 1 / M, if dy's elements are independent. Where they are copies of one another, behind an
//   average over positions, they are as many as there are different ones at worst, and M at best: the
//   geometric mean.
// On the networks of docs/levels.md measured shares spread by a factor of 4 (root mean square, of edges of
// one network); of what this prior says of them, by one of 2.
#include "passes/gradient_shares.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/ops/codec_ops.h"

namespace act {
namespace {

bool IsNormGradient(const Node& node) {
  return node.op == "BatchNormGradInput" || node.op == "LayerNormGradInput";
}

// The first operand that is one of its means: a number for each channel or row.
size_t MeanOperand(const Node& node) { return node.op == "BatchNormGradInput" ? 4 : 3; }

class Estimator {
 public:
  Estimator(const Graph& graph, int64_t batch)
      : graph_(graph),
        batch_(batch),
        weight_(graph.values.size(), 0),
        gradient_(graph.values.size(), false),
        of_parameter_(graph.values.size(), false),
        copies_(graph.values.size(), 1) {}

  std::map<ValueId, GradientShare> Run() {
    FindCodes();
    for (const Node& node : graph_.nodes)
      if (node.phase != Phase::kForward) Decoded(node);
    for (ValueId v : graph_.outputs) of_parameter_[static_cast<size_t>(v)] = IsGradient(v);
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
      if (node->phase != Phase::kForward) Weigh(*node);
    return shares_;
  }

 private:
  // What a value of the backward pass that is no gradient is made of: the errors of codes, each relative to
  // that of the code, and the mean square that it has.
  struct Made {
    std::map<ValueId, double> of;
    double square = 1;
  };

  double Elements(ValueId v) const {
    return static_cast<double>(std::max<int64_t>(1, graph_.value(v).type.Elements().At(batch_)));
  }
  bool IsGradient(ValueId v) const { return gradient_[static_cast<size_t>(v)]; }

  void FindCodes() {
    for (const Node& node : graph_.nodes)
      if (node.op == "Compress" && CodecOf(node.attrs).HasLevels()) shares_[node.outputs[0]] = {};
  }

  // Gradients come from a loss's gradient, or from the constant that the backward pass begins with.
  void Decoded(const Node& node) {
    const bool update = !node.mutates.empty();
    bool gradient = node.op.ends_with("Grad"), constant = true;
    Made made;
    double squares = 0;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      gradient |= IsGradient(v);
      constant &= graph_.value(v).kind == ValueKind::kConstant;
      if (shares_.count(v) && !DecodesMask(node)) made.of[v] = 1;
      if (const auto it = made_.find(v); it != made_.end()) squares += it->second.square;
    }
    gradient |= constant;
    for (const ValueId v : node.outputs) {
      gradient_[static_cast<size_t>(v)] = gradient;
      if (gradient) copies_[static_cast<size_t>(v)] = CopiesOf(node);
    }
    if (gradient || update) return;
    const bool sum = node.op == "Add" || node.op == "Sub";
    for (const ValueId v : node.inputs) {
      const auto it = v == kNoValue ? made_.end() : made_.find(v);
      if (it == made_.end()) continue;
      const double part = sum                   ? it->second.square / squares
                          : node.op == "Concat" ? Elements(v) / Elements(node.outputs[0])
                                                : 1;
      for (const auto& [code, error] : it->second.of) made.of[code] += part * error;
      made.square = sum ? squares : it->second.square;
    }
    if (!made.of.empty())
      for (const ValueId v : node.outputs) made_[v] = made;
  }

  // How many elements of a gradient are copies of one.
  double CopiesOf(const Node& node) const {
    double sum = 0, operands = 0;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue || !IsGradient(v)) continue;
      sum += copies_[static_cast<size_t>(v)];
      ++operands;
      if (node.op == "Expand") sum *= Elements(node.outputs[0]) / Elements(v);
      if (node.op != "Add") break;
    }
    const bool mixes = node.op == "ConvGradInput" || node.op == "MatMul";
    return operands == 0 || mixes ? 1 : sum / operands;
  }

  // Of v, the gradient of a parameter: elements of an activation that each of a gradient meets.
  double FanOf(const Node& node, ValueId v) const {
    if (node.inputs.size() < 2) return 1;
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const bool first = IsGradient(a);
    if (node.op == "ConvGradWeight") {  // of [outputs, inputs of a group, kernel]
      const Dims& dims = graph_.value(v).type.dims;
      const auto sides = static_cast<double>((dims[0] * dims[1]).At(batch_));
      return Elements(v) / std::sqrt(std::max(1., sides));
    }
    if (node.op == "MatMul")
      return first ? std::sqrt(Elements(b) * Elements(v) / Elements(a))
                   : std::sqrt(Elements(a) * Elements(v) / Elements(b));
    return 1;
  }

  // What its results weigh, of which all readers have been met.
  double WeightOf(const Node& node) {
    double weight = 0;
    for (const ValueId v : node.outputs) {
      weight += weight_[static_cast<size_t>(v)];
      if (!of_parameter_[static_cast<size_t>(v)]) continue;
      // In another shape, it is that of its operand.
      if (node.inputs.size() == 1 && Elements(node.inputs[0]) == Elements(v))
        of_parameter_[static_cast<size_t>(node.inputs[0])] = true;
      else
        weight += std::sqrt(FanOf(node, v));
    }
    return weight;
  }

  // Hands the weight of a node's results on to the gradients and codes that it reads.
  void Weigh(const Node& node) {
    if (!node.mutates.empty()) {
      for (const ValueId v : node.inputs)
        if (v != kNoValue && IsGradient(v)) of_parameter_[static_cast<size_t>(v)] = true;
      return;
    }
    if (node.outputs.empty() || !IsGradient(node.outputs[0])) return;
    const double weight = WeightOf(node);
    const bool norm = IsNormGradient(node);
    const double elements = Elements(node.outputs[0]);
    // Over how many elements a normalization's means go.
    const double rows = norm ? std::max(1., elements / Elements(node.inputs[MeanOperand(node)])) : 1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      if (IsGradient(v)) {
        const bool mean = norm && Elements(v) < elements;
        weight_[static_cast<size_t>(v)] += mean ? weight / rows : node.op == "Add" ? weight / 2 : weight;
      } else if (const auto it = made_.find(v); it != made_.end()) {
        const double independent = rows / std::sqrt(copies_[static_cast<size_t>(node.inputs[0])]);
        for (const auto& [code, error] : it->second.of) {
          GradientShare& share = shares_[code];
          (norm && i == 1 ? share.mean : share.value) +=
              error * weight / (norm ? std::max(1., independent) : 1);
        }
      }
    }
  }

  const Graph& graph_;
  const int64_t batch_;
  std::vector<double> weight_;  // of gradients: the parts of the whole gradient that are made of them
  std::vector<bool> gradient_, of_parameter_;
  std::vector<double> copies_;
  std::map<ValueId, Made> made_;
  std::map<ValueId, GradientShare> shares_;
};

}  // namespace

std::map<ValueId, GradientShare> EstimateShares(const Graph& graph, int64_t batch) {
  return Estimator(graph, batch).Run();
}

}  // namespace act
