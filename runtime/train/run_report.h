// What actrun reports at the end of a run.
#pragma once

#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/executor/kernel_tuner.h"
#include "runtime/executor/profile.h"
#include "runtime/train/adaptation.h"
#include "runtime/train/trainer.h"

namespace act {

struct RunReport {
  const Executor* executor = nullptr;
  const TrainResult* result = nullptr;
  Profile profile;
  bool profiled = false;  // --profile: the times of nodes are part of the report
  std::string device;
  int threads = 1;
  uint64_t seed = 0;
  Hyperparameters hyper;
  int64_t resident_peak_bytes = 0;
  Device::BytesBeside beside = {};
  int64_t staging_bytes = 0;           // of the next batch's inputs, on the host; 0: they are not read ahead
  const KernelTuner* tuner = nullptr;  // null: kernels were not chosen by time
  int64_t adapt_every = 0;             // steps; 0: levels stay
  std::vector<Adaptation> adaptations = {};
  int64_t adaptation_bytes = 0;  // outside the arena, between steps
};

// Over the steps of a run. Zeros if there were none.
struct StepTimes {
  double median = 0, min = 0, p99 = 0;  // seconds
};
StepTimes Summarize(std::vector<double> seconds);

// The fraction of the time of all steps that was spent in library calls.
double LibraryShare(const RunReport& report);

// "sgd, lr 0.01, momentum 0.9", and the same as JSON.
std::string DescribeOptimizer(const std::string& name, const Hyperparameters& hyper);
llvm::json::Object OptimizerJson(const std::string& name, const Hyperparameters& hyper);

// The sections "Plan", "Memory" and "Performance".
std::string FormatRunReport(const RunReport& report);

// The keys are in docs/cli.md.
std::string RunReportJson(const RunReport& report);

}  // namespace act
