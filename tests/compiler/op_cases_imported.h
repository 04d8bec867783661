// Rows of ONNX operators for which we have no operator: the importer composes them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/compiler/op_cases_deform.h"
#include "tests/compiler/op_cases_pad.h"
#include "tests/compiler/op_cases_rotation.h"

namespace act::gradient_case {

// The definition: for each combination of label values, the product of the operands is added to its
// place in the result.
inline Tensor EinsumOf(const std::vector<std::string>& terms, const std::string& output,
                       const Tensors& operands) {
  std::map<char, int64_t> extents;
  for (size_t t = 0; t < terms.size(); ++t)
    for (size_t i = 0; i < terms[t].size(); ++i) {
      int64_t& extent = extents[terms[t][i]];
      extent = std::max(extent, operands[t].dims[i]);
    }
  Ints space, to;
  std::map<char, size_t> place;
  for (const auto& [label, extent] : extents) {
    place[label] = space.size();
    space.push_back(extent);
  }
  for (const char label : output) to.push_back(extents[label]);
  Tensor y(to, 0);
  truth::ForEach(space, [&](const Ints& at) {
    double product = 1;
    for (size_t t = 0; t < terms.size(); ++t) {
      Ints from;
      for (size_t i = 0; i < terms[t].size(); ++i)
        from.push_back(operands[t].dims[i] == 1 ? 0 : at[place[terms[t][i]]]);
      product *= operands[t].at(from);
    }
    Ints result;
    for (const char label : output) result.push_back(at[place[label]]);
    y.at(result) += product;
  });
  return y;
}

struct EinsumRow {
  const char* equation;
  std::vector<std::string> terms;  // with a letter for each axis of an ellipsis
  std::string output;
  std::vector<Ints> dims;
  std::vector<size_t> batched = {};
};

inline std::vector<OpCase> EinsumCases() {
  const std::vector<EinsumRow> rows = {
      {"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}, {0}},
      {"ij,jk", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
      {"ij->ji", {"ij"}, "ji", {{3, 4}}},
      {"ij->", {"ij"}, "", {{3, 4}}},
      {"ij->j", {"ij"}, "j", {{3, 4}}, {0}},
      {"ii->i", {"ii"}, "i", {{4, 4}}},
      {"ii", {"ii"}, "", {{4, 4}}},
      {"bii->bi", {"bii"}, "bi", {{2, 3, 3}}, {0}},
      {"ijij->j", {"ijij"}, "j", {{2, 3, 2, 3}}},
      {"i,i->", {"i", "i"}, "", {{5}, {5}}},
      {"i,j->ij", {"i", "j"}, "ij", {{3}, {4}}},
      {"i,j->ji", {"i", "j"}, "ji", {{3}, {4}}, {0}},
      {"bij , bjk -> bik", {"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}, {0, 1}},
      {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}, "bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}, {0, 1}},
      {"bqhd,bkhd->bhqk", {"bqhd", "bkhd"}, "bhqk", {{2, 4, 3, 5}, {2, 6, 3, 5}}, {0, 1}},
      {"...ij,...jk->...ik", {"aij", "ajk"}, "aik", {{2, 3, 4}, {2, 4, 5}}, {0, 1}},
      {"...ij,jk->...ik", {"abij", "jk"}, "abik", {{2, 3, 4, 5}, {5, 2}}, {0}},
      {"...ii->...i", {"aii"}, "ai", {{2, 3, 3}}},
      {"a...b->b...", {"axyb"}, "bxy", {{2, 3, 4, 5}}},
      {"ij,...j->...i", {"ij", "abj"}, "abi", {{3, 4}, {2, 5, 4}}},
      {"...i,...i->...", {"abi", "abi"}, "ab", {{2, 3, 4}, {2, 1, 4}}},  // broadcast
      {"ij,j,jk->ik", {"ij", "j", "jk"}, "ik", {{3, 4}, {4}, {4, 5}}, {0}},
      {"ab,cb,cd->ad", {"ab", "cb", "cd"}, "ad", {{2, 3}, {4, 3}, {4, 5}}},
      // Labels that nothing else needs are summed first.
      {"ijk,l->jl", {"ijk", "l"}, "jl", {{2, 3, 4}, {5}}},
      {"ij,ij,ij->ij", {"ij", "ij", "ij"}, "ij", {{3, 4}, {3, 4}, {3, 4}}, {0, 1, 2}},
      {",ij->ij", {"", "ij"}, "ij", {{}, {3, 4}}},
      {"ij,jk->ik", {"ij", "jk"}, "ik", {{0, 4}, {4, 5}}},
      {"ij,jk->ik", {"ij", "jk"}, "ik", {{1, 1}, {1, 1}}},
  };
  std::vector<OpCase> cases;
  for (const EinsumRow& row : rows) {
    OpCase c{std::string("Einsum ") + row.equation,
             {},
             Imported("Einsum", {testing::Attr("equation", std::string(row.equation))}),
             [row](const Tensors& t) { return EinsumOf(row.terms, row.output, t); },
             row.batched};
    for (const Ints& dims : row.dims) c.operands.push_back({dims});
    cases.push_back(std::move(c));
  }
  return cases;
}

// f(row) for each row along the reduced axes.
inline OpCase ReducedCase(const std::string& op, const Ints& dims, const Ints& axes, bool keep,
                          double (*f)(const std::vector<double>&)) {
  return {op + " of " + ::testing::PrintToString(dims),
          {{dims}},
          Imported(op, {testing::Attr("keepdims", int64_t{keep})}, {axes}),
          [=](const Tensors& t) {
            Ints kept = dims, dropped;
            std::vector<bool> reduced(dims.size(), false);
            for (const int64_t a : axes) reduced[static_cast<size_t>(a)] = true;
            for (size_t i = 0; i < dims.size(); ++i) {
              if (reduced[i])
                kept[i] = 1;
              else
                dropped.push_back(dims[i]);
            }
            const Tensor y = truth::Make(kept, [&](const Ints& to) {
              std::vector<double> row;
              truth::ForEach(dims, [&](const Ints& i) {
                bool same = true;
                for (size_t a = 0; a < i.size(); ++a) same = same && (reduced[a] || i[a] == to[a]);
                if (same) row.push_back(t[0].at(i));
              });
              return f(row);
            });
            return keep ? y : truth::Reshape(y, dropped);
          },
          {}};
}

inline std::vector<OpCase> ImportedCases() {
  std::vector<OpCase> cases = EinsumCases();
  for (const auto& more : {PadCases(), DeformConvCases(), DftCases(), StftCases(), RotaryCases()})
    cases.insert(cases.end(), more.begin(), more.end());
  const auto product = [](const std::vector<double>& row) {
    double y = 1;
    for (const double x : row) y *= x;
    return y;
  };
  const auto log_sum_exp = [](const std::vector<double>& row) {
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    return std::log(sum);
  };
  const auto norm = [](const std::vector<double>& row) {
    double sum = 0;
    for (const double x : row) sum += x * x;
    return std::sqrt(sum);
  };
  for (const bool keep : {false, true})
    for (const auto& [dims, axes] : std::vector<std::pair<Ints, Ints>>{
             {{3, 7}, {1}}, {{3, 7}, {0}}, {{2, 3, 4}, {0, 2}}, {{5}, {0}}, {{3, 1}, {1}}}) {
      cases.push_back(ReducedCase("ReduceProd", dims, axes, keep, product));
      cases.push_back(ReducedCase("ReduceLogSumExp", dims, axes, keep, log_sum_exp));
      cases.push_back(ReducedCase("ReduceL2", dims, axes, keep, norm));
    }
  cases.push_back({"ReduceProd of zeros",  // the gradient at a zero is the product of the others
                   {{{3, 4}}, {{4}, -1, 1, Kind::kFlag}},
                   [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
                     Attributes to;
                     to.Set("to", static_cast<int64_t>(DType::kFloat32));
                     const ValueId flags = Take(b.Add1("Cast", {v[1]}, to));
                     const ValueId x = Take(b.Add1("Mul", {v[0], flags}));
                     return Imported("ReduceProd", {testing::Attr("keepdims", int64_t{0})}, {{1}})(b, {x});
                   },
                   [](const Tensors& t) {
                     return truth::Make({3}, [&](const Ints& i) {
                       double y = 1;
                       for (int64_t k = 0; k < 4; ++k) y *= t[0].at({i[0], k}) * t[1].at({k});
                       return y;
                     });
                   },
                   {0}});
  for (const bool upper : {false, true})
    for (const int64_t k : {-1, 0, 2})
      cases.push_back({"Trilu",
                       {{{2, 4, 5}}},
                       Imported("Trilu", {testing::Attr("upper", int64_t{upper})}, {{k}}),
                       [=](const Tensors& t) {
                         return truth::Make(t[0].dims, [&](const Ints& i) {
                           const bool in = upper ? i[2] - i[1] >= k : i[2] - i[1] <= k;
                           return in ? t[0].at(i) : 0;
                         });
                       },
                       {0}});
  for (const bool crd : {false, true})
    cases.push_back({"DepthToSpace",
                     {{{2, 12, 2, 3}}},
                     Imported("DepthToSpace", {testing::Attr("blocksize", int64_t{2}),
                                               testing::Attr("mode", std::string(crd ? "CRD" : "DCR"))}),
                     [=](const Tensors& t) {
                       return truth::Make({2, 3, 4, 6}, [&](const Ints& i) {
                         const int64_t block = i[2] % 2 * 2 + i[3] % 2;
                         const int64_t channel = crd ? i[1] * 4 + block : block * 3 + i[1];
                         return t[0].at({i[0], channel, i[2] / 2, i[3] / 2});
                       });
                     },
                     {0}});
  cases.push_back({"SpaceToDepth",
                   {{{2, 3, 4, 6}}},
                   Imported("SpaceToDepth", {testing::Attr("blocksize", int64_t{2})}),
                   [](const Tensors& t) {
                     return truth::Make({2, 12, 2, 3}, [&](const Ints& i) {
                       const int64_t block = i[1] / 3;
                       return t[0].at({i[0], i[1] % 3, i[2] * 2 + block / 2, i[3] * 2 + block % 2});
                     });
                   },
                   {0}});
  cases.push_back({"TopK of a middle axis",
                   {{{2, 6, 3}, -20, 20}},
                   Imported("TopK", {testing::Attr("axis", int64_t{1})}, {{4}}, 2),
                   [](const Tensors& t) {
                     return truth::Make({2, 4, 3}, [&](const Ints& i) {
                       std::vector<double> column;
                       for (int64_t k = 0; k < 6; ++k) column.push_back(t[0].at({i[0], k, i[2]}));
                       std::sort(column.rbegin(), column.rend());
                       return column[static_cast<size_t>(i[1])];
                     });
                   },
                   {0}});
  cases.push_back({"PRelu whose slope fits the last axis and the channels",
                   {{{2, 3, 3}}, {{3}}},
                   Imported("PRelu", {}),
                   [](const Tensors& t) {
                     return truth::Make({2, 3, 3}, [&](const Ints& i) {
                       const double x = t[0].at(i);
                       return x > 0 ? x : x * t[1].at({i[2]});
                     });
                   },
                   {0}});
  cases.push_back(
      {"LayerNormalization with a scale smaller than its bias",
       {{{3, 2, 4}}, {{4}}, {{2, 4}}},
       Imported("LayerNormalization", {testing::Attr("axis", int64_t{1})}),
       [](const Tensors& t) {
         return truth::Make({3, 2, 4}, [&](const Ints& i) {
           double sum = 0, squares = 0;
           truth::ForEach({2, 4}, [&](const Ints& at) {
             const double x = t[0].at({i[0], at[0], at[1]});
             sum += x;
             squares += x * x;
           });
           const double mean = sum / 8, variance = squares / 8 - mean * mean;
           return (t[0].at(i) - mean) / std::sqrt(variance + 1e-5) * t[1].at({i[2]}) + t[2].at({i[1], i[2]});
         });
       },
       {0}});
  // The window is larger than the padded image, 3 x 4 and a border of 1. What counts is inside.
  for (const bool include_pad : {false, true})
    cases.push_back(
        {"AveragePool of more than the image",
         {{{2, 3, 3, 4}}},
         Imported(
             "AveragePool",
             {testing::Attr("kernel_shape", Ints{2560, 2560}), testing::Attr("strides", Ints{2560, 2560}),
              testing::Attr("pads", Ints{1, 1, 1, 1}), testing::Attr("ceil_mode", int64_t{1}),
              testing::Attr("count_include_pad", int64_t{include_pad})}),
         [=](const Tensors& t) {
           return truth::Make({2, 3, 1, 1}, [&](const Ints& i) {
             double sum = 0;
             truth::ForEach({3, 4}, [&](const Ints& at) { sum += t[0].at({i[0], i[1], at[0], at[1]}); });
             return sum / (include_pad ? 5 * 6 : 3 * 4);
           });
         },
         {0}});
  cases.push_back(
      {"MaxPool of more than the image",
       {{{2, 3, 5}, -20, 20}},
       Imported("MaxPool", {testing::Attr("kernel_shape", Ints{1000}), testing::Attr("strides", Ints{1000}),
                            testing::Attr("ceil_mode", int64_t{1})}),
       [](const Tensors& t) {
         return truth::Make({2, 3, 1}, [&](const Ints& i) {
           double most = t[0].at({i[0], i[1], 0});
           for (int64_t k = 1; k < 5; ++k) most = std::max(most, t[0].at({i[0], i[1], k}));
           return most;
         });
       },
       {0}});
  return cases;
}

}  // namespace act::gradient_case
