// Attention and its gradient (kernels/cuda/source/attention.h, attention_grad.h).
#include "kernels/cuda/attention_grad.h"
#include "kernels/cuda/attention_site.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

std::unique_ptr<Kernel> Attention(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView& o = site.outputs[0];
  auto at = AttentionSiteOf(context, site, 0, o, o.dtype, why);
  if (!at) return nullptr;
  const ResultColumns columns(at->shape.value_depth);
  at->parameters.column_tiles = DivisorOf(columns.tiles);
  const auto kernel = AttentionKernel<AttentionParameters>(
      context, *at, "attention", "AttentionParameters", "attention", "Attention", 3, false, columns.groups);
  const int64_t blocks = at->shape.batches * at->shape.heads * at->QueryTiles() * columns.tiles;
  return MakeKernel(
      [&context, kernel, blocks, shared = at->parameters](const KernelArgs& args) -> std::string {
        AttentionParameters p = shared;
        FillAddresses(context, args, 0, p);
        p.o = args.outputs[0].as<void>();
        return kernel.Launch(blocks, p);
      });
}

}  // namespace

void RegisterCudaAttention(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Attention", {"cuda.attention", [&context](const KernelSite& site, std::string* why) {
                               return Attention(context, site, why);
                             }});
  registry.Add("AttentionGrad", {"cuda.attention_grad", [&context](const KernelSite& site, std::string* why) {
                                   return CreateAttentionGrad(context, site, why);
                                 }});
}

}  // namespace act::cuda
