// Batch statistics: from x [rows, C], float32 or bfloat16, to mean and rstd [C], and to the running statistics. An
// optional third result is the largest |x - mean| rstd of each channel.
#pragma once

#include <optional>
#include <string>

#include "kernels/math/batch_statistics.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "runtime/executor/kernel.h"

namespace act {

struct BatchNormShape {
  int64_t rows = 0, channels = 0;
  double epsilon = 1e-5, momentum = 0.1;
  bool population = false;  // running_var follows the variance of the batch, without n / (n - 1)
  bool wants_largest = false;
  uint64_t updates_done = 0;  // steps whose updates the stored running statistics already contain

  // Stores the results for channel c. An empty batch leaves the running statistics as they are, and so
  // do the first `updates_done` steps.
  void Store(const KernelArgs& args, int64_t c, const BatchMoments& moments) const {
    const double deviation = BatchDeviation(moments, epsilon);
    args.outputs[0].as<float>()[c] = static_cast<float>(moments.mean);
    args.outputs[1].as<float>()[c] = static_cast<float>(1 / deviation);
    if (wants_largest)
      args.outputs[2].as<float>()[c] = static_cast<float>(FurthestFromMean(moments) / deviation);
    const auto update = [&](size_t input, double value) {
      if (rows == 0 || (args.state && args.state->step < updates_done)) return;
      if (args.inputs.size() <= input || !args.inputs[input].data) return;
      float& running = args.inputs[input].as<float>()[c];
      running = MovedTowards(running, value, momentum);
    };
    update(1, moments.mean);
    update(2, RunningVariance(moments, population));
  }
};

inline std::optional<BatchNormShape> BatchNormShapeOf(const KernelSite& site, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  const TensorView& x = site.inputs[0];
  if (!IsFloat32OrBFloat16(x.dtype) || x.dims.empty()) return no("f32 or bf16 [..,C] only");
  for (const TensorView& y : site.outputs)
    if (y.dtype != DType::kFloat32) return no("statistics are f32");
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
    if (site.inputs[i].bytes > 0 &&
        (site.inputs[i].elements != s.channels || site.inputs[i].dtype != DType::kFloat32))
      return no("running statistics are not f32 [C]");
  return s;
}

}  // namespace act
