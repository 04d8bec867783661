// Orders the nodes of the fused graph for least memory. passes/planning/schedule.h solves the problem, and
// passes/planning/move_blocks.h improves the order.
#include <algorithm>
#include <array>
#include <optional>

#include "compiler/ir/uses.h"
#include "compiler/policy/compared_batches.h"
#include "passes/pass_table.h"
#include "passes/planning/assign_storage.h"
#include "passes/planning/move_blocks.h"
#include "passes/planning/schedule.h"
#include "runtime/base/error.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// The sizes of tensors are compared at this batch and no other. So a plan, and its peak at any
// batch, does not depend on the batch that a report was asked for.
constexpr int64_t kScheduleBatch = 16;

ScheduleProblem ProblemOf(const Graph& graph) {
  ScheduleProblem problem;
  problem.nodes = static_cast<int32_t>(graph.nodes.size());
  problem.tensors.resize(graph.values.size());
  // A reshape shares its operand's memory. Both are one tensor, with the readers of both.
  const std::vector<ValueId> roots = AliasRoots(graph);
  const auto root = [&roots](ValueId v) { return static_cast<size_t>(roots[static_cast<size_t>(v)]); };
  const auto tensor = [&](ValueId v) -> ScheduleProblem::Tensor& { return problem.tensors[root(v)]; };
  std::vector<std::vector<int32_t>> memory_readers(graph.values.size());  // by root
  for (int32_t i = 0; i < problem.nodes; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    for (ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      if (!IsPersistent(graph.value(v).kind)) tensor(v).readers.push_back(i);
      memory_readers[root(v)].push_back(i);
    }
    for (ValueId v : node.outputs) {
      if (IsAlias(node)) continue;
      tensor(v).maker = i;
      // The host's memory does not count.
      if (RunsOf(node) != Runs::kSwapOut) tensor(v).bytes = graph.value(v).type.Bytes().At(kScheduleBatch);
    }
  }
  // By the rules of assign-storage.
  for (int32_t i = 0; i < problem.nodes; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    for (const Overwrite& overwrite : OverwritesOf(graph, node)) {
      const ValueId made = node.outputs[overwrite.result], read = node.inputs[overwrite.operand];
      const bool may = graph.value(roots[static_cast<size_t>(read)]).kind == ValueKind::kActivation &&
                       MayOverwriteAll(graph, node, overwrite.result,
                                       [&](ValueId v) { return v != kNoValue && root(v) == root(read); });
      if (may)
        problem.overwrites.push_back({i, static_cast<int32_t>(root(made)), static_cast<int32_t>(root(read))});
    }
  }
  // Dependencies that tensors do not express: a reshape runs before its readers. A node that writes
  // in place runs after all readers of the old value, in any shape, and before all readers of the
  // new one.
  const Uses uses(graph);
  for (int32_t i = 0; i < problem.nodes; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    if (IsAlias(node))
      for (size_t r : uses.Readers(node.outputs[0])) problem.before.emplace_back(i, static_cast<int32_t>(r));
    for (int32_t m : node.mutates)
      for (int32_t r : memory_readers[root(node.inputs[static_cast<size_t>(m)])])
        if (r != i) problem.before.emplace_back(std::min(r, i), std::max(r, i));
  }
  // The forward pass stays before the backward pass: its last node runs after all others of the
  // forward pass and before all of the backward pass.
  int32_t turn = -1;
  for (int32_t i = 0; i < problem.nodes; ++i)
    if (graph.nodes[static_cast<size_t>(i)].phase == Phase::kForward) turn = i;
  for (int32_t i = 0; i < problem.nodes && turn >= 0; ++i) {
    const bool forward = graph.nodes[static_cast<size_t>(i)].phase == Phase::kForward;
    if (i != turn) problem.before.emplace_back(forward ? i : turn, forward ? turn : i);
  }
  for (ValueId v : graph.inputs) tensor(v).bytes = graph.value(v).type.Bytes().At(kScheduleBatch);
  for (ValueId v : graph.outputs) tensor(v).to_end = true;
  return problem;
}

void Reorder(const Schedule& schedule, Graph& graph) {
  std::vector<Node> nodes;
  for (const int32_t n : schedule) nodes.push_back(std::move(graph.nodes[static_cast<size_t>(n)]));
  graph.nodes = std::move(nodes);
}

// The most bytes that live at one node at each batch size for which loops over samples are made.
llvm::Expected<std::vector<int64_t>> Peaks(Graph graph, const Schedule& schedule, PassContext context) {
  Reorder(schedule, graph);
  StepGraph step;
  step.graph = std::move(graph);
  ACT_CHECK_OK(AssignStorage(step, context));
  ACT_CHECK_OK(TileSamples(step, context));
  const int64_t large =
      context.policy.least_peak ? std::max(context.policy.batch, kSmallPeakBatch) : kTiledPeakBatch;
  std::vector<int64_t> peaks;
  for (const int64_t batch : {kSmallPeakBatch, large}) {
    const std::vector<int64_t> live = LiveBytes(step, batch, context.target);
    peaks.push_back(live.empty() ? 0 : *std::max_element(live.begin(), live.end()));
  }
  return peaks;
}

}  // namespace

llvm::Error ScheduleNodes(Graph& graph, PassContext& context) {
  const ScheduleProblem problem = ProblemOf(graph);
  Schedule schedule = SolveSchedule(problem);
  // Blocks pay together with loops over samples. Where each of many candidates for re-runs is compiled, moving them
  // would take longer than all else.
  const Policy& policy = context.policy;
  const bool moves_blocks = policy.tiles_samples && policy.rerun_spacing == 0 && !policy.least_peak;
  Schedule moved = moves_blocks ? MoveBlocks(problem, schedule) : schedule;
  for (const Schedule* order : {&schedule, &moved})
    if (const auto wrong = ValidateSchedule(problem, *order))
      return MakeError("internal error: schedule", *wrong);
  if (moved != schedule) {
    // The problem does not know which tensors will exist in tiles alone. So both orders are tried to the end.
    std::array<std::optional<llvm::Expected<std::vector<int64_t>>>, 2> peaks;
#pragma omp parallel for schedule(static, 1)
    for (size_t o = 0; o < peaks.size(); ++o) peaks[o] = Peaks(graph, o == 0 ? schedule : moved, context);
    llvm::Error error = llvm::joinErrors(peaks[0]->takeError(), peaks[1]->takeError());
    if (error) return error;
    const std::vector<int64_t>&before = **peaks[0], &after = **peaks[1];
    if (after != before && after[0] <= before[0] && after[1] <= before[1]) schedule = std::move(moved);
  }
  Reorder(schedule, graph);
  return llvm::Error::success();
}

}  // namespace act
