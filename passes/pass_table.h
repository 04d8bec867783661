// All passes, in the order in which they run. A pass is declared here, has a row here, and is
// documented in its own file (docs/adding_a_pass.md).
#pragma once

#include <cstddef>
#include <iterator>

#include "compiler/ir/verify.h"
#include "passes/pass.h"

namespace act {

// These recognize compositions that the importer leaves spelled out.
llvm::Error RecognizeAttention(Graph& graph, PassContext& context);
llvm::Error RecognizeNorms(Graph& graph, PassContext& context);
llvm::Error RecognizeActivations(Graph& graph, PassContext& context);
// These rewrite the forward graph, and make the backward pass from it.
llvm::Error CancelTransposes(Graph& graph, PassContext& context);
llvm::Error PackAttention(Graph& graph, PassContext& context);
llvm::Error SinkRelu(Graph& graph, PassContext& context);
llvm::Error SliceOperands(Graph& graph, PassContext& context);
llvm::Error SubsampleInputs(Graph& graph, PassContext& context);
llvm::Error LowerForTraining(Graph& graph, PassContext& context);
llvm::Error LowerForEvaluation(Graph& graph, PassContext& context);
llvm::Error LowerLayerNorm(Graph& graph, PassContext& context);
llvm::Error EliminateDeadCode(Graph& graph, PassContext& context);
llvm::Error EliminateCommonSubexpressions(Graph& graph, PassContext& context);
llvm::Error AddGradients(Graph& graph, PassContext& context);
llvm::Error JoinSlices(Graph& graph, PassContext& context);
// This says what is bfloat16.
llvm::Error NarrowValues(Graph& graph, PassContext& context);
llvm::Error CodeFrozen(Graph& graph, PassContext& context);
// These decide what is stored.
llvm::Error KeepExactly(Graph& graph, PassContext& context);
llvm::Error MarkLosses(Graph& graph, PassContext& context);
llvm::Error PlaceDerived(Graph& graph, PassContext& context);
llvm::Error RebuildSaved(Graph& graph, PassContext& context);
llvm::Error ShareCodes(Graph& graph, PassContext& context);
llvm::Error SplitFrequencies(Graph& graph, PassContext& context);
llvm::Error FixRanges(Graph& graph, PassContext& context);
llvm::Error Compress(Graph& graph, PassContext& context);
llvm::Error MixLevels(Graph& graph, PassContext& context);
llvm::Error ExpectVariance(Graph& graph, PassContext& context);
llvm::Error RoundProducts(Graph& graph, PassContext& context);
// These make loops, order nodes and assign memory.
llvm::Error FoldBias(Graph& graph, PassContext& context);
llvm::Error LoopOverParts(Graph& graph, PassContext& context);
llvm::Error MergeReshapes(Graph& graph, PassContext& context);
llvm::Error RepeatCheapNodes(Graph& graph, PassContext& context);
llvm::Error FuseLoops(Graph& graph, PassContext& context);
llvm::Error UpdateRows(Graph& graph, PassContext& context);
llvm::Error SwapCodes(Graph& graph, PassContext& context);
llvm::Error SplitDenominators(Graph& graph, PassContext& context);
llvm::Error SplitLabelLoops(Graph& graph, PassContext& context);
llvm::Error RepeatProducts(Graph& graph, PassContext& context);
llvm::Error ScheduleNodes(Graph& graph, PassContext& context);
llvm::Error AssignStorage(StepGraph& step, PassContext& context);
llvm::Error TileSamples(StepGraph& step, PassContext& context);

// A row runs a pass over the step's graph, a pass over the step, or nothing.
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

// A pass may run in the training step and in the evaluation step (--eval-data). Evaluation is the
// forward pass alone, with stored statistics.
struct RunsIn {
  PassRun training, evaluation;
};
constexpr RunsIn Both(PassRun pass) { return {pass, pass}; }
constexpr RunsIn Training(PassRun pass) { return {pass, {}}; }

// At L4 and L5 each choice of re-runs is compiled to the end (passes/storage/choose_reruns.h). The first pass that
// depends on this choice, and all after it, run once for each candidate. L5 also chooses which products are made twice:
// the passes from repeat-products on run once for each of these choices, with the re-runs of the best candidate.
enum class Repeats { kOnce, kPerCandidate, kPerRepeats };

struct PassEntry {
  // Used by --print-after, --time-passes and --verify-each. Those put "eval." before it in the
  // evaluation step.
  const char* name;
  RunsIn runs;
  Stage stage;  // what is true of the graph after it (compiler/ir/verify.h)
  Repeats repeats;
  bool (*wanted)(const PassContext&);  // if false, the graph stays as it is; null: always true
  // What it does, and why at this place. The hint after an unknown --print-after prints it.
  const char* why;
};

namespace pass_table {

using enum Stage;
using enum Repeats;
using Context = const PassContext&;
inline constexpr bool (*kAlways)(Context) = nullptr;
inline constexpr bool (*kInBFloat16)(Context) = [](Context c) { return c.compute == Compute::kBFloat16; };

// The passes run from top to bottom. Each row says why the pass stands where it does.
inline constexpr PassEntry kPasses[] = {
    {"recognize-attention", Both(RecognizeAttention), kImported, kOnce,
     [](Context c) { return c.policy.rules.fuses_attention; },
     "turns products, masks and softmax into one operator; runs before cancel-transposes moves transposes of "
     "heads into its attributes"},
    {"common-subexpressions", Both(EliminateCommonSubexpressions), kImported, kOnce, kAlways,
     "makes what a composition reads twice one value, which recognizing it relies on"},
    {"recognize-norms", Both(RecognizeNorms), kImported, kOnce, kAlways,
     "turns layer, RMS and group norms that are spelled out into one operator, which saves one tensor"},
    {"recognize-activations", Both(RecognizeActivations), kImported, kOnce, kAlways,
     "does the same for Gelu, Silu and similar functions"},
    {"dead-code", Both(EliminateDeadCode), kImported, kOnce, kAlways,
     "removes what only the recognized compositions read"},
    {"cancel-transposes", Both(CancelTransposes), kImported, kOnce, kAlways,
     "keeps tensors channels-last between layers; runs on the forward graph, so that the backward pass is "
     "built in that layout"},
    {"pack-attention", Both(PackAttention), kImported, kOnce, kAlways,
     "lets attention read q, k and v where one product makes them; runs after cancel-transposes, which puts "
     "heads into attributes"},
    {"sink-relu", Both(SinkRelu), kImported, kOnce,
     // If a model has its own backward pass, its gradients belong to its own order of nodes.
     [](Context c) { return !c.own_backward; },
     "moves a ReLU after a max pooling, which is then all that stands between it and the convolution"},
    {"slice-operands", Both(SliceOperands), kImported, kOnce, [](Context c) { return !c.own_backward; },
     "lets a product make only the rows that are read, as of a language model's scores without the last "
     "token"},
    {"subsample-inputs", Training(SubsampleInputs), kImported, kOnce,
     [](Context c) { return c.policy.least_peak && !c.own_backward; },
     "L5: lets strided convolutions of one element read a slice, which has none of the positions in between"},
    // Evaluation uses the stored statistics, and no dropout.
    {"lower-batch-norm",
     {LowerForTraining, LowerForEvaluation},
     kImported,
     kOnce,
     kAlways,
     "splits BatchNorm into statistics and an elementwise part, which fusion and gradients work on"},
    {"lower-layer-norm", Both(LowerLayerNorm), kImported, kOnce, kAlways,
     "splits LayerNorm likewise; runs after cancel-transposes, which decides what its rows are"},
    {"common-subexpressions", Both(EliminateCommonSubexpressions), kImported, kOnce, kAlways,
     "gives each tensor one name before anything is saved"},
    {"dead-code", Training(EliminateDeadCode), kImported, kOnce, kAlways,
     "removes what the loss does not need, so that it is not differentiated"},
    {"add-gradients", Training(AddGradients), kTraining, kOnce, kAlways,
     "adds the backward pass, and updates each parameter as soon as its gradient is complete"},
    {"common-subexpressions", Training(EliminateCommonSubexpressions), kTraining, kOnce, kAlways,
     "merges derived values with equal forward values, so that none is stored twice"},
    {"dead-code", Training(EliminateDeadCode), kTraining, kOnce, kAlways,
     "removes gradients that nothing uses"},
    {"join-slices", Training(JoinSlices), kTraining, kOnce, kAlways,
     "makes one Concat of gradients of slices that together are the whole, which are else filled with zeros "
     "and "
     "added; runs after add-gradients, which adds gradients one by one"},
    {"mark-losses", Training(MarkLosses), kTraining, kOnce, [](Context c) { return c.policy.Lossy(); },
     "marks what belongs to the loss, and what quotients, roots or logarithms read; runs before "
     "place-derived, which asks what is coded"},
    {"keep-exactly", Training(KeepExactly), kTraining, kOnce,
     [](Context c) { return c.policy.exact_part > 0; },
     "--exact: marks what the forward pass makes last; runs before place-derived, which asks what is coded"},
    {"place-derived", Training(PlaceDerived), kTraining, kOnce, kAlways,
     "runs masks and derivatives in the forward or the backward pass, so that what is saved is smaller and "
     "unbiased"},
    {"rebuild-saved", Training(RebuildSaved), kTraining, kPerCandidate, kAlways,
     "recomputes cheap functions of other stored values instead of storing them"},
    {"share-codes", Training(ShareCodes), kTraining, kPerCandidate,
     [](Context c) { return c.policy.shares_codes; },
     "reads a mask from the code of a number with the same sign; runs after rebuild-saved, which reads "
     "masks"},
    {"split-frequencies", Training(SplitFrequencies), kTraining, kPerCandidate,
     [](Context c) { return c.policy.rules.splits_frequencies; },
     "preset division: splits images into averages over blocks and the remainder, each with its own code"},
    {"fix-ranges", Training(FixRanges), kTraining, kPerCandidate,
     [](Context c) { return c.policy.range_bits > 0; },
     "preset blpa: spreads levels over a range that the normalization's parameters give"},
    {"compress", Training(Compress), kCompressed, kPerCandidate, kAlways,
     "applies the policy: which values cross to the backward pass, and in which form"},
    {"mix-levels", Training(MixLevels), kCompressed, kPerCandidate,
     [](Context c) { return c.policy.HasBudget() || c.policy.mixes_levels; },
     "chooses levels, and under a budget forms, by a prior of what each code does to the gradient"},
    {"expect-variance", Training(ExpectVariance), kCompressed, kPerCandidate,
     [](Context c) { return c.wants_variance; },
     "actc --compare: adds up what all codes do to the gradient, by the same prior; runs after mix-levels, "
     "which chooses them"},
    {"round-products", Training(RoundProducts), kCompressed, kPerCandidate,
     [](Context c) { return c.policy.rounds_products; },
     "lets products of gradients and decoded numbers round to bfloat16 where that is faster; runs after "
     "mix-levels, which says how coarse codes are"},
    {"fold-bias", Both(FoldBias), kCompressed, kPerCandidate, kAlways,
     "makes a bias an operand of its product; runs after add-gradients, whose rules know sums and products, "
     "and before fuse-loops takes sums"},
    {"loop-over-parts", Training(LoopOverParts), kCompressed, kPerCandidate, kAlways,
     "lets loops go over the parts of tensors whose samples do not come first, as their codes do; runs after "
     "compress, which makes codes, and before merge-reshapes and dead-code, which remove reshapes"},
    {"merge-reshapes", Both(MergeReshapes), kCompressed, kPerCandidate, kAlways,
     "leaves no shape between two others, because tile-samples cuts only what has samples first; runs after "
     "compress, whose recipes follow reshapes, and before dead-code, which removes those without a reader"},
    // In evaluation it removes batch statistics and whatever else only training needs.
    {"dead-code", Both(EliminateDeadCode), kCompressed, kPerCandidate, kAlways,
     "removes forward results that only readers of codes needed"},
    {"repeat-cheap-nodes", Both(RepeatCheapNodes), kCompressed, kPerCandidate, kAlways,
     "repeats decodes, masks and normalizations in each of their readers, so that they are never stored in "
     "between"},
    {"fuse-loops", Both(FuseLoops), kFused, kPerCandidate, kAlways,
     "runs elementwise chains, sums, encode and decode in one pass over memory"},
    {"code-frozen", Both(CodeFrozen), kFused, kPerCandidate,
     [](Context c) { return c.frozen_weights.has_value(); },
     "--frozen-weights: stores weights that do not train as codes; runs after fuse-loops, which leaves "
     "products with "
     "the operands that they will read, and before narrow-values, which says what is decoded to bfloat16"},
    {"narrow-values", Both(NarrowValues), kFused, kPerCandidate, kInBFloat16,
     "--compute=bf16: makes what products read and make bfloat16; runs after fuse-loops, whose loops convert "
     "what they read and store"},
    {"update-rows", Training(UpdateRows), kFused, kPerCandidate,
     // Cards have no kernel of it. It needs scratch space, which --workspace limits.
     [](Context c) { return c.updates.by_rows && c.target == TargetKind::kCpu && c.workspace_limit == 0; },
     "updates an embedding table some rows at a time, so that its gradient never exists whole; runs after "
     "fuse-loops, which makes the update's program, and before schedule"},
    {"swap-codes", Training(SwapCodes), kFused, kPerCandidate,
     [](Context c) { return c.policy.rules.swaps || c.host_limit > 0; },
     "presets that swap, and --host-limit: keeps codes in the host's memory until the backward pass; runs "
     "after fuse-loops, whose loops it leaves as they are, and before schedule, which counts the device's "
     "bytes"},
    {"split-denominators", Both(SplitDenominators), kFused, kPerCandidate,
     [](Context c) { return c.policy.tiles_samples; },
     "counts the labels of a large loss in a node of its own, so that tile-samples may run the loss in "
     "tiles; "
     "runs before schedule, which orders that node"},
    {"split-label-loops", Both(SplitLabelLoops), kFused, kPerCandidate,
     [](Context c) { return c.policy.tiles_samples; },
     "makes what labels alone determine before a large loss, which may then run in tiles; after fuse-loops, "
     "which "
     "puts it into loops with the loss"},
    {"repeat-products", Training(RepeatProducts), kFused, kPerRepeats,
     [](Context c) { return c.repeated_elements > 0; },
     "L5: makes the product before a normalization twice, so that each of both can run in tiles; runs after "
     "fuse-loops, which leaves the readers of its result in few nodes, and before schedule"},
    {"schedule", Both(ScheduleNodes), kFused, kPerRepeats, kAlways,
     "orders the remaining nodes for least memory"},
    {"assign-storage", Both(AssignStorage), kFused, kPerRepeats, kAlways,
     "decides which values share memory, and bounds workspaces; runs after schedule, which says what is read "
     "last"},
    {"tile-samples", Both(TileSamples), kFused, kPerRepeats, [](Context c) { return c.policy.tiles_samples; },
     "runs the nodes that make the peak for some samples at a time; runs after assign-storage, by which it "
     "measures the peak"},
};

consteval bool LaterPassesRunAtLeastAsOften() {
  for (size_t p = 1; p < std::size(kPasses); ++p)
    if (kPasses[p].repeats < kPasses[p - 1].repeats) return false;
  return true;
}
static_assert(LaterPassesRunAtLeastAsOften(), "a pass depends on a choice on which one before it depends");

}  // namespace pass_table

using pass_table::kPasses;

}  // namespace act
