#include "passes/pipeline/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/ir/uses.h"
#include "compiler/ir/verify.h"
#include "compiler/ops/op_table.h"
#include "passes/pass_table.h"
#include "passes/pipeline/measures.h"
#include "passes/storage/choose_reruns.h"
#include "runtime/base/error.h"
#include "runtime/base/seconds.h"
#include "runtime/plan/optimizer.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// A column of the table, and the prefix for the names of its passes.
struct StepKind {
  PassRun RunsIn::*runs;
  const char* prefix;
};
constexpr StepKind kTrainingStep{&RunsIn::training, ""}, kEvaluationStep{&RunsIn::evaluation, "eval."};

// The value stored for an edge must still exist, whatever a pass did to the graph.
llvm::Error CheckEdges(const Graph& graph, const std::vector<SavedEdge>& edges) {
  const Uses uses(graph);
  for (const SavedEdge& edge : edges)
    if (!uses.ProducerNode(edge.stored))
      return MakeError("saved activation '" + edge.name + "'", "no node makes what is stored for it");
  return llvm::Error::success();
}

// Runs a step's passes in the table's order: all of them, or only those that repeat as `only` says.
llvm::Error RunPasses(const StepKind& kind, std::optional<Repeats> only, StepGraph& step,
                      PassContext& context, const CompileOptions& options, std::vector<PassTime>* times) {
  for (const PassEntry& pass : kPasses) {
    const PassRun& run = pass.runs.*kind.runs;
    if (!run || (only && pass.repeats != *only)) continue;
    const auto start = std::chrono::steady_clock::now();
    if (!pass.wanted || pass.wanted(context)) ACT_CHECK_OK(run(step, context));
    const std::vector<ValueId> stored = StoredValues(context.marks, context.edges.size());
    for (size_t e = 0; e < stored.size(); ++e) context.edges[e].stored = stored[e];
    const double seconds = SecondsSince(start);
    const std::string name = std::string(kind.prefix) + pass.name;
    if (times) times->push_back({name, seconds, step.graph.nodes.size()});
    if (options.after_pass) options.after_pass(name, step.graph);
    if (!options.verify_each) continue;
    llvm::Error error = Verify(step.graph, pass.stage);
    if (!error) error = CheckEdges(step.graph, context.edges);
    if (error) return WithPlace(std::move(error), "internal error: after pass " + name);
  }
  return llvm::Error::success();
}

// Removes the backward pass that a model may bring along.
Graph ForwardPart(Graph graph) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.phase != Phase::kForward; });
  graph.outputs.resize(1);
  return graph;
}

// Both graphs find what lies in the arena for the whole run by its name, so
// every constant needs a name.
void NameConstants(Graph& graph, const std::string& prefix) {
  int unnamed = 0;
  for (Value& value : graph.values)
    if (value.kind == ValueKind::kConstant && value.name.empty())
      value.name = prefix + std::to_string(unnamed++);
}

// The plan that `plan` becomes with a step on which all passes have run.
Plan WithStep(const Plan& plan, UnfinishedStep& finished) {
  Plan result = plan;
  result.train = std::move(finished.step);
  result.edges = std::move(finished.context.edges);
  NameConstants(result.train.graph, "constant.train.");
  return result;
}

}  // namespace

llvm::Error CheckUpdates(const CompileOptions& options) {
  const auto& [optimizer, clip_norm, accumulate] =
      std::tie(options.optimizer, options.clip_norm, options.accumulate);
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
  if (optimizer == "none" && !options.rules.empty())
    return MakeError(options.rules.front().flag, "needs an optimizer: without one gradients are outputs");
  return llvm::Error::success();
}

llvm::Error CheckState(const std::string& optimizer, StateFormat state) {
  const UpdateRule* rule = FindUpdateRule(optimizer);
  if (state == StateFormat::kFloat32 || (rule && !rule->quantized.empty())) return llvm::Error::success();
  return MakeError("--optimizer-state", "the optimizer " + optimizer + " has state in float32 alone",
                   "use --optimizer=" + OptimizersOfQuantizedState() + ", or --optimizer-state=f32");
}

