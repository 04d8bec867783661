// Turns normalization that a model spells out into one LayerNorm:
//   (x - mean) / sqrt(mean((x - mean)^2) + epsilon); without the means it is a RMS norm
//   an instance norm of x reshaped to [N, groups, ..], which is a group norm of x itself
//   a LayerNorm times and plus weights that broadcast against it
//   x / max(|x|, epsilon), where |x| is the length of a row (torch.nn.functional.normalize): a RMS norm
// It may be written as a quotient, as a product with the reciprocal or with a power of -1/2. The
// means may keep their axes, or a reshape may give them back.
#include <algorithm>
#include <cmath>

#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/recognize/pattern.h"

namespace act {
namespace {

// The epsilon of a row's length up to which it is a norm's. torch.nn.functional.normalize has 1e-12.
constexpr double kLeastLength = 1e-10;
constexpr double kLeastEpsilon = 1e-37;  // a float32 without loss

class Recognizer {
 public:
  explicit Recognizer(Graph& graph) : graph_(graph), pattern_(graph) {}

  // Adds constants, of which no pattern that exists knows.
  void RunUnitLengths() {
    for (Node& node : graph_.nodes)
      if (node.op == "Div") UnitLength(node);
  }

  void Run() {
    for (Node& node : graph_.nodes) {
      if (node.op == "Div" || node.op == "Mul") Standardization(node);
      if (node.op == "Reshape") GroupNorm(node);
      if (node.op == "Mul") Scale(node);
      if (node.op == "Add") Shift(node);
    }
  }

 private:
  // Returns x if v is the mean of x over the axes. Their extents are 1 in v.
  ValueId MeanOf(ValueId v, std::vector<int64_t>& axes) {
    const Node* node = pattern_.Maker(v);
    if (node && node->op == "Transpose") return MovedMeanOf(*node, axes);
    if (node && node->op == "Reshape") node = pattern_.Maker(node->inputs[0], "ReduceMean");
    if (!node || node->op != "ReduceMean") return kNoValue;
    axes = node->attrs.Ints("axes");
    Dims kept = pattern_.DimsOf(node->inputs[0]);
    for (int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
    return pattern_.DimsOf(v) == kept ? node->inputs[0] : kNoValue;
  }

  // The same if the mean is taken in another order of axes and put back. A mean over the last of
  // three axes is imported as a global pooling, which has channels last.
  ValueId MovedMeanOf(const Node& back, std::vector<int64_t>& axes) {
    const ValueId inner = MeanOf(back.inputs[0], axes);
    const Node* there = inner == kNoValue ? nullptr : pattern_.Maker(inner, "Transpose");
    if (!there || !Undoes(back, *there)) return kNoValue;
    const std::vector<int64_t> perm = there->attrs.Ints("perm");
    for (int64_t& axis : axes) axis = perm[static_cast<size_t>(axis)];
    std::sort(axes.begin(), axes.end());
    return there->inputs[0];
  }

  // Returns variance + epsilon if v is its square root, or with `inverse`
  // the reciprocal of that root.
  ValueId Root(ValueId v, bool inverse) {
    const Node* node = pattern_.Maker(v);
    if (!node) return kNoValue;
    if (node->op == "Pow" && pattern_.Number(node->inputs[1]) == (inverse ? -.5 : .5)) return node->inputs[0];
    if (!inverse) return node->op == "Sqrt" ? node->inputs[0] : kNoValue;
    if (node->op == "Reciprocal") return Root(node->inputs[0], false);
    if (node->op == "Div" && pattern_.Number(node->inputs[0]) == 1) return Root(node->inputs[1], false);
    return kNoValue;
  }

  bool IsSquareOf(ValueId v, ValueId d) {
    const Node* node = pattern_.Maker(v);
    return node && ((node->op == "Square" && node->inputs[0] == d) ||
                    (node->op == "Mul" && node->inputs[0] == d && node->inputs[1] == d));
  }

  // node: d / sqrt(mean(d^2) + epsilon)
  void Standardization(Node& node) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      const bool quotient = node.op == "Div";
      if (quotient && i == 1) break;
      const ValueId d = node.inputs[i], shifted = Root(node.inputs[1 - i], !quotient);
      const Node* sum = shifted == kNoValue ? nullptr : pattern_.Maker(shifted, "Add");
      if (!sum || pattern_.DimsOf(node.outputs[0]) != pattern_.DimsOf(d)) continue;
      for (size_t k : {size_t{0}, size_t{1}}) {
        const std::optional<double> epsilon = pattern_.Number(sum->inputs[k]);
        std::vector<int64_t> axes;
        const ValueId squares = MeanOf(sum->inputs[1 - k], axes);
        if (!epsilon || *epsilon < 0 || squares == kNoValue || !IsSquareOf(squares, d)) continue;
        std::vector<int64_t> mean_axes;
        const Node* centered = pattern_.Maker(d, "Sub");
        const bool center =
            centered && MeanOf(centered->inputs[1], mean_axes) == centered->inputs[0] && mean_axes == axes;
        Attributes attrs;
        attrs.Set("axes", axes);
        attrs.Set("epsilon", *epsilon);
        attrs.Set("center", int64_t{center});
        node.op = "LayerNorm";
        node.inputs = {center ? centered->inputs[0] : d};
        node.attrs = attrs;
        return;
      }
    }
  }

