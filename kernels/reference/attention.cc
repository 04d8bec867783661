#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/math/random.h"
#include "kernels/reference/registry.h"
#include "kernels/site/attention_shape.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/mixed_floats.h"

namespace act {
namespace {

// One query row of one head. Nothing is stored: every number is computed from q, k and v where it
// is used.
struct Row {
  const AttentionShape& s;
  std::span<const TensorView> operands;  // q, k, v, bias?, mask?
  const StepState& state;
  int64_t batch, head, query;
  int64_t first_batch;  // AttentionShape::FirstBatch
  double max = 0, sum = 0;
  DType factors = operands[0].dtype;  // of all products

  int64_t slice() const { return batch * s.heads + head; }
  int64_t kv_slice() const { return batch * s.kv_heads + head / s.Group(); }
  int64_t At(const MatrixSlices& m, int64_t key) const { return m.At(slice(), query, key); }

  bool Hidden(int64_t key) const {
    return key < s.FirstKey(query) || key >= s.EndKey(query) ||
           (s.mask && !operands[4].as<uint8_t>()[At(*s.mask, key)]);
  }
  MixedFactor Operand(size_t i) const { return {factors, factors, operands[i].as<void>()}; }
  // A number that is computed, as a factor of a product.
  double Factor(double x) const { return factors == DType::kBFloat16 ? Rounded(static_cast<float>(x)) : x; }
  // scale q k, before softcap and bias
  double Product(int64_t key) const {
    const MixedFactor q = Operand(0), k = Operand(1);
    double sum_qk = 0;
    for (int64_t d = 0; d < s.depth; ++d)
      sum_qk += double{q[s.q.At(slice(), query, d)]} * k[s.k.At(kv_slice(), key, d)];
    return s.scale * sum_qk;
  }
  double Score(int64_t key) const {
    if (Hidden(key)) return -std::numeric_limits<double>::infinity();
    double score = Product(key);
    if (s.softcap > 0) score = s.softcap * std::tanh(score / s.softcap);
    return s.bias ? score + operands[3].as<float>()[At(*s.bias, key)] : score;
  }
  void Normalize() {
    max = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < s.keys; ++j) max = std::fmax(max, Score(j));
    for (int64_t j = 0; j < s.keys; ++j) sum += std::exp(Score(j) - max);
  }
  bool Empty() const { return max == -std::numeric_limits<double>::infinity() && std::isnan(sum); }
  // A key's probability is Weight times Normalizer.
  double Weight(int64_t key) const {
    if (Empty() && s.empty_row == EmptyRow::kMean) return 1;
    if (Empty() && s.empty_row == EmptyRow::kZero) return 0;
    return std::exp(Score(key) - max);
  }
  double Normalizer() const {
    if (s.keys == 0) return 1;  // of a sum of nothing
    if (Empty() && s.empty_row == EmptyRow::kMean) return 1 / static_cast<double>(s.keys);
    return Empty() && s.empty_row == EmptyRow::kZero ? 1 : 1 / sum;
  }
  double Probability(int64_t key) const { return Weight(key) * Normalizer(); }
  // 1 / (1 - probability) if dropout keeps the pair, else 0
  double Kept(int64_t key) const {
    if (s.dropout == 0) return 1;
    const RandomStream random{state.seed, state.step, static_cast<uint32_t>(s.stream)};
    const int64_t element = (head * s.queries + query) * s.keys + key;
    const bool keep = Random32(random, first_batch + batch, s.heads * s.queries * s.keys, element) >=
                      DropoutThreshold(s.dropout);
    return keep ? 1 / (1 - double{s.dropout}) : 0;
  }
};

std::unique_ptr<Kernel> Attention(const KernelSite& site, std::string* why) {
  const auto shape = AttentionShapeOf(site, 0, site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const TensorView& o = args.outputs[0];
#pragma omp parallel for collapse(3)
    for (int64_t b = 0; b < s.batches; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          Row row{s, args.inputs, *args.state, b, h, i, s.FirstBatch(args)};
          row.Normalize();
          for (int64_t d = 0; d < s.value_depth; ++d) {
            double sum = 0;
            for (int64_t j = 0; j < s.keys; ++j)
              sum += row.Factor(row.Weight(j) * row.Kept(j)) * row.Operand(2)[s.v.At(row.kv_slice(), j, d)];
            WriteMixed(o.dtype, o.as<void>(), s.o.At(row.slice(), i, d),
                       static_cast<float>(sum * row.Normalizer()));
          }
        }
    return "";
  });
}

