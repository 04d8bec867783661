// Batch statistics: from x [rows, C], float32 or bfloat16, to mean and rstd [C], and to the running statistics. An
// optional third result is the largest |x - mean| rstd of each channel. Moments may be made first, for some of
// the rows at a time.
#pragma once

#include <optional>
#include <string>

#include "kernels/math/batch_statistics.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "runtime/executor/kernel.h"

namespace act {

// What becomes of a channel's moments.
struct BatchNormResults {
  int64_t channels = 0;
  double epsilon = 1e-5, momentum = 0.1;
  bool population = false;  // running_var follows the variance of the batch, without n / (n - 1)
  bool wants_largest = false;
  uint64_t updates_done = 0;  // steps whose updates the stored running statistics already contain

  // Stores the results for channel c. An empty batch leaves the running statistics as they are, and so
  // do the first `updates_done` steps. A single row leaves running_var.
  void Store(const KernelArgs& args, int64_t c, const BatchMoments& moments) const {
    const double deviation = BatchDeviation(moments, epsilon);
    args.outputs[0].as<float>()[c] = static_cast<float>(moments.mean);
    args.outputs[1].as<float>()[c] = static_cast<float>(1 / deviation);
    if (wants_largest)
      args.outputs[2].as<float>()[c] = static_cast<float>(FurthestFromMean(moments) / deviation);
    const auto update = [&](size_t input, double value) {
      if (moments.rows == 0 || (args.state && args.state->step < updates_done)) return;
      if (args.inputs.size() <= input || !args.inputs[input].data) return;
      float& running = args.inputs[input].as<float>()[c];
      running = MovedTowards(running, value, momentum);
    };
    update(1, moments.mean);
    if (HasRunningVariance(moments, population)) update(2, RunningVariance(moments, population));
  }
};

struct BatchNormShape {
  int64_t rows = 0, channels = 0;
  bool wants_range = true;  // of each channel's x
};

inline std::optional<BatchNormShape> BatchNormShapeOf(const KernelSite& site, std::string* why) {
  const TensorView& x = site.inputs[0];
  if (!IsFloat32OrBFloat16(x.dtype) || x.dims.empty()) {
    if (why) *why = "f32 or bf16 [..,C] only";
    return std::nullopt;
  }
  const int64_t channels = x.dims.back();
  return BatchNormShape{.rows = channels > 0 ? x.elements / channels : 0, .channels = channels};
}

// For BatchNormStats and BatchNormFromMoments, of so many channels.
inline std::optional<BatchNormResults> BatchNormResultsOf(const KernelSite& site, int64_t channels,
                                                          std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  for (const TensorView& y : site.outputs)
    if (y.dtype != DType::kFloat32) return no("statistics are f32");
  BatchNormResults r;
  r.channels = channels;
  r.epsilon = site.node->attrs.Float("epsilon", 1e-5);
  r.momentum = site.node->attrs.Float("momentum", 0.1);
  r.population = site.node->attrs.Int("population") != 0;
  r.updates_done = static_cast<uint64_t>(site.node->attrs.Int("updates_done", 0));
  if (site.outputs.size() < 2 || site.outputs[0].elements != channels || site.outputs[1].elements != channels)
    return no("mean and rstd are not [C]");
  r.wants_largest = site.outputs.size() > 2;
  if (r.wants_largest && site.outputs[2].elements != channels) return no("largest is not [C]");
  for (size_t i = 1; i < site.inputs.size(); ++i)
    if (site.inputs[i].bytes > 0 &&
        (site.inputs[i].elements != channels || site.inputs[i].dtype != DType::kFloat32))
      return no("running statistics are not f32 [C]");
  return r;
}

// The moments of some rows, or of these and the rows before them, of which `moments` [C, 5] holds them.
inline void AddMoments(const KernelArgs& args, int64_t c, const BatchMoments& b) {
  double* const at = args.outputs[0].as<double>() + c * kBatchMomentNumbers;
  StoreMoments(at, args.goes_on ? Merge(LoadMoments(at), b) : b);
}

// Whether `moments` is a tensor [C, 5] of so many channels.
inline bool HoldsMoments(const TensorView& moments, int64_t channels, std::string* why) {
  const bool holds =
      moments.dtype == DType::kFloat64 && moments.dims == std::vector<int64_t>{channels, kBatchMomentNumbers};
  if (!holds && why) *why = "moments are not f64 [C,5]";
  return holds;
}

}  // namespace act
