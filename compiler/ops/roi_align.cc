// Means of samples in regions of images, channels-last: x [N,H,W,C], regions [R,4], image [R] -> [R,P,Q,C].
#include "compiler/ops/roi_align.h"

#include "compiler/ops/grad_context.h"
#include "runtime/base/error.h"

namespace act {
namespace {

llvm::Expected<Dims> PooledDims(const InferContext& c, const TensorType& x, const TensorType& regions,
                                const TensorType& image) {
  const Attributes& attrs = c.node.attrs;
  const std::vector<int64_t> bins = attrs.Ints("bins");
  const bool fits = x.dtype == DType::kFloat32 && regions.dtype == DType::kFloat32 &&
                    image.dtype == DType::kInt64 && x.rank() == 4 && regions.rank() == 2 &&
                    regions.dims[1] == Dim(4) && image.dims == Dims{regions.dims[0]} && bins.size() == 2 &&
                    bins[0] > 0 && bins[1] > 0 && attrs.Int("samples") >= 0;
  if (!fits)
    return c.Fail("cannot pool regions " + ToString(regions) + " of images " + ToString(image) + " of " +
                  ToString(x) + " (channels last)");
  return Dims{regions.dims[0], bins[0], bins[1], x.dims[3]};
}

llvm::Error InferRoiAlign(InferContext& c) {
  ACT_TRY(Dims dims, PooledDims(c, c.in(0), c.in(1), c.in(2)));
  c.outputs[0] = {DType::kFloat32, std::move(dims)};
  return llvm::Error::success();
}

llvm::Error InferRoiAlignGrad(InferContext& c) {
  ACT_TRY(const Dims dims, PooledDims(c, c.outputs[0], c.in(1), c.in(2)));
  if (c.in(0).dtype != DType::kFloat32 || c.in(0).dims != dims)
    return c.Fail("gradient " + ToString(c.in(0)) + " does not fit regions " + ToString(c.in(1)) + " of " +
                  ToString(c.outputs[0]));
  return llvm::Error::success();
}

// The result is linear in x. As in PyTorch, no gradient reaches the regions.
void RoiAlignGrad(GradContext& g) {
  if (g.Wants(0))
    g.SetGrad(0, g.EmitTyped("RoiAlignGrad", {g.dout(), g.Save(g.in(1)), g.Save(g.in(2))}, g.type(g.in(0)),
                             g.attrs()));
}

// Four multiply-adds for each sample of a bin. Their number may depend on data: then two along each axis.
Dim PoolFlops(const Node& node, const TensorType& pooled) {
  const int64_t samples = node.attrs.Int("samples") > 0 ? node.attrs.Int("samples") : 2;
  return pooled.Elements() * Dim(8 * SaturatingMul(samples, samples));
}

}  // namespace

void AddRoiAlignOps(std::vector<OpDef>& ops) {
  ops.push_back(
      {.name = "RoiAlign",
       .infer = InferRoiAlign,
       .grad = RoiAlignGrad,
       .flops = [](const Node& n, const Graph& g) { return PoolFlops(n, g.value(n.outputs[0]).type); },
       .squares = Squares::kByElements,
       .needs = {Need::kNumbers, Need::kExactly, Need::kExactly}});
  ops.push_back(
      {.name = "RoiAlignGrad",
       .infer = InferRoiAlignGrad,
       .flops = [](const Node& n, const Graph& g) { return PoolFlops(n, g.value(n.inputs[0]).type); },
       .gradient = true,
       .needs = {Need::kNumbers, Need::kExactly, Need::kExactly}});
}

}  // namespace act
