// Operators along one axis, parallel over rows.
#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/sequences_shape.h"

namespace act {
namespace {

// The best k so far form a heap in the result's own row, with the worst of them on top.
void TopKRow(const TopKShape& s, const float* row, int64_t* index) {
  const auto before = [&s, row](int64_t a, int64_t b) { return s.Before(row, a, b); };
  for (int64_t i = 0; i < s.k; ++i) index[i] = i;
  std::make_heap(index, index + s.k, before);
  for (int64_t i = s.k; i < s.extent; ++i) {
    if (!before(i, index[0])) continue;
    std::pop_heap(index, index + s.k, before);
    index[s.k - 1] = i;
    std::push_heap(index, index + s.k, before);
  }
  std::sort_heap(index, index + s.k, before);
}

std::unique_ptr<Kernel> TopK(const KernelSite& site, std::string* why) {
  const auto shape = TopKShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    if (s.k == 0) return "";
    const float* x = args.inputs[0].as<float>();
    int64_t* index = args.outputs[0].as<int64_t>();
#pragma omp parallel for schedule(static) if (s.rows * s.extent > kParallelElements)
    for (int64_t r = 0; r < s.rows; ++r) TopKRow(s, x + r * s.extent, index + r * s.k);
    return "";
  });
}

// Columns that are summed at the same time, in double.
constexpr int64_t kColumns = 32;

void CumSumColumns(const CumSumShape& s, const float* x, float* y, int64_t columns) {
  double sum[kColumns] = {};
  for (int64_t i = 0; i < s.extent; ++i) {
    const int64_t at = (s.reverse ? s.extent - 1 - i : i) * s.inner;
    for (int64_t c = 0; c < columns; ++c) {
      const double before = sum[c];
      sum[c] += x[at + c];
      y[at + c] = static_cast<float>(s.exclusive ? before : sum[c]);
    }
  }
}

std::unique_ptr<Kernel> CumSum(const KernelSite& site, std::string* why) {
  const auto shape = CumSumShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
#pragma omp parallel for schedule(static) if (s.outer * s.extent * s.inner > kParallelElements)
    for (int64_t task = 0; task < s.outer * blocks; ++task) {
      const int64_t first = task % blocks * kColumns;
      const int64_t at = task / blocks * s.extent * s.inner + first;
      CumSumColumns(s, x + at, y + at, std::min(kColumns, s.inner - first));
    }
    return "";
  });
}

}  // namespace

void RegisterCpuSequences(KernelRegistry& registry) {
  registry.Add("TopK", {"cpu.topk", TopK});
  registry.Add("CumSum", {"cpu.cumsum", CumSum});
}

}  // namespace act
