#include "compiler/ops/grad_context.h"

#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act {

ValueId GradContext::Check(llvm::Expected<ValueId> value) {
  if (value) return *value;
  error_ = llvm::joinErrors(std::move(error_), value.takeError());
  return kNoValue;
}

ValueId GradContext::Save(ValueId value) {
  saved_.push_back(value);
  return value;
}

ValueId GradContext::Derive(const std::string& op, std::vector<ValueId> saved, Attributes attrs) {
  builder_.SetPhase(Phase::kDerived);
  const ValueId result = Emit(op, std::move(saved), std::move(attrs));
  builder_.SetPhase(Phase::kBackward);
  return result;
}

ValueId GradContext::DeriveTyped(const std::string& op, std::vector<ValueId> saved, TensorType type,
                                 Attributes attrs) {
  builder_.SetPhase(Phase::kDerived);
  const ValueId result = EmitTyped(op, std::move(saved), std::move(type), std::move(attrs));
  builder_.SetPhase(Phase::kBackward);
  return result;
}

ValueId GradContext::DeriveReshape(ValueId saved, const Dims& dims) {
  builder_.SetPhase(Phase::kDerived);
  const ValueId result = ReshapeTo(saved, dims);
  builder_.SetPhase(Phase::kBackward);
  return result;
}

ValueId GradContext::DeriveRows(ValueId saved) {
  const Dims dims = type(saved).dims;
  Dim rows(1);
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows = rows * dims[i];
  return DeriveReshape(saved, {rows, dims.back()});
}

ValueId GradContext::Emit(const std::string& op, std::vector<ValueId> inputs, Attributes attrs) {
  if (error_) return kNoValue;
  return Check(builder_.Add1(op, std::move(inputs), std::move(attrs), node_.name + ".grad"));
}

std::vector<ValueId> GradContext::EmitMany(const std::string& op, std::vector<ValueId> inputs, size_t outputs,
                                           Attributes attrs) {
  std::vector<ValueId> none(outputs, kNoValue);
  if (error_) return none;
  auto results =
      builder_.Add(op, std::move(inputs), std::move(attrs), node_.name + ".grad", static_cast<int>(outputs));
  if (results) return *results;
  error_ = llvm::joinErrors(std::move(error_), results.takeError());
  return none;
}

ValueId GradContext::EmitTyped(const std::string& op, std::vector<ValueId> inputs, TensorType type,
                               Attributes attrs) {
  if (error_) return kNoValue;
  return Check(
      builder_.AddTyped(op, std::move(inputs), std::move(type), std::move(attrs), node_.name + ".grad"));
}

ValueId GradContext::Masked(ValueId grad, ValueId factor, bool is_mask) {
  const ValueId product = finite_ || !is_mask ? Emit("Mul", {grad, factor}) : grad;
  return finite_ ? product : Emit("Where", {factor, product, Scalar(0)});
}

ValueId GradContext::ReshapeTo(ValueId x, const Dims& dims) {
  if (error_) return kNoValue;
  return Check(builder_.Reshape(x, dims, node_.name + ".grad"));
}

void GradContext::Fail(const std::string& what) {
  error_ =
      llvm::joinErrors(std::move(error_), MakeError("node '" + node_.name + "' (" + node_.op + ")", what));
}

void GradContext::SetGrad(size_t i, ValueId grad) {
  if (error_ || grad == kNoValue) return;
  const Dims wanted = type(in(i)).dims;  // a copy: Emit grows the values
  const std::vector<int64_t> axes = BroadcastAxes(wanted, type(grad).dims);
  if (!axes.empty()) {
    grad = Emit("ReduceSum", {grad}, Over(axes, false));
    if (error_) return;
  }
  grads_[i] = ReshapeTo(grad, wanted);
}

}  // namespace act
