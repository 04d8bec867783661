// Attention, a block of queries at a time. A thread has a head of keys of its own, or all threads share one: then each
// makes the scores of some keys, and the results of some queries.
#include <algorithm>
#include <array>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// With few heads, forward work is also cut along the queries, into this many pieces.
constexpr int64_t kForwardPieces = 64;

class ForwardKernel final : public Kernel {
 public:
  ForwardKernel(const AttentionShape& shape, DType operands, const AttentionThreads& threads,
                const AttentionScratch& scratch)
      : blocks_(shape, 0, operands), threads_(threads), team_(threads.Team()), scratch_(scratch) {
    const int64_t slices = std::max<int64_t>(1, shape.batches * shape.kv_heads);
    if (team_.shares()) return;
    pieces_ =
        std::clamp<int64_t>((kForwardPieces + slices - 1) / slices, 1, std::max<int64_t>(1, blocks_.count));
  }
  int64_t WorkspaceBytes() const override { return threads_.Bytes(scratch_); }
  std::string Describe() const override { return threads_.Describe(); }

  std::string Run(const KernelArgs& args) override {
    const AttentionShape& s = blocks_.s;
    const int64_t work = s.batches * s.kv_heads * pieces_;
#pragma omp parallel num_threads(threads_.count)
    {
      const AttentionThreads::Places at = threads_.PlacesIn(args.workspace.data.as<std::byte>(), scratch_);
      if (team_.shares()) {
        for (int64_t i = 0; i < work; ++i) Piece(args, i, 0, at);
      } else {
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < work; ++i) Piece(args, i / pieces_, i % pieces_, at);
      }
    }
    return "";
  }

 private:
  // Some blocks of queries, of all heads that read one head of keys.
  void Piece(const KernelArgs& args, int64_t kv_slice, int64_t piece,
             AttentionThreads::Places scratch) const {
    const AttentionShape& s = blocks_.s;
    const int64_t row = blocks_.row, batch = kv_slice / s.kv_heads;
    float *keys_across = scratch.head, *scores = keys_across + s.depth * row, *kept = scratch.own;
    float* tiles = scores + blocks_.rows * row;  // of k, then of v; of q and o
    float* q_tile = tiles + s.keys * ProductRowFloats(std::max(s.depth, s.value_depth));
    float* o_tile = q_tile + blocks_.rows * ProductRowFloats(s.depth);
    const TensorView &q_all = blocks_.Operand(args, 0), &o_all = args.outputs[0];
    const TensorRows k_rows{blocks_.Operand(args, 1), s.k.At(kv_slice, 0, 0), s.k.row, s.depth},
        v_rows{blocks_.Operand(args, 2), s.v.At(kv_slice, 0, 0), s.v.row, s.value_depth};
    const AttentionFactors& factors = blocks_.factors;
    const bool rounds = q_all.dtype == DType::kBFloat16;
    const FloatTile k = TileOf(k_rows, tiles), v = TileOf(v_rows, tiles);
    team_.ForParts(s.keys, kPartKeys, [&](int64_t begin, int64_t end) {
      blocks_.ReadAcross(k, k_rows, begin, end, s.scale, keys_across);
    });
    if (rounds)
      team_.ForParts(s.keys, kPartKeys,
                     [&](int64_t begin, int64_t end) { factors.ReadRight(v, v_rows, begin, end); });
    for (int64_t h = 0; h < s.Group(); ++h) {
      const int64_t head = kv_slice % s.kv_heads * s.Group() + h, slice = batch * s.heads + head;
      for (int64_t b = blocks_.count * piece / pieces_; b < blocks_.count * (piece + 1) / pieces_; ++b) {
        const int64_t first = blocks_.Begin(b), rows = blocks_.Rows(b);
        const BlockKeys keys = blocks_.Keys(args, slice, b);
        float* const block_keys = keys_across + keys.first;
        const TensorRows q_rows{q_all, s.q.At(slice, first, 0), s.q.row, s.depth},
            o_rows{o_all, s.o.At(slice, first, 0), s.o.row, s.value_depth};
        const FloatTile q = TileOf(q_rows, q_tile), o = TileOf(o_rows, o_tile);
        if (rounds)
          team_.ForParts(rows, 1,
                         [&](int64_t begin, int64_t end) { factors.ReadLeft(q, q_rows, begin, end); });
        team_.ForParts(PaddedKeys(keys.count), kPartKeys, [&](int64_t begin, int64_t end) {
          factors.Product(LeftOf(q), {block_keys + begin, row}, {scores + begin, row}, rows, end - begin,
                          s.depth, false);
        });
        team_.ForParts(rows, kPartQueries, [&](int64_t begin, int64_t end) {
          std::array<float, kAttentionQueries> normalizers;
          for (int64_t r = begin; r < end; ++r) {
            bool sees_a_key;
            const ScoreRow score_row = blocks_.RowOf(args, slice, first + r, keys);
            normalizers[static_cast<size_t>(r)] =
                blocks_.Weights(score_row, scores + r * row, nullptr, &sees_a_key);
            if (s.dropout > 0) {
              blocks_.Kept(args, batch, head, first + r, keys, kept);
              MultiplyRow(kept, keys.count, scores + r * row);
            }
            if (rounds) factors.RoundProbabilities(scores + r * row, keys.count);
          }
          factors.Product(LeftOf({scores + begin * row, row}), factors.FromTerm(v, keys.first),
                          {o.Row(begin), o.row}, end - begin, s.value_depth, keys.count, false);
          StoreTile(o, o_rows, begin, end, normalizers.data());
        });
      }
    }
  }

  AttentionBlocks blocks_;
  AttentionThreads threads_;
  AttentionTeam team_;
  AttentionScratch scratch_;
  int64_t pieces_ = 1;  // of the blocks of queries
};

std::unique_ptr<Kernel> Attention(const KernelSite& site, std::string* why) {
  const auto s = BlockedShape(site, 0, site.outputs[0], why);
  if (!s) return nullptr;
  const DType operands = site.inputs[0].dtype;
  const AttentionScratch scratch =
      AttentionScratch::Forward(s->queries, s->keys, s->depth, s->value_depth, operands == DType::kBFloat16);
  const AttentionThreads threads(site.threads, site.workspace_bytes, scratch, true);
  if (threads.count < 1)
    return Refuse(why, TooLittleWorkspace(scratch.head + scratch.thread, site.workspace_bytes));
  return std::make_unique<ForwardKernel>(*s, operands, threads, scratch);
}

}  // namespace

void RegisterCpuAttention(KernelRegistry& registry) {
  registry.Add("Attention", {"cpu.attention", Attention});
}

}  // namespace act
