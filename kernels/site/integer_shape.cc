#include "kernels/site/integer_shape.h"

#include "kernels/site/fused_shape.h"
#include "runtime/base/dtype_kind.h"

namespace act {

const IntegerOp* IntegerOpOf(const KernelSite& site, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why) *why = reason;
    return nullptr;
  };
  const IntegerOp* op = FindIntegerOp(site.node->attrs.String("op"));
  if (!op || static_cast<size_t>(op->operands) != site.inputs.size() || site.outputs.size() != 1)
    return no("there is no such operation on so many operands");
  const TensorView& y = site.outputs[0];
  const size_t first = FirstOfOneType(*op);
  for (size_t i = 0; i < site.inputs.size(); ++i) {
    const TensorView& x = site.inputs[i];
    if (IsFloat(x.dtype) || (i >= first && x.dtype != site.inputs[first].dtype))
      return no("the operands are not integers of one type");
    if (!BroadcastsTo(x.dims, y.dims)) return no("an operand does not broadcast to the result");
  }
  const DType result = op->boolean ? DType::kBool : site.inputs[first].dtype;
  const bool casts = op->code == IntegerOpcode::kCast && !op->repeats;
  if (IsFloat(y.dtype) || (!casts && y.dtype != result)) return no("the result has another type");
  return op;
}

const IntegerReduction* IntegerReductionOf(const KernelSite& site, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why) *why = reason;
    return nullptr;
  };
  const IntegerReduction* reduction = FindIntegerReduction(site.node->attrs.String("op"));
  if (!reduction || site.inputs.size() != 1 || site.outputs.size() != 1)
    return no("there is no such reduction");
  const DType dtype = site.inputs[0].dtype;
  if (IsFloat(dtype) || (dtype == DType::kBool && !reduction->of_flags))
    return no("the operand has another type");
  return reduction;
}

}  // namespace act
