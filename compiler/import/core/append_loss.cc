#include "compiler/import/core/append_loss.h"

#include <map>
#include <numeric>
#include <utility>

#include "compiler/ir/uses.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

constexpr char kName[] = "loss";

// Many libraries export a classifier with its last softmax or sigmoid. The losses here contain that function.
const char* FunctionIn(const std::string& loss) {
  if (loss == "cross-entropy" || loss == "token-cross-entropy") return "Softmax";
  return loss == "bce-with-logits" ? "Sigmoid" : nullptr;
}

// Finds the operand of the function that made the predictions, also before what only moves numbers.
class Scores {
  // Nodes that only move numbers, between the function and the end of the model.
  static constexpr int kMostMoves = 256;

 public:
  Scores(GraphBuilder& builder, const char* function)
      : builder_(builder), uses_(builder.graph()), function_(function) {}

  // What x would be without the function. `axis` of x has the classes: a softmax over another one is part of the
  // model. kNoValue: the function does not make all of x.
  llvm::Expected<ValueId> Of(ValueId x, size_t axis) {
    const auto known = found_.find({x, axis});
    if (known != found_.end()) return known->second;
    ACT_TRY(const ValueId scores, Find(x, axis));
    found_[{x, axis}] = scores;
    return scores;
  }

 private:
  llvm::Expected<ValueId> Find(ValueId x, size_t axis) {
    const Node* made = uses_.ProducerNode(x);
    if (!made || ++looked_at_ > kMostMoves) return kNoValue;
    Node node = *made;  // a copy: the graph grows
    const TensorType type = builder_.type(x);
    const bool last = axis + 1 == type.dims.size();
    if (node.op == function_) return last || !OverClasses() ? node.inputs[0] : kNoValue;
    switch (OpOf(node).movement) {
      case Movement::kTranspose:
        if (OverClasses()) axis = static_cast<size_t>(node.attrs.Ints("perm")[axis]);
        break;
      case Movement::kReshape: {
        const Dims& before = builder_.type(node.inputs[0]).dims;
        if (OverClasses() && (!last || before.empty() || before.back() != type.dims.back())) return kNoValue;
        if (OverClasses()) axis = before.size() - 1;
        break;
      }
      case Movement::kConcat:
        if (OverClasses() && node.attrs.Int("axis") == static_cast<int64_t>(axis)) return kNoValue;
        break;
      default:
        return kNoValue;
    }
    for (ValueId& part : node.inputs) {
      ACT_TRY(part, Of(part, axis));
      if (part == kNoValue) return kNoValue;
    }
    return builder_.AddTyped(node.op, node.inputs, type, node.attrs, node.name);
  }

  bool OverClasses() const { return function_ == std::string("Softmax"); }

  GraphBuilder& builder_;
  const Uses uses_;
  const std::string function_;
  int looked_at_ = 0;  // nodes
  std::map<std::pair<ValueId, size_t>, ValueId> found_;
};

llvm::Expected<AppendedLoss> CrossEntropy(GraphBuilder& b, const std::string& kind, ValueId scores) {
  const TensorType type = b.type(scores);
  const bool classes_last = kind == "token-cross-entropy";
  if (type.rank() < 2)
    return MakeError("--loss", kind + " needs scores " + (classes_last ? "[N, ..., C]" : "[N, C, ...]") +
                                   ", the model ends in " + ToString(type));
  Dims labels = type.dims;
  labels.erase(classes_last ? labels.end() - 1 : labels.begin() + 1);
  if (type.rank() > 2 && !classes_last) {
    std::vector<int64_t> perm(type.dims.size());
    std::iota(perm.begin() + 1, perm.end() - 1, 2);
    perm.back() = 1;
    ACT_TRY(scores, b.Transpose(scores, std::move(perm), kName));
  }
  const ValueId label = b.Input("label", {DType::kInt64, labels}, ValueKind::kInput);
  Attributes attrs;
  attrs.Set("reduction", std::string("mean"));
  attrs.Set("ignore_index", int64_t{-100});  // PyTorch's default
  ACT_TRY(const std::vector<ValueId> y, b.Add("SoftmaxCrossEntropy", {scores, label}, attrs, kName, 2));
  return AppendedLoss{y[0], label, scores, ""};
}

// Error of each element of a prediction x for the label y.
llvm::Expected<ValueId> Elementwise(GraphBuilder& b, const std::string& kind, ValueId x, ValueId y) {
  const auto add = [&b](const char* op, std::vector<ValueId> in, Attributes attrs = {}) {
    return b.Add1(op, std::move(in), std::move(attrs), kName);
  };
  if (kind == "bce-with-logits") {  // softplus(x) - x y
    ACT_TRY(const ValueId softplus, add("Softplus", {x}));
    ACT_TRY(const ValueId product, add("Mul", {x, y}));
    return add("Sub", {softplus, product});
  }
  ACT_TRY(const ValueId difference, add("Sub", {x, y}));
  if (kind == "mse") return add("Square", {difference});
  ACT_TRY(const ValueId size, add("Abs", {difference}));
  if (kind == "l1") return size;
  // smooth-l1: with m = min(|d|, 1), m (|d| - m / 2) is d^2 / 2 below 1 and |d| - 1 / 2 above.
  Attributes upper;
  upper.Set("max", 1.0);
  ACT_TRY(const ValueId m, add("Clip", {size}, upper));
  ACT_TRY(const ValueId half, add("Mul", {m, b.Scalar(.5f)}));
  ACT_TRY(const ValueId rest, add("Sub", {size, half}));
  return add("Mul", {m, rest});
}

}  // namespace

llvm::Expected<AppendedLoss> AppendLoss(GraphBuilder& b, const std::string& kind, ValueId predictions) {
  const bool classes_second = kind == "cross-entropy";
  const bool over_classes = classes_second || kind == "token-cross-entropy";
  if (!over_classes && kind != "mse" && kind != "l1" && kind != "smooth-l1" && kind != "bce-with-logits")
    return MakeError("--loss", "there is no loss '" + kind + "'",
                     "cross-entropy, token-cross-entropy, mse, l1, smooth-l1 or bce-with-logits");
  const TensorType type = b.type(predictions);
  const char* const function = FunctionIn(kind);
  std::string removed;
  if (function && type.rank() > 0) {
    const size_t classes = classes_second && type.rank() > 1 ? 1 : type.dims.size() - 1;
    ACT_TRY(const ValueId scores, Scores(b, function).Of(predictions, classes));
    if (scores != kNoValue) {
      predictions = scores;
      removed = function;
    }
  }
  if (over_classes) {
    ACT_TRY(AppendedLoss added, CrossEntropy(b, kind, predictions));
    added.removed = removed;
    return added;
  }
  const ValueId label = b.Input("label", type, ValueKind::kInput);
  ACT_TRY(const ValueId errors, Elementwise(b, kind, predictions, label));
  std::vector<int64_t> axes(type.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  ACT_TRY(const ValueId loss, b.Add1("ReduceMean", {errors}, Over(axes, false), kName));
  return AppendedLoss{loss, label, kNoValue, removed};
}

}  // namespace act::onnx_import
