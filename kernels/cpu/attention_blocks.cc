#include "kernels/cpu/attention_blocks.h"

#include <algorithm>
#include <limits>

#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/workspace.h"

namespace act {

AttentionBlocks::AttentionBlocks(const AttentionShape& shape, size_t first_operand, DType operands)
    : s(shape),
      factors(operands),
      count((s.queries + kAttentionQueries - 1) / kAttentionQueries),
      rows(count > 0 ? (s.queries + count - 1) / count : 0),
      row(AttentionRowFloats(s.keys)),
      first(first_operand) {}

ScoreRow AttentionBlocks::RowOf(const KernelArgs& args, int64_t slice, int64_t query, BlockKeys keys) const {
  const auto in_row = [keys](int64_t key) { return std::clamp<int64_t>(key - keys.first, 0, keys.count); };
  ScoreRow r;
  r.keys = keys.count;
  r.first = in_row(s.FirstKey(query));
  r.end = in_row(s.EndKey(query));
  if (factors.pairs()) r.scale = s.scale;
  r.softcap = s.softcap;
  if (s.bias) {
    r.bias = Operand(args, 3).as<float>() + s.bias->At(slice, query, keys.first);
    r.bias_column = s.bias->column;
  }
  if (s.mask) {
    r.mask = Operand(args, 4).as<uint8_t>() + s.mask->At(slice, query, keys.first);
    r.mask_column = s.mask->column;
  }
  return r;
}

BlockKeys AttentionBlocks::Keys(const KernelArgs& args, int64_t slice, int64_t block) const {
  const BlockKeys all{0, s.keys};
  if (!s.causal && !s.window) return all;
  const int64_t begin = Begin(block), end = begin + Rows(block);
  // A query that sees no key takes the mean of all values, or makes the gradients of all NaN.
  if (s.empty_row != EmptyRow::kZero)
    for (int64_t i = begin; i < end; ++i)
      if (!SeesAKey(RowOf(args, slice, i, all))) return all;
  const int64_t first = s.FirstKey(begin) / kPartKeys * kPartKeys, last = s.EndKey(end - 1);
  return first < last ? BlockKeys{first, last - first} : BlockKeys{};
}

float AttentionBlocks::Weights(const ScoreRow& r, float* scores, float* slope, bool* sees_a_key) const {
  const float normalizer = Exponentials(r, scores, slope);
  *sees_a_key = normalizer != 0;
  if (*sees_a_key) return normalizer;
  const float fill = s.empty_row == EmptyRow::kMean   ? 1.0f
                     : s.empty_row == EmptyRow::kZero ? 0.0f
                                                      : std::numeric_limits<float>::quiet_NaN();
  std::fill_n(scores, r.keys, fill);
  return s.empty_row == EmptyRow::kMean ? 1 / static_cast<float>(s.keys) : 1.0f;
}

void AttentionBlocks::Kept(const KernelArgs& args, int64_t batch, int64_t head, int64_t query, BlockKeys keys,
                           float* kept) const {
  const RandomStream random{args.state->seed, args.state->step, static_cast<uint32_t>(s.stream)};
  DropoutRow(random, s.dropout, s.FirstBatch(args) + batch, s.heads * s.queries * s.keys,
             (head * s.queries + query) * s.keys + keys.first, keys.count, kept);
}

void AttentionBlocks::ReadAcross(const FloatTile& tile, const TensorRows& x, int64_t begin, int64_t end,
                                 float scale, float* y) const {
  factors.ReadAcross(tile, x, begin, end, scale, y, row);
  if (end < s.keys) return;
  for (int64_t r = 0; r < factors.RowsAcross(x.columns); ++r)
    std::fill(y + r * row + s.keys, y + (r + 1) * row, 0.0f);
}

std::optional<AttentionShape> BlockedShape(const KernelSite& site, size_t first, const TensorView& o,
                                           std::string* why) {
  const auto shape = AttentionShapeOf(site, first, o, why);
  if (!shape) return std::nullopt;
  for (const auto& [m, columns] : {std::pair{&shape->q, shape->depth},
                                   {&shape->k, shape->depth},
                                   {&shape->v, shape->value_depth},
                                   {&shape->o, shape->value_depth}})
    if (m->column != 1 && columns > 1) {
      if (why) *why = "the elements of a head do not lie side by side";
      return std::nullopt;
    }
  return shape;
}

AttentionThreads::AttentionThreads(int most, int64_t workspace_bytes, const AttentionScratch& scratch,
                                   bool may_share) {
  const auto that_fit = [most](int64_t bytes, int64_t of_each) {
    return static_cast<int>(std::clamp<int64_t>(bytes / std::max<int64_t>(of_each, 1), 0, most));
  };
  count = that_fit(workspace_bytes, scratch.head + scratch.thread);
  const int sharing = may_share ? that_fit(workspace_bytes - scratch.head, scratch.thread) : 0;
  share = sharing > count;
  if (share) count = sharing;
}

int64_t AttentionThreads::Bytes(const AttentionScratch& scratch) const {
  return share ? scratch.head + count * scratch.thread : count * (scratch.head + scratch.thread);
}

AttentionThreads::Places AttentionThreads::PlacesIn(std::byte* workspace,
                                                    const AttentionScratch& scratch) const {
  const int thread = omp_get_thread_num();
  std::byte* const head = workspace + (share ? 0 : thread * (scratch.head + scratch.thread));
  std::byte* const own = head + scratch.head + (share ? thread * scratch.thread : 0);
  return {reinterpret_cast<float*>(head), reinterpret_cast<float*>(own)};
}

}  // namespace act
