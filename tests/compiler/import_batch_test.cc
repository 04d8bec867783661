// Tensors that depend on the batch size and are used as data: constants where that is exact, and
// nodes that compute them where it is not. All numbers are compared with plain loops, at several
// batch sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using testing_step::Take;
using Ints = std::vector<int64_t>;

constexpr int64_t kColumns = 4, kGap = int64_t{1} << 24;  // beyond it float32 does not have every integer

double X(int64_t n, int64_t k) { return .25 * static_cast<double>(n * kColumns + k) - 1; }
int64_t Id(int64_t n, int64_t k) { return (3 * n + 2 * k) % kColumns; }
int64_t Row(int64_t k) { return kGap + 2 * k + 1; }

// Inputs x f32[N,4], id i64[N,4], row i64[3]; w f32[1,2], all .5; n: the batch size, n1: the same
// as a vector, sample: Range(0, N), [N].
OnnxModel Prelude() {
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

onnx::AttributeProto ToFloat() { return Attr("to", int64_t{onnx::TensorProto::FLOAT}); }

struct Case {
  const char* name;
  std::function<void(OnnxModel&)> build;  // adds "y", f32
  std::function<std::vector<double>(int64_t n)> expected;
  const char* absent = "";  // operators that the graph must not have
};

// f(n, k) for all samples and columns.
std::vector<double> Each(int64_t rows, int64_t columns, const std::function<double(int64_t, int64_t)>& f) {
  std::vector<double> all;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t k = 0; k < columns; ++k) all.push_back(f(n, k));
  return all;
}

