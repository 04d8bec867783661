// All passes, in the order in which they run. A pass is declared here, has a row here, and is
// documented in its own file (docs/adding_a_pass.md).
#pragma once

#include "compiler/ir/verify.h"
#include "passes/pass.h"

namespace act {

// What imports leave to recognize.
llvm::Error RecognizeAttention(Graph& graph, PassContext& context);
llvm::Error RecognizeNorms(Graph& graph, PassContext& context);
llvm::Error RecognizeActivations(Graph& graph, PassContext& context);
// The forward graph, and the backward pass from it.
llvm::Error CancelTransposes(Graph& graph, PassContext& context);
llvm::Error PackAttention(Graph& graph, PassContext& context);
llvm::Error SinkRelu(Graph& graph, PassContext& context);
llvm::Error LowerForTraining(Graph& graph, PassContext& context);
llvm::Error LowerForEvaluation(Graph& graph, PassContext& context);
llvm::Error LowerLayerNorm(Graph& graph, PassContext& context);
llvm::Error EliminateDeadCode(Graph& graph, PassContext& context);
llvm::Error EliminateCommonSubexpressions(Graph& graph, PassContext& context);
llvm::Error AddGradients(Graph& graph, PassContext& context);
// What is stored.
llvm::Error PlaceDerived(Graph& graph, PassContext& context);
llvm::Error RebuildSaved(Graph& graph, PassContext& context);
llvm::Error ShareCodes(Graph& graph, PassContext& context);
llvm::Error SplitFrequencies(Graph& graph, PassContext& context);
llvm::Error FixRanges(Graph& graph, PassContext& context);
llvm::Error Compress(Graph& graph, PassContext& context);
llvm::Error MixLevels(Graph& graph, PassContext& context);
llvm::Error RoundProducts(Graph& graph, PassContext& context);
// Loops, order and memory.
llvm::Error FoldBias(Graph& graph, PassContext& context);
llvm::Error RepeatCheapNodes(Graph& graph, PassContext& context);
llvm::Error FuseLoops(Graph& graph, PassContext& context);
llvm::Error SwapCodes(Graph& graph, PassContext& context);
llvm::Error ScheduleNodes(Graph& graph, PassContext& context);
llvm::Error AssignStorage(StepGraph& step, PassContext& context);
llvm::Error TileSamples(StepGraph& step, PassContext& context);

// What a row runs: a pass over the step's graph, one over the step, or nothing.
class PassRun {
 public:
  constexpr PassRun() = default;
  constexpr PassRun(PassFunction of_graph) : of_graph_(of_graph) {}
  constexpr PassRun(StepPassFunction of_step) : of_step_(of_step) {}

  constexpr explicit operator bool() const { return of_graph_ || of_step_; }
  llvm::Error operator()(StepGraph& step, PassContext& context) const {
    return of_graph_ ? of_graph_(step.graph, context) : of_step_(step, context);
  }

