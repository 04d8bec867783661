#include "kernels/math/integer.h"
#include "kernels/site/dereference.h"

#include "kernels/reference/registry.h"
#include "kernels/site/element_types.h"
#include "kernels/site/fused_shape.h"
#include "kernels/site/integer_shape.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/reduce_shape.h"
#include "kernels/site/strided.h"

namespace act {
namespace {

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
    const size_t first = FirstOfOneType(op_);
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
  const IntegerOp* op = IntegerOpOf(site, why);
  if (!op) return nullptr;
  return MakeKernel([loop = IntegerLoop(*op, site)](const KernelArgs& args) { return loop.Run(args); });
}

template <class T>
void ReduceIntegers(const IntegerReduction& reduction, const ReduceShape& s, const KernelArgs& args) {
  const TensorView& y = args.outputs[0];
  const T* x = args.inputs[0].as<T>();
  const int64_t kept = s.kept.Elements(), reduced = s.reduced.Elements();
  bool unused = false;
  for (int64_t i = 0; i < kept; ++i) {
    T result = NeutralOf<T>(reduction.code);
    for (int64_t j = 0; j < reduced; ++j)
      result = IntegerResult(reduction.code, result, x[s.kept.At(i) + s.reduced.At(j)], T{0}, &unused);
    if (reduction.divides) result = DividedBy(result, reduced);
    y.as<T>()[i] = y.dtype == DType::kBool ? static_cast<T>(result != 0) : result;
  }
}

std::unique_ptr<Kernel> IntegerReduce(const KernelSite& site, std::string* why) {
  const IntegerReduction* reduction = IntegerReductionOf(site, why);
  if (!reduction) return nullptr;
  const auto shape = ReduceShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape, r = *reduction](const KernelArgs& args) -> std::string {
    if (r.divides && s.reduced.Elements() == 0 && s.kept.Elements() > 0) return "divides by zero";
    WithIntegerType(args.inputs[0].dtype, [&](auto type) { ReduceIntegers<decltype(type)>(r, s, args); });
    return "";
  });
}

}  // namespace

void RegisterReferenceInteger(KernelRegistry& registry) {
  registry.Add("Integer", {"reference.integer", Integer});
  registry.Add("IntegerReduce", {"reference.integer_reduce", IntegerReduce});
}

}  // namespace act
