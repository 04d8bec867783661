// Measures on given data how noisy the codes of a plan make its gradient, in total and for each
// saved activation. docs/gradient_variance.md has the definitions.
#pragma once

#include <llvm/Support/Error.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"
#include "runtime/measure/gradient_statistics.h"
#include "runtime/measure/switchable_codes.h"
#include "runtime/train/checkpoint.h"

namespace act {

// A plan of the same model, whose gradient without codes counts as exact. Its executor's batch is that of the
// measured one. It is given the measured plan's parameters.
struct ReferencePlan {
  Executor* executor = nullptr;  // null: there is none
  const SwitchablePlan* codes = nullptr;
};

struct VarianceOptions {
  int64_t repeats = 1;      // R: gradients per mini-batch, each with other rounding
  int64_t batches = 1;      // mini-batches
  std::string edges = "*";  // a glob over names: the edges to measure alone; empty: none
  bool rerun = true;        // also measure codes made within the backward pass, by the same glob
  ReferencePlan reference = {};
  const volatile std::sig_atomic_t* stop = nullptr;  // set by a signal
};

struct EdgeVariance {
  size_t edge = 0;            // position in Plan::edges
  GradientEstimate estimate;  // with all other edges exact
};

// Against the gradient of a reference plan.
struct ReferenceVariance {
  std::string model, level;  // of the reference plan
  Compute compute = Compute::kFloat32;
  double gradient_norm = 0;        // the reference's, as GradientVariance::gradient_norm
  GradientEstimate without_codes;  // of one gradient: it has a variance alone, and that is a squared bias
  GradientEstimate total;
};

struct GradientVariance {
  int64_t batches = 0, batch = 0, repeats = 0;  // mini-batches, samples of each, gradients of each
  int64_t parameters = 0;                       // elements of the gradient
  double gradient_norm = 0;                     // sqrt(mean of |g|^2 over the mini-batches)
  size_t saved_edges = 0;                       // in the plan
  size_t codes = 0;                             // how many of these are stored with an error
  size_t rerun_codes = 0;                       // codes with an error that the backward pass makes
  size_t rounded_products = 0;                  // in the plan; measured in float32
  GradientEstimate total;
  std::optional<ReferenceVariance> reference;
  // In the order in which the step stores them. Positions from saved_edges on belong to re-runs.
  std::vector<EdgeVariance> edges;
};

// Runs the graph of `codes`, from whose plan `executor` was made, at its layout's batch. Each
// mini-batch runs once exactly, and R times for all codes together and for each edge, without
// updates. Parameters stay as they are; running statistics do not. `position` is the point in
// training of these passes (seed, step, and where the data set continues). Errors: a pass that
// fails, a gradient that is not finite, a data set with less than one full batch, a reference plan of
// another model.
llvm::Expected<GradientVariance> MeasureGradientVariance(Executor& executor, const SwitchablePlan& codes,
                                                         BatchSource& data, const TrainPosition& position,
                                                         const VarianceOptions& options);

// The report's section "Gradient variance".
std::string FormatGradientVariance(const Plan& plan, const GradientVariance& result);
// The keys are in docs/cli.md.
std::string GradientVarianceJson(const Plan& plan, const GradientVariance& result, uint64_t seed);

}  // namespace act
