// The batch size and the samples' numbers as numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/compiler/batch_case.h"

namespace act::batch_cases {

inline std::vector<Case> NumberCases() {
  return {
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
  };
}

}  // namespace act::batch_cases
