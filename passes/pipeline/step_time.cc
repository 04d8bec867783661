#include "passes/pipeline/step_time.h"

#include <algorithm>

#include "compiler/ops/op_table.h"
#include "runtime/plan/recurrent_signature.h"
#include "runtime/plan/row_update.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// The arithmetic that a loop does, as a part of what a product does in the same time. Assumed, and not measured.
constexpr double kLoopPart = .1;
// An element that is encoded or decoded takes as long as so many bytes.
constexpr double kBytesOfCodedElement = 2;

double At(const Dim& dim, int64_t batch) { return static_cast<double>(dim.At(batch)); }

bool IsProduct(const OpDef& op, const Node& node) {
  return op.product != Product::kNone || FindRecurrentSignature(node.op);
}

// Elements that the node's loop decodes and encodes. Those of masks take next to no time.
double CodedElements(const Node& node, int64_t batch) {
  Dim elements(1);
  for (const Dim& d : node.program.space) elements = elements * d;
  int64_t codes = 0;
  for (const ProgramInput& input : node.program.inputs) codes += input.codec.HasLevels();
  for (const ProgramOutput& output : node.program.outputs) codes += output.codec.HasLevels();
  return At(elements, batch) * static_cast<double>(codes);
}

double BytesOf(const Node& node, const OpDef& op, const Graph& graph, int64_t batch) {
  double bytes = At(CostOf(node, graph).bytes, batch);
  // A sparse update reads and writes rows (docs/optimizers.md). Without weight decay it leaves the table alone.
  if (const auto update = RowUpdateOf(node); update && node.attrs.Int("sparse") != 0)
    return 3 * At(graph.value(node.inputs[update->rows]).type.Bytes(), batch);
  for (const int32_t i : node.mutates)
    bytes += At(graph.value(node.inputs[static_cast<size_t>(i)]).type.Bytes(), batch);
  // Of what these read, the rest is left alone.
  if (op.movement == Movement::kSlice || op.movement == Movement::kGather) {
    bytes = 0;
    for (const ValueId v : node.outputs) bytes += 2 * At(graph.value(v).type.Bytes(), batch);
  }
  return bytes;
}

}  // namespace

double ExpectedSeconds(const Plan& plan, int64_t batch, const StepRates& rates) {
  const Graph& graph = plan.train.graph;
  double seconds = 0;
  for (const Node& node : graph.nodes) {
    if (RunsOf(node) == Runs::kAlias) continue;
    const OpDef& op = OpOf(node);
    const double flops = At(CostOf(node, graph).flops, batch);
    const double flops_a_second = !IsProduct(op, node)               ? rates.product_flops * kLoopPart
                                  : node.attrs.Int("may_round") != 0 ? rates.rounded_flops
                                                                     : rates.product_flops;
    const double bytes = BytesOf(node, op, graph, batch) + kBytesOfCodedElement * CodedElements(node, batch);
    seconds += std::max(flops / flops_a_second, bytes / rates.bytes);
  }
  return seconds;
}

}  // namespace act
