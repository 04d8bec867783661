#include "runtime/plan/workspace.h"

#include <algorithm>

#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr int64_t kFloatBytes = 4;

int64_t TileRowFloats(int64_t columns) { return ProductRowFloats(std::min(columns, kTooLarge / 1024)); }

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
  const int64_t copied = SaturatingMul(std::min(keys, kTooLarge / 1024), TileRowFloats(depth));
  return SaturatingMul(SaturatingAdd(SaturatingMul(rows, row), copied), kFloatBytes);
}

int64_t AttentionTileBytes(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth) {
  const int64_t q = TileRowFloats(depth), v = TileRowFloats(value_depth);
  const int64_t blocks = SaturatingMul(std::min(queries, kAttentionQueries), SaturatingAdd(q, v));
  return SaturatingMul(SaturatingAdd(SaturatingMul(keys, std::max(q, v)), blocks), kFloatBytes);
}

int64_t AttentionGradTileBytes(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth) {
  const int64_t q = TileRowFloats(depth), v = TileRowFloats(value_depth);
  const int64_t blocks = SaturatingMul(std::min(queries, kAttentionQueries), SaturatingAdd(2 * q, v));
  return SaturatingMul(SaturatingAdd(SaturatingMul(keys, SaturatingAdd(q, v)), blocks), kFloatBytes);
}

CappedDim WorkspaceBound(const Node& node, const Graph& graph, const Target& target, int64_t limit_bytes) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  const WorkspaceRule rule = op ? op->workspace[target.kind()] : nullptr;
  if (!rule || WrongCounts(node)) return {};
  CappedDim bound = rule(graph, node, target);
  if (bound.size.TooLarge()) bound.size = bound.most;
  if (limit_bytes > 0) bound.most = std::min(bound.most, limit_bytes);
  return bound;
}

}  // namespace act
