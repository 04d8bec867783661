// Convolution, pooling and resizing, channels-last: x [N, S.., C], weights in ONNX's layout
// [M, C / group, K..].
#include "compiler/ops/grad_context.h"
#include "compiler/ops/grid_sample.h"
#include "compiler/ops/roi_align.h"
#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

// One convolution or pooling window: attributes with one entry per spatial axis (pads:
// begins, then ends).
struct Window {
  Ints kernel, strides, dilations, pads;
};

llvm::Expected<Window> WindowOf(const InferContext& c, Ints kernel) {
  const size_t axes = kernel.size();
  Window w{std::move(kernel), c.node.attrs.Ints("strides"), c.node.attrs.Ints("dilations"),
           c.node.attrs.Ints("pads")};
  if (axes < 1 || axes > 3)
    return c.Fail("has " + std::to_string(axes) + " spatial axes; 1 to 3 are supported");
  if (w.strides.size() != axes || w.dilations.size() != axes || w.pads.size() != 2 * axes)
    return c.Fail("kernel, strides, dilations and pads do not have the same number of axes");
  for (size_t i = 0; i < axes; ++i)
    if (w.kernel[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1 || w.pads[i] < 0 || w.pads[i + axes] < 0)
      return c.Fail("kernel, strides and dilations must be positive, pads not negative");
  return w;
}

// floor or ceil of (S + pads - dilation (K - 1) - 1) / stride, plus 1. A spatial extent may vary
// with N only if stride is 1.
llvm::Expected<Dims> OutputDims(const InferContext& c, const Window& w, const Dims& x, const Dim& channels,
                                bool ceil_mode) {
  Dims out{x[0]};
  const size_t axes = w.kernel.size();
  for (size_t i = 0; i < axes; ++i) {
    const Dim room =
        x[i + 1] + Dim(w.pads[i] + w.pads[i + axes] - SaturatingMul(w.dilations[i], w.kernel[i] - 1) - 1);
    if (!room.IsFixed() && w.strides[i] != 1) return c.Fail("spatial extents vary with the batch size");
    // In ceil mode the last window may extend past the padded input, even if it is the only one.
    const int64_t beyond = ceil_mode ? w.strides[i] - 1 : 0;
    if (room.IsFixed() && room.fixed + beyond < 0)
      return c.Fail("the window is larger than the padded input on spatial axis " + std::to_string(i));
    Dim extent = room.IsFixed() ? Dim((room.fixed + beyond) / w.strides[i] + 1) : room + Dim(1);
    // In ceil mode the last window must start inside the input or the begin padding.
    if (ceil_mode && (extent.fixed - 1) * w.strides[i] >= x[i + 1].fixed + w.pads[i]) extent.fixed -= 1;
    out.push_back(extent);
  }
  out.push_back(channels);
  return out;
}

Ints KernelOf(const Dims& weight) {
  Ints kernel;
  for (size_t i = 2; i < weight.size(); ++i) kernel.push_back(weight[i].fixed);
  return kernel;
}

// Checks that a convolution maps x to y.
llvm::Error CheckConv(const InferContext& c, const TensorType& x, const TensorType& w, const TensorType& y) {
  ACT_CHECK_OK(c.CheckFloats());
  const int64_t group = c.node.attrs.Int("group", 1);
  if (x.rank() < 3 || w.rank() != x.rank() || y.rank() != x.rank())
    return c.Fail("input " + ToString(x) + " and weight " + ToString(w) + " must have the same rank, 3 to 5");
  if (group < 1 || x.dims.back() != w.dims[1] * Dim(group) || w.dims[0].fixed % group != 0)
    return c.Fail("input " + ToString(x) + " (channels last) does not fit weight " + ToString(w) +
                  " with group " + std::to_string(group));
  ACT_TRY(const Window window, WindowOf(c, KernelOf(w.dims)));
  ACT_TRY(const Dims dims, OutputDims(c, window, x.dims, w.dims[0], false));
  if (dims != y.dims) return c.Fail("result must be " + ToString(dims) + ", not " + ToString(y.dims));
  return llvm::Error::success();
}

llvm::Error InferConv(InferContext& c) {
  const TensorType &x = c.in(0), &w = c.in(1);
  if (x.rank() < 3 || w.rank() != x.rank())
    return c.Fail("input " + ToString(x) + " and weight " + ToString(w) + " must have the same rank, 3 to 5");
  ACT_TRY(const Window window, WindowOf(c, KernelOf(w.dims)));
  ACT_TRY(Dims dims, OutputDims(c, window, x.dims, w.dims[0], false));
  c.outputs[0] = {DType::kFloat32, std::move(dims)};
  if (c.Has(2) && c.in(2).dims != Dims{w.dims[0]})
    return c.Fail("bias must be [" + ToString(w.dims[0]) + "]");
  return CheckConv(c, x, w, c.outputs[0]);
}

llvm::Error InferConvGradInput(InferContext& c) { return CheckConv(c, c.outputs[0], c.in(1), c.in(0)); }
llvm::Error InferConvGradWeight(InferContext& c) { return CheckConv(c, c.in(1), c.outputs[0], c.in(0)); }

// 2 flops per multiply-add of the whole convolution. All three operators take the same number.
Dim ConvFlops(const TensorType& y, const TensorType& w) {
  Dim per_output(2);
  for (size_t i = 1; i < w.dims.size(); ++i) per_output = per_output * w.dims[i];
  return y.Elements() * per_output;
}

void ConvGrad(GradContext& g) {
  const ValueId x = g.in(0), w = g.in(1);
  // The weight gradient comes first: its operands may be freed before the input
  // gradient needs room.
  if (g.Wants(1)) g.SetGrad(1, g.EmitTyped("ConvGradWeight", {g.dout(), g.Save(x)}, g.type(w), g.attrs()));
  if (g.Wants(0)) g.SetGrad(0, g.EmitTyped("ConvGradInput", {g.dout(), g.Save(w)}, g.type(x), g.attrs()));
  if (g.Wants(2)) g.SetGrad(2, g.dout());
}

// y = ConvGradInput(x, w) is a transposed convolution, linear in both operands.
void ConvGradInputGrad(GradContext& g) {
  const ValueId x = g.in(0), w = g.in(1);
  if (g.Wants(1)) g.SetGrad(1, g.EmitTyped("ConvGradWeight", {g.Save(x), g.dout()}, g.type(w), g.attrs()));
  if (g.Wants(0)) g.SetGrad(0, g.Emit("Conv", {g.dout(), g.Save(w)}, g.attrs()));
}

llvm::Expected<Dims> PoolDims(const InferContext& c, const TensorType& x) {
  if (x.rank() < 3) return c.Fail("input " + ToString(x) + " has no spatial axis");
  const Ints kernel = c.node.attrs.Ints("kernel_shape");
  if (static_cast<int64_t>(kernel.size()) != x.rank() - 2)
    return c.Fail("kernel_shape does not fit " + ToString(x));
  ACT_TRY(const Window window, WindowOf(c, kernel));
  return OutputDims(c, window, x.dims, x.dims.back(), c.node.attrs.Int("ceil_mode") != 0);
}

llvm::Error InferPool(InferContext& c) {
  ACT_CHECK_OK(c.CheckFloats());
  ACT_TRY(Dims dims, PoolDims(c, c.in(0)));
  int64_t window = 1;
  for (int64_t k : c.node.attrs.Ints("kernel_shape")) window = SaturatingMul(window, k);
  if (c.outputs.size() > 1) c.outputs[1] = {window <= 256 ? DType::kUint8 : DType::kInt32, dims};
  c.outputs[0] = {DType::kFloat32, std::move(dims)};
  return llvm::Error::success();
}

llvm::Error InferPoolGrad(InferContext& c) {
  ACT_TRY(const Dims dims, PoolDims(c, c.outputs[0]));
  if (dims != c.in(0).dims)
    return c.Fail("gradient " + ToString(c.in(0)) + " does not fit " + ToString(dims));
  return llvm::Error::success();
}

void MaxPoolGrad(GradContext& g) {
  g.SetGrad(0, g.EmitTyped("MaxPoolGrad", {g.dout(), g.Save(g.out(1))}, g.type(g.in(0)), g.attrs()));
}
void AveragePoolGrad(GradContext& g) {
  g.SetGrad(0, g.EmitTyped("AveragePoolGrad", {g.dout()}, g.type(g.in(0)), g.attrs()));
}
void ResizeGrad(GradContext& g) {
  g.SetGrad(0, g.EmitTyped("ResizeGrad", {g.dout()}, g.type(g.in(0)), g.attrs()));
}

// Checks that a Resize takes x to y.
llvm::Error CheckResize(const InferContext& c, const TensorType& x, const TensorType& y) {
  ACT_CHECK_OK(c.CheckFloats());
  const Ints axes = c.node.attrs.Ints("axes");
  if (y.rank() != x.rank()) return c.Fail("cannot resize " + ToString(x) + " to " + ToString(y));
  if (axes.empty() || c.node.attrs.Floats("scales").size() != axes.size())
    return c.Fail("needs axes, and a scale for each");
  size_t next = 0;
  for (size_t a = 0; a < x.dims.size(); ++a) {
    const bool resized = next < axes.size() && axes[next] == static_cast<int64_t>(a);
    if (resized ? !x.dims[a].IsFixed() || !y.dims[a].IsFixed() : x.dims[a] != y.dims[a])
      return c.Fail("cannot resize axis " + std::to_string(a) + " of " + ToString(x) + " to that of " +
                    ToString(y));
    next += resized;
  }
  if (next != axes.size()) return c.Fail("axes must ascend within those of " + ToString(x));
  return llvm::Error::success();
}

llvm::Error InferResize(InferContext& c) { return CheckResize(c, c.in(0), c.outputs[0]); }
llvm::Error InferResizeGrad(InferContext& c) { return CheckResize(c, c.outputs[0], c.in(0)); }

Dim WindowFlops(const Node& node, const Graph& graph) {
  int64_t window = 1;
  for (int64_t k : node.attrs.Ints("kernel_shape")) window = SaturatingMul(window, k);
  return graph.value(node.outputs[0]).type.Elements() * Dim(window);
}

// The bits that tell the positions in a pooling window apart.
int64_t PositionBits(const Node& node) {
  int64_t window = 1, bits = 1;
  for (int64_t k : node.attrs.Ints("kernel_shape")) window *= k;
  while ((int64_t{1} << bits) < window) ++bits;
  return bits;
}

}  // namespace

void AddSpatialOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Conv",
                 .infer = InferConv,
                 .grad = ConvGrad,
                 .flops =
                     [](const Node& n, const Graph& g) {
                       return ConvFlops(g.value(n.outputs[0]).type, OperandType(g, n, 1));
                     },
                 .product = Product::kConvolution,
                 .needs = {Need::kProduct}});
  ops.push_back({.name = "ConvGradInput",
                 .infer = InferConvGradInput,
                 .grad = ConvGradInputGrad,
                 .flops =
                     [](const Node& n, const Graph& g) {
                       return ConvFlops(g.value(n.inputs[0]).type, OperandType(g, n, 1));
                     },
                 .product = Product::kTransposedConvolution,
                 .needs = {Need::kProduct}});
  ops.push_back({.name = "ConvGradWeight",
                 .infer = InferConvGradWeight,
                 .flops =
                     [](const Node& n, const Graph& g) {
                       return ConvFlops(g.value(n.inputs[0]).type, g.value(n.outputs[0]).type);
                     },
                 .product = Product::kWeightGradient,
                 .needs = {Need::kProduct}});
  ops.push_back({.name = "MaxPool",
                 .infer = InferPool,
                 .grad = MaxPoolGrad,
                 .flops = WindowFlops,
                 .values = Values::kRectified,
                 .index_bits = PositionBits});
  ops.push_back({.name = "MaxPoolGrad", .infer = InferPoolGrad, .flops = WindowFlops, .gradient = true});
  ops.push_back({.name = "AveragePool",
                 .infer = InferPool,
                 .grad = AveragePoolGrad,
                 .flops = WindowFlops,
                 .squares = Squares::kAverage});
  ops.push_back({.name = "AveragePoolGrad",
                 .infer = InferPoolGrad,
                 .flops = WindowFlops,
                 .gradient = true,
                 .squares = Squares::kHandedOut});
  ops.push_back({.name = "Resize", .infer = InferResize, .grad = ResizeGrad});
  ops.push_back({.name = "ResizeGrad", .infer = InferResizeGrad, .gradient = true});
  AddGridSampleOps(ops);
  AddRoiAlignOps(ops);
}

}  // namespace act
