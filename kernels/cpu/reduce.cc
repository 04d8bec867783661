#include <cmath>
#include <limits>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/reduce_shape.h"
#include "kernels/site/rows.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

enum class Op { kSum, kMean, kMax };

double Initial(Op op) { return op == Op::kMax ? -std::numeric_limits<double>::infinity() : 0; }
inline double Max(double a, double b) { return b > a || b != b ? b : a; }
double Combine(Op op, double a, double b) { return op == Op::kMax ? Max(a, b) : a + b; }

// acc[c] = acc[c] + x[c], or their maximum
template <class T>
ACT_IN_CLONES void AddColumnsOf(const T* x, int64_t count, double* acc) {
  for (int64_t c = 0; c < count; ++c) acc[c] += ToFloat(x[c]);
}
template <class T>
ACT_IN_CLONES void MaxColumnsOf(const T* x, int64_t count, double* acc) {
  for (int64_t c = 0; c < count; ++c) {
    const float v = ToFloat(x[c]);
    acc[c] = v > acc[c] || v != v ? v : acc[c];
  }
}
// The sum of a row in 16 lanes. It vectorises, and its order of additions is the same in any build.
template <class T>
ACT_IN_CLONES double SumRowOf(const T* x, int64_t count) {
  double lanes[16] = {}, sum = 0;
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
#pragma omp simd
    for (int l = 0; l < 16; ++l) lanes[l] += ToFloat(x[i + l]);
  for (; i < count; ++i) sum += ToFloat(x[i]);
  for (double lane : lanes) sum += lane;
  return sum;
}
template <class T>
ACT_IN_CLONES double MaxRowOf(const T* x, int64_t count) {
  float lanes[16];
  double max = Initial(Op::kMax);
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
#pragma omp simd
    for (int l = 0; l < 16; ++l) {
      const float v = ToFloat(x[i + l]);
      const bool wins = (v > lanes[l]) | (v != v);
      lanes[l] = wins ? v : lanes[l];
    }
  for (; i < count; ++i) max = Max(max, ToFloat(x[i]));
  for (float lane : lanes) max = Max(max, lane);
  return max;
}

#define ACT_REDUCE_LOOPS(T)                                                                                  \
  ACT_VECTOR_CLONES void AddColumns(const T* x, int64_t count, double* acc) { AddColumnsOf(x, count, acc); } \
  ACT_VECTOR_CLONES void MaxColumns(const T* x, int64_t count, double* acc) { MaxColumnsOf(x, count, acc); } \
  ACT_VECTOR_CLONES double SumRow(const T* x, int64_t count) { return SumRowOf(x, count); }                  \
  ACT_VECTOR_CLONES double MaxRow(const T* x, int64_t count) { return MaxRowOf(x, count); }
ACT_REDUCE_LOOPS(float)
ACT_REDUCE_LOOPS(BFloat16)
#undef ACT_REDUCE_LOOPS

// The last axis of x is reduced: each output is one number.
template <class T>
void ReduceRows(Op op, const Strided& kept, const Rows& reduced, double scale, const T* x, float* y) {
  const int64_t outputs = kept.Elements(), rows = reduced.outer.Elements();
#pragma omp parallel for schedule(static) if (outputs * rows * reduced.length > kParallelElements)
  for (int64_t i = 0; i < outputs; ++i) {
    const T* from = x + kept.At(i);
    double acc = Initial(op);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = from + reduced.outer.At(r);
      acc = Combine(op, acc, op == Op::kMax ? MaxRow(row, reduced.length) : SumRow(row, reduced.length));
    }
    y[i] = static_cast<float>(acc * scale);
  }
}

constexpr int64_t kColumns = 256;  // accumulators at a time: 2 KiB

// acc[0..count) over rows begin..end-1 of `reduced`, from x.
template <class T>
void ReduceColumnBlock(Op op, const Strided& reduced, const T* x, int64_t begin, int64_t end, int64_t count,
                       double* acc) {
  std::fill_n(acc, count, Initial(op));
  for (int64_t r = begin; r < end; ++r) {
    const T* row = x + reduced.At(r);
    if (op == Op::kMax)
      MaxColumns(row, count, acc);
    else
      AddColumns(row, count, acc);
  }
}

