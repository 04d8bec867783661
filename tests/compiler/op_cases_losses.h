// Rows of batch normalization and losses. Channels last.
#pragma once

#include "tests/compiler/imported_case.h"
#include "tests/compiler/op_cases_conv.h"

namespace act::gradient_case {

// operands: x [.., C], gamma, beta, running mean, running variance
inline std::vector<OpCase> BatchNormCases() {
  std::vector<OpCase> cases;
  for (const bool frozen : {false, true})
    for (const Ints& dims : std::vector<Ints>{{4, 3}, {2, 3, 4, 5}, {6, 1}, {3, 5, 2}, {2, 1, 1, 3}}) {
      const int64_t c = dims.back();
      cases.push_back(
          {std::string("BatchNorm ") + (frozen ? "frozen" : "training"),
           {{dims}, {{c}, .5, 2}, {{c}}, {{c}, -1, 1, Kind::kBuffer}, {{c}, .5, 2, Kind::kBuffer}},
           // Epsilon is larger than usual, so that a wrong use of it shows.
           One("BatchNorm", Attrs({{"epsilon", .1}, {"momentum", .1}, {"frozen", int64_t{frozen}}})),
           [frozen](const Tensors& t) {
             const Tensor& x = t[0];
             const auto channels = x.dims.back();
             const double n = static_cast<double>(truth::Count(x.dims)) / static_cast<double>(channels);
             Tensor mean = t[3], variance = t[4];
             if (!frozen) {
               mean = variance = Tensor({channels});
               truth::ForEach(x.dims, [&](const Ints& i) { mean.at({i.back()}) += x.at(i) / n; });
               truth::ForEach(x.dims, [&](const Ints& i) {
                 const double d = x.at(i) - mean.at({i.back()});
                 variance.at({i.back()}) += d * d / n;
               });
             }
             return truth::Make(x.dims, [&](const Ints& i) {
               const Ints ch{i.back()};
               return (x.at(i) - mean.at(ch)) / std::sqrt(variance.at(ch) + .1) * t[1].at(ch) + t[2].at(ch);
             });
           },
           {0}});
    }
  return cases;
}

inline std::vector<OpCase> LossCases() {
  struct Row {
    const char* name;
    Ints logits;
    std::string reduction;
    int64_t ignore = -100;
    bool weighted = false;
  };
  const Row rows[] = {
      {"mean", {6, 5}, "mean"},
      {"sum", {6, 5}, "sum"},
      {"mean, some ignored", {8, 3}, "mean", 1},
      {"sum, some ignored", {8, 3}, "sum", 1},
      {"mean, weighted", {8, 3}, "mean", -100, true},
      {"mean, weighted, some ignored", {9, 4}, "mean", 2, true},
      {"sum, weighted, some ignored", {9, 4}, "sum", 0, true},
      {"of pixels", {2, 3, 2, 4}, "mean", 3, true},
      {"one class", {3, 1}, "mean"},
  };
  std::vector<OpCase> cases;
  for (const Row& row : rows) {
    Attributes attrs = Attrs({{"reduction", row.reduction}});
    if (row.ignore != -100) attrs.Set("ignore_index", row.ignore);
    const int64_t classes = row.logits.back();
    OpCase c{
        std::string("SoftmaxCrossEntropy ") + row.name,
        {{row.logits},
         {Ints(row.logits.begin(), row.logits.end() - 1), 0, static_cast<double>(classes), Kind::kIndex}},
        [attrs](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
          return Take(b.Add("SoftmaxCrossEntropy", v, attrs, "tested", 2))[0];
        },
        [row, classes](const Tensors& t) {
          double sum = 0, weights = 0;
          truth::ForEach(t[1].dims, [&](const Ints& i) {
            const auto label = static_cast<int64_t>(t[1].at(i));
            if (label == row.ignore) return;
            double total = 0;
            for (int64_t k = 0; k < classes; ++k) total += std::exp(t[0].at(With(i, k)));
            const double w = t.size() > 2 ? t[2].at({label}) : 1;
            sum += w * (std::log(total) - t[0].at(With(i, label)));
            weights += w;
          });
          Tensor loss;
          loss.data = {row.reduction == "mean" ? sum / weights : sum};
          return loss;
        },
        {0, 1}};
    if (row.weighted) c.operands.push_back({{classes}, .5, 2, Kind::kFixed});
    cases.push_back(c);
  }
  return cases;
}

// Labels that are a share of each class. Operands: scores [N, C, ..], labels of these dims, weights [C] or none.
inline std::vector<OpCase> ShareLossCases() {
  struct Row {
    Ints scores;
    std::string reduction;
    bool weighted = false;
  };
  std::vector<OpCase> cases;
  for (const Row& row : {Row{{4, 5}, "mean"}, Row{{3, 4, 2}, "mean", true}, Row{{2, 3, 2, 2}, "sum", true},
                         Row{{3, 4}, "none"}}) {
    Ints samples = row.scores;
    samples.erase(samples.begin() + 1);
    OpCase c{
        "SoftmaxCrossEntropyLoss of shares, " + row.reduction,
        {{row.scores}, {row.scores, 0, 1}},
        Imported("SoftmaxCrossEntropyLoss",
                 {testing::Attr("reduction", row.reduction), testing::Attr("ignore_index", int64_t{-100})}),
        [row, samples](const Tensors& t) {
          double sum = 0, count = 0;
          const Tensor losses = truth::Make(samples, [&](Ints i) {
            const auto at = [&i](int64_t k) {
              Ints of_class = i;
              of_class.insert(of_class.begin() + 1, k);
              return of_class;
            };
            double total = 0, loss = 0;
            for (int64_t k = 0; k < row.scores[1]; ++k) total += std::exp(t[0].at(at(k)));
            for (int64_t k = 0; k < row.scores[1]; ++k)
              loss += (row.weighted ? t[2].at({k}) : 1) * t[1].at(at(k)) * (std::log(total) - t[0].at(at(k)));
            sum += loss;
            ++count;
            return loss;
          });
          if (row.reduction == "none") return losses;
          Tensor one;
          one.data = {row.reduction == "mean" ? sum / count : sum};
          return one;
        },
        {0, 1}};
    if (row.weighted) c.operands.push_back({{row.scores[1]}, .5, 2, Kind::kFixed});
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace act::gradient_case
