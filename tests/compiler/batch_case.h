// A model whose tensors depend on the batch size and are used as data, and what it computes in plain loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/compiler/onnx_model.h"

namespace act::batch_cases {

using testing::Attr;
using testing::OnnxModel;
using Ints = std::vector<int64_t>;

inline constexpr int64_t kColumns = 4,
                         kGap = int64_t{1} << 24;  // beyond it float32 does not have every integer

inline double X(int64_t n, int64_t k) { return .25 * static_cast<double>(n * kColumns + k) - 1; }
inline int64_t Id(int64_t n, int64_t k) { return (3 * n + 2 * k) % kColumns; }
inline int64_t Row(int64_t k) { return kGap + 2 * k + 1; }

// Inputs x f32[N,4], id i64[N,4], row i64[3]; w f32[1,2], all .5; n: the batch size, n1: the same
// as a vector, sample: Range(0, N), [N].
inline OnnxModel Prelude() {
  OnnxModel m(18);
  m.Input("x", {"N", kColumns})
      .Input("id", {"N", kColumns}, onnx::TensorProto::INT64)
      .Input("row", {3}, onnx::TensorProto::INT64)
      .Weight("w", {1, 2})
      .Integers("zero", {0}, true)
      .Integers("one", {1}, true)
      .Integers("two", {2}, true)
      .Integers("v0", {0})
      .Integers("v1", {1})
      .Integers("v2", {2})
      .Integers("v4", {4})
      .Integers("v5", {5})
      .Integers("minus", {-1})
      .Integers("start", {INT64_MIN})
      .Integers("end", {INT64_MAX})
      .Node("Shape", {"x"}, {"n1"}, {Attr("end", int64_t{1})})
      .Node("Squeeze", {"n1"}, {"n"})
      .Node("Range", {"zero", "n", "one"}, {"sample"})
      .Node("Unsqueeze", {"sample", "v1"}, {"sample_column"});  // [N,1]
  return m;
}

inline onnx::AttributeProto ToFloat() { return Attr("to", int64_t{onnx::TensorProto::FLOAT}); }

struct Case {
  const char* name;
  std::function<void(OnnxModel&)> build;  // adds "y", f32
  std::function<std::vector<double>(int64_t n)> expected;
  const char* absent = "";  // operators that the graph must not have
};

// f(n, k) for all samples and columns.
inline std::vector<double> Each(int64_t rows, int64_t columns,
                                const std::function<double(int64_t, int64_t)>& f) {
  std::vector<double> all;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t k = 0; k < columns; ++k) all.push_back(f(n, k));
  return all;
}

// "tuples" [N,columns,2]: sample and column, as exporters write y[:, columns] = ..
inline void Tuples(OnnxModel& m, const Ints& columns) {
  m.Integers("columns", columns)
      .Integers("count", {static_cast<int64_t>(columns.size())})
      .Integers("tuple_axis", {-1})
      .Integers("sample_axes", {1, 2})
      .Node("Concat", {"n1", "count", "v1"}, {"tuple_shape"}, {Attr("axis", int64_t{0})})
      .Node("Unsqueeze", {"sample", "sample_axes"}, {"samples"})
      .Node("Expand", {"samples", "tuple_shape"}, {"tuple_0"})
      .Node("Unsqueeze", {"columns", "tuple_axis"}, {"column_axis"})
      .Node("Expand", {"column_axis", "tuple_shape"}, {"tuple_1"})
      .Node("Concat", {"tuple_0", "tuple_1"}, {"tuples"}, {Attr("axis", int64_t{2})});
}

// "filled" [N,extent], all `value`.
inline void Filled(OnnxModel& m, int64_t extent, float value) {
  onnx::AttributeProto attr;
  attr.set_name("value");
  attr.set_type(onnx::AttributeProto::TENSOR);
  attr.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  attr.mutable_t()->add_dims(1);
  attr.mutable_t()->add_float_data(value);
  m.Integers("extent", {extent})
      .Node("Concat", {"n1", "extent"}, {"filled_shape"}, {Attr("axis", int64_t{0})})
      .Node("ConstantOfShape", {"filled_shape"}, {"filled"}, {attr});
}

// filled[:, columns] = x[:, :columns]
inline void Scattered(OnnxModel& m, const Ints& columns, int64_t extent, float value) {
  Tuples(m, columns);
  Filled(m, extent, value);
  m.Node("Slice", {"x", "v0", "count", "v1"}, {"part"})
      .Node("ScatterND", {"filled", "tuples", "part"}, {"y"});
}
inline std::vector<double> ScatteredBy(int64_t n, const Ints& columns, int64_t extent, double value) {
  return Each(n, extent, [&](int64_t i, int64_t k) {
    const auto at = std::find(columns.begin(), columns.end(), k);
    return at == columns.end() ? value : X(i, at - columns.begin());
  });
}

inline double Product(int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < kColumns; ++k) sum += X(i, k) * X(j, k);
  return sum;
}
// "xx" [N,N]: products of samples.
inline void Products(OnnxModel& m) { m.Node("Transpose", {"x"}, {"xt"}).Node("MatMul", {"x", "xt"}, {"xx"}); }

}  // namespace act::batch_cases
