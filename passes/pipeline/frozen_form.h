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
};

// From the largest to the smallest.
const std::vector<FrozenForm>& FrozenForms();

// Null if there is no such form.
const FrozenForm* FindFrozenForm(const std::string& name);

}  // namespace act
