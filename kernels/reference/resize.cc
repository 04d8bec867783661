#include <algorithm>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/resize_shape.h"

namespace act {
namespace {

// Calls f(y's element, x's element, weight) for each pair that the axes from `a` on mix, where y
// and x are at these positions of the axes before.
template <class F>
void ForEachPair(const ResizeShape& s, size_t a, int64_t y, int64_t x, double weight, const F& f) {
  if (a == s.axes.size()) {
    for (int64_t c = 0; c < s.channels; ++c) f(y * s.channels + c, x * s.channels + c, weight);
    return;
  }
  const WeightedRows& axis = s.axes[a];
  for (int64_t o = 0; o < axis.rows(); ++o)
    for (const WeightedRows::Term& term : axis.Row(o))
      ForEachPair(s, a + 1, y * axis.rows() + o, x * axis.columns + term.at, weight * term.weight, f);
}

std::unique_ptr<Kernel> Resize(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    std::fill_n(y, args.outputs[0].elements, 0.0f);
    for (int64_t n = 0; n < s.batch; ++n)
      ForEachPair(s, 0, n, n, 1,
                  [&](int64_t to, int64_t from, double w) { y[to] += static_cast<float>(w * x[from]); });
    return "";
  });
}

std::unique_ptr<Kernel> ResizeGrad(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    float* dx = args.outputs[0].as<float>();
    std::fill_n(dx, args.outputs[0].elements, 0.0f);
    for (int64_t n = 0; n < s.batch; ++n)
      ForEachPair(s, 0, n, n, 1,
                  [&](int64_t from, int64_t to, double w) { dx[to] += static_cast<float>(w * dy[from]); });
    return "";
  });
}

}  // namespace

void RegisterReferenceResize(KernelRegistry& registry) {
  registry.Add("Resize", {"reference.resize", Resize});
  registry.Add("ResizeGrad", {"reference.resize_grad", ResizeGrad});
}

}  // namespace act
