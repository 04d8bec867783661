#include "passes/pipeline/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "compiler/ir/verify.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/planning/assign_storage.h"
#include "passes/planning/tile_samples.h"
#include "passes/storage/choose_reruns.h"
#include "passes/storage/recipes.h"
#include "runtime/base/error.h"
#include "runtime/plan/optimizer.h"

namespace act {
namespace {

struct PassEntry {
  const char* name;
  PassFunction run;
  Stage stage;  // what holds of the graph behind it
  const char* description;
};

// The training step. Read it top to bottom; every line says why it stands where it does.
constexpr PassEntry kTrainingPasses[] = {
    {"recognize-attention", RecognizeAttention, Stage::kImported,
     "products, masks and softmax as one operator; before transposes of heads move into its attributes"},
    {"common-subexpressions", EliminateCommonSubexpressions, Stage::kImported,
     "what a composition reads twice is one value: what recognizing it relies on"},
    {"recognize-norms", RecognizeNorms, Stage::kImported,
     "layer, RMS and group norms that are spelled out: one operator, one tensor saved"},
    {"recognize-activations", RecognizeActivations, Stage::kImported, "Gelu, Silu and their kin likewise"},
    {"dead-code", EliminateDeadCode, Stage::kImported, "what only the compositions read"},
    {"cancel-transposes", CancelTransposes, Stage::kImported,
     "channels-last between layers; on the forward graph, so that the backward pass is built in that layout"},
    {"pack-attention", PackAttention, Stage::kImported,
     "q, k and v read where one product makes them; behind cancel-transposes, which puts heads into "
     "attributes"},
    {"sink-relu", SinkRelu, Stage::kImported,
     "behind a max pooling, which then is all that stands between it and the convolution"},
    {"lower-batch-norm", LowerForTraining, Stage::kImported,
     "BatchNorm as statistics and an elementwise part: what fusion and gradients work on"},
    {"lower-layer-norm", LowerLayerNorm, Stage::kImported,
     "LayerNorm likewise; behind cancel-transposes, which decides what its rows are"},
    {"common-subexpressions", EliminateCommonSubexpressions, Stage::kImported,
     "one tensor under one name before anything is saved"},
    {"dead-code", EliminateDeadCode, Stage::kImported, "what the loss does not need is not differentiated"},
    {"add-gradients", AddGradients, Stage::kTraining,
     "the backward pass, and each parameter's update as soon as its gradient is complete"},
    {"common-subexpressions", EliminateCommonSubexpressions, Stage::kTraining,
     "derived values that equal forward values: never stored twice"},
    {"dead-code", EliminateDeadCode, Stage::kTraining, "gradients that nothing uses"},
    {"place-derived", PlaceDerived, Stage::kTraining,
     "masks and derivatives on the side where what crosses to the backward pass is smaller and unbiased"},
    {"rebuild-saved", RebuildSaved, Stage::kTraining,
     "what is a cheap function of other stored values is computed from them again, not stored"},
    {"share-codes", ShareCodes, Stage::kTraining,
     "a mask is read of the code of a number with its sign; behind rebuild-saved, which reads masks"},
    {"split-frequencies", SplitFrequencies, Stage::kTraining,
     "preset division: images become averages over blocks and what is left, each with its own code"},
    {"fix-ranges", FixRanges, Stage::kTraining,
     "preset blpa: levels over a range that the normalization's parameters give"},
    {"compress", Compress, Stage::kCompressed,
     "the policy: what crosses to the backward pass, and in which form"},
    {"mix-levels", MixLevels, Stage::kCompressed,
     "levels, and under a budget forms, by a prior of what each code does to the gradient"},
    {"round-products", RoundProducts, Stage::kCompressed,
     "gradients times decoded numbers, in bfloat16 where that is faster; behind mix-levels, which says how "
     "coarse codes are"},
    {"fold-bias", FoldBias, Stage::kCompressed,
     "what is added to a product; behind the gradients, which know sums and products, before loops take "
     "sums"},
    {"dead-code", EliminateDeadCode, Stage::kCompressed, "forward results that only readers of codes needed"},
    {"repeat-cheap-nodes", RepeatCheapNodes, Stage::kCompressed,
     "decodes, masks, normalizations in each of their readers: never stored in between"},
    {"fuse-loops", FuseLoops, Stage::kFused,
     "elementwise chains, sums, encode and decode in one pass over memory"},
    {"swap-codes", SwapCodes, Stage::kFused,
     "presets that swap: codes wait for the backward pass in the host's memory; behind fuse-loops, whose "
     "loops "
     "they leave as they are, and before the schedule, which counts the device's bytes"},
    {"schedule", ScheduleNodes, Stage::kFused, "the order of what is left, for least memory"},
};

// The forward pass alone, with stored statistics, for --eval-data.
constexpr PassEntry kEvaluationPasses[] = {
    {"recognize-attention", RecognizeAttention, Stage::kImported, "as in training"},
    {"common-subexpressions", EliminateCommonSubexpressions, Stage::kImported, "as in training"},
    {"recognize-norms", RecognizeNorms, Stage::kImported, "as in training"},
    {"recognize-activations", RecognizeActivations, Stage::kImported, "as in training"},
    {"dead-code", EliminateDeadCode, Stage::kImported, "as in training"},
    {"cancel-transposes", CancelTransposes, Stage::kImported, "channels-last between layers"},
    {"pack-attention", PackAttention, Stage::kImported, "as in training"},
    {"sink-relu", SinkRelu, Stage::kImported, "as in training"},
    {"lower-batch-norm", LowerForEvaluation, Stage::kImported, "stored statistics, no dropout"},
    {"lower-layer-norm", LowerLayerNorm, Stage::kImported, "as in training"},
    {"common-subexpressions", EliminateCommonSubexpressions, Stage::kImported, "as in training"},
    {"fold-bias", FoldBias, Stage::kImported, "as in training"},
    {"dead-code", EliminateDeadCode, Stage::kImported, "batch statistics and what else only training needs"},
    {"repeat-cheap-nodes", RepeatCheapNodes, Stage::kImported, "as in training"},
    {"fuse-loops", FuseLoops, Stage::kFused, "as in training"},
    {"schedule", ScheduleNodes, Stage::kFused, "as in training"},
};

llvm::Error RunPasses(std::span<const PassEntry> passes, const char* prefix, Graph& graph,
                      PassContext& context, const CompileOptions& options, std::vector<PassTime>* times) {
  for (const PassEntry& pass : passes) {
    const auto start = std::chrono::steady_clock::now();
    if (llvm::Error error = pass.run(graph, context)) return error;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const std::string name = std::string(prefix) + pass.name;
    if (times) times->push_back({name, seconds.count(), graph.nodes.size()});
    if (options.after_pass) options.after_pass(name, graph);
    if (options.verify_each)
      if (llvm::Error error = Verify(graph, pass.stage))
        return WithPlace(std::move(error), "internal error: after pass " + name);
  }
  return llvm::Error::success();
}

// Adds the number of correct predictions to the outputs, where the loss is a cross entropy.
llvm::Error AddCountCorrect(Graph& graph, ValueId loss) {
  for (const Node& node : graph.nodes) {
    if (!OpOf(node).loss || node.outputs[0] != loss) continue;
    GraphBuilder builder(graph);
    ACT_TRY(const ValueId count, builder.Add1("CountCorrect", {node.inputs[0], node.inputs[1]},
                                              Attributes(node.attrs), "correct"));
    graph.outputs.push_back(count);
    break;
  }
  return llvm::Error::success();
}

// Without the backward pass that a model may bring along.
Graph ForwardPart(Graph graph) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.phase != Phase::kForward; });
  graph.outputs.resize(1);
  return graph;
}

