// Marks the products whose operands a kernel may round to bfloat16: one operand is a gradient, and
// the other is computed from codes of few levels. Rounding errs by at most 2^-8 of a number, 1.7e-3
// in the root mean square. In two operands it adds some 5e-6 of the gradient's square. A code of 64
// levels adds more than ten times as much, one of 8 levels thousands of times as much. Exact
// products stay exact: those of L0, gradients of inputs, whose weights are no codes, and products
// of values that are stored exactly.
#include "compiler/ops/codec_ops.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/storage/gradient_values.h"

namespace act {
namespace {

constexpr int kMostLevels = 64;

// Whether a value is computed from a code of few levels.
ValueMap<bool> CoarseValues(const Graph& graph) {
  ValueMap<bool> coarse(graph);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) continue;
    bool any = false;
    if (OpOf(node).coding == Coding::kDecode) {
      const Codec codec = CodecOf(node.attrs);
      any = codec.HasLevels() && codec.levels <= kMostLevels && !DecodesMask(node);
    } else {
      for (const ValueId v : node.inputs) any |= v != kNoValue && coarse[v];
    }
    for (const ValueId v : node.outputs) coarse[v] = any;
  }
  return coarse;
}

}  // namespace

llvm::Error RoundProducts(Graph& graph, PassContext&) {
  const ValueMap<bool> gradients = GradientValues(graph), coarse = CoarseValues(graph);
  for (Node& node : graph.nodes) {
    const Product product = OpOf(node).product;
    if (product != Product::kWeightGradient && product != Product::kMatrix) continue;
    const ValueId a = node.inputs[0], b = node.inputs[1];
    if (gradients[a] != gradients[b] && coarse[gradients[a] ? b : a]) node.attrs.Set("may_round", int64_t{1});
  }
  return llvm::Error::success();
}

}  // namespace act
