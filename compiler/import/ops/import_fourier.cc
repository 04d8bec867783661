// Discrete Fourier transforms. Each is a product with a matrix that is made when compiling, or a convolution
// with its columns: it has a gradient, and takes n^2 multiplications where a fast transform takes n log n.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "compiler/import/ops/slices.h"

namespace act::onnx_import {
namespace {

constexpr int64_t kMostCoefficients = int64_t{1} << 24;  // 64 MiB, which the plan holds

struct Transform {
  int64_t length = 0;                       // of a period
  int64_t taken = 0, made = 0;              // numbers along the axis, before and after
  int64_t parts_taken = 1, parts_made = 2;  // of a number. 1: it is real
  bool inverse = false;
  // The inverse of half a spectrum, whose other half is the conjugate of it.
  bool mirrored = false;
};

// [taken parts_taken, made parts_made]
std::vector<float> Coefficients(const Transform& t) {
  std::vector<double> cosine, sine;  // of a turn's parts, so that a large angle loses no digits
  for (int64_t i = 0; i < t.length; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(t.length);
    cosine.push_back(std::cos(angle));
    sine.push_back(t.inverse ? std::sin(angle) : -std::sin(angle));
  }
  std::vector<float> numbers;
  numbers.reserve(static_cast<size_t>(t.taken * t.parts_taken * t.made * t.parts_made));
  for (int64_t i = 0; i < t.taken; ++i) {
    const bool twice = t.mirrored && i > 0 && 2 * i < t.length;
    const double factor = (twice ? 2.0 : 1.0) / static_cast<double>(t.inverse ? t.length : 1);
    for (int64_t part = 0; part < t.parts_taken; ++part) {
      for (int64_t k = 0; k < t.made; ++k) {
        const auto at = static_cast<size_t>(i * k % t.length);
        // (a + b j) (cosine + sine j)
        const double real = part == 0 ? cosine[at] : -sine[at], imaginary = part == 0 ? sine[at] : cosine[at];
        numbers.push_back(static_cast<float>(factor * real));
        if (t.parts_made == 2) numbers.push_back(static_cast<float>(factor * imaginary));
      }
    }
  }
  return numbers;
}

// Layers that transform as many numbers share it.
ValueId Constant(const NodeContext& c, const Dims& dims, const std::vector<float>& numbers) {
  const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(float));
  return c.importer.SharedConstant({DType::kFloat32, dims}, HostTensor::Copy(numbers.data(), bytes));
}

// An error where the transform cannot be made. halved: the input or the result is half a spectrum.
llvm::Error Check(const NodeContext& c, const Transform& t, bool halved) {
  if (t.length < 1 || t.length > kMostCoefficients)
    return c.Fail("a transform of " + std::to_string(t.length) + " numbers");
  if (halved && t.parts_taken != (t.inverse ? 2 : 1))
    return c.Fail(t.inverse ? "half a spectrum must be complex" : "onesided takes real numbers alone");
  const int64_t coefficients = SaturatingMul(t.taken * t.parts_taken, t.made * t.parts_made);
  if (coefficients > kMostCoefficients)
    return c.Fail("is a product with a matrix of " + std::to_string(coefficients) +
                  " numbers; the most are " + std::to_string(kMostCoefficients));
  return llvm::Error::success();
}

llvm::Expected<Transform> TransformOf(NodeContext& c, size_t axis) {
  const Dims& dims = c.DimsOf(0);
  if (!dims[axis].IsFixed() || (dims.back() != Dim(1) && dims.back() != Dim(2)))
    return c.Fail("the axis of " + ToString(c.Type(0)) +
                  " must have a fixed extent, and the last one 1 or 2");
  const bool onesided = c.attrs.Int("onesided") != 0;
  const int64_t extent = dims[axis].fixed;
  Transform t;
  t.inverse = c.attrs.Int("inverse") != 0;
  t.mirrored = onesided && t.inverse;
  t.parts_taken = dims.back().fixed;
  t.parts_made = t.mirrored ? 1 : 2;
  ACT_TRY(const std::optional<int64_t> length, c.Integer(1));
  t.length = length.value_or(t.mirrored ? SaturatingMul(2, extent - 1) : extent);
  t.taken = std::min(extent, t.mirrored ? t.length / 2 + 1 : t.length);
  t.made = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  ACT_CHECK_OK(Check(c, t, onesided));
  return t;
}

// The axis: before opset 20 an attribute.
llvm::Expected<size_t> AxisOf(const NodeContext& c) {
  const size_t rank = c.DimsOf(0).size();
  if (rank < 2) return c.Fail("the signal must have two axes or more");
  ACT_TRY(const std::optional<int64_t> given, c.Integer(2));
  ACT_TRY(const size_t axis, c.Axis(given.value_or(c.opset() < 20 ? c.attrs.Int("axis", 1) : -2), rank));
  if (axis + 1 == rank) return c.Fail("the last axis holds the parts of a number");
  return axis;
}

// x [.., signal, .., 1 or 2] -> [.., signal, .., 2], or 1 at the end for the inverse of half a spectrum
llvm::Error ImportDft(NodeContext& c) {
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(const size_t axis, AxisOf(c));
  ACT_TRY(const Transform t, TransformOf(c, axis));
  std::vector<SliceRange> ranges = Whole(c.DimsOf(0));
  ranges[axis].extent = t.taken;  // a longer signal is cut, a shorter one goes on with zeros
  ACT_TRY(x, SliceOf(c, x, ranges));
  std::vector<int64_t> perm;  // the axis before the parts; it is its own inverse
  for (size_t i = 0; i < ranges.size(); ++i) perm.push_back(static_cast<int64_t>(i));
  std::swap(perm[axis], perm[ranges.size() - 2]);
  ACT_TRY(x, c.Transpose(x, perm));
  Dims dims = c.TypeOf(x).dims;
  dims.resize(dims.size() - 2);
  Dims rows = dims;
  rows.emplace_back(t.taken * t.parts_taken);
  ACT_TRY(x, c.Reshape(x, rows));
  const ValueId matrix = Constant(c, {t.taken * t.parts_taken, t.made * t.parts_made}, Coefficients(t));
  ACT_TRY(ValueId y, c.Emit("MatMul", {x, matrix}));
  dims.insert(dims.end(), {Dim(t.made), Dim(t.parts_made)});
  ACT_TRY(y, c.Reshape(y, dims));
  return c.Return(c.Transpose(y, perm));
}

// The transform of each frame: it has the length of the window, input 2, or of input 3, or of the signal.
llvm::Expected<Transform> FrameTransform(const NodeContext& c, const Dims& dims) {
  if (dims.size() != 3 || !dims[1].IsFixed() || (dims[2] != Dim(1) && dims[2] != Dim(2)))
    return c.Fail("takes signals [N, numbers, 1 or 2], not " + ToString(c.Type(0)));
  ACT_TRY(const std::optional<int64_t> length, c.Integer(3));
  Transform t;
  t.length = length.value_or(dims[1].fixed);
  if (c.Has(2)) {
    const Dims& window = c.DimsOf(2);
    if (window.size() != 1 || !window[0].IsFixed() || (length && window[0] != Dim(*length)))
      return c.Fail("the window " + ToString(c.Type(2)) + " does not fit frames of " +
                    std::to_string(t.length));
    t.length = window[0].fixed;
  }
  const bool onesided = c.attrs.Int("onesided", 1) != 0;
  t.parts_taken = dims[2].fixed;
  t.taken = t.length;
  t.made = onesided ? t.length / 2 + 1 : t.length;
  ACT_CHECK_OK(Check(c, t, onesided));
  if (t.length > dims[1].fixed)
    return c.Fail("frames of " + std::to_string(t.length) + " are longer than " + ToString(c.Type(0)));
  return t;
}

// signal [N, numbers, 1 or 2] -> [N, frames, bins, 2]: a convolution whose filters are the columns of the matrix.
// TorchScript's exporter leaves the last axis of the signal out.
llvm::Error ImportStft(NodeContext& c) {
  ACT_TRY(ValueId signal, c.Value(0));
  Dims given = c.DimsOf(0);
  if (given.size() == 2) {
    given.emplace_back(1);
    ACT_TRY(signal, c.Reshape(signal, given));
  }
  ACT_TRY(const std::optional<int64_t> step, c.Integer(1));
  if (!step || *step < 1 || *step > INT32_MAX)
    return c.Fail("the step between frames must be known and positive");
  ACT_TRY(const Transform t, FrameTransform(c, given));
  const std::vector<float> columns = Coefficients(t);
  const auto filters = static_cast<size_t>(t.made * t.parts_made), parts = static_cast<size_t>(t.parts_taken),
             taps = static_cast<size_t>(t.taken);
  std::vector<float> numbers(columns.size());
  for (size_t f = 0; f < filters; ++f)
    for (size_t part = 0; part < parts; ++part)
      for (size_t i = 0; i < taps; ++i)
        numbers[(f * parts + part) * taps + i] = columns[(i * parts + part) * filters + f];
  ValueId weight = Constant(c, {t.made * t.parts_made, t.parts_taken, t.taken}, numbers);
  if (c.Has(2)) {
    ACT_TRY(ValueId window, c.Value(2));
    ACT_TRY(window, c.Reshape(window, {1, 1, t.taken}));
    ACT_TRY(weight, c.Emit("Mul", {weight, window}));
  }
  Attributes attrs;
  attrs.Set("strides", std::vector<int64_t>{*step});
  attrs.Set("dilations", std::vector<int64_t>{1});
  attrs.Set("pads", std::vector<int64_t>{0, 0});
  attrs.Set("group", int64_t{1});
  ACT_TRY(const ValueId y, c.Emit("Conv", {signal, weight}, attrs));
  const Dims dims = c.TypeOf(y).dims;
  return c.Return(c.Reshape(y, {dims[0], dims[1], t.made, t.parts_made}));
}

}  // namespace

const std::vector<ImportEntry>& FourierImports() {
  static const std::vector<ImportEntry> entries = {{"DFT", 1, 3, ImportDft}, {"STFT", 2, 4, ImportStft}};
  return entries;
}

}  // namespace act::onnx_import
