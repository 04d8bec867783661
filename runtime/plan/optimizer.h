// The optimizers that a plan may contain: their hyperparameters, and the numbers that each step
// derives from them. Their arithmetic on tensors is compiler/ops/update.cc; docs/optimizers.md has
// the formulas.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace act {

// Under PyTorch's names. In double: 1 - beta2 in float32 would have a relative error of 5e-5.
struct Hyperparameters {
  double lr = 0;
  double momentum = 0;
  double nesterov = 0;  // 0 or 1
  double weight_decay = 0;
  double beta1 = 0, beta2 = 0;
  double eps = 0;
  double lr_decay = 0;
  double initial_accumulator_value = 0;
  double gradient_weight = 0;  // weight of a gradient in the velocity, from the second update on
  double post_decay = 0;       // fraction of the parameter that is subtracted after the step
  double updates_done = 0;     // updates that count as done before the first one
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
  std::string name;         // of --optimizer
  std::string description;  // for --help
  // those it accepts, with PyTorch's defaults
  std::vector<std::pair<Hyperparameter, double>> defaults;
  bool Takes(Hyperparameter which) const;
};
const std::vector<OptimizerInfo>& AllOptimizers();
// Null if there is no optimizer of that name.
const OptimizerInfo* FindOptimizer(const std::string& name);
// For example "sgd, adam or adamw".
std::string OptimizerNames();

// Checks values by flag ("weight-decay") that replace an optimizer's defaults. Errors: a
// hyperparameter that it does not accept, or a value outside its range.
llvm::Error CheckHyperparameters(const std::string& optimizer, const std::map<std::string, double>& hyper);

// What an update knows of the step to which it belongs.
struct UpdateState {
  Hyperparameters hyper;  // lr: the schedule's
  uint64_t updates = 0;   // done before this one
  // 1 if the sums of gradients hold those of earlier micro-batches of this update
  double keep_sum = 0;
  double sum_weight = 1;  // of this micro-batch's gradients: its fraction of the update's samples
};

// A number that updates read, computed once per step in double: "lr_over_bias1" is lr / (1 -
// beta1^t). Null if there is none of that name.
using StepScalar = double (*)(const UpdateState&);
StepScalar FindStepScalar(const std::string& name);
// Which of the learning rate and the weight decay a scalar is proportional to.
enum class Follows : uint8_t { kNeither, kRate, kDecay, kBoth };
// All of them. A device gets their values in this order.
struct NamedStepScalar {
  const char* name;
  StepScalar compute;
  Follows follows = Follows::kNeither;
  // Not null: it is 1 minus this scalar, and follows them as that one does.
  const char* complement = nullptr;
};
std::span<const NamedStepScalar> AllStepScalars();
// Null if there is none of that name.
const NamedStepScalar* FindNamedStepScalar(const std::string& name);

}  // namespace act
