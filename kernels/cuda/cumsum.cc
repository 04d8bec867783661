// CumSum: running sums, in double or modulo 2^64, as the reference adds.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/number_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/cumsum_parameters.h"
#include "kernels/cuda/source/divisor.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/sequences_shape.h"

namespace act::cuda {
namespace {

// Blocks and their code follow from extent and inner alone, so that a row has the same bits in any batch.
std::unique_ptr<Kernel> CumSum(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto s = CumSumShapeOf(site, why);
  if (!s) return nullptr;
  if (site.outputs[0].elements == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  constexpr int64_t kMostColumns = 32;
  const bool is_short = s->extent <= kShortSum;
  const int64_t columns = std::min(PowerOfTwoAbove(s->inner), kMostColumns),
                tiles = DivideUp(s->inner, columns);
  const int64_t blocks = is_short ? DivideUp(s->outer * s->inner, kCumSumThreads) : s->outer * tiles;
  if (s->extent >= kMaxCount || s->inner >= kMaxCount || blocks >= kMaxCount)
    return Refuse(why, "2^31 elements of an axis, or blocks");
  CumSumParameters shared;
  shared.columns = s->outer * s->inner;
  shared.extent = static_cast<int32_t>(s->extent);
  shared.inner = static_cast<int32_t>(s->inner);
  shared.tiles = static_cast<int32_t>(tiles);
  shared.exclusive = s->exclusive;
  shared.reverse = s->reverse;
  const std::string type = NumberType(site.inputs[0].dtype);
  const OwnKernel<CumSumParameters> kernel(
      context, "cumsum", "CumSumParameters", "cumsum",
      is_short ? "ShortCumSum" + TemplateArguments(type) : "CumSum" + TemplateArguments(type, columns),
      kCumSumThreads);
  return MakeKernel([shared, blocks, kernel](const KernelArgs& args) -> std::string {
    CumSumParameters p = shared;
    p.x = args.inputs[0].as<void>();
    p.y = args.outputs[0].as<void>();
    return kernel.Launch(blocks, p);
  });
}

}  // namespace

void RegisterCudaCumSum(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("CumSum", {"cuda.cumsum", [&context](const KernelSite& site, std::string* why) {
                            return CumSum(context, site, why);
                          }});
}

}  // namespace act::cuda
