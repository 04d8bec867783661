// The prior first computes squares through the network as they are at random weights (mean field).
// * Mean squares of activations: a normalization makes 1. A sum adds those of its summands, so that
//   the mean square of a residual stream grows by 1 a block (De and Smith, "Batch Normalization
//   Biases Residual Blocks Towards the Identity Function", NeurIPS 2020). The average of n numbers
//   keeps all of their mean square if they are copies, and 1 / n of it if they are independent. The
//   prior takes the geometric mean of these.
// * Squared norms of gradients: they add where gradients meet. A slice has its part. The average of n numbers
//   hands each of them 1 / n of its gradient, and all of them together 1 / n of its squared norm. A sum hands
//   each of n numbers its whole gradient, which would be n times its squared norm. But no network leaves a
//   sum n times as large: it divides by a length or a denominator that is made of such sums. Divisors are not
//   followed, so the prior takes a sum as the n-th part of it in squares, and its gradient keeps its norm.
//   (With n times the norm, three layers that divide rows by their lengths made earlier gradients 1e15 times
//   too large.) A normalization divides by the mean square of what it normalized. A convolution of `fan`
//   inputs and the normalization after it keep the norm, whatever the weights w are: the variance that
//   divides is fan E[w^2] E[x^2] (He et al. 2015; Yang et al., "A Mean Field Theory of Batch Normalization",
//   ICLR 2019). ReLUs and layers without normalization count as keeping both norm and mean square.
// Then it counts. D is the squared norm of a gradient dy. e is the variance of an error relative to
// x's mean square.
// * A weight's gradient is a sum of products dy x, and each element of dy meets `fan` elements of x
//   (the inputs of a convolution times its kernel). So errors in x add an error of e fan D E[x^2],
//   and what wide convolutions read matters more than what only a normalization's own parameters
//   read. The prior takes the root of fan, because training moves shares from fan towards 1: the
//   share of mobilenet_v2's first depthwise convolution is 30 times that of the gain before it at
//   random weights, and 6 times after 60 steps. The root fits both. For a convolution, fan is its
//   kernel times the mean of inputs and outputs. Depthwise convolutions have one input but are
//   initialized for as many outputs as others have, and their small results make large gradients
//   when they are normalized.
// * A number by which backward multiplies a gradient (a slope, what attention reads) disturbs that
//   gradient, and with it each weight's gradient that is computed from it. It adds e times the sum
//   of the weights of these.
// * The gradient of a normalization over M elements is dy - mean(dy) - xhat mean(dy xhat). An error
//   in xhat enters it by 1 / M if dy's elements are independent. After an average over positions
//   they are copies of one another. The effective M is then at least the number of different
//   elements and at most M. The prior takes the geometric mean.
// docs/measurements/gradient_variance.md says how well the prior fits.
#include "passes/storage/gradient_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/ops/codec_ops.h"
#include "compiler/ops/op_table.h"
#include "passes/storage/gradient_values.h"
#include "runtime/plan/operand_extents.h"

namespace act {
namespace {

using Role = Normalization::Role;

bool IsSum(const OpDef& op) { return op.arithmetic == Arithmetic::kSum; }
bool IsSumOrDifference(const OpDef& op) { return IsSum(op) || op.arithmetic == Arithmetic::kDifference; }
// Its operands are parts of its result, so that their squares add.
bool Joins(const OpDef& op) { return IsSum(op) || op.movement == Movement::kConcat; }
bool IsNormGradient(const OpDef& op) { return op.norm.role == Role::kGradient; }

// The operand of a normalization's gradient that is 1 / deviation, computed
// from the normalized operand.
constexpr size_t kDeviationOperand = 2;

class Estimator {
 public:
  Estimator(const Graph& graph, int64_t batch)
      : graph_(graph),
        batch_(batch),
        weight_(graph, 0),
        gradient_(GradientValues(graph)),
        of_parameter_(graph),
        copies_(graph, 1),
        square_(graph, 1),
        norm_(graph, 1) {}

  std::map<ValueId, GradientShare> Run() {
    for (const Node& node : graph_.nodes) node.phase == Phase::kForward ? Forward(node) : Decoded(node);
    for (ValueId v : graph_.outputs) of_parameter_[v] = IsGradient(v);
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
      if (node->phase != Phase::kForward) Weigh(*node);
    return shares_;
  }
  double gradient_square() const { return gradient_square_; }

 private:
  // The origin of a value of the backward pass that is no gradient: the errors of codes in it, each
  // relative to that of the code, and its mean square.
  struct Made {
    std::map<ValueId, double> of;
    double square = 1;
  };

