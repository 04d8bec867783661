// actrun's flags for optimizers: one per hyperparameter, with PyTorch's names. The plan's optimizer
// decides which of them apply.
#pragma once

#include <llvm/Support/CommandLine.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/plan/optimizer.h"
#include "tools/flags.h"

namespace act {

class OptimizerFlags {
 public:
  explicit OptimizerFlags(llvm::cl::OptionCategory& category) {
    for (const HyperparameterInfo& info : AllHyperparameters()) {
      if (info.member == &Hyperparameters::nesterov) continue;
      help_.push_back(std::make_unique<std::string>(Help(info)));
      flags_.push_back(
          {&info, std::make_unique<NumberFlag>(llvm::StringRef(info.name), llvm::cl::desc(*help_.back()),
                                               llvm::cl::value_desc("X"), llvm::cl::cat(category))});
    }
    nesterov_ = std::make_unique<SwitchFlag>("nesterov", llvm::cl::desc("Nesterov's momentum (sgd, onnx-momentum)"),
                                             llvm::cl::cat(category));
  }

  // What is wrong with the values for every plan, or "".
  std::string CheckRanges() const {
    for (const auto& [info, flag] : flags_) {
      if (std::isfinite(*flag) && *flag >= 0 && *flag < info->below) continue;
      return std::string("--") + info->name + ": expected a number " +
             (std::isfinite(info->below) ? "in [0, " + Number(info->below) + ")" : "that is not negative");
    }
    return "";
  }

  // The hyperparameters of the plan's optimizer. Without a flag, these are the model's own
  // (`given`) or else PyTorch's defaults. Errors: a flag that the optimizer does not take.
  llvm::Expected<Hyperparameters> Resolve(const std::string& name,
                                          const std::map<std::string, double>& given) const {
    const OptimizerInfo* optimizer = FindOptimizer(name);
    Hyperparameters hyper;
    if (optimizer)
      for (const auto& [member, value] : optimizer->defaults) hyper.*member = value;
    for (const auto& [info, flag] : flags_) {
      if (const auto it = given.find(info->name); it != given.end()) hyper.*info->member = it->second;
      if (flag->getNumOccurrences() == 0) continue;
      if (!optimizer || !optimizer->Takes(info->member)) return Refused(info->name, name, optimizer);
      hyper.*info->member = *flag;
    }
    if (const auto it = given.find("nesterov"); it != given.end()) hyper.nesterov = it->second;
    if (nesterov_->getNumOccurrences() > 0) {
      if (!optimizer || !optimizer->Takes(&Hyperparameters::nesterov))
        return Refused("nesterov", name, optimizer);
      hyper.nesterov = *nesterov_ ? 1 : 0;
      if (*nesterov_ && hyper.momentum == 0) return MakeError("--nesterov", "needs a momentum above 0");
    }
    return hyper;
  }

 private:
  struct Flag {
    const HyperparameterInfo* info;
    std::unique_ptr<NumberFlag> flag;
  };

  static std::string Number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
  }

  // "Momentum (sgd 0.9)".
  static std::string Help(const HyperparameterInfo& info) {
    std::string defaults;
    for (const OptimizerInfo& optimizer : AllOptimizers())
      for (const auto& [member, value] : optimizer.defaults)
        if (member == info.member)
          defaults += (defaults.empty() ? "" : ", ") + optimizer.name + " " + Number(value);
    return std::string(info.help) + " (" + defaults + ")";
  }

  static llvm::Error Refused(const std::string& flag, const std::string& name,
                             const OptimizerInfo* optimizer) {
    if (!optimizer)
      return MakeError("--" + flag, "the plan updates no parameters",
                       "compile with --optimizer=" + OptimizerNames());
    std::string takes;
    for (const HyperparameterInfo& info : AllHyperparameters())
      if (optimizer->Takes(info.member)) takes += std::string(takes.empty() ? "--" : ", --") + info.name;
    return MakeError("--" + flag, "the plan's optimizer is " + name + ", which does not take it",
                     "it takes " + takes);
  }

  std::vector<std::unique_ptr<std::string>> help_;  // LLVM keeps references
  std::vector<Flag> flags_;
  std::unique_ptr<SwitchFlag> nesterov_;
};

}  // namespace act
