// Operators along one axis, parallel over rows.
#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/sequences_shape.h"

namespace act {
namespace {

// The best k so far form a heap in the result's own row, with the worst of them on top.
template <class T>
void TopKRow(const TopKShape& s, const T* row, int64_t* index) {
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
    int64_t* index = args.outputs[0].as<int64_t>();
    WithNumberType(args.inputs[0].dtype, [&](auto type) {
      const auto* x = args.inputs[0].as<decltype(type)>();
#pragma omp parallel for schedule(static) if (s.rows * s.extent > kParallelElements)
      for (int64_t r = 0; r < s.rows; ++r) TopKRow(s, x + r * s.extent, index + r * s.k);
    });
    return "";
  });
}

// Columns that are summed at the same time.
constexpr int64_t kColumns = 32;

template <class T>
void CumSumColumns(const CumSumShape& s, const T* x, T* y, int64_t columns) {
  using Sum = RunningSum<T>;
  Sum sum[kColumns] = {};
  for (int64_t i = 0; i < s.extent; ++i) {
    const int64_t at = (s.reverse ? s.extent - 1 - i : i) * s.inner;
    for (int64_t c = 0; c < columns; ++c) {
      const Sum before = sum[c];
      sum[c] += static_cast<Sum>(x[at + c]);
      y[at + c] = static_cast<T>(s.exclusive ? before : sum[c]);
    }
  }
}

std::unique_ptr<Kernel> CumSum(const KernelSite& site, std::string* why) {
  const auto shape = CumSumShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    WithNumberType(args.inputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      const T* x = args.inputs[0].as<T>();
      T* y = args.outputs[0].as<T>();
      const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
#pragma omp parallel for schedule(static) if (s.outer * s.extent * s.inner > kParallelElements)
      for (int64_t task = 0; task < s.outer * blocks; ++task) {
        const int64_t first = task % blocks * kColumns;
        const int64_t at = task / blocks * s.extent * s.inner + first;
        CumSumColumns(s, x + at, y + at, std::min(kColumns, s.inner - first));
      }
    });
    return "";
  });
}

}  // namespace

void RegisterCpuSequences(KernelRegistry& registry) {
  registry.Add("TopK", {"cpu.topk", TopK});
  registry.Add("CumSum", {"cpu.cumsum", CumSum});
}

}  // namespace act
