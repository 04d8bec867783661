#include "kernels/cuda/step_product.h"

#include <algorithm>
#include <numeric>

#include "kernels/cuda/column_plan.h"

namespace act::cuda {

StepProduct::StepProduct(const CudaContext& context, const Shape& s, int64_t workspace_bytes)
    : context_(&context) {
  const int64_t row_bytes = std::gcd(s.lead_a, std::gcd(s.lead_b, s.k)) * int64_t{sizeof(float)};
  const ProductProblem problem{.m = s.m,
                               .n = s.n,
                               .k = s.k,
                               .trans_b = s.transposed,
                               .lead_a = std::max(s.lead_a, s.k),
                               .lead_b = s.lead_b,
                               .lead_c = s.n,
                               .alignment = std::gcd(int64_t{16}, row_bytes),
                               .math = context.product_math,
                               .accumulates = s.adds};
  std::string why;
  if (workspace_bytes >= 0) call_ = context.toolkit.products().Choose(problem, workspace_bytes, &why);
  if (call_) return;
  ProductParameters& p = parameters_;
  p.goes_on = s.adds;
  p.m = static_cast<int32_t>(s.m);
  p.n = static_cast<int32_t>(s.n);
  p.k = static_cast<int32_t>(s.k);
  p.a_m = s.lead_a;
  p.a_k = 1;
  p.b_k = s.transposed ? 1 : s.lead_b;
  p.b_n = s.transposed ? s.lead_b : 1;
  const int64_t rows = DivideUp(s.m, kTile), columns = DivideUp(s.n, kTile);
  p.tiles_m = DivisorOf(rows);
  p.tiles_n = DivisorOf(columns);
  blocks_ = rows * columns;
  tiles_.emplace(
      context, "product", "ProductParameters", "product",
      "Product" + TemplateArguments("true", s.transposed ? "false" : "true", "float", "float", "float"));
}

Status StepProduct::Enqueue(const float* a, const float* b, float* c, std::byte* workspace) const {
  const auto bytes = [](const float* x) { return reinterpret_cast<std::byte*>(const_cast<float*>(x)); };
  if (call_) {
    std::byte* const operands[4] = {bytes(a), bytes(b), bytes(c), nullptr};
    return call_->Enqueue(context_->stream, operands, workspace);
  }
  ProductParameters p = parameters_;
  p.a = a;
  p.b = b;
  p.y = c;
  return tiles_->Launch(blocks_, p);
}

}  // namespace act::cuda
