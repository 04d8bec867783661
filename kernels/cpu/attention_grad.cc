// The gradient of attention, a block of queries at a time. It recomputes the probabilities, because the
// gradient of a query's scores needs the sum of p dp over its keys first. Gradients may lie where q, k and v
// do: a head's keys and values are copied before their gradients are begun, and a block of queries is read for
// the last time before its gradient is written. A thread has a head of keys of its own, or all threads share one: then
// each has some of the keys in one step, and some of a block's queries in the next.
#include <algorithm>
#include <map>
#include <vector>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/mixed_floats.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// Heads of keys are independent, except for the gradient of a bias that several of them share.
// Heads that share a slice of it are divided into parts. Each part has a sum of its own, and the
// sums are added in order.
class BackwardKernel final : public Kernel {
 public:
  BackwardKernel(const AttentionShape& shape, DType operands, int64_t bias_elements, int64_t parts,
                 int64_t part_bytes, const AttentionThreads& threads, const AttentionScratch& scratch)
      : blocks_(shape, 1, operands),
        threads_(threads),
        team_(threads.Team()),
        scratch_(scratch),
        bias_elements_(bias_elements),
        parts_(parts),
        part_bytes_(part_bytes) {
    const AttentionShape& s = blocks_.s;
    const int64_t slices = s.batches * s.kv_heads;
    // heads of keys by their slice of the bias's gradient
    std::map<int64_t, std::vector<int64_t>> sharing;
    for (int64_t i = 0; i < slices; ++i)
      sharing[bias_elements > 0 ? s.bias->slices.At(i / s.kv_heads * s.heads + i % s.kv_heads * s.Group())
                                : i]
          .push_back(i);
    for (const auto& [offset, heads] : sharing) {
      const auto n = static_cast<int64_t>(heads.size());
      for (int64_t part = 0; part < parts_; ++part)
        work_.push_back({part, {heads.begin() + n * part / parts_, heads.begin() + n * (part + 1) / parts_}});
    }
  }
  int64_t WorkspaceBytes() const override { return part_bytes_ + threads_.Bytes(scratch_); }
  std::string Describe() const override { return threads_.Describe(); }