// What lies in the arena for the whole run is found by name in both graphs, so every constant needs one.
void NameConstants(Graph& graph, const std::string& prefix) {
  int unnamed = 0;
  for (Value& value : graph.values)
    if (value.kind == ValueKind::kConstant && value.name.empty())
      value.name = prefix + std::to_string(unnamed++);
}

// The passes up to the backward pass, and those that decide what is stored and finish the step.
std::pair<std::span<const PassEntry>, std::span<const PassEntry>> SplitAtStorage() {
  const std::span<const PassEntry> all(kTrainingPasses);
  const auto at =
      std::find_if(all.begin(), all.end(), [](const PassEntry& pass) { return pass.run == RebuildSaved; });
  const auto count = static_cast<size_t>(at - all.begin());
  return {all.first(count), all.subspan(count)};
}

void FinishStep(Graph graph, PassContext& context, const CompileOptions& options, Plan& plan) {
  std::vector<ValueId*> follow;
  for (SavedEdge& edge : context.edges) follow.push_back(&edge.stored);
  plan.train = AssignStorage(std::move(graph), options.workspace_limit, follow);
  if (context.policy.tiles_samples) {
    TileSamples(plan.train);
    if (options.after_pass) options.after_pass("tile-samples", plan.train.graph);
  }
  plan.edges = std::move(context.edges);
  NameConstants(plan.train.graph, "constant.train.");
}

void SetReruns(PassContext& context, const RerunCandidate& choice) {
  context.policy.rerun_spacing = choice.spacing;
  context.rerun_elements = choice.elements;
}

// The step with a candidate's re-runs, and how it is laid out. Where it exceeds the limit of what is stored,
// saved_bytes is the least possible.
llvm::Error TryReruns(RerunCandidate& candidate, const Graph& graph, const PassContext& context,
                      const CompileOptions& options, const Plan& plan) {
  CompileOptions quiet = options;
  quiet.after_pass = nullptr;
  Graph copy = graph;
  PassContext attempt = context;
  SetReruns(attempt, candidate);
  llvm::Error error = RunPasses(SplitAtStorage().second, "", copy, attempt, quiet, nullptr);
  if (error) {
    candidate.saved_bytes = static_cast<double>(attempt.least_saved_bytes);
    return error;
  }
  Plan tried = plan;
  FinishStep(std::move(copy), attempt, quiet, tried);
  return MeasureReruns(candidate, tried, attempt);
}

