#include "compiler/import/core/append_loss.h"

#include <numeric>

#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

constexpr char kName[] = "loss";

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
  return AppendedLoss{y[0], label, scores};
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
  if (kind == "cross-entropy" || kind == "token-cross-entropy") return CrossEntropy(b, kind, predictions);
  if (kind != "mse" && kind != "l1" && kind != "smooth-l1" && kind != "bce-with-logits")
    return MakeError("--loss", "there is no loss '" + kind + "'",
                     "cross-entropy, token-cross-entropy, mse, l1, smooth-l1 or bce-with-logits");
  const TensorType type = b.type(predictions);
  const ValueId label = b.Input("label", type, ValueKind::kInput);
  ACT_TRY(const ValueId errors, Elementwise(b, kind, predictions, label));
  std::vector<int64_t> axes(type.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  ACT_TRY(const ValueId loss, b.Add1("ReduceMean", {errors}, Over(axes, false), kName));
  return AppendedLoss{loss, label, kNoValue};
}

}  // namespace act::onnx_import
