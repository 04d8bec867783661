// Convolution and pooling. They are channels-first in ONNX and channels-last here, so
// each gets a transpose before and after it. A pass cancels these against those of its neighbours.
#include "compiler/import/core/importer.h"
#include "compiler/import/ops/window.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The bias of input 2; none where it is a known zero (the dynamo exporter writes one for
// bias=False).
llvm::Expected<ValueId> Bias(const NodeContext& c) {
  if (!c.Has(2) || c.Number(2) == 0) return kNoValue;
  return c.Value(2);
}

llvm::Error ReturnChannelsFirst(NodeContext& c, llvm::Expected<ValueId> y) {
  if (!y) return y.takeError();
  return c.Return(c.ToChannelsFirst(*y));
}

llvm::Error ImportConv(NodeContext& c) {
  ACT_TRY(Ints kernel, KernelOfWeight(c, c.DimsOf(1)));
  ACT_TRY(const Window window, ReadWindow(c, std::move(kernel), c.DimsOf(0)));
  Attributes attrs = window.ToAttributes();
  attrs.Set("group", c.attrs.Int("group", 1));
  ACT_TRY(const ValueId image, c.Value(0));
  ACT_TRY(const ValueId weight, c.Value(1));
  ACT_TRY(const ValueId bias, Bias(c));
  ACT_TRY(const ValueId x, c.ToChannelsLast(image));
  std::vector<ValueId> operands{x, weight};
  if (bias != kNoValue) operands.push_back(bias);
  return ReturnChannelsFirst(c, c.Emit("Conv", operands, attrs));
}

// Chooses pads that give ConvTranspose's attribute output_shape, and output padding where pads do
// not suffice.
llvm::Error PadsFromOutputShape(NodeContext& c, const Ints& output, Ints& extra, Window& w) {
  const size_t axes = w.kernel.size();
  if (output.size() != axes) return c.Fail("output_shape must have an entry for each spatial axis");
  for (size_t i = 0; i < axes; ++i) {
    const Dim& extent = c.DimsOf(0)[i + 2];
    if (!extent.IsFixed())
      return c.Fail("output_shape needs spatial extents that do not vary with the batch size");
    const int64_t reach = SaturatingAdd(SaturatingMul(extent.fixed - 1, w.strides[i]),
                                        (w.kernel[i] - 1) * w.dilations[i] + 1 + extra[i]);
    if (output[i] < 1 || output[i] > INT32_MAX) return c.Fail("cannot reach the output_shape");
    extra[i] += std::max<int64_t>(0, output[i] - reach);  // beyond the kernel's reach there is only the bias
    const int64_t total = std::max<int64_t>(0, reach - output[i]);
    const bool upper = c.attrs.String("auto_pad") == "SAME_UPPER";
    w.pads[i] = upper ? total / 2 : total - total / 2;
    w.pads[i + axes] = total - w.pads[i];
  }
  return llvm::Error::success();
}

