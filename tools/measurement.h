// What actrun does instead of training: --variance and --calibrate.
#pragma once

#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Error.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"
#include "runtime/train/checkpoint.h"
#include "tools/flags.h"

namespace act {

// A plan that is ready to run, at the point from which its training continues.
struct Opened {
  std::unique_ptr<Executor> executor;
  TrainPosition position;
  std::unique_ptr<BatchSource> data, eval_data;  // eval_data: null if there is none
  int64_t staging_bytes = 0;                     // in which the next batch is read; 0: it is not read ahead
};
struct OpenOptions {
  int64_t beside_bytes = 0;  // of the host's memory, that other things will take
  bool load = true;          // the checkpoint of the command line; if not, the plan's own start
};
// Opens a plan as the command line says. The plan must outlive the result.
using OpenPlan = std::function<llvm::Expected<Opened>(const Plan& plan, const OpenOptions& options)>;

class MeasurementFlags {
 public:
  // Whether one of the two flags is given. Then nothing is trained.
  bool Requested() const { return variance_ > 0 || calibrate_ > 0; }
  // What is wrong with the flags by themselves, or "".
  std::string CheckUsage() const;
  // Measures, prints, and writes --save-plan and (if not empty) `report_json`. `reference`: null, or the plan of
  // --variance-reference. `data_set`: the data has several mini-batches. A signal sets `stop`.
  llvm::Error Run(const Plan& plan, const Plan* reference, const OpenPlan& open, bool data_set,
                  const std::string& report_json, const volatile std::sig_atomic_t* stop) const;

  llvm::cl::OptionCategory& category() { return category_; }
  const std::string& save_plan() const { return save_plan_; }
  const std::string& reference() const { return reference_; }

 private:
  llvm::Error MeasureVariance(const Plan& plan, const Plan* reference, const OpenPlan& open, bool data_set,
                              const std::string& report_json, const volatile std::sig_atomic_t* stop) const;
  llvm::Error CalibratePlan(const Plan& plan, const OpenPlan& open, const std::string& report_json,
                            const volatile std::sig_atomic_t* stop) const;

  llvm::cl::OptionCategory category_{"Measurement", "Instead of training."};
  WholeNumberFlag variance_{
      "variance", llvm::cl::value_desc("R"), llvm::cl::cat(category_),
      llvm::cl::desc("Measure variance and bias that codes add to the gradient, from R gradients of each\n"
                     "mini-batch")};
  WholeNumberFlag batches_{
      "variance-batches", llvm::cl::value_desc("M"), llvm::cl::cat(category_),
      llvm::cl::desc("Number of mini-batches of --variance (default: 4 with --data, else 1)")};
  llvm::cl::opt<std::string> edges_{
      "variance-edges", llvm::cl::value_desc("GLOB"), llvm::cl::init("*"), llvm::cl::cat(category_),
      llvm::cl::desc("Saved activations that are measured alone as well (default: all; none: '')")};
  llvm::cl::opt<std::string> reference_{
      "variance-reference", llvm::cl::value_desc("PLAN"), llvm::cl::cat(category_),
      llvm::cl::desc("Tell variance and bias against the gradient of this plan, without its codes, as well")};
  WholeNumberFlag calibrate_{
      "calibrate", llvm::cl::value_desc("K"), llvm::cl::cat(category_),
      llvm::cl::desc(
          "Measure each code's share of the gradient's variance on K mini-batches (--variance=R: R\n"
          "gradients of each, default 4), and move bits to the codes that matter most; needs\n"
          "--save-plan")};
  llvm::cl::opt<std::string> save_plan_{"save-plan", llvm::cl::desc("Write the plan that --calibrate makes"),
                                        llvm::cl::value_desc("FILE"), llvm::cl::cat(category_)};
  NumberFlag bits_{
      "bits", llvm::cl::value_desc("AVG"), llvm::cl::cat(category_),
      llvm::cl::desc("Average bits an element of the codes that --calibrate chooses, their scales included\n"
                     "(default: as many bytes as the plan takes)")};
};

}  // namespace act