 private:
  PassFunction of_graph_ = nullptr;
  StepPassFunction of_step_ = nullptr;
};

// The step of training, and that of evaluation: the forward pass alone, with stored statistics
// (--eval-data).
struct RunsIn {
  PassRun training, evaluation;
};
constexpr RunsIn Both(PassRun pass) { return {pass, pass}; }
constexpr RunsIn Training(PassRun pass) { return {pass, {}}; }

// At L4 each choice of what runs again is compiled to its end (passes/storage/choose_reruns.h): the
// passes from the first that such a choice changes run once for each candidate, and once more for
// the best.
enum class Repeats { kOnce, kPerCandidate };

struct PassEntry {
  const char* name;  // for --print-after, --time-passes and --verify-each; "eval." stands before it there
  RunsIn runs;
  Stage stage;  // what holds of the graph after it (compiler/ir/verify.h)
  Repeats repeats;
  bool (*wanted)(const PassContext&);  // where it is false the graph stays as it is; null: always
  const char* why;                     // what it does there, and why there: --help prints it
};

namespace pass_table {

using enum Stage;
using enum Repeats;
using Context = const PassContext&;
inline constexpr bool (*kAlways)(Context) = nullptr;

// Read it top to bottom; every line says why it stands where it does.
inline constexpr PassEntry kPasses[] = {
    {"recognize-attention", Both(RecognizeAttention), kImported, kOnce,
     [](Context c) { return c.policy.rules.fuses_attention; },
     "products, masks and softmax as one operator; before transposes of heads move into its attributes"},
    {"common-subexpressions", Both(EliminateCommonSubexpressions), kImported, kOnce, kAlways,
     "what a composition reads twice is one value: what recognizing it relies on"},
    {"recognize-norms", Both(RecognizeNorms), kImported, kOnce, kAlways,
     "layer, RMS and group norms that are spelled out: one operator, one tensor saved"},
    {"recognize-activations", Both(RecognizeActivations), kImported, kOnce, kAlways,
     "Gelu, Silu and their kin likewise"},
    {"dead-code", Both(EliminateDeadCode), kImported, kOnce, kAlways, "what only the compositions read"},
    {"cancel-transposes", Both(CancelTransposes), kImported, kOnce, kAlways,
     "channels-last between layers; on the forward graph, so that the backward pass is built in that layout"},
    {"pack-attention", Both(PackAttention), kImported, kOnce, kAlways,
     "q, k and v read where one product makes them; behind cancel-transposes, which puts heads into "
     "attributes"},
    {"sink-relu", Both(SinkRelu), kImported, kOnce,
     // The gradients of a model's own backward pass belong to the order that it has.
     [](Context c) { return !c.own_backward; },
     "behind a max pooling, which then is all that stands between it and the convolution"},
    // In evaluation with the stored statistics, and without dropout.
    {"lower-batch-norm",
     {LowerForTraining, LowerForEvaluation},
     kImported,
     kOnce,
     kAlways,
     "BatchNorm as statistics and an elementwise part: what fusion and gradients work on"},
    {"lower-layer-norm", Both(LowerLayerNorm), kImported, kOnce, kAlways,
     "LayerNorm likewise; behind cancel-transposes, which decides what its rows are"},
    {"common-subexpressions", Both(EliminateCommonSubexpressions), kImported, kOnce, kAlways,
     "one tensor under one name before anything is saved"},
    {"dead-code", Training(EliminateDeadCode), kImported, kOnce, kAlways,
     "what the loss does not need is not differentiated"},
    {"add-gradients", Training(AddGradients), kTraining, kOnce, kAlways,
     "the backward pass, and each parameter's update as soon as its gradient is complete"},
    {"common-subexpressions", Training(EliminateCommonSubexpressions), kTraining, kOnce, kAlways,
     "derived values that equal forward values: never stored twice"},
    {"dead-code", Training(EliminateDeadCode), kTraining, kOnce, kAlways, "gradients that nothing uses"},
    {"place-derived", Training(PlaceDerived), kTraining, kOnce, kAlways,
     "masks and derivatives on the side where what crosses to the backward pass is smaller and unbiased"},
    {"rebuild-saved", Training(RebuildSaved), kTraining, kPerCandidate, kAlways,
     "what is a cheap function of other stored values is computed from them again, not stored"},
    {"share-codes", Training(ShareCodes), kTraining, kPerCandidate,
     [](Context c) { return c.policy.shares_codes; },
     "a mask is read of the code of a number with its sign; behind rebuild-saved, which reads masks"},
    {"split-frequencies", Training(SplitFrequencies), kTraining, kPerCandidate,
     [](Context c) { return c.policy.rules.splits_frequencies; },
     "preset division: images become averages over blocks and what is left, each with its own code"},
    {"fix-ranges", Training(FixRanges), kTraining, kPerCandidate,
     [](Context c) { return c.policy.range_bits > 0; },
     "preset blpa: levels over a range that the normalization's parameters give"},
    {"compress", Training(Compress), kCompressed, kPerCandidate, kAlways,
     "the policy: what crosses to the backward pass, and in which form"},
    {"mix-levels", Training(MixLevels), kCompressed, kPerCandidate,
     [](Context c) { return c.policy.HasBudget() || c.policy.mixes_levels; },
     "levels, and under a budget forms, by a prior of what each code does to the gradient"},
    {"round-products", Training(RoundProducts), kCompressed, kPerCandidate,
     [](Context c) { return c.policy.rounds_products; },
     "gradients times decoded numbers, in bfloat16 where that is faster; behind mix-levels, which says how "
     "coarse codes are"},
    {"fold-bias", Both(FoldBias), kCompressed, kPerCandidate, kAlways,
     "what is added to a product; behind the gradients, which know sums and products, before loops take "
     "sums"},
    // In evaluation: batch statistics and what else only training needs.
    {"dead-code", Both(EliminateDeadCode), kCompressed, kPerCandidate, kAlways,
     "forward results that only readers of codes needed"},
    {"repeat-cheap-nodes", Both(RepeatCheapNodes), kCompressed, kPerCandidate, kAlways,
     "decodes, masks, normalizations in each of their readers: never stored in between"},
    {"fuse-loops", Both(FuseLoops), kFused, kPerCandidate, kAlways,
     "elementwise chains, sums, encode and decode in one pass over memory"},
    {"swap-codes", Training(SwapCodes), kFused, kPerCandidate, [](Context c) { return c.policy.rules.swaps; },
     "presets that swap: codes wait for the backward pass in the host's memory; behind fuse-loops, whose "
     "loops they leave as they are, and before the schedule, which counts the device's bytes"},
    {"schedule", Both(ScheduleNodes), kFused, kPerCandidate, kAlways,
     "the order of what is left, for least memory"},
    {"assign-storage", Both(AssignStorage), kFused, kPerCandidate, kAlways,
     "values that may share memory, and the bounds of workspaces; after the schedule, which says what is "
     "read "
     "last"},
    {"tile-samples", Training(TileSamples), kFused, kPerCandidate,
     [](Context c) { return c.policy.tiles_samples; },
     "what makes the peak runs for some samples at a time; after assign-storage, by which it measures the "
     "peak"},
};

consteval bool CandidatesEndTheTable() {
  bool repeated = false;
  for (const PassEntry& pass : kPasses) {
    if (repeated && pass.repeats == kOnce) return false;
    repeated |= pass.repeats == kPerCandidate;
  }
  return repeated;
}
static_assert(CandidatesEndTheTable(), "a pass that runs once stands after one that runs once a candidate");

}  // namespace pass_table

using pass_table::kPasses;

}  // namespace act
