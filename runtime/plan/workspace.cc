#include "runtime/plan/workspace.h"

#include <algorithm>

#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr int64_t kFloatBytes = 4;

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

Dim WorkspaceBound(const Node& node, const Graph& graph, const Target& target, int64_t limit_bytes) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op || !op->workspace || WrongCounts(node)) return Dim(0);
  const Dim bound = op->workspace(graph, node, target);
  if (limit_bytes <= 0) return bound;
  return bound.IsFixed() ? Dim(std::min(bound.fixed, limit_bytes)) : Dim(limit_bytes);
}

}  // namespace act
