// Classification losses that every backend's kernels are compared by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/kernel_testing.h"

namespace act {

inline OpCase LossCase(const std::vector<int64_t>& logits, const std::vector<int64_t>& labels, bool weighted,
                       const std::string& reduction) {
  const std::vector<int64_t> rows(logits.begin(), logits.end() - 1);
  OpCase c{"SoftmaxCrossEntropy",      {}, {Random(logits, 1), Labels(rows, labels)},
           {Empty({}), Empty(logits)}, {}, {}};
  c.attrs.Set("reduction", reduction);
  c.inputs.push_back(Absent());
  if (weighted) {
    c.inputs[2] = Random({logits.back()}, 2);
    for (int64_t i = 0; i < logits.back(); ++i)
      c.inputs[2].as<float>()[i] = 0.5f + std::fabs(c.inputs[2].as<float>()[i]);
  }
  return c;
}

inline OpCase LossGradCase(const OpCase& forward, float dloss) {
  const OpResult y = RunReference(forward);
  return {"SoftmaxCrossEntropyGrad",
          forward.attrs,
          {Floats({}, {dloss}), y.tensors[1], forward.inputs[1], forward.inputs[2]},
          {Empty(forward.inputs[0].dims)},
          {},
          {}};
}

inline std::vector<int64_t> SomeLabels(int64_t count, int64_t classes) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(i * 7 % classes);
  return labels;
}

// float32 exponentials to 1 unit in the last place, and sums in double.
inline constexpr double kLossTolerance = 5e-7;

// Calls check(case, what).
template <class Check>
void ForLossCases(Check check) {
  const auto both = [&](const OpCase& c, const std::string& what) {
    check(c, what);
    check(LossGradCase(c, 1.5f), what);
  };
  using Ints = std::vector<int64_t>;
  for (const std::string reduction : {"mean", "sum"})
    for (const bool weighted : {false, true})
      for (const Ints& dims :
           {Ints{5, 10}, Ints{1, 1000}, Ints{3, 4, 5, 21}, Ints{150, 3}, Ints{2, 1}, Ints{130, 300}}) {
        const std::string what = reduction + " of " + std::to_string(dims.back()) + " classes";
        OpCase c =
            LossCase(dims, SomeLabels(ElementCount(dims) / dims.back(), dims.back()), weighted, reduction);
        both(c, what);
        if (dims.back() < 4) continue;
        c.attrs.Set("ignore_index", int64_t{0});
        both(c, what + ", some ignored");
      }
  for (const float odd : {1e30f, -1e30f, -INFINITY, INFINITY, NAN}) {
    OpCase c = LossCase({3, 20}, {1, 2, 3}, false, "mean");
    c.inputs[0].as<float>()[20 + 5] = odd;
    check(c, "a logit of " + std::to_string(odd));
  }
  for (const bool weighted : {false, true}) {
    OpCase given = LossCase({130, 30}, SomeLabels(130, 30), weighted, "mean");
    OpCase grad = LossGradCase(given, 1.5f);
    given.inputs.push_back(Floats({}, {1234}));
    grad.inputs.push_back(Floats({}, {1234}));
    check(given, "a given denominator");
    check(grad, "a given denominator");
  }
  OpCase c = LossCase({2, 5}, {1, 1}, false, "mean");
  c.attrs.Set("ignore_index", int64_t{1});
  check(c, "all ignored");
  check(LossCase({0, 5}, {}, false, "sum"), "no rows");
}

// The result lies where an operand does: probabilities over scores, and the gradient over probabilities. Nullopt if their
// types differ.
inline std::optional<OpCase> LossInPlace(OpCase c) {
  const size_t result = c.op == "SoftmaxCrossEntropy" ? 1 : 0, operand = 1 - result;
  if (c.outputs[result].dtype != c.inputs[operand].dtype) return std::nullopt;
  c.in_place = {{result, operand}};
  return c;
}

inline OpCase DenominatorCase(const std::vector<int64_t>& rows, const std::vector<int64_t>& labels,
                              const TestTensor& weight, int64_t classes) {
  OpCase c{"LossDenominator", {}, {Labels(rows, labels), weight}, {Empty({})}, {}, {}};
  c.attrs.Set("classes", classes);
  return c;
}

inline OpCase CountCorrectCase() {
  OpCase c{
      "CountCorrect", {}, {Floats({4, 3}, {1, 2, 2, 5, 1, 1, 0, 0, 9, 1, 1, 1}), Labels({4}, {1, 0, 0, -1})},
      {Empty({})},    {}, {}};
  c.attrs.Set("ignore_index", int64_t{-1});
  return c;
}

}  // namespace act