// "tuples" [N,columns,2]: sample and column, as exporters write y[:, columns] = ..
void Tuples(OnnxModel& m, const Ints& columns) {
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
void Filled(OnnxModel& m, int64_t extent, float value) {
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
void Scattered(OnnxModel& m, const Ints& columns, int64_t extent, float value) {
  Tuples(m, columns);
  Filled(m, extent, value);
  m.Node("Slice", {"x", "v0", "count", "v1"}, {"part"})
      .Node("ScatterND", {"filled", "tuples", "part"}, {"y"});
}
std::vector<double> ScatteredBy(int64_t n, const Ints& columns, int64_t extent, double value) {
  return Each(n, extent, [&](int64_t i, int64_t k) {
    const auto at = std::find(columns.begin(), columns.end(), k);
    return at == columns.end() ? value : X(i, at - columns.begin());
  });
}

double Product(int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < kColumns; ++k) sum += X(i, k) * X(j, k);
  return sum;
}
// "xx" [N,N]: products of samples.
void Products(OnnxModel& m) { m.Node("Transpose", {"x"}, {"xt"}).Node("MatMul", {"x", "xt"}, {"xx"}); }

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"A token for each sample",
       [](OnnxModel& m) {
         m.Node("Concat", {"n1", "v1"}, {"repeats"}, {Attr("axis", int64_t{0})})
             .Node("Tile", {"w", "repeats"}, {"tokens"})
             .Node("Concat", {"tokens", "x"}, {"y"}, {Attr("axis", int64_t{1})});
       },
       [](int64_t n) { return Each(n, 6, [](int64_t i, int64_t k) { return k < 2 ? .5 : X(i, k - 2); }); }},
      {"Integers for each sample",
       [](OnnxModel& m) {
         m.Integers("gap", {kGap}).Node("Concat", {"n1", "v2"}, {"repeats"}, {Attr("axis", int64_t{0})});
         m.Node("Unsqueeze", {"row", "v0"}, {"one_row"}).Node("Tile", {"one_row", "repeats"}, {"rows"});
         m.Node("Sub", {"rows", "gap"}, {"small"}).Node("Cast", {"small"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         return Each(n, 6, [](int64_t, int64_t k) { return static_cast<double>(Row(k % 3) - kGap); });
       }},
      {"A slice into zeros is a Pad",
       [](OnnxModel& m) {
         Scattered(m, {1, 2, 3}, 5, 0);
       },
       [](int64_t n) {
         return ScatteredBy(n, {1, 2, 3}, 5, 0);
       },
       "Scatter FlatIndex Concat"},
      {"A slice into one number is a Pad", [](OnnxModel& m) { Scattered(m, {4}, 5, 7.5); },
       [](int64_t n) { return ScatteredBy(n, {4}, 5, 7.5); }, "Scatter FlatIndex Concat"},
      {"Columns into zeros",
       [](OnnxModel& m) {
         Scattered(m, {0, 2, 5}, 6, 0);
       },
       [](int64_t n) {
         return ScatteredBy(n, {0, 2, 5}, 6, 0);
       },
       "FlatIndex Expand"},
      {"Columns into one number, backwards",
       [](OnnxModel& m) {
         Scattered(m, {5, -5, 0}, 6, -2);
       },
       [](int64_t n) {
         return ScatteredBy(n, {5, 1, 0}, 6, -2);
       },
       "FlatIndex"},
      {"All columns leave nothing of the zeros",
       [](OnnxModel& m) {
         Scattered(m, {0, 1, 2}, 3, 0);
       },
       [](int64_t n) {
         return ScatteredBy(n, {0, 1, 2}, 3, 0);
       },
       "FlatIndex Scatter Pad"},
      {"A column into data is a Concat",
       [](OnnxModel& m) {
         Tuples(m, {1, 2});
         m.Node("Slice", {"x", "v0", "v2", "v1"}, {"part"}).Node("Neg", {"part"}, {"less"});
         m.Node("ScatterND", {"x", "tuples", "less"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, kColumns,
                     [](int64_t i, int64_t k) { return k == 1 || k == 2 ? -X(i, k - 1) : X(i, k); });
       },
       "Scatter FlatIndex"},
      {"Known numbers into known numbers are a constant",
       [](OnnxModel& m) {
         Tuples(m, {2});
         Filled(m, kColumns, 3);
         m.Node("Concat", {"n1", "v1"}, {"shape"}, {Attr("axis", int64_t{0})})
             .Node("ConstantOfShape", {"shape"}, {"none"})
             .Node("ScatterND", {"filled", "tuples", "none"}, {"factor"})
             .Node("Mul", {"x", "factor"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, kColumns, [](int64_t i, int64_t k) { return k == 2 ? 0 : 3 * X(i, k); });
       },
       "Scatter FlatIndex Pad Concat Expand Range"},
      {"ScatterElements by known columns",
       [](OnnxModel& m) {
         Filled(m, 6, 0);
         m.Integers("columns", {4, 1})
             .Node("Concat", {"n1", "v2"}, {"shape"}, {Attr("axis", int64_t{0})})
             .Node("Expand", {"columns", "shape"}, {"index"})
             .Node("Slice", {"x", "v0", "v2", "v1"}, {"part"})
             .Node("ScatterElements", {"filled", "index", "part"}, {"y"}, {Attr("axis", int64_t{1})});
       },
       [](int64_t n) {
         return ScatteredBy(n, {4, 1}, 6, 0);
       },
       "FlatIndex"},
      {"ScatterElements by known columns into data",
       [](OnnxModel& m) {  // columns 3 and 1 become -x's columns 0 and 1
         m.Integers("columns", {3, 1})
             .Node("Concat", {"n1", "v2"}, {"shape"}, {Attr("axis", int64_t{0})})
             .Node("Expand", {"columns", "shape"}, {"index"})
             .Node("Slice", {"x", "v0", "v2", "v1"}, {"part"})
             .Node("Neg", {"part"}, {"less"})
             .Node("ScatterElements", {"x", "index", "less"}, {"y"}, {Attr("axis", int64_t{1})});
       },
       [](int64_t n) {
         return Each(n, kColumns, [](int64_t i, int64_t k) {
           return k == 3 ? -X(i, 0) : k == 1 ? -X(i, 1) : X(i, k);
         });
       },
       "FlatIndex"},
      {"The batch in order",  // as for sequences that are packed by their lengths
       [](OnnxModel& m) {
         m.Node("TopK", {"x", "n1"}, {"y", "order"}, {Attr("axis", int64_t{0})});
       },
       [](int64_t n) {
         return Each(n, kColumns, [n](int64_t i, int64_t k) {
           std::vector<double> column;
           for (int64_t row = 0; row < n; ++row) column.push_back(X(row, k));
           std::sort(column.rbegin(), column.rend());
           return column[static_cast<size_t>(i)];
         });
       }},
      {"Places that are no box",
       [](OnnxModel& m) {  // y[n, n % 3] = x[n, 0]
         m.Integers("three", {3}, true).Node("Mod", {"sample", "three"}, {"column"});
         m.Node("Unsqueeze", {"column", "v1"}, {"columns"});
         m.Node("Concat", {"sample_column", "columns"}, {"tuples"}, {Attr("axis", int64_t{1})});
         Filled(m, 3, 0);
         m.Node("Gather", {"x", "zero"}, {"first"}, {Attr("axis", int64_t{1})});
         m.Node("ScatterND", {"filled", "tuples", "first"}, {"y"});
       },
       [](int64_t n) { return Each(n, 3, [](int64_t i, int64_t k) { return i % 3 == k ? X(i, 0) : 0; }); }},
      {"Labels that are shifted to the right",
       [](OnnxModel& m) {
         Tuples(m, {1, 2, 3});
         m.Integers("start_token", {9})
             .Integers("width", {kColumns})
             .Node("Concat", {"n1", "width"}, {"shape"}, {Attr("axis", int64_t{0})})
             .Node("Expand", {"zero", "shape"}, {"zeros"})
             .Node("Slice", {"id", "v0", "minus", "v1"}, {"before"})
             .Node("ScatterND", {"zeros", "tuples", "before"}, {"shifted"})
             .Node("Concat", {"n1", "v1"}, {"first_shape"}, {Attr("axis", int64_t{0})})
             .Node("Expand", {"v0", "first_shape"}, {"zero_column"})
             .Node("Concat", {"sample_column", "zero_column"}, {"first_tuples"}, {Attr("axis", int64_t{1})})
             .Node("Expand", {"start_token", "n1"}, {"tokens"})
             .Node("ScatterND", {"shifted", "first_tuples", "tokens"}, {"labels"})
             .Node("Cast", {"labels"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         return Each(n, kColumns, [](int64_t i, int64_t k) { return k == 0 ? 9. : Id(i, k - 1); });
       },
       "Scatter FlatIndex"},
      {"The batch size as a number",
       [](OnnxModel& m) {
         m.Node("Cast", {"n"}, {"f"}, {ToFloat()})
             .Node("Sqrt", {"f"}, {"root"})
             .Node("Div", {"x", "root"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, kColumns,
                     [n](int64_t i, int64_t k) { return X(i, k) / std::sqrt(static_cast<double>(n)); });
       }},
      {"The sample's number as a number",
       [](OnnxModel& m) {
         m.Node("Cast", {"sample_column"}, {"f"}, {ToFloat()}).Node("Mul", {"x", "f"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, kColumns, [](int64_t i, int64_t k) { return X(i, k) * static_cast<double>(i); });
       }},
      {"Polynomials that differ from element to element",
       [](OnnxModel& m) {
         m.Integers("seven", {7}).Integers("square", {2, 2});
         m.Node("Mul", {"n1", "n1"}, {"nn"}).Node("Sub", {"seven", "n1"}, {"less"});
         m.Node("Concat", {"n1", "v5", "nn", "less"}, {"all"}, {Attr("axis", int64_t{0})});
         m.Node("Reshape", {"all", "square"}, {"matrix"}).Node("Cast", {"matrix"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         const auto f = static_cast<double>(n);
         return std::vector<double>{f, 5, f * f, 7 - f};
       }},
      {"Positions in the flat batch",
       [](OnnxModel& m) {  // [N,3]: 4n + column + N column
         m.Integers("columns", {0, 2, 1})
             .Node("Mul", {"sample_column", "v4"}, {"first"})
             .Node("Mul", {"columns", "n"}, {"far"})
             .Node("Add", {"first", "columns"}, {"near"})
             .Node("Add", {"near", "far"}, {"place"})
             .Node("Cast", {"place"}, {"narrow"}, {Attr("to", int64_t{onnx::TensorProto::INT32})})
             .Node("Cast", {"narrow"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         return Each(n, 3, [n](int64_t i, int64_t k) {
           const int64_t column = k == 0 ? 0 : 3 - k;
           return static_cast<double>(4 * i + column + n * column);
         });
       }},
      {"What is no polynomial",
       [](OnnxModel& m) {  // max(n, 2) + N / 2
         m.Node("Max", {"sample", "two"}, {"larger"}).Node("Div", {"n", "two"}, {"half"});
         m.Node("Add", {"larger", "half"}, {"sum"}).Node("Cast", {"sum"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         const int64_t half = n / 2;
         return Each(n, 1, [half](int64_t i, int64_t) {
           return static_cast<double>(std::max<int64_t>(i, 2) + half);
         });
       }},
      {"Pairs of samples",
       [](OnnxModel& m) {
         Products(m);
         m.Node("Equal", {"sample_column", "sample"}, {"same"}).Weight("hidden", {}, -100);
         m.Node("Where", {"same", "hidden", "xx"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, n, [](int64_t i, int64_t j) { return i == j ? -100 : Product(i, j); });
       }},
      {"The unit matrix of the batch",
       [](OnnxModel& m) {
         Products(m);
         m.Node("EyeLike", {"xx"}, {"eye"}, {Attr("k", int64_t{1})}).Node("Sub", {"xx", "eye"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, n, [](int64_t i, int64_t j) { return Product(i, j) - (j == i + 1 ? 1 : 0); });
       }},
      {"Triangles of the batch",
       [](OnnxModel& m) {
         Products(m);
         m.Node("Trilu", {"xx", "one"}, {"upper"});
         m.Node("Trilu", {"xx", "minus_one"}, {"lower"}, {Attr("upper", int64_t{0})});
         m.Integers("minus_one", {-1}, true);
         m.Node("Sub", {"upper", "lower"}, {"y"});
       },
       [](int64_t n) {
         return Each(n, n, [](int64_t i, int64_t j) {
           return i == j ? 0 : j > i ? Product(i, j) : -Product(i, j);
         });
       }},
      {"One column for each sample",
       [](OnnxModel& m) {
         m.Integers("values", {2, 5}).Node("Sub", {"sample", "one"}, {"before"});
         m.Node("OneHot", {"before", "n", "values"}, {"hot"}).Node("Cast", {"hot"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {  // sample 0 names the last one
         return Each(n, n, [n](int64_t i, int64_t j) { return (i + n - 1) % n == j ? 5. : 2.; });
       }},
      {"Two ranges of samples",
       [](OnnxModel& m) {
         m.Node("Add", {"n", "n"}, {"n2"}).Node("Range", {"n", "n2", "one"}, {"second"});
         m.Node("Concat", {"second", "sample"}, {"both"}, {Attr("axis", int64_t{0})});
         m.Node("Cast", {"both"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         return Each(2 * n, 1,
                     [n](int64_t i, int64_t) { return static_cast<double>(i < n ? i + n : i - n); });
       }},
      {"The batch backwards",
       [](OnnxModel& m) {
         m.Node("Slice", {"x", "minus", "start", "v0", "minus"}, {"y"});
       },
       [](int64_t n) { return Each(n, kColumns, [n](int64_t i, int64_t k) { return X(n - 1 - i, k); }); }},
      {"The batch moved by one",
       [](OnnxModel& m) {
         m.Node("Slice", {"x", "minus", "end", "v0"}, {"last"})
             .Node("Slice", {"x", "v0", "minus", "v0"}, {"rest"});
         m.Node("Concat", {"last", "rest"}, {"y"}, {Attr("axis", int64_t{0})});
       },
       [](int64_t n) {
         return Each(n, kColumns, [n](int64_t i, int64_t k) { return X((i + n - 1) % n, k); });
       }},
      {"The batch moved by a remainder",
       [](OnnxModel& m) {  // torch.roll of the dynamo exporter
         m.Node("Mod", {"minus", "n1"}, {"shift"});
         m.Node("Slice", {"x", "v0", "shift", "v0"}, {"rest"})
             .Node("Slice", {"x", "shift", "n1", "v0"}, {"last"});
         m.Node("Concat", {"last", "rest"}, {"y"}, {Attr("axis", int64_t{0})});
       },
       [](int64_t n) {
         return Each(n, kColumns, [n](int64_t i, int64_t k) { return X((i + n - 1) % n, k); });
       }},
      {"A row of the batch size by a known OneHot",
       [](OnnxModel& m) {  // [1, N, 1], as torch.repeat_interleave repeats
         m.Integers("depth", {3}, true)
             .Integers("place", {-2})
             .Integers("flat", {-1})
             .Node("Concat", {"v1", "n1"}, {"values"}, {Attr("axis", int64_t{0})})
             .Node("OneHot", {"place", "depth", "values"}, {"hot"})
             .Node("Reshape", {"hot", "flat"}, {"repeats"})
             .Node("Unsqueeze", {"w", "v0"}, {"ww"})
             .Node("Tile", {"ww", "repeats"}, {"all"})
             .Node("Squeeze", {"all", "v0"}, {"y"});
       },
       [](int64_t n) { return std::vector<double>(static_cast<size_t>(2 * n), .5); }},
      {"Halves of two batches",
       [](OnnxModel& m) {  // torch.chunk: (2N + 1) / 2 samples each
         m.Node("Add", {"n1", "n1"}, {"n2"})
             .Node("Add", {"n2", "v1"}, {"odd"})
             .Node("Div", {"odd", "v2"}, {"half"});
         m.Node("Mod", {"odd", "v2"}, {"rest"}).Node("Add", {"half", "rest"}, {"after"});
         m.Node("Neg", {"x"}, {"less"}).Node("Concat", {"x", "less"}, {"z"}, {Attr("axis", int64_t{0})});
         m.Node("Slice", {"z", "half", "end", "v0"}, {"second"}).Node("Sub", {"after", "rest"}, {"again"});
         m.Node("Slice", {"z", "v0", "again", "v0"}, {"first"}).Node("Sub", {"first", "second"}, {"y"});
       },
       [](int64_t n) { return Each(n, kColumns, [](int64_t i, int64_t k) { return 2 * X(i, k); }); }},
      {"Parts of the batch",
       [](OnnxModel& m) {
         m.Node("Sub", {"n1", "v1"}, {"others"})
             .Node("Concat", {"v1", "others"}, {"parts"}, {Attr("axis", int64_t{0})});
         m.Node("Split", {"x", "parts"}, {"first", "rest"}, {Attr("axis", int64_t{0})});
         m.Node("Concat", {"rest", "first"}, {"y"}, {Attr("axis", int64_t{0})});
       },
       [](int64_t n) { return Each(n, kColumns, [n](int64_t i, int64_t k) { return X((i + 1) % n, k); }); }},
      {"A column of each sample by data",
       [](OnnxModel& m) {
         m.Node("Gather", {"id", "v1"}, {"column"}, {Attr("axis", int64_t{1})});
         m.Node("Concat", {"sample_column", "column"}, {"tuples"}, {Attr("axis", int64_t{1})});
         m.Node("GatherND", {"x", "tuples"}, {"y"});
       },
       [](int64_t n) { return Each(n, 1, [](int64_t i, int64_t) { return X(i, Id(i, 1)); }); }},
      {"A table by the sample's number",
       [](OnnxModel& m) {
         m.Node("Mod", {"sample", "two"}, {"odd"}).Node("Gather", {"row", "odd"}, {"entry"});
         m.Integers("gap", {kGap}, true).Node("Sub", {"entry", "gap"}, {"small"});
         m.Node("Cast", {"small"}, {"y"}, {ToFloat()});
       },
       [](int64_t n) {
         return Each(n, 1, [](int64_t i, int64_t) { return static_cast<double>(Row(i % 2) - kGap); });
       }},
  };
  return cases;
}

ImportResult Import(const OnnxModel& m, bool keep_outputs) {
  const TemporaryFolder folder;
  ImportOptions options;
  options.keep_outputs = keep_outputs;
  return Take(ImportOnnx(m.Write(folder), options));
}

testing_step::StepInputs InputsAt(int64_t n) {
  std::vector<float> x;
  std::vector<int64_t> id;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < kColumns; ++k) {
      x.push_back(static_cast<float>(X(i, k)));
      id.push_back(Id(i, k));
    }
  return {{"x", testing_step::BytesOf(x)},
          {"id", testing_step::BytesOf(id)},
          {"row", testing_step::BytesOf(Ints{Row(0), Row(1), Row(2)})}};
}

// The only output at batch size n.
std::vector<float> Evaluate(const Plan& plan, int64_t n) {
  auto executor = Take(Executor::Create(plan, Take(LayOut(plan, n)), TestDevice(), testing_step::CpuKernels(),
                                        {.threads = 2, .check_memory = true}));
  BoundGraph* const bound = Take(executor->Eval(n));
  const testing_step::StepInputs inputs = InputsAt(n);
  llvm::cantFail(executor->BeginStep());
  for (const ValueId v : plan.eval.graph.inputs) {
    const TensorView& view = bound->view(v);
    const auto& given = inputs.at(plan.eval.graph.value(v).name);
    if (view.data) std::memcpy(view.as<void>(), given.data(), given.size());
  }
  if (llvm::Error error = executor->Run(*bound, StepState{}))
    ADD_FAILURE() << llvm::toString(std::move(error));
  const TensorView& y = bound->view(plan.eval.graph.outputs[0]);
  return {y.as<float>(), y.as<float>() + y.elements};
}

TEST(ImportBatch, NumbersAreThoseOfPlainLoops) {
  for (const Case& c : Cases()) {
    OnnxModel m = Prelude();
    c.build(m);
    m.Output("y");
    ImportResult model = Import(m, true);
    for (const Node& node : model.graph.nodes)
      EXPECT_EQ((" " + std::string(c.absent) + " ").find(" " + node.op + " "), std::string::npos)
          << c.name << ": " << node.op;
    Plan plan;
    plan.eval = Take(CompileEvaluation(model.graph, testing_step::Checked("L0", "none")));
    plan.train = plan.eval;
    for (const int64_t n : {1, 3, 6}) {
      const std::vector<float> got = Evaluate(plan, n);
      const std::vector<double> expected = c.expected(n);
      ASSERT_EQ(got.size(), expected.size()) << c.name << " at " << n;
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_FLOAT_EQ(got[i], static_cast<float>(expected[i]))
            << c.name << " at " << n << ", element " << i;
    }
  }
}

// loss = sum over y^2, y = x w scattered into zeros. The gradient goes through the Pad, and through
// the Scatter.
TEST(ImportBatch, GradientsGoThroughABox) {
  for (const Ints& columns : {Ints{1, 2}, Ints{0, 3}}) {
    OnnxModel m = Prelude();
    Tuples(m, columns);
    Filled(m, 5, 0);
    m.Node("Slice", {"x", "v0", "v2", "v1"}, {"part"})
        .Node("Mul", {"part", "w"}, {"update"})
        .Node("ScatterND", {"filled", "tuples", "update"}, {"y"})
        .Node("Mul", {"y", "y"}, {"squares"})
        .Node("ReduceSum", {"squares"}, {"loss"}, {Attr("keepdims", int64_t{0})})
        .Output("loss");
    const Plan plan = Take(Compile(Import(m, false), testing_step::Checked("L0", "none")));
    for (const int64_t n : {1, 3}) {
      auto inputs = InputsAt(n);
      const auto got =
          Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {{"x", inputs["x"]}}, {.batch = n}));
      for (int64_t k = 0; k < 2; ++k) {
        double gradient = 0;  // 2 w x^2
        for (int64_t i = 0; i < n; ++i) gradient += X(i, k) * X(i, k);
        EXPECT_FLOAT_EQ(got[1][static_cast<size_t>(k)], static_cast<float>(gradient)) << n << ", " << k;
      }
    }
  }
}

// loss = sum of i z_i over both halves of z = [x w, -x w], joined along the batch.
TEST(ImportBatch, GradientsOfBatchesThatAreJoined) {
  OnnxModel m = Prelude();
  m.Node("Slice", {"x", "v0", "v2", "v1"}, {"part"})
      .Node("Mul", {"part", "w"}, {"first"})
      .Node("Neg", {"first"}, {"second"})
      .Node("Concat", {"first", "second"}, {"z"}, {Attr("axis", int64_t{0})})
      .Node("Add", {"n", "n"}, {"n2"})
      .Node("Range", {"zero", "n2", "one"}, {"place"})
      .Node("Unsqueeze", {"place", "v1"}, {"column"})
      .Node("Cast", {"column"}, {"factor"}, {ToFloat()})
      .Node("Mul", {"z", "factor"}, {"y"})
      .Node("ReduceSum", {"y"}, {"loss"}, {Attr("keepdims", int64_t{0})})
      .Output("loss");
  const Plan plan = Take(Compile(Import(m, false), testing_step::Checked("L0", "none")));
  for (const int64_t n : {1, 3}) {
    auto inputs = InputsAt(n);
    const auto got =
        Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {{"x", inputs["x"]}}, {.batch = n}));
    for (int64_t k = 0; k < 2; ++k) {
      double gradient = 0;
      for (int64_t i = 0; i < n; ++i) gradient += X(i, k) * static_cast<double>(i - (i + n));
      EXPECT_FLOAT_EQ(got[1][static_cast<size_t>(k)], static_cast<float>(gradient)) << n << ", " << k;
    }
  }
}

std::string ErrorOf(const OnnxModel& m) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  return result ? "no error" : llvm::toString(result.takeError());
}

TEST(ImportBatch, AShapeThatIsNoPolynomialIsRefused) {
  OnnxModel m = Prelude();
  m.Node("Div", {"n1", "v2"}, {"half"}).Node("Slice", {"x", "v0", "half"}, {"y"}).MeanLoss("y");
  const std::string error = ErrorOf(m);
  EXPECT_NE(
      error.find("node 'y' (Slice): input 2 must be known when compiling; it depends on the batch size"),
      std::string::npos)
      << error;
  EXPECT_NE(error.find("hint: --dim="), std::string::npos) << error;
}

// Each node that is a cause, none that follows from another, and one line of hints.
TEST(ImportBatch, AllCausesAreNamedAtOnce) {
  OnnxModel m = Prelude();
  m.Node("Unknown", {"x"}, {"a"})
      .Node("Relu", {"a"}, {"b"})
      .Node("Transpose", {"x"}, {"c"}, {Attr("perm", Ints{0, 0})})
      .Node("Add", {"b", "c"}, {"d"})
      .Node("Loop", {"d"}, {"e"})
      .Node("Reshape", {"x", "row"}, {"f"})
      .Node("Mul", {"e", "f"}, {"g"})
      .MeanLoss("g");
  const std::string error = ErrorOf(m);
  const size_t place = error.find("4 nodes cannot be imported:");
  ASSERT_NE(place, std::string::npos) << error;
  EXPECT_EQ(error.substr(place),
            "4 nodes cannot be imported:\n"
            "  node 'a' (Unknown): the operator is not supported (domain ai.onnx, opset 18)\n"
            "  node 'c' (Transpose): perm is not a permutation of the axes of f32[N,4]\n"
            "  node 'e' (Loop): the operator is not supported (domain ai.onnx, opset 18)\n"
            "  node 'f' (Reshape): the shape in input 1 depends on data\n"
            "hint: a plan runs every node once: export the model with its loops unrolled; shapes must follow "
            "from the shapes of the inputs");
}

TEST(ImportBatch, ALongListOfCausesIsCut) {
  OnnxModel m = Prelude();
  std::vector<std::string> parts;
  for (int i = 0; i < 23; ++i) {
    parts.push_back("p" + std::to_string(i));
    m.Node("Unknown", {"x"}, {parts.back()});
  }
  m.Node("Sum", parts, {"y"}).MeanLoss("y");
  const std::string error = ErrorOf(m);
  EXPECT_NE(error.find("23 nodes cannot be imported:"), std::string::npos) << error;
  EXPECT_NE(error.find("'p19'"), std::string::npos) << error;
  EXPECT_EQ(error.find("'p20'"), std::string::npos) << error;
  EXPECT_NE(error.find("\n  and 3 more"), std::string::npos) << error;
}

}  // namespace
}  // namespace act
