#include "kernels/math/integer.h"
#include "kernels/site/dereference.h"

#include "kernels/reference/registry.h"
#include "kernels/site/element_types.h"
#include "kernels/site/fused_shape.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/strided.h"
#include "runtime/plan/integer_op.h"

namespace act {
namespace {

bool IsInteger(DType dtype) {
  bool integer = false;
  WithType(dtype, [&](auto type) {
    using T = decltype(type);
    integer = std::is_integral_v<T> || std::is_same_v<T, Bool>;
  });
  return integer;
}

// Calls f with a value of the C++ type of an integer dtype. A bool is a byte of 0 or 1.
template <class F>
void WithIntegerType(DType dtype, const F& f) {
  WithType(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) f(T{});
    if constexpr (std::is_same_v<T, Bool>) f(uint8_t{});
  });
}

bool IsNonZero(const TensorView& x, int64_t i) {
  bool set = false;
  WithIntegerType(x.dtype, [&](auto type) { set = x.as<decltype(type)>()[i] != 0; });
  return set;
}

class IntegerLoop {
 public:
  IntegerLoop(const IntegerOp& op, const KernelSite& site) : op_(op) {
    const std::vector<int64_t>& dims = site.outputs[0].dims;
    for (const TensorView& x : site.inputs)
      operands_.push_back({{dims, BroadcastStrides(x.dims, dims), 0}, x.dims == dims, x.elements == 1});
  }

  std::string Run(const KernelArgs& args) const {
    std::string error;
    const size_t first = op_.code == IntegerOpcode::kSelect ? 1 : 0;
    WithIntegerType(args.inputs[first].dtype, [&](auto type) { error = Run(args, type, first); });
    return error;
  }

 private:
  // T is the type of the operands from `first` on.
  template <class T>
  std::string Run(const KernelArgs& args, T, size_t first) const {
    const TensorView& y = args.outputs[0];
    bool divides_by_zero = false;
    WithIntegerType(y.dtype, [&](auto type) {
      using R = decltype(type);
      for (int64_t i = 0; i < y.elements; ++i) {
        T x[3] = {0, 0, 0};
        for (size_t k = first; k < operands_.size(); ++k) x[k] = args.inputs[k].as<T>()[operands_[k].At(i)];
        if (first == 1) x[0] = IsNonZero(args.inputs[0], operands_[0].At(i)) ? T{1} : T{0};
        const T result = IntegerResult(op_.code, x[0], x[1], x[2], &divides_by_zero);
        y.as<R>()[i] = y.dtype == DType::kBool ? static_cast<R>(result != 0) : static_cast<R>(result);
      }
    });
    return divides_by_zero ? "divides by zero" : "";
  }

  struct Operand {
    Strided view;
    bool same, single;  // same dims as the result; one number: no coordinates needed

    int64_t At(int64_t i) const { return same ? i : single ? 0 : view.At(i); }
  };

  IntegerOp op_;
  std::vector<Operand> operands_;
};

std::unique_ptr<Kernel> Integer(const KernelSite& site, std::string* why) {
  const IntegerOp* op = FindIntegerOp(site.node->attrs.String("op"));
  if (!op || static_cast<size_t>(op->operands) != site.inputs.size() || site.outputs.size() != 1)
    return Refuse(why, "there is no such operation on so many operands");
  const TensorView& y = site.outputs[0];
  const size_t first = op->code == IntegerOpcode::kSelect ? 1 : 0;
  for (size_t i = 0; i < site.inputs.size(); ++i) {
    const TensorView& x = site.inputs[i];
    if (!IsInteger(x.dtype) || (i >= first && x.dtype != site.inputs[first].dtype))
      return Refuse(why, "the operands are not integers of one type");
    if (!BroadcastsTo(x.dims, y.dims)) return Refuse(why, "an operand does not broadcast to the result");
  }
  const DType result = op->boolean ? DType::kBool : site.inputs[first].dtype;
  if (!IsInteger(y.dtype) || (op->code != IntegerOpcode::kCast && y.dtype != result))
    return Refuse(why, "the result has another type");
  return MakeKernel([loop = IntegerLoop(*op, site)](const KernelArgs& args) { return loop.Run(args); });
}

}  // namespace

void RegisterReferenceInteger(KernelRegistry& registry) {
  registry.Add("Integer", {"reference.integer", Integer});
}

}  // namespace act
