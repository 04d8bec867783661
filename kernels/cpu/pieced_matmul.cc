// Products of a bfloat16 factor and a float32 weight that is too large to be rounded whole: the last layer of a
// language model, whose columns are its words. A piece of the weight is rounded into the workspace and multiplied by
// oneDNN, then the next one. Pieces are columns of the result, or where the sum is longer than the result is wide (the
// gradient of that layer's input), parts of the sum, which are added in float32.
#include <algorithm>

#include "kernels/cpu/convert_bfloat16.h"
#include "kernels/cpu/cut.h"
#include "kernels/cpu/instructions.h"
#include "kernels/cpu/matmul.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

using dnnl::memory;

constexpr auto kF32 = memory::data_type::f32, kBF16 = memory::data_type::bf16;

// The product of some rows of a and a piece of b.
struct Part {
  DnnlCall round, product;
  size_t from = 0, rounded_to = 0, a = 0, b = 0, y = 0, bias = 0, scratch = 0;
  int64_t rounded_bytes = 0, scratch_bytes = 0;
};

struct PiecedProduct {
  MatMulShape s;
  bool of_sum = false;  // pieces are parts of the sum, not columns
  DType y = DType::kFloat32;
  bool has_bias = false;
  int threads = 1;
  Cut rows = {}, pieces = {};
  // Of each length of rows and, within it, of pieces.
  std::vector<std::vector<Part>> parts = {};
  int64_t sums_bytes = 0;  // float32 sums of `rows`, if the result is bfloat16

  int64_t PartBytes() const {
    int64_t bytes = 0;
    for (const auto& of_rows : parts)
      for (const Part& part : of_rows) bytes = std::max(bytes, part.rounded_bytes + part.scratch_bytes);
    return bytes;
  }
};

class PiecedMatMul final : public Kernel {
 public:
  explicit PiecedMatMul(PiecedProduct product) : p_(std::move(product)), part_bytes_(p_.PartBytes()) {}
  int64_t WorkspaceBytes() const override { return p_.sums_bytes + part_bytes_; }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return std::string(p_.of_sum ? "sums" : "columns") + " by " + std::to_string(p_.pieces.length) + ", " +
           std::to_string(p_.threads) + " threads, " + WorkspaceText(WorkspaceBytes());
  }

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(p_.threads);
    const auto* a = args.inputs[0].as<const BFloat16>();
    const auto* b = args.inputs[1].as<const float>();
    const float* bias = p_.has_bias ? args.inputs[2].as<const float>() : nullptr;
    auto* const y = args.outputs[0].as<std::byte>();
    auto* const sums = args.workspace.data.as<float>();
    std::byte* const scratch = args.workspace.data.as<std::byte>() + p_.sums_bytes;
    const int64_t y_bytes = ByteSize(p_.y);
    for (int64_t row = 0; row < p_.rows.whole; row += p_.rows.length) {
      const int64_t rows = p_.rows.LengthAt(row);
      std::byte* const y_rows = y + row * p_.s.n * y_bytes;
      float* const to_add = p_.sums_bytes > 0 ? sums : reinterpret_cast<float*>(y_rows);
      if (p_.of_sum) Begin(bias, rows, to_add);
      for (int64_t at = 0; at < p_.pieces.whole; at += p_.pieces.length) {
        Part& part = p_.parts[rows == p_.rows.LengthAt(0) ? 0 : 1]
                             [p_.pieces.LengthAt(at) == p_.pieces.LengthAt(0) ? 0 : 1];
        part.round.Set(part.from, b + at * (p_.of_sum ? p_.s.b_k : p_.s.b_n));
        part.round.Set(part.rounded_to, scratch);
        if (std::string error = part.round.Run(); !error.empty()) return error;
        part.product.Set(part.a, a + row * p_.s.a_m + (p_.of_sum ? at * p_.s.a_k : 0));
        part.product.Set(part.b, scratch);
        part.product.Set(part.y, p_.of_sum ? static_cast<void*>(to_add) : y_rows + at * y_bytes);
        if (!p_.of_sum && bias) part.product.Set(part.bias, bias + at);
        part.product.Set(part.scratch, scratch + part.rounded_bytes);
        if (std::string error = part.product.Run(); !error.empty()) return error;
      }
      if (p_.sums_bytes > 0)
        RoundToBFloat16(sums, rows * p_.s.n, reinterpret_cast<BFloat16*>(y_rows), p_.threads);
    }
    return "";
  }

 private:
  // The sums before the first piece.
  void Begin(const float* bias, int64_t rows, float* sums) const {
    for (int64_t r = 0; r < rows; ++r, sums += p_.s.n)
      if (bias)
        std::copy(bias, bias + p_.s.n, sums);
      else
        std::fill(sums, sums + p_.s.n, 0.0F);
  }

  PiecedProduct p_;
  int64_t part_bytes_;
};

