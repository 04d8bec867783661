#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/sequences_shape.h"

namespace act {

std::optional<TopKShape> TopKShapeOf(const KernelSite& site, std::string* why) {
  const auto refuse = [why](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (site.inputs.size() != 1 || site.outputs.size() != 1) return refuse("needs x and a result");
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  if (!IsFloat32OrInteger(x.dtype) || y.dtype != DType::kInt64)
    return refuse("x is neither f32 nor of integers, or the result not i64");
  if (x.dims.empty() || x.dims.size() != y.dims.size()) return refuse("the ranks do not fit");
  const Attributes& attrs = site.node->attrs;
  TopKShape s{1, x.dims.back(), y.dims.back(), attrs.Int("largest", 1) != 0, attrs.Int("last") != 0};
  for (size_t i = 0; i + 1 < x.dims.size(); ++i) {
    if (x.dims[i] != y.dims[i]) return refuse("the rows differ");
    s.rows *= x.dims[i];
  }
  if (s.k > s.extent) return refuse("asks for more elements than there are");
  return s;
}

std::optional<CumSumShape> CumSumShapeOf(const KernelSite& site, std::string* why) {
  const auto refuse = [why](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (site.inputs.size() != 1 || site.outputs.size() != 1) return refuse("needs x and a result");
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  const Attributes& attrs = site.node->attrs;
  const int64_t axis = attrs.Int("axis", -1);
  if (!IsFloat32OrInteger(x.dtype) || x.dtype != y.dtype || x.dims != y.dims)
    return refuse("x and result are not numbers of one type and of the same dims");
  if (axis < 0 || axis >= static_cast<int64_t>(x.dims.size())) return refuse("there is no such axis");
  CumSumShape s;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    (at < axis ? s.outer : at == axis ? s.extent : s.inner) *= x.dims[i];
  }
  s.exclusive = attrs.Int("exclusive") != 0;
  s.reverse = attrs.Int("reverse") != 0;
  return s;
}

namespace {

// The place of an element in the result is the number of elements that come before it.
template <class T>
void TopKRows(const TopKShape& s, const T* x, int64_t* index) {
  for (int64_t r = 0; r < s.rows; ++r, x += s.extent, index += s.k)
    for (int64_t i = 0; i < s.extent; ++i) {
      int64_t place = 0;
      for (int64_t j = 0; j < s.extent; ++j) place += s.Before(x, j, i);
      if (place < s.k) index[place] = i;
    }
}

std::unique_ptr<Kernel> TopK(const KernelSite& site, std::string* why) {
  const auto shape = TopKShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    WithNumberType(args.inputs[0].dtype, [&](auto type) {
      TopKRows(s, args.inputs[0].as<decltype(type)>(), args.outputs[0].as<int64_t>());
    });
    return "";
  });
}

template <class T>
void RunningSums(const CumSumShape& s, const T* x, T* y) {
  using Sum = RunningSum<T>;
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t c = 0; c < s.inner; ++c) {
      Sum sum = 0;
      for (int64_t i = 0; i < s.extent; ++i) {
        const int64_t at = (o * s.extent + (s.reverse ? s.extent - 1 - i : i)) * s.inner + c;
        const Sum before = sum;
        sum += static_cast<Sum>(x[at]);
        y[at] = static_cast<T>(s.exclusive ? before : sum);
      }
    }
}

std::unique_ptr<Kernel> CumSum(const KernelSite& site, std::string* why) {
  const auto shape = CumSumShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    WithNumberType(args.inputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      RunningSums(s, args.inputs[0].as<T>(), args.outputs[0].as<T>());
    });
    return "";
  });
}

}  // namespace

void RegisterReferenceSequences(KernelRegistry& registry) {
  registry.Add("TopK", {"reference.topk", TopK});
  registry.Add("CumSum", {"reference.cumsum", CumSum});
}

}  // namespace act