  std::string Run(const KernelArgs& args) override {
    float* bias_parts = nullptr;
    if (bias_elements_ > 0) {
      bias_parts = part_bytes_ > 0 ? args.workspace.data.as<float>() : Gradient(args, 3).as<float>();
      std::fill_n(bias_parts, parts_ * bias_elements_, 0.0f);
    }
    const auto work = static_cast<int64_t>(work_.size());
    const auto run = [&](const Work& w, AttentionThreads::Places at) {
      float* d_bias = bias_parts ? bias_parts + w.part * bias_elements_ : nullptr;
      for (const int64_t kv_slice : w.kv_slices) Slice(args, kv_slice, d_bias, at);
    };
#pragma omp parallel num_threads(threads_.count)
    {
      const AttentionThreads::Places at =
          threads_.PlacesIn(args.workspace.data.as<std::byte>() + part_bytes_, scratch_);
      if (team_.shares()) {
        for (const Work& w : work_) run(w, at);
      } else {
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < work; ++i) run(work_[static_cast<size_t>(i)], at);
      }
    }
    if (part_bytes_ > 0) AddParts(bias_parts, Gradient(args, 3));
    return "";
  }

 private:
  struct Work {
    int64_t part;
    std::vector<int64_t> kv_slices;
  };

  const TensorView& Gradient(const KernelArgs& args, size_t operand) const {
    return args.outputs[blocks_.s.GradientOf(operand)];
  }
  void AddParts(float* parts, const TensorView& d_bias) const {
    for (int64_t i = 0; i < bias_elements_; ++i) {
      float sum = parts[i];
      for (int64_t part = 1; part < parts_; ++part) sum += parts[part * bias_elements_ + i];
      WriteMixed(d_bias.dtype, d_bias.as<void>(), i, sum);
    }
  }

  // One head of keys, with all heads of queries that read it.
  void Slice(const KernelArgs& args, int64_t kv_slice, float* d_bias,
             AttentionThreads::Places scratch) const {
    const AttentionShape& s = blocks_.s;
    const int64_t row = blocks_.row, batch = kv_slice / s.kv_heads;
    const TensorView &q_all = blocks_.Operand(args, 0), &d_out_all = args.inputs[0],
                     &dq_all = Gradient(args, 0);
    const int64_t at_k = s.k.At(kv_slice, 0, 0), at_v = s.v.At(kv_slice, 0, 0);
    const TensorRows k_rows{blocks_.Operand(args, 1), at_k, s.k.row, s.depth},
        v_rows{blocks_.Operand(args, 2), at_v, s.v.row, s.value_depth},
        dk_rows{Gradient(args, 1), at_k, s.k.row, s.depth},
        dv_rows{Gradient(args, 2), at_v, s.v.row, s.value_depth};
    const AttentionFactors& factors = blocks_.factors;
    const bool rounds = q_all.dtype == DType::kBFloat16;
    const int64_t most_rows = rounds ? EvenQueries(blocks_.rows) : blocks_.rows;
    float *keys_across = scratch.head, *values_across = keys_across + s.depth * row;
    float *scores = values_across + s.value_depth * row, *d_scores = scores + most_rows * row;
    float *kept = scratch.own, *slopes = s.softcap > 0 ? kept + row : nullptr;
    // A copy of k. If operands are bfloat16, also tiles of dk, dv; of q, dq and the result's gradient.
    const int64_t depth_row = ProductRowFloats(s.depth), value_row = ProductRowFloats(s.value_depth);
    const FloatTile k{d_scores + most_rows * row, depth_row};
    float *dk_tile = k.Row(s.keys), *dv_tile = dk_tile + s.keys * depth_row;
    float *q_tile = dv_tile + s.keys * value_row, *dq_tile = q_tile + most_rows * depth_row;
    float* d_out_tile = dq_tile + most_rows * depth_row;
    // v is not needed once it is transposed.
    const FloatTile k_there = TileOf(k_rows, k.at), v = TileOf(v_rows, dv_tile),
                    dk = TileOf(dk_rows, dk_tile), dv = TileOf(dv_rows, dv_tile);
    team_.ForParts(s.keys, kPartKeys, [&](int64_t begin, int64_t end) {
      blocks_.ReadAcross(k_there, k_rows, begin, end, s.scale, keys_across);
      blocks_.ReadAcross(v, v_rows, begin, end, 1, values_across);
      if (factors.pairs()) {
        factors.ReadRight(k, k_rows, begin, end);
      } else if (k_there.at != k.at) {
        for (int64_t j = begin; j < end; ++j) std::copy_n(k_there.Row(j), s.depth, k.Row(j));
      }
      for (int64_t j = begin; j < end; ++j) {
        std::fill_n(dk.Row(j), s.depth, 0.0f);
        std::fill_n(dv.Row(j), s.value_depth, 0.0f);
      }
    });
    for (int64_t h = 0; h < s.Group(); ++h) {
      const int64_t head = kv_slice % s.kv_heads * s.Group() + h, slice = batch * s.heads + head;
      for (int64_t b = 0; b < blocks_.count; ++b) {
        const int64_t first = blocks_.Begin(b), rows = blocks_.Rows(b);
        const BlockKeys keys = blocks_.Keys(args, slice, b);
        float* const block_keys = keys_across + keys.first;
        float* const block_values = values_across + keys.first;
        const int64_t at_q = s.q.At(slice, first, 0);
        const TensorRows q_rows{q_all, at_q, s.q.row, s.depth}, dq_rows{dq_all, at_q, s.q.row, s.depth},
            d_out_rows{d_out_all, s.o.At(slice, first, 0), s.o.row, s.value_depth};
        const FactorTiles q = factors.TilesOf(q_rows, most_rows, q_tile),
                          d_out = factors.TilesOf(d_out_rows, most_rows, d_out_tile);
        const FloatTile dq = TileOf(dq_rows, dq_tile);
        if (rounds)
          team_.ForParts(rows, kPartRows, [&](int64_t begin, int64_t end) {
            factors.ReadTiles(q, q_rows, begin, end);
            factors.ReadTiles(d_out, d_out_rows, begin, end);
          });
        team_.ForParts(PaddedKeys(keys.count), kPartKeys, [&](int64_t begin, int64_t end) {
          factors.Product(LeftOf(q.left), {block_keys + begin, row}, {scores + begin, row}, rows, end - begin,
                          s.depth, false);
          factors.Product(LeftOf(d_out.left), {block_values + begin, row}, {d_scores + begin, row}, rows,
                          end - begin, s.value_depth, false);
        });
        team_.ForParts(rows, kPartRows, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            GradientRow g;
            bool sees_a_key;
            g.keys = keys.count;
            g.exponentials = scores + r * row;
            g.d_weights = d_scores + r * row;
            g.slope = slopes;
            g.normalizer = blocks_.Weights(blocks_.RowOf(args, slice, first + r, keys), g.exponentials,
                                           slopes, &sees_a_key);
            g.no_gradient = !sees_a_key && !s.hidden_gradient;
            g.scale = s.scale;
            if (s.dropout > 0) {
              blocks_.Kept(args, batch, head, first + r, keys, kept);
              g.kept = kept;
            }
            if (d_bias) {
              g.d_bias = d_bias + s.bias->At(slice, first + r, keys.first);
              g.d_bias_column = s.bias->column;
            }
            Backward(g);
            const int64_t done = r % kPartRows + 1;
            if (rounds && (done == kPartRows || r + 1 == end))
              factors.RoundGradients(scores + (r + 1 - done) * row, d_scores + (r + 1 - done) * row, done,
                                     row, keys.count);
          }
        });
        team_.ForParts(keys.count, kPartKeys, [&](int64_t begin, int64_t end) {
          factors.Product(factors.OverQueries(scores + begin, row), d_out.right,
                          {dv.Row(keys.first + begin), dv.row}, end - begin, s.value_depth, rows, true);
          factors.Product(factors.OverQueries(d_scores + begin, row), q.right,
                          {dk.Row(keys.first + begin), dk.row}, end - begin, s.depth, rows, true);
        });
        team_.ForParts(rows, kPartQueries, [&](int64_t begin, int64_t end) {
          factors.Product(factors.OverKeys(scores, d_scores, row).From(begin),
                          factors.FromTerm(k, keys.first), {dq.Row(begin), dq.row}, end - begin, s.depth,
                          keys.count, false);
          StoreTile(dq, dq_rows, begin, end, nullptr);
        });
      }
    }
    if (rounds)
      team_.ForParts(s.keys, kPartKeys, [&](int64_t begin, int64_t end) {
        StoreTile(dk, dk_rows, begin, end, nullptr);
        StoreTile(dv, dv_rows, begin, end, nullptr);
      });
  }

  AttentionBlocks blocks_;
  AttentionThreads threads_;
  AttentionTeam team_;
  AttentionScratch scratch_;
  int64_t bias_elements_;  // 0: no gradient of the bias is needed
  int64_t parts_;
  int64_t part_bytes_;  // 0: the single part is the gradient itself
  std::vector<Work> work_;
};