// The last axis of x is kept: columns of outputs, each the reduction of rows.
template <class T>
void ReduceColumns(Op op, const Rows& kept, const Strided& reduced, double scale, const T* x, float* y) {
  const int64_t blocks = (kept.length + kColumns - 1) / kColumns, work = kept.outer.Elements() * blocks;
#pragma omp parallel for schedule(static) if (work * kColumns * reduced.Elements() > kParallelElements)
  for (int64_t w = 0; w < work; ++w) {
    const int64_t outer = w / blocks, at = w % blocks * kColumns,
                  count = std::min(kColumns, kept.length - at);
    double acc[kColumns];
    ReduceColumnBlock(op, reduced, x + kept.outer.At(outer) + at, 0, reduced.Elements(), count, acc);
    for (int64_t c = 0; c < count; ++c) y[outer * kept.length + at + c] = static_cast<float>(acc[c] * scale);
  }
}

// For few columns and many rows: reduces the rows in parts, to the workspace as [part][columns].
template <class T>
void ReduceColumnsInParts(Op op, int64_t columns, const Strided& reduced, double scale, const T* x, float* y,
                          std::byte* workspace, int64_t parts) {
  const int64_t rows = reduced.Elements();
  const auto part_at = [&](int64_t p) {
    return reinterpret_cast<double*>(workspace + p * ReducePartBytes(columns));
  };
#pragma omp parallel for schedule(static, 1) if (rows * columns > kParallelElements)
  for (int64_t p = 0; p < parts; ++p)
    ReduceColumnBlock(op, reduced, x, rows * p / parts, rows * (p + 1) / parts, columns, part_at(p));
  for (int64_t c = 0; c < columns; ++c) {
    double acc = Initial(op);
    for (int64_t p = 0; p < parts; ++p) acc = Combine(op, acc, part_at(p)[c]);
    y[c] = static_cast<float>(acc * scale);
  }
}

std::unique_ptr<Kernel> Reduce(Op op, const KernelSite& site, std::string* why) {
  if (!IsFloat32OrBFloat16(site.inputs[0].dtype) || site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "float32 or bfloat16 to float32 only");
  const auto shape = ReduceShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  if (site.inputs[0].elements == 0) return Refuse(why, "an empty tensor");
  const Strided kept = Merged(shape->kept), reduced = Merged(shape->reduced);
  const double scale = op == Op::kMean ? 1.0 / static_cast<double>(reduced.Elements()) : 1.0;
  if (kept.dims.empty() || kept.strides.back() != 1)
    return MakeKernel([=, rows = RowsOf(reduced)](const KernelArgs& args) -> std::string {
      WithFloatType(args.inputs[0].dtype, [&](auto type) {
        ReduceRows(op, kept, rows, scale, args.inputs[0].as<decltype(type)>(), args.outputs[0].as<float>());
      });
      return "";
    });
  const int64_t parts = CpuTarget().RowSumParts(kept.Elements());
  const int64_t workspace = parts * ReducePartBytes(kept.Elements());
  if (kept.dims.size() == 1 && reduced.Elements() >= 8 * parts && workspace <= site.workspace_bytes)
    return MakeKernel(
        [=, columns = kept.Elements()](const KernelArgs& args) -> std::string {
          WithFloatType(args.inputs[0].dtype, [&](auto type) {
            ReduceColumnsInParts(op, columns, reduced, scale, args.inputs[0].as<decltype(type)>(),
                                 args.outputs[0].as<float>(), args.workspace.data.as<std::byte>(), parts);
          });
          return "";
        },
        workspace, "in parts");
  return MakeKernel([=, rows = RowsOf(kept)](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      ReduceColumns(op, rows, reduced, scale, args.inputs[0].as<decltype(type)>(),
                    args.outputs[0].as<float>());
    });
    return "";
  });
}

}  // namespace

void RegisterCpuReduce(KernelRegistry& registry) {
  const auto add = [&registry](const std::string& op, const std::string& name, Op which) {
    registry.Add(
        op, {name, [which](const KernelSite& site, std::string* why) { return Reduce(which, site, why); }});
  };
  add("ReduceSum", "cpu.reduce_sum", Op::kSum);
  add("ReduceMean", "cpu.reduce_mean", Op::kMean);
  add("ReduceMax", "cpu.reduce_max", Op::kMax);
}

}  // namespace act
