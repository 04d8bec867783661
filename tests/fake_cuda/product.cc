#include <algorithm>

#include "tests/fake_cuda/libraries.h"

namespace act::fake {
namespace {

using cuda::ProductProblem;

// Floats from the first to the last element of `batch` matrices.
int64_t Extent(int64_t batch, int64_t stride, int64_t rows, int64_t columns, int64_t lead) {
  if (batch == 0 || rows == 0 || columns == 0) return 0;
  return (batch - 1) * stride + (rows - 1) * lead + columns;
}

void Multiply(const ProductProblem& p, const float* a, const float* b, float* c, const float* bias) {
  const auto n = static_cast<size_t>(p.n);
  std::vector<double> right(static_cast<size_t>(p.k) * n), sums(n);  // op(b), a row of c
  for (int64_t batch = 0; batch < p.batch; ++batch, a += p.stride_a, b += p.stride_b, c += p.stride_c) {
    for (int64_t k = 0; k < p.k; ++k)
      for (int64_t j = 0; j < p.n; ++j)
        right[static_cast<size_t>(k * p.n + j)] =
            double{p.trans_b ? b[j * p.lead_b + k] : b[k * p.lead_b + j]};
    for (int64_t i = 0; i < p.m; ++i) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t k = 0; k < p.k; ++k) {
        const double factor = double{p.trans_a ? a[k * p.lead_a + i] : a[i * p.lead_a + k]};
        const double* row = right.data() + k * p.n;
        for (size_t j = 0; j < n; ++j) sums[j] += factor * row[j];
      }
      float* const to = c + i * p.lead_c;
      for (size_t j = 0; j < n; ++j)
        to[j] = static_cast<float>(sums[j] + double{bias ? bias[j] : p.accumulates ? to[j] : 0.0f});
    }
  }
}

}  // namespace

std::unique_ptr<cuda::LibraryCall> Products::Choose(const ProductProblem& p, int64_t limit,
                                                    std::string* why) {
  if (options_.no_products) {
    *why = "the environment asks the fake to refuse products";
    return nullptr;
  }
  if (p.lead_a < (p.trans_a ? p.m : p.k) || p.lead_b < (p.trans_b ? p.k : p.n) || p.lead_c < p.n) {
    *why = "rows are longer than the distance from one to the next";
    return nullptr;
  }
  if (p.bfloat16_result && (p.has_bias || p.math != cuda::FloatMath::kBFloat16)) {
    *why = "a bfloat16 result with a bias, or of float32";
    return nullptr;
  }
  LoopCall call;
  call.name = "product";
  call.alignment = p.alignment;
  call.floats[0] = Extent(p.batch, p.stride_a, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lead_a);
  call.floats[1] = Extent(p.batch, p.stride_b, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.lead_b);
  call.floats[2] = Extent(p.batch, p.stride_c, p.m, p.n, p.lead_c);
  call.floats[3] = p.has_bias ? p.n : 0;
  call.bfloat16[0] = call.bfloat16[1] = p.math == cuda::FloatMath::kBFloat16;
  call.bfloat16[2] = p.bfloat16_result;
  call.compute = [p](float* const operands[4]) {
    Multiply(p, operands[0], operands[1], operands[2], operands[3]);
  };
  return MakeCall(driver_, std::move(call), options_.library_workspace_bytes, limit, why);
}

}  // namespace act::fake
