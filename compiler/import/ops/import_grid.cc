// GridSample, AffineGrid, which makes grids for it, and RoiAlign.
#include <algorithm>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

// x [N, C, S..], grid [N, P.., axes of S] -> [N, C, P..]
llvm::Error ImportGridSample(NodeContext& c) {
  // Up to opset 19 the filters have the names of images.
  const std::string mode = c.attrs.String("mode", "linear"),
                    outside = c.attrs.String("padding_mode", "zeros");
  const std::string filter = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  if (filter != "nearest" && filter != "linear" && filter != "cubic")
    return c.Fail("mode '" + mode + "' is not supported");
  if (outside != "zeros" && outside != "border" && outside != "reflection")
    return c.Fail("padding_mode '" + outside + "' is not supported");
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(x, c.ToChannelsLast(x));
  ACT_TRY(const ValueId grid, c.Value(1));
  Attributes attrs;
  attrs.Set("mode", filter);
  attrs.Set("outside", outside);
  attrs.Set("align_corners", int64_t{c.attrs.Int("align_corners") != 0});
  ACT_TRY(const ValueId y, c.Emit("GridSample", {x, grid}, attrs));
  return c.Return(c.ToChannelsFirst(y));
}

// x [N, C, H, W], regions [R, 4], their images [R] -> [R, C, bins]
llvm::Error ImportRoiAlign(NodeContext& c) {
  const std::string mode = c.attrs.String("mode", "avg");
  const std::string pixels =
      c.attrs.String("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg")
    return c.Fail("mode '" + mode + "' is not supported", "mode 'avg', which torchvision's roi_align has");
  if (pixels != "half_pixel" && pixels != "output_half_pixel")
    return c.Fail("coordinate_transformation_mode '" + pixels + "' is not supported");
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(x, c.ToChannelsLast(x));
  ACT_TRY(const ValueId regions, c.Value(1));
  ACT_TRY(const ValueId image, c.Value(2));
  Attributes attrs;
  attrs.Set("bins", std::vector<int64_t>{c.attrs.Int("output_height", 1), c.attrs.Int("output_width", 1)});
  attrs.Set("samples", c.attrs.Int("sampling_ratio"));
  attrs.Set("scale", c.attrs.Float("spatial_scale", 1));
  attrs.Set("half_pixel", int64_t{pixels == "half_pixel"});
  ACT_TRY(const ValueId y, c.Emit("RoiAlign", {x, regions, image}, attrs));
  return c.Return(c.ToChannelsFirst(y));
}

// Where element i of an axis lies, if -1 to 1 is the whole axis.
float Place(int64_t i, int64_t extent, bool align_corners) {
  const auto at = static_cast<double>(i), size = static_cast<double>(extent);
  if (!align_corners) return static_cast<float>((2 * at + 1) / size - 1);
  return extent == 1 ? -1.0f : static_cast<float>(2 * at / (size - 1) - 1);
}

// The places [pixels, axes + 1] of all pixels of an image, row-major: its coordinates, those of the last
// axis first, and a 1.
llvm::Expected<ValueId> Places(const NodeContext& c, const std::vector<int64_t>& image, bool align_corners) {
  const auto axes = static_cast<int64_t>(image.size());
  int64_t pixels = 1;
  for (const int64_t extent : image) pixels = SaturatingMul(pixels, extent);
  if (SaturatingMul(pixels, axes + 1) > kMaxKnownElements)
    return c.Fail("makes " + std::to_string(pixels) + " places; their coordinates are limited to " +
                  std::to_string(kMaxKnownElements) + " numbers");
  std::vector<float> numbers;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    int64_t rest = pixel;
    for (int64_t a = axes - 1; a >= 0; --a) {
      const int64_t extent = image[static_cast<size_t>(a)];
      numbers.push_back(Place(rest % extent, extent, align_corners));
      rest /= extent;
    }
    numbers.push_back(1);
  }
  const TensorType type{DType::kFloat32, {pixels, axes + 1}};
  return c.builder().Constant(
      "", type, HostTensor::Copy(numbers.data(), static_cast<int64_t>(numbers.size() * sizeof(float))));
}

// theta [N, axes, axes + 1], size (N, C, S..) -> [N, S.., axes]: the places of an image's pixels, mapped by
// theta.
llvm::Error ImportAffineGrid(NodeContext& c) {
  ACT_TRY(const Dims size, c.DimsFrom(1));
  const Dims& theta_dims = c.DimsOf(0);
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || theta_dims != Dims{size[0], axes, axes + 1} ||
      !std::all_of(size.begin() + 2, size.end(), [](const Dim& d) { return d.IsFixed() && d.fixed > 0; }))
    return c.Fail("theta " + ToString(c.Type(0)) + " does not fit the size " + ToString(size));
  std::vector<int64_t> image;
  for (size_t a = 2; a < size.size(); ++a) image.push_back(size[a].fixed);
  ACT_TRY(const ValueId places, Places(c, image, c.attrs.Int("align_corners") != 0));
  ACT_TRY(ValueId theta, c.Value(0));
  ACT_TRY(theta, c.Transpose(theta, {0, 2, 1}));
  ACT_TRY(const ValueId grid, c.Emit("MatMul", {places, theta}));
  Dims dims{size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(axes);
  return c.Return(c.Reshape(grid, std::move(dims)));
}

}  // namespace

const std::vector<ImportEntry>& GridImports() {
  static const std::vector<ImportEntry> entries = {
      {"GridSample", 2, 2, ImportGridSample},
      {"AffineGrid", 2, 2, ImportAffineGrid},
      {"RoiAlign", 3, 3, ImportRoiAlign},
  };
  return entries;
}

}  // namespace act::onnx_import
