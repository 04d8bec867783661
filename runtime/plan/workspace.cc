#include "runtime/plan/workspace.h"

#include <algorithm>

#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr int64_t kFloatBytes = 4;

int64_t TileRowFloats(int64_t columns) { return ProductRowFloats(std::min(columns, kTooLarge / 1024)); }

}  // namespace

AttentionScratch AttentionScratch::Forward(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth,
                                           bool bfloat16) {
  const int64_t row = AttentionRowFloats(std::min(keys, kTooLarge / 1024));
  const int64_t block = std::min(queries, kAttentionQueries);
  int64_t floats = SaturatingMul(SaturatingAdd(depth, block), row);
  if (bfloat16) {
    const int64_t q = TileRowFloats(depth), v = TileRowFloats(value_depth);
    floats = SaturatingAdd(floats, SaturatingMul(keys, std::max(q, v)));
    floats = SaturatingAdd(floats, SaturatingMul(block, SaturatingAdd(q, v)));
  }
  return {SaturatingMul(floats, kFloatBytes), SaturatingMul(row, kFloatBytes)};
}

AttentionScratch AttentionScratch::Backward(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth,
                                            bool capped, bool bfloat16) {
  const int64_t row = AttentionRowFloats(std::min(keys, kTooLarge / 1024));
  int64_t block = std::min(queries, kAttentionQueries);
  if (bfloat16) block = EvenQueries(block);
  const int64_t q = TileRowFloats(depth), v = TileRowFloats(value_depth);
  int64_t floats = SaturatingMul(SaturatingAdd(SaturatingAdd(depth, value_depth), 2 * block), row);
  floats = SaturatingAdd(floats, SaturatingMul(keys, q));
  if (bfloat16) {
    floats = SaturatingAdd(floats, SaturatingMul(keys, SaturatingAdd(q, v)));
    floats = SaturatingAdd(floats, SaturatingMul(block, SaturatingAdd(2 * q, v)));
  }
  return {SaturatingMul(floats, kFloatBytes), SaturatingMul(row, (capped ? 2 : 1) * kFloatBytes)};
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
