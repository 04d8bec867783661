// Sampling at coordinates that are data, channels-last: x [N, S.., C], grid [N, P.., K] -> [N, P.., C].
#include "compiler/ops/grid_sample.h"

#include "compiler/ops/grad_context.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// The result's dims.
llvm::Expected<Dims> SampledDims(const InferContext& c, const TensorType& x, const TensorType& grid) {
  ACT_CHECK_OK(c.CheckFloats());
  if (x.rank() < 3 || x.rank() > 5 || grid.rank() != x.rank() || grid.dims.back() != Dim(x.rank() - 2) ||
      grid.dims[0] != x.dims[0])
    return c.Fail("cannot sample " + ToString(x) + " (channels last) at " + ToString(grid));
  Dims dims(grid.dims.begin(), grid.dims.end() - 1);
  dims.push_back(x.dims.back());
  return dims;
}

llvm::Error InferGridSample(InferContext& c) {
  ACT_TRY(Dims dims, SampledDims(c, c.in(0), c.in(1)));
  c.outputs[0] = {DType::kFloat32, std::move(dims)};
  return llvm::Error::success();
}

// Checks that a gradient dy is that of sampling x at `grid`.
llvm::Error CheckGradient(const InferContext& c, const TensorType& dy, const TensorType& x,
                          const TensorType& grid) {
  ACT_TRY(const Dims dims, SampledDims(c, x, grid));
  if (dims != dy.dims)
    return c.Fail("gradient " + ToString(dy) + " does not fit the samples of " + ToString(x) + " at " +
                  ToString(grid));
  return llvm::Error::success();
}

llvm::Error InferGradInput(InferContext& c) { return CheckGradient(c, c.in(0), c.outputs[0], c.in(1)); }

llvm::Error InferGradGrid(InferContext& c) {
  ACT_CHECK_OK(CheckGradient(c, c.in(0), c.in(1), c.in(2)));
  c.outputs[0] = c.in(2);
  return llvm::Error::success();
}

// y is linear in x, and in the grid it is not.
void GridSampleGrad(GradContext& g) {
  const ValueId x = g.in(0), grid = g.Save(g.in(1));
  if (g.Wants(1)) g.SetGrad(1, g.Emit("GridSampleGradGrid", {g.dout(), g.Save(x), grid}, g.attrs()));
  if (g.Wants(0)) g.SetGrad(0, g.EmitTyped("GridSampleGradInput", {g.dout(), grid}, g.type(x), g.attrs()));
}

// A multiply-add for each element that a point mixes, and each channel. `sampled` has the type of the result.
Dim MixFlops(const Node& node, const TensorType& sampled) {
  const std::string mode = node.attrs.String("mode", "linear");
  const int64_t taps = mode == "nearest" ? 1 : mode == "linear" ? 2 : 4;
  int64_t mixed = 1;
  for (int64_t axis = 0; axis < sampled.rank() - 2; ++axis) mixed *= taps;
  return sampled.Elements() * Dim(2 * mixed);
}

}  // namespace

void AddGridSampleOps(std::vector<OpDef>& ops) {
  ops.push_back(
      {.name = "GridSample",
       .infer = InferGridSample,
       .grad = GridSampleGrad,
       .flops = [](const Node& n, const Graph& g) { return MixFlops(n, g.value(n.outputs[0]).type); },
       .squares = Squares::kByElements,
       .needs = {Need::kNumbers, Need::kExactly}});
  ops.push_back(
      {.name = "GridSampleGradInput",
       .infer = InferGradInput,
       .flops = [](const Node& n, const Graph& g) { return MixFlops(n, g.value(n.inputs[0]).type); },
       .gradient = true,
       .needs = {Need::kNumbers, Need::kExactly}});
  ops.push_back(
      {.name = "GridSampleGradGrid",
       .infer = InferGradGrid,
       .flops = [](const Node& n, const Graph& g) { return MixFlops(n, g.value(n.inputs[0]).type); },
       .gradient = true,
       .needs = {Need::kNumbers, Need::kNumbers, Need::kExactly}});
}

}  // namespace act