std::unique_ptr<Kernel> AttentionGrad(const KernelSite& site, std::string* why) {
  const auto s = BlockedShape(site, 1, site.inputs[0], why);
  if (!s) return nullptr;
  if (site.inputs[0].dtype != site.inputs[1].dtype) return Refuse(why, "do and q must have one type");
  if (!GradientsFit(*s, std::span(site.inputs).subspan(1), site.outputs, why)) return nullptr;
  const DType operands = site.inputs[1].dtype;
  const AttentionScratch scratch = AttentionScratch::Backward(s->queries, s->keys, s->depth, s->value_depth,
                                                              s->softcap > 0, operands == DType::kBFloat16);
  const size_t of_bias = s->GradientOf(3);
  const bool has_d_bias = site.outputs.size() > of_bias;
  const int64_t bias_elements = has_d_bias ? site.outputs[of_bias].elements : 0;
  const bool rounds = has_d_bias && site.outputs[of_bias].dtype == DType::kBFloat16;
  int64_t parts = CpuTarget().SharedGradientParts(bias_elements);
  const auto part_bytes = [&] {
    return parts > 1 || rounds ? parts * bias_elements * 4 / 64 * 64 + 64 : int64_t{0};
  };
  // Queries that share a bias add to its gradient in order.
  const auto threads_that_fit = [&] {
    return AttentionThreads(site.threads, site.workspace_bytes - part_bytes(), scratch, !has_d_bias);
  };
  if (threads_that_fit().count < 1) parts = 1;
  const AttentionThreads threads = threads_that_fit();
  if (threads.count < 1)
    return Refuse(why,
                  TooLittleWorkspace(scratch.head + scratch.thread + part_bytes(), site.workspace_bytes));
  return std::make_unique<BackwardKernel>(*s, operands, bias_elements, parts, part_bytes(), threads, scratch);
}

}  // namespace

void RegisterCpuAttentionGrad(KernelRegistry& registry) {
  registry.Add("AttentionGrad", {"cpu.attention_grad", AttentionGrad});
}

}  // namespace act
