// Samples in another order, in parts, and by their places.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/compiler/batch_case.h"

namespace act::batch_cases {

inline std::vector<Case> OrderCases() {
  return {
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
}

}  // namespace act::batch_cases
