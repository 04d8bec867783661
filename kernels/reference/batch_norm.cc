#include <algorithm>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/batch_norm_shape.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// Of channel c of x [rows, C].
template <class T>
BatchMoments MomentsOf(const T* x, const BatchNormShape& s, int64_t c) {
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
  return {s.rows, mean, m2, low, high};
}

// finish(args, c, moments) takes the moments of each channel.
template <class Finish>
std::unique_ptr<Kernel> OfEachChannel(const BatchNormShape& shape, Finish finish) {
  return MakeKernel([s = shape, finish](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      const auto* x = args.inputs[0].as<decltype(type)>();
      for (int64_t c = 0; c < s.channels; ++c) finish(args, c, MomentsOf(x, s, c));
    });
    return "";
  });
}

std::unique_ptr<Kernel> BatchNormStats(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape) return nullptr;
  const auto results = BatchNormResultsOf(site, shape->channels, why);
  if (!results) return nullptr;
  return OfEachChannel(*shape, [r = *results](const KernelArgs& args, int64_t c, const BatchMoments& b) {
    r.Store(args, c, b);
  });
}

std::unique_ptr<Kernel> BatchNormMoments(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape || !HoldsMoments(site.outputs[0], shape->channels, why)) return nullptr;
  return OfEachChannel(*shape, AddMoments);
}

std::unique_ptr<Kernel> BatchNormFromMoments(const KernelSite& site, std::string* why) {
  const int64_t channels = site.inputs[0].dims.empty() ? 0 : site.inputs[0].dims[0];
  if (!HoldsMoments(site.inputs[0], channels, why)) return nullptr;
  const auto results = BatchNormResultsOf(site, channels, why);
  if (!results) return nullptr;
  return MakeKernel([r = *results](const KernelArgs& args) -> std::string {
    for (int64_t c = 0; c < r.channels; ++c)
      r.Store(args, c, LoadMoments(args.inputs[0].as<double>() + c * kBatchMomentNumbers));
    return "";
  });
}

}  // namespace

void RegisterReferenceBatchNorm(KernelRegistry& registry) {
  registry.Add("BatchNormStats", {"reference.batch_norm_stats", BatchNormStats});
  registry.Add("BatchNormMoments", {"reference.batch_norm_moments", BatchNormMoments});
  registry.Add("BatchNormFromMoments", {"reference.batch_norm_from_moments", BatchNormFromMoments});
}

}  // namespace act
