// Weights of test models whose elements differ.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/compiler/onnx_model.h"

namespace act::testing {

// An f32 initializer of numbers from N(0, .4^2), which `seed` tells from others.
inline void RandomWeight(OnnxModel& model, const std::string& name, const std::vector<int64_t>& dims,
                         unsigned seed) {
  model.Weight(name, dims);
  std::string& raw =
      *model.graph().mutable_initializer(model.graph().initializer_size() - 1)->mutable_raw_data();
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 0.4f);
  for (size_t i = 0; i + sizeof(float) <= raw.size(); i += sizeof(float)) {
    const float value = normal(engine);
    std::memcpy(raw.data() + i, &value, sizeof value);
  }
}

}  // namespace act::testing
