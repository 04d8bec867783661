// What a model writes at places of each sample: constants, pads and joins where that is exact.
#pragma once

#include <vector>

#include "tests/compiler/batch_case.h"

namespace act::batch_cases {

inline std::vector<Case> ScatterCases() {
  return {
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
  };
}

}  // namespace act::batch_cases
