#include "runtime/plan/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"

namespace act {
namespace {

using H = Hyperparameters;
constexpr double kNoBound = std::numeric_limits<double>::infinity();

// t: this update's number, from 1.
double BiasCorrection(double beta, const UpdateState& s) {
  return 1 - std::pow(beta, static_cast<double>(s.updates) + 1);
}

// ONNX's count T of updates done. It need not start at 0.
double Count(const UpdateState& s) { return static_cast<double>(s.updates) + s.hyper.updates_done; }

// ONNX's Adam has no bias correction while T is 0.
double OnnxAdamRate(const UpdateState& s) {
  const double t = Count(s);
  if (t == 0) return s.hyper.lr;
  return s.hyper.lr * std::sqrt(1 - std::pow(s.hyper.beta2, t)) / (1 - std::pow(s.hyper.beta1, t));
}

constexpr NamedStepScalar kStepScalars[] = {
    {"lr", [](const UpdateState& s) { return s.hyper.lr; }, Follows::kRate},
    {"momentum", [](const UpdateState& s) { return s.hyper.momentum; }},
    {"weight_decay", [](const UpdateState& s) { return s.hyper.weight_decay; }, Follows::kDecay},
    {"eps", [](const UpdateState& s) { return s.hyper.eps; }},
    {"beta2", [](const UpdateState& s) { return s.hyper.beta2; }},
    {"one_minus_beta1", [](const UpdateState& s) { return 1 - s.hyper.beta1; }},
    {"one_minus_beta2", [](const UpdateState& s) { return 1 - s.hyper.beta2; }},
    {"inverse_bias1", [](const UpdateState& s) { return 1 / BiasCorrection(s.hyper.beta1, s); }},
    {"lr_over_bias1", [](const UpdateState& s) { return s.hyper.lr / BiasCorrection(s.hyper.beta1, s); },
     Follows::kRate},
    // Adam with eps added to the uncorrected root. This scalar applies both corrections.
    {"corrected_lr",
     [](const UpdateState& s) {
       return s.hyper.lr * std::sqrt(BiasCorrection(s.hyper.beta2, s)) / BiasCorrection(s.hyper.beta1, s);
     },
     Follows::kRate},
    {"rsqrt_bias2", [](const UpdateState& s) { return 1 / std::sqrt(BiasCorrection(s.hyper.beta2, s)); }},
    // Decoupled weight decay: the part by which the parameter shrinks, and what is left of it.
    {"shrinkage", [](const UpdateState& s) { return s.hyper.lr * s.hyper.weight_decay; }, Follows::kBoth},
    {"decay", [](const UpdateState& s) { return 1 - s.hyper.lr * s.hyper.weight_decay; }, Follows::kNeither,
     "shrinkage"},
    // The weights of the velocity and of the gradient in SGD's step.
    {"velocity_part", [](const UpdateState& s) { return s.hyper.nesterov != 0 ? s.hyper.momentum : 1; }},
    {"gradient_part", [](const UpdateState& s) { return s.hyper.nesterov; }},
    {"decayed_lr", [](const UpdateState& s) { return s.hyper.lr / (1 + Count(s) * s.hyper.lr_decay); },
     Follows::kRate},
    {"onnx_adam_lr", OnnxAdamRate, Follows::kRate},
    {"post_shrinkage", [](const UpdateState& s) { return s.hyper.post_decay; }, Follows::kDecay},
    {"post_decay", [](const UpdateState& s) { return 1 - s.hyper.post_decay; }, Follows::kNeither,
     "post_shrinkage"},
    {"gradient_weight", [](const UpdateState& s) { return Count(s) > 0 ? s.hyper.gradient_weight : 1; }},
    {"keep_sum", [](const UpdateState& s) { return s.keep_sum; }},
    {"sum_weight", [](const UpdateState& s) { return s.sum_weight; }},
};

}  // namespace

const std::vector<HyperparameterInfo>& AllHyperparameters() {
  static const std::vector<HyperparameterInfo> all = {
      {"lr", &H::lr, "Learning rate", kNoBound},
      {"momentum", &H::momentum, "Momentum", 1},
      {"nesterov", &H::nesterov, "Nesterov's momentum", kNoBound},
      {"weight-decay", &H::weight_decay, "Weight decay", kNoBound},
      {"beta1", &H::beta1, "Decay of the gradient's running mean", 1},
      {"beta2", &H::beta2, "Decay of the squared gradient's running mean", 1},
      {"eps", &H::eps, "Added to the denominator", kNoBound},
      {"lr-decay", &H::lr_decay, "Decay of the learning rate: lr / (1 + steps lr-decay)", kNoBound},
      {"initial-accumulator-value", &H::initial_accumulator_value, "Start of the sum of squares", kNoBound},
      {"gradient-weight", &H::gradient_weight,
       "Weight of a gradient in the velocity, from the second update on", kNoBound},
      {"post-decay", &H::post_decay, "Part of a parameter that is subtracted after the update", kNoBound},
      {"updates-done", &H::updates_done, "Updates that count as done before the first one", kNoBound},
  };
  return all;
}

const std::vector<OptimizerInfo>& AllOptimizers() {
  static const std::vector<OptimizerInfo> all = {
      {"sgd",
       "momentum, or Nesterov's",
       {{&H::lr, 0.01}, {&H::momentum, 0.9}, {&H::nesterov, 0}, {&H::weight_decay, 0}}},
      {"plain-sgd", "no momentum, and so no state", {{&H::lr, 0.01}, {&H::weight_decay, 0}}},
      {"adam",
       "weight decay as part of the gradient",
       {{&H::lr, 1e-3}, {&H::beta1, 0.9}, {&H::beta2, 0.999}, {&H::eps, 1e-8}, {&H::weight_decay, 0}}},
      {"adamw",
       "Adam with decoupled weight decay",
       {{&H::lr, 1e-3}, {&H::beta1, 0.9}, {&H::beta2, 0.999}, {&H::eps, 1e-8}, {&H::weight_decay, 0.01}}},
      {"ort-adamw",
       "ONNX Runtime's AdamW: eps added to the uncorrected root, decay after the step",
       {{&H::lr, 1e-3}, {&H::beta1, 0.9}, {&H::beta2, 0.999}, {&H::eps, 1e-6}, {&H::weight_decay, 0}}},
      {"adagrad",
       "steps over the root of the sum of squares",
       {{&H::lr, 0.01},
        {&H::lr_decay, 0},
        {&H::initial_accumulator_value, 0},
        {&H::eps, 1e-10},
        {&H::weight_decay, 0},
        {&H::updates_done, 0}}},
      {"lamb",
       "Adam's direction, scaled to each parameter's norm",
       {{&H::lr, 1e-3}, {&H::beta1, 0.9}, {&H::beta2, 0.999}, {&H::eps, 1e-6}, {&H::weight_decay, 0.01}}},
      {"onnx-momentum",
       "ONNX's Momentum: sgd whose velocity takes a part of each gradient but the first",
       {{&H::lr, 0.01},
        {&H::momentum, 0.9},
        {&H::nesterov, 0},
        {&H::gradient_weight, 1},
        {&H::weight_decay, 0},
        {&H::updates_done, 0}}},
      {"onnx-adam",
       "ONNX's Adam: eps added to the uncorrected root, no correction at count 0, two kinds of decay",
       {{&H::lr, 1e-3},
        {&H::beta1, 0.9},
        {&H::beta2, 0.999},
        {&H::eps, 1e-6},
        {&H::weight_decay, 0},
        {&H::post_decay, 0},
        {&H::updates_done, 0}}},
  };
  return all;
}

bool OptimizerInfo::Takes(Hyperparameter which) const {
  return std::any_of(defaults.begin(), defaults.end(), [which](const auto& d) { return d.first == which; });
}

const OptimizerInfo* FindOptimizer(const std::string& name) {
  for (const OptimizerInfo& optimizer : AllOptimizers())
    if (optimizer.name == name) return &optimizer;
  return nullptr;
}

std::string OptimizerNames() {
  std::string names;
  const std::vector<OptimizerInfo>& all = AllOptimizers();
  for (size_t i = 0; i < all.size(); ++i)
    names += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + all[i].name;
  return names;
}

llvm::Error CheckHyperparameters(const std::string& optimizer, const std::map<std::string, double>& hyper) {
  const OptimizerInfo* info = FindOptimizer(optimizer);
  for (const auto& [name, value] : hyper) {
    bool known = false;
    for (const HyperparameterInfo& h : AllHyperparameters())
      known |= name == h.name && info && info->Takes(h.member) && value >= 0 && value < h.below;
    if (!known)
      return MakeError(
          "", "an impossible " + name + " of the optimizer " + optimizer + ": " + std::to_string(value));
  }
  return llvm::Error::success();
}

std::span<const NamedStepScalar> AllStepScalars() { return kStepScalars; }

const NamedStepScalar* FindNamedStepScalar(const std::string& name) {
  for (const NamedStepScalar& scalar : kStepScalars)
    if (name == scalar.name) return &scalar;
  return nullptr;
}

StepScalar FindStepScalar(const std::string& name) {
  const NamedStepScalar* scalar = FindNamedStepScalar(name);
  return scalar ? scalar->compute : nullptr;
}

}  // namespace act
