// Convolution, pooling and resizing. They are channels-first in ONNX and channels-last here, so
// each gets a transpose before and after it. A pass cancels these against those of its neighbours.
#include <cmath>

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

llvm::Expected<ValueId> CastTo(NodeContext& c, ValueId x, DType dtype) {
  Attributes attrs;
  attrs.Set("to", static_cast<int64_t>(dtype));
  return c.Emit("Cast", {x}, attrs);
}

llvm::Error ImportPool(NodeContext& c) {
  const bool is_max = c.node.op_type() == "MaxPool";
  ACT_TRY(const Window window, ReadWindow(c, c.attrs.Ints("kernel_shape"), c.DimsOf(0)));
  Attributes attrs = window.ToAttributes();
  attrs.Set("kernel_shape", window.kernel);
  if (c.attrs.Int("ceil_mode") != 0) attrs.Set("ceil_mode", int64_t{1});
  if (!is_max) attrs.Set("count_include_pad", c.attrs.Int("count_include_pad"));
  ACT_TRY(ValueId image, c.Value(0));
  const DType given = c.Type(0).dtype;
  const bool bytes = given == DType::kInt8 || given == DType::kUint8;  // exact in f32, as their maxima are
  if (bytes) {
    ACT_TRY(image, CastTo(c, image, DType::kFloat32));
  }
  ACT_TRY(const ValueId x, c.ToChannelsLast(image));
  if (!is_max) return ReturnChannelsFirst(c, c.Emit("AveragePool", {x}, attrs));
  // The gradient reads the second output, the index of each maximum in its window. ONNX's second
  // output is an offset into the whole tensor instead.
  ACT_TRY(const std::vector<ValueId> y, c.builder().Add("MaxPool", {x}, attrs, c.name(), 2));
  ACT_TRY(ValueId result, c.ToChannelsFirst(y[0]));
  if (bytes) {
    ACT_TRY(result, CastTo(c, result, given));
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

// The result's extent and the scale for each axis of the input, from Resize's inputs or an older
// form of the operator.
struct Scaling {
  Dims dims;
  std::vector<double> scales;
};

// The extent of an axis of input 0 after scaling.
llvm::Expected<Dim> Scaled(const NodeContext& c, size_t axis, double scale) {
  const Dim& dim = c.DimsOf(0)[axis];
  if (scale == 1) return dim;
  const double extent = std::floor(static_cast<double>(dim.fixed) * scale);
  if (!dim.IsFixed() || !(extent >= 0 && extent < static_cast<double>(kTooLarge)))
    return c.Fail("cannot scale axis " + std::to_string(axis));
  return Dim(static_cast<int64_t>(extent));
}

llvm::Expected<Scaling> ReadScaling(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  // Resize-10 and Upsample-9: (x, scales). Since 11: (x, roi, scales, sizes).
  const size_t scales_at = c.opset() < 11 || c.node.op_type() == "Upsample" ? 1 : 2;
  Ints axes;
  for (size_t i = 0; i < from.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  axes = c.attrs.Ints("axes", axes);
  Scaling result{from, std::vector<double>(from.size(), 1)};
  if (c.attrs.Has("scales")) {  // Upsample-7
    const std::vector<double> scales = c.attrs.Floats("scales");
    if (scales.size() != from.size()) return c.Fail("needs a scale for each axis");
    for (size_t i = 0; i < from.size(); ++i) {
      ACT_TRY(result.dims[i], Scaled(c, i, scales[i]));
    }
    result.scales = scales;
    return result;
  }
  const bool has_scales = c.Has(scales_at) && c.DimsOf(scales_at) != Dims{0};
  const size_t at = has_scales ? scales_at : 3;
  if (!c.Has(at) || !c.In(at).known) return c.Fail("scales or sizes must be known when compiling");
  const Known& known = *c.In(at).known;
  const auto fixed = FixedDims(known.type.dims);
  if (!fixed || ElementCount(*fixed) != static_cast<int64_t>(axes.size()))
    return c.Fail("needs a scale or size for each axis");
  const std::vector<Element> values = BroadcastElements(known, *fixed);
  for (size_t i = 0; i < axes.size(); ++i) {
    ACT_TRY(const size_t axis, c.Axis(axes[i], from.size()));
    Dim& dim = result.dims[axis];
    if (!has_scales) {
      if (values[i].integer == dim) continue;
      if (!dim.IsFixed() || !values[i].integer.IsFixed() || dim.fixed < 1)
        return c.Fail("cannot resize axis " + std::to_string(axis));
      result.scales[axis] = static_cast<double>(values[i].integer.fixed) / static_cast<double>(dim.fixed);
      dim = values[i].integer;
    } else {
      ACT_TRY(dim, Scaled(c, axis, values[i].real));
      result.scales[axis] = values[i].real;
    }
  }
  return result;
}

llvm::Error ImportResize(NodeContext& c) {
  if (c.Type(0).rank() < 3) return c.Fail("needs a spatial axis");
  ACT_TRY(const Scaling scaling, ReadScaling(c));
  const Dims& to = scaling.dims;
  if (to[0] != c.DimsOf(0)[0] || to[1] != c.DimsOf(0)[1])
    return c.Fail("resizes samples or channels, which is not supported");
  const bool old = c.opset() < 11 || c.node.op_type() == "Upsample";
  const std::string mode = c.attrs.String("mode", "nearest");
  const std::string coordinates =
      c.attrs.String("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  if (mode != "nearest" && mode != "linear")
    return c.Fail("mode " + mode + " is not supported", "nearest and linear are");
  if (coordinates != "half_pixel" && coordinates != "pytorch_half_pixel" && coordinates != "align_corners" &&
      coordinates != "asymmetric")
    return c.Fail("coordinate_transformation_mode " + coordinates + " is not supported");
  if (c.attrs.Int("antialias") != 0) return c.Fail("antialias is not supported");
  if (c.attrs.String("keep_aspect_ratio_policy", "stretch") != "stretch")
    return c.Fail("keep_aspect_ratio_policy other than stretch is not supported");
  Attributes attrs;
  attrs.Set("mode", mode);
  attrs.Set("coordinate_mode", coordinates);
  attrs.Set("nearest_mode", c.attrs.String("nearest_mode", old ? "floor" : "round_prefer_floor"));
  attrs.Set("scales", std::vector<double>(scaling.scales.begin() + 2, scaling.scales.end()));
  ACT_TRY(const ValueId image, c.Value(0));
  if (to == c.DimsOf(0)) return c.Set(0, image);
  ACT_TRY(const ValueId x, c.ToChannelsLast(image));
  Dims dims{to[0]};
  dims.insert(dims.end(), to.begin() + 2, to.end());
  dims.push_back(to[1]);
  return ReturnChannelsFirst(c,
                             c.builder().AddTyped("Resize", {x}, {DType::kFloat32, dims}, attrs, c.name()));
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
      {"Resize", 1, 4, ImportResize},
      {"Upsample", 1, 2, ImportResize},
  };
  return entries;
}

}  // namespace act::onnx_import