  // node: x / max(|x|, least), where |x| is the length of a row. That is the RMS norm of x over the root of the row's
  // extent: its epsilon gives a row of zeros the same slope. Rows of a length near `least` would differ, so it must be
  // far below any number that matters.
  void UnitLength(Node& node) {
    const ValueId x = node.inputs[0];
    const Node* divisor = pattern_.Maker(node.inputs[1]);
    if (divisor && divisor->op == "Expand") divisor = pattern_.Maker(divisor->inputs[0]);
    if (!divisor || divisor->op != "Clip" || divisor->attrs.Has("max")) return;
    const double least = divisor->attrs.Float("min", 0);
    const Node* length = pattern_.Maker(divisor->inputs[0], "SqrtOfSquares");
    const Node* sum = length ? pattern_.Maker(length->inputs[0], "ReduceSum") : nullptr;
    if (!sum || !IsSquareOf(sum->inputs[0], x) || least <= 0 || least > kLeastLength) return;
    const Dims dims = pattern_.DimsOf(x);
    if (dims.empty() || dims.back() == Dim(0)) return;
    const int64_t last = static_cast<int64_t>(dims.size()) - 1;
    Dims kept = dims;
    kept.back() = 1;
    if (sum->attrs.Ints("axes") != std::vector<int64_t>{last} || pattern_.DimsOf(sum->outputs[0]) != kept ||
        !dims.back().IsFixed() || pattern_.DimsOf(node.outputs[0]) != dims)
      return;
    const int64_t n = dims.back().fixed;
    const std::vector<float> gamma(static_cast<size_t>(n),
                                   static_cast<float>(1 / std::sqrt(static_cast<double>(n))));
    Attributes attrs;
    attrs.Set("axes", std::vector<int64_t>{last});
    attrs.Set("epsilon", std::max(least * least / static_cast<double>(n), kLeastEpsilon));
    attrs.Set("center", int64_t{0});
    node.op = "LayerNorm";
    node.inputs = {
        x, GraphBuilder(graph_).Constant("", {DType::kFloat32, {n}}, HostTensor::Copy(gamma.data(), 4 * n))};
    node.attrs = attrs;
  }

  bool IsNumber(const Node& norm, size_t i, double number) {
    return norm.inputs.size() <= i || norm.inputs[i] == kNoValue || pattern_.Number(norm.inputs[i]) == number;
  }

  // node: the reshape after an instance norm of x reshaped to [N, groups, ..].
  void GroupNorm(Node& node) {
    const Node* norm = pattern_.Maker(node.inputs[0], "LayerNorm");
    const Node* before = norm ? pattern_.Maker(norm->inputs[0], "Reshape") : nullptr;
    if (!before || pattern_.OnlyReader(norm->outputs[0]) != &node) return;
    const ValueId x = before->inputs[0];
    const Dims& dims = pattern_.DimsOf(x);
    const Dims& grouped = pattern_.DimsOf(norm->inputs[0]);
    const auto axes_of = [](size_t rank) {
      std::vector<int64_t> axes;
      for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
      return axes;
    };
    if (pattern_.DimsOf(node.outputs[0]) != dims || dims.size() < 3 || grouped.size() < 3 ||
        dims[0] != grouped[0] || norm->attrs.Ints("axes") != axes_of(grouped.size()) || !dims[1].IsFixed() ||
        !grouped[1].IsFixed() || grouped[1].fixed < 1 || dims[1].fixed % grouped[1].fixed != 0 ||
        norm->attrs.Int("groups", grouped[1].fixed) != grouped[1].fixed || !IsNumber(*norm, 1, 1) ||
        !IsNumber(*norm, 2, 0))
      return;
    Attributes attrs = norm->attrs;
    attrs.Set("axes", axes_of(dims.size()));
    attrs.Set("groups", grouped[1].fixed);
    attrs.Set("group_axis", int64_t{1});
    node.op = "LayerNorm";
    node.inputs = {x};
    node.attrs = attrs;
  }

  // The LayerNorm that makes the operand, if node alone reads it and the other operand is a weight
  // that broadcasts against it.
  const Node* NormOperand(const Node& node, size_t i) {
    const Node* norm = pattern_.Maker(node.inputs[i], "LayerNorm");
    if (!norm || pattern_.OnlyReader(norm->outputs[0]) != &node) return nullptr;
    const ValueId weight = node.inputs[1 - i];
    if (!pattern_.IsWeight(weight) || pattern_.DimsOf(node.outputs[0]) != pattern_.DimsOf(norm->outputs[0]))
      return nullptr;
    return norm;
  }

  void Scale(Node& node) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      const Node* norm = NormOperand(node, i);
      if (!norm || !IsNumber(*norm, 1, 1) || !IsNumber(*norm, 2, 0)) continue;
      const ValueId gamma = node.inputs[1 - i];
      node.op = "LayerNorm";
      node.attrs = norm->attrs;
      node.inputs = {norm->inputs[0], gamma};
      return;
    }
  }

  void Shift(Node& node) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      const Node* norm = NormOperand(node, i);
      if (!norm || !IsNumber(*norm, 2, 0)) continue;
      const ValueId beta = node.inputs[1 - i];
      node.op = "LayerNorm";
      node.attrs = norm->attrs;
      node.inputs = {norm->inputs[0], norm->inputs.size() > 1 ? norm->inputs[1] : kNoValue, beta};
      return;
    }
  }

  Graph& graph_;
  Pattern pattern_;
};

}  // namespace

llvm::Error RecognizeNorms(Graph& graph, PassContext&) {
  Recognizer(graph).RunUnitLengths();
  Recognizer(graph).Run();
  return llvm::Error::success();
}

}  // namespace act