llvm::Expected<Plan> Compile(ImportResult model, const CompileOptions& options, std::vector<PassTime>* times,
                             std::optional<double>* variance, RerunCandidate* reruns) {
  ACT_CHECK_OK(CheckUpdates(options));
  ACT_CHECK_OK(CheckState(options.optimizer, options.state));
  Plan plan;
  plan.model_name = model.model_name;
  plan.level = options.level;
  plan.optimizer = options.optimizer;
  plan.hyper = options.hyper;
  plan.compute = options.compute;
  plan.clip_norm = options.clip_norm;
  plan.accumulate = options.accumulate;
  plan.seed = options.seed;
  plan.default_batch = model.fixed_batch ? model.batch : options.batch;
  plan.fixed_batch = model.fixed_batch;
  plan.workspace_limit = options.workspace_limit;
  plan.onnx_model = model.skeleton;

  PassContext context;
  context.own_backward = model.own_backward;
  context.updates = {options.optimizer, options.clip_norm,       options.accumulate,    options.grad_norm,
                     options.state,     options.quantize_tables, options.update_by_rows};
  ACT_TRY(context.updates.factors, FactorsOfParameters(options.rules, model.graph, model.trainable));
  ACT_TRY(context.policy, MakePolicy(options.level, options.bits, options.group_size, options.exact_part));
  context.compute = options.compute;
  context.frozen_weights = options.frozen_weights;
  context.workspace_limit = options.workspace_limit;
  context.target = options.target;
  context.host_limit = options.host_limit;
  context.most_swapped = options.most_swapped;
  context.policy.plugin = options.plugin;
  context.policy.batch = plan.default_batch;
  context.policy.saved_limit = options.saved_limit;
  if (!options.round_products || options.compute == Compute::kBFloat16)
    context.policy.rounds_products = false;
  Graph evaluation = ForwardPart(model.graph);
  if (options.verify_each) ACT_CHECK_OK(Verify(model.graph, Stage::kImported));
  UnfinishedStep step;
  step.step.graph = std::move(model.graph);
  step.context = std::move(context);
  MarkTrained(step.context.marks, model.trainable);
  const auto run = [&](Repeats repeats, UnfinishedStep& on, const CompileOptions& with,
                       std::vector<PassTime>* timed = nullptr) {
    return RunPasses(kTrainingStep, repeats, on.step, on.context, with, timed);
  };
  ACT_CHECK_OK(run(Repeats::kOnce, step, options, times));
  std::optional<Plan> found;
  if (options.reruns.size() == 1) {
    SetReruns(step.context, options.reruns[0]);
  } else if (step.context.policy.rerun_spacing > 0) {
    CompileOptions quiet = options;
    quiet.after_pass = nullptr;
    const auto to_repeats = [&](UnfinishedStep& attempt) {
      return run(Repeats::kPerCandidate, attempt, quiet);
    };
    const auto from_repeats = [&](UnfinishedStep& attempt) -> llvm::Expected<Plan> {
      ACT_CHECK_OK(run(Repeats::kPerRepeats, attempt, quiet));
      return WithStep(plan, attempt);
    };
    ACT_TRY(found, SearchReruns(step, options.reruns, {to_repeats, from_repeats}));
  }
  if (reruns) *reruns = RerunsOf(step.context);
  step.context.wants_variance = variance != nullptr;
  if (found && !times && !variance && !options.after_pass) {
    plan = std::move(*found);
  } else {  // nobody has seen the passes that made what was found
    found.reset();
    for (const Repeats repeats : {Repeats::kPerCandidate, Repeats::kPerRepeats})
      ACT_CHECK_OK(run(repeats, step, options, times));
    plan = WithStep(plan, step);
  }
  if (options.frozen_weights && std::none_of(plan.train.graph.values.begin(), plan.train.graph.values.end(),
                                             [](const Value& value) { return value.coded != nullptr; }))
    return MakeError("--frozen-weights",
                     "there are none: no large weight of a product, and no table, is frozen",
                     "--freeze=GLOB names those that do not train");
  if (variance) *variance = step.context.relative_variance;
  ACT_CHECK_OK(AddMeasures(evaluation));
  ACT_TRY(plan.eval, CompileEvaluation(std::move(evaluation), options, times, &plan.train.graph));
  // A step that reads a parameter after its update trains, but wrongly: nobody would notice.
  for (const StepGraph* made : {&plan.train, &plan.eval})
    if (llvm::Error error = Verify(made->graph, Stage::kFused))
      return WithPlace(std::move(error), "internal error");
  return plan;
}

llvm::Expected<StepGraph> CompileEvaluation(Graph graph, const CompileOptions& options,
                                            std::vector<PassTime>* times, const Graph* training) {
  PassContext context;
  context.compute = options.compute;
  context.training = training;
  if (training) context.frozen_weights = options.frozen_weights;
  context.workspace_limit = options.workspace_limit;
  context.target = options.target;
  ACT_TRY(const Policy policy, MakePolicy(options.level, options.bits, options.group_size));
  context.policy.tiles_samples = policy.tiles_samples;
  StepGraph step;
  step.graph = std::move(graph);
  ACT_CHECK_OK(RunPasses(kEvaluationStep, std::nullopt, step, context, options, times));
  NameConstants(step.graph, "constant.eval.");
  return step;
}

bool IsPass(const std::string& name) {
  return std::any_of(std::begin(kPasses), std::end(kPasses), [&](const PassEntry& pass) {
    const auto has = [&](const StepKind& kind) {
      return pass.runs.*kind.runs && name == std::string(kind.prefix) + pass.name;
    };
    return has(kTrainingStep) || has(kEvaluationStep);
  });
}

std::string DescribePasses() {
  std::string text;
  for (const PassEntry& pass : kPasses)
    text += (text.empty() ? "  " : "\n  ") + std::string(pass.name) +
            std::string(24 - std::min<size_t>(23, std::string(pass.name).size()), ' ') + pass.why;
  return text;
}

}  // namespace act
