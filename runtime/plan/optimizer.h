// The optimizers that a plan may hold: their hyperparameters, and the numbers of a step that follow from
// these. Their arithmetic on tensors is compiler/ops/update.cc; docs/optimizers.md has the formulas.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace act {

// Under PyTorch's names. In double: 1 - beta2 in float32 would be off by 5e-5 of itself.
struct Hyperparameters {
  double lr = 0;
  double momentum = 0;
  double nesterov = 0;  // 0 or 1
  double weight_decay = 0;
  double beta1 = 0, beta2 = 0;
  double eps = 0;
  double lr_decay = 0;
  double initial_accumulator_value = 0;
  double gradient_weight = 0;  // of a gradient in the velocity, from the second update on
  double post_decay = 0;       // part of the parameter that is taken off behind the step
  double updates_done = 0;     // updates that count as done before the first
  bool operator==(const Hyperparameters&) const = default;
};
using Hyperparameter = double Hyperparameters::*;

struct HyperparameterInfo {
  const char* name;  // of the flag, without dashes
  Hyperparameter member;
  const char* help;
  double below;  // exclusive upper bound; all are at least 0
};
const std::vector<HyperparameterInfo>& AllHyperparameters();

struct OptimizerInfo {
  std::string name;                                         // of --optimizer
  std::string description;                                  // for --help
  std::vector<std::pair<Hyperparameter, double>> defaults;  // what it takes, with PyTorch's defaults
  bool Takes(Hyperparameter which) const;
};
const std::vector<OptimizerInfo>& AllOptimizers();
// Null where there is none of that name.
const OptimizerInfo* FindOptimizer(const std::string& name);
// "sgd, adam or adamw".
std::string OptimizerNames();

// Values by flag ("weight-decay") that take the place of an optimizer's defaults. Errors: one that it does
// not take, or outside its range.
llvm::Error CheckHyperparameters(const std::string& optimizer, const std::map<std::string, double>& hyper);

// What an update sees of the step that it belongs to.
struct UpdateState {
  Hyperparameters hyper;  // lr: that of the schedule
  uint64_t updates = 0;   // done before this one
  double keep_sum = 0;    // 1 where the sums of gradients hold those of earlier micro-batches of this update
  double sum_weight = 1;  // of this micro-batch's gradients: its share of the update's samples
};

// A number that updates read, computed once a step in double: "lr_over_bias1" is lr / (1 - beta1^t). Null
// where there is none of that name.
using StepScalar = double (*)(const UpdateState&);
StepScalar FindStepScalar(const std::string& name);

}  // namespace act
