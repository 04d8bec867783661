// Matrix products of bfloat16 factors by oneDNN. A float32 factor, in general a weight, is rounded
// into the workspace, in the layout that the product likes best.
#include <algorithm>

#include "kernels/cpu/instructions.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pair_product.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

using dnnl::memory;

constexpr auto kF32 = memory::data_type::f32, kBF16 = memory::data_type::bf16;

// A product, and what it needs of the workspace: the rounded factor first, then oneDNN's scratch.
struct Product {
  MatMulShape s;                       // folded
  std::optional<size_t> rounded = {};  // the operand that is rounded
  DType y = DType::kFloat32;
  bool has_bias = false, adds = false;
  int threads = 1;
  std::string name = {};
  int64_t rounded_bytes = 0, scratch_bytes = 0;
  DnnlCall round = {}, product = {};
  size_t from = 0, to = 0, factors[2] = {}, result = 0, bias = 0, scratch = 0;

  int64_t Bytes() const { return rounded_bytes + scratch_bytes; }
};

class DnnlBFloat16MatMul final : public Kernel {
 public:
  // `adding`: where tiles go on from a sum.
  DnnlBFloat16MatMul(Product product, std::optional<Product> adding)
      : p_(std::move(product)), adding_(std::move(adding)) {}
  int64_t WorkspaceBytes() const override { return std::max(p_.Bytes(), adding_ ? adding_->Bytes() : 0); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return p_.name + ", " + std::to_string(p_.threads) + " threads, " + WorkspaceText(WorkspaceBytes());
  }

  std::string Run(const KernelArgs& args) override {
    Product& p = args.goes_on ? *adding_ : p_;
    const ThreadScope scope(p.threads);
    auto* scratch = args.workspace.data.as<std::byte>();
    if (p.rounded) {
      p.round.Set(p.from, args.inputs[*p.rounded].as<void>());
      p.round.Set(p.to, scratch);
      if (std::string error = p.round.Run(); !error.empty()) return error;
    }
    for (const size_t i : {size_t{0}, size_t{1}})
      p.product.Set(p.factors[i], p.rounded == i ? scratch : args.inputs[i].as<void>());
    p.product.Set(p.result, args.outputs[0].as<void>());
    if (p.has_bias) p.product.Set(p.bias, args.inputs[2].as<void>());
    p.product.Set(p.scratch, scratch + p.rounded_bytes);
    return p.product.Run();
  }

 private:
  Product p_;
  std::optional<Product> adding_;
};

// Adds the primitives to `p`, for the current number of threads. False if oneDNN has none that need
// at most `limit` bytes.
bool AddPrimitives(const DnnlContext& context, int64_t limit, Product& p, std::string* reason) {
  const MatMulShape& s = p.s;
  const memory::desc plain[] = {DnnlMatrix(p.rounded == 0 ? kF32 : kBF16, s.a_batch, s.m, s.k, s.a_m, s.a_k),
                                DnnlMatrix(p.rounded == 1 ? kF32 : kBF16, s.b_batch, s.k, s.n, s.b_k, s.b_n)};
  memory::desc wanted[] = {plain[0], plain[1]};
  if (p.rounded)
    wanted[*p.rounded] = memory::desc(plain[*p.rounded].get_dims(), kBF16, memory::format_tag::any);
  const memory::desc y =
      DnnlMatrix(p.y == DType::kBFloat16 ? kBF16 : kF32, DnnlResultBatch(s), s.m, s.n, s.n, 1);
  const memory::desc bias = p.has_bias ? DnnlMatrix(kF32, DnnlOneMatrix(s), 1, s.n, s.n, 1) : memory::desc();
  dnnl::matmul::primitive_desc desc(context.engine, wanted[0], wanted[1], bias, y, ProductAttributes(p.adds));
  const auto bytes = [&p](const auto& d) {
    p.rounded_bytes = p.rounded ? AlignedBytes(*p.rounded == 0 ? d.src_desc() : d.weights_desc()) : 0;
    p.scratch_bytes = AlignedBytes(d.scratchpad_desc());
    return p.Bytes();
  };
  if (!MoveToFirstThatFits(desc, bytes, limit, reason)) return false;
  p.name = desc.impl_info_str();
  const memory::desc taken[] = {desc.src_desc(), desc.weights_desc()};
  p.product = DnnlCall(context, dnnl::matmul(desc));
  p.factors[0] = p.product.Bind(DNNL_ARG_SRC, taken[0]);
  p.factors[1] = p.product.Bind(DNNL_ARG_WEIGHTS, taken[1]);
  p.result = p.product.Bind(DNNL_ARG_DST, y);
  if (p.has_bias) p.bias = p.product.Bind(DNNL_ARG_BIAS, bias);
  p.scratch = p.product.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  if (!p.rounded) return true;
  const memory::desc &from = plain[*p.rounded], &to = taken[*p.rounded];
  p.round = DnnlCall(context,
                     dnnl::reorder(dnnl::reorder::primitive_desc(context.engine, from, context.engine, to)));
  p.from = p.round.Bind(DNNL_ARG_FROM, from);
  p.to = p.round.Bind(DNNL_ARG_TO, to);
  return true;
}

std::unique_ptr<Kernel> Create(const DnnlContext& context, const KernelSite& site, std::string* why) {
  const TensorView &a = site.inputs[0], &b = site.inputs[1], &y = site.outputs[0];
  const auto shape = MixedMatMulShapeOf(site.node->attrs, a, b, y, why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  if (a.dtype != DType::kBFloat16 && b.dtype != DType::kBFloat16) return Refuse(why, "no bfloat16 factor");
  if (!HasIsa(dnnl::cpu_isa::avx512_core_bf16))
    return Refuse(why, "the processor has no bfloat16 arithmetic");
  if (a.elements == 0 || b.elements == 0 || y.elements == 0) return Refuse(why, "an empty tensor");
  Product p{.s = Folded(*shape), .y = y.dtype, .has_bias = OptionalInput(site.inputs, 2) != nullptr};
  if (a.dtype != b.dtype) p.rounded = a.dtype == DType::kFloat32 ? 0 : 1;
  std::string reason = "oneDNN has no fast implementation";
  try {
    for (const int threads : ThreadLadder(site.threads)) {
      const ThreadScope scope(threads);
      p.threads = threads;
      if (!AddPrimitives(context, site.workspace_bytes, p, &reason)) continue;
      std::optional<Product> adding;
      if (site.goes_on) {
        adding.emplace(Product{.s = p.s, .rounded = p.rounded, .y = p.y, .adds = true, .threads = threads});
        if (!AddPrimitives(context, site.workspace_bytes, *adding, &reason)) continue;
      }
      return std::make_unique<DnnlBFloat16MatMul>(std::move(p), std::move(adding));
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

}  // namespace

bool DnnlBFloat16IsFast() {
  return HasIsa(dnnl::cpu_isa::avx512_core_amx) ||
         (HasIsa(dnnl::cpu_isa::avx512_core_bf16) && MultipliesPairsFast());
}

void RegisterDnnlBFloat16MatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  registry.Add("MatMul", {"dnnl.bfloat16_matmul", [context](const KernelSite& site, std::string* why) {
                            return Create(*context, site, why);
                          }});
}

}  // namespace act