llvm::Error ImportConvTranspose(NodeContext& c) {
  ACT_TRY(Ints kernel, KernelOfWeight(c, c.DimsOf(1)));
  const std::string auto_pad = c.attrs.String("auto_pad", "NOTSET");
  const size_t axes = kernel.size();
  ACT_TRY(Window window, ReadWindow(c, std::move(kernel), c.DimsOf(0)));
  Ints extra = c.attrs.Ints("output_padding", Ints(axes, 0));
  if (extra.size() != axes) return c.Fail("output_padding must have an entry for each spatial axis");
  for (int64_t e : extra)
    if (e < 0 || e > INT32_MAX) return c.Fail("output_padding must not be negative");
  Ints output = c.attrs.Ints("output_shape");
  if (output.empty() && (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"))
    for (size_t i = 0; i < axes; ++i)
      output.push_back(SaturatingMul(c.DimsOf(0)[i + 2].fixed, window.strides[i]));
  if (!output.empty()) ACT_CHECK_OK(PadsFromOutputShape(c, output, extra, window));
  Attributes attrs = window.ToAttributes();
  attrs.Set("group", c.attrs.Int("group", 1));
  attrs.Set("output_padding", extra);
  ACT_TRY(const ValueId image, c.Value(0));
  ACT_TRY(const ValueId weight, c.Value(1));
  ACT_TRY(const ValueId bias, Bias(c));
  ACT_TRY(const ValueId x, c.ToChannelsLast(image));
  return ReturnChannelsFirst(c, c.builder().ConvTranspose(x, weight, bias, attrs, c.name()));
}

// In ceil mode a window may go past the padded image by less than a stride. Where it is larger than all of it, as in a
// pool that asks for more than any image has, the part outside is cut off: it counts for nothing.
void CutToImage(Window& window, const Dims& dims) {
  const size_t axes = window.kernel.size();
  for (size_t i = 0; i < axes; ++i) {
    if (!dims[i + 2].IsFixed() || window.dilations[i] != 1) continue;
    const int64_t whole = dims[i + 2].fixed + window.pads[i] + window.pads[i + axes];
    const int64_t past = window.kernel[i] - whole;
    if (whole > 0 && past > 0 && past < window.strides[i]) window.kernel[i] = whole;
  }
}

llvm::Error ImportPool(NodeContext& c) {
  const bool is_max = c.node.op_type() == "MaxPool", ceil_mode = c.attrs.Int("ceil_mode") != 0;
  ACT_TRY(Window window, ReadWindow(c, c.attrs.Ints("kernel_shape"), c.DimsOf(0)));
  if (ceil_mode) CutToImage(window, c.DimsOf(0));
  Attributes attrs = window.ToAttributes();
  attrs.Set("kernel_shape", window.kernel);
  if (ceil_mode) attrs.Set("ceil_mode", int64_t{1});
  if (!is_max) attrs.Set("count_include_pad", c.attrs.Int("count_include_pad"));
  ACT_TRY(ValueId image, c.Value(0));
  const DType given = c.Type(0).dtype;
  const bool bytes = given == DType::kInt8 || given == DType::kUint8;  // exact in f32, as their maxima are
  if (bytes) {
    ACT_TRY(image, c.Cast(image, DType::kFloat32));
  }
  ACT_TRY(const ValueId x, c.ToChannelsLast(image));
  if (!is_max) return ReturnChannelsFirst(c, c.Emit("AveragePool", {x}, attrs));
  // The gradient reads the second output, the index of each maximum in its window. ONNX's second
  // output is an offset into the whole tensor instead.
  ACT_TRY(const std::vector<ValueId> y, c.builder().Add("MaxPool", {x}, attrs, c.name(), 2));
  ACT_TRY(ValueId result, c.ToChannelsFirst(y[0]));
  if (bytes) {
    ACT_TRY(result, c.Cast(result, given));
  }
  ACT_CHECK_OK(c.Set(1, Operand{.type = {DType::kInt64, c.TypeOf(result).dims}, .kept = y[1]}));
  return c.Set(0, result);
}

// Global pooling is a reduction over the spatial axes of the channels-last tensor.
llvm::Error ImportGlobalPool(NodeContext& c) {
  ACT_TRY(const ValueId image, c.Value(0));
  ACT_TRY(const ValueId x, c.ToChannelsLast(image));
  Attributes attrs;
  Ints axes;
  for (int64_t i = 1; i + 1 < c.Type(0).rank(); ++i) axes.push_back(i);
  attrs.Set("axes", axes);
  attrs.Set("keepdims", int64_t{1});
  return ReturnChannelsFirst(
      c, c.Emit(c.node.op_type() == "GlobalMaxPool" ? "ReduceMax" : "ReduceMean", {x}, attrs));
}

}  // namespace

const std::vector<ImportEntry>& SpatialImports() {
  static const std::vector<ImportEntry> entries = {
      {"Conv", 2, 3, ImportConv},
      {"ConvTranspose", 2, 3, ImportConvTranspose},
      {"MaxPool", 1, 1, ImportPool},
      {"AveragePool", 1, 1, ImportPool},
      {"GlobalAveragePool", 1, 1, ImportGlobalPool},
      {"GlobalMaxPool", 1, 1, ImportGlobalPool},
  };
  return entries;
}

}  // namespace act::onnx_import
