#include "passes/recognize/loss_terms.h"

#include <optional>
#include <utility>

#include "compiler/ir/value_map.h"
#include "compiler/ops/op_table.h"
#include "passes/recognize/pattern.h"

namespace act {
namespace {

class Terms {
 public:
  explicit Terms(Graph& graph) : graph_(graph), pattern_(graph), origins_(graph) {}

  std::vector<LossTerm> Of(ValueId loss) {
    Follow(loss, 1, kDeepest);
    return std::move(terms_);
  }

 private:
  // A sum of more terms is one term. It ends a walk over x + x, of x = y + y and so on, too.
  static constexpr int kDeepest = 64, kMostTerms = 256;

  bool IsNumber(ValueId v) const {
    const TensorType& type = graph_.value(v).type;
    return type.dtype == DType::kFloat32 && type.Elements() == Dim(1);
  }

  // The operand that the node multiplies by a number, and the number.
  std::optional<std::pair<ValueId, double>> Scaled(const Node& node) {
    if (OpOf(node).arithmetic == Arithmetic::kCopy || OpOf(node).movement == Movement::kReshape)
      return std::pair(node.inputs[0], 1.0);
    if (OpOf(node).arithmetic == Arithmetic::kNegative) return std::pair(node.inputs[0], -1.0);
    if (OpOf(node).arithmetic == Arithmetic::kProduct) {
      if (const auto number = pattern_.Number(node.inputs[1])) return std::pair(node.inputs[0], *number);
      if (const auto number = pattern_.Number(node.inputs[0])) return std::pair(node.inputs[1], *number);
    }
    if (node.op == "Div") {
      const auto number = pattern_.Number(node.inputs[1]);
      if (number && *number != 0) return std::pair(node.inputs[0], 1 / *number);
    }
    return std::nullopt;
  }

  // Of a sum or a difference of two operands.
  std::optional<double> SignOfSecond(const Node& node) const {
    if (OpOf(node).arithmetic == Arithmetic::kSum) return 1;
    if (OpOf(node).arithmetic == Arithmetic::kDifference) return -1;
    return std::nullopt;
  }

  void Follow(ValueId v, double factor, int depth) {
    const Node* node = pattern_.Maker(v);
    LossTerm term{.value = v, .factor = factor};
    if (!node || depth == 0 || terms_.size() >= kMostTerms) return terms_.push_back(term);
    if (const auto scaled = Scaled(*node); scaled && IsNumber(scaled->first))
      return Follow(scaled->first, factor * scaled->second, depth - 1);
    if (const auto sign = SignOfSecond(*node);
        sign && IsNumber(node->inputs[0]) && IsNumber(node->inputs[1])) {
      const ValueId second = node->inputs[1];  // a walk moves no nodes
      Follow(node->inputs[0], factor, depth - 1);
      return Follow(second, factor * *sign, depth - 1);
    }
    if (OpOf(*node).loss && node->outputs[0] == v) term.cross_entropy = node - graph_.nodes.data();
    if (node->op == "Div" && IsNumber(node->inputs[1])) FindDivisor(*node, term);
    terms_.push_back(term);
  }

  void FindDivisor(const Node& quotient, LossTerm& term) {
    const ValueId counted = CountedIn(quotient.inputs[1]);
    const Reduction divided = TotalOf(quotient.inputs[0], kDeepest);
    if (divided == Reduction::kNone || divided != TotalOf(counted, kDeepest) ||
        !FollowsFromDataAlone(counted))
      return;
    term.divisor = quotient.inputs[1];
    term.counted = counted;
    term.of_means = divided == Reduction::kMean;
  }

  // In max(v, number) or v + number, v. Else all of it.
  ValueId CountedIn(ValueId divisor) {
    const Node* node = pattern_.Maker(divisor);
    if (!node) return divisor;
    if (OpOf(*node).converts) {
      const ValueId counted = CountedIn(node->inputs[0]);
      return counted == node->inputs[0] ? divisor : counted;
    }
    if (node->op == "Clip" && node->attrs.Has("min") && !node->attrs.Has("max")) return node->inputs[0];
    const bool of_integers = node->op == "Integer" && node->attrs.String("op") == "max";
    if (!of_integers && node->op != "Max" && OpOf(*node).arithmetic != Arithmetic::kSum) return divisor;
    for (const size_t i : {0u, 1u})
      if (IsConstant(node->inputs[1 - i])) return node->inputs[i];
    return divisor;
  }

  bool IsConstant(ValueId v) {
    return pattern_.Number(v) || (v != kNoValue && graph_.value(v).kind == ValueKind::kConstant);
  }

  // kSum, kMean: of all elements of a tensor, times numbers. The mean of the whole data set follows from those of
  // batches where a batch has elements in proportion to its samples.
  Reduction TotalOf(ValueId v, int depth) {
    const Node* node = pattern_.Maker(v);
    if (!node || depth == 0 || graph_.value(v).type.Elements() != Dim(1)) return Reduction::kNone;
    const Reduction reduction = OpOf(*node).reduction;
    if (reduction == Reduction::kSum || (node->op == "IntegerReduce" && node->attrs.String("op") == "add"))
      return Reduction::kSum;
    if (reduction == Reduction::kMean) {
      const Dim elements = graph_.value(node->inputs[0]).type.Elements();
      const bool follow_samples =
          elements.per_batch2 == 0 && (elements.fixed == 0 || elements.per_batch == 0);
      return follow_samples ? Reduction::kMean : Reduction::kNone;
    }
    if (OpOf(*node).converts) return TotalOf(node->inputs[0], depth - 1);
    if (const auto scaled = Scaled(*node)) return TotalOf(scaled->first, depth - 1);
    if (!SignOfSecond(*node)) return Reduction::kNone;
    const Reduction first = TotalOf(node->inputs[0], depth / 2);
    return first == TotalOf(node->inputs[1], depth / 2) ? first : Reduction::kNone;
  }

  struct Origins {
    bool inputs = false, parameters = false;
  };

  bool FollowsFromDataAlone(ValueId v) {
    if (!origins_known_) FindOrigins();
    return origins_[v].inputs && !origins_[v].parameters;
  }

  void FindOrigins() {
    origins_known_ = true;
    const auto of = [this](ValueId v) {
      Origins origins = origins_[v];
      origins.inputs |= graph_.value(v).kind == ValueKind::kInput;
      origins.parameters |= graph_.value(v).kind == ValueKind::kParameter;
      return origins;
    };
    for (const Node& node : graph_.nodes) {
      Origins origins;
      for (const ValueId v : node.inputs) {
        if (v == kNoValue) continue;
        const Origins from = of(v);
        origins.inputs |= from.inputs;
        origins.parameters |= from.parameters;
      }
      for (const ValueId v : node.outputs) origins_[v] = origins;
    }
  }

  Graph& graph_;
  Pattern pattern_;
  ValueMap<Origins> origins_;
  bool origins_known_ = false;
  std::vector<LossTerm> terms_;
};

}  // namespace

std::vector<LossTerm> LossTermsOf(Graph& graph) { return Terms(graph).Of(graph.outputs[0]); }

}  // namespace act
