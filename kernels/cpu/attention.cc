// Attention, a block of queries at a time.
#include <omp.h>

#include <algorithm>
#include <array>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/site/dereference.h"
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
    const float* k = blocks_.Operand(args, 1) + s.k.At(kv_slice, 0, 0);
    const float* v = blocks_.Operand(args, 2) + s.v.At(kv_slice, 0, 0);
    blocks_.Transpose(k, s.k.row, s.depth, s.scale, keys_across);
    for (int64_t h = 0; h < s.Group(); ++h) {
      const int64_t head = kv_slice % s.kv_heads * s.Group() + h, slice = batch * s.heads + head;
      for (int64_t b = blocks_.count * piece / pieces_; b < blocks_.count * (piece + 1) / pieces_; ++b) {
        const int64_t begin = blocks_.Begin(b), rows = blocks_.Rows(b), keys = blocks_.Keys(args, slice, b);
        const float* q = blocks_.Operand(args, 0) + s.q.At(slice, begin, 0);
        float* o = args.outputs[0].as<float>() + s.o.At(slice, begin, 0);
        Multiply({q, s.q.row, 1, keys_across, row, scores, row, rows, PaddedKeys(keys), s.depth, false});
        std::array<float, kAttentionQueries> normalizer;
        for (int64_t r = 0; r < rows; ++r) {
          bool sees_a_key;
          const ScoreRow score_row = blocks_.RowOf(args, slice, begin + r, keys);
          normalizer[static_cast<size_t>(r)] =
              blocks_.Weights(score_row, scores + r * row, nullptr, &sees_a_key);
          if (s.dropout == 0) continue;
          blocks_.Kept(args, batch, head, begin + r, keys, kept);
          MultiplyRow(kept, keys, scores + r * row);
        }
        Multiply({scores, row, 1, v, s.v.row, o, s.o.row, rows, s.value_depth, keys, false});
        for (int64_t r = 0; r < rows; ++r)
          ScaleRow(normalizer[static_cast<size_t>(r)], s.value_depth, o + r * s.o.row);
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
  const int64_t bytes = AttentionThreadBytes(s->queries, s->keys, s->depth);
  const int threads = ThreadsThatFit(site, site.workspace_bytes, bytes);
  if (threads < 1) return TooLittleWorkspace(bytes, site, why);
  return std::make_unique<ForwardKernel>(*s, threads, bytes);
}

}  // namespace

void RegisterCpuAttention(KernelRegistry& registry) {
  registry.Add("Attention", {"cpu.attention", Attention});
}

}  // namespace act
