// Batch statistics: from x [rows, C] to mean and rstd [C], and to the running statistics. An
// optional third result is the largest |x - mean| rstd of each channel.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "kernels/site/dereference.h"
#include "runtime/executor/kernel.h"

namespace act {

struct BatchNormShape {
  int64_t rows = 0, channels = 0;
  double epsilon = 1e-5, momentum = 0.1;
  bool population = false;  // running_var follows the variance of the batch, without n / (n - 1)
  bool wants_largest = false;
  uint64_t updates_done = 0;  // steps whose updates the stored running statistics already contain

  // Stores the results for channel c. m2 is the sum of squared deviations from `mean`, and [low,
  // high] the range of x. An empty batch leaves the running statistics as they are, and so do the
  // first `updates_done` steps.
  void Store(const KernelArgs& args, int64_t c, double mean, double m2, float low, float high) const {
    const auto n = static_cast<double>(rows);
    const double variance = rows > 0 ? m2 / n : 0;
    args.outputs[0].as<float>()[c] = static_cast<float>(mean);
    args.outputs[1].as<float>()[c] = static_cast<float>(1 / std::sqrt(variance + epsilon));
    if (wants_largest) {
      const double furthest = rows > 0 ? std::max(high - mean, mean - low) : 0;
      args.outputs[2].as<float>()[c] = static_cast<float>(furthest / std::sqrt(variance + epsilon));
    }
    const auto update = [&](size_t input, double value) {
      if (rows == 0 || (args.state && args.state->step < updates_done)) return;
      if (args.inputs.size() <= input || !args.inputs[input].data) return;
      float& running = args.inputs[input].as<float>()[c];
      running = static_cast<float>((1 - momentum) * running + momentum * value);
    };
    update(1, mean);
    update(2, rows > 1 && !population ? m2 / (n - 1) : variance);
  }
};

inline std::optional<BatchNormShape> BatchNormShapeOf(const KernelSite& site, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  const TensorView& x = site.inputs[0];
  if (x.dtype != DType::kFloat32 || x.dims.empty()) return no("f32 [..,C] only");
  BatchNormShape s;
  s.channels = x.dims.back();
  s.rows = s.channels > 0 ? x.elements / s.channels : 0;
  s.epsilon = site.node->attrs.Float("epsilon", 1e-5);
  s.momentum = site.node->attrs.Float("momentum", 0.1);
  s.population = site.node->attrs.Int("population") != 0;
  s.updates_done = static_cast<uint64_t>(site.node->attrs.Int("updates_done", 0));
  if (site.outputs.size() < 2 || site.outputs[0].elements != s.channels ||
      site.outputs[1].elements != s.channels)
    return no("mean and rstd are not [C]");
  s.wants_largest = site.outputs.size() > 2;
  if (s.wants_largest && site.outputs[2].elements != s.channels) return no("largest is not [C]");
  for (size_t i = 1; i < site.inputs.size(); ++i)
    if (site.inputs[i].bytes > 0 && site.inputs[i].elements != s.channels)
      return no("running statistics are not [C]");
  return s;
}

}  // namespace act