// Nullopt if oneDNN has no implementation that needs at most `limit` bytes.
std::optional<Part> MakePart(const DnnlContext& context, const PiecedProduct& p, int64_t rows, int64_t length,
                             int64_t limit, std::string* reason) {
  const MatMulShape& s = p.s;
  const int64_t k = p.of_sum ? length : s.k, n = p.of_sum ? s.n : length;
  const memory::desc a = DnnlMatrix(kBF16, s.a_batch, rows, k, s.a_m, s.a_k);
  const memory::desc plain = DnnlMatrix(kF32, s.b_batch, k, n, s.b_k, s.b_n);
  const memory::desc any(plain.get_dims(), kBF16, memory::format_tag::any);
  const memory::desc y =
      DnnlMatrix(!p.of_sum && p.y == DType::kBFloat16 ? kBF16 : kF32, DnnlResultBatch(s), rows, n, s.n, 1);
  const bool biased = p.has_bias && !p.of_sum;
  const memory::desc bias = biased ? DnnlMatrix(kF32, DnnlOneMatrix(s), 1, n, n, 1) : memory::desc();
  dnnl::matmul::primitive_desc desc(context.engine, a, any, bias, y, ProductAttributes(p.of_sum));
  Part part;
  const auto bytes = [&part](const auto& d) {
    part.rounded_bytes = AlignedBytes(d.weights_desc());
    part.scratch_bytes = AlignedBytes(d.scratchpad_desc());
    return part.rounded_bytes + part.scratch_bytes;
  };
  if (!MoveToFirstThatFits(desc, bytes, limit, reason)) return std::nullopt;
  const memory::desc rounded = desc.weights_desc();
  part.product = DnnlCall(context, dnnl::matmul(desc));
  part.a = part.product.Bind(DNNL_ARG_SRC, desc.src_desc());
  part.b = part.product.Bind(DNNL_ARG_WEIGHTS, rounded);
  part.y = part.product.Bind(DNNL_ARG_DST, y);
  if (biased) part.bias = part.product.Bind(DNNL_ARG_BIAS, bias);
  part.scratch = part.product.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  part.round = DnnlCall(
      context, dnnl::reorder(dnnl::reorder::primitive_desc(context.engine, plain, context.engine, rounded)));
  part.from = part.round.Bind(DNNL_ARG_FROM, plain);
  part.rounded_to = part.round.Bind(DNNL_ARG_TO, rounded);
  return part;
}

// False if a part does not fit in the site's workspace.
bool AddParts(const DnnlContext& context, int64_t workspace_bytes, PiecedProduct& p, std::string* reason) {
  p.parts.clear();
  for (const int64_t rows : p.rows.Lengths()) {
    p.parts.emplace_back();
    for (const int64_t length : p.pieces.Lengths()) {
      std::optional<Part> part = MakePart(context, p, rows, length, workspace_bytes - p.sums_bytes, reason);
      if (!part) return false;
      p.parts.back().push_back(std::move(*part));
    }
  }
  return true;
}

std::unique_ptr<Kernel> Create(const DnnlContext& context, const KernelSite& site, std::string* why) {
  const TensorView &a = site.inputs[0], &b = site.inputs[1], &y = site.outputs[0];
  const auto shape = MixedMatMulShapeOf(site.node->attrs, a, b, y, why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  if (a.dtype != DType::kBFloat16 || b.dtype != DType::kFloat32)
    return Refuse(why, "needs a bfloat16 factor and a float32 one after it");
  if (!HasIsa(dnnl::cpu_isa::avx512_core_bf16))
    return Refuse(why, "the processor has no bfloat16 arithmetic");
  if (b.bytes / 2 <= kRoundedFactorBytes) return Refuse(why, "the factor can be rounded whole");
  if (a.elements == 0 || y.elements == 0) return Refuse(why, "an empty tensor");
  if (site.goes_on) return Refuse(why, "does not go on from a sum");
  PiecedProduct p{.s = Folded(*shape), .y = y.dtype, .has_bias = OptionalInput(site.inputs, 2) != nullptr};
  if (p.s.Batches() != 1) return Refuse(why, "several products");
  p.of_sum = p.s.k > p.s.n;
  const int64_t whole = p.of_sum ? p.s.k : p.s.n, other = p.of_sum ? p.s.n : p.s.k;
  p.pieces = {whole, kRoundedFactorBytes / 2 / ((other + 63) / 64 * 64) / 64 * 64};
  if (p.pieces.length == 0) return Refuse(why, "a row of the factor is too large");
  p.rows = {p.s.m, p.s.m};
  if (p.of_sum && p.y == DType::kBFloat16) {
    p.rows.length = std::clamp<int64_t>(kRoundedSumBytes / (p.s.n * int64_t{sizeof(float)}), 1, p.s.m);
    p.sums_bytes = (p.rows.length * p.s.n * int64_t{sizeof(float)} + 63) / 64 * 64;
  }
  std::string reason = "oneDNN has no fast implementation";
  try {
    for (const int threads : ThreadLadder(site.threads)) {
      const ThreadScope scope(threads);
      p.threads = threads;
      if (AddParts(context, site.workspace_bytes, p, &reason))
        return std::make_unique<PiecedMatMul>(std::move(p));
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

}  // namespace

void RegisterPiecedMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  registry.Add("MatMul", {"dnnl.pieced_matmul", [context](const KernelSite& site, std::string* why) {
                            return Create(*context, site, why);
                          }});
}

}  // namespace act
