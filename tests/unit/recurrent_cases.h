// Recurrent operators, of shapes that their kernels tell apart.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/recurrent_signature.h"
#include "tests/unit/kernel_testing.h"

namespace act::recurrent_cases {

struct Shape {
  int64_t batch, steps, units;
};

// Whole vectors and tails, one unit, one sample, one step, several blocks of units, more work
// than one thread's.
inline const Shape kShapes[] = {{1, 1, 1},   {2, 5, 3},   {3, 2, 16}, {1, 7, 33},
                                {2, 3, 300}, {33, 4, 64}, {4, 1, 17}};

// The op's tensors: small random weights, states and slopes in (-1, 1). With `all`,
// optional ones too.
inline OpCase Case(const std::string& op, const Shape& shape, bool reverse, bool all) {
  const RecurrentSignature& signature = *FindRecurrentSignature(op);
  OpCase c;
  c.op = op;
  c.attrs.Set("reverse", int64_t{reverse});
  const int64_t width = signature.gates * shape.units;
  const auto dims = [&](char letter) -> std::vector<int64_t> {
    switch (std::toupper(letter)) {
      case 'G':
        return {shape.batch, shape.steps, width};
      case 'S':
        return {shape.batch, shape.steps, shape.units};
      case 'N':
        return {shape.batch, shape.units};
      case 'H':
        return {shape.units};
      default:
        return {width, shape.units};
    }
  };
  unsigned seed = 1;
  for (char letter : signature.inputs) {
    const bool there = all || std::isupper(letter) != 0;
    c.inputs.push_back(there ? Random(dims(letter), seed++) : Absent());
    // Weights of variance 1 / H and slopes below 1, so that no state or gradient
    // grows with the steps.
    const float scale = letter == 'W' ? 1 / std::sqrt(static_cast<float>(shape.units)) : 0.5f;
    for (int64_t i = 0; there && i < c.inputs.back().elements(); ++i) c.inputs.back().as<float>()[i] *= scale;
  }
  for (char letter : signature.outputs) c.outputs.push_back(Empty(dims(letter)));
  return c;
}

// Calls f(case) for every operator and shape, in both directions, with and without optional operands.
template <class F>
void ForCases(const F& f) {
  for (const RecurrentSignature& signature : kRecurrentSignatures)
    for (const Shape& shape : kShapes)
      for (const bool reverse : {false, true})
        for (const bool all : {false, true}) {
          SCOPED_TRACE(std::string(signature.op) + " of " + std::to_string(shape.batch) + " samples, " +
                       std::to_string(shape.steps) + " steps, " + std::to_string(shape.units) + " units" +
                       (reverse ? ", reverse" : "") + (all ? ", all operands" : ""));
          OpCase c = Case(std::string(signature.op), shape, reverse, all);
          f(c);
          if (signature.op != "Rnn") continue;
          c.attrs.Set("activation", std::string("Relu"));
          f(c);
        }
}

}  // namespace act::recurrent_cases
