// Resize, and Upsample of older opsets, in all modes. Axes that keep every element as it is are no
// part of what is resized.
#include <algorithm>
#include <cmath>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

constexpr char kCrop[] = "tf_crop_and_resize";

// One axis of input 0 as the model wants it.
struct ResizedAxis {
  size_t axis = 0;
  Dim to;
  double scale = 1;
  double start = 0, end = 1;  // the part that is shown; only tf_crop_and_resize chooses it
};

llvm::Error CheckWord(const NodeContext& c, const std::string& attribute, const std::string& word,
                      std::initializer_list<const char*> words) {
  std::string all;
  for (const char* known : words) {
    if (word == known) return llvm::Error::success();
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  return c.Fail(attribute + " " + word + " is not supported", "these are: " + all);
}

// The numbers of a known input; there must be `count`.
llvm::Expected<std::vector<Element>> Elements(const NodeContext& c, size_t input, const char* what,
                                              size_t count) {
  if (!c.Has(input) || !c.In(input).known) return c.Fail(std::string(what) + " must be known when compiling");
  const Known& known = *c.In(input).known;
  const auto fixed = FixedDims(known.type.dims);
  if (!fixed || ElementCount(*fixed) != static_cast<int64_t>(count))
    return c.Fail(std::string(what) + " must have " + std::to_string(count) + " elements");
  return BroadcastElements(known, *fixed);
}

// The product is rounded to a float, as PyTorch and ONNX Runtime do: 10 * 0.7 is 7, though the
// float 0.7 is less.
llvm::Error Scale(const NodeContext& c, double scale, ResizedAxis& axis) {
  const Dim& from = c.DimsOf(0)[axis.axis];
  axis.scale = scale;
  if (scale == 1) return llvm::Error::success();
  const float extent = std::floor(static_cast<float>(from.fixed) * static_cast<float>(scale));
  if (!from.IsFixed() || !(extent >= 0 && extent < static_cast<float>(kTooLarge)))
    return c.Fail("cannot scale axis " + std::to_string(axis.axis) + ", of extent " + ToString(from) +
                  ", by " + std::to_string(scale));
  axis.to = Dim(static_cast<int64_t>(extent));
  return llvm::Error::success();
}

llvm::Error Resize(const NodeContext& c, const Dim& to, ResizedAxis& axis) {
  const Dim& from = c.DimsOf(0)[axis.axis];
  axis.to = to;
  if (from == to) return llvm::Error::success();
  if (!from.IsFixed() || !to.IsFixed() || from.fixed < 1 || to.fixed < 0 || to.fixed >= kTooLarge)
    return c.Fail("cannot resize axis " + std::to_string(axis.axis) + " from " + ToString(from) + " to " +
                  ToString(to));
  axis.scale = static_cast<double>(to.fixed) / static_cast<double>(from.fixed);
  return llvm::Error::success();
}

// keep_aspect_ratio_policy: one scale for all axes, the least or the largest of those asked for.
llvm::Error KeepAspectRatio(const NodeContext& c, bool largest, std::vector<ResizedAxis>& axes) {
  double scale = largest ? 0 : INFINITY;
  for (const ResizedAxis& axis : axes) {
    if (!c.DimsOf(0)[axis.axis].IsFixed())
      return c.Fail("cannot keep the aspect ratio of axis " + std::to_string(axis.axis) +
                    ", which varies with the batch size");
    scale = largest ? std::max(scale, axis.scale) : std::min(scale, axis.scale);
  }
  for (ResizedAxis& axis : axes) {
    const double extent = scale * static_cast<double>(c.DimsOf(0)[axis.axis].fixed);
    if (!(extent < static_cast<double>(kTooLarge))) return c.Fail("makes too large a tensor");
    axis.scale = scale;
    axis.to = Dim(static_cast<int64_t>(std::floor(extent + .5)));
  }
  return llvm::Error::success();
}

llvm::Error ReadExtents(const NodeContext& c, std::vector<ResizedAxis>& axes) {
  if (c.attrs.Has("scales")) {  // Upsample-7
    const Floats scales = c.attrs.Floats("scales");
    if (scales.size() != axes.size()) return c.Fail("needs a scale for each axis");
    for (size_t i = 0; i < axes.size(); ++i) ACT_CHECK_OK(Scale(c, scales[i], axes[i]));
    return llvm::Error::success();
  }
  // Resize-10 and Upsample-9: (x, scales). Since 11: (x, roi, scales, sizes).
  const size_t scales_at = c.opset() < 11 || c.node.op_type() == "Upsample" ? 1 : 2;
  if (c.Has(scales_at) && c.DimsOf(scales_at) != Dims{0}) {
    ACT_TRY(const std::vector<Element> scales, Elements(c, scales_at, "scales or sizes", axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) ACT_CHECK_OK(Scale(c, scales[i].real, axes[i]));
    return llvm::Error::success();
  }
  ACT_TRY(const std::vector<Element> sizes, Elements(c, 3, "scales or sizes", axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) ACT_CHECK_OK(Resize(c, sizes[i].integer, axes[i]));
  const std::string policy = c.attrs.String("keep_aspect_ratio_policy", "stretch");
  ACT_CHECK_OK(CheckWord(c, "keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"}));
  if (policy == "stretch") return llvm::Error::success();
  return KeepAspectRatio(c, policy == "not_smaller", axes);
}

// The axes that are resized, ascending.
llvm::Expected<std::vector<ResizedAxis>> ReadAxes(const NodeContext& c, bool crops) {
  const size_t rank = c.DimsOf(0).size();
  Ints given;
  for (size_t i = 0; i < rank; ++i) given.push_back(static_cast<int64_t>(i));
  given = c.attrs.Ints("axes", given);
  std::vector<ResizedAxis> axes;
  for (const int64_t i : given) {
    ACT_TRY(const size_t axis, c.Axis(i, rank));
    axes.push_back({axis, c.DimsOf(0)[axis]});
  }
  ACT_CHECK_OK(ReadExtents(c, axes));
  if (crops) {
    ACT_TRY(const std::vector<Element> roi, Elements(c, 1, "roi", 2 * axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].start = roi[i].real;
      axes[i].end = roi[i + axes.size()].real;
    }
  }
  std::erase_if(axes, [&](const ResizedAxis& a) {
    return a.scale == 1 && a.to == c.DimsOf(0)[a.axis] && a.start == 0 && a.end == 1;
  });
  std::sort(axes.begin(), axes.end(),
            [](const ResizedAxis& a, const ResizedAxis& b) { return a.axis < b.axis; });
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0 && axes[i].axis == axes[i - 1].axis) return c.Fail("resizes an axis twice");
    if (!c.DimsOf(0)[axes[i].axis].IsFixed())
      return c.Fail("cannot crop axis " + std::to_string(axes[i].axis) +
                    ", which varies with the batch size");
  }
  return axes;
}

