// Compiles an imported model to a plan by running the passes in order.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/autodiff/parameter_rules.h"
#include "compiler/ir/imported_model.h"
#include "compiler/ops/update.h"
#include "include/act/codec_plugin.h"
#include "passes/storage/choose_reruns.h"
#include "runtime/plan/plan.h"

namespace act {

struct CompileOptions {
  std::string level = "L0";
  std::string optimizer = "sgd";              // one of runtime/plan/optimizer.h, or none
  std::map<std::string, double> hyper;        // by flag: its hyperparameters that are not the defaults
  std::vector<ParameterRule> rules;           // --no-decay, --lr-factor
  double clip_norm = 0;                       // bound of the norm of all gradients together; 0: no bound
  StateFormat state = StateFormat::kFloat32;  // --optimizer-state
  bool quantize_tables = false;               // 8 bits for embedding tables, too
  bool update_by_rows = true;  // their gradients need not exist whole (passes/loops/update_rows.cc)
  bool grad_norm = false;      // the step computes that norm; where gradients are clipped it does anyway
  int64_t accumulate = 1;      // micro-batches of an update
  double bits = 0;             // --bits; 0: the level's own
  double exact_part = 0;       // --exact
  int64_t group_size = kDefaultGroupSize;
  // --saved-limit: the bytes of all saved activations at `batch`. 0: no limit.
  int64_t saved_limit = 0;
  Compute compute = Compute::kFloat32;       // --compute
  std::optional<Codec> frozen_weights = {};  // --frozen-weights: their code; nothing: float32
  bool round_products = true;                // --fpmath: kernels may round operands to bfloat16
  const act_codec* plugin = nullptr;         // --plugin; null: the level's own codecs
  int64_t batch = 1;
  int64_t workspace_limit = 0;           // bytes a node; 0: no limit
  TargetKind target = TargetKind::kCpu;  // whose peak decisions lower
  // What earlier searches for re-runs chose at this level. One: it is taken. Several: the search tries no
  // others. None: it tries all.
  std::vector<RerunCandidate> reruns = {};
  // Bytes of codes at `batch`, and the number of codes, that may wait in the host's memory. 0 bytes: those of the
  // level's rules.
  int64_t host_limit = 0, most_swapped = std::numeric_limits<int64_t>::max();
  uint64_t seed = 0;
  bool verify_each = false;
  // Called after each pass with its name and the graph (--print-after). May be empty.
  std::function<void(const std::string& pass, const Graph& graph)> after_pass;
};

// The seconds that a pass took, and the number of nodes in the graph after it (--time-passes).
struct PassTime {
  std::string pass;
  double seconds = 0;
  size_t nodes = 0;
};

// Fails if these options are wrong. The error names the flag.
llvm::Error CheckUpdates(const CompileOptions& options);
llvm::Error CheckState(const std::string& optimizer, StateFormat state);

// An error names the pass whose result a verifier refuses, the node that cannot be differentiated,
// or the option. `variance`, if not null, becomes what codes are expected to add to the gradient, as
// a part of its squared norm; nothing where that is not known. `reruns`, if not null, becomes the
// re-runs of the plan.
llvm::Expected<Plan> Compile(ImportResult model, const CompileOptions& options,
                             std::vector<PassTime>* times = nullptr,
                             std::optional<double>* variance = nullptr, RerunCandidate* reruns = nullptr);

// Compiles the forward pass alone, with stored statistics and without dropout.
// The outputs are the graph's. `training`, if not null, is the compiled training step, whose parameters it shares.
llvm::Expected<StepGraph> CompileEvaluation(Graph graph, const CompileOptions& options,
                                            std::vector<PassTime>* times = nullptr,
                                            const Graph* training = nullptr);

// Is there a pass of this name? "eval." begins those of the evaluation.
bool IsPass(const std::string& name);

// One line for each pass, in order: "name  what it does".
std::string DescribePasses();

}  // namespace act
