// Attention, a block of queries at a time.
#include <omp.h>

#include <algorithm>
#include <array>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/float_rows.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// With few heads, forward work is also cut along the queries, into this many pieces.
constexpr int64_t kForwardPieces = 64;

class ForwardKernel final : public Kernel {
 public:
  ForwardKernel(const AttentionShape& shape, int threads, int64_t thread_bytes)
      : blocks_(shape, 0), threads_(threads), thread_bytes_(thread_bytes) {
    const int64_t slices = std::max<int64_t>(1, shape.batches * shape.kv_heads);
    pieces_ =
        std::clamp<int64_t>((kForwardPieces + slices - 1) / slices, 1, std::max<int64_t>(1, blocks_.count));
  }
  int64_t WorkspaceBytes() const override { return threads_ * thread_bytes_; }
  std::string Describe() const override { return std::to_string(threads_) + " threads"; }

  std::string Run(const KernelArgs& args) override {
    const AttentionShape& s = blocks_.s;
    const int64_t work = s.batches * s.kv_heads * pieces_;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (int64_t i = 0; i < work; ++i)
      Piece(args, i / pieces_, i % pieces_,
            (args.workspace.data + omp_get_thread_num() * thread_bytes_).as<float>());
    return "";
  }

 private:
  // Some blocks of queries, of all heads that read one head of keys.
  void Piece(const KernelArgs& args, int64_t kv_slice, int64_t piece, float* scratch) const {
    const AttentionShape& s = blocks_.s;
    const int64_t row = blocks_.row, batch = kv_slice / s.kv_heads;
    float *keys_across = scratch, *scores = keys_across + s.depth * row, *kept = scores + blocks_.rows * row;
    float* tiles = kept + row;  // of k, then of v; of q and o
    float* q_tile = tiles + s.keys * ProductRowFloats(std::max(s.depth, s.value_depth));
    float* o_tile = q_tile + blocks_.rows * ProductRowFloats(s.depth);
    const TensorView &q_all = blocks_.Operand(args, 0), &o_all = args.outputs[0];
    const bool rounds = q_all.dtype == DType::kBFloat16;
    const FloatTile k =
        ReadTile(blocks_.Operand(args, 1), s.k.At(kv_slice, 0, 0), s.k.row, s.keys, s.depth, tiles);
    blocks_.Transpose(k.at, k.row, s.depth, s.scale, keys_across);
    const FloatTile v =
        ReadTile(blocks_.Operand(args, 2), s.v.At(kv_slice, 0, 0), s.v.row, s.keys, s.value_depth, tiles);
    for (int64_t h = 0; h < s.Group(); ++h) {
      const int64_t head = kv_slice % s.kv_heads * s.Group() + h, slice = batch * s.heads + head;
      for (int64_t b = blocks_.count * piece / pieces_; b < blocks_.count * (piece + 1) / pieces_; ++b) {
        const int64_t begin = blocks_.Begin(b), rows = blocks_.Rows(b), keys = blocks_.Keys(args, slice, b);
        const int64_t at_o = s.o.At(slice, begin, 0);
        const FloatTile q = ReadTile(q_all, s.q.At(slice, begin, 0), s.q.row, rows, s.depth, q_tile);
        const FloatTile o = SumTile(o_all, at_o, s.o.row, s.value_depth, o_tile);
        Multiply({q.at, q.row, 1, keys_across, row, scores, row, rows, PaddedKeys(keys), s.depth, false});
        std::array<float, kAttentionQueries> normalizers;
        for (int64_t r = 0; r < rows; ++r) {
          bool sees_a_key;
          const ScoreRow score_row = blocks_.RowOf(args, slice, begin + r, keys);
          normalizers[static_cast<size_t>(r)] =
              blocks_.Weights(score_row, scores + r * row, nullptr, &sees_a_key);
          if (s.dropout > 0) {
            blocks_.Kept(args, batch, head, begin + r, keys, kept);
            MultiplyRow(kept, keys, scores + r * row);
          }
          if (rounds) RoundRow(keys, scores + r * row, scores + r * row);
        }
        Multiply({scores, row, 1, v.at, v.row, o.at, o.row, rows, s.value_depth, keys, false});
        StoreTile(o, o_all, at_o, s.o.row, rows, s.value_depth, normalizers.data());
      }
    }
  }

  AttentionBlocks blocks_;
  int threads_;
  int64_t thread_bytes_;
  int64_t pieces_ = 1;  // of the blocks of queries
};

std::unique_ptr<Kernel> Attention(const KernelSite& site, std::string* why) {
  const auto s = BlockedShape(site, 0, site.outputs[0], why);
  if (!s) return nullptr;
  int64_t bytes = AttentionThreadBytes(s->queries, s->keys, s->depth);
  if (site.inputs[0].dtype == DType::kBFloat16)
    bytes += AttentionTileBytes(s->queries, s->keys, s->depth, s->value_depth);
  const int threads = ThreadsThatFit(site, site.workspace_bytes, bytes);
  if (threads < 1) return Refuse(why, TooLittleWorkspace(bytes, site.workspace_bytes));
  return std::make_unique<ForwardKernel>(*s, threads, bytes);
}

}  // namespace

void RegisterCpuAttention(KernelRegistry& registry) {
  registry.Add("Attention", {"cpu.attention", Attention});
}

}  // namespace act