// The attributes of our operator but for the axes; one that has no meaning for the mode is left out.
llvm::Expected<Attributes> ReadMode(const NodeContext& c) {
  const bool old = c.opset() < 11 || c.node.op_type() == "Upsample";
  const std::string mode = c.attrs.String("mode", "nearest");
  const std::string coordinates =
      c.attrs.String("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const std::string nearest = c.attrs.String("nearest_mode", old ? "floor" : "round_prefer_floor");
  const bool antialias = c.attrs.Int("antialias") != 0, exclude = c.attrs.Int("exclude_outside") != 0;
  const double cubic_a = c.attrs.Float("cubic_coeff_a", -.75);
  ACT_CHECK_OK(CheckWord(c, "mode", mode, {"nearest", "linear", "cubic"}));
  ACT_CHECK_OK(CheckWord(c, "coordinate_transformation_mode", coordinates,
                         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                          "asymmetric", "tf_half_pixel_for_nn", kCrop}));
  ACT_CHECK_OK(
      CheckWord(c, "nearest_mode", nearest, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}));
  Attributes attrs;
  attrs.Set("mode", mode);
  attrs.Set("coordinate_mode", coordinates);
  if (mode == "nearest") {
    attrs.Set("nearest_mode", nearest);
    return attrs;
  }
  if (mode == "cubic") attrs.Set("cubic_a", cubic_a);
  if (antialias) attrs.Set("antialias", int64_t{1});
  if (exclude) attrs.Set("exclude_outside", int64_t{1});
  return attrs;
}

