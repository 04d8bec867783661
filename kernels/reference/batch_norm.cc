#include <algorithm>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/batch_norm_shape.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

std::unique_ptr<Kernel> BatchNormStats(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      const auto* x = args.inputs[0].as<decltype(type)>();
      for (int64_t c = 0; c < s.channels; ++c) {
        double sum = 0, m2 = 0;
        for (int64_t r = 0; r < s.rows; ++r) sum += ToFloat(x[r * s.channels + c]);
        const double mean = s.rows > 0 ? sum / static_cast<double>(s.rows) : 0;
        float low = std::numeric_limits<float>::infinity(), high = -low;
        for (int64_t r = 0; r < s.rows; ++r) {
          const float v = ToFloat(x[r * s.channels + c]);
          low = std::min(low, v);
          high = std::max(high, v);
          m2 += (v - mean) * (v - mean);
        }
        s.Store(args, c, {s.rows, mean, m2, low, high});
      }
    });
    return "";
  });
}

}  // namespace

void RegisterReferenceBatchNorm(KernelRegistry& registry) {
  registry.Add("BatchNormStats", {"reference.batch_norm_stats", BatchNormStats});
}

}  // namespace act
