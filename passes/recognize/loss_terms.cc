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
    if (node->op == "Div" && IsNumber(node->inputs[1]) && IsTotal(node->inputs[0], kDeepest) &&
        IsTotal(node->inputs[1], kDeepest) && FollowsFromDataAlone(node->inputs[1]))
      term.divisor = node->inputs[1];
    terms_.push_back(term);
  }

  // Whether that is a sum over all elements of a tensor, times numbers.
  bool IsTotal(ValueId v, int depth) {
    const Node* node = pattern_.Maker(v);
    if (!node || depth == 0 || !IsNumber(v)) return false;
    if (OpOf(*node).reduction == Reduction::kSum) return true;
    if (const auto scaled = Scaled(*node)) return IsTotal(scaled->first, depth - 1);
    return SignOfSecond(*node) && IsTotal(node->inputs[0], depth / 2) && IsTotal(node->inputs[1], depth / 2);
  }

  struct Origins {
    bool known = false, inputs = false, parameters = false;
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
