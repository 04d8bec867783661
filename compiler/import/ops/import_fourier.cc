// Discrete Fourier transforms. Each is a product with a matrix that is made when compiling: it has a
// gradient, and takes n^2 multiplications where a fast transform takes n log n.
#include <cmath>

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
    const double angle = 2 * M_PI * static_cast<double>(i) / static_cast<double>(t.length);
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

// One number that newer opsets have as input `i`.
llvm::Expected<std::optional<int64_t>> Scalar(const NodeContext& c, size_t i) {
  ACT_TRY(const auto numbers, c.Integers(i));
  if (!numbers) return std::optional<int64_t>();
  if (numbers->size() != 1) return c.Fail("input " + std::to_string(i) + " must be one number");
  return std::optional((*numbers)[0]);
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
  ACT_TRY(const std::optional<int64_t> length, Scalar(c, 1));
  t.length = length.value_or(t.mirrored ? 2 * (extent - 1) : extent);
  if (t.length < 1 || t.length > kMostCoefficients)
    return c.Fail("a transform of " + std::to_string(t.length) + " numbers");
  if (onesided && t.parts_taken != (t.inverse ? 2 : 1))
    return c.Fail(t.inverse ? "half a spectrum must be complex" : "onesided takes real numbers alone");
  t.taken = std::min(extent, t.mirrored ? t.length / 2 + 1 : t.length);
  t.made = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  const int64_t coefficients = SaturatingMul(t.taken * t.parts_taken, t.made * t.parts_made);
  if (coefficients > kMostCoefficients)
    return c.Fail("is a product with a matrix of " + std::to_string(coefficients) +
                  " numbers; the most are " + std::to_string(kMostCoefficients));
  return t;
}

// The axis: before opset 20 an attribute.
llvm::Expected<size_t> AxisOf(const NodeContext& c) {
  const size_t rank = c.DimsOf(0).size();
  if (rank < 2) return c.Fail("the signal must have two axes or more");
  ACT_TRY(const std::optional<int64_t> given, Scalar(c, 2));
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
  const std::vector<float> numbers = Coefficients(t);
  const ValueId matrix =
      c.builder().Constant("", {DType::kFloat32, {t.taken * t.parts_taken, t.made * t.parts_made}},
                           HostTensor::Copy(numbers.data(), numbers.size() * sizeof(float)));
  ACT_TRY(ValueId y, c.Emit("MatMul", {x, matrix}));
  dims.insert(dims.end(), {Dim(t.made), Dim(t.parts_made)});
  ACT_TRY(y, c.Reshape(y, dims));
  return c.Return(c.Transpose(y, perm));
}

}  // namespace

const std::vector<ImportEntry>& FourierImports() {
  static const std::vector<ImportEntry> entries = {{"DFT", 1, 3, ImportDft}};
  return entries;
}

}  // namespace act::onnx_import
