#include "runtime/plan/ops/workspace.h"

#include <algorithm>

#include "runtime/plan/ops/runtime_op.h"

namespace act {
namespace {

constexpr int64_t kFloatBytes = 4;
// The sums in which the gradient of a bias is made take no more than this.
constexpr int64_t kBiasSumsBytes = 1 << 20;

}  // namespace

int64_t AttentionThreadBytes(int64_t queries, int64_t keys, int64_t depth) {
  const int64_t row = AttentionRowFloats(std::min(keys, kTooLarge / 1024));
  const int64_t rows = SaturatingAdd(depth, std::min(queries, kAttentionQueries) + 1);
  return SaturatingMul(SaturatingMul(rows, row), kFloatBytes);
}

int64_t AttentionGradThreadBytes(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth,
                                 bool capped) {
  const int64_t row = AttentionRowFloats(std::min(keys, kTooLarge / 1024));
  const int64_t rows = SaturatingAdd(SaturatingAdd(depth, value_depth),
                                     2 * std::min(queries, kAttentionQueries) + 1 + (capped ? 1 : 0));
  return SaturatingMul(SaturatingMul(rows, row), kFloatBytes);
}

int64_t AttentionBiasParts(int64_t elements) {
  return elements > 0 ? std::clamp<int64_t>(kBiasSumsBytes / kFloatBytes / elements, 1, kRowParts) : 1;
}

Dim WorkspaceBound(const Node& node, const Graph& graph, int64_t limit_bytes) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op || !op->workspace || WrongCounts(node)) return Dim(0);
  const Dim bound = op->workspace(graph, node);
  if (limit_bytes <= 0) return bound;
  return bound.IsFixed() ? Dim(std::min(bound.fixed, limit_bytes)) : Dim(limit_bytes);
}

}  // namespace act
