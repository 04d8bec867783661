// The gradient of attention, a block of queries at a time. It recomputes the probabilities, because the
// gradient of a query's scores needs the sum of p dp over its keys first.
#include <omp.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// Heads of keys are independent, except for the gradient of a bias that several of them share.
// Heads that share a slice of it are divided into parts. Each part has a sum of its own, and the
// sums are added in order.
class BackwardKernel final : public Kernel {
 public:
  BackwardKernel(const AttentionShape& shape, int64_t bias_elements, int64_t parts, int threads,
                 int64_t thread_bytes)
      : blocks_(shape, 1),
        threads_(threads),
        thread_bytes_(thread_bytes),
        bias_elements_(bias_elements),
        parts_(parts) {
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
  int64_t WorkspaceBytes() const override { return PartBytes() + threads_ * thread_bytes_; }
  std::string Describe() const override { return std::to_string(threads_) + " threads"; }

  std::string Run(const KernelArgs& args) override {
    float* bias_parts = nullptr;
    if (bias_elements_ > 0) {
      bias_parts = parts_ > 1 ? args.workspace.data.as<float>() : Gradient(args, 3);
      std::fill_n(bias_parts, parts_ * bias_elements_, 0.0f);
    }
    std::byte* scratch = args.workspace.data.as<std::byte>() + PartBytes();
    const auto work = static_cast<int64_t>(work_.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (int64_t i = 0; i < work; ++i) {
      const Work& w = work_[static_cast<size_t>(i)];
      float* d_bias = bias_parts ? bias_parts + w.part * bias_elements_ : nullptr;
      for (int64_t kv_slice : w.kv_slices)
        Slice(args, kv_slice, d_bias,
              reinterpret_cast<float*>(scratch + omp_get_thread_num() * thread_bytes_));
    }
    if (parts_ > 1) {
      float* d_bias = Gradient(args, 3);
      for (int64_t i = 0; i < bias_elements_; ++i) {
        d_bias[i] = bias_parts[i];
        for (int64_t part = 1; part < parts_; ++part) d_bias[i] += bias_parts[part * bias_elements_ + i];
      }
    }
    return "";
  }

 private:
  struct Work {
    int64_t part;
    std::vector<int64_t> kv_slices;
  };

  float* Gradient(const KernelArgs& args, size_t operand) const {
    return args.outputs[blocks_.s.GradientOf(operand)].as<float>();
  }
  int64_t PartBytes() const { return parts_ > 1 ? parts_ * bias_elements_ * 4 / 64 * 64 + 64 : 0; }

  // One head of keys, with all heads of queries that read it.
  void Slice(const KernelArgs& args, int64_t kv_slice, float* d_bias, float* scratch) const {
    const AttentionShape& s = blocks_.s;
    const int64_t row = blocks_.row, batch = kv_slice / s.kv_heads;
    float *keys_across = scratch, *values_across = keys_across + s.depth * row;
    float *scores = values_across + s.value_depth * row, *d_scores = scores + blocks_.rows * row;
    float *kept = d_scores + blocks_.rows * row, *slopes = s.softcap > 0 ? kept + row : nullptr;
    const int64_t at_k = s.k.At(kv_slice, 0, 0), at_v = s.v.At(kv_slice, 0, 0);
    const float *k = blocks_.Operand(args, 1) + at_k, *v = blocks_.Operand(args, 2) + at_v;
    float *dk = Gradient(args, 1) + at_k, *dv = Gradient(args, 2) + at_v;
    blocks_.Transpose(k, s.k.row, s.depth, s.scale, keys_across);
    blocks_.Transpose(v, s.v.row, s.value_depth, 1, values_across);
    for (int64_t j = 0; j < s.keys; ++j) {
      std::fill_n(dk + j * s.k.row, s.depth, 0.0f);
      std::fill_n(dv + j * s.v.row, s.value_depth, 0.0f);
    }
    for (int64_t h = 0; h < s.Group(); ++h) {
      const int64_t head = kv_slice % s.kv_heads * s.Group() + h, slice = batch * s.heads + head;
      for (int64_t b = 0; b < blocks_.count; ++b) {
        const int64_t begin = blocks_.Begin(b), rows = blocks_.Rows(b), keys = blocks_.Keys(args, slice, b);
        const int64_t at_q = s.q.At(slice, begin, 0);
        const float *q = blocks_.Operand(args, 0) + at_q,
                    *d_out = args.inputs[0].as<float>() + s.o.At(slice, begin, 0);
        float* dq = Gradient(args, 0) + at_q;
        Multiply({q, s.q.row, 1, keys_across, row, scores, row, rows, PaddedKeys(keys), s.depth, false});
        Multiply({d_out, s.o.row, 1, values_across, row, d_scores, row, rows, PaddedKeys(keys), s.value_depth,
                  false});
        for (int64_t r = 0; r < rows; ++r) {
          GradientRow g;
          bool sees_a_key;
          g.keys = keys;
          g.exponentials = scores + r * row;
          g.d_weights = d_scores + r * row;
          g.slope = slopes;
          g.normalizer = blocks_.Weights(blocks_.RowOf(args, slice, begin + r, keys), g.exponentials, slopes,
                                         &sees_a_key);
          g.no_gradient = !sees_a_key && !s.hidden_gradient;
          g.scale = s.scale;
          if (s.dropout > 0) {
            blocks_.Kept(args, batch, head, begin + r, keys, kept);
            g.kept = kept;
          }
          if (d_bias) {
            g.d_bias = d_bias + s.bias->At(slice, begin + r, 0);
            g.d_bias_column = s.bias->column;
          }
          Backward(g);
        }
        Multiply({scores, 1, row, d_out, s.o.row, dv, s.v.row, keys, s.value_depth, rows, true});
        Multiply({d_scores, row, 1, k, s.k.row, dq, s.q.row, rows, s.depth, keys, false});
        Multiply({d_scores, 1, row, q, s.q.row, dk, s.k.row, keys, s.depth, rows, true});
      }
    }
  }

  AttentionBlocks blocks_;
  int threads_;
  int64_t thread_bytes_;
  int64_t bias_elements_;  // 0: no gradient of the bias is needed
  int64_t parts_;
  std::vector<Work> work_;
};

std::unique_ptr<Kernel> AttentionGrad(const KernelSite& site, std::string* why) {
  const auto s = BlockedShape(site, 1, site.inputs[0], why);
  if (!s) return nullptr;
  if (!GradientsFit(*s, std::span(site.inputs).subspan(1), site.outputs, why)) return nullptr;
  const int64_t bytes =
      AttentionGradThreadBytes(s->queries, s->keys, s->depth, s->value_depth, s->softcap > 0);
  const size_t of_bias = s->GradientOf(3);
  const int64_t bias_elements = site.outputs.size() > of_bias ? site.outputs[of_bias].elements : 0;
  int64_t parts = CpuTarget().SharedGradientParts(bias_elements);
  const auto left = [&] { return site.workspace_bytes - (parts > 1 ? parts * bias_elements * 4 + 64 : 0); };
  if (ThreadsThatFit(site, left(), bytes) < 1) parts = 1;
  const int threads = ThreadsThatFit(site, left(), bytes);
  if (threads < 1) return TooLittleWorkspace(bytes, site, why);
  return std::make_unique<BackwardKernel>(*s, bias_elements, parts, threads, bytes);
}

}  // namespace

void RegisterCpuAttentionGrad(KernelRegistry& registry) {
  registry.Add("AttentionGrad", {"cpu.attention_grad", AttentionGrad});
}

}  // namespace act
