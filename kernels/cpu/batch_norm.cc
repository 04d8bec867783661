#include <algorithm>
#include <limits>

#include "kernels/cpu/batch_rows.h"
#include "kernels/cpu/special.h"
#include "kernels/site/batch_norm_shape.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// Elements of x that are added up in float32 before they are merged in double. The first of each part
// are read twice, so they should stay in the second-level cache.
constexpr int64_t kChunkElements = 64 * 1024;
constexpr int64_t kFewestRows = 32, kMostRows = 256;

// Statistics of one part of the rows, in the workspace.
struct Part {
  double *mean, *m2;  // [C]: of the rows so far
  float* center;      // [C]: near the mean of the next rows
  float *low, *high;  // [C]: the rows' range so far
  Part(std::byte* at, int64_t channels) {
    mean = reinterpret_cast<double*>(at);
    m2 = mean + channels;
    center = reinterpret_cast<float*>(m2 + channels);
    low = center + channels;
    high = low + channels;
  }
};

// How the rows are cut, and the merged statistics of the parts.
struct Cut {
  int64_t parts = 1, part_bytes = 0;
  int64_t chunk = kFewestRows;  // rows that are merged at once
};

// finish(args, c, moments) takes the moments of each channel.
template <class T, class Finish>
void Compute(const BatchNormShape& s, const Cut& cut, const KernelArgs& args, const Finish& finish) {
  const T* x = args.inputs[0].as<T>();
  const auto begin = [&](int64_t part) { return s.rows * part / cut.parts; };
  const auto part_at = [&](int64_t p) {
    return Part(args.workspace.data.as<std::byte>() + p * cut.part_bytes, s.channels);
  };
#pragma omp parallel for schedule(static) if (s.rows * s.channels > kParallelElements)
  for (int64_t p = 0; p < cut.parts; ++p) {
    const Part part = part_at(p);
    std::fill_n(part.mean, 2 * s.channels, 0.0);
    std::fill_n(part.low, s.channels, std::numeric_limits<float>::infinity());
    std::fill_n(part.high, s.channels, -std::numeric_limits<float>::infinity());
    RowMoments moments{0, part.mean, part.m2, s.wants_range ? part.low : nullptr, part.high};
    for (int64_t r = begin(p); r < begin(p + 1); r += cut.chunk) {
      const int64_t rows = std::min(cut.chunk, begin(p + 1) - r);
      const T* from = x + r * s.channels;
      if (r == begin(p))
        MeanOfRows(from, rows, s.channels, part.center);
      else
        std::copy_n(part.mean, s.channels, part.center);
      MergeRows(from, rows, s.channels, part.center, moments);
    }
  }
  for (int64_t c = 0; c < s.channels; ++c) {
    BatchMoments all{.low = std::numeric_limits<float>::infinity(),
                     .high = -std::numeric_limits<float>::infinity()};
    for (int64_t p = 0; p < cut.parts; ++p) {
      const Part part = part_at(p);
      all = Merge(all, {begin(p + 1) - begin(p), part.mean[c], part.m2[c], part.low[c], part.high[c]});
    }
    finish(args, c, all);
  }
}

// A kernel of x that leaves the moments of each channel to `finish`.
template <class Finish>
std::unique_ptr<Kernel> OfEachChannel(const KernelSite& site, const BatchNormShape& shape, std::string* why,
                                      Finish finish) {
  const int64_t part_bytes = BatchNormPartBytes(shape.channels);
  const int64_t most = CpuTarget().RowSumParts(shape.channels);
  const int64_t parts = std::min(
      {most, std::max<int64_t>(shape.rows, 1), part_bytes > 0 ? site.workspace_bytes / part_bytes : most});
  if (parts < 1) return Refuse(why, "the workspace does not hold one part of the statistics");
  const int64_t chunk =
      std::clamp(kChunkElements / std::max<int64_t>(shape.channels, 1), kFewestRows, kMostRows);
  return MakeKernel(
      [s = shape, cut = Cut{parts, part_bytes, chunk}, finish](const KernelArgs& args) -> std::string {
        WithFloatType(args.inputs[0].dtype,
                      [&](auto type) { Compute<decltype(type)>(s, cut, args, finish); });
        return "";
      },
      parts* part_bytes);
}

std::unique_ptr<Kernel> BatchNormStats(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape) return nullptr;
  const auto results = BatchNormResultsOf(site, shape->channels, why);
  if (!results) return nullptr;
  return OfEachChannel(
      site, {shape->rows, shape->channels, results->wants_largest}, why,
      [r = *results](const KernelArgs& args, int64_t c, const BatchMoments& b) { r.Store(args, c, b); });
}

std::unique_ptr<Kernel> BatchNormMoments(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape || !HoldsMoments(site.outputs[0], shape->channels, why)) return nullptr;
  return OfEachChannel(site, *shape, why, AddMoments);
}

}  // namespace

void RegisterCpuBatchNorm(KernelRegistry& registry) {
  registry.Add("BatchNormStats", {"cpu.batch_norm_stats", BatchNormStats});
  registry.Add("BatchNormMoments", {"cpu.batch_norm_moments", BatchNormMoments});
}

}  // namespace act
