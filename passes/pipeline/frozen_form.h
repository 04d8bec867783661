// The values of --frozen-weights: how parameters that do not train lie in memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

struct FrozenForm {
  std::string name;
  std::optional<Codec> codec;  // nothing: float32
  // What it adds to the squared error of the gradient, in units of the variance of L3's codes of 3 bits: the geometric
  // mean of two trained networks (docs/measurements/frozen_weights.md).
  double variance = 0;
};

// From the largest to the smallest.
const std::vector<FrozenForm>& FrozenForms();

// Null if there is no such form.
const FrozenForm* FindFrozenForm(const std::string& name);

}  // namespace act