// Decides what is run again. Errors: all candidates exceed the limit; that of the one that stores least.
llvm::Expected<RerunCandidate> SearchReruns(const Graph& graph, const PassContext& context,
                                            const CompileOptions& options, const Plan& plan) {
  const bool limited = context.policy.saved_limit > 0;
  std::vector<RerunCandidate> candidates;
  double least = std::numeric_limits<double>::infinity();
  llvm::Error refused = llvm::Error::success();
  for (RerunCandidate& candidate : RerunChoices(graph, context)) {
    llvm::Error error = TryReruns(candidate, graph, context, options, plan);
    if (!error) {
      candidates.push_back(candidate);
    } else if (!limited || candidate.saved_bytes < least) {
      llvm::consumeError(std::exchange(refused, std::move(error)));
      least = candidate.saved_bytes;
      if (!limited) return refused;
    } else {
      llvm::consumeError(std::move(error));
    }
  }
  if (candidates.empty()) return refused;
  llvm::consumeError(std::move(refused));
  return candidates[ChooseReruns(candidates, limited)];
}

}  // namespace

llvm::Error CheckUpdates(const std::string& optimizer, double clip_norm, int64_t accumulate) {
  if (optimizer != "none" && !FindOptimizer(optimizer))
    return MakeError("--optimizer", "no such optimizer: '" + optimizer + "'",
                     "it is one of " + OptimizerNames() + ", or none");
  if (!std::isfinite(clip_norm) || clip_norm < 0)
    return MakeError("--clip-norm", "expected a number that is not negative");
  if (accumulate < 1 || accumulate > kMostMicroBatches)
    return MakeError("--accumulate", "expected 1 to " + std::to_string(kMostMicroBatches) + " micro-batches");
  if (optimizer == "none" && (clip_norm > 0 || accumulate > 1))
    return MakeError(clip_norm > 0 ? "--clip-norm" : "--accumulate",
                     "needs an optimizer: without one gradients are outputs");
  return llvm::Error::success();
}

llvm::Expected<Plan> Compile(ImportResult model, const CompileOptions& options,
                             std::vector<PassTime>* times) {
  ACT_CHECK_OK(CheckUpdates(options.optimizer, options.clip_norm, options.accumulate));
  Plan plan;
  plan.model_name = model.model_name;
  plan.level = options.level;
  plan.optimizer = options.optimizer;
  plan.hyper = options.hyper;
  plan.clip_norm = options.clip_norm;
  plan.accumulate = options.accumulate;
  plan.seed = options.seed;
  plan.default_batch = model.fixed_batch ? model.batch : options.batch;
  plan.fixed_batch = model.fixed_batch;
  plan.workspace_limit = options.workspace_limit;
  plan.onnx_model = model.skeleton;

  PassContext context;
  context.loss = model.loss;
  context.trainable = model.trainable;
  context.own_backward = model.own_backward;
  context.updates = {options.optimizer, options.clip_norm, options.accumulate};
  ACT_TRY(context.policy, MakePolicy(options.level, options.bits, options.group_size));
  context.policy.plugin = options.plugin;
  context.policy.batch = plan.default_batch;
  context.policy.saved_limit = options.saved_limit;
  if (!options.round_products) context.policy.rounds_products = false;
  Graph evaluation = ForwardPart(model.graph);
  if (options.verify_each) ACT_CHECK_OK(Verify(model.graph, Stage::kImported));
  const auto [differentiate, store] = SplitAtStorage();
  ACT_CHECK_OK(RunPasses(differentiate, "", model.graph, context, options, times));
  if (context.policy.rerun_spacing > 0) {
    ACT_TRY(const RerunCandidate best, SearchReruns(model.graph, context, options, plan));
    SetReruns(context, best);
  }
  ACT_CHECK_OK(RunPasses(store, "", model.graph, context, options, times));
  FinishStep(std::move(model.graph), context, options, plan);
  ACT_CHECK_OK(AddCountCorrect(evaluation, model.loss));
  ACT_TRY(plan.eval, CompileEvaluation(std::move(evaluation), options, times));
  return plan;
}

llvm::Expected<StepGraph> CompileEvaluation(Graph graph, const CompileOptions& options,
                                            std::vector<PassTime>* times) {
  PassContext context;
  ACT_CHECK_OK(RunPasses(kEvaluationPasses, "eval.", graph, context, options, times));
  StepGraph step = AssignStorage(std::move(graph), options.workspace_limit);
  NameConstants(step.graph, "constant.eval.");
  return step;
}

std::string DescribePasses() {
  std::string text;
  for (const PassEntry& pass : kTrainingPasses)
    text += "  " + std::string(pass.name) +
            std::string(24 - std::min<size_t>(23, std::string(pass.name).size()), ' ') + pass.description +
            "\n";
  return text;
}

}  // namespace act