// p = softmax(score), o = (p kept) v. With dp = kept (do v^T), and c the slope of softcap:
//   dscore = p (dp - sum_j p dp), dv = (p kept)^T do,
//   dq = scale c dscore k, dk = scale c dscore^T q.
// Gradients are added up in float32, row after row, apart from the results, which may lie where q, k and v do.
std::unique_ptr<Kernel> AttentionGrad(const KernelSite& site, std::string* why) {
  const auto shape = AttentionShapeOf(site, 1, site.inputs[0], why);
  if (!shape) return nullptr;
  if (site.inputs[0].dtype != site.inputs[1].dtype) return Refuse(why, "do and q must have one type");
  if (!GradientsFit(*shape, std::span(site.inputs).subspan(1), site.outputs, why)) return nullptr;
  auto sums = std::make_shared<std::vector<std::vector<float>>>();
  for (const TensorView& result : site.outputs) sums->emplace_back(static_cast<size_t>(result.elements));
  return MakeKernel([s = *shape, sums](const KernelArgs& args) -> std::string {
    const std::span<const TensorView> in = args.inputs.subspan(1);
    for (std::vector<float>& sum : *sums) std::fill(sum.begin(), sum.end(), 0.0f);
    const auto gradient = [&](size_t operand) {
      const size_t i = s.GradientOf(operand);
      return i < sums->size() ? (*sums)[i].data() : nullptr;
    };
    float *dq = gradient(0), *dk = gradient(1), *dv = gradient(2), *d_bias = gradient(3);
    for (int64_t b = 0; b < s.batches; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          Row row{s, in, *args.state, b, h, i, s.FirstBatch(args)};
          const MixedFactor q = row.Operand(0), k = row.Operand(1), v = row.Operand(2);
          const MixedFactor d_out(row.factors, row.factors, args.inputs[0].as<void>());
          row.Normalize();
          const auto d_probability = [&](int64_t j) {
            double sum = 0;
            for (int64_t d = 0; d < s.value_depth; ++d)
              sum += double{d_out[s.o.At(row.slice(), i, d)]} * v[s.v.At(row.kv_slice(), j, d)];
            return sum * row.Kept(j);
          };
          double mean = 0;
          for (int64_t j = 0; j < s.keys; ++j) mean += row.Probability(j) * d_probability(j);
          for (int64_t j = 0; j < s.keys; ++j) {
            const double p = row.Probability(j), kept = row.Factor(p * row.Kept(j));
            for (int64_t d = 0; d < s.value_depth; ++d)
              dv[s.v.At(row.kv_slice(), j, d)] += static_cast<float>(kept * d_out[s.o.At(row.slice(), i, d)]);
            if (row.Hidden(j) && !s.hidden_gradient) continue;
            double d_score = p * (d_probability(j) - mean);
            if (d_bias) d_bias[row.At(*s.bias, j)] += static_cast<float>(d_score);
            if (s.softcap > 0) {
              const double t = std::tanh(row.Product(j) / s.softcap);
              d_score *= 1 - t * t;
            }
            d_score = row.Factor(d_score * s.scale);
            for (int64_t d = 0; d < s.depth; ++d) {
              const int64_t at_q = s.q.At(row.slice(), i, d), at_k = s.k.At(row.kv_slice(), j, d);
              dq[at_q] += static_cast<float>(d_score * k[at_k]);
              dk[at_k] += static_cast<float>(d_score * q[at_q]);
            }
          }
        }
    for (size_t i = 0; i < args.outputs.size(); ++i)
      WriteFromFloat(args.outputs[i].dtype, (*sums)[i].data(), args.outputs[i].elements,
                     args.outputs[i].as<void>());
    return "";
  });
}

}  // namespace

void RegisterReferenceAttention(KernelRegistry& registry) {
  registry.Add("Attention", {"reference.attention", Attention});
  registry.Add("AttentionGrad", {"reference.attention_grad", AttentionGrad});
}

}  // namespace act