llvm::Expected<ValueId> EmitResize(const NodeContext& c, ValueId x, const std::vector<ResizedAxis>& axes,
                                   Attributes attrs) {
  // Pixels with all their channels side by side, as the operators around a resize of images want
  // them.
  const bool images = axes.front().axis >= 2;
  if (images) {
    ACT_TRY(x, c.ToChannelsLast(x));
  }
  Dims dims = c.TypeOf(x).dims;
  Ints positions;
  Floats scales, roi;
  for (const ResizedAxis& axis : axes) {
    const size_t at = axis.axis - (images ? 1 : 0);
    dims[at] = axis.to;
    positions.push_back(static_cast<int64_t>(at));
    scales.push_back(axis.scale);
    roi.push_back(axis.start);
  }
  for (const ResizedAxis& axis : axes) roi.push_back(axis.end);
  attrs.Set("axes", positions);
  attrs.Set("scales", scales);
  if (attrs.String("coordinate_mode") == kCrop) attrs.Set("roi", roi);
  ACT_TRY(const ValueId y, c.builder().AddTyped("Resize", {x}, {DType::kFloat32, dims}, attrs, c.name()));
  return images ? c.ToChannelsFirst(y) : y;
}

// Opset 10 names no rounding. Its node tests round up where an axis shrinks and down where it grows, and so
// does ONNX Runtime. Axes that round alike are one operator.
llvm::Expected<ValueId> EmitAll(const NodeContext& c, ValueId x, const std::vector<ResizedAxis>& axes,
                                const Attributes& attrs) {
  if (c.opset() != 10 || c.node.op_type() != "Resize" || attrs.String("mode") != "nearest")
    return EmitResize(c, x, axes, attrs);
  for (const bool shrinks : {true, false}) {
    std::vector<ResizedAxis> alike = axes;
    std::erase_if(alike, [=](const ResizedAxis& a) { return (a.scale < 1) != shrinks; });
    if (alike.empty()) continue;
    Attributes rounded = attrs;
    rounded.Set("nearest_mode", std::string(shrinks ? "ceil" : "floor"));
    ACT_TRY(x, EmitResize(c, x, alike, std::move(rounded)));
  }
  return x;
}

llvm::Error ImportResize(NodeContext& c) {
  ACT_TRY(const Attributes attrs, ReadMode(c));
  const bool crops = attrs.String("coordinate_mode") == kCrop;
  ACT_TRY(const std::vector<ResizedAxis> axes, ReadAxes(c, crops));
  ACT_TRY(ValueId x, c.Value(0));
  if (axes.empty()) return c.Set(0, x);
  // What lies outside is 0 to the operator: around the extrapolation value, that is this value.
  const double outside = crops ? c.attrs.Float("extrapolation_value", 0) : 0;
  const ValueId level = c.builder().Scalar(static_cast<float>(outside));
  if (outside != 0) {
    ACT_TRY(x, c.Emit("Sub", {x, level}));
  }
  ACT_TRY(ValueId y, EmitAll(c, x, axes, attrs));
  if (outside != 0) {
    ACT_TRY(y, c.Emit("Add", {y, level}));
  }
  return c.Set(0, y);
}

}  // namespace

const std::vector<ImportEntry>& ResizeImports() {
  static const std::vector<ImportEntry> entries = {
      {"Resize", 1, 4, ImportResize},
      {"Upsample", 1, 2, ImportResize},
  };
  return entries;
}

}  // namespace act::onnx_import
