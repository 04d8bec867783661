// From an imported model to a plan: the passes in order.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/imported_model.h"
#include "include/act/codec_plugin.h"
#include "runtime/plan/plan.h"

namespace act {

struct CompileOptions {
  std::string level = "L0";
  std::string optimizer = "sgd";        // one of runtime/plan/optimizer.h, or none
  std::map<std::string, double> hyper;  // its hyperparameters, by flag, where they are not the defaults
  double clip_norm = 0;                 // largest norm of all gradients together; 0: no bound
  int64_t accumulate = 1;               // micro-batches of an update
  double bits = 0;                      // --bits; 0: the level's own
  int64_t group_size = kDefaultGroupSize;
  int64_t saved_limit = 0;            // --saved-limit: bytes of saved activations at `batch`; 0: no limit
  bool round_products = true;         // --fpmath: false, where no kernel may round operands to bfloat16
  const act_codec* plugin = nullptr;  // --plugin; null: the level's own codecs
  int64_t batch = 1;
  int64_t workspace_limit = 0;  // bytes a node; 0: no limit
  uint64_t seed = 0;
  bool verify_each = false;
  // Called behind each pass with its name and the graph (--print-after); may be empty.
  std::function<void(const std::string& pass, const Graph& graph)> after_pass;
};

// Seconds of each pass, and the nodes that were left behind it (--time-passes).
struct PassTime {
  std::string pass;
  double seconds = 0;
  size_t nodes = 0;
};

// What is wrong with these options, told by the flag.
llvm::Error CheckUpdates(const std::string& optimizer, double clip_norm, int64_t accumulate);

// Errors name the pass whose result a verifier refuses, the node that cannot be differentiated, or the
// option.
llvm::Expected<Plan> Compile(ImportResult model, const CompileOptions& options,
                             std::vector<PassTime>* times = nullptr);

// The forward pass alone: stored statistics, no dropout. The outputs are the graph's.
llvm::Expected<StepGraph> CompileEvaluation(Graph graph, const CompileOptions& options,
                                            std::vector<PassTime>* times = nullptr);

// One line a pass: "name  what it does", in order (for --help).
std::string DescribePasses();

}  // namespace act
