#include <cmath>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/reduce_shape.h"

namespace act {
namespace {

struct Sum {
  static constexpr double kInitial = 0;
  static double Add(double a, double x) { return a + x; }
  static double Finish(double a, int64_t) { return a; }
};
struct Mean : Sum {
  static double Finish(double a, int64_t count) { return a / static_cast<double>(count); }
};
struct Max {
  static constexpr double kInitial = -std::numeric_limits<double>::infinity();
  static double Add(double a, double x) { return x > a || std::isnan(x) ? x : a; }
  static double Finish(double a, int64_t) { return a; }
};

template <class Op>
std::unique_ptr<Kernel> Reduce(const KernelSite& site, std::string* why) {
  if (!IsFloat32OrBFloat16(site.inputs[0].dtype) || site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "float32 or bfloat16 to float32 only");
  const auto shape = ReduceShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    float* y = args.outputs[0].as<float>();
    const int64_t kept = s.kept.Elements(), reduced = s.reduced.Elements();
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      const auto* x = args.inputs[0].as<decltype(type)>();
      for (int64_t i = 0; i < kept; ++i) {
        double acc = Op::kInitial;
        for (int64_t j = 0; j < reduced; ++j) acc = Op::Add(acc, ToFloat(x[s.kept.At(i) + s.reduced.At(j)]));
        y[i] = static_cast<float>(Op::Finish(acc, reduced));
      }
    });
    return "";
  });
}

}  // namespace

std::optional<ReduceShape> ReduceShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                         std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  const bool widens = x.dtype == DType::kBFloat16 && y.dtype == DType::kFloat32;
  if (x.dtype != y.dtype && !widens) return no("x and result have different element types");
  const auto rank = static_cast<int64_t>(x.dims.size());
  std::vector<bool> is_reduced(x.dims.size(), false);
  for (int64_t axis : attrs.Ints("axes")) {
    if (axis < -rank || axis >= rank) return no("axis " + std::to_string(axis) + " of " + DimsText(x.dims));
    is_reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  ReduceShape s;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    Strided& side = is_reduced[d] ? s.reduced : s.kept;
    side.dims.push_back(x.dims[d]);
    side.strides.push_back(strides[d]);
  }
  if (s.kept.Elements() != y.elements)
    return no("reducing " + DimsText(x.dims) + " does not give " + DimsText(y.dims));
  return s;
}

void RegisterReferenceReduce(KernelRegistry& registry) {
  registry.Add("ReduceSum", {"reference.reduce_sum", Reduce<Sum>});
  registry.Add("ReduceMean", {"reference.reduce_mean", Reduce<Mean>});
  registry.Add("ReduceMax", {"reference.reduce_max", Reduce<Max>});
}

}  // namespace act