  double Elements(ValueId v) const {
    return static_cast<double>(std::max<int64_t>(1, graph_.value(v).type.Elements().At(batch_)));
  }
  bool IsGradient(ValueId v) const { return gradient_[v]; }

  // Computes mean squares, and finds the values that are codes.
  void Forward(const Node& node) {
    const OpDef& op = OpOf(node);
    const bool sum = IsSumOrDifference(op);
    double square = 0;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue || graph_.value(v).kind != ValueKind::kActivation) continue;
      const double spread = Elements(node.outputs[0]) / Elements(v);
      if (sum && spread > 1) continue;  // an offset or a mean
      square += square_[v] * (op.squares == Squares::kAverage ? std::sqrt(spread) : 1);
      if (!sum) break;
    }
    for (const ValueId v : node.outputs) square_[v] = square == 0 || Normalizes(op) ? 1 : square;
    EnterCode(node);
  }

  void EnterCode(const Node& node) {
    if (OpOf(node).coding == Coding::kEncode && CodecOf(node.attrs).HasLevels())
      shares_[node.outputs[0]] = {};
  }

  // Computes the norms of gradients, and the origins of the other values
  // that are computed from codes.
  void Decoded(const Node& node) {
    EnterCode(node);
    const bool update = !node.mutates.empty();
    const bool gradient = !node.outputs.empty() && IsGradient(node.outputs[0]);
    Made made;
    double squares = 0;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      if (shares_.count(v) && !DecodesMask(node)) {
        made.of[v] = 1;
        made.square = square_[v];
      }
      if (const auto it = made_.find(v); it != made_.end()) squares += it->second.square;
    }
    for (const ValueId v : node.outputs) {
      if (!gradient) continue;
      copies_[v] = CopiesOf(node);
      norm_[v] = NormOf(node, v);
    }
    if (gradient || update) return;
    const OpDef& op = OpOf(node);
    const bool sum = IsSumOrDifference(op);
    for (const ValueId v : node.inputs) {
      const auto it = v == kNoValue ? made_.end() : made_.find(v);
      if (it == made_.end()) continue;
      const double part = sum                                ? it->second.square / squares
                          : op.movement == Movement::kConcat ? Elements(v) / Elements(node.outputs[0])
                                                             : 1;
      for (const auto& [code, error] : it->second.of) made.of[code] += part * error;
      made.square = sum ? squares : it->second.square;
    }
    if (!made.of.empty())
      for (const ValueId v : node.outputs) made_[v] = made;
  }

  // The squared norms of the gradients that the node reads: of all of them, or of the first alone.
  double NormsRead(const Node& node, bool all) const {
    double norms = 0;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue || !IsGradient(v)) continue;
      norms += norm_[v];
      if (!all) break;
    }
    return norms;
  }

  // For an attention's gradient: the number of positions over which each result of the attention
  // was an average.
  double KeysOf(const Node& node) const {
    auto axis = static_cast<size_t>(node.attrs.Has("perm_k") ? node.attrs.Ints("perm_k")[2] : 2);
    if (axis >= static_cast<size_t>(node.attrs.Int("packed", std::numeric_limits<int64_t>::max()))) ++axis;
    const int64_t keys = graph_.value(node.inputs[2]).type.dims[axis].At(batch_);
    return static_cast<double>(std::max<int64_t>(VisibleKeysAtMost(node.attrs, keys), 1));
  }

  // The squared norm of v, a gradient that the node makes. The loss's own gradient has 1.
  double NormOf(const Node& node, ValueId v) const {
    const OpDef& op = OpOf(node);
    const double norm = NormsRead(node, Joins(op));
    if (norm == 0) return 1;
    if (IsNormGradient(op)) return norm / square_[node.inputs[kDeviationOperand]];
    const double spread = Elements(v) / Elements(node.inputs[0]);
    switch (op.squares) {
      case Squares::kByElements:
        return op.movement == Movement::kRepeat ? norm : norm * spread;
      case Squares::kHandedOut:
        return norm / spread;
      case Squares::kDivided: {
        const std::vector<int64_t> extent = node.attrs.Ints("extent");
        return norm / static_cast<double>(Dim(extent[0], extent[1], extent[2]).At(batch_));
      }
      case Squares::kAttention:
        return norm / std::sqrt(KeysOf(node));
      case Squares::kFirst:
      case Squares::kAverage:  // in the forward pass
        break;
    }
    return norm;
  }

  // The number of elements of a gradient that are copies of one.
  double CopiesOf(const Node& node) const {
    const OpDef& op = OpOf(node);
    double sum = 0, operands = 0;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue || !IsGradient(v)) continue;
      sum += copies_[v];
      ++operands;
      if (op.movement == Movement::kRepeat) sum *= Elements(node.outputs[0]) / Elements(v);
      if (!IsSum(op)) break;
    }
    const bool mixes = op.product == Product::kTransposedConvolution || op.product == Product::kMatrix;
    return operands == 0 || mixes ? 1 : sum / operands;
  }

  // For v, the gradient of a parameter: the number of an activation's elements that each element of
  // a gradient meets.
  double FanOf(const Node& node, ValueId v) const {
    if (node.inputs.size() < 2) return 1;
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const bool first = IsGradient(a);
    const Product product = OpOf(node).product;
    if (product == Product::kWeightGradient) {  // its dims are [outputs, inputs of a group, kernel]
      const Dims& dims = graph_.value(v).type.dims;
      const auto sides = static_cast<double>((dims[0] * dims[1]).At(batch_));
      return Elements(v) / std::sqrt(std::max(1., sides));
    }
    if (product == Product::kMatrix)
      return first ? std::sqrt(Elements(b) * Elements(v) / Elements(a))
                   : std::sqrt(Elements(a) * Elements(v) / Elements(b));
    return 1;
  }

  // The mean square of the number by which the node multiplies a gradient.
  double SquareOf(const Node& node) const {
    for (const ValueId v : node.inputs)
      if (const auto it = v == kNoValue ? made_.end() : made_.find(v); it != made_.end())
        return it->second.square;
    return 1;
  }

  // The same, also where no code is among what the factor is made from.
  double FactorSquareOf(const Node& node) const {
    for (const ValueId v : node.inputs)
      if (v != kNoValue && made_.count(v)) return made_.at(v).square;
    for (const ValueId v : node.inputs)
      if (v != kNoValue && !IsGradient(v)) return square_[v];
    return 1;
  }

  // The weight of the node's results. All their readers have been visited before.
  double WeightOf(const Node& node) {
    double weight = 0;
    for (const ValueId v : node.outputs) {
      weight += weight_[v];
      if (!of_parameter_[v]) continue;
      // The gradient of a parameter in another shape is that of the operand.
      if (node.inputs.size() == 1 && Elements(node.inputs[0]) == Elements(v)) {
        of_parameter_[node.inputs[0]] = true;
        continue;
      }
      const double of_square_1 = NormsRead(node, false) * std::sqrt(FanOf(node, v));
      weight += of_square_1 * SquareOf(node);
      gradient_square_ += of_square_1 * FactorSquareOf(node);
    }
    return weight;
  }

  // Hands the weight of a node's results on to the gradients and codes that it reads.
  void Weigh(const Node& node) {
    if (!node.mutates.empty()) {
      for (const ValueId v : node.inputs)
        if (v != kNoValue && IsGradient(v)) of_parameter_[v] = true;
      return;
    }
    if (node.outputs.empty() || !IsGradient(node.outputs[0])) return;
    const double weight = WeightOf(node);
    const OpDef& op = OpOf(node);
    const bool norm = IsNormGradient(op);
    const double elements = Elements(node.outputs[0]), norms = NormsRead(node, true);
    // The number of elements over which a normalization's means are taken.
    const double rows =
        norm ? std::max(1., elements / Elements(node.inputs[static_cast<size_t>(op.norm.first_mean)])) : 1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      if (IsGradient(v)) {
        const bool mean = norm && Elements(v) < elements;
        const double part = mean ? 1 / rows : Joins(op) ? norm_[v] / norms : 1;
        weight_[v] += part * weight;
      } else if (const auto it = made_.find(v); it != made_.end()) {
        const double independent = rows / std::sqrt(copies_[node.inputs[0]]);
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
  // Of gradients: how much of the whole gradient is computed from them.
  ValueMap<double> weight_;
  const ValueMap<bool> gradient_;
  ValueMap<bool> of_parameter_;
  ValueMap<double> copies_;
  ValueMap<double> square_;  // of forward values: their mean squares
  // Of gradients: their squared norms, relative to that of the loss's gradient.
  ValueMap<double> norm_;
  std::map<ValueId, Made> made_;
  std::map<ValueId, GradientShare> shares_;
  double gradient_square_ = 0;
};

}  // namespace

bool Normalizes(const OpDef& op) {
  return op.norm.role == Role::kNormalize || op.norm.role == Role::kApply || op.norm.role == Role::kDistance;
}

std::map<ValueId, GradientShare> EstimateShares(const Graph& graph, int64_t batch, double* gradient_square) {
  Estimator estimator(graph, batch);
  std::map<ValueId, GradientShare> shares = estimator.Run();
  if (gradient_square) *gradient_square = estimator.gradient_square();
  return shares;
}

}  // namespace act
